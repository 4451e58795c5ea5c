"""Lights: how a check of a log ends."""

from __future__ import annotations

from typing import Literal, NamedTuple

Light = Literal["green", "grey", "amber", "red"]


class Meaning(NamedTuple):
    """What a light looks like without its colour, and what it says."""

    sign: str
    words: str


#: The lights, the worst last.
LIGHTS: dict[Light, Meaning] = {
    "green": Meaning("✓", "nothing speaks against it"),
    "grey": Meaning("?", "the log cannot tell"),
    "amber": Meaning("!", "look at this"),
    "red": Meaning("✗", "does not hold"),
}
