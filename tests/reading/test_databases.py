from __future__ import annotations

import re
import sqlite3
import traceback
from importlib.metadata import entry_points

import pyarrow as pa
import pytest
from drawn import Drawn, database, named, same
from engines import Engine

import belated as bl
from belated.base.text import masked
from belated.reading import databases
from belated.reading.inputs import is_url

pytestmark = [
    pytest.mark.usefixtures("empty_folder"),
    pytest.mark.filterwarnings("ignore::belated.BelatedWarning", "ignore::DeprecationWarning"),
]

SECRET = "s3cr3t"  # noqa: S105


def url_of(engine: Engine, password: str = "") -> str:
    return f"postgresql://postgres{password}@/postgres?host={engine.connection.con.info.host}"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://ann:pw@host:5432/db", "postgresql://ann:***@host:5432/db"),
        ("postgresql://ann@host/db", "postgresql://ann@host/db"),
        ("postgresql://ann:p@w/x?y#z@host/db", "postgresql://ann:***@host/db"),
        ("There is no file `postgresql:ann:pw@host`.", "There is no file `postgresql:ann:***@host`."),
        ("postgres:/ann:p@w@host/db", "postgres:/ann:***@host/db"),
        ("postgresql+psycopg://:pw@/db", "postgresql+psycopg://:***@/db"),
        ("mysql://host/db?user=ann&password=pw&charset=utf8", "mysql://host/db?user=ann&password=***&charset=utf8"),
        ("x://host?sslPassword=pw", "x://host?sslPassword=***"),
        ("snowflake://ann@a/db?private_key=pw;token=pw", "snowflake://ann@a/db?private_key=***;token=***"),
        ("a sentence about log.csv: and ann@host", "a sentence about log.csv: and ann@host"),
    ],
)
def test_passwords_are_masked(text: str, shown: str) -> None:
    assert masked(text) == shown


def test_what_is_a_url() -> None:
    assert is_url("postgresql://ann@host/db")
    assert is_url("postgresql+psycopg2://ann@host/db")
    assert not is_url("C:\\logs\\log.csv")
    assert not is_url("folder/log.csv")


def test_a_table_of_postgresql_by_url(postgres_engine: Engine) -> None:
    drawn = Drawn(("A", "B"), rows=150)
    postgres_engine.table(drawn.table(), name="odd 'name'; --")
    for table in ("odd 'name'; --", "public.odd 'name'; --"):
        source = bl.read(url_of(postgres_engine), table=table, propensity=named(drawn))
        assert source.engine == "postgres"
        same(source, drawn)


def test_a_schema_is_named_before_a_dot(postgres_engine: Engine) -> None:
    postgres_engine.sql("CREATE SCHEMA IF NOT EXISTS hidden")
    postgres_engine.sql(
        "CREATE TABLE IF NOT EXISTS hidden.exp AS SELECT 'A' AS arm, 1.0 AS outcome, 1 AS t, 1.0 AS p_A"
    )
    source = bl.read(url_of(postgres_engine), table="hidden.exp", assigned_at="t", propensity={"A": "p_a"})
    assert len(source) == 1
    with pytest.raises(bl.OptionError, match=re.escape("There is no table `exp` in the database")) as caught:
        bl.read(url_of(postgres_engine), table="exp")
    assert str(caught.value).endswith("Did you mean 'hidden.exp'?")  # however many tables the database has


def test_outcomes_are_a_table_of_the_same_database(postgres_engine: Engine) -> None:
    sent = pa.table({"id": [1, 2, 3], "arm": ["A", "B", "A"], "t": [1, 2, 3], "p_A": [0.5] * 3, "p_B": [0.5] * 3})
    postgres_engine.table(sent, name="sent_by_url")
    postgres_engine.table({"id": [1, 3], "reward": [1.0, 0.0]}, name="bought_by_url")
    source = bl.read(url_of(postgres_engine), "bought_by_url", table="sent_by_url", assigned_at="t")
    assert source.arrived.tolist() == [2, 0]
    by_connection = bl.read(postgres_engine.connection.table("sent_by_url"), "bought_by_url", assigned_at="t")
    assert by_connection.arrived.tolist() == [2, 0]
    with pytest.raises(bl.OptionError, match=r"There is no table `bought_by_ur` .* Did you mean 'bought_by_url'"):
        bl.read(url_of(postgres_engine), "bought_by_ur", table="sent_by_url")
    with pytest.raises(bl.OptionError, match="must be the name of a table in the database of the assignments"):
        bl.read(url_of(postgres_engine), url_of(postgres_engine), table="sent_by_url")


def test_nothing_is_written_to_a_database(postgres_engine: Engine) -> None:
    drawn = Drawn(("A", "B"), rows=20)
    postgres_engine.table(drawn.table(), name="read_only")
    source = bl.read(url_of(postgres_engine), table="read_only", propensity=named(drawn), copy_limit=0)
    with pytest.raises(Exception, match="read-only transaction"):
        source.query.connection.con.execute("DROP TABLE read_only")


