"""Make the pages of the site: those of docs, those beside them, and the reference, which is read from the code.

`make docs` runs this. Zensical builds the site from the pages, and every link of the site is then followed.
"""

from __future__ import annotations

import inspect
import io
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote

import belated as bl
from belated.log.data import Data

ROOT = Path(__file__).parents[1]
PAGES, SITE = ROOT / "build" / "docs", ROOT / "build" / "site"

#: The pages of the reference: title, what it holds in a sentence, and the names of `belated`.
REFERENCE = {
    "reading": (
        "Read a log",
        "Logs in files, dataframes, databases and memory.",
        ["read", "Source", "Log", "Ledger", "Sums"],
    ),
    "estimating": (
        "Estimate and compare",
        "Estimates, intervals, tests, the best arm.",
        [
            "estimate", "Estimate", "Answer", "Answers", "Contrasts", "Best", "Lift", "Heterogeneity", "compare",
            "Comparison", "trajectory", "Trajectory", "Buildup", "Windows", "Maturity", "Estimator", "ESTIMATORS",
            "OutcomeModel", "Weights", "two_point",
        ],
    ),
    "looking": ("Look often", "Intervals that hold at every look.", ["sequence", "ConfidenceSequence"]),
    "checking": (
        "Check and report",
        "What could be wrong, and a page to send.",
        ["diagnose", "Diagnosis", "Check", "sensitivity", "Sensitivity", "report"],
    ),
    "planning": ("Plan", "How long to run and to wait.", ["plan", "Plan", "pilot", "Pilot"]),
    "simulating": (
        "Simulate",
        "Bandits, delays, policies, and studies of them.",
        ["Bandit", "ContextualBandit", "simulate", "study", "Study", "in_segment", "arms", "delays", "policies"],
    ),
    "live": ("Run experiments", "Decide, remember, learn and answer, in a file or a database.", ["live"]),
    "errors": (
        "Errors and warnings",
        "What is raised, and the version.",
        [
            "BelatedError", "LogError", "OptionError", "PolicyError", "UnknownArmError", "MergeError",
            "PropensitiesNeededError", "MissingLibraryError", "BelatedWarning", "__version__",
        ],
    ),
}  # fmt: skip


def make_pages() -> None:
    """Write the pages into build/docs."""
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(ROOT / "docs", PAGES, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    (PAGES / "benchmarks").mkdir()
    for page in (ROOT / "benchmarks").glob("*.md"):
        shutil.copy(page, PAGES / "benchmarks" / page.name)
    for name in ("CONTRIBUTING.md", "CHANGELOG.md", "LICENSE"):
        shutil.copy(ROOT / name, PAGES / (name if name.endswith(".md") else name + ".md"))
    for page in PAGES.rglob("*.md"):
        page.write_text(moved(page.read_text(encoding="utf-8"), page.relative_to(PAGES)), encoding="utf-8")
    folder = PAGES / "reference"
    folder.mkdir()
    for name, text in reference_pages():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")


def moved(text: str, page: Path) -> str:
    """Make links that lead out of docs lead to where the site has those pages."""
    up = "../" * (len(page.parts) - 1)
    text = re.sub(r"\]\((?:\.\./)+(benchmarks/|CONTRIBUTING\.md|CHANGELOG\.md)", rf"]({up}\1", text)
    text = re.sub(r"\]\((?:\.\./)*LICENSE\)", rf"]({up}LICENSE.md)", text)
    text = re.sub(r"\]\((?:\.\./)*docs/", rf"]({up}", text)  # of README and CONTRIBUTING
    text = re.sub(r"\]\((?:\.\./)+README\.md", rf"]({up}index.md", text)
    return re.sub(r" *<!--.*?-->\n?", "", text)


def reference_pages() -> Iterator[tuple[str, str]]:
    """Give the pages of the reference: an index by name, a page for each group, the commands."""
    yield "index", index()
    for page, (title, about, names) in REFERENCE.items():
        parts = [f"# {title}\n", f"{about}\n"]
        for name in names:
            parts += list(entry(name))
        yield page, "\n".join(parts)
    yield "commands", commands()


def entry(name: str) -> Iterator[str]:
    """Give the part of a page that describes a public name."""
    thing = getattr(bl, name)
    yield f"## `bl.{name}` {{ #{name.strip('_')} }}\n"
    if isinstance(thing, ModuleType):
        yield f"{inspect.getdoc(thing)}\n"
        for part in constructors(thing):
            yield f"### `bl.{name}.{part.__name__}` {{ #{name}.{part.__name__} }}\n"
            yield described(part, f"bl.{name}.{part.__name__}")
    elif inspect.isclass(thing) or inspect.isfunction(thing):
        yield described(thing, f"bl.{name}")
    elif isinstance(thing, str):
        yield "The version of the package, as text.\n"
    else:
        yield "The estimators by name: " + ", ".join(f"`{key}`" for key in thing) + ". The table of"
        yield "[the method](../method.md) says what each is.\n"


def constructors(module: ModuleType) -> list[type]:
    """Give the public functions and classes that a module defines, in its order."""
    return [
        part
        for key, part in vars(module).items()
        if not key.startswith("_") and callable(part) and _is_of(part, module)
    ]


def _is_of(part: object, module: ModuleType) -> bool:
    """Whether a module defines something, or its package does and the module names it."""
    home = getattr(part, "__module__", "")
    return home == module.__name__ or home.startswith(f"{module.__name__}.")


def described(thing: type, name: str) -> str:
    """Show how a function or class is called, and have mkdocstrings describe it; results are not called by users."""
    text = f"::: {thing.__module__}.{thing.__qualname__}\n"
    if names := inherited(thing):
        text += f"    options:\n      inherited_members: [{', '.join(names)}]\n"
    if inspect.isclass(thing) and "Parameters\n---" not in (inspect.getdoc(thing) or ""):
        return text
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in inspect.signature(thing).parameters.values()]
    call = name + str(inspect.Signature(plain))
    return f"```python\n{textwrap.fill(call, 100, subsequent_indent='    ', break_on_hyphens=False)}\n```\n\n{text}"


