"""Columns of tables: their kinds, the common names of each role, and how they become numbers and times.

First the words: roles, kinds, and patterns of names. Then names, what types hold, columns as expressions
of numbers and times, and Arrow's columns as arrays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from belated.base.columns import Array, Label
from belated.base.errors import LogError, argument
from belated.base.text import first_few, one_line
from belated.log.clock import NEVER, Clock
from belated.reading.engines import engine_of, library_of

if TYPE_CHECKING:
    import ibis.expr.datatypes as dt
    import ibis.expr.types as ir
    import pyarrow as pa

#: What a column may be for.
Role = Literal[
    "arm", "outcome", "assigned_at", "arrived_at", "delay", "key", "propensity",
    "segment", "covariates", "arrival_probability", "recorded_at",
]  # fmt: skip
ROLES: tuple[Role, ...] = get_args(Role)

#: What a column holds, in a word; "mixed" is text, but mostly numbers.
ColumnKind = Literal[
    "integer", "number", "boolean", "text", "time", "duration", "list", "struct", "map", "json", "mixed", "other"
]

#: Kinds for sentences.
_KIND_WORDS: dict[ColumnKind, str] = {
    "time": "datetimes", "integer": "whole numbers", "number": "numbers", "boolean": "true and false",
    "duration": "durations", "list": "lists", "struct": "structs", "map": "maps", "json": "JSON", "text": "text",
}  # fmt: skip

# ---------------------------------------------------------------- names that roles go by

_AT = r"(at|on|time|date|datetime|timestamp|ts|day|step)"

_TESTED = (
    r"(action|variant|variation|treatment|(test|experiment|exp|ab|ab_test|treatment|trial|study)_"
    r"(group|cell|arm|bucket|version|variant|condition))"
)

_SENT = (
    r"(template|creative|offer|subject_line|banner|headline|cta|ad|message|landing_page|design|layout|strategy|choice)"
)

_ACT = (
    r"(purchase|conversion|convert|click|open|order|sale|response|respond|pay|payment|reward|outcome|subscribe|sign_?up|"
    r"activate|complete|redeem|install|report|follow_?up)(d|ed)?|(paid|bought|sold|signed_up)"
)

_GAIN = (
    r"(revenue|amount|value|sales?|profit|gmv|ltv|orders?|order_value|order_total|purchased?|purchases|bought|"
    r"conversions?|converted|clicks?|clicked|opens?|opened|responded|subscribed|retained|churned|redeemed|installed|"
    r"success|paid|payment|activated|completed|recovered|survived|sign_?ups?|signed_up|visits?|visited|spend|spent|"
    r"retention(_\w+)?)"
)

CHOSEN = (
    r"(action|arm|assign|assigned|assignment|treatment|variant|variation|chosen|selected|selection|logging|logged|"
    r"policy|exposure|choice|behaviou?r|sampling|allocation|randomi[sz]ation)"
)

CHANCE = r"(p|pi|probs?|probas?|probability|probabilities|propensity|propensities|propensity_scores?|p_?scores?)"

#: The names that roles go by in real tables, as patterns of snake_case: an earlier tier beats a later one, and columns
#: of one tier compete. What no name can decide (is it clicks or revenue?) shares a tier, so that people are asked.
#: Segments and covariates are never guessed: they change what is estimated.
NAMES: Mapping[Role, Sequence[str]] = {
    "arm": (
        "arm",
        rf"(chosen|assigned|selected|served|shown|logged|label)_({_TESTED}|arm|group)",
        _TESTED,
        rf"({_TESTED}|arm)_(name|label|key|slug)|(?!(product|sku|item)_).*_(arm|variant|variation)",
        rf"({_TESTED}|arm)_(id|index|idx|number|code)",
        "(group|bucket|cell|condition|version|segment)(_name|_id)?|treated|is_treated|is_treatment|in_treatment",
        rf"{_SENT}(_(name|id|version|group))?",
        "item_id",  # Open Bandit's
    ),
    "outcome": (
        "outcome",
        "reward",
        "y|response|target|label_(cost|reward)|.*_(outcome|reward)|(outcome|reward)_value",
        _GAIN,
        rf"(is|has|did|was|total|net|gross|sum|num|n)_{_GAIN}|({_ACT})_(value|amount|revenue|total|count|flag)"
        rf"|{_GAIN}_(usd|eur|gbp|value|amount|count|total|flag)",
    ),
    "assigned_at": (
        rf"assigned|(assigned|assignment|randomi[sz]ed|randomi[sz]ation|allocated|allocation)_{_AT}",
        rf"(first_)?(exposure|exposed|decision|decided|enrolled|enroll?ment|treated|treatment|action)_{_AT}"
        "|(first_)?exposure",
        rf"(.*_)?(sent|send)_{_AT}|sent",
        rf"(first_)?(shown|served|displayed|delivered|delivery|impression|viewed|view)_{_AT}|shown|served|exposed|enrolled",
        rf"timestamp|time|ts|datetime|event_{_AT}",
        "step|round|t|trial|iteration",
        "date|day",
        "created_at|received_at|logged_at",
    ),
    "arrived_at": (
        rf"arrived|arrival|(arrived|arrival|observed|(outcome|reward)(_arrived|_observed)?)_{_AT}",
        rf"(first_)?(?!response_time)({_ACT})_{_AT}|follow_?up",
        rf"reported|received|returned|observed|answered|resolved|{_ACT}",
    ),
    "delay": (
        "delay",
        "lag|(outcome|reward|arrival)_delay|delay_.*",
        "(time|days|hours|minutes|seconds)_to_.*|.*_(delay|lag)",
    ),
    "key": (
        "(assignment|decision|impression|exposure|recommendation|send|message|request)_(id|key|uuid)",
        "(?!(experiment|test|campaign|feature|flag|account|project|event|row)_).*_(id|key|uuid|guid|hash)"
        "|(user|customer|visitor|subject|patient|participant|member|client|session)(id|uuid)?|email",
        "event_(id|key|uuid)",
        "id|key|uuid|guid|uid",
    ),
    "propensity": (
        "propensity|propensities|propensity_scores?|p_?scores?",
        rf"({CHOSEN}_){{1,2}}{CHANCE}|pi_b|action_dist(ribution)?"
        "|(p|prob|probability|propensity)_(of_)?(chosen|selected|action)",
        "probs?|probas?|probability|probabilities|pmf",
        "p|pi",
    ),
}

#: Names of arrival times in a table of outcomes, after those of `NAMES`: any other time.
LATER: Sequence[str] = (
    rf"event_{_AT}|.*(?<!created)(?<!received)(?<!updated)(?<!sent)_at",
    "timestamp|time|ts|datetime",
    "step|t|date|day",
    "created_at|received_at",
)

NUMERIC: tuple[ColumnKind, ...] = ("integer", "number")

CALENDAR: tuple[ColumnKind, ...] = ("time", "text")

#: What a role's column may hold. A guess is choosier.
KINDS: Mapping[Role, tuple[ColumnKind, ...]] = {
    "arm": ("text", "integer", "boolean", "number"),
    "outcome": ("integer", "number", "boolean"),
    "assigned_at": CALENDAR + NUMERIC,
    "arrived_at": CALENDAR + NUMERIC,
    "delay": ("duration", *NUMERIC),
    "key": ("text", "integer", "number"),
    "propensity": (*NUMERIC, "list", "struct", "map", "json", "text"),
    "segment": ("text", "integer", "boolean", "number", "time"),
    "covariates": ("integer", "number", "boolean"),
    "arrival_probability": NUMERIC,
    "recorded_at": CALENDAR + NUMERIC,
}

#: Kinds that only some names make likely: an arm is seldom a fraction or a date, text seldom a time or propensities.
ONLY: Mapping[tuple[Role, ColumnKind], str] = {
    **dict.fromkeys([("arm", "number"), ("arm", "time"), ("arm", "duration")], "arm|action"),
    ("assigned_at", "text"): r"(.*_)?(at|time|date|datetime|timestamp|ts)|sent",
    ("arrived_at", "text"): r"(.*_)?(at|time|date|datetime|timestamp|ts)|reported",
    **{("arrived_at", kind): rf"reported|(?!({_ACT})$).*" for kind in NUMERIC},
    ("propensity", "text"): ".*(s|pmf|dist|distribution)",
    **dict.fromkeys([("propensity", "integer"), ("propensity", "mixed")], ".{3,}"),  # in per cent; `p` may be a price
}


#: Types that look like times, under any name.
TIMELY: Mapping[ColumnKind, str] = {
    "time": ".*",
    **dict.fromkeys(("text", "duration"), r"(.*_)?(at|time|date|datetime|timestamp|when)"),
    **dict.fromkeys(NUMERIC, r"(.*_)?(at|date|datetime|timestamp|ts|epoch|when)"),
}

#: What seems to say whether an outcome has come, but not when; a number may be a time, unless its name is a flag's.
_ARRIVALS = "(arrived|observed|reported|received|returned|answered|resolved|matured|known|missing|pending|censored)"
FLAGS: Mapping[ColumnKind, str] = {
    "boolean": rf"((is|has|was|outcome|reward)_)?{_ARRIVALS}|(arrived|observed)_at",
    **dict.fromkeys(NUMERIC, rf"(is|has|was|outcome|reward)_{_ARRIVALS}|matured|pending|censored"),
}


# ---------------------------------------------------------------- names, in tables and in sentences


def wrong(role: Role, sentence: str) -> LogError:
    """Return the error that a role's column cannot be told."""
    return LogError(sentence, column=role)


