"""What joining two tables shows: keys that name no assignment, or several; outcomes that differ; events too early."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from belated.base.errors import LogError
from belated.base.text import count, one_line
from belated.reading.engines import fetch
from belated.reading.rows_query import RowsQuery

if TYPE_CHECKING:
    import ibis.expr.types as ir

#: Keys that a sentence lists.
_LISTED = 5


def joining_notes(query: RowsQuery, moment: int | float | None, checked: bool = False) -> list[str]:
    """Return what joining shows; refuse keys that do not name one assignment (unless checked), or one outcome."""
    if not checked:
        _check_keys(query)
    can_clash = query.measure is None and query.duplicates == "error"
    if can_clash:
        _check_conflicts(query, moment)
    strays = rows_in(_strays(query, moment))
    delivered = fetch(_delivered_counts(query, moment)).to_pylist()[0]
    what = "outcome" if query.measure is None else "event"
    if strays and strays == delivered["n"]:
        ours, theirs = one_line(repr(query.roles.key)), one_line(repr(query.roles.outcome_key))
        raise LogError(
            f"None of the {count(strays, what)} belongs to an assignment; columns {ours} and {theirs}, for `key`, must "
            "hold the same names.",
            column="key",
        )
    notes = []
    if strays:
        verb = "belongs to no assignment and was" if strays == 1 else "belong to no assignment and were"
        notes.append(f"{count(strays, what)} {verb} left out.")
    repeats = delivered["n"] - delivered["keys"]
    if repeats and can_clash:
        notes.append(f"{count(repeats, 'repeated outcome')} counted once.")
    early = 0 if query.measure is None else rows_in(_early_events(query, moment))
    if early:
        notes.append(f"{count(early, 'event')} happened before the assignment and did not count.")
    return notes


def rows_in(table: ir.Table) -> int:
    """Return how many rows a table has."""
    return int(fetch(table.count().as_table())[0][0].as_py())


def listed(keys: Sequence[Any]) -> str:
    """Return keys for a sentence, the first few of many."""
    return ", ".join(one_line(repr(key)) for key in keys[:_LISTED]) + (" and more" if len(keys) > _LISTED else "")


def _keys_text(keys: Sequence[Any]) -> str:
    return f"{'key' if len(keys) == 1 else 'keys'} {listed(keys)}"


def _check_keys(query: RowsQuery) -> None:
    """Refuse keys that are missing, or that several assignments have."""
    repeated = fetch(_repeated_keys(query).limit(_LISTED + 1)).to_pydict()
    key = one_line(repr(query.roles.key))
    if None in repeated["key"]:
        n = repeated["rows"][repeated["key"].index(None)]
        raise LogError(f"Column {key}, for `key`, is missing in {count(n, 'assignment')}.", column="key")
    if repeated["key"]:
        raise LogError(
            f"Column {key}, for `key`, must name one assignment each; several have {_keys_text(repeated['key'])}.",
            column="key",
        )


def _check_conflicts(query: RowsQuery, moment: int | float | None) -> None:
    """Refuse different outcomes for one key."""
    conflicts = fetch(_conflicts(query, moment).limit(_LISTED + 1)).to_pydict()["key"]
    if conflicts:
        raise LogError(
            f"Different outcomes were delivered for {_keys_text(conflicts)}; say which counts with `duplicates`: "
            "first, last or sum.",
            column="outcome",
        )


# ---------------------------------------------------------------- queries


def _repeated_keys(query: RowsQuery) -> ir.Table:
    """Return the keys that more than one assignment has, and how many keys are missing."""
    keys = query.assigned_rows().select("key")
    counts = keys.group_by("key").agg(rows=keys.count())
    return counts.filter((counts.rows > 1) | counts.key.isnull()).order_by("key")


def _conflicts(query: RowsQuery, moment: int | float | None) -> ir.Table:
    """Return the keys of assignments for which different outcomes were delivered by a moment."""
    rows, delivered = query.assigned_rows(), query.timed_deliveries(moment)
    ends = delivered.group_by("key_").agg(low=delivered.outcome.min(), high=delivered.outcome.max())
    clashes = ends.filter(ends.low < ends.high)
    return clashes.semi_join(rows, clashes.key_ == rows.key).select(key="key_").order_by("key")


def _delivered_counts(query: RowsQuery, moment: int | float | None) -> ir.Table:
    """Return how many deliveries there are by a moment, `n`, and of how many `keys`."""
    delivered = query.raw_deliveries(moment)
    return delivered.aggregate(n=delivered.count(), keys=delivered.key_.nunique())


def _early_events(query: RowsQuery, moment: int | float | None) -> ir.Table:
    """Return the events by a moment that happened before the assignment of their key."""
    starts, events = query.assigned_rows().select("key", "assigned"), query.timed_deliveries(moment)
    pairs = starts.inner_join(events, starts.key == events.key_)
    return pairs.filter(pairs.when < pairs.assigned)


def _strays(query: RowsQuery, moment: int | float | None) -> ir.Table:
    """Return the deliveries by a moment that belong to no assignment."""
    rows, delivered = query.assigned_rows(), query.raw_deliveries(moment)
    return delivered.anti_join(rows, delivered.key_ == rows.key)
