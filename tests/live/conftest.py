from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from engines import _parameter
from served import serving

import belated as bl
from belated.kernels.jit import compile_kernels
from belated.live.connecting import ServiceConnection
from belated.live.design import snapshot
from belated.live.schema import MIGRATIONS, TABLES
from belated.live.store import open_storage

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

    @property
    def home(self) -> str:
        """Where the storage is."""
        return self.url

    def open(self, *, ticking: bool = False, own_clock: bool = True, **options: Any) -> bl.live.Store:
        clock = self.clock if own_clock else None
        store = bl.live.open(self.url, ticking=ticking, clock=clock, **options)
        self._stores.append(store)
        return store

    def create(self, name: str = "button", *, start: bool = True, **options: Any) -> bl.live.Experiment:
        exp = button(self.open(), name, **options)
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


def button(store: bl.live.Store, name: str = "button", **options: Any) -> bl.live.Experiment:
    """Create an experiment of two arms, as a draft."""
    given = {"arms": ["A", "B"], "policy": bl.policies.uniform(), "outcome": bl.live.binary(), "baseline": "A"}
    return store.create(name, **given | {"planned_rows": 1000} | options)


class SeenStore(bl.live.RemoteStore):
    """A store behind a service; `storage` is one under the service, so that tests can look into its tables."""

    storage: Any

    def experiment(self, name: str, **options: Any) -> bl.live.RemoteExperiment:
        exp: Any = super().experiment(name, **options)
        with self.storage.reading() as session:
            exp._id = snapshot(session, name).id
        return exp


class ServedPlace(Place):
    """A file that is served over HTTP by this process, and opened through the client."""

    def serve(self, stack: ExitStack) -> None:
        self.path = self.url
        self.served = stack.enter_context(serving(super().open()))
        self.url = self.served.url

    @property
    def home(self) -> str:
        return self.path

    def open(self, *, ticking: bool = False, own_clock: bool = True, **options: Any) -> Any:
        opened = SeenStore(ServiceConnection(self.url, self.served.token, 60.0, options.pop("retries", 2)), **options)
        if len(self._stores) == 1:
            opened.storage = self.served.store.storage
        else:  # another process's
            opened.storage = open_storage(self.path, self.clock)
            self._stores.append(opened.storage)
        self._stores.append(opened)
        return opened


@pytest.fixture(autouse=True, scope="session")
def compiled() -> None:
    """Compile the kernels first: answers repeat to the last digit, but the interpreter's is another one."""
    compile_kernels()


#: The storages themselves, and one that is served and used through the client.
STORAGES = [_parameter("sqlite"), _parameter("postgres")]


def of_storages(why: str) -> pytest.MarkDecorator:
    """Mark a clause that is about storages alone, and say why it does not concern a client."""
    assert why
    return pytest.mark.parametrize("engine", STORAGES, indirect=True)


def in_storages(name: str, values: list[str]) -> pytest.MarkDecorator:
    """Mark a clause that holds for each of these values in each storage, and for the last one through a service."""
    pairs = [pytest.param(*storage.values, value, marks=storage.marks) for storage in STORAGES for value in values]
    return pytest.mark.parametrize(("engine", name), [*pairs, ("http", values[-1])], indirect=["engine"])


@pytest.fixture(params=[*STORAGES, "http"])
def engine(request: pytest.FixtureRequest) -> str:
    """Each storage in turn; the name is that of engines.py, which leaves out what is not there."""
    return str(request.param)


@pytest.fixture
def place(
    engine: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Place]:
    """Where a store may be: a new file, a new database, or a new file that is served."""
    make: Callable[[], str] = (
        (lambda: new_database(request)) if engine == "postgres" else (lambda: str(tmp_path / "shop.belated"))
    )
    with ExitStack() as stack:
        found = (ServedPlace if engine == "http" else Place)(engine, make(), tmp_path)
        stack.callback(found.close)
        if isinstance(found, ServedPlace):
            found.serve(stack)
            monkeypatch.setenv("BELATED_TOKEN", found.served.token)
        yield found


def new_database(request: pytest.FixtureRequest) -> str:
    """Empty the tests' database of live experiments; return its URL."""
    server = request.getfixturevalue("postgres_engine")
    host = server.connection.con.info.host
    with psycopg.connect(host=host, user="postgres", dbname="postgres", autocommit=True) as connection:
        if _is_usual(connection):  # to make the tables anew takes longer than most tests
            connection.execute("set search_path = belated_live")
            connection.execute("; ".join(f"delete from {table}" for table in TABLES))  # noqa: S608
            connection.execute(
                "update meta set value = '0' where key = 'offset'; drop index if exists decision_assigned"
            )
        else:
            connection.execute("drop schema if exists belated_live cascade")
    return f"postgresql://postgres@/postgres?host={host}"


def _is_usual(connection: psycopg.Connection[Any]) -> bool:
    """Whether the tables are those of the present schema, and small."""
    try:
        found = connection.execute(
            "select value, pg_total_relation_size('belated_live.decision') from belated_live.meta where key = 'schema'"
        ).fetchone()
    except psycopg.errors.UndefinedTable:
        return False
    return found is not None and found[0] == str(len(MIGRATIONS)) and found[1] < 1_000_000
