from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Barrier
from typing import Any

import psycopg
import pytest
from drawn import Drawn, named, same
from engines import Engine

import belated as bl
from belated.reading import side_by_side
from belated.reading.side_by_side import OWN, answers

pytestmark = pytest.mark.filterwarnings("ignore::belated.BelatedWarning", "ignore::DeprecationWarning")

WHO = "SELECT pg_backend_pid()"
COUNT = "SELECT count(*) FROM watched"

Connection = psycopg.Connection[Any]


@pytest.fixture
def own(postgres_engine: Engine) -> Iterator[Connection]:
    with psycopg.connect(postgres_engine.connection.con.info.dsn, autocommit=True) as connection:
        OWN.add(connection)
        yield connection


def test_queries_run_at_the_same_time_and_see_the_same_rows(own: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    own.execute("DROP TABLE IF EXISTS watched")
    own.execute("CREATE TABLE watched AS SELECT 1 AS x")
    both, in_turn = Barrier(2, timeout=30), side_by_side._in_turn

    def after_a_write(connection: Connection, queries: Sequence[str]) -> list[side_by_side.Answer]:
        both.wait()
        with psycopg.connect(own.info.dsn, autocommit=True) as writer:
            writer.execute("INSERT INTO watched VALUES (2)")
        both.wait()
        return in_turn(connection, queries)

    monkeypatch.setattr(side_by_side, "_in_turn", after_a_write)
    (first,), (there,), (again,), (count,), (last,) = (rows[0] for rows in answers(own, [WHO, WHO, WHO, COUNT, COUNT]))
    assert first == again != there
    assert count == last == 1
    assert in_turn(own, [COUNT]) == [[(3,)]]


def test_other_people_s_connections_are_not_doubled(postgres_engine: Engine) -> None:
    first, second = answers(postgres_engine.connection.con, [WHO, WHO])
    assert first == second


@pytest.mark.parametrize("fault", ["too many connections", "no snapshots"])
def test_without_a_second_connection_queries_run_in_turn(
    postgres_engine: Engine, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    drawn = Drawn(("A", "B"), rows=60)
    postgres_engine.table(drawn.table(), name=f"alone {fault}")
    postgres_engine.sql("DROP ROLE IF EXISTS lone")
    postgres_engine.sql("CREATE ROLE lone LOGIN SUPERUSER" if fault == "no snapshots" else "CREATE ROLE lone LOGIN "
                        "CONNECTION LIMIT 1 IN ROLE pg_read_all_data")  # fmt: skip
    if fault == "no snapshots":
        monkeypatch.setattr(side_by_side, "_READING", "SELECT no_such_function()")
    url = f"postgresql://lone@/postgres?host={postgres_engine.connection.con.info.host}"
    source = bl.read(url, table=f"alone {fault}", propensity=named(drawn), copy_limit=0)
    connection = source.query.connection.con
    assert connection in OWN
    first, second = answers(connection, [WHO, WHO])
    assert first == second
    same(source, drawn)


def test_an_error_stops_the_other_query(own: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    in_turn, ends = side_by_side._in_turn, []

    def noted(connection: Connection, queries: Sequence[str]) -> list[side_by_side.Answer]:
        try:
            return in_turn(connection, queries)
        except psycopg.Error as error:
            ends.append(type(error))
            raise

    monkeypatch.setattr(side_by_side, "_in_turn", noted)
    with pytest.raises(psycopg.errors.DivisionByZero):
        answers(own, ["SELECT 1 / 0", "SELECT pg_sleep(20)"])
    assert ends == [psycopg.errors.DivisionByZero, psycopg.errors.QueryCanceled]
    with pytest.raises(psycopg.errors.DivisionByZero):
        answers(own, ["SELECT 1", "SELECT 1 / 0"])
    assert answers(own, ["SELECT 1"]) == [[(1,)]]


def test_nothing_is_written_and_no_setting_stays(own: Connection) -> None:
    before = own.execute("SHOW work_mem").fetchone()
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        answers(own, ["SELECT 1", "CREATE TABLE written ()"])
    first, second = answers(own, ["SHOW work_mem"] * 2)
    assert first == second == [("64MB",)]
    assert own.execute("SHOW work_mem").fetchone() == before
    assert own.execute("SHOW transaction_isolation").fetchone() == ("read committed",)
    assert own.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_what_is_asked_next_is_asked_while_the_second_connection_is_busy(own: Connection) -> None:
    asked: list[Any] = []

    def meanwhile() -> None:
        asked.append(own.execute("SELECT pg_advisory_unlock(71)").fetchone())

    own.execute("SELECT pg_advisory_lock(71)")  # until `meanwhile` is called, the second connection waits
    waits = "SELECT set_config('lock_timeout', '20s', true), pg_advisory_lock(71)"
    assert answers(own, ["SELECT 2", waits], meanwhile)[0] == [(2,)]
    assert asked == [(True,)]
    assert answers(own, ["SELECT 2"], meanwhile) == [[(2,)]]
    assert asked == [(True,)]  # one query is not worth another connection
