"""One test, every engine: DuckDB in memory, a PostgreSQL server of our own, a local Spark.

The fixture `engine` runs a test once per engine, and twice on PostgreSQL: `postgres` sums up rows there, `copied`
copies them first. A server starts when the first test asks for it and
stops with the session; an engine that is not there is left out, with its reason, unless
``BELATED_ALL_ENGINES=1`` says that none may be missing. Among several workers, each server's tests go to one, so
that it starts once.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import itertools
import json
import math
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pyarrow as pa
import pytest

import belated as bl
from belated.reading.engines import ENGINES
from belated.summaries.segments import MISSING

_COUNTER = itertools.count(1)

#: Engines that are another's server, used in another way.
_SERVERS = {"copied": "postgres"}

#: Engines that are a server, which starts once.
_STARTED = ("postgres", "spark")

#: How Spark interprets queries: compiling and replanning each takes longer than reading a few hundred rows. One test
#: compiles them.
INTERPRETED = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.constraintPropagation.enabled": "false",
}


@dataclass(frozen=True)
class Engine:
    """An engine with a connection, in which tests make tables."""

    name: str
    connection: Any
    _load: Callable[[str, pa.Table], None] = field(repr=False)

    def table(self, data: pa.Table | Mapping[str, Sequence[Any]], name: str | None = None, **types: str) -> Any:
        """Make a real table of `data`, and give it back as an Ibis table.

        Parameters
        ----------
        data : pyarrow.Table or mapping of columns
            NULL and NaN stay apart; a map becomes JSONB and a struct a composite type in PostgreSQL.
        name : str, optional
            The table's name; a new one by default.
        **types : str
            Columns to cast afterwards, in the engine's own words: ``p="jsonb"``.
        """
        name = name or f"belated_{next(_COUNTER)}"
        self._load(name, data if isinstance(data, pa.Table) else pa.table(data))
        for column, kind in types.items():
            self.sql(f'ALTER TABLE "{name}" ALTER "{column}" TYPE {kind} USING "{column}"::{kind}')
        return self.connection.table(name)

    def read(self, expression: Any) -> pa.Table:
        """Read an expression; on Spark around Ibis, which takes the result through pandas and loses NaN."""
        if self.name == "spark":
            return self.connection.raw_sql(self.connection.compile(expression.as_table())).toArrow()
        return expression.as_table().to_pyarrow()

    def sql(self, statement: str) -> None:
        """Run a statement of which no answer is expected."""
        result = self.connection.raw_sql(statement)
        if self.name == "postgres":  # elsewhere the result is the connection, or nothing to close
            result.close()


@functools.cache
def _lacking(name: str) -> str | None:
    """Say why an engine is not there, None if it is."""
    package = {"postgres": "psycopg", "spark": "pyspark"}[name]
    if importlib.util.find_spec(package) is None:
        return f"no Python package `{package}` found; pip install {package}"
    if name == "postgres" and _postgres_binaries() is None:
        return "no `postgres` binary found; apt-get install postgresql"
    if name == "spark" and shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        return "no `java` found; apt-get install default-jre-headless"
    return None


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out a test whose engine is not there; here, not in the fixture, so that the summary has one line each."""
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    for name, title in (("postgres", "PostgreSQL"), ("spark", "Spark")):
        if name == _SERVERS.get(wanted := parameters.get("engine"), wanted) or f"{name}_engine" in getattr(
            item, "fixturenames", ()
        ):
            if (reason := _lacking(name)) is None:
                continue
            reason = f"{title} tests left out: {reason}"
            if os.environ.get("BELATED_ALL_ENGINES") == "1":
                pytest.fail(reason, pytrace=False)
            pytest.skip(reason)


# DuckDB


@pytest.fixture(scope="session")
def duckdb_engine() -> Iterator[Engine]:
    """DuckDB, in memory."""
    connection = ibis.duckdb.connect()

    def load(name: str, data: pa.Table) -> None:
        connection.con.register("belated_incoming", data)
        connection.con.execute(f'CREATE TABLE "{name}" AS FROM belated_incoming')
        connection.con.unregister("belated_incoming")

    yield Engine("duckdb", connection, load)
    connection.disconnect()


# PostgreSQL


def _postgres_binaries() -> Path | None:
    binary = shutil.which("postgres")
    folders = [Path(binary).resolve().parent] if binary else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: -float(folder.parent.name))
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


def _unprivileged() -> pwd.struct_passwd | None:
    """Whom to run the server as: PostgreSQL refuses root."""
    if os.geteuid() != 0:
        return None
    users = {user.pw_name: user for user in pwd.getpwall()}
    return users.get("postgres") or users["nobody"]


