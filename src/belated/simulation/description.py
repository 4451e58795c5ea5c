"""Experiments written down: from plain tables, as TOML and JSON hold them, to bandits and policies, and back.

An arm, a delay or a policy is a table of its constructor's name and options. Nothing that a table
holds is evaluated.
"""

from __future__ import annotations

import inspect
import math
import os
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from belated.checks import fraction, one_of, real, whole
from belated.errors import BelatedError, OptionError
from belated.estimators import ESTIMATORS
from belated.intervals import INTERVALS
from belated.simulation import arms, delays, policies
from belated.simulation.bandits import Bandit
from belated.simulation.delays import Delay
from belated.simulation.described import CONSTRUCTORS, Described
from belated.simulation.policies import Policy

T = TypeVar("T")


@dataclass(frozen=True)
class Description:
    """An experiment, and what is to be found out about it.

    Attributes
    ----------
    bandit : Bandit
    policy : Policy
    horizons : tuple of int
    replications, seed : int
    estimators, intervals : tuple of str, or None for the default
    targets : tuple, or None for the default
        Arms, contrasts as pairs of arms, linear combinations as mappings from arm to coefficient.
    level : float
    """

    bandit: Bandit
    policy: Policy
    horizons: tuple[int, ...]
    replications: int = 1000
    seed: int = 0
    estimators: tuple[str, ...] | None = None
    targets: tuple[Any, ...] | None = None
    intervals: tuple[str, ...] | None = None
    level: float = 0.95