def unique(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the pairs as a mapping, without the keys that come twice."""
    first: dict[str, str] = {}
    twice = set()
    for key, value in pairs:
        if first.setdefault(key, value) != value:
            twice.add(key)
    return {key: value for key, value in first.items() if key not in twice}


def snake(name: str) -> str:
    """Return a name in snake_case, from any style."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return re.sub(r"[\W_]+", "_", parted).strip("_").lower()


def text_of(label: Label) -> str:
    """Return an arm as columns are named after it."""
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)


def quoted(name: str) -> str:
    """Return a name for a sentence."""
    return f"'{one_line(name)}'"


def some(names: Iterable[str], quote: str = "'") -> str:
    """Return names for a sentence, the first few of many."""
    return first_few((f"{quote}{one_line(name)}{quote}" for name in names), 20)


# ---------------------------------------------------------------- what types hold


def kinds_of(table: ir.Table) -> dict[str, ColumnKind]:
    """Return in a word what each column of a table holds."""
    return {name: kind_of_type(dtype) for name, dtype in table.schema().items()}


def kind_of_type(dtype: dt.DataType) -> ColumnKind:
    """Return in a word what a type holds."""
    tests: tuple[tuple[Callable[[], bool], ColumnKind], ...] = (
        (dtype.is_boolean, "boolean"), (dtype.is_integer, "integer"), (dtype.is_floating, "number"),
        (dtype.is_decimal, "number"), (dtype.is_timestamp, "time"), (dtype.is_date, "time"),
        (dtype.is_interval, "duration"), (dtype.is_array, "list"), (dtype.is_struct, "struct"),
        (dtype.is_map, "map"), (dtype.is_json, "json"), (dtype.is_string, "text"),
    )  # fmt: skip
    for test, kind in tests:
        if test():
            return kind
    if dtype.is_unknown():  # PostgreSQL's composite types, which it can turn into JSON
        return "json"
    return "text" if dtype.is_uuid() else "other"


