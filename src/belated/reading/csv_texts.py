"""The meaning of text in a CSV file: the kind of a column, and how its text becomes values.

Every value is read by a rule that is written here, none by an engine's guess. A `TextRule` is such a rule, as SQL. What
it cannot read is an error that names the line, the value and, where one would help, the option.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal, get_args

from belated.base.errors import OptionError, argument
from belated.base.text import shown
from belated.reading.columns import ColumnKind
from belated.reading.expressions import ZONE_NAME, time_of_text

#: What a column is read for.
Use = Literal["label", "key", "outcome", "share", "time", "delay"]

#: Text that says there is nothing, in any case; of labels, which are text as written, only "" does.
MISSING = ("", "na", "n/a", "#n/a", "nan", "-nan", "null", "none", "<na>", "nat", r"\n")

#: Words for true and false, in any case; a column holds words of one pair.
TRUTHS = (("true", "false"), ("t", "f"), ("yes", "no"), ("y", "n"))

_TRUTH_WORDS = frozenset(word for pair in TRUTHS for word in pair)

#: Which of day and month comes first in dates such as 3/4/2026.
DateOrder = Literal["day-first", "month-first"]
ORDERS: tuple[DateOrder, ...] = get_args(DateOrder)

#: What is meant as a number, if not always written as one.
_LIKE_A_NUMBER = re.compile(
    r"\s*[$€£]?\s*[-+]?[$€£]?(\d[\d.,_' ]*([eE][-+]?\d+)?|\.\d+|(?i:inf|infinity))\s*[%$€£]?\s*", re.DOTALL
)

#: Dates whose year comes first, perhaps with a time; and those whose year comes last.
_YEAR_FIRST = re.compile(r"\d{4}[-/]\d{1,2}[-/]\d{1,2}([ T]+\d{1,2}:\d{2}.*)?")
_YEAR_LAST = re.compile(r"(\d{1,2})[./-](\d{1,2})[./-]\d{4}([ T,]+\d{1,2}:\d{2}.*)?")

#: The same for DuckDB.
YEAR_LAST_SQL = r"^\s*(\d{1,2})[./-](\d{1,2})[./-](\d{4})\b"

#: The end of a time that has a zone.
_ZONE = re.compile(rf":\d{{2}}(\.\d+)?\s*(Z|{ZONE_NAME}|[-+]\d{{1,2}}(:?\d{{2}}){{0,2}})$", re.IGNORECASE)

#: Patterns of dates without marks, by how many digits they have.
_COMPACT = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}

#: Durations as pandas, Python and spreadsheets write them.
_DURATION = r"\d+ days?|(\d+ days?,? )?\d{1,5}:\d{2}:\d{2}(\.\d{1,9})?"


@dataclass(frozen=True)
class TextFormat:
    """The form of text files: encoding, decimal mark and dates.

    Attributes
    ----------
    encoding : str or None
        Such as "latin-1"; None: UTF-8, or what the file's byte order mark says.
    decimal : str
        What stands between a number's whole part and its fraction, "." or ",".
    date_format : str or None
        "day-first", "month-first" or a pattern such as "%d.%m.%Y %H:%M"; None: the year comes first.
    """

    encoding: str | None = None
    decimal: str = "."
    date_format: str | None = None

    def __post_init__(self) -> None:
        if self.encoding is not None:
            try:
                "".encode(self.encoding)
            except (LookupError, TypeError, ValueError):
                raise OptionError(
                    f"{argument('encoding')} is {shown(self.encoding)}; it must be the name of an encoding, such as "
                    "'latin-1', 'cp1252' or 'utf-16'."
                ) from None
        if self.decimal not in (".", ","):
            raise OptionError(f"{argument('decimal')} is {shown(self.decimal)}; it must be '.' or ','.")
        form = self.date_format
        if form is not None and form not in ORDERS and (not isinstance(form, str) or "%" not in form):
            raise OptionError(
                f"{argument('date_format')} is {shown(form)}; it must be 'day-first', 'month-first' or a pattern such "
                "as '%d.%m.%Y'."
            )

    @property
    def given(self) -> str | None:
        """The first option that was given, None if none was."""
        usual = TextFormat()
        names = ("encoding", "decimal", "date_format")
        return next((name for name in names if getattr(self, name) != getattr(usual, name)), None)

    @property
    def order(self) -> DateOrder | None:
        """Which of day and month comes first, if it was said."""
        return next((order for order in ORDERS if order == self.date_format), None)

    @property
    def pattern(self) -> str | None:
        """The pattern of dates, if there is one."""
        return None if self.order is not None else self.date_format


# ---------------------------------------------------------------- which kind a column is of


def kind_of_texts(texts: Iterable[str], form: TextFormat) -> ColumnKind:
    """Return in a word what texts hold; "boolean": most do; "mixed": most are meant as numbers, but not all are."""
    held = [text for each in texts if (text := each.strip()).lower() not in MISSING]
    if not held:
        return "other"
    if 2 * sum(text.lower() in _TRUTH_WORDS for text in held) > len(held):
        return "boolean"
    mark = re.escape(form.decimal)
    number = re.compile(rf"[-+]?(\d+({mark}\d*)?|{mark}\d+)([eE][-+]?\d+)?|[-+]?(?i:inf|infinity)")
    tests: Sequence[tuple[Callable[[str], object], ColumnKind]] = (
        (re.compile(r"[-+]?\d{1,19}").fullmatch, "integer"),
        (number.fullmatch, "number"),
        (lambda text: _is_date(text, form), "time"),
        (re.compile(_DURATION).fullmatch, "duration"),
    )
    for test, kind in tests:
        if all(map(test, held)):
            return kind
    if form.pattern is not None and any(_is_date(text, form) for text in held[:100]):
        return "time"
    return "mixed" if 2 * sum(_LIKE_A_NUMBER.fullmatch(text) is not None for text in held) > len(held) else "text"


def zones_of(texts: Iterable[str], form: TextFormat) -> set[bool]:
    """Return whether times have a zone: {True}, {False}, both, or {} if there are none."""
    held = [text for each in texts if (text := each.strip()).lower() not in MISSING]
    if form.pattern is not None:
        return {"%z" in form.pattern.lower()} if held else set()
    return {_ZONE.search(text) is not None for text in held}


def truths_of(texts: Iterable[str]) -> tuple[str, str]:
    """Return the pair of words for true and false that most texts are from."""
    words = Counter(text.strip().lower() for text in texts)
    return max(TRUTHS, key=lambda pair: words[pair[0]] + words[pair[1]])


def has_year_last(texts: Iterable[str]) -> bool:
    """Whether any text is a date whose year comes last."""
    return any(_YEAR_LAST.fullmatch(text.strip()) for text in texts)


def compact_pattern(texts: Iterable[str]) -> str | None:
    """Return the pattern of dates without marks, if every text is one."""
    patterns = {_pattern_of(text.strip()) for text in texts}
    return patterns.pop() if len(patterns) == 1 else None


def _pattern_of(text: str) -> str | None:
    pattern = _COMPACT.get(len(text))
    if pattern is None or not (text.isascii() and text.isdecimal() and "1900" <= text[:4] < "2200"):
        return None
    try:
        datetime.strptime(text, pattern)
    except ValueError:
        return None
    return pattern


def _is_date(text: str, form: TextFormat) -> bool:
    if form.pattern is None:
        return _YEAR_FIRST.fullmatch(text) is not None or _YEAR_LAST.fullmatch(text) is not None
    try:
        datetime.strptime(text, form.pattern)
    except ValueError:
        return False
    return True


# ---------------------------------------------------------------- how text becomes values


@dataclass(frozen=True)
class TextRule:
    """A rule by which text becomes values.

    Attributes
    ----------
    value : callable
        From SQL for text to SQL for its value, NULL where it has none.
    must : str
        What the value must be, for a sentence.
    use : str
        What the column is read for.
    """

    value: Callable[[str], str]
    must: str
    use: Use

    def sql(self, text: str) -> str:
        """Return SQL for the value; a value that cannot be read is an error."""
        wrong = f"CASE WHEN {self.missing(text)} THEN NULL ELSE error('unreadable: ' || {text}) END"
        return f"coalesce({self.value(text)}, {wrong})"

    def faulty(self, text: str) -> str:
        """Return SQL for whether a value cannot be read."""
        return f"{text} IS NOT NULL AND NOT {self.missing(text)} AND {self.value(text)} IS NULL"

    def missing(self, text: str) -> str:
        """Return SQL for whether there is nothing."""
        if self.use == "label":
            return f"{text} IS NULL"
        words = ", ".join(f"'{word}'" for word in MISSING)
        return f"({text} IS NULL OR lower(trim({text})) IN ({words}))"


def as_written(use: Use) -> TextRule:
    """Return text as it is: labels, keys and documents."""
    if use == "label":
        return TextRule(lambda text: text, "text", use)
    words = ", ".join(f"'{word}'" for word in MISSING)
    return TextRule(lambda text: f"CASE WHEN lower(trim({text})) IN ({words}) THEN NULL ELSE {text} END", "text", use)


def as_number(use: Use, form: TextFormat, *, percent: bool = False) -> TextRule:
    """Return text as numbers; in per cent, the sign may follow them. Separators of thousands are not read."""

    def value(text: str) -> str:
        plain = f"trim({text})"
        if percent:
            plain = f"regexp_replace({plain}, '\\s*%$', '')"
        if form.decimal == ",":
            plain = f"CASE WHEN contains({plain}, '.') THEN NULL ELSE replace({plain}, ',', '.') END"
        # DuckDB would skip underscores, and a plus before a minus
        number = f"CASE WHEN NOT contains({plain}, '_') AND NOT starts_with({plain}, '+-') THEN {plain} END"
        return f"nullif(TRY_CAST({number} AS DOUBLE), 'nan'::DOUBLE)"

    return TextRule(value, "a number or a time" if use == "time" else "a number", use)


def as_whole(use: Use) -> TextRule:
    """Return text as whole numbers: DuckDB would round others."""
    return TextRule(
        lambda text: f"CASE WHEN regexp_full_match(trim({text}), '[-+]?\\d+') THEN TRY_CAST({text} AS BIGINT) END",
        "a whole number",
        use,
    )


def as_truth(use: Use, words: tuple[str, str]) -> TextRule:
    """Return words for true and false as 1 and 0."""
    yes, no = words
    return TextRule(
        lambda text: f"CASE lower(trim({text})) WHEN '{yes}' THEN 1.0::DOUBLE WHEN '{no}' THEN 0.0::DOUBLE END",
        f"{yes} or {no}, as in the other rows",
        use,
    )


def as_time(use: Use, form: TextFormat, order: DateOrder | None) -> TextRule:
    """Return text as times in UTC; `order` is that of dates whose year comes last."""
    pattern = form.pattern

    def value(text: str) -> str:
        if pattern is not None:
            sql = pattern.replace("'", "''")
            return f"CAST(try_strptime(trim({text}), '{sql}') AS TIMESTAMP)"
        plain = f"trim({text})"
        if order is not None:
            parts = r"\3-\2-\1" if order == "day-first" else r"\3-\1-\2"
            plain = f"regexp_replace({plain}, '{YEAR_LAST_SQL}', '{parts}')"
        return time_of_text(plain)

    must = "a time" if pattern is None else f"a time in the format {shown(pattern)}"
    return TextRule(value, must, use)


def as_duration(use: Use) -> TextRule:
    """Return text as durations."""
    return TextRule(
        lambda text: (
            f"CASE WHEN regexp_full_match(trim({text}), '{_DURATION}') "
            f"THEN TRY_CAST(replace({text}, ',', '') AS INTERVAL) END"
        ),
        "a duration such as 2 days 03:00:00",
        use,
    )


def advice(text: str, reading: TextRule, form: TextFormat) -> str:
    """Return what may be meant by text that cannot be read, and which option reads it; "" if nobody knows."""
    bare = text.strip()
    if bare in ("-", "--", "–", "—", "?", ".", "*"):
        return "leave the field empty if there is no value"
    if reading.use == "time":
        return _advice_on_time(bare, reading, form)
    if bare.lower() in _TRUTH_WORDS:
        return "" if "or" in reading.must else "the other rows hold numbers; write 1 and 0"
    if reading.use == "share" and bare.endswith("%"):
        return f"if these are per cent, use {argument('propensity_unit', 'percent')}"
    if form.decimal == "." and re.fullmatch(r"[-+]?\d{1,3}(,\d{3})+", bare):
        return (
            "if the comma separates thousands, write the number without it; if it is a decimal mark, use "
            f"{argument('decimal', ',')}"
        )
    if form.decimal == "." and re.fullmatch(r"[-+]?\d*,\d+([eE][-+]?\d+)?%?", bare):
        return f"if the comma is a decimal mark, use {argument('decimal', ',')}"
    if form.decimal == "," and re.fullmatch(r"[-+]?\d*\.\d+([eE][-+]?\d+)?", bare):
        return f"with {argument('decimal', ',')}, numbers cannot contain points"
    if _LIKE_A_NUMBER.fullmatch(bare) and reading.must == "a number":
        return "write it as a plain number, without other signs and without thousands separators"
    return ""


def _advice_on_time(bare: str, reading: TextRule, form: TextFormat) -> str:
    if form.pattern is not None or reading.must.startswith("a time in"):
        return ""
    if (day := _YEAR_FIRST.fullmatch(bare)) is not None:
        if not _is_day(bare[: day.start(1)] if day[1] else bare):
            return "there is no such day"
        return "write it as 2026-03-01 14:30:00, with an offset such as +02:00 if it is not in UTC"
    if form.date_format is None and re.search(r"(?i)\d\s*[ap]m\b", bare):
        return f"give the format with {argument('date_format')}, such as '%m/%d/%Y %I:%M %p'"
    if re.match(r"\d{1,2}([./-])\d{1,2}\1\d{2}\b", bare):
        return f"give the format of years of two digits with {argument('date_format')}, such as '%d.%m.%y'"
    if form.date_format is None and re.match(r"\d|\w+ \d|\w+, ", bare):
        return (
            f"the default format is 2026-03-01; give another with {argument('date_format')}, such as '%d.%m.%Y' or "
            "'day-first'"
        )
    return ""


def _is_day(text: str) -> bool:
    """Whether a date whose year comes first is in the calendar."""
    year, month, day = map(int, re.split("[-/]", text))
    try:
        date(year, month, day)
    except ValueError:
        return False
    return True
