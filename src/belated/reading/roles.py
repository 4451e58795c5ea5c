"""Roles: the column that plays each, where the propensities are, and how their columns are matched to arms."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from numbers import Integral
from types import ModuleType
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np

from belated.base.checks import tolerance
from belated.base.columns import Array, Label
from belated.base.errors import LogError, OptionError, argument
from belated.base.text import few_labels, first_few, one_line
from belated.log.labels import encode
from belated.log.splits import UNIFORM, shares_of
from belated.reading.columns import CHANCE, CHOSEN, Role, floats, number, quoted, snake, some, text_of, unique, wrong
from belated.reading.engines import fetch, library_of

if TYPE_CHECKING:
    import ibis.expr.types as ir

#: What p_value and its like speak of, which is no arm unless the data have it.
_NO_ARM = "value|val|hat|chosen|action|selected|total|sum|max|min"

#: How propensities are held.
PropensityKind = Literal["wide", "column", "chosen", "guess", "split"]

#: What probabilities sum to: 1, or 100.
PropensityUnit = Literal["fraction", "percent"]
PROPENSITY_UNITS: tuple[PropensityUnit, ...] = get_args(PropensityUnit)

#: What arms and names of columns are compared as, the strictest first.
_FOLDS: tuple[Callable[[str], str], ...] = (str, str.lower, snake)

#: How arms are written in names of columns: 1.0 as 1 or, as Python writes it, as 1.0.
_WRITTEN: tuple[Callable[[Label], str], ...] = (text_of, str)


# ---------------------------------------------------------------- roles


@dataclass(frozen=True)
class Propensity:
    """Where the propensities are.

    Attributes
    ----------
    kind : {"wide", "column", "chosen", "guess", "split"}
        "wide": a column for each arm; "column": every arm's in one column, a list, struct, map or JSON; "chosen": the
        chosen arm's, a number; "guess": only the arms can tell, see `Roles.settled`; "split": no column, they are
        declared.
    columns : tuple of str
        The columns; of a guess, those that might be.
    labels : tuple or None
        If wide, whose each column is.
    extra : mapping
        Label to column: further columns named alike, of arms never chosen or of something else.
    pattern : str or None
        The pattern that named the columns, if one did.
    beside : tuple of str
        Of the chosen arm's, if it was named, the columns that play no role; of a guess, those of them that are text.
    instead : Propensity or None
        Of a guess, what it is if the arms have no columns of their own.
    split : mapping, "uniform" or None
        The declared probabilities.
    unit : {"fraction", "percent"}
        What the columns' probabilities sum to.
    """

    kind: PropensityKind
    columns: tuple[str, ...] = ()
    labels: tuple[Label, ...] | None = None
    extra: Mapping[Label, str] = field(default_factory=dict)
    pattern: str | None = None
    beside: tuple[str, ...] = field(default=(), compare=False)
    instead: Propensity | None = None
    split: Mapping[Label, float] | str | None = None
    unit: PropensityUnit = "fraction"

    @property
    def declared(self) -> str:
        """The declared probabilities in words."""
        if self.split is None or isinstance(self.split, str):
            return f"{self.split} (declared)"
        shares = (f"{share:.4g} {one_line(label)}" for label, share in self.split.items())
        return f"{first_few(shares, 10)} (declared)"


@dataclass(frozen=True)
class Roles:
    """The column of each role, the roles that were `guessed`, and what the `second` table is called, if any."""

    arm: str
    outcome: str | None = None
    assigned_at: str | None = None
    arrived_at: str | None = None
    delay: str | None = None
    key: str | None = None
    outcome_key: str | None = None
    propensity: Propensity | None = None
    segment: tuple[str, ...] = ()
    covariates: tuple[str, ...] = ()
    arrival_probability: str | None = None
    recorded_at: str | None = None
    guessed: tuple[Role, ...] = ()
    second: str | None = None

    @property
    def is_declared(self) -> bool:
        """Whether the propensities are a split that was declared."""
        return self.propensity is not None and self.propensity.kind == "split"

    @property
    def has_arrivals(self) -> bool:
        """Whether a column tells when outcomes arrived; otherwise each counts from its assignment."""
        return self.arrived_at is not None or self.delay is not None

    @property
    def has_units(self) -> bool:
        """Whether columns hold segments, covariates or the probability of arrival."""
        return bool(self.segment or self.covariates or self.arrival_probability)

    def settled(self, arms: Iterable[Label]) -> Roles:
        """Return the roles with each propensity column matched to its arm, now that the `arms` in the data are known.

        A column for each arm is worth more than the chosen arm's probability, and is preferred to it if the columns
        are named as probabilities (`p_A`, `A_prob`). Any other shared name counts only if nothing else could be meant.
        """
        propensity, known = self.propensity, list(arms)
        if propensity is not None and propensity.kind == "chosen" and propensity.beside:
            _check_chosen(propensity.columns[0], propensity.beside, known)
        if propensity is None or propensity.kind not in ("guess", "wide"):
            return self
        columns, guess = propensity.columns, propensity.kind == "guess"
        if propensity.labels is None:
            match = wide(columns, known, sure=propensity.instead is not None)
        else:
            match = by_label(zip(propensity.labels, columns, strict=True), known)
        if match is None and guess:
            if propensity.instead is not None:
                return replace(self, propensity=replace(propensity.instead, unit=propensity.unit))
            raise _no_propensities(propensity, known)
        listed = not guess and propensity.pattern is None  # whoever lists the columns says that all of them are arms
        if match is None or (listed and len(match.columns) + len(match.extra) < len(columns)):
            raise wrong(
                "propensity",
                f"{argument('propensity')} needs one column for each of the arms {some(map(text_of, known))}, but the "
                f"columns are {some(columns)}; give each arm its column, such as 'A=p_A,B=p_B'.",
            )
        owners, extra = (match.columns | match.extra, {}) if listed else match
        if guess:
            extra = {label: column for label, column in extra.items() if not re.fullmatch(_NO_ARM, str(label).lower())}
        settled = Propensity(
            kind="wide", columns=tuple(owners.values()), labels=tuple(owners), extra=extra, unit=propensity.unit
        )
        return replace(self, propensity=settled)

    def to_dict(self) -> dict[str, object]:
        """Return the column of each role that has one; for propensities, one for each arm or one for all.

        If the propensities were declared, `split` is there instead: each arm's, or "uniform".
        """
        names = ("arm", "outcome", "assigned_at", "arrived_at", "delay", "key", "outcome_key")
        columns: dict[str, object] = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if self.propensity is not None and self.is_declared:
            split = self.propensity.split
            columns["split"] = (
                {str(label): share for label, share in split.items()} if isinstance(split, Mapping) else split
            )
        elif self.propensity is not None:
            several = self.propensity.columns
            columns["propensity"] = list(several) if self.propensity.kind == "wide" else several[0]
        columns |= {role: list(getattr(self, role)) for role in ("segment", "covariates") if getattr(self, role)}
        if self.arrival_probability is not None:
            columns["arrival_probability"] = self.arrival_probability
        if self.recorded_at is not None:
            columns["recorded_at"] = self.recorded_at
        return {**columns, "guessed": list(self.guessed)}

    def line(self, *, cli: bool = False, options: bool = True) -> str:
        """Return one line that says which column plays which role, and with which options to say otherwise."""
        shown = []
        for role in ("arm", "outcome", "assigned_at", "arrived_at", "delay", "key"):
            column = getattr(self, role) or ("each row" if role == "outcome" else None)
            if column is not None:
                also = f" (from {self.second})" if role == "outcome" and self.second else ""
                if role == "key" and self.outcome_key not in (None, column):
                    also = f" = {one_line(self.outcome_key)}"
                shown.append(f"{role.replace('_', ' ')} = {one_line(column)}{also}")
        if self.propensity is not None and self.is_declared:
            shown.append(f"propensities = {self.propensity.declared}")
        elif self.propensity is not None and self.propensity.kind != "guess":
            what = "propensity" if self.propensity.kind == "chosen" else "propensities"
            shown.append(f"{what} = {some(self.propensity.columns, quote='')}")
        if self.segment:
            shown.append(f"segment = {' and '.join(map(one_line, self.segment))}")
        if self.covariates:
            shown.append(f"covariates = {some(self.covariates, quote='')}")
        if self.arrival_probability is not None:
            shown.append(f"arrival probability = {one_line(self.arrival_probability)}")
        if self.recorded_at is not None:
            shown.append(f"recorded at = {one_line(self.recorded_at)}")
        named = [f"--{role.replace('_', '-')}" if cli else f"`{role}`" for role in self.guessed if options]
        guessed = f" (guessed; change with {', '.join(named)})" if named else ""
        return f"columns: {', '.join(shown)}{guessed}"


def _check_chosen(column: str, beside: Sequence[str], arms: Sequence[Label]) -> None:
    """Refuse one arm's column of propensities as the chosen arm's, if every other arm has a column too."""
    several = dict.fromkeys(tuple(map(write, arms)) for write in _WRITTEN if len(arms) > 1)
    for texts, text in ((written, text) for written in several for text in written):
        for match in re.finditer(re.escape(text), column):
            start, end = column[: match.start()], column[match.end() :]
            others = [f"{start}{other}{end}" for other in texts if other != text]
            if (start or end) and all(other in beside for other in others):
                raise wrong(
                    "propensity",
                    f"Column {quoted(column)} for {argument('propensity')} is one of several, as the table also has "
                    f"{some(others)}; name the columns of all arms, such as {quoted(f'{start}*{end}')}.",
                )


def _exact(match: Wide | None) -> int:
    """Return how many columns are named after their arms to the letter."""
    return 0 if match is None else sum(text_of(arm) in column for arm, column in match.columns.items())


def _no_propensities(guess: Propensity, arms: Sequence[Label]) -> LogError:
    """Return the error that no column holds the propensities; say which label is odd if the others have columns."""
    shares = ",".join(f"{text_of(arm)}={1 / len(arms):.2g}" for arm in arms[:2]) if len(arms) == 2 else "A=0.5,B=0.5"
    offers = (
        f"name them with {argument('propensity')}, such as 'p_*' for p_A; if every arm had a fixed "
        f"probability, use {argument('propensity', UNIFORM)} or {argument('propensity', shares)}"
    )
    texts = wide(guess.beside, arms, sure=True)
    if texts is not None:
        return wrong(
            "propensity",
            f"Columns {some(texts.columns.values())} are named like the arms' propensities, but are of kind text, "
            "which they cannot be; write numbers, such as 0.5.",
        )
    matches = {odd: wide(guess.columns, [arm for arm in arms if arm != odd], sure=True) for odd in arms if arms[2:]}
    # if the labels are A and a, the one whose exact name is in no column comes first
    for odd, match in sorted(matches.items(), key=lambda each: -_exact(each[1])):
        if match is not None:
            return wrong(
                "propensity",
                f"Arm {quoted(text_of(odd))} has no column of propensities, unlike the others ("
                f"{some(match.columns.values())}); correct the label if it is misspelt, or {offers}.",
            )
    numbers = (
        f"the other columns of numbers are {some(guess.columns)}" if guess.columns else "no other column holds numbers"
    )
    return wrong(
        "propensity",
        f"No columns are named like the propensities of the arms {some(map(text_of, arms))}; {offers}; {numbers}.",
    )


# ---------------------------------------------------------------- a column for each arm


class Wide(NamedTuple):
    """Each arm's column; and, as `extra`, columns named alike for what the data have not shown to be an arm."""

    columns: dict[Label, str]
    extra: dict[Label, str]


