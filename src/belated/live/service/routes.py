"""The table of routes: what the application serves and what the OpenAPI document describes."""

from __future__ import annotations

from functools import lru_cache

from belated.live.logs import ARROW
from belated.live.service import asking, changing, messages, reading
from belated.live.service.calls import JSON, Call, Endpoint, Reply, json_reply

_NAME = "/v1/experiments/{name}"


async def openapi(call: Call) -> Reply:
    """Describe the interface."""
    from belated.live.service.openapi import document

    return json_reply(document(ENDPOINTS))


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", "/live", reading.live, "Say that the service lives.", gives=messages.Health),
    Endpoint(
        "GET", "/ready", reading.ready, "Say whether it can serve: kernels compiled, storage writable.",
        gives=messages.Health, codes=(200, 503),
    ),
    Endpoint(
        "GET", "/metrics", reading.metrics, "Give counters and times for Prometheus.", ("read",),
        media=("text/plain; version=0.0.4; charset=utf-8",),
    ),
    Endpoint("GET", "/openapi.json", openapi, "Describe this interface."),
    Endpoint(
        "GET", "/v1/experiments", reading.experiments, "List the experiments that the token may read.", ("read",),
        whole=False, gives=messages.Listing,
    ),
    Endpoint(
        "POST", "/v1/experiments", changing.create, "Create an experiment.", ("admin",),
        takes=messages.Create, gives=messages.StatusReply, codes=(201, 409),
    ),
    Endpoint(
        "GET", _NAME, reading.experiment, "Say how an experiment is doing, and what was fixed at its creation.",
        ("read",), gives=messages.StatusReply,
    ),
    Endpoint(
        "POST", f"{_NAME}/ask", asking.ask, "Decide for a unit; the same unit always gets the same arm.", ("ask",),
        takes=messages.Ask, gives=messages.DecisionReply, stopped=messages.Stopped, codes=(200, 409, 410),
    ),
    Endpoint(
        "POST", f"{_NAME}/ask-many", asking.ask_many, "Decide for several units in one transaction.", ("ask",),
        takes=messages.AskMany, gives=messages.Decisions, codes=(200, 409, 410), many=True,
    ),
    Endpoint(
        "POST", f"{_NAME}/tell", asking.tell, "Store an outcome; told again, it changes nothing.", ("tell",),
        takes=messages.TellRequest, gives=messages.ToldReply, codes=(200, 202, 409, 410),
    ),
    Endpoint(
        "POST", f"{_NAME}/tell-many", asking.tell_many, "Store several outcomes in one transaction.", ("tell",),
        takes=messages.TellMany, gives=messages.ToldMany, codes=(200, 409, 410), many=True,
    ),
    Endpoint(
        "GET", f"{_NAME}/answer", reading.answer, "Say what an experiment says so far.", ("read",), codes=(200, 304),
        media=(JSON, ARROW),
    ),
    Endpoint(
        "GET", f"{_NAME}/log", reading.log, "Give the log.", ("read",), codes=(200, 409),
        media=(reading.CSV, ARROW), options=(("units", "true: with units, which needs the scope units."),),
    ),
    Endpoint(
        "GET", f"{_NAME}/changes", reading.changes, "Give the audit: every change, by whom and why.", ("read",),
        gives=messages.ChangeList,
    ),
    Endpoint(
        "POST", f"{_NAME}/changes", changing.change, "Change an experiment's state, arms or policy.", ("admin",),
        takes=messages.ChangeRequest, gives=messages.StatusReply, codes=(200, 409, 410),
    ),
    Endpoint(
        "GET", f"{_NAME}/versions", reading.versions, "Give policy versions in their order.", ("read",),
        gives=messages.Versions,
        options=(("after", "The number of the last version that is known."), ("limit", "How many at most.")),
    ),
    Endpoint(
        "POST", f"{_NAME}/replay", reading.replay, "Compute every policy version again, from the rows that it used.",
        ("admin",), gives=messages.Versions,
    ),
    Endpoint(
        "POST", f"{_NAME}/tick", changing.tick, "Make the next policy version now if anything is new.", ("admin",),
        gives=messages.Tick,
    ),
    Endpoint(
        "POST", f"{_NAME}/erase", changing.erase, "Erase a unit; answers do not change.", ("units",),
        takes=messages.Erase, gives=messages.Erased,
    ),
    Endpoint(
        "POST", "/v1/verify", changing.verify, "Draw every decision again, and check every rule.", ("admin",),
        gives=messages.Verified,
    ),
    Endpoint(
        "GET", "/v1/backup", changing.backup, "Send a copy of the store, a SQLite file.", ("admin", "units"),
        media=("application/vnd.sqlite3",),
    ),
    Endpoint(
        "GET", "/v1/tokens", changing.list_tokens, "List the tokens.", ("admin",), gives=messages.TokenList,
    ),
    Endpoint(
        "POST", "/v1/tokens", changing.make, "Make a token, which is shown once.", ("admin",),
        takes=messages.NewToken, gives=messages.MadeToken, codes=(201, 404),
    ),
    Endpoint(
        "DELETE", "/v1/tokens/{id}", changing.end_token, "Revoke a token.", ("admin",), codes=(204,),
    ),
)  # fmt: skip


class RouteTable:
    """Finds the endpoint of a path, by its parts as they are sent, before anything is decoded."""

    def __init__(self, endpoints: tuple[Endpoint, ...] = ENDPOINTS) -> None:
        self._exact: dict[bytes, dict[str, Endpoint]] = {}
        self._named: dict[tuple[bytes, bytes], dict[str, Endpoint]] = {}
        for each in endpoints:
            before, brace, after = each.path.partition("{")
            if brace:
                place = self._named.setdefault((before.encode(), after.partition("}")[2].encode()), {})
            else:
                place = self._exact.setdefault(each.path.encode(), {})
            place[each.method] = each
        self.find = lru_cache(maxsize=64)(self._find)

    def _find(self, path: bytes) -> tuple[dict[str, Endpoint], bytes] | None:
        """Return the endpoints of a path by their methods, and the part that is a name; None if there are none."""
        endpoints = self._exact.get(path)
        if endpoints is not None:
            return endpoints, b""
        parts = path.split(b"/", 4)
        if len(parts) < 4 or not parts[3]:
            return None
        rest = b"/" + parts[4] if len(parts) > 4 else b""
        endpoints = self._named.get((b"/".join(parts[:3]) + b"/", rest))
        return None if endpoints is None else (endpoints, parts[3])
