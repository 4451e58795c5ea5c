"""Guessing which column plays which role: as the options say, and otherwise from common names."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from belated.base.checks import Options, nearest, no_name
from belated.base.errors import LogError, OptionError, argument
from belated.base.text import one_line
from belated.log.splits import UNIFORM, is_split
from belated.reading.columns import (
    CALENDAR,
    FLAGS,
    KINDS,
    LATER,
    NAMES,
    NUMERIC,
    ONLY,
    ROLES,
    TIMELY,
    ColumnKind,
    Role,
    quoted,
    snake,
    some,
    unique,
    wrong,
)
from belated.reading.csv_texts import TRUTHS
from belated.reading.roles import Propensity, Roles, captured, is_pattern

#: What says that no column plays a role, unless a column is named so.
NONE = "none"

#: Roles that several columns may play together.
_SEVERAL: tuple[Role, ...] = ("segment", "covariates")

#: The roles whose options name one column.
_SINGLE: tuple[Role, ...] = (
    "arm", "outcome", "assigned_at", "arrived_at", "delay", "arrival_probability", "recorded_at"
)  # fmt: skip


def find(
    kinds: Mapping[str, ColumnKind],
    outcome_kinds: Mapping[str, ColumnKind] | None = None,
    given: Options | None = None,
) -> Roles:
    """Return the role of each column, from the options where they say and else from common names.

    Parameters
    ----------
    kinds
        Column to kind, of the table of assignments: "integer", "number", "boolean", "text", "time", "duration",
        "list", "struct", "map", "json", "mixed" (text, but mostly numbers) or "other".
    outcome_kinds
        The same of a second table that holds the outcomes or events, if there is one.
    given
        Options by name: `arm`, `outcome`, `propensity`, `assigned_at`, `arrived_at`, `delay`, `key`, `segment`,
        `covariates`, `arrival_probability`, `recorded_at`; None is one that was not given, "" or "none" one that no
        column plays. With `events`, a row of the second table needs no outcome. With `texts`, the first table is
        text, and its columns of kind "other", and those named `arm` that look like times, may still hold labels.
    """
    options = {name: value for name, value in (given or {}).items() if value is not None}
    for role in _SINGLE:
        if not isinstance(options.get(role, ""), str):
            raise no_name(role, options[role])
    known = {*kinds, *(outcome_kinds or ())}
    options |= {
        name: "" for name in ("assigned_at", "arrived_at", "delay") if options.get(name) == NONE and NONE not in known
    }
    texts = bool(options.pop("texts", False))
    events = bool(options.pop("events", False)) and outcome_kinds is not None
    if options.get("arrived_at") and options.get("delay"):
        raise OptionError(
            f"{argument('arrived_at')} and {argument('delay')} are two forms of the same information; give one of them."
        )
    called = None if outcome_kinds is None else "events" if events else "outcomes"
    as_text: dict[str, tuple[ColumnKind, ...]] = {"arm": (*KINDS["arm"], "time", "duration")} if texts else {}
    first = _Columns(kinds)
    second = first if outcome_kinds is None else _Columns(outcome_kinds, f" in the {called}", later=True)
    tables: dict[Role, _Columns] = {
        "arm": first, "assigned_at": first, "outcome": second, "arrived_at": second, "delay": second
    }  # fmt: skip
    roles: dict[str, str | None] = {
        role: None if options[role] == "" else table.take(role, options[role], as_text.get(role, ()))
        for role, table in tables.items()
        if role in options
    }
    if not isinstance(options.get("key", ""), str) or options.get("key"):
        pair = key_pair(options["key"], kinds, second.kinds)
        roles["key"] = first.take("key", pair[0])
        roles["outcome_key"] = None if second is first else second.take("key", pair[1])
    several: dict[str, tuple[str, ...]] = {
        role: _several(role, options[role], first) for role in _SEVERAL if role in options
    }
    chance = options.get("arrival_probability")
    arrival = first.take("arrival_probability", chance) if chance else None
    record = options.get("recorded_at")
    recorded = second.take("recorded_at", record) if record else None
    propensity = _named(options["propensity"], first) if "propensity" in options else None

    required: tuple[Role, ...] = ("arm", "outcome")
    for role in required:
        column = None if role in options else tables[role].guess(role)
        if column is None and role not in options and texts:  # labels may be NA and None, or dates
            column = tables[role].guess(role, ("other", *as_text.get(role, ())))
        if column is not None:
            roles[role] = tables[role].take(role, column, as_text.get(role, ()))
        if not roles.setdefault(role, None) and not (role == "outcome" and events):
            raise tables[role].missing(role)
    roles |= _times(first, second, roles)
    if second is not first and "key" not in options:
        roles["key"], roles["outcome_key"] = _shared_key(first, second)
    propensity = replace(_likely(first) if propensity is None else propensity, unit=options.get("unit", "fraction"))
    if propensity.unit == "percent" and isinstance(propensity.split, Mapping):
        propensity = replace(propensity, split={arm: share / 100 for arm, share in propensity.split.items()})
    columns: Options = {**roles, "propensity": propensity, **several}
    columns |= {"arrival_probability": arrival, "recorded_at": recorded}
    guessed = tuple(role for role in ROLES if role not in options and columns.get(role))
    return Roles(**columns, guessed=guessed, second=called)


def key_pair(value: object, columns: Iterable[str], outcome_columns: Iterable[str]) -> tuple[str, str]:
    """Read the option `key`: one name for both tables, or "a=b" or a pair for the one in each."""
    if not isinstance(value, str):
        try:
            left, right = value if isinstance(value, Iterable) else ()
        except ValueError:
            raise OptionError(
                f"{argument('key')} is {one_line(repr(value))}; it must be a name, or a pair of names."
            ) from None
        return left, right
    pairs = [(value, value), *_splits(value)]
    firsts, seconds = set(columns), set(outcome_columns)
    return next((pair for pair in pairs if pair[0] in firsts and pair[1] in seconds), pairs[min(1, len(pairs) - 1)])


def names_option(name: str, text: str, columns: Iterable[str]) -> list[str]:
    """Read an option that names several columns, such as "age,visits"; a name may have a comma in it."""
    if text in set(columns):
        return [text]
    try:
        return [part.strip() for part in next(csv.reader([text], skipinitialspace=True))]
    except (csv.Error, StopIteration):
        raise OptionError(f"{argument(name)} cannot be read: {one_line(text)}.") from None


def _several(role: Role, value: object, table: _Columns) -> tuple[str, ...]:
    """Return the columns that an option names."""
    if isinstance(value, str):
        value = names_option(role, value, table.kinds) if value else []
    if not isinstance(value, Iterable) or isinstance(value, (bytes, Mapping)):
        raise OptionError(
            f"{argument(role)} is {one_line(repr(value))}; it must be the name of a column, or a list of names."
        )
    names = list(value)
    for name in names:
        if name == "" and name not in table.kinds:
            raise wrong(role, f"{argument(role)} has an empty name in it; name columns, such as 'country,device'.")
        if isinstance(name, str) and names.count(name) > 1:
            raise wrong(role, f"Column {quoted(name)} is named twice for {argument(role)}; name it once.")
        if role == "covariates" and isinstance(name, str) and table.kinds.get(name) == "text":
            raise wrong(role, f"The covariate {quoted(name)} holds text; it must hold numbers. Text can be a segment.")
    return tuple(table.take(role, name) for name in names)


def propensity_option(text: str, columns: Iterable[str]) -> str | list[str] | dict[str, str] | dict[str, float]:
    """Read the option `propensity` as text.

    It is a column, a pattern, columns "p_A,p_B", a mapping "A=p_A,B=p_B", or fixed probabilities "A=0.5,B=0.5".
    """
    names = set(columns)
    if text in names or not re.search("[=,]", text) or (is_pattern(text) and captured(text, names)):
        return text
    try:
        parts = [part.strip() for part in next(csv.reader([text], skipinitialspace=True))]
    except csv.Error:
        raise OptionError(f"{argument('propensity')} cannot be read: {one_line(text)}.") from None
    if not any("=" in part and part not in names for part in parts):
        return parts
    mapping: dict[str, str] = {}
    for part in parts:
        splits = _splits(part) or [(part, "")]
        numbers = [split for split in splits if _share(split[1], names) is not None]
        arm, column = next((split for split in [*splits, *numbers] if split[1] in names or split in numbers), splits[0])
        if not column or arm in mapping:
            raise OptionError(
                f"{argument('propensity')} has '{one_line(part)}' in it; each arm needs "
                "one part, such as 'A=p_A,B=p_B'."
            )
        mapping[arm] = column
    shares = {arm: share for arm, text in mapping.items() if (share := _share(text, names)) is not None}
    return shares if len(shares) == len(mapping) else mapping


def _share(text: str, names: Collection[str]) -> float | None:
    """Return text as a number, unless it names a column; 1/3 and 20% are numbers too."""
    if text in names:
        return None
    if parts := re.fullmatch(r"(\d+)/([1-9]\d*)", text):
        return int(parts[1]) / int(parts[2])
    try:
        return float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        return None


class _Columns:
    """The columns of one table, and which roles have taken them."""

    def __init__(self, kinds: Mapping[str, ColumnKind], where: str = "", *, later: bool = False) -> None:
        self.kinds, self.where, self.later = kinds, where, later
        self.names = {column: snake(column) for column in kinds}  # of those that are free
        self.taken: dict[str, Role] = {}

    def take(self, role: Role, column: object, kinds: Sequence[ColumnKind] = ()) -> str:
        """Return the column that an option names, if it exists, can play the role, and plays no other."""
        if not isinstance(column, str):
            raise no_name(role, column)
        if column not in self.kinds:
            near = nearest(column, [*self.kinds, UNIFORM] if role == "propensity" else self.kinds)
            hint = f" Did you mean {quoted(near)}?" if near else ""
            known = f"the columns are {some(self.kinds)}.{hint}"
            raise wrong(role, f"There is no column {quoted(column)} for {argument(role)}{self.where}; {known}")
        kind, possible = self.kinds[column], kinds or KINDS[role]
        if kind not in (*possible, "other") and not (kind == "mixed" and "number" in possible):
            must = f"it must be one of {', '.join(possible)}{_accepted(role, kind)}"
            raise wrong(role, f"Column {quoted(column)} for {argument(role)}{self.where} is of kind {kind}; {must}.")
        if self.taken.setdefault(column, role) != role:
            both = f"{argument(self.taken[column])} and {argument(role)}"
            raise wrong(role, f"Column {quoted(column)} is named for both {both}; a column can have only one role.")
        self.names.pop(column, None)
        return column

    def guess(self, role: Role, kinds: Sequence[ColumnKind] = (), near: str | None = None) -> str | None:
        """Return the free column with the most usual name for the role; of equals, the one akin to column `near`."""
        wanted: set[ColumnKind] = {*(kinds or KINDS[role])}
        if role in ("outcome", "arrived_at", "delay"):  # a column of nulls alone is of kind "other"
            wanted.add("other")
        if "number" in wanted and role != "propensity":
            wanted.add("mixed")
        possible = {
            column: name
            for column, name in self.names.items()
            if (kind := self.kinds[column]) in wanted and re.fullmatch(ONLY.get((role, kind), ".*"), name)
        }
        for tier in (*NAMES[role], *(LATER if self.later and role == "arrived_at" else ())):
            likely = [column for column, name in possible.items() if re.fullmatch(tier, name)]
            if len(likely) > 1 and near is not None:
                akin = [column for column in likely if _akin(self.names[column], snake(near))]
                likely = akin if len(akin) == 1 else likely
            if len(likely) > 1:
                several = f"{some(likely)}{self.where}"
                raise wrong(
                    role, f"Columns {several} could each be {argument(role)}; choose one with {argument(role)}."
                )
            if likely:
                return likely[0]
        return None

    def check_none(self, role: Role, kinds: Sequence[ColumnKind], tiers: int | None = None) -> None:
        """Refuse to leave out a column that is named like a role, but cannot be read as the others are."""
        for tier in NAMES[role][:tiers]:
            for column, name in self.names.items():
                if (kind := self.kinds[column]) in kinds and re.fullmatch(tier, name):
                    times = kind == "text" and role == "arrived_at"
                    written = f"if these are times in a CSV file, give {argument('date_format')}; " if times else ""
                    raise wrong(
                        role,
                        f"Column {quoted(column)}{self.where} is named like {argument(role)}, but is of kind {kind}, "
                        f"which does not fit the other columns; {written}name the column with {argument(role)}, or use "
                        f"{argument(role, NONE)} if there is none.",
                    )

    def check_flags(self) -> None:
        """Ask about a column that says whether outcomes have come: where they have not, 0 may stand for nothing."""
        for column, name in self.names.items():
            pattern = FLAGS.get(self.kinds[column])
            if pattern is not None and re.fullmatch(pattern, name):
                raise wrong(
                    "arrived_at",
                    f"Column {quoted(column)}{self.where} seems to say whether an outcome has come, but not when; "
                    "leave outcomes empty that have not come, then name the column of times with "
                    f"{argument('arrived_at')}, or use {argument('arrived_at', NONE)} if there is none.",
                )

    def check_times(self, role: Role, what: str, used: Collection[str]) -> None:
        """Ask about a column that looks like a time, if no column plays a role of times."""
        for column, name in self.names.items():
            pattern = TIMELY.get(self.kinds[column])
            if pattern is not None and column not in used and re.fullmatch(pattern, name):
                raise wrong(
                    role,
                    f"Column {quoted(column)}{self.where} looks like a time, and no column is known to "
                    f"say when {what}. If this column says it, use {argument(role, column)}; if none does, use "
                    f"{argument(role, NONE)}.",
                )

    def missing(self, role: Role) -> LogError:
        """Return the error that no column is named like the role, or none that can play it."""
        names = {**self.names, **{column: snake(column) for column in self.taken}}
        for column in (c for tier in NAMES[role] for c, name in names.items() if re.fullmatch(tier, name)):
            kind = self.kinds[column]
            named = f"Column {quoted(column)}{self.where} is named like an {role}, but is"
            ask = f"name another column with {argument(role)}"
            if column in self.taken:
                return wrong(role, f"{named} given for {argument(self.taken[column])}; {ask}.")
            if role == "outcome" and kind in KINDS[role]:  # an empty option says that no column is it
                return wrong(role, f"{named} not used as one; name the column with {argument(role)}.")
            if kind in KINDS[role]:  # guesses allow fewer kinds than options
                ask = f"if it is the {role}, use {argument(role, column)}; if not, {ask}"
                return wrong(role, f"{named} of kind {kind}, which is not guessed; {ask}.")
            return wrong(role, f"{named} of kind {kind}, which it cannot be{_accepted(role, kind)}; {ask}.")
        later = role == "outcome" and self.later
        events = f" If each row is an event, use {argument('events')} and {argument('window')}." if later else ""
        ask = f"name it with {argument(role)}"
        sentence = f"No column{self.where} is named like an {role}; {ask}; the columns are {some(self.kinds)}.{events}"
        return wrong(role, sentence)


class _Times(NamedTuple):
    """The columns of times."""

    assigned: str | None
    arrived: str | None
    delay: str | None

    @property
    def worth(self) -> tuple[int, bool]:
        """How much of an experiment's times they tell."""
        return bool(self.assigned) + bool(self.arrived or self.delay), bool(self.assigned)