def wide(columns: Iterable[str], arms: Iterable[Label], *, sure: bool = False) -> Wide | None:
    """Return the column of each arm, if the columns of numbers have one for each by a common prefix and suffix.

    Arms are compared as text: as it is, then in any case, then in snake_case. A prefix or suffix that says probability
    is preferred, and with `sure` required; two that serve equally well are an error.
    """
    names, known = list(columns), list(arms)
    for write, fold in product(_WRITTEN, _FOLDS):
        texts = {fold(write(arm)): arm for arm in known}
        if not all(texts) or len(texts) < max(len(known), 1):
            continue
        folded = unique((fold(name), name) for name in names)
        longest = max(texts, key=len)  # so that 1 is not found inside 11
        ranks: dict[tuple[str, str], int] = {}
        for name in folded:
            start = name.find(longest)
            while start >= 0:
                affix = name[:start], name[start + len(longest) :]
                if _apart(name, *affix) and all(f"{affix[0]}{text}{affix[1]}" in folded for text in texts):
                    ranks[affix] = _rank(*affix)
                start = name.find(longest, start + 1)
        surest = min(ranks.values(), default=0)
        worst = 0 if sure or len(known) == 1 else 2
        best = [affix for affix, rank in ranks.items() if rank == surest <= worst]
        if len(best) > 1:
            both = some(f"{prefix}*{suffix}" for prefix, suffix in best)
            raise wrong(
                "propensity", f"Columns {both} could each be the propensities; choose with {argument('propensity')}."
            )
        if best:
            prefix, suffix = best[0]
            owned = {arm: folded[f"{prefix}{text}{suffix}"] for text, arm in texts.items()}
            spare: dict[Label, str] = {}
            for name, column in folded.items() if prefix or suffix else ():
                label = slice(len(prefix), len(name) - len(suffix))
                alike = name.startswith(prefix) and name.endswith(suffix) and _apart(name, prefix, suffix)
                if alike and name[label] not in texts:
                    spare[(column if len(column) == len(name) else name)[label]] = column
            return Wide(owned, _in_type_of_arms(spare, known))
    return None