@contextlib.contextmanager
def _postgres_server() -> Iterator[str]:
    """Serve a new, empty cluster on a Unix socket; give the socket's folder."""
    binaries = _postgres_binaries()
    assert binaries is not None
    user = _unprivileged()
    run_as: dict[str, Any] = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
    with tempfile.TemporaryDirectory(prefix="belated-", ignore_cleanup_errors=True) as folder:
        if user:
            os.chown(folder, user.pw_uid, user.pw_gid)
        data = f"{folder}/data"
        initdb = [binaries / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"]
        subprocess.run(initdb, cwd=folder, check=True, capture_output=True, **run_as)
        # no TCP: a socket in a folder of its own cannot collide with another worker's; no statistics of tables in
        # between: the transaction that stores them holds back what is read of other transactions
        options = ["-c", "listen_addresses=", "-c", "autovacuum=off", "-F"]
        serve = [binaries / "postgres", "-D", data, "-k", folder, *options]
        log = Path(folder, "log")
        with log.open("wb") as sink, subprocess.Popen(serve, cwd=folder, stdout=sink, stderr=sink, **run_as) as server:
            try:
                ready = Path(folder, "data", "postmaster.pid")
                deadline = time.monotonic() + 60
                while not (ready.exists() and "ready" in ready.read_text()):
                    if server.poll() is not None or time.monotonic() > deadline:
                        raise RuntimeError(f"PostgreSQL did not start: {log.read_text()[-500:]}")
                    time.sleep(0.02)
                yield folder
            finally:
                server.send_signal(signal.SIGINT)  # a fast shutdown: it does not wait for clients
                try:
                    server.wait(10)
                except subprocess.TimeoutExpired:
                    server.kill()


def _postgres_type(kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        return "timestamptz" if kind.tz else "timestamp"
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision}, {kind.scale})"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"{_postgres_type(kind.value_type)}[]"
    names = {
        pa.bool_(): "boolean",
        pa.int16(): "smallint",
        pa.int32(): "integer",
        pa.int64(): "bigint",
        pa.float32(): "real",
        pa.float64(): "double precision",
        pa.date32(): "date",
        pa.string(): "text",
        pa.large_string(): "text",
    }
    return "jsonb" if pa.types.is_map(kind) else names[kind]


