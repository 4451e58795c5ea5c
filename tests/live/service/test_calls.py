from __future__ import annotations

from urllib.parse import quote

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
