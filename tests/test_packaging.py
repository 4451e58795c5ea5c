"""What is released: its metadata, its files, its version, and the script that makes a release."""

from __future__ import annotations

import ast
import email
import re
import runpy
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

from belated.base.version import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("packages")
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    return folder


@pytest.fixture(scope="module")
def wheel(packages):
    with zipfile.ZipFile(packages / f"belated-{__version__}-py3-none-any.whl") as file:
        yield file


@pytest.fixture(scope="module")
def source_names(packages):
    with tarfile.open(packages / f"belated-{__version__}.tar.gz") as file:
        return {name.partition("/")[2] for name in file.getnames()}


@pytest.fixture(scope="module")
def metadata(wheel):
    return email.message_from_bytes(wheel.read(f"belated-{__version__}.dist-info/METADATA"))


def in_the_tree(*folders):
    files = (path for folder in folders for path in (ROOT / folder).rglob("*"))
    paths = (path.relative_to(ROOT) for path in files if path.is_file())
    return {path.as_posix() for path in paths if not _is_compiled(path)}


def _is_compiled(path):
    return any(part == "__pycache__" for part in path.parts) or path.suffix == ".pyc"


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert names == {name.removeprefix("src/") for name in in_the_tree("src")}
    assert "belated/py.typed" in names


def test_the_source_distribution_holds_what_tests_and_pages_need(source_names):
    assert in_the_tree("src", "tests", "docs", "deploy", "benchmarks", "examples", ".ci") <= source_names
    assert {"README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "Makefile"} <= source_names


def test_the_source_distribution_holds_no_other_folder(source_names):
    top = {name.partition("/")[0] for name in source_names if "/" in name}
    assert top == {".ci", "benchmarks", "deploy", "docs", "examples", "src", "tests"}


def test_the_metadata_is_complete(metadata):
    assert metadata["Version"] == __version__
    assert metadata["License-Expression"] == "BSD-3-Clause"
    assert metadata["Author"]
    assert metadata["Summary"]
    assert metadata.get_all("Project-URL")


def test_each_supported_python_is_named(metadata):
    least = int(re.fullmatch(r">=3\.(\d+)", metadata["Requires-Python"])[1])
    named = [
        int(match[1])
        for line in metadata.get_all("Classifier")
        if (match := re.fullmatch(r"Programming Language :: Python :: 3\.(\d+)", line))
    ]
    assert named == list(range(least, least + len(named)))
    assert len(named) >= 3


def test_the_package_page_links_to_no_file_that_it_does_not_have(metadata):
    page = metadata.get_payload()
    assert page.startswith("# belated")
    assert all(target.startswith("https://") for target in re.findall(r"\]\(([^)]*)\)", page))
    assert "`docs/method.md`" in page


def test_files_named_on_the_package_page_are_in_the_source_distribution(metadata, source_names):
    named = re.findall(r"`((?:docs|benchmarks|examples)/[^`]*)`", metadata.get_payload())
    assert named
    assert set(named) <= source_names


def test_no_part_of_the_core_package_needs_an_extra(metadata):
    needed = [line for line in metadata.get_all("Requires-Dist") if "extra ==" not in line]
    assert len(needed) == len(PROJECT["dependencies"])


def test_the_version_is_the_same_everywhere():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["version"] == __version__
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d{2}-\d{2}$", changes, re.MULTILINE)
    assert released[:1] in ([], [__version__])


def test_python_m_belated_prints_the_version():
    done = subprocess.run([sys.executable, "-m", "belated", "--version"], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.split()[-1]) == (0, __version__)


def test_software_and_paper_can_be_cited():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(cited)
    assert cited["type"] == "software"
    assert cited["license"] == PROJECT["license"]
    (paper,) = cited["references"]
    assert [author["family-names"] for author in paper["authors"]] == ["Shi", "Wang", "Wu"]
    assert paper["title"] in " ".join((ROOT / "README.md").read_text(encoding="utf-8").replace("\n> ", " ").split())


def test_the_changelog_has_the_form_of_keep_a_changelog():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^##+ .*$", text, re.MULTILINE)
    assert headings[0] == "## [Unreleased]"
    form = r"## \[\d+\.\d+\.\d+\] - \d{4}-\d{2}-\d{2}|### (Added|Changed|Deprecated|Removed|Fixed|Security)"
    assert [heading for heading in headings[1:] if not re.fullmatch(form, heading)] == []


@pytest.fixture(scope="module")
def release():
    return runpy.run_path(str(ROOT / ".ci" / "release.py"))


def test_a_release_moves_unreleased_changes_under_its_version(release):
    text = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- A.\n\n## [0.1.0] - 2026-01-01\n\n- B.\n"
    changelog = release["changelog"](text, "0.2.0", "2026-02-03")
    assert (
        changelog.index("[Unreleased]")
        < changelog.index("## [0.2.0] - 2026-02-03\n\n### Added\n\n- A.")
        < changelog.index("[0.1.0]")
    )


def test_a_release_without_changes_is_refused(release):
    with pytest.raises(SystemExit, match="lists no unreleased change"):
        release["changelog"]("## [Unreleased]\n\n## [0.1.0] - 2026-01-01\n\n- B.\n", "0.2.0", "2026-02-03")


def test_a_release_writes_its_version_everywhere(release):
    edits = release["EDITS"]
    texts = {
        name: edit((ROOT / name).read_text(encoding="utf-8"), "7.8.9", "2026-02-03") for name, edit in edits.items()
    }
    cited = yaml.safe_load(texts["CITATION.cff"])
    assert (cited["version"], cited["date-released"]) == ("7.8.9", "2026-02-03")
    (module,) = (node for node in ast.parse(texts["src/belated/base/version.py"]).body if isinstance(node, ast.Assign))
    assert ast.literal_eval(module.value) == "7.8.9"
    assert "## [7.8.9] - 2026-02-03" in texts["CHANGELOG.md"]
    again = edits["CITATION.cff"](texts["CITATION.cff"], "7.9.0", "2026-03-04")
    assert again.count("date-released") == 1


@pytest.mark.parametrize("version", ["", "1.2", "v1.2.3", "1.2.3; rm -rf x"])
def test_a_release_needs_a_version(release, version):
    with pytest.raises(SystemExit, match="must be three numbers"):
        release["check"](version)


def test_the_interpreters_that_are_listed_work_and_are_supported():
    listed = subprocess.run([ROOT / ".ci" / "pythons"], capture_output=True, text=True, check=True, timeout=120).stdout
    for each in listed.splitlines():
        supported = "import sys; sys.exit(sys.version_info < (3, 11))"
        subprocess.run([each, "-c", supported], check=True, timeout=60)
