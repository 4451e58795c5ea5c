"""Numbers, times and names as text: how they are written, how much room they take, how names are shortened."""

from __future__ import annotations

import math
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np  # the help is shown without it


#: In what a number is shown: as it is; a share in percent; or the difference of two shares in percentage points. Data
#: formats and attributes hold every number as it is.
Unit = Literal["number", "percent", "points"]

#: A limit closer to 0 than this share of its standard error differs from 0 by rounding.
_ROUNDING = 1e-9

#: What stands where there is no value.
NOTHING = "–"

#: Units of durations, in seconds, the largest first.
_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "us"))

#: What of a URL is secret: what stands between a user's name and the last @, and parameters of such names.
#: The slashes may have been forgotten.
_PASSWORD = re.compile(r"(\w:/{0,2}[^:/?#\s@]*):\S*(?=@)")
SECRET = re.compile(r"([?&;][^=&;\s]*(?:pass|pwd|secret|token|key|cred)[^=&;\s]*=)[^&;\s]*", re.IGNORECASE)

#: A joiner between two emoji, as it is or as `repr` writes it; skin tones and variation selectors may stand before it.
_JOINER_OF_EMOJI = re.compile(
    "(?<=[\u2600-\u27bf\ufe0f\U0001f000-\U0001faff])(?:\u200d|\\\\u200d)(?=[\u2600-\u27bf\U0001f000-\U0001faff])"
)

#: Characters that are blank or not drawn at all, although they count as printable.
_BLANKS = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0]")

#: A name in letters that are written from right to left, Hebrew and Arabic among them, with what joins its words.
_RIGHT_TO_LEFT = "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]"
_RIGHT_TO_LEFT_NAME = re.compile(f"({_RIGHT_TO_LEFT}+(?:[ .'’/_-]?{_RIGHT_TO_LEFT}+)*)")

#: Greek and Cyrillic letters, and the Latin ones that look the same; variation selectors, which are not drawn.
_USUAL_LETTERS = str.maketrans(
    "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧοАВЕЅІЈКМНОРСТУХаеосрхуіјѕ",
    "ABEZHIKMNOPTYXoABESIJKMHOPCTYXaeocpxyijs",
    "".join(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))),
)

#: From text to how much room it takes.
Width = Callable[[str], float]

_JOINER, _EMOJI_STYLE = "\u200d", "\ufe0f"
_LONGEST_NAME = 100_000

#: Characters that all of several names begin with, from which on these are left out rather than the middle of each.
_MUCH_SHARED = 6