def by_label(labelled: Iterable[tuple[Label, str]], arms: Sequence[Label]) -> Wide | None:
    """Return the column of each arm among labelled columns, or None if an arm has none."""
    pairs = list(labelled)
    for write, fold in product(_WRITTEN, _FOLDS):
        texts = {fold(write(arm)): arm for arm in arms}
        owned = unique((fold(write(label)), column) for label, column in pairs)
        if len(texts) == len(arms) and texts.keys() <= owned.keys():
            spare = {label: column for label, column in pairs if fold(write(label)) not in texts}
            return Wide({arm: owned[text] for text, arm in texts.items()}, _in_type_of_arms(spare, arms))
    return None


def _in_type_of_arms(labelled: Mapping[Label, str], arms: Sequence[Label]) -> dict[Label, str]:
    """Return the labels as values of the arms' type, without those that cannot be."""
    truths = {"true": True, "false": False}
    if all(str(arm).lower() in truths and not isinstance(arm, str) for arm in arms):
        return {truths[t]: c for label, c in labelled.items() if (t := text_of(label).lower()) in truths}
    if all(isinstance(arm, Integral) for arm in arms):
        return {int(t): c for label, c in labelled.items() if re.fullmatch(r"-?[0-9]{1,18}", t := text_of(label))}
    return {text_of(label): column for label, column in labelled.items()}