def in_words(dtype: dt.DataType) -> str:
    """Return what a type holds, for a sentence."""
    return _KIND_WORDS.get(kind_of_type(dtype), str(dtype))


# ---------------------------------------------------------------- expressions of numbers and times


def number(role: str, column: ir.Column) -> ir.FloatingColumn:
    """Return a column as float64."""
    dtype = column.type()
    if dtype.is_boolean():
        return column.cast("int32").cast("float64")
    if dtype.is_numeric() or dtype.is_null():
        return column.cast("float64")
    raise _holds(role, column, "numbers")


def value(role: str, column: ir.Column) -> ir.FloatingColumn:
    """Return a column as float64 in which NaN, as null, is nothing: engines differ in what they take it for."""
    numbers = number(role, column)
    return numbers.isnan().ifelse(None, numbers) if has_nan(column) else numbers


def has_nan(column: ir.Column) -> bool:
    """Whether a column may hold NaN, as decimals of a database may."""
    kind = column.type()
    return bool(kind.is_floating() or (kind.is_decimal() and not engine_of(column).is_embedded))


def label(column: ir.Column) -> ir.Column:
    """Return arms or segments whose decimals are whole numbers or floats, as Python compares them with others."""
    kind = column.type()
    if kind.is_uuid():
        return column.cast("string")
    return column.cast("int64" if kind.scale == 0 else "float64") if kind.is_decimal() else column


