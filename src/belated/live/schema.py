"""The tables of a store, and the steps from every older schema to the present one.

Rows are numbered by position: the number of the transaction that wrote them, then their place in it. Whatever lies
below a watermark is therefore complete, and a tick reads only what lies between two watermarks. Such queries say
`+experiment = ?`, which keeps SQLite from reading the whole index of the experiment's units instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from belated.live.errors import SchemaError
from belated.reading.live_logs import PLACES

if TYPE_CHECKING:
    from belated.live.storage import Session

#: The statements that lead from each schema to the next. ID, BYTES and REAL stand for the engine's own types.
MIGRATIONS: list[list[str]] = [
    [
        """create table experiment (id ID, name text not null unique, state text not null, salt BYTES not null,
           about text not null, final integer, problem text, created_at bigint not null)""",
        """create table arm (experiment bigint not null, number integer not null, label text not null,
           state text not null, primary key (experiment, number), unique (experiment, label))""",
        """create table rule (experiment bigint not null, number integer not null, policy text not null,
           made_at bigint not null, primary key (experiment, number))""",
        """create table version (experiment bigint not null, number bigint not null, rule integer not null,
           step bigint not null, watermark bigint not null, made_at bigint not null, offered text not null,
           probabilities text not null, counts text not null, totals text not null, cause text not null,
           primary key (experiment, number))""",
        """create table decision (id ID, experiment bigint not null, unit text not null, arm integer not null,
           version bigint not null, assigned_at bigint not null, unique (experiment, unit))""",
        """create table outcome (id ID, experiment bigint not null, decision bigint not null, key text not null,
           revision integer not null, value REAL not null, happened_at bigint, arrived_at bigint not null,
           unique (decision, key, revision))""",
        """create table parked (experiment bigint not null, unit text not null, key text not null, value REAL not null,
           happened_at bigint, arrived_at bigint not null, primary key (experiment, unit, key))""",
        """create table change (id ID, experiment bigint not null, what text not null, detail text not null,
           author text not null, reason text not null, made_at bigint not null)""",
        """create table exclusion (experiment bigint not null, name text not null, excluded_at bigint not null,
           noted_at bigint not null, primary key (experiment, name))""",
        """create table erasure (experiment bigint not null, digest BYTES not null, erased_at bigint not null,
           primary key (experiment, digest))""",
    ],
    [
        """create table token (id ID, kind text not null, digest BYTES not null unique, label text not null,
           scopes text not null, experiment bigint, author text not null, made_at bigint not null, expires_at bigint,
           ended_at bigint)""",
    ],
    [
        """create table segment (experiment bigint not null, number integer not null, label text not null,
           primary key (experiment, number), unique (experiment, label))""",
        "alter table decision add column segment integer",
        "alter table version add column steps text not null default '[]'",
    ],
]

#: Every table but `meta`, in an order in which they can be copied.
TABLES = (
    "experiment", "arm", "segment", "rule", "version", "decision", "outcome", "parked", "change", "exclusion",
    "erasure", "token",
)  # fmt: skip

#: The columns of each, in order.
COLUMNS = {
    "experiment": ["id", "name", "state", "salt", "about", "final", "problem", "created_at"],
    "arm": ["experiment", "number", "label", "state"],
    "segment": ["experiment", "number", "label"],
    "rule": ["experiment", "number", "policy", "made_at"],
    "version": [
        "experiment",
        "number",
        "rule",
        "step",
        "watermark",
        "made_at",
        "offered",
        "probabilities",
        "counts",
        "totals",
        "cause",
        "steps",
    ],
    "decision": ["id", "experiment", "unit", "arm", "version", "assigned_at", "segment"],
    "outcome": ["id", "experiment", "decision", "key", "revision", "value", "happened_at", "arrived_at"],
    "parked": ["experiment", "unit", "key", "value", "happened_at", "arrived_at"],
    "change": ["id", "experiment", "what", "detail", "author", "reason", "made_at"],
    "exclusion": ["experiment", "name", "excluded_at", "noted_at"],
    "erasure": ["experiment", "digest", "erased_at"],
    "token": [
        "id",
        "kind",
        "digest",
        "label",
        "scopes",
        "experiment",
        "author",
        "made_at",
        "expires_at",
        "ended_at",
    ],
}

#: Windows close in the order of assignment; only experiments with events need it.
BY_TIME = "create index if not exists decision_assigned on decision (experiment, assigned_at)"

#: What `design.snapshot` reads of an experiment: its row, its latest version, and whether outcomes are parked.
EXPERIMENT = (
    "select e.id, e.name, e.state, e.salt, e.about, e.final, e.problem, (select max(number) from version where "
    "experiment = e.id), (select 1 from parked where experiment = e.id limit 1) from experiment e"
)

META = "create table if not exists meta (key text primary key, value text not null)"


def schema_of(session: Session) -> int:
    """Return the number of the schema that the store has; 0: none yet."""
    rows = session.run("select value from meta where key = 'schema'")
    return int(rows[0][0]) if rows else 0


def check_schema(schema: int, where: str) -> None:
    """Raise unless a store has the present schema."""
    if schema > len(MIGRATIONS):
        raise SchemaError(
            f"{where} has schema {schema}, and this version of belated knows schemas up to {len(MIGRATIONS)}; "
            "install the newer belated that wrote it."
        )
    if schema < len(MIGRATIONS):
        raise SchemaError(
            f"{where} has schema {schema}, older than {len(MIGRATIONS)}; upgrade it with `belated live migrate`."
        )


def migrate(session: Session, where: str) -> int:
    """Bring a store to the present schema within a transaction that excludes others; return what it was before."""
    schema = schema_of(session)
    if schema > len(MIGRATIONS):
        check_schema(schema, where)
    for steps in MIGRATIONS[schema:]:
        for statement in steps:
            session.run(session.own_types(statement))
    session.run("delete from meta where key = 'schema'")
    session.run("insert into meta (key, value) values ('schema', ?)", str(len(MIGRATIONS)))
    return schema


def next_transaction(session: Session) -> int:
    """Return the least number for the next transaction: its rows are above all rows, and no version has seen them."""
    numbered = [table for table in TABLES if COLUMNS[table][0] == "id"]
    highest = max(session.run("select max(id) from " + table)[0][0] or 0 for table in numbered)  # noqa: S608
    seen = session.run(
        "select max((select watermark from version where experiment = e.id order by number desc limit 1)) "
        "from experiment e"
    )[0][0]
    return int(max((highest >> PLACES) + 1, (seen or 0) >> PLACES))
