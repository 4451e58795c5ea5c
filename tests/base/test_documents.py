from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from jinja2 import TemplateNotFound, UndefinedError

from belated.base.documents import SCHEMAS, Document, apart, json_rows, json_text, page, plain
from belated.base.version import __version__

DOCS = Path(__file__).parents[2] / "docs" / "json.md"


def test_a_document_says_who_wrote_it_and_by_which_schema():
    document = json.loads(json_text("plan", {"horizon": 5, "wait": math.inf}))
    assert document == {"belated": __version__, "schema": SCHEMAS["plan"], "horizon": 5, "wait": None}
    assert list(document)[:2] == ["belated", "schema"]


def test_names_written_from_right_to_left_are_set_apart_and_escaped():
    assert apart("<b> & שלום: 95%") == "&lt;b&gt; &amp; <bdi>שלום</bdi>: 95%"
    assert apart("A & B") == "A &amp; B"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (math.nan, None),
        (-math.inf, None),
        (np.float64("nan"), None),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (np.str_("A"), "A"),
        ({1: (1.5, [np.float32(0.5)])}, {"1": [1.5, [0.5]]}),
        (np.datetime64("NaT", "s"), None),
    ],
)
def test_values_as_json_has_them(value, expected):
    assert plain(value) == expected
    assert type(plain(value)) is type(expected)


def test_moments_are_text_of_any_unit():
    for unit in ("D", "s", "us", "ns"):
        assert "2024-05-06" in json_text("study", {"at": np.datetime64("2024-05-06", unit)})


def test_columns_become_rows():
    assert json_rows({"a": [1, 2], "b": ["x", math.nan]}) == [{"a": 1, "b": "x"}, {"a": 2, "b": None}]


def test_every_kind_has_a_schema_that_is_documented():
    assert set(SCHEMAS) == set(get_args(Document))
    text = DOCS.read_text()
    for kind, schema in SCHEMAS.items():
        assert f"## {kind}, schema {schema}\n" in text


def test_a_package_has_its_own_templates():
    with pytest.raises(TemplateNotFound):
        page("belated.reports", "paper.html")
    with pytest.raises(UndefinedError):  # found, and nothing may be left out
        page("belated.simulation.paper", "paper.html")


def test_jinja_is_loaded_for_pages_alone():
    code = "import sys, belated.base.documents, belated; sys.exit('jinja2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