def _rank(prefix: str, suffix: str) -> int:
    """Return how surely an affix says probability: 0 if all of it does, 1 if some of it, 2 if none."""
    tokens = [token for token in f"{snake(prefix)}_{snake(suffix)}".split("_") if token]
    weak = [bool(re.fullmatch("scores?|weights?|w|share|of", token)) for token in tokens]
    if not any(re.fullmatch(CHANCE, token) for token in tokens):
        return 1 if any(weak) else 2
    return 0 if all(w or re.fullmatch(f"{CHANCE}|{CHOSEN}", t) for w, t in zip(weak, tokens, strict=True)) else 1


def _apart(name: str, prefix: str, suffix: str) -> bool:
    """Return whether a label stands apart from its affixes: by a sign between them, or as in probA and p1."""
    start, end = len(prefix), len(name) - len(suffix)
    seams = [name[i - 1 : i + 1] for i in (start, end) if 0 < i < len(name)]
    return start < end and all(
        not seam.isalnum() or (seam[0].islower() and seam[1].isupper()) or seam[0].isdigit() != seam[1].isdigit()
        for seam in seams
    )


# ---------------------------------------------------------------- patterns of names


def is_pattern(text: str) -> bool:
    """Whether text has a place for an arm in it."""
    return "*" in text or "{arm}" in text