def _times(first: _Columns, second: _Columns, roles: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the columns of times, guessed so that all are read from one clock: a calendar, or a count of steps."""
    given = _Times(roles.get("assigned_at"), roles.get("arrived_at"), roles.get("delay"))
    guesses = [_times_of_clock(first, second, roles, clock, spans) for clock, spans in _clocks(first, second, given)]
    assigned, arrived, delay = max(guesses, key=lambda guess: guess.worth, default=given)
    if not arrived and "delay" not in roles:
        delay = second.guess("delay")  # such as a whole number of days
    if not assigned and "assigned_at" not in roles:
        first.check_none("assigned_at", ("other",), tiers=1)
    if not arrived and not delay and not {"arrived_at", "delay"} & roles.keys():
        second.check_flags()
        second.check_none("arrived_at", ("other", "text", "mixed", "time", "duration", *NUMERIC))
        second.check_none("delay", ("other", "text", "mixed"))
    if not assigned and "assigned_at" not in roles:
        first.check_times("assigned_at", "the rows were assigned", {arrived or "", delay or ""})
    if not arrived and not delay and not {"arrived_at", "delay"} & roles.keys():
        second.check_times("arrived_at", "their outcomes came", {assigned or ""})
    return {
        "assigned_at": assigned and first.take("assigned_at", assigned),
        "arrived_at": arrived and second.take("arrived_at", arrived),
        "delay": delay and second.take("delay", delay),
    }


def _clocks(
    first: _Columns, second: _Columns, given: _Times
) -> list[tuple[Sequence[ColumnKind], Sequence[ColumnKind]]]:
    """Return the clocks that the given columns allow, each as the kinds of its times and of its delays."""
    clocks: list[tuple[Sequence[ColumnKind], Sequence[ColumnKind]]] = [(CALENDAR, ("duration",)), (NUMERIC, NUMERIC)]
    named = {table.kinds[c] for table, c in ((first, given.assigned), (second, given.arrived)) if c}
    kinds = {"number" if kind == "mixed" else kind for kind in named}
    span = second.kinds.get(given.delay or "")
    return sorted((clock for clock in clocks if kinds <= {*clock[0], "other"}), key=lambda clock: span not in clock[1])


def _times_of_clock(
    first: _Columns,
    second: _Columns,
    roles: Mapping[str, str | None],
    clock: Sequence[ColumnKind],
    spans: Sequence[ColumnKind],
) -> _Times:
    """Return the columns of times as the kinds of one clock suggest them."""
    assigned = roles["assigned_at"] if "assigned_at" in roles else first.guess("assigned_at", clock)
    arrived, delay = roles.get("arrived_at"), roles.get("delay")
    if "arrived_at" not in roles and not delay:
        arrived = second.guess("arrived_at", clock, near=roles["outcome"])
    if "delay" not in roles and not arrived:
        delay = second.guess("delay", spans)
    return _Times(assigned, arrived, delay)


def _shared_key(first: _Columns, second: _Columns) -> tuple[str, str]:
    """Return the free column that both tables have and that looks like a key, or else the only one both have."""
    by_name = unique((name, column) for column, name in second.names.items()) | {c: c for c in second.names}
    shared = [
        (name, column, other)
        for column, name in first.names.items()
        if (other := by_name.get(column) or by_name.get(name))
        and {first.kinds[column], second.kinds[other]} <= {*KINDS["key"], "other"}
    ]
    *tiers, bare = NAMES["key"]
    if not any(re.fullmatch(tier, name) for tier in tiers for name in second.names.values()):
        tiers.append(bare)  # beside an assignment_id, a bare id only numbers the outcomes
    tiers.append(rf"(?!(({bare})|(experiment|test|campaign|feature|flag|account|project)(_.*)?)$).+")
    for tier in tiers:
        likely = [(column, other) for name, column, other in shared if re.fullmatch(tier, name)]
        if len(likely) == 1:
            return first.take("key", likely[0][0]), second.take("key", likely[0][1])
        if likely:
            both = some(column for column, _ in likely)
            raise wrong(
                "key",
                f"Columns {both} are in both tables and could each be the key; choose one with {argument('key')}.",
            )
    raise wrong(
        "key",
        "No column is clearly the key of both tables; name it with "
        f"{argument('key')}, such as 'id=user_id' if the tables use different names; "
        f"the columns are {some(first.kinds)} and{second.where} {some(second.kinds)}.",
    )


def _named(value: object, table: _Columns) -> Propensity:
    """Return the propensities that the option names: a column, a pattern, columns, or columns by arm."""
    option: object = propensity_option(value, table.kinds) if isinstance(value, str) else value
    if is_split(option) or (isinstance(option, str) and option == UNIFORM and option not in table.kinds):
        return Propensity("split", split=option)
    if isinstance(option, str) and option not in table.kinds and is_pattern(option):
        numeric = [column for column in table.names if table.kinds[column] in (*NUMERIC, "mixed")]
        fitting = captured(option, numeric)
        if not fitting:
            known = f"the columns are {some(table.kinds)}"
            raise wrong(
                "propensity", f"No column of numbers fits {quoted(option)} for {argument('propensity')}; {known}."
            )
        labels, columns = zip(*fitting, strict=True)
        return Propensity("wide", columns, labels, pattern=option)
    if isinstance(option, Mapping):
        columns = tuple(table.take("propensity", column, NUMERIC) for column in option.values())
        return Propensity("wide", columns, tuple(option))
    if isinstance(option, Iterable) and not isinstance(option, (str, bytes)):
        return Propensity("wide", tuple(table.take("propensity", column, NUMERIC) for column in option))
    column = table.take("propensity", option)
    if table.kinds[column] not in (*NUMERIC, "mixed"):
        return Propensity("column", (column,))
    return Propensity("chosen", (column,), beside=tuple(table.names))


def _likely(table: _Columns) -> Propensity:
    """Return the propensities that names suggest; where the arms must tell, with what is meant if they do not."""
    logged = [column for column, name in table.names.items() if name == "label_probability"]
    if len(logged) == 1:  # Vowpal Wabbit's; its list `p` follows its list `a`, not the arms
        return Propensity("chosen", (logged[0],))
    if column := table.guess("propensity", ("struct", "map", "json")):
        return Propensity("column", (column,))
    instead = None
    if column := table.guess("propensity", ("list",)) or table.guess("propensity", ("text",)):
        instead = Propensity("column", (column,))
    elif column := table.guess("propensity", ("number",)) or table.guess("propensity", ("integer", "mixed")):
        instead = Propensity("chosen", (column,))
    numbers = tuple(column for column in table.names if table.kinds[column] in (*NUMERIC, "mixed"))
    texts = tuple(column for column in table.names if table.kinds[column] == "text")
    return Propensity("guess", numbers, beside=texts, instead=instead)


def _splits(text: str) -> list[tuple[str, str]]:
    """Return every way to read a text as a=b; names may have `=` in them."""
    return [(text[: m.start()].strip(), text[m.end() :].strip()) for m in re.finditer("=", text)]


def _akin(one: str, other: str) -> bool:
    """Return whether two names share a stem, as converted_at and conversion_value do."""
    stems = [{token[:4] for token in name.split("_") if len(token) >= 4} for name in (one, other)]
    return not stems[0].isdisjoint(stems[1])


def _accepted(role: Role, kind: ColumnKind) -> str:
    """Return, for an outcome that is text, the words that are read as outcomes."""
    if role != "outcome" or kind not in ("text", "mixed"):
        return ""
    words = [f"{yes}/{no}" for yes, no in TRUTHS]
    return f"; write numbers or, in a CSV file, {', '.join(words[:-1])} or {words[-1]}"
