"""Every block of README and docs runs and prints what its page shows; every link leads somewhere.

`make docs-refresh` writes what the blocks print into the pages.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from documentation import PAGES, ROOT, Page, abridged, agree

#: Blocks that do not run, by page. Keep them few.
NOT_RUN = {
    "docs/how-to/deploy.md": 3,
    "docs/how-to/serve.md": 1,
    "docs/how-to/dashboard.md": 1,
    "docs/tables.md": 1,
}


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_block_of_a_page_prints_what_the_page_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    run = Page(page)
    run.run()
    if os.environ.get("BELATED_REFRESH_DOCS"):
        run.refresh()
    else:
        assert not run.differences, "\n\n".join([*run.differences, "`make docs-refresh` writes what is printed."])


def test_few_blocks_do_not_run_and_each_says_why():
    left_out = {name(page): len([b for b in Page(page).blocks if b.not_run]) for page in PAGES}
    assert {page: count for page, count in left_out.items() if count} == NOT_RUN


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_code_hides_from_the_runner(page):
    run = Page(page)
    inside = {number for block in run.blocks for number in range(block.line, block.end + 1)}
    outside = [line for number, line in enumerate(run.lines) if number not in inside]
    hidden = [
        line for line in outside if re.match(r"(    )+(>>> |\$ |import |from \w+ import|belated |bl\.|print\()", line)
    ]
    assert not hidden, "write code in a fenced block with its language"
    unnamed = [
        b for b in run.blocks if not b.language and re.search(r"^(\$ |>>> |belated |import )", b.text, re.MULTILINE)
    ]
    assert not unnamed, [f"line {b.line + 1}: name the language of the block" for b in unnamed]
    assert not [b for b in run.blocks if b.language in ("sh", "shell", "py", "pycon")], "use python, console or bash"


def test_readme_begins_with_a_snippet_that_runs_when_pasted():
    first = next(block for block in Page(ROOT / "README.md").blocks if block.language == "python")
    assert first.body[0] == "import belated as bl"


def test_what_a_comment_of_readme_quotes_is_what_comes():
    readme = Page(ROOT / "README.md")
    names: dict[str, object] = {}
    exec(next(b for b in readme.blocks if b.language == "python").text.split("print(")[0], names)  # noqa: S102
    quoted = re.search(r"^(est\.lift\(.*?\)\.words)  # .*: '(.*)'$", "\n".join(readme.lines), re.MULTILINE)
    assert quoted is not None
    assert eval(quoted[1], names) == quoted[2]  # noqa: S307


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=name)
def test_every_link_within_the_project_leads_somewhere(page):
    run = Page(page)
    for target in [*run.links(pictures=False), *run.links(pictures=True)]:
        place = (page.parent / target).resolve()
        assert place.exists() or place.parent == ROOT / "docs" / "reference", target  # test_site.py knows those


# the runner itself


def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> Page:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "page.md").write_text(text)
    page = Page(tmp_path / "page.md")
    page.run()
    return page


def test_blocks_share_names_and_files(tmp_path, monkeypatch):
    page = written(
        tmp_path,
        monkeypatch,
        '```csv title="a.csv"\nx\n1\n```\n\n'
        '```python\nimport pathlib\nn = len(pathlib.Path("a.csv").read_text())\n```\n\n'
        "```python\nprint(n)\n```\n\n```text\n4\n```\n\n```console\n$ cat a.csv | tail -1\n1\n```\n",
    )
    assert not page.differences


@pytest.mark.parametrize(
    "text",
    [
        "```python\nprint(1)\n```\n",
        "```python\nprint(1)\n```\n\n```text\n2\n```\n",
        "```python\npass\n```\n\n```text\n2\n```\n",
        "```console\n$ echo 1\n2\n```\n",
        "```console\n$ echo 1\n\n$ echo 2\n2\n```\n",
        "```bash\necho 1\n```\n",
        '```python\nimport belated, warnings\nwarnings.warn("x", belated.BelatedWarning)\n```\n',
        "![a](figures/a.png)\n\n```python\npass\n```\n",
    ],
)
def test_what_is_not_shown_or_not_printed_is_a_difference(text, tmp_path, monkeypatch):
    page = written(tmp_path, monkeypatch, text)
    assert page.differences
    if "![" not in text:
        page.refresh()
        (tmp_path / "again").mkdir()
        monkeypatch.chdir(tmp_path / "again")
        again = Page(tmp_path / "page.md")
        again.run()
        assert not again.differences


@pytest.mark.parametrize(
    "text", ["```python\n1 / 0\n```\n", "```bash\nfalse\n```\n", "```console\n$ belated no\n```\n"]
)
def test_a_failure_that_is_not_shown_fails(text, tmp_path, monkeypatch):
    with pytest.raises((AssertionError, ZeroDivisionError)):
        written(tmp_path, monkeypatch, text)


def test_an_error_that_is_shown_is_compared(tmp_path, monkeypatch):
    text = "```python\n1 / 0\n```\n\n```text\nZeroDivisionError: division by zero\n```\n"
    assert not written(tmp_path, monkeypatch, text).differences
    assert written(tmp_path, monkeypatch, text.replace("by zero", "by 0")).differences


def test_three_dots_stand_for_any_lines():
    assert agree(["a", "...", "d"], ["a", "b", "c", "d"])
    assert agree(["..."], [])
    assert not agree(["a", "...", "d"], ["a", "b"])
    assert not agree(["...", "x"], ["x", "y"])


def test_a_refresh_keeps_the_three_dots():
    assert abridged(["a", "...", "x"], ["b", "c", "d", "y"]) == ["b", "...", "y"]
    assert abridged(["...", "x"], ["y"]) == ["...", "y"]
    assert abridged(["a"], ["b", "c"]) == ["b", "c"]