def captured(pattern: str, columns: Iterable[str]) -> list[tuple[str, str]]:
    """Return the columns that fit a pattern, each after the label that stands for its `*` or `{arm}`."""
    mark = "{arm}" if "{arm}" in pattern else "*"
    prefix, *rest = pattern.split(mark)
    if len(rest) != 1:
        raise OptionError(
            f"{argument('propensity')} is {quoted(pattern)}; a pattern must have one `*` or one `{{arm}}`."
        )
    fit = re.compile(f"{re.escape(prefix)}(.+){re.escape(rest[0])}", re.DOTALL)
    return [(match[1], column) for column in columns if (match := fit.fullmatch(column))]


# ---------------------------------------------------------------- a column of propensities for each arm

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
        arms_and_columns = _wide(propensity, held, arms)
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
    literals = {f"p{k}": library.literal(repr(float(shares[arm]))).cast("float64") for k, arm in enumerate(order)}
    return tuple(order), lambda t: literals


def _wide(propensity: Propensity, held: Array, arms: Sequence[Label] | None) -> _Columns:
    """Return propensities that have a column for each arm."""
    owners = dict(zip(propensity.labels or (), propensity.columns, strict=True))
    order = sorted(owners, key=_sort_key) if arms is None else list(arms)
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
    names = [_entry_name(label, known) for label in labels]
    absent = None if column.type().is_struct() else 0.0
    return labels, lambda t: {f"p{k}": p for k, p in enumerate(packed.columns(t[name], names, absent=absent))}


def _named_arms(column: str, names: list[str], values: list[Label]) -> list[Label]:
    """Return the arms that a table holds and those that only its propensities name, sorted."""
    entries = {_entry_name(value, names): value for value in values}
    unknown = next((name for name in entries if name not in names), None)
    if unknown is not None:
        raise LogError(
            f"Column {one_line(repr(column))}, for {argument('propensity')}, has the arms {few_labels(names)}, but not "
            f"the arm {one_line(repr(entries[unknown]))}.",
            column="propensity",
        )
    spare: dict[Label, str] = {name: name for name in names if name not in entries}
    alike = _in_type_of_arms(spare, values)
    others = spare.keys() - alike.values()
    return sorted([*values, *alike, *others], key=_sort_key)


def _entry_name(label: Label, names: Sequence[str]) -> str:
    """Return the name of an arm's entry: that of True may be true, and that of 1.0 may be 1."""
    ways = (str(label), text_of(label), *([str(label).lower()] if isinstance(label, bool) else []))
    return next((way for way in ways if way in names), ways[0])


def _sort_key(label: Label) -> tuple[int, float | str]:
    """Sort numbers as numbers, and everything else as text."""
    return (0, label) if isinstance(label, (int, float)) else (1, str(label))


def with_spare(table: ir.Table, propensity: Propensity) -> Propensity:
    """Take columns named like those of the arms as arms never chosen, if only with them the first rows sum to 1."""
    if not propensity.extra:
        return propensity
    names = [*propensity.columns, *propensity.extra.values()]
    total = 100 if propensity.unit == "percent" else 1
    some = fetch(table.select(*names).limit(_SAMPLE))
    columns = [floats(some[name].combine_chunks().cast("float64")) for name in names]
    alone = np.sum(columns[: len(propensity.columns)], axis=0) / total
    together = np.sum(columns, axis=0) / total
    are_all = np.abs(alone - 1).max(initial=0) <= tolerance(len(propensity.columns))
    if are_all or np.abs(together - 1).max(initial=0) > tolerance(len(names)):
        return propensity
    return replace(propensity, columns=tuple(names), labels=(*(propensity.labels or ()), *propensity.extra), extra={})
