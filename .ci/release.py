"""Make a release: the version, the changelog, the packages, a commit and a tag.

Nothing is uploaded. If anything fails before the commit, the files are as they were.
"""

from __future__ import annotations

import datetime as dt
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UNRELEASED = "## [Unreleased]\n"


def changelog(text: str, version: str, day: str) -> str:
    """Return the changelog with its unreleased changes under a version."""
    _, heading, rest = text.partition(UNRELEASED)
    if not heading:
        raise SystemExit(f"CHANGELOG.md has no line {UNRELEASED.strip()!r}; add it above the changes.")
    if not re.search(r"^- ", rest.split("\n## [")[0], re.MULTILINE):
        raise SystemExit("CHANGELOG.md lists no unreleased change; describe what this release changes.")
    return text.replace(UNRELEASED, f"{UNRELEASED}\n## [{version}] - {day}\n", 1)


def version_file(text: str, version: str, day: str) -> str:
    """Return the version's module with the version."""
    return re.sub(r'__version__ = ".*"', f'__version__ = "{version}"', text)


def citation(text: str, version: str, day: str) -> str:
    """Return CITATION.cff with the version and the day."""
    text = re.sub(r"^date-released: .*\n", "", text, flags=re.MULTILINE)
    return re.sub(r"^version: .*$", f'version: {version}\ndate-released: "{day}"', text, flags=re.MULTILINE)


EDITS: dict[str, Callable[[str, str, str], str]] = {
    "CHANGELOG.md": changelog,
    "CITATION.cff": citation,
    "src/belated/base/version.py": version_file,
}


def run(*command: str) -> str:
    """Run a command in the repository; return what it prints."""
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()  # noqa: S603


def check(version: str) -> None:
    """Refuse what cannot be a release."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise SystemExit(f"The version is {version!r}; it must be three numbers: make release VERSION=0.2.0")
    if run("git", "status", "--porcelain"):
        raise SystemExit("There are changes that are not committed; commit or stash them first.")
    numbers = [int(part) for part in version.split(".")]
    for tag in run("git", "tag", "--list", "v*.*.*").split():
        if re.fullmatch(r"v\d+\.\d+\.\d+", tag) and [int(part) for part in tag[1:].split(".")] >= numbers:
            raise SystemExit(f"{tag} is released already; the version must be higher than that, and is {version}.")


def main(version: str) -> None:
    """Edit, build, test, commit, tag."""
    check(version)
    day = dt.datetime.now(dt.UTC).date().isoformat()
    before = {name: (ROOT / name).read_text(encoding="utf-8") for name in EDITS}
    after = {name: edit(before[name], version, day) for name, edit in EDITS.items()}
    try:
        for name, text in after.items():
            (ROOT / name).write_text(text, encoding="utf-8")
        subprocess.run(["make", "lint", "dist-test"], cwd=ROOT, check=True)  # noqa: S607
        run("git", "commit", "--quiet", "--message", f"Release {version}", *EDITS)
    except BaseException as error:
        for name, text in before.items():
            (ROOT / name).write_text(text, encoding="utf-8")
        if isinstance(error, subprocess.CalledProcessError):
            raise SystemExit(f"No release: {' '.join(error.cmd)} failed. The files are as they were.") from error
        raise
    run("git", "tag", "--annotate", f"v{version}", "--message", f"belated {version}")
    print(f"Release {version} is committed and tagged v{version}. To publish it:")
    print("  git push --follow-tags")
    print(f"  {Path(sys.executable).parent / 'twine'} upload dist/*")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) == 2 else "")
