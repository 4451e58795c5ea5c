from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from served import Served, serving

import belated as bl
from belated.live.schema import TABLES
from tests.live.conftest import STORAGES, button

BUTTON = "/v1/experiments/button"
ASK, TELL = f"{BUTTON}/ask", f"{BUTTON}/tell"

#: Every route that changes something, and what it usually gets.
CHANGES = [
    ("POST", ASK, {"unit": "ada"}),
    ("POST", f"{BUTTON}/ask-many", {"units": ["ada"]}),
    ("POST", TELL, {"unit": "ada", "value": 1}),
    ("POST", f"{BUTTON}/tell-many", {"outcomes": [{"unit": "ada", "value": 1}]}),
    (
        "POST",
        "/v1/experiments",
        {"name": "n", "arms": ["A"], "policy": {"name": "uniform"}, "outcome": {"kind": "binary"}},
    ),
    ("POST", f"{BUTTON}/changes", {"what": "stop"}),
    ("POST", f"{BUTTON}/tick", None),
    ("POST", f"{BUTTON}/erase", {"unit": "ada"}),
    ("POST", "/v1/tokens", {"label": "x", "scopes": ["ask"]}),
    ("DELETE", "/v1/tokens/1", None),
]
READS = [
    "/metrics",
    "/v1/experiments",
    BUTTON,
    f"{BUTTON}/answer",
    f"{BUTTON}/log",
    f"{BUTTON}/changes",
    f"{BUTTON}/versions",
    "/v1/backup",
    "/v1/tokens",
]
ALL = [*CHANGES, *(("GET", path, None) for path in READS), ("POST", "/v1/verify", None)]


def stored(served: Served) -> dict[str, int]:
    with served.store.storage.reading() as session:
        return {table: session.run(f"select count(*) from {table}")[0][0] for table in TABLES}  # noqa: S608


@contextlib.contextmanager
def nothing_stored(served: Served) -> Iterator[None]:
    before = stored(served)
    yield
    assert stored(served) == before


@pytest.fixture(params=STORAGES)
def engine(request: pytest.FixtureRequest) -> str:
    """Each storage in turn; what is served is never itself a service."""
    return str(request.param)


@pytest.fixture
def served(place) -> Iterator[Served]:
    """A store with a running experiment named button, in each storage, over HTTP."""
    exp = place.create()
    with serving(exp._store) as found:
        yield found


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The same store for all requests that are refused before they reach a storage."""
    path = tmp_path_factory.mktemp("shared") / "shop.belated"
    with bl.live.open(path, ticking=False) as store, serving(store) as found:
        button(store).start()
        yield found
