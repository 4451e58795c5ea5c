from __future__ import annotations

from urllib.parse import quote

import pytest

from belated.live.service.calls import Call, has_tag, read_name
from belated.live.service.problems import Problem
from tests.live.service.conftest import BUTTON, nothing_stored


def test_path_tricks_in_names(served):
    for name in ["a/b", "..", ".", "../button", "%2e%2e", "a%2Fb", "?", "#", ";", "ask", " ", "+", "é"]:
        new = {"name": name, "arms": ["A", "B"], "policy": {"name": "uniform"}, "outcome": {"kind": "binary"}}
        path = f"/v1/experiments/{quote(name, safe='').replace('.', '%2E')}"
        assert served.get(path).kind == "unknown-experiment"
        assert served.post("/v1/experiments", new | {"start": True}).status == 201
        assert served.post(f"{path}/ask", {"unit": "ada"}).status == 200
        assert served.get(path).json["name"] == name
        assert (served.get(path).json["asked"], served.get(BUTTON).json["asked"]) == (1, 0)


def test_queries_that_cannot_be_read(shared):
    with nothing_stored(shared):
        assert shared.get(f"{BUTTON}/versions?{'limit=1&' * 21}").kind == "malformed"
        for query in ("limit=%ff", "limit=-1", "after=1e3", "limit=", "limit=99999999999"):
            assert shared.get(f"{BUTTON}/versions?{query}").kind == "invalid"


@pytest.mark.parametrize(
    ("part", "name"), [(b"a%2Fb", "a/b"), (b"%2e%2E", ".."), (b"%C3%A9", "é"), (b"a+b", "a+b"), (b"%2525", "%25")]
)
def test_a_name_is_decoded_once(part, name):
    assert read_name(part) == name


@pytest.mark.parametrize("part", [b"%", b"%2", b"%zz", b"%ff", b"a%C3"])
def test_a_part_of_a_path_that_is_no_name(part):
    with pytest.raises(Problem) as caught:
        read_name(part)
    assert caught.value.kind == "malformed"


@pytest.mark.parametrize(
    ("given", "has"),
    [('"a"', True), ('W/"a"', True), ('"b", W/"a"', True), (" * ", True), ("", False), ('"ab"', False), ("a", False)],
)
def test_whether_a_client_has_what_a_tag_stands_for(given, has):
    assert has_tag(given, '"a"') is has


def test_options_of_a_query():
    call = Call(None, "", None, None, b"a=1&a=2&b=&c=%C3%A9&n=10&m=11", {})
    assert [call.option(name, "none") for name in "abcd"] == ["2", "", "é", "none"]
    assert (call.number("n", 3, 10), call.number("k", 3, 10)) == (10, 3)
    for name in "mbc":
        with pytest.raises(Problem, match=f"`{name}` must be a whole number from 0 to 10"):
            call.number(name, 3, 10)
