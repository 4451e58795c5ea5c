"""Misspelt words, and what they are most likely meant as."""

from __future__ import annotations

from collections.abc import Iterable

#: Letters of a word that are looked at.
_LONGEST = 60


def nearest(word: object, names: Iterable[object]) -> str | None:
    """Return the name that a misspelt word is most likely meant as, in any case; None: none is near.

    Examples
    --------
    >>> nearest("diapw", ["mean", "dipw", "daipw"])
    'daipw'
    """
    text = str(word).casefold()[:_LONGEST]
    most = max(1, len(text) // 3)
    ranked = [
        (_edits(text, name.casefold()[:_LONGEST]), abs(len(text) - len(name)), name)
        for name in map(str, names)
        if abs(len(text) - min(len(name), _LONGEST)) <= most
    ]
    edits, _, name = min(ranked, key=lambda rank: rank[:2], default=(most + 1, 0, ""))
    return name if edits <= most and edits < len(text) else None


def _edits(one: str, other: str) -> int:
    """Return how many letters must be changed, added, left out or swapped with the next to get from word to word."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one):
        last, before, row = before, row, [i + 1]
        for j, b in enumerate(other):
            least = min(before[j + 1] + 1, row[j] + 1, before[j] + (a != b))
            if i and j and a == other[j - 1] and b == one[i - 1]:
                least = min(least, last[j - 1] + 1)
            row.append(least)
    return row[-1]