def test_a_password_is_not_shown(postgres_engine: Engine) -> None:
    drawn = Drawn(("A", "B"), rows=50)
    postgres_engine.table(drawn.table(), name="masked")
    source = bl.read(url_of(postgres_engine, f":{SECRET}"), table="masked", propensity=named(drawn))
    assert SECRET not in f"{source!r} {source} {source.how_read} {bl.estimate(source).to_json()}"


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://ann:{SECRET}@127.0.0.1:1/db",
        f"postgresql://ann:{SECRET}/x@127.0.0.1:1/db",
        f"postgresql://ann:x%{SECRET}@127.0.0.1:1/db",
        f"postgresql://ann:{SECRET}:x@127.0.0.1:1/db",
        f"postgresql://127.0.0.1:1/db?password={SECRET}&sslmode=x{SECRET}",
        f"postgresql://127.0.0.1:1/db?password={SECRET}&nonsense=1",
        f"mysql://ann:{SECRET}@127.0.0.1:1/db",
        f"bigquery://ann:{SECRET}@project/set",
        f"nonsense://ann:{SECRET}@127.0.0.1/db",
        f"postgers://ann:{SECRET}@127.0.0.1/db",
    ],
)
def test_an_error_is_one_sentence_without_the_password(url: str, postgres_engine: Engine) -> None:
    with pytest.raises(bl.BelatedError) as caught:
        bl.read(url, table="sent")
    assert "\n" not in str(caught.value)
    shown = "".join(traceback.format_exception(caught.value))
    assert SECRET not in shown.replace(f"x{SECRET}", "")  # an odd sslmode is no secret
    assert caught.value.__context__ is None


def test_without_ibis_a_file_on_the_web_is_no_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: ())
    with pytest.raises(bl.OptionError, match="https is not a known database"):
        bl.read("https://example.org/log.csv")
    with pytest.raises(bl.MissingLibraryError, match=re.escape("run `pip install 'ibis-framework[oracle]'`.")):
        bl.read("oracle://example.org/log")


def test_the_databases_of_ibis_are_known_without_it() -> None:
    pytest.importorskip("ibis")
    assert {entry.name for entry in entry_points(group="ibis.backends")} >= set(databases._ENGINES.split())


def test_a_driver_that_is_missing_is_named() -> None:
    pytest.importorskip("ibis")
    with pytest.raises(bl.MissingLibraryError, match=re.escape("run `pip install 'ibis-framework[oracle]'`.")):
        bl.read("oracle://ann@host/db", table="sent")


def test_a_wrong_scheme_is_corrected() -> None:
    with pytest.raises(bl.OptionError, match=re.escape("Did you mean postgresql://?")):
        bl.read("postgressql://ann@host/db", table="sent")


def test_a_table_that_may_not_be_read(postgres_engine: Engine) -> None:
    postgres_engine.table({"arm": ["A"], "outcome": [1.0], "t": [1], "p_A": [1.0]}, name="locked")
    postgres_engine.sql("DROP ROLE IF EXISTS eve")
    postgres_engine.sql("CREATE ROLE eve LOGIN")
    url = url_of(postgres_engine).replace("//postgres@", "//eve@")
    bl.live.open(url_of(postgres_engine)).close()  # live experiments, which she may not read either
    with pytest.raises(bl.LogError, match=r"^`locked` cannot be read: permission denied for table locked\.$"):
        bl.read(url, table="locked", assigned_at="t")


@pytest.mark.parametrize("form", ["sqlite", "duckdb"])
def test_a_database_file_by_url(form: str, tmp_path) -> None:
    drawn = Drawn(("A", "B"), rows=200)
    table = drawn.table()
    path = tmp_path / "a folder" / f"a.{form}"
    path.parent.mkdir()
    if form == "duckdb":
        database(str(path), table)
        only = None
    else:
        with sqlite3.connect(path) as connection:
            only = "sent"
            columns = ", ".join(f'"{name}"' for name in table.column_names)
            connection.execute(f'CREATE TABLE "sent" ({columns})')
            marks = ", ".join("?" * table.num_columns)
            fill = f"INSERT INTO sent VALUES ({marks})"  # noqa: S608
            connection.executemany(fill, zip(*table.to_pydict().values(), strict=True))
        connection.close()
    before = path.read_bytes()
    same(bl.read(f"{form}://{path}", table=only, propensity=named(drawn)), drawn)
    if form == "sqlite":  # it lacks functions that the sums need
        for limit, why in ((0, "`copy_limit` is 0"), (199, r"there are more than 199 rows \(`copy_limit`\)")):
            with pytest.raises(
                bl.LogError, match=rf"^sqlite cannot compute the sums itself, .*: {why}\. Raise `copy_limit`"
            ):
                bl.read(f"sqlite://{path}", table=only, propensity=named(drawn), copy_limit=limit)
    assert path.read_bytes() == before
    with pytest.raises(bl.OptionError, match="There is no file"):
        bl.read(f"{form}://{path}x.duckdb", table=only)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_numbers_in_a_boolean_column_of_sqlite_are_not_taken_for_truths(tmp_path):
    with sqlite3.connect(tmp_path / "log.sqlite") as connection:
        connection.execute("CREATE TABLE log (arm boolean, outcome boolean, sent_at int)")
        connection.executemany("INSERT INTO log VALUES (?, ?, ?)", [(i % 3, i % 5, i) for i in range(60)])
    connection.close()
    source = bl.read(f"sqlite://{tmp_path}/log.sqlite", propensity="uniform", assigned_at="sent_at")
    assert source.arms == (0, 1, 2)
    assert bl.estimate(source, "mean").values.tolist() == [2.0, 2.0, 2.0]
