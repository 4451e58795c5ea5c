"""Names on a screen: how many columns they take, and how to shorten several so that they still differ."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile

from belated.base.text import one_line

#: From text to how much room it takes.
Width = Callable[[str], float]

_JOINER, _EMOJI_STYLE = "\u200d", "\ufe0f"
_LONGEST = 100_000

#: Characters that all of several names begin with, from which on these are left out rather than the middle of each.
_MUCH_SHARED = 6


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
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return True
    return previous == 2 and ("\U0001f3fb" <= character <= "\U0001f3ff" or "\u1160" <= character <= "\u11ff")


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
    text = one_line(label, _LONGEST)
    if width(text) <= room:
        return text
    head, tail, spare = 0, 0, room - width("…")
    while head + tail < len(text):
        part = text[: head + 1] + text[len(text) - tail :] if head <= tail else text[:head] + text[-tail - 1 :]
        if width(part) > spare:
            break
        head, tail = (head + 1, tail) if head <= tail else (head, tail + 1)
    return f"{text[:head].rstrip(_JOINER)}…{text[len(text) - tail :].lstrip(_JOINER)}"


def shorten_all(labels: Iterable[object], room: float, width: Width = columns_of) -> list[str]:
    """Return labels that take at most `room` each, cut where they are alike, so that different ones stay different."""
    texts = [one_line(label, _LONGEST) for label in labels]
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
    """Keep of each the stretch that tells it from those most like it."""
    order = sorted(range(len(texts)), key=texts.__getitem__)
    short = list(texts)
    for place, k in enumerate(order):
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
