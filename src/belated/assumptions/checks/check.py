"""The `Check` class, its lights, the `check` decorator, and helpers that checks share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Literal, NamedTuple

from belated.base.checks import one_of
from belated.base.columns import Label
from belated.base.figures import GREY
from belated.base.text import for_stdout, shorten_all
from belated.summaries.evidence import Evidence
from belated.summaries.signs import SURE

#: The condition of the paper (A1 to A5) that a check tests; "practice" if it is none of them.
Condition = Literal["A1, A4", "A1-A5", "A2", "A3", "A5", "practice"]

#: What a check measures, by name: one number, or one number per arm.
Measured = float | Mapping[Label, float]
Numbers = Mapping[str, Measured]

#: A p-value below this turns a check amber.
DOUBT = 0.01


# ---------------------------------------------------------------- lights

Light = Literal["green", "grey", "amber", "red"]


class Meaning(NamedTuple):
    """A light as a sign without colour, in words, and as the colour and marker of figures."""

    sign: str
    words: str
    colour: str
    marker: str


#: The lights, from best to worst.
LIGHTS: dict[Light, Meaning] = {
    "green": Meaning("✓", "no problem found", "#1A6B3C", "o"),
    "grey": Meaning("?", "the log cannot tell", GREY, "."),
    "amber": Meaning("!", "look at this", "#C77700", "^"),
    "red": Meaning("✗", "does not hold", "#A11F0B", "X"),
}


# ---------------------------------------------------------------- checks


@dataclass(frozen=True, repr=False)
class Check:
    """The result of one check of a log.

    Attributes
    ----------
    name : str
    condition : str
        The condition of the paper that the check tests, A1 to A5, or "practice".
    asks : str
        What must hold, in a sentence.
    light : str
        "green", "amber", "red", or "grey": the log cannot tell.
    finding : str
        What the log shows, in a sentence.
    advice : str
        What to do; empty if the light is green.
    numbers : dict
        What was measured, by name: a number, or a dict with one number per arm.
    """

    name: str
    condition: Condition
    asks: str
    light: Light
    finding: str
    advice: str = ""
    numbers: Numbers = field(default_factory=dict)

    def __post_init__(self) -> None:
        one_of("light", self.light, LIGHTS)

    def __repr__(self) -> str:
        to_do = f" To do: {self.advice}" if self.advice else ""
        return f"{LIGHTS[self.light].sign} {self.light}  {self.name} ({self.condition}): {self.finding}{to_do}"

    def __str__(self) -> str:
        return for_stdout(repr(self))

    def to_dict(self) -> dict[str, str | Numbers]:
        """Return the check as plain values."""
        return {
            "check": self.name, "condition": self.condition, "light": self.light, "asks": self.asks,
            "finding": self.finding, "advice": self.advice, "numbers": self.numbers,
        }  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """The part of a `Check` that depends on the log: light, finding, advice and numbers."""

    light: Light
    finding: str
    advice: str = ""
    numbers: Numbers = field(default_factory=dict)


def check(
    name: str, *, condition: Condition, asks: str
) -> Callable[[Callable[[Evidence], Verdict]], Callable[[Evidence], Check]]:
    """Turn a function that returns a `Verdict` into a check; the arguments are attributes of `Check`."""

    def of(judge: Callable[[Evidence], Verdict]) -> Callable[[Evidence], Check]:
        @wraps(judge)
        def run(evidence: Evidence) -> Check:
            verdict = judge(evidence)
            return Check(
                name=name,
                condition=condition,
                asks=asks,
                light=verdict.light,
                finding=verdict.finding,
                advice=verdict.advice,
                numbers=verdict.numbers,
            )

        return run

    return of


# ---------------------------------------------------------------- verdicts and texts that checks share


def no_outcome(numbers: Numbers) -> Verdict:
    """Return the verdict of a check that needs outcomes when none has arrived."""
    return Verdict("grey", "No outcome has arrived.", "Wait for outcomes.", numbers)


def known_within(evidence: Evidence) -> Verdict:
    """Return the verdict on delays when outcomes are events within a window."""
    return Verdict("green", f"Every outcome is known {evidence.within} after its assignment.")


def light_of(p_value: float, *, red: float = SURE) -> Light:
    """Return the light that a p-value gives: amber below `DOUBT`, red below `red`."""
    return "red" if p_value < red else "amber" if p_value < DOUBT else "green"


def by_arm(evidence: Evidence, values: Iterable[float]) -> dict[Label, float]:
    """Return a dict from arms to numbers."""
    return {arm: float(value) for arm, value in zip(evidence.arms, values, strict=True)}


def arm_name(evidence: Evidence, arm: int) -> str:
    """Return an arm's name for use inside a sentence."""
    return f"arm {_arm_text(evidence, arm)}"


def arm_name_first(evidence: Evidence, arm: int) -> str:
    """Return an arm's name for the beginning of a sentence."""
    return f"Arm {_arm_text(evidence, arm)}"


def _arm_text(evidence: Evidence, arm: int) -> str:
    return shorten_all(map(repr, evidence.arms), 40)[arm]
