"""What a first look at the tables tells: arms, counts, times, what joining shows, and where the propensities are."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from belated.base.checks import TOLERANCE
from belated.base.columns import Array
from belated.base.errors import LogError, OptionError
from belated.base.text import count, one_line
from belated.log.clock import NEVER, Clock
from belated.log.labels import encode
from belated.reading import recipe
from belated.reading import sums_query as expressions
from belated.reading.arrow import clock_times, floats
from belated.reading.engines import fetch
from belated.reading.recipe import Recipe

if TYPE_CHECKING:
    import ibis.expr.types as ir


_MANY = 65_535


@dataclass(frozen=True)
class Facts:
    """What one look at the rows tells."""

    values: tuple[Any, ...]  # the arms as the engine knows them
    assigned: Array
    first: int | float
    last: int | float
    came: int | float  # the last arrival

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.assigned.sum())

    def among(self, values: Sequence[Any]) -> Facts:
        """Return the same facts with arms that no row has yet."""
        new = [value for value in values if value is not None and value == value and value not in self.values]
        assigned = np.append(self.assigned, np.zeros(len(new), dtype=self.assigned.dtype))
        return replace(self, values=(*self.values, *new), assigned=assigned)


def look(rows: ir.Table, clock: Clock) -> Facts:
    """Return which arms there are, how many rows each has, and over which time."""
    found = fetch(expressions.arms_found(rows).limit(_MANY + 1))
    if found.num_rows > _MANY:
        raise LogError(f"`arm` holds more than {_MANY:,} different arms; is it the right column?", column="arm")
    arms = found["arm"].to_pylist()
    missing = [i for i, arm in enumerate(arms) if arm is None or arm != arm]
    if missing:
        n = sum(found["rows"][i].as_py() for i in missing)
        raise LogError(f"`arm` is missing in {count(n, 'row')}; every row must say which arm it got.", column="arm")
    # apart from the arms, as files may know the ends of their columns without being read
    times = fetch(expressions.times_found(rows))
    ends = (clock_times(times[name].combine_chunks(), clock)[0] for name in ("first", "last", "came"))
    first, last, came = (math.nan if end == NEVER else end for end in ends)
    return Facts(tuple(arms), found["rows"].to_numpy(), first, last, came)


def as_moment(clock: Clock, moment: Any) -> Any:
    """Return a moment that was written as text as a number, if the clock's moments are numbers."""
    if clock.unit is None and isinstance(moment, str):
        try:
            return float(moment) if not moment.strip().lstrip("+-").isdigit() else int(moment)
        except ValueError:
            return moment
    return moment


def silent_notes(made: Recipe) -> list[str]:
    """Return what is taken for granted where no column tells."""
    notes = []
    if made.roles.assigned_at is None:
        notes.append("No column has the times of assignment: the rows are taken in their order.")
    if made.roles.arrived_at is None and made.roles.delay is None:
        notes.append("No column says when outcomes arrived: each counts from its assignment.")
    return notes


def last_moment(made: Recipe, clock: Clock) -> tuple[int | float, int | float]:
    """Return the latest time that either table knows, and that of the events."""
    found = fetch(made.last_moment())
    ends = [clock_times(found[name].combine_chunks(), clock) for name in ("a", "b")]
    known: list[int | float] = [end[0] for end in ends if len(end) and end[0] == end[0] and end[0] != NEVER]
    if not known:
        raise LogError("The log has no rows; it needs at least one assignment.")
    return max(known), known[-1]


def refuse_nan(made: Recipe) -> None:
    """Refuse outcomes that are NaN where nothing else says whether they have come."""
    odd = made.not_numbers()
    n = 0 if odd is None else fetch(odd.count().as_table())[0][0].as_py()
    if n:
        raise LogError(
            f"`outcome` is NaN in {count(n, 'row')}; it must be a number, or null where no outcome has come.",
            column="outcome",
        )


def joining_notes(made: Recipe, moment: int | float | None, checked: bool = False) -> list[str]:
    """Return what joining shows; refuse keys that do not name one assignment (unless checked), or one outcome."""
    repeated = {"key": []} if checked else fetch(made.repeated_keys().limit(6)).to_pydict()
    key = one_line(repr(made.roles.key))
    if None in repeated["key"]:
        n = repeated["rows"][repeated["key"].index(None)]
        raise LogError(f"Column {key}, for `key`, is missing in {count(n, 'assignment')}.", column="key")
    if repeated["key"]:
        raise LogError(
            f"Column {key}, for `key`, must name one assignment each; several have {_keys(repeated['key'])}.",
            column="key",
        )
    if made.measure is None and made.duplicates == "error":
        clashes = fetch(made.conflicts(moment).limit(6)).to_pydict()["key"]
        if clashes:
            raise LogError(
                f"Different outcomes were delivered for {_keys(clashes)}; say which counts with `duplicates`: first, "
                "last or sum.",
                column="outcome",
            )
    strays = fetch(made.strays(moment).count().as_table())[0][0].as_py()
    delivered = fetch(made.delivered_counts(moment)).to_pylist()[0]
    what = "outcome" if made.measure is None else "event"
    if strays and strays == delivered["n"]:
        theirs = one_line(repr(made.roles.outcome_key))
        raise LogError(
            f"None of the {count(strays, what)} belongs to an assignment; columns {key} and {theirs}, for `key`, must "
            "hold the same names.",
            column="key",
        )
    notes = []
    if strays:
        told = "belongs to no assignment and was" if strays == 1 else "belong to no assignment and were"
        notes.append(f"{count(strays, what)} {told} left out.")
    repeats = delivered["n"] - delivered["keys"]
    if repeats and made.measure is None and made.duplicates == "error":
        notes.append(f"{count(repeats, 'repeated outcome')} counted once.")
    early = 0 if made.measure is None else fetch(made.early_events(moment).count().as_table())[0][0].as_py()
    if early:
        notes.append(f"{count(early, 'event')} happened before the assignment and did not count.")
    return notes


