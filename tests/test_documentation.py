"""README runs when it is pasted, and every link of README and docs leads somewhere."""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

#: A block of Python, and the block of output that may follow it.
BLOCK = re.compile(r"```python\n(.*?)```\n(?:\n```\n(.*?)```\n)?", re.DOTALL)


def test_readme_runs_in_an_empty_folder_and_prints_what_it_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(blocks) >= 2
    assert "import belated as bl" in blocks[0][0]
    names: dict[str, object] = {}
    for code, shown in blocks:
        out = io.StringIO()
        with contextlib.redirect_stdout(out), warnings.catch_warnings():
            warnings.simplefilter("error")
            exec(compile(code, "README.md", "exec"), names)  # noqa: S102
        if shown:
            assert out.getvalue() == shown
    assert (tmp_path / "report.html").exists()


def test_what_a_comment_of_readme_quotes_is_what_comes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    names: dict[str, object] = {}
    exec(BLOCK.findall(text)[0][0].split("print(")[0], names)  # noqa: S102
    quoted = re.search(r"^(est\.lift\(.*?\)\.words)  # .*: '(.*)'$", text, re.MULTILINE)
    assert quoted is not None
    assert eval(quoted[1], names) == quoted[2]  # noqa: S307


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_within_the_project_leads_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target
