from __future__ import annotations

import datetime as dt

import pytest
from jinja2 import UndefinedError

from belated.live.dashboard.rendering import ago, at, file, link, number, render
from belated.live.service.problems import Problem


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "–"), (-3, "0 ms"), (0.0214, "21 ms"), (1, "1 s"), (59.4, "59 s"), (60, "1 min"), (3599, "60 min"),
        (3600, "1 h"), (86_400, "1 d"), (2_000_000, "23 d"),
    ],
)  # fmt: skip
def test_how_long_ago(seconds, words):
    assert ago(seconds) == words.replace(" ", "\u00a0")


@pytest.mark.parametrize(
    ("value", "words"), [(None, "–"), (0, "0"), (3.0, "3"), (2.345, "2.3"), (10.6, "11"), (1_234_567.8, "1,234,568")]
)
def test_counts_and_rates(value, words):
    assert number(value) == words


def test_a_time_is_to_the_second():
    assert at(dt.datetime(2026, 3, 1, 9, 30, 5, 999_999, dt.UTC)) == "2026-03-01 09:30:05"


def test_a_name_in_an_address_cannot_change_its_path():
    assert link("/new") == "/new"
    found = link("/answer", '../x?a=b&c#"><script>', part="facts")
    assert found == "/answer?experiment=..%2Fx%3Fa%3Db%26c%23%22%3E%3Cscript%3E&amp;part=facts"


def test_values_are_escaped_and_none_is_forgotten():
    values = {"problem": Problem("not-found", "<script>alert(1)</script>"), "token": None, "form": "", "path": "/x"}
    html = render("problem.html", **values)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "<script>" not in html
    del values["token"]
    with pytest.raises(UndefinedError):
        render("problem.html", **values)


@pytest.mark.parametrize(
    ("name", "media"),
    [("dashboard.css", "text/css; charset=utf-8"), ("dashboard.js", "text/javascript; charset=utf-8"),
     ("favicon.svg", "image/svg+xml")],
)  # fmt: skip
def test_files_that_pages_load_have_a_type_and_a_tag(name, media):
    found = file(name)
    assert found.media == media
    assert len(found.tag) == 24
    assert b"{%" not in found.content
    if not name.endswith("svg"):
        page = render("problem.html", problem=Problem("not-found", "x"), token=None, form="", path="/x")
        assert found.tag in page