def read(path: str | os.PathLike[str]) -> Description:
    """Read a description from a TOML file."""
    file = Path(path)
    try:
        return description_from(tomllib.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise OptionError(f"There is no file `{file}`.") from None
    except IsADirectoryError:
        raise OptionError(f"`{file}` is a folder; it must be a TOML file.") from None
    except OSError as error:
        raise OptionError(f"`{file}` cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise OptionError(f"`{file}` is not TOML: it is not text in UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise OptionError(f"`{file}` is not TOML: {error}.") from None


def description_from(table: Mapping[str, Any]) -> Description:
    """Return a description from a table such as a TOML file's."""
    known = ("arms", "delay", "policy", "horizon", "horizons", "replications", "seed")
    known += ("estimators", "targets", "intervals", "level")
    several = "horizon" not in table
    _check_keys(table, "", known, needed=("arms", "policy", *(["horizons"] if several else [])))
    if not several and "horizons" in table:
        raise OptionError("There is both `horizon` and `horizons` at the top; one of them is enough.")
    bandit = bandit_from({key: table[key] for key in ("arms", "delay") if key in table})
    return Description(
        bandit,
        policy_from(table["policy"]),
        (_each(table, "horizons", _horizon) or ()) if several else (_horizon("horizon", table["horizon"]),),
        whole("replications", table.get("replications", 1000), least=1),
        whole("seed", table.get("seed", 0), least=0),
        _each(table, "estimators", lambda name, value: one_of(name, value, ESTIMATORS)),
        _each(table, "targets", lambda name, value: _target(name, value, bandit.arms)),
        _each(table, "intervals", lambda name, value: one_of(name, value, INTERVALS)),
        fraction("level", table.get("level", 0.95)),
    )


def bandit_from(table: Mapping[str, Any]) -> Bandit:
    """Return a bandit from a table of `arms`, each with its `outcome` and `delay`.

    The arms are a table by label, or a list of tables with a `label` each. A `delay` beside `arms`
    is that of the arms without one of their own.
    """
    _check_keys(table, "", ("arms", "delay"), needed=("arms",))
    outcomes, late = {}, {}
    for label, arm in _by_label(table["arms"], "arms").items():
        where = f"arms.{label}"
        _check_keys(arm, where, ("outcome", "delay"), needed=("outcome",))
        outcomes[label] = _make(arms, arm["outcome"], f"{where}.outcome")
        if "delay" in arm:
            late[label] = _delay_from(arm["delay"], f"{where}.delay")
    if "delay" not in table:
        return Bandit(outcomes, late)
    common = _delay_from(table["delay"], "delay")
    return Bandit(outcomes, dict.fromkeys(outcomes, common) | late if late else common)


def bandit_to(bandit: Bandit) -> dict[str, Any]:
    """Return the table of which `bandit_from` makes the same bandit."""
    common = isinstance(bandit.delays, Delay)
    late: Mapping[Any, Delay] = {} if isinstance(bandit.delays, Delay) else bandit.delays
    rows = [
        {"label": _label(label, "arms"), "outcome": _table(arm)}
        | ({"delay": _delay_to(late[label])} if label in late else {})
        for label, arm in bandit.arms.items()
    ]
    return {"arms": rows} | ({"delay": _delay_to(bandit.delays)} if common else {})


def policy_from(table: Mapping[str, Any]) -> Policy:
    """Return a policy from a table; `own` comes without its function."""
    policy: Policy = _make(policies, table, "policy", "batch")
    with _at("policy"):
        return replace(policy, function=None).batched(table.get("batch", 1))


def policy_to(policy: Policy) -> dict[str, Any]:
    """Return the table of which `policy_from` makes the same policy."""
    return _table(policy) | ({"batch": policy.batch} if policy.batch > 1 else {})


def _delay_from(table: Any, where: str) -> Delay:
    delay: Delay = _make(delays, table, where, "never")
    with _at(where):
        return delay.censored(table.get("never", 0.0))


def _delay_to(delay: Delay) -> dict[str, Any]:
    return _table(delay) | ({"never": delay.never} if delay.never else {})


def _make(module: Any, table: Any, where: str, *others: str) -> Any:
    """Call the constructor that a table names with the table's other keys, but for those left to the caller."""
    constructors = CONSTRUCTORS[module.__name__]
    parameters = {name: inspect.signature(call).parameters for name, call in constructors.items()}
    if not isinstance(table, Mapping) or "name" not in table:
        options = (option for each in parameters.values() for option in each)
        _check_keys(table, where, ("name", *options, *others), needed=("name",))
    with _at(where):
        name = one_of("name", table["name"], constructors)
    written = {option: each for option, each in parameters[name].items() if option != "function"}
    needed = [option for option, each in written.items() if each.default is each.empty]
    _check_keys(table, where, ("name", *written, *others), needed)
    given = {option: table[option] for option in written if option in table}
    given = {option: _READ.get(option, _as_is)(value, f"{where}.{option}") for option, value in given.items()}
    if "function" in parameters[name]:
        given["function"] = _as_is  # stands in for one that no table can hold
    with _at(where):
        return constructors[name](**given)


def _table(made: Described) -> dict[str, Any]:
    if not made.constructor:
        raise OptionError(
            f"{made!r} was not made by a constructor, such as arms.normal(1.0); it cannot be written down."
        )
    return {"name": made.constructor} | {
        option: _WRITTEN[option](value) if option in _WRITTEN else value for option, value in made.options.items()
    }


def _read_values(given: Any, where: str) -> list[Any]:
    return [math.inf if value == "inf" else value for value in _listed(given, where)]


def _read_shares(given: Any, where: str) -> dict[Any, Any]:
    shares = {}
    for label, entry in _by_label(given, where).items():
        shares[label] = entry
        if not isinstance(given, Mapping):
            _check_keys(entry, f"{where}.{label}", ("share",), needed=("share",))
            shares[label] = entry["share"]
    return shares


def _as_is(given: Any, where: str) -> Any:
    return given


#: Options that are not numbers: how they are read, and how written where JSON has neither infinity nor keys but text.
_READ: dict[str, Callable[[Any, str], Any]] = {"values": _read_values, "shares": _read_shares}
_WRITTEN: dict[str, Callable[[Any], Any]] = {
    "values": lambda values: [value if math.isfinite(value) else "inf" for value in values.tolist()],
    "shares": lambda shares: [{"label": _label(k, "shares"), "share": share} for k, share in shares.items()],
}


def _by_label(given: Any, where: str) -> dict[Any, Any]:
    """Return what a table holds by label, or the tables of a list by the label in each."""
    if isinstance(given, Mapping):
        return {_label(label, where): entry for label, entry in given.items()}
    if not isinstance(given, (list, tuple)):
        raise OptionError(f"`{where}` is {given!r}; it must be a table, or a list of tables with a `label` each.")
    found: dict[Any, Any] = {}
    for i, entry in enumerate(given):
        _check_keys(entry, f"{where}[{i}]", known=None, needed=("label",))
        label = _label(entry["label"], f"{where}[{i}]")
        if label in found:
            raise OptionError(f"`{where}[{i}]` has the label {label!r}, which another has already.")
        found[label] = {key: value for key, value in entry.items() if key != "label"}
    return found


def _label(label: Any, where: str) -> Any:
    plain = label.item() if isinstance(label, np.generic) else label
    if not isinstance(plain, (str, int, float)) or plain != plain:
        raise OptionError(f"`{where}` has the label {label!r}; it must be text, a number, or true or false.")
    return plain


def _target(name: str, given: Any, known: Collection[Any]) -> Any:
    if isinstance(given, Mapping):
        return {_arm(name, arm, known): real(f"{name}.{arm}", number) for arm, number in given.items()}
    if not isinstance(given, (list, tuple)):
        return _arm(name, given, known)
    if len(given) != 2:
        raise OptionError(f"`{name}` is {given!r}; it must be an arm, two arms to compare, or a table of coefficients.")
    return tuple(_arm(name, arm, known) for arm in given)


def _arm(name: str, given: Any, known: Collection[Any]) -> Any:
    """Return the arm that is named, also by the text of its label: TOML's keys are all text."""
    for alike in (lambda arm: arm == given, lambda arm: str(arm) == given):
        for arm in filter(alike, known):
            return arm
    raise OptionError(f"`{name}` names {given!r}, which is not one of the arms {list(known)!r}.")


def _horizon(name: str, given: Any) -> int:
    return whole(name, given, least=1)


def _each(table: Mapping[str, Any], key: str, check: Callable[[str, Any], T]) -> tuple[T, ...] | None:
    """Return a list of a table, every element checked; None if there is none."""
    if key not in table:
        return None
    return tuple(check(f"{key}[{i}]", value) for i, value in enumerate(_listed(table[key], key)))


def _listed(given: Any, where: str) -> list[Any]:
    if not isinstance(given, (list, tuple)) or not given:
        raise OptionError(f"`{where}` is {given!r}; it must be a list, of at least one.")
    return list(given)


def _check_keys(table: Any, where: str, known: Collection[str] | None, needed: Collection[str]) -> None:
    """Raise unless a table has all keys that it needs and none that is not known."""
    place = f"in `{where}`" if where else "at the top"
    if not isinstance(table, Mapping):
        raise OptionError(f"`{where}` is {table!r}; it must be a table." if where else f"{table!r} is not a table.")
    for key in table if known is not None else ():
        if known is not None and key not in known:
            near = get_close_matches(str(key), known, n=1)
            hint = f"did you mean `{near[0]}`?" if near else f"there can be {', '.join(f'`{k}`' for k in known)}."
            raise OptionError(f"There is no `{key}` {place}; {hint}")
    for key in needed:
        if key not in table:
            raise OptionError(f"There is no `{key}` {place}; it is needed.")


@contextmanager
def _at(where: str) -> Iterator[None]:
    """Say where it was that an option was wrong."""
    try:
        yield
    except BelatedError as error:
        raise OptionError(f"In `{where}`, {error}") from None
    except OverflowError:
        raise OptionError(f"In `{where}`, a number is too large.") from None
