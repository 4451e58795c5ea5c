"""A column of propensities for each arm, however the table holds them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from belated.base.checks import tolerance
from belated.base.columns import Array, Label
from belated.base.errors import LogError, OptionError, argument
from belated.base.text import few_labels, one_line
from belated.log.labels import encode
from belated.log.splits import UNIFORM, shares_of
from belated.reading.columns import floats, number
from belated.reading.engines import fetch, library_of
from belated.reading.roles import Propensity

if TYPE_CHECKING:
    import ibis.expr.types as ir

#: From the table of assignments to columns by name.
ColumnsOf = Callable[["ir.Table"], Mapping[str, "ir.Column"]]

_Columns = tuple[tuple[Label, ...], ColumnsOf]

#: Rows that tell whether columns sum to 1.
_SAMPLE = 100


def propensity_columns(
    table: ir.Table, propensity: Propensity | None, values: Sequence[Label], arms: Sequence[Label] | None
) -> _Columns:
    """Return the arms' labels, and a function that makes their columns of propensities from the assignments.

    The columns are `p0`, `p1`, ..., or `p` if only the chosen arm's is known. `values` are the arms that the table
    holds, `arms` those that were named, if any.
    """
    if propensity is None:
        raise OptionError(
            f"{argument('propensity')} is missing; it must name the columns with the arms' probabilities."
        )
    if arms is not None and (odd := next((label for label in values if label not in arms), None)) is not None:
        raise LogError(
            f"{argument('arm')} holds {one_line(repr(odd))}; it must be one of {argument('arms')}: {few_labels(arms)}.",
            column="arm",
        )
    held = np.empty(len(values), dtype=object)
    held[:] = values
    if propensity.kind == "split":
        return _declared(propensity, list(values), arms, library_of(table))
    if propensity.kind == "chosen":
        _, labels = encode(held, arms, None)
        arms_and_columns: _Columns = labels, lambda t: {"p": number("propensity", t[propensity.columns[0]])}
    elif propensity.kind == "wide":
        arms_and_columns = _wide(table, propensity, held, arms)
    else:
        arms_and_columns = _nested(table[propensity.columns[0]], held, arms)
    labels, columns = arms_and_columns
    if propensity.unit == "fraction":
        return arms_and_columns
    return labels, lambda t: {name: column / 100.0 for name, column in columns(t).items()}


def _declared(
    propensity: Propensity, values: list[Label], arms: Sequence[Label] | None, library: ModuleType
) -> _Columns:
    """Return propensities that no column holds, the same in every row."""
    shares = shares_of(propensity.split or UNIFORM, values, arms)
    order = list(shares) if arms is None else [arm for arm in arms if arm in shares]
    literals = {f"p{k}": library.literal(shares[arm], "float64") for k, arm in enumerate(order)}
    return tuple(order), lambda t: literals


def _wide(table: ir.Table, propensity: Propensity, held: Array, arms: Sequence[Label] | None) -> _Columns:
    """Return propensities that have a column for each arm."""
    owners = dict(zip(propensity.labels or (), propensity.columns, strict=True))
    if propensity.extra and arms is None:
        owners = _with_extra(table, owners, propensity.extra, 100 if propensity.unit == "percent" else 1)
    order = sorted(owners, key=_order) if arms is None else list(arms)
    _, labels = encode(held, order, len(order))
    texts = {str(label): column for label, column in owners.items()}
    absent = next((label for label in labels if str(label) not in texts), None)
    if absent is not None:
        raise LogError(f"No column holds the propensity of arm {one_line(repr(absent))}.", column="propensity")
    columns = [texts[str(label)] for label in labels]
    return labels, lambda t: {f"p{k}": number("propensity", t[column]) for k, column in enumerate(columns)}


def _nested(column: ir.Column, held: Array, arms: Sequence[Label] | None) -> _Columns:
    """Return propensities that are all in one column: a list, a struct, a map or JSON."""
    from belated.reading import packed_propensities as packed

    name = column.get_name()
    known = packed.keys(column)
    if known is None:
        raise LogError(f"Column {one_line(repr(name))}, for {argument('propensity')}, is empty.", column="propensity")
    if isinstance(known, int):
        size = known
        _, labels = encode(held, arms, size)

        def by_position(t: ir.Table) -> Mapping[str, ir.Column]:
            right = packed.length(t[name]) == size
            return {f"p{k}": right.ifelse(p, None) for k, p in enumerate(packed.columns(t[name], size))}

        return labels, by_position
    if arms is None:
        arms = _named_arms(name, known, held.tolist())
    _, labels = encode(held, arms, len(arms))
    names = [str(label) for label in labels]
    absent = None if column.type().is_struct() else 0.0
    return labels, lambda t: {f"p{k}": p for k, p in enumerate(packed.columns(t[name], names, absent=absent))}


def _named_arms(column: str, names: list[str], values: list[Label]) -> list[Label]:
    """Return the arms that a table holds and those that only its propensities name, sorted."""
    texts = {str(value): value for value in values}
    unknown = next((text for text in texts if text not in names), None)
    if unknown is not None:
        raise LogError(
            f"Column {one_line(repr(column))}, for {argument('propensity')}, has the arms {few_labels(names)}, but not "
            f"the arm {one_line(repr(texts[unknown]))}.",
            column="propensity",
        )
    return sorted([*values, *(name for name in names if name not in texts)], key=_order)


def _order(label: Label) -> tuple[int, float | str]:
    """Sort numbers as numbers, and everything else as text."""
    return (0, label) if isinstance(label, (int, float)) else (1, str(label))


def _with_extra(table: ir.Table, owners: dict[Label, str], extra: Mapping[Label, str], total: int) -> dict[Label, str]:
    """Take columns named like those of the arms as arms never chosen, if only with them the first rows sum to 1."""
    names = [*owners.values(), *extra.values()]
    some = fetch(table.select(*names).limit(_SAMPLE))
    columns = [floats(some[name].combine_chunks().cast("float64")) for name in names]
    alone = np.sum(columns[: len(owners)], axis=0) / total
    together = np.sum(columns, axis=0) / total
    are_all = np.abs(alone - 1).max(initial=0) <= tolerance(len(owners))
    are_arms = not are_all and np.abs(together - 1).max(initial=0) <= tolerance(len(names))
    return {**owners, **extra} if are_arms else owners