def _keys(keys: list[Any]) -> str:
    listed = ", ".join(one_line(repr(key)) for key in keys[:5])
    return f"key {listed}" if len(keys) == 1 else f"keys {listed}{' and more' if len(keys) > 5 else ''}"


def propensity_columns(
    made: Recipe, facts: Facts, arms: Sequence[Any] | None
) -> tuple[tuple[Any, ...], Callable[[ir.Table], Mapping[str, ir.Column]]]:
    """Return the arms' labels, and a function that makes their columns of propensities from the assignments."""
    from belated.reading import propensities

    found = made.roles.propensity
    if found is None:
        raise OptionError("`propensity` must say where the probabilities are that the policy gave to the arms.")
    table = made.assignments
    values = np.empty(len(facts.values), dtype=object)
    values[:] = facts.values
    if found.kind == "chosen":
        _, labels = encode(values, arms, None)
        return labels, lambda t: {"p": recipe.number("propensity", t[found.columns[0]])}
    if found.kind == "wide":
        owners = dict(zip(found.labels or (), found.columns, strict=True))
        if found.extra and arms is None:
            owners = _with_extra(table, owners, dict(found.extra))
        named = list(owners) if arms is None else list(arms)
        _, labels = encode(values, sorted(named, key=_order) if arms is None else named, len(named))
        texts = {str(label): column for label, column in owners.items()}
        absent = next((label for label in labels if str(label) not in texts), None)
        if absent is not None:
            raise LogError(f"No column holds the propensity of arm {one_line(repr(absent))}.", column="propensity")
        chosen = [texts[str(label)] for label in labels]
        return labels, lambda t: {f"p{k}": recipe.number("propensity", t[c]) for k, c in enumerate(chosen)}
    column = found.columns[0]
    known = propensities.keys(table[column])
    if known is None:
        raise LogError(f"Column {one_line(repr(column))}, for `propensity`, is empty.", column="propensity")
    if isinstance(known, int):
        size = known
        _, labels = encode(values, arms, size)

        def listed(t: ir.Table) -> Mapping[str, ir.Column]:
            right = propensities.length(t[column]) == size
            return {f"p{k}": right.ifelse(p, None) for k, p in enumerate(propensities.columns(t[column], size))}

        return labels, listed
    names = known
    texts = {str(value): value for value in facts.values}
    unknown = next((text for text in texts if text not in names), None)
    if arms is None:
        everyone = [*facts.values, *(name for name in names if name not in texts)]
        if unknown is not None:
            raise LogError(
                f"Column {one_line(repr(column))}, for `propensity`, names {_keys(names)[5:]}, not the arm "
                f"{one_line(repr(texts[unknown]))}.",
                column="propensity",
            )
        arms = sorted(everyone, key=_order)
    _, labels = encode(values, arms, len(arms))
    wanted = [str(label) for label in labels]
    absent = None if table[column].type().is_struct() else 0.0
    return labels, lambda t: {f"p{k}": p for k, p in enumerate(propensities.columns(t[column], wanted, absent=absent))}


def _order(label: Any) -> tuple[int, Any]:
    """Sort numbers as numbers, and everything else as text."""
    return (0, label) if isinstance(label, (int, float)) else (1, str(label))


def _with_extra(table: ir.Table, owners: dict[Any, str], extra: dict[Any, str]) -> dict[Any, str]:
    """Take columns named like those of the arms as arms never chosen, if the first rows sum to 1 only with them."""
    names = [*owners.values(), *extra.values()]
    some = fetch(table.select(*names).limit(100))
    columns = [floats(some[name].combine_chunks().cast("float64")) for name in names]
    alone = np.sum(columns[: len(owners)], axis=0)
    together = np.sum(columns, axis=0)
    are_arms = np.abs(alone - 1).max(initial=0) > TOLERANCE and np.abs(together - 1).max(initial=0) <= TOLERANCE
    return {**owners, **extra} if are_arms else owners
