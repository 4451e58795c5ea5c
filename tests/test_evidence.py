"""Every page of benchmarks says what made it and where, and the Makefile makes it."""

from __future__ import annotations

import re

import pytest
from documentation import ROOT

PAGES = sorted((ROOT / "benchmarks").glob("*.md"))

#: Pages whose name is not that of their script.
SCRIPTS = {"COVERAGE": "intervals", "RESULTS": "speed"}


def script(page):
    return SCRIPTS.get(page.stem, page.stem.lower())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_names_its_script_and_its_machine(page):
    text = page.read_text()
    assert f"benchmarks/{script(page)}.py" in text
    assert (ROOT / "benchmarks" / f"{script(page)}.py").is_file()
    assert re.search(r"\b(\d+|one) cores?\b|the machine was not recorded", text, re.IGNORECASE)


def test_the_makefile_makes_every_page():
    rules = (ROOT / "Makefile").read_text()
    loop = re.search(r"for each in ([\w ]+); do \\\n.*benchmarks/\$\$each", rules)
    scripts = {*loop[1].split(), *re.findall(r"benchmarks/(\w+)\.py", rules)}
    assert {script(page) for page in PAGES} - scripts == set()