def count(number: int, noun: str) -> str:
    """Return a number with its noun in the right number."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def first_few(texts: Iterable[str], most: int = 5) -> str:
    """Return texts for a sentence: the first few of many, and how many more there are."""
    every = list(texts)
    few = ", ".join(every[:most])
    return few if len(every) <= most else f"{few} and {len(every) - most:,} more"


def few_labels(labels: Iterable[object]) -> str:
    """Return labels of arms or segments for a sentence, at most five of them."""
    return first_few(one_line(repr(label)) for label in labels)


def percent(level: float) -> str:
    """Return a level in percent."""
    return f"{100 * level:.6g}%"


def printable(value: object) -> str:
    """Return text in which characters that are not printable, such as ends of lines, are written as their escapes.

    Joiners between emoji are kept.
    """
    text = _JOINER_OF_EMOJI.sub("\u200d", str(value))
    if text.isascii() and text.isprintable():
        return text
    joiners = {match.start() for match in _JOINER_OF_EMOJI.finditer(text)}
    return "".join(c if _is_drawn(c) or i in joiners else _escaped(c) for i, c in enumerate(text))


def _is_drawn(character: str) -> bool:
    return character.isprintable() and _BLANKS.match(character) is None


def _escaped(text: str) -> str:
    """Return text in which everything that is not ASCII, and ends of lines and the like, are written as escapes."""
    return "".join(c if c == "\\" else c.encode("unicode_escape").decode() for c in text)


def shown(value: object) -> str:
    """Return a value as Python writes it, for a sentence, however deep its lists are nested and long its numbers.

    Letters in the unusual one of two ways to write them, such as e and an accent of its own, are spelt out.
    """
    try:
        text = repr(value)
        return one_line(text if unicodedata.is_normalized("NFC", text) else _escaped(text))
    except RecursionError:
        return f"a {type(value).__name__} that is nested too deep"
    except ValueError:  # more digits than Python writes
        return "a number that is too long to show"


def one_line(value: object, longest: int = 60) -> str:
    """Return a label on one line of bearable length, without control characters; the middle of a long one is left out.

    Names of arms often differ only at their ends.
    """
    text = printable(value)
    if len(text) <= longest:
        return text
    tail = (longest - 1) // 3
    return _without_middle(text, longest - 1 - tail, tail)


def visible(label: object) -> str:
    """Return a printable label, in quotes where nothing, or spaces at its ends, would not be seen."""
    text = printable(label)
    return text if text and text == text.strip() else f"'{text}'"


def distinguishable(texts: Sequence[str]) -> list[str]:
    """Return texts so that different ones look different: unusual texts that look like others are spelt out."""
    alike = Counter(_look(text) for text in set(texts))
    return [_escaped(text) if alike[_look(text)] > 1 and text != _look(text) else text for text in texts]


def _look(text: str) -> str:
    """Return the usual text that looks the same."""
    return text if text.isascii() else unicodedata.normalize("NFC", text.translate(_USUAL_LETTERS))


def by_direction(text: str) -> list[str]:
    """Return the parts of a text: every second one is a name that is written from right to left.

    A page must set these apart, or they move the numbers and names that follow them.
    """
    return [text] if text.isascii() else _RIGHT_TO_LEFT_NAME.split(text)


def for_stdout(text: str) -> str:
    """Return text that `print` can write: what the encoding of stdout does not have is written as escapes.

    A file that stdout is redirected to has the encoding of the system, which may lack ✓ and ∞.
    """
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text if text.isascii() else text.encode(encoding, "backslashreplace").decode(encoding)


def masked(text: str) -> str:
    """Return text in which the passwords of URLs are stars."""
    text = _PASSWORD.sub(r"\1:***", text) if "@" in text else text
    return SECRET.sub(r"\1***", text) if "://" in text else text


def moment_text(moment: np.datetime64) -> str:
    """Return a moment as short text: a date alone where the time is midnight."""
    text = str(moment).replace("T", " ")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.removesuffix(" 00:00:00")


def duration_text(duration: np.timedelta64) -> str:
    """Return a duration in the largest unit that it fills."""
    seconds = float(duration.astype("timedelta64[ns]").astype("int64")) / 1e9
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def p_words(p_value: float, digits: int | None = None) -> str:
    """Return what follows the letter p: "= 0.0123" or "< 0.0001"."""
    text = p_value_text(p_value, digits)
    return f"{text[0]} {text[1:]}" if text.startswith("<") else f"= {text}"


# ---------------------------------------------------------------- cells of tables


def p_value_text(value: object, digits: int | None = None) -> str:
    """Return a p-value with three or four decimals, or with a number of significant digits; never rounded down."""
    number = as_number(value)
    if math.isnan(number):
        return NOTHING
    if number < 1e-4:
        return "<0.0001"
    if digits is not None:
        return f"{number:.{digits}g}"
    return f"{number:.4f}" if number < 0.1 else f"{number:.3f}"


def count_text(value: object) -> str:
    """Return a count."""
    number = as_number(value)
    return NOTHING if math.isnan(number) else f"{number:,.0f}"


def share_text(value: object) -> str:
    """Return a share in percent; an estimated one may lie a little outside of 0 and 1, and is shown as 0 or 1."""
    number = as_number(value)
    return NOTHING if math.isnan(number) else f"{min(max(number, 0.0), 1.0) + 0.0:.1%}"


def statistic_text(value: object) -> str:
    """Return a test's statistic: two decimals."""
    number = as_number(value)
    return f"{number:z.2f}" if math.isfinite(number) else number_text(number)


def number_text(value: object) -> str:
    """Return a number with four digits, a duration or a moment; anything else as it is."""
    import numpy as np

    if isinstance(value, (np.datetime64, np.timedelta64)) and np.isnat(value):
        return NOTHING
    if isinstance(value, np.timedelta64):
        return duration_text(value)
    if isinstance(value, np.datetime64):
        return moment_text(value)
    if value is not None and not isinstance(value, (int, float, np.number)):
        return str(value)
    number = float(as_number(value))
    if math.isnan(number):
        return NOTHING
    if math.isinf(number):
        return "∞" if number > 0 else "-∞"
    return f"{number:,.0f}" if number.is_integer() and abs(number) < 1e15 else _in_full(number, 4)


