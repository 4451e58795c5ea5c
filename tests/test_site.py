"""The site's reference holds every public name, and every page is in its navigation."""

from __future__ import annotations

import importlib.util
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from documentation import ROOT

import belated as bl


@pytest.fixture(scope="module")
def site() -> Any:
    spec = importlib.util.spec_from_file_location("build_site", ROOT / "docs" / "build_site.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pages(nav: Any) -> Iterator[str]:
    for entry in nav if isinstance(nav, list) else nav.values():
        if isinstance(entry, str):
            yield entry
        else:
            yield from pages(entry)


def test_the_reference_describes_every_public_name(site):
    text = dict(site.reference_pages())
    for name in bl.__all__:
        assert f"`bl.{name}`" in text["index"]
        assert any(f"## `bl.{name}` " in page for page in text.values()), name
    assert "`bl.delays.pareto`" in text["index"]
    assert "--half-width" in text["commands"]


def test_members_of_a_base_in_the_same_package_are_described(site):
    assert {"outcome_name", "assigned_at", "arrived"} <= set(site.inherited(bl.Log))
    assert {"values", "std_errors", "arm", "window"} <= set(site.inherited(bl.Estimate))
    assert site.inherited(bl.estimate) == []


def test_every_page_is_in_the_navigation(site):
    listed = set(pages(tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]))
    docs = ROOT / "docs"
    written = {str(page.relative_to(docs)) for page in docs.rglob("*.md") if page.parent.name != "data"}
    evidence = {f"benchmarks/{page.name}" for page in (ROOT / "benchmarks").glob("*.md")}
    reference = {f"reference/{name}.md" for name in [*site.REFERENCE, "index", "commands"]}
    project = {"CONTRIBUTING.md", "CHANGELOG.md", "LICENSE.md"}
    assert listed == written | evidence | reference | project


def test_a_link_that_leads_nowhere_is_found(site, tmp_path, monkeypatch):
    monkeypatch.setattr(site, "SITE", tmp_path)
    (tmp_path / "a.html").write_text('<a href="b.html#there">b</a><a href="https://example.com">c</a>')
    (tmp_path / "b.html").write_text('<p id="there"></p><a href="a.html?x=1">a</a>')
    assert site.check() == []
    (tmp_path / "b.html").write_text(
        '<p id="gone"></p><img src="none.png"><script src="https://example.com/x.js"></script>'
    )
    assert site.check() == ["a.html: b.html#there", "b.html fetches https://example.com/x.js", "b.html: none.png"]
