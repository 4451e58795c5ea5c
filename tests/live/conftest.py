from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from engines import _parameter

import belated as bl

#: A moment in 2026, in microseconds.
NOON = 1_780_000_000_000_000
SECOND = 1_000_000


class Clock:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> int:
        return self.now

    def forward(self, seconds: float) -> None:
        self.now += int(seconds * SECOND)


@dataclass
class Place:
    """Where a test keeps its store, and how it opens it; every store is closed after the test."""

    kind: str
    url: str
    folder: Path
    clock: Clock = field(default_factory=Clock)
    _stores: list[bl.live.Store] = field(default_factory=list)

    def open(self, *, ticking: bool = False, own_clock: bool = True, **options: Any) -> bl.live.Store:
        clock = self.clock if own_clock else None
        store = bl.live.open(self.url, ticking=ticking, clock=clock, **options)
        self._stores.append(store)
        return store

    def create(self, name: str = "button", *, start: bool = True, **options: Any) -> bl.live.Experiment:
        given = {"arms": ["A", "B"], "policy": bl.policies.uniform(), "outcome": bl.live.binary(), "baseline": "A"}
        exp = self.open().create(name, **given | {"planned_rows": 1000} | options)
        return exp.start() if start else exp

    def again(self, name: str = "button", **options: Any) -> bl.live.Experiment:
        """Open the store once more, as another process would."""
        return self.open(**options).experiment(name)

    def sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run a statement beside the store."""
        with self.open().storage.writing() as session:
            return session.run(statement, *values)

    def close(self) -> None:
        for store in self._stores:
            store.close()


@pytest.fixture(params=[_parameter("sqlite"), _parameter("postgres")])
def engine(request: pytest.FixtureRequest) -> str:
    """Each storage in turn; the name is that of engines.py, which leaves out what is not there."""
    return str(request.param)


@pytest.fixture
def place(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Where a store may be: a new file, or a new database."""
    make: Callable[[], str] = (
        (lambda: str(tmp_path / "shop.belated")) if engine == "sqlite" else (lambda: new_database(request))
    )
    found = Place(engine, make(), tmp_path)
    yield found
    found.close()


def new_database(request: pytest.FixtureRequest) -> str:
    """Empty the tests' database of live experiments; return its URL."""
    server = request.getfixturevalue("postgres_engine")
    host = server.connection.con.info.host
    with psycopg.connect(host=host, user="postgres", dbname="postgres", autocommit=True) as connection:
        connection.execute("drop schema if exists belated_live cascade")
    return f"postgresql://postgres@/postgres?host={host}"