def _in_full(number: float, digits: int) -> str:
    """Return a number with so many significant digits, or all those before its decimal point if they are more."""
    return f"{number:,.0f}" if 10**digits - 0.5 <= abs(number) < 1e15 else f"{number:,.{digits}g}"


def estimate_text(value: object, std_error: object, unit: Unit = "number") -> str:
    """Return an estimate to two significant digits of its standard error; of points, the number alone."""
    size = 1 if unit == "number" else 100
    number, error = size * as_number(value), size * as_number(std_error)
    if not math.isfinite(number):
        return number_text(number)
    sign = "%" if unit == "percent" else ""
    decimals = 1 - math.floor(math.log10(error)) if 0 < error < math.inf else 13
    if decimals > 12 or abs(number) >= 1e15 or error < abs(number) * 1e-13:
        return f"{_in_full(number, 6)}{sign}"
    return f"{round(number, decimals) + 0.0:,.{max(decimals, 0)}f}{sign}"


def limit_text(value: object, std_error: object, unit: Unit = "number") -> str:
    """Return a limit of an interval as an estimate, but rounded to 0 only if it is 0: its sign says on which side."""
    words, size = estimate_text(value, std_error, unit), abs(as_number(value))
    if words.strip("-0.%") or not size > _ROUNDING * as_number(std_error):
        return words
    return estimate_text(value, 10 * size, unit)


def with_unit(text: str, unit: Unit) -> str:
    """Return the text of an estimate with its unit, which percent have already."""
    return f"{text} points" if unit == "points" and text not in (NOTHING, "∞", "-∞") else text


def in_unit(value: float, unit: Unit) -> str:
    """Return a value that has no standard error in a unit: 0.1 is "0.1", "10%" or "10 points"; 0 is 0 in all."""
    if unit == "number" or not value or not math.isfinite(value):
        return _in_full(value, 4) if math.isfinite(value) else number_text(value)
    if unit == "percent":
        return f"{_in_full(100 * value, 4)}%"
    return f"{_in_full(100 * value, 4)} point{'' if abs(100 * value) == 1 else 's'}"


def change_text(value: object, error: object) -> str:
    """Return a relative change in percent, to one significant digit of its error."""
    number, spread = 100 * as_number(value), 100 * as_number(error)
    if math.isnan(number):
        return NOTHING
    if math.isinf(number):
        return number_text(number)
    if not 0 < spread < math.inf:
        return f"{number:.3g}%"
    decimals = min(max(-math.floor(math.log10(spread)), 0), 12)
    return f"{round(number, decimals) + 0.0:,.{decimals}f}%"


def as_number(value: object) -> float:
    """Return a cell's value as a number, NaN if it is None."""
    import numpy as np

    if value is None:
        return math.nan
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, np.number):
        return float(value)
    raise TypeError(f"{value!r} is not a number.")


# ---------------------------------------------------------------- columns of a terminal


def columns_of(text: str) -> int:
    """Return how many columns of a terminal a text takes: CJK and emoji take two each, combining marks none."""
    if text.isascii():
        return len(text)
    total, previous, joined = 0, 0, False
    for character in text:
        if character == _JOINER:
            joined = True
            continue
        if character == _EMOJI_STYLE:  # the character before it is shown as an emoji
            total, previous = total + (2 - previous if previous == 1 else 0), 2
            continue
        size = 0 if joined or _is_attached(character, previous) else _columns_of_character(character)
        total, joined = total + size, False
        previous = size or previous
    return total


def _is_attached(character: str, previous: int) -> bool:
    """Whether a character is drawn over the one before it: a combining mark, a skin tone, a Hangul vowel or final."""
    return is_mark(character) or (
        previous == 2 and ("\U0001f3fb" <= character <= "\U0001f3ff" or "\u1160" <= character <= "\u11ff")
    )


def is_mark(character: str) -> bool:
    """Whether a character takes no room of its own, as combining marks do."""
    return unicodedata.category(character) in ("Mn", "Me", "Cf")