def time(role: str, column: ir.Column) -> ir.Column:
    """Return a column of times as int64, float64 or timestamps in UTC without a zone."""
    dtype = column.type()
    if dtype.is_integer():
        return column.cast("int64")
    if dtype.is_floating() or dtype.is_decimal():
        return column.cast("float64")
    if dtype.is_timestamp():
        return column if dtype.timezone is None else column.cast("timestamp")
    if dtype.is_date():
        return column.cast("timestamp")
    if dtype.is_string():
        return engine_of(column).time_of_text(column)
    raise _holds(role, column, "numbers or datetimes")


def _holds(role: str, column: ir.Column, what: str) -> LogError:
    name = one_line(repr(column.get_name()))
    return LogError(
        f"Column {name}, for {argument(role)}, holds {in_words(column.type())}; it must hold {what}.", column=role
    )


def clock_of(times: ir.Column) -> Clock:
    """Return the clock of a column that `time` made."""
    dtype = times.type()
    if dtype.is_timestamp():
        return Clock(unit="ns" if (dtype.scale or 0) > 6 else "us")
    return Clock(whole=dtype.is_integer())


def literal(clock: Clock, moment: int | float, like: ir.Column) -> ir.Scalar:
    """Return a number of the clock as the engine writes it."""
    library = library_of(like)
    if clock.unit is None:
        return library.literal(moment, type=like.type())
    return library.literal(str(clock.show(moment))).cast(like.type())


def moment_like(times: ir.Column, moment: int | float) -> ir.Scalar:
    """Return a moment as the times of a column are written."""
    return literal(clock_of(times), moment, times)


# ---------------------------------------------------------------- Arrow's columns as arrays


def numbers(column: pa.Array | pa.ChunkedArray, missing: float) -> Array:
    """Return an Arrow column of numbers; `to_numpy` would do it too, but imports pandas."""
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if not column.null_count:
        return np.from_dlpack(column)
    is_there, held = column.buffers()
    bits = np.unpackbits(np.frombuffer(is_there, dtype=np.uint8), bitorder="little", count=column.offset + len(column))
    values = np.from_dlpack(pa.Array.from_buffers(column.type, len(column), [None, held], offset=column.offset)).copy()
    values[bits[column.offset :] == 0] = missing
    return values


def floats(column: pa.Array | pa.ChunkedArray) -> Array:
    """Return an Arrow column of floats; null is NaN."""
    return numbers(column if column.type == "double" else column.cast("float64"), np.nan)


def clock_times(column: pa.Array, clock: Clock) -> Array:
    """Return Arrow times as numbers of a clock; null is NEVER or NaN."""
    import pyarrow as pa

    if clock.unit is None and not clock.whole:
        return floats(column)
    if clock.unit is not None and column.type != pa.timestamp(clock.unit):
        column = column.cast(pa.timestamp(clock.unit))
    return numbers(column if column.type == "int64" else column.cast("int64"), NEVER)
