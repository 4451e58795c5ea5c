"""Rows of a database, copied into the embedded engine if they are not too many: one pass over them serves all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from belated.base.errors import LogError
from belated.reading.columns import some
from belated.reading.embedded import Connection, connect, register
from belated.reading.engines import UncopiedError, engine_of, fetch, sentences
from belated.reading.inputs import Input, alike_names
from belated.reading.roles import Roles

if TYPE_CHECKING:
    import pyarrow as pa

#: Rows of a table up to which they are copied.
COPY_LIMIT = 10_000_000


def copy_tables(
    assignments: Input, deliveries: Input | None, roles: Roles, chances: Sequence[str], limit: int
) -> tuple[Input, Input | None]:
    """Return tables with the columns that the roles ask for, in an embedded engine of their own.

    Parameters
    ----------
    assignments, deliveries : Input
    roles : Roles
    chances : sequence of str
        The columns of the assignments that may hold propensities.
    limit : int
        Rows of a table at most.

    Raises
    ------
    UncopiedError
        If there are more rows, or values that would not stay the same.
    """
    connection = connect()
    later = [roles.outcome, roles.arrived_at, roles.delay, roles.recorded_at]
    if deliveries is not None:
        deliveries = _copied(deliveries, connection, [*later, roles.outcome_key], roles, limit)
        later = []
    units = [*roles.segment, *roles.covariates, roles.arrival_probability]
    wanted = [roles.arm, roles.assigned_at, roles.key, *later, *units, *chances]
    copied = _copied(assignments, connection, wanted, roles, limit)
    if any(name not in copied.table.columns for name in _settled_columns(copied, roles)):
        wanted += _settled_columns(copied, roles)
        copied = _copied(assignments, connection, wanted, roles, limit)
    return copied, deliveries


def _copied(table: Input, connection: Connection, columns: Iterable[str | None], roles: Roles, limit: int) -> Input:
    """Return columns of a table in an embedded engine."""
    names = list(dict.fromkeys(name for name in columns if name is not None))
    if alike := alike_names(names):
        raise UncopiedError(f"columns {some(alike)} differ only in case")
    holder = roles.propensity
    with sentences(table.name):
        rows: pa.Table = engine_of(table.table).copied(
            table.table,
            names,
            keys={name for name in (roles.key, roles.outcome_key) if name is not None},
            documents=set() if holder is None or holder.kind != "column" else set(holder.columns),
            limit=limit,
        )
        held = register(connection, rows)
        ids = {name: held[name].cast("uuid") for name in names if table.table[name].type().is_uuid()}
    return replace(table, table=held.mutate(**ids) if ids else held)


def _settled_columns(assignments: Input, roles: Roles) -> list[str]:
    """Return the columns of propensities, now that all arms are known; which they are was a guess by the first rows."""
    if roles.propensity is None or roles.propensity.kind != "guess":
        return []
    arms = fetch(assignments.table.select(arm=assignments.table[roles.arm]).distinct())["arm"].to_pylist()
    try:
        propensity = roles.settled([arm for arm in arms if arm is not None]).propensity
    except LogError:  # said when they are looked at
        return []
    return [] if propensity is None else [*propensity.columns, *propensity.extra.values()]
