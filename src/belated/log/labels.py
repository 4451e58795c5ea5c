"""Conversion of arm labels to numbers."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence

import numpy as np

from belated.base.checks import nearest
from belated.base.columns import BLOCK, Array, Label, as_array, is_missing
from belated.base.errors import BelatedWarning, LogError, UnknownArmError, argument
from belated.base.text import shown


def encode(arm: object, arms: Sequence[Label] | None, columns: int | None) -> tuple[Array, tuple[Label, ...]]:
    """Return the arm of every row as a number, and the labels of the arms.

    `columns` is the number of propensity columns; None if only the chosen arm's propensity is known.
    """
    array, arms = _labels(arm), given_arms(arms)
    least, largest = _span(array) if array.dtype.kind in "iu" and len(array) else (-1, -1)
    if arms is None and columns is not None and 0 <= least <= largest < columns:
        arms = range(columns)  # 0, 1, ..., K - 1 are column numbers, including arms never chosen
        if least > 0:
            warnings.warn(
                f"`arm` has integers from {least} to {largest} and `propensity` has {columns} columns: the integers "
                f"were read as column numbers 0 to {columns - 1}; if they are labels, give `arms`.",
                BelatedWarning,
                stacklevel=3,
            )
    try:
        labels = _sorted_labels(array) if arms is None else tuple(plain_label(label) for label in arms)
        hash(labels)
    except TypeError:
        if arms is None:
            raise _unsorted(array) from None
        raise LogError(f"{argument('arms')} is {shown(arms)}; it must list the arms' labels.", column="arms") from None
    if len(set(labels)) != len(labels):
        raise LogError(f"{argument('arms')} repeats a label: {list(labels)!r}.", column="arms")
    if columns is not None and len(labels) != columns:
        source, kind = (argument("arm"), " different") if arms is None else (argument("arms"), "")
        difference = f"{source} has {len(labels)}{kind}"
        raise LogError(
            f"{argument('propensity')} has {columns} columns but {difference} arms; give "
            f"the arm of each column with {argument('arms')}.",
            column="propensity",
        )
    if len(labels) > np.iinfo(np.uint16).max:
        raise LogError(
            f"{argument('arm')} has {len(labels):,} different arms; at most 65,535 are possible.", column="arm"
        )
    if 0 <= least <= largest < len(labels) and labels == tuple(range(len(labels))):
        return array.astype(np.uint16), labels
    return _codes(array, labels), labels


def given_arms(arms: Sequence[Label] | None) -> Sequence[Label] | None:
    """Return the arms that were given, if they are a list of at least one; text is one label, not many."""
    if arms is None:
        return None
    try:
        labels = [] if isinstance(arms, (str, bytes)) else [*map(plain_label, arms)]
    except TypeError:
        labels = []
    if not labels:
        raise LogError(
            f"{argument('arms')} is {shown(arms)}; it must list the arms' labels, at least one.", column="arms"
        )
    return labels


def _span(array: Array) -> tuple[int, int]:
    """Return the minimum and maximum of an array of integers, block by block."""
    blocks = (array[i : i + BLOCK] for i in range(0, len(array), BLOCK))
    spans = [(int(block.min()), int(block.max())) for block in blocks]
    return min(least for least, _ in spans), max(largest for _, largest in spans)


def _labels(arm: object) -> Array:
    array = as_array("arm", arm)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.dtype.kind in "Mm":
        array = array.astype(f"{array.dtype.kind}8[us]").astype(object)
    if array.ndim != 1:  # labels that are themselves sequences
        rows = list(arm if isinstance(arm, Iterable) else array)
        array = np.empty(len(rows), dtype=object)
        array[:] = [tuple(x) if isinstance(x, (list, np.ndarray)) else x for x in rows]
    if array.dtype.kind == "O" and set(map(type, array.tolist())) == {int} and max(map(abs, array)) < 2**63:
        array = array.astype(np.int64)
    if array.dtype.kind == "f" and len(array) and np.isnan(array).any():
        row = int(np.isnan(array).argmax())
        raise LogError(f"{argument('arm')} in row {row} is missing; every row needs an arm.", column="arm", row=row)
    return array


def plain_label(label: Label) -> Label:
    """Return a label as a Python object instead of a NumPy scalar."""
    return label.item() if isinstance(label, np.generic) else label


def _sorted_labels(array: Array) -> tuple[Label, ...]:
    if array.dtype.kind == "O":
        different = list(dict.fromkeys(_hashable(array)))
        if any(map(is_missing, different)):
            raise _unsorted(array)
        return tuple(sorted(map(plain_label, different)))  # type: ignore[type-var]  # raises if there is no order
    return tuple(sorted(x.item() for x in _distinct(array)))


def _unsorted(array: Array) -> LogError:
    """Return why labels cannot be sorted: one is missing, or they have no order."""
    values = array.tolist()
    row = next((i for i, x in enumerate(values) if is_missing(x)), None)
    if row is not None:
        return LogError(f"{argument('arm')} in row {row} is missing; every row needs an arm.", column="arm", row=row)
    kinds = sorted({type(x).__name__ for x in values})
    return LogError(
        f"{argument('arm')} has labels that cannot be sorted "
        f"({', '.join(kinds)}); give their order with {argument('arms')}.",
        column="arm",
    )


def _hashable(array: Array) -> list[Label]:
    values: list[Label] = array.tolist()
    if any(kind.__hash__ is None for kind in set(map(type, values))):
        row = next(i for i, x in enumerate(values) if type(x).__hash__ is None)
        raise LogError(
            f"{argument('arm')} in row {row} is {shown(values[row])}; an arm's "
            "label must be text, a number or another hashable "
            "value.",
            column="arm",
            row=row,
        )
    return values


def _distinct(array: Array) -> list[np.generic]:
    """Return the distinct values of an array, by elimination if they are few, otherwise by sorting."""
    rest, distinct = array, list[np.generic]()
    while len(rest) and len(distinct) < 32:
        distinct.append(rest[0])
        rest = rest[rest != rest[0]]
    return distinct if not len(rest) else list(np.unique(array))


def _codes(array: Array, labels: tuple[Label, ...]) -> Array:
    kind = array.dtype.kind
    index = {label: k for k, label in enumerate(labels)}
    alike = (str, bytes) if kind in "US" else (bool, int, float)
    comparable = [label for label in labels if isinstance(label, alike)]
    if kind == "O" or len(labels) > 32 or len(comparable) < len(labels):
        values = _hashable(array) if kind == "O" else array.tolist()
        try:
            return np.fromiter(map(index.__getitem__, values), dtype=np.uint16, count=len(values))
        except KeyError:
            row = next(i for i, x in enumerate(values) if x not in index)
            raise _unknown(row, values[row], labels) from None
    codes = np.zeros(len(array), dtype=np.uint16)
    known = np.zeros(len(array), dtype=bool)
    for k, label in enumerate(comparable):
        match = np.equal(array, label)
        codes[match] = k
        known |= match
    if not known.all():
        row = int(known.argmin())
        raise _unknown(row, array[row].item(), labels)
    return codes


def _unknown(row: int, label: Label, labels: tuple[Label, ...]) -> LogError:
    what = "is missing" if is_missing(label) else f"is {label!r}"
    known = ", ".join(map(repr, labels[:10])) + (", ..." if len(labels) > 10 else "")
    return LogError(
        f"{argument('arm')} in row {row} {what}; it must be one of {argument('arms')}: {known}.", column="arm", row=row
    )


def arm_index(arms: tuple[Label, ...], arm: object) -> int:
    """Return the position of an arm; raise with the known arms if it is not one."""
    try:
        return arms.index(arm.item() if isinstance(arm, np.generic) else arm)
    except ValueError:
        known = ", ".join(map(repr, arms[:10])) + (", ..." if len(arms) > 10 else "")
        near = nearest(arm, arms)
        hint = f" Did you mean {next(label for label in arms if str(label) == near)!r}?" if near else ""
        raise UnknownArmError(f"There is no arm {shown(arm)}; the arms are {known}.{hint}") from None