def inherited(thing: type) -> list[str]:
    """Give the public members of a class that a base of its own package defines, as the rows of a log."""
    home = thing.__module__.rpartition(".")[0]
    bases = thing.__mro__[1:] if inspect.isclass(thing) else ()
    return [
        name
        for base in bases
        if base.__module__.startswith(f"{home}.") and base is not Data
        for name in vars(base)
        if not name.startswith("_") and name not in vars(thing)
    ]


def index() -> str:
    """List every public name with its first sentence."""
    places = {name: page for page, (_, _, names) in REFERENCE.items() for name in names}
    missing = set(bl.__all__) - set(places)
    if missing:
        raise SystemExit(f"The reference leaves out {', '.join(sorted(missing))}; add it to REFERENCE.")
    lines = [
        "# Reference\n",
        "Every name of `import belated as bl`, in alphabetical order.",
        "Commands are on [a page of their own](commands.md).\n",
        "| name | what it is |",
        "|---|---|",
    ]
    for name in sorted(bl.__all__, key=lambda each: each.strip("_").lower()):
        thing = getattr(bl, name)
        lines.append(f"| [`bl.{name}`]({places[name]}.md#{name.strip('_')}) | {first_sentence(thing)} |")
        if isinstance(thing, ModuleType):
            lines += [
                f"| [`bl.{name}.{part.__name__}`]({places[name]}.md#{name}.{part.__name__}) | {first_sentence(part)} |"
                for part in constructors(thing)
            ]
    return "\n".join(lines) + "\n"


def first_sentence(thing: object) -> str:
    """Give the first line of a docstring, for a table."""
    if isinstance(thing, str | dict) or not inspect.getdoc(thing):
        return "The version of the package." if isinstance(thing, str) else "The estimators by name."
    return (inspect.getdoc(thing) or "").split("\n\n")[0].replace("\n", " ").replace("|", "\\|")


def commands() -> str:
    """Show the help of every command."""
    from belated.cli.app import build  # here, because it takes a while
    from belated.cli.live import commands as live_commands

    os.environ.update(COLUMNS="100", TERMINAL_WIDTH="100", NO_COLOR="1", _TYPER_FORCE_DISABLE_TERMINAL="1")
    names = [[command.callback.__name__] for command in build().registered_commands if command.callback]
    names += [["live"], *(["live", *words] for words in live_commands())]
    parts = ["# Commands\n", "What `belated --help` and `belated <command> --help` print.\n"]
    for words in [[], *names]:
        out = io.StringIO()
        with redirect_stdout(out), suppress(SystemExit):
            build(words)([*words, "--help"], prog_name="belated")
        text = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())
        lines = "\n".join(line.rstrip() for line in text.strip().splitlines())
        parts += [f"## `{' '.join(['belated', *words])}`\n", f"```text\n{lines}\n```\n"]
    return "\n".join(parts)


class Links(HTMLParser):
    """Collect where a page of the site leads, and what in it can be led to."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag links to, and its names."""
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.targets.append(value)
            if name in ("id", "name") and value:
                self.anchors.add(value)


def check() -> list[str]:
    """Find links of the site that lead nowhere, and whatever would be fetched from elsewhere."""
    pages = {}
    for path in SITE.rglob("*.html"):
        pages[path] = Links()
        pages[path].feed(path.read_text(encoding="utf-8"))
    wrong = []
    for path, links in pages.items():
        if path.name == "404.html":
            continue
        for target in links.targets:
            place, _, anchor = unquote(target).partition("#")
            if re.match(r"[a-z]+:|//", place):
                continue
            goal = (path.parent / place.split("?")[0]).resolve() if place else path
            goal = goal / "index.html" if goal.is_dir() else goal
            if not goal.exists() or (anchor and goal in pages and anchor not in pages[goal].anchors):
                wrong.append(f"{path.relative_to(SITE)}: {target}")
        fetched = re.compile(
            r'<(?:script|img|iframe|link rel="(?:stylesheet|preconnect)")[^>]*(?:src|href)="(https?:[^"]+)'
        )
        text = path.read_text(encoding="utf-8")
        wrong += [f"{path.relative_to(SITE)} fetches {url}" for url in fetched.findall(text)]
    return sorted(wrong)


def build() -> None:
    """Make the pages, have Zensical build the site, and check it: a warning or a dead link fails."""
    make_pages()
    zensical = Path(sys.executable).with_name("zensical")
    command = [str(zensical), "build", "--clean", "--strict"]
    done = subprocess.run(command, cwd=ROOT, check=False, text=True, capture_output=True)  # noqa: S603
    said = done.stdout + done.stderr
    if done.returncode or re.search(r"warning|griffe", said, re.IGNORECASE):
        sys.exit(said)
    if wrong := check():
        sys.exit("\n".join([f"{len(wrong)} links of the site lead nowhere:", *wrong]))
    sys.stdout.write(f"{len(list(SITE.rglob('*.html')))} pages in {SITE.relative_to(ROOT)}; open index.html\n")


if __name__ == "__main__":
    build()
