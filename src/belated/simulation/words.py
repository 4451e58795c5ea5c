"""Policies as text: a name with options, as command lines have them."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping

from belated.base.checks import one_of
from belated.base.errors import OptionError, argument
from belated.base.text import shown
from belated.simulation import policies
from belated.simulation.constructors import CONSTRUCTORS
from belated.simulation.description import policy_from
from belated.simulation.policies import Policy


def policy_from_words(text: str, names: Mapping[str, str] | None = None) -> Policy:
    """Return a policy from text such as epsilon_greedy,decay=0.5 or thompson_beta:c=0.5,burn_in=100.

    A colon or a comma follows the name, and commas separate options. Those of `fixed` are the shares of the arms, such
    as fixed:A=0.3,B=0.7; an option that has a comma itself is in double quotes.

    Parameters
    ----------
    text : str
    names : mapping, optional
        Further names, and the constructor that each stands for.
    """
    name, *rest = (part.strip() for part in re.split("[:,]", text, maxsplit=1))
    options = _options(text, rest[0] if rest else "")
    if name == "own":
        raise OptionError(f"{argument('policy')} is a Python function; give it in Python, with bl.policies.own(...).")
    known = dict(names or {})
    known |= {each: each for each in CONSTRUCTORS[policies.__name__] if each != "own"}
    chosen = known[one_of("policy", name, known)]
    given: Mapping[str, object] = {"shares": options} if chosen == "fixed" else options
    try:
        return policy_from({"name": chosen, **given}, place=None)
    except OptionError as error:
        raise OptionError(f"{argument('policy')} cannot be {shown(text)}: {error}") from None


def _options(text: str, given: str) -> dict[str, int | float]:
    """Return the options that follow the name of a policy, each of which is given once."""
    try:
        pairs = next(csv.reader([given], skipinitialspace=True), [])
    except csv.Error:  # a character that ends a line
        pairs = [given]
    if any("=" not in pair for pair in pairs):
        raise OptionError(f"{argument('policy')} is {shown(text)}; options must be like c=0.5,burn_in=100.")
    options: dict[str, int | float] = {}
    for before, _, value in (pair.rpartition("=") for pair in pairs):
        key = before.strip()
        if key in options:
            raise OptionError(f"{argument('policy')} has {key!r} twice; give each option once.")
        options[key] = read_number("policy", value, f"{key}=")
    return options


def read_number(option: str, text: str, before: str = "") -> int | float:
    """Return a number of an option's text; `before` is what precedes it there."""
    try:
        number = float(text)
    except ValueError:
        raise OptionError(f"{argument(option)} has {before}{text!r}; it must be a number.") from None
    return int(number) if number.is_integer() and "." not in text else number
