"""Labels of charts, cut to the room that they have."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from itertools import takewhile

from belated.base.text import one_line


def width(text: Iterable[str]) -> float:
    """Return about how many pixels wide a text of 13 pixels is."""
    return sum(13.0 if unicodedata.east_asian_width(c) in "WF" or c in "MWmw%@" else 7.5 for c in text)


def fit(label: object, room: int) -> str:
    """Return a label on one line, its middle left out where it is longer than `room` usual characters."""
    text = one_line(label, 100_000)
    if len(text) <= room and width(text) <= 7.5 * room:
        return text
    ends = min(len(text), room) // 2
    while ends > 1 and width(text[:ends]) + width(text[-ends:]) > 7.5 * (room - 1):
        ends -= 1
    return f"{text[:ends]}…{text[-ends:]}"


def fit_all(labels: Iterable[object], room: int) -> list[str]:
    """Return labels that fit, cut where they are alike rather than where they differ."""
    texts = [one_line(label, 100_000) for label in labels]
    short = [fit(text, room) for text in texts]
    if len(set(short)) == len(set(texts)):
        return short
    head = _shared(texts)
    tail = _shared([text[head:][::-1] for text in texts])
    cores = [text[head : len(text) - tail] for text in texts]
    start = max(0, head - max(0, room - 2 - max(map(len, cores))))
    while 0 < start < head and texts[0][start - 1].isalnum():
        start += 1
    return [fit(f"{'…' * (start > 0)}{texts[0][start:head]}{core}{'…' * (tail > 0)}", room) for core in cores]


def _shared(texts: list[str]) -> int:
    """Return how many characters texts have in common at their beginning."""
    return sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, zip(*texts, strict=False)))
