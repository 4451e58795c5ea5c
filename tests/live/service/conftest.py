from __future__ import annotations

from collections.abc import Iterator

import pytest
from served import Served, serving

from tests.live.conftest import STORAGES


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