def _plain(value: Any, kind: pa.DataType) -> Any:
    """Give a value as JSON that PostgreSQL reads back exactly: what JSON has no numbers for, as text."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if pa.types.is_struct(kind):
        return {part.name: _plain(value[part.name], part.type) for part in kind}
    if pa.types.is_map(kind):
        return {key: _plain(item, kind.item_type) for key, item in value}
    if isinstance(value, list):
        return [_plain(item, kind.value_type) for item in value]
    return value if isinstance(value, float) and math.isfinite(value) else str(value)


@pytest.fixture(scope="session")
def postgres_engine() -> Iterator[Engine]:
    """A PostgreSQL server of our own, as a user that is not root."""
    with _postgres_server() as folder:
        connection = ibis.postgres.connect(host=folder, user="postgres", database="postgres")

        def load(name: str, data: pa.Table) -> None:
            columns = []
            for entry in data.schema:
                if pa.types.is_struct(entry.type):
                    kind = f'"{name}_{entry.name}"'
                    fields = ", ".join(f'"{part.name}" {_postgres_type(part.type)}' for part in entry.type)
                    connection.raw_sql(f"CREATE TYPE {kind} AS ({fields})").close()
                else:
                    kind = _postgres_type(entry.type)
                columns.append(f'"{entry.name}" {kind}')
            connection.raw_sql(f'CREATE TABLE "{name}" ({", ".join(columns)})').close()
            kinds = {entry.name: entry.type for entry in data.schema}
            records = [{key: _plain(row[key], kinds[key]) for key in row} for row in data.to_pylist()]
            fill = f'INSERT INTO "{name}" SELECT * FROM json_populate_recordset(NULL::"{name}", %s::json)'  # noqa: S608
            connection.con.execute(fill, [json.dumps(records)])

        try:
            yield Engine("postgres", connection, load)
        finally:
            connection.disconnect()


# Spark


@pytest.fixture(scope="session")
def spark_engine() -> Iterator[Engine]:
    """Spark on this machine, on one thread."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with tempfile.TemporaryDirectory(prefix="belated-", ignore_cleanup_errors=True) as folder:
        quiet = Path(folder, "log4j2.properties")
        quiet.write_text(
            "rootLogger.level = off\nrootLogger.appenderRef.none.ref = none\n"
            "appender.none.type = Null\nappender.none.name = none\n"
        )
        options = {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            # a session of a minute ends before what the optimising compiler and collector cost is earned back
            "spark.driver.extraJavaOptions": f"-Dlog4j.configurationFile={quiet} -Duser.timezone=UTC "
            "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.default.parallelism": "1",
            **INTERPRETED,
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
        session = SparkSession.builder.master("local[1]").config(map=options).getOrCreate()
        connection = ibis.pyspark.connect(session)

        def load(name: str, data: pa.Table) -> None:
            frame = session.createDataFrame(data)
            for entry in data.schema:
                if pa.types.is_timestamp(entry.type) and entry.type.tz is None:  # PySpark takes them all for instants
                    frame = frame.withColumn(entry.name, frame[entry.name].cast("timestamp_ntz"))
            frame.write.saveAsTable(name)

        try:
            yield Engine("spark", connection, load)
        finally:
            session.stop()


#: What other libraries do that this project's tests would not forgive.
_FORGIVEN = (
    "ignore:fetch_arrow_table:DeprecationWarning",  # Ibis, of DuckDB
    "ignore:The 'future.infer_string' option:DeprecationWarning",  # Ibis, of pandas
    "ignore:The copy keyword is deprecated:DeprecationWarning",  # PySpark, of pandas
    "ignore:unclosed <socket:ResourceWarning",  # PySpark
)


def _parameter(name: str) -> Any:
    return pytest.param(name, marks=pytest.mark.filterwarnings(*_FORGIVEN))


@pytest.fixture(scope="session", params=[_parameter(name) for name in ("duckdb", "postgres", "copied", "spark")])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine in turn."""
    chosen: Engine = request.getfixturevalue(f"{_SERVERS.get(request.param, request.param)}_engine")
    return chosen


@pytest.fixture(autouse=True)
def _copying(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have PostgreSQL sum up the rows itself in the tests that are for that."""
    if getattr(getattr(request.node, "callspec", None), "params", {}).get("engine") == "postgres":
        monkeypatch.setattr(ENGINES["postgres"], "copies", False)


def only(*names: str) -> pytest.MarkDecorator:
    """Run a test that takes `engine` on some engines only."""
    return pytest.mark.parametrize("engine", [_parameter(name) for name in names], indirect=True)


#: Runs a test of queries themselves, for which it does not matter whether `read` copies rows first.
in_sql = only("duckdb", "postgres", "spark")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep a server's tests together, whatever file they are in, and first; the others go where there is room.

    Every other worker takes the others from their end, so that workers seldom share a file: what a file's tests share
    is set up once, and a kernel that one worker has compiled is on disk when another one needs it.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            parameters = nodeid.partition("[")[2].removesuffix("]").split("-")
            servers = [_SERVERS.get(name, name) for name in parameters]
            return next((name for name in _STARTED if name in servers), nodeid)

        def _assign_work_unit(self, node: Any) -> None:
            if next(iter(self.workqueue)) not in _STARTED and self.nodes.index(node) % 2:
                self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
            super()._assign_work_unit(node)

    return Scheduling(config, log)


def source_of(log: bl.Log) -> bl.Source:
    """Return a log in memory as a table that DuckDB reads."""
    arrived = log.assigned_at if log.arrived_at is None else log.arrived_at
    out = np.isnan(log.outcome)
    labels = [log.arms[k] for k in log.code.tolist()]
    chances = {"p": log.propensity} if log.propensity.ndim == 1 else {
        f"p{k}": log.propensity[:, k] for k in range(len(log.arms))
    }  # fmt: skip
    alike = len({type(label) for label in log.arms}) == 1 and isinstance(log.arms[0], (str, int, float, bool))
    units, named = _units_of(log)
    table = pa.table(
        {
            "arm": labels if alike else list(map(str, labels)),
            "outcome": pa.array(log.outcome, mask=out),
            "assigned_at": log.assigned_at,
            "arrived_at": pa.array(arrived, mask=out),
            **chances,
            **units,
        }
    )
    arms = log.arms if alike else tuple(map(str, log.arms))
    where: Any = "p" if "p" in chances else dict(zip(arms, chances, strict=True))
    return bl.read(
        table, arm="arm", outcome="outcome", assigned_at="assigned_at", arrived_at="arrived_at", propensity=where,
        arms=arms, as_of=log.as_of, **named,
    )  # fmt: skip


def _units_of(log: bl.Log) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the columns of a log's segments, covariates and chances of arrival, and the options that name them."""
    columns: dict[str, Any] = {}
    named: dict[str, Any] = {}
    if log.segment_column is not None:
        labels, code = log.segment_column
        columns["country"] = pa.array([None if labels[c] == MISSING else labels[c] for c in code.tolist()])
        named["segment"] = "country"
    if log.covariates is not None:
        x = log.covariates
        for i, name in enumerate(x.names):
            columns[f"about {name}"] = x.values[:, i] * x.scale[i] + x.centre[i]
        named["covariates"] = [f"about {name}" for name in x.names]
    if log.arrival_probability is not None:
        columns["chance"] = log.arrival_probability
        named["arrival_probability"] = "chance"
    return columns, named
