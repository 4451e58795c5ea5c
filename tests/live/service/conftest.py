from __future__ import annotations

from collections.abc import Iterator

import pytest
from served import Served, serving

import belated as bl
from tests.live.conftest import STORAGES, button


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


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The same store for all requests of a module that are refused before they reach a storage."""
    path = tmp_path_factory.mktemp("shared") / "shop.belated"
    with bl.live.open(path, ticking=False) as store, serving(store) as found:
        button(store).start()
        yield found