def _columns_of_character(character: str) -> int:
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def pad_left(text: str, width: int) -> str:
    """Pad a text with spaces on the left to a width in columns of a terminal."""
    return " " * (width - columns_of(text)) + text


def pad_right(text: str, width: int) -> str:
    """Pad a text with spaces on the right to a width in columns of a terminal."""
    return text + " " * (width - columns_of(text))


# ---------------------------------------------------------------- shorter names


def shorten(label: object, room: float, width: Width = columns_of) -> str:
    """Return a label on one line, its middle left out where it takes more than `room`."""
    text = one_line(label, _LONGEST_NAME)
    if width(text) <= room:
        return text
    head, tail, spare = 0, 0, room - width("…")
    while head + tail < len(text):
        part = text[: head + 1] + text[len(text) - tail :] if head <= tail else text[:head] + text[-tail - 1 :]
        if width(part) > spare:
            break
        head, tail = (head + 1, tail) if head <= tail else (head, tail + 1)
    return _without_middle(text, head, tail)


def _without_middle(text: str, head: int, tail: int) -> str:
    """Return the first and last characters of a text; none loses the marks over it, and no mark is over the dots."""
    while 0 < head < len(text) and is_mark(text[head]) and text[head] != _JOINER:
        head -= 1
    end = text[len(text) - tail :]
    while end and is_mark(end[0]):
        end = end[1:]
    return f"{text[:head].rstrip(_JOINER)}…{end}"


def shorten_all(labels: Iterable[object], room: float, width: Width = columns_of) -> list[str]:
    """Return labels that take at most `room` each, cut where they are alike, so that different ones stay different."""
    texts = distinguishable([one_line(visible(label), _LONGEST_NAME) for label in labels])
    different = list(dict.fromkeys(texts))
    if all(width(text) <= room for text in different):
        return texts
    alike = len(different) > 1 and _shared(different) >= _MUCH_SHARED
    for way in (_cut_shared, _cut_each, _cut_around) if alike else (_cut_each, _cut_shared, _cut_around):
        short = dict(zip(different, way(different, room, width), strict=True))
        if len(set(short.values())) == len(different):
            return [short[text] for text in texts]
    number = {text: f"…{k}" for k, text in enumerate(different, 1)}
    return [shorten(text, room - width(number[text]), width).rstrip("…") + number[text] for text in texts]


def _cut_each(texts: Sequence[str], room: float, width: Width) -> list[str]:
    """Leave out the middle of each."""
    return [shorten(text, room, width) for text in texts]


def _cut_shared(texts: Sequence[str], room: float, width: Width) -> list[str]:
    """Leave out what all begin and end with, as much of it as has no room."""
    head = _shared(texts)
    tail = _shared([text[head:][::-1] for text in texts])
    cores = [text[head : len(text) - tail] for text in texts]
    spare = room - 2 * width("…") - max(map(width, cores))
    start = head
    while start > 0 and width(texts[0][start - 1 : head]) <= spare:
        start -= 1
    while 0 < start < head and texts[0][start - 1].isalnum():
        start += 1  # begin with a whole word
    kept = texts[0][start:head]
    return [shorten(f"{'…' * (start > 0)}{kept}{core}{'…' * (tail > 0)}", room, width) for core in cores]


def _cut_around(texts: Sequence[str], room: float, width: Width) -> list[str]:
    """Keep of each the stretch that tells it from those most like it; what has room stays as it is."""
    order = sorted(range(len(texts)), key=texts.__getitem__)
    short = list(texts)
    for place, k in enumerate(order):
        if width(texts[k]) <= room:
            continue
        beside = [texts[order[i]] for i in (place - 1, place + 1) if 0 <= i < len(order)]
        at = max((_shared([texts[k], other]) for other in beside), default=0)
        start = max(0, at - 2)
        end = start + 1
        while end < len(texts[k]) and width(texts[k][start : end + 1]) <= room - 2 * width("…"):
            end += 1
        short[k] = f"{'…' * (start > 0)}{texts[k][start:end]}{'…' * (end < len(texts[k]))}"
    return short


def _shared(texts: Sequence[str]) -> int:
    """Return how many characters texts have in common at their beginning."""
    return sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, zip(*texts, strict=False)))
