"""Descriptions of experiments as tables, as in TOML and JSON: reading them to bandits and policies, and writing them.

An arm, a delay or a policy is a table with the name and the options of its constructor. No content of a table is
evaluated as code.
"""

from __future__ import annotations

import inspect
import math
import os
import tomllib
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np

from belated.base.checks import fraction, nearest, one_of, real, whole
from belated.base.errors import BelatedError, OptionError, argument
from belated.base.files import check_file
from belated.base.text import shown
from belated.estimation.estimators import ESTIMATORS, EstimatorName
from belated.estimation.intervals import INTERVALS, Interval
from belated.simulation.arms import Arm
from belated.simulation.bandits import Bandit
from belated.simulation.constructors import CONSTRUCTORS, Constructed
from belated.simulation.contextual import AnyBandit, ContextualBandit, Slope
from belated.simulation.delays import Delay
from belated.simulation.policies import Policy
from belated.simulation.views import InSegment, TargetLike

T = TypeVar("T")
Made = TypeVar("Made", bound=Constructed)

#: A table of a description with known keys, and one by label: users' own, whose values the constructors check.
_Given: TypeAlias = Mapping[str, Any]
_ByLabel: TypeAlias = dict[Any, Any]

#: The keys of a description.
_KEYS = (
    *("arms", "delay", "window", "measure", "segments", "covariates", "slopes", "arrival", "policy"),
    *("horizon", "horizons", "replications", "seed", "estimators", "targets", "intervals", "level", "maturing"),
)

#: The keys of a bandit without segments, of one with segments, and the keys that both have.
_PLAIN, _CONTEXTUAL = ("arms", "delay", "window", "measure"), ("segments", "covariates", "slopes", "arrival")
_COMMON = ("delay", "window", "measure")


@dataclass(frozen=True)
class Description:
    """An experiment, and the settings of a study of it.

    Attributes
    ----------
    bandit : Bandit or ContextualBandit
    policy : Policy
    horizons : tuple of int
    replications, seed : int
    estimators, intervals : tuple of str, or None for the default
    targets : tuple, or None for the default
        Arms, contrasts as pairs of arms, linear combinations as mappings from arm to coefficient, policies by segment,
        and targets in one segment.
    level : float
    maturing : bool
        If arms are events: whether rows count whose window is open.
    """

    bandit: AnyBandit
    policy: Policy
    horizons: tuple[int, ...]
    replications: int = 1000
    seed: int = 0
    estimators: tuple[EstimatorName, ...] | None = None
    targets: tuple[TargetLike, ...] | None = None
    intervals: tuple[Interval, ...] | None = None
    level: float = 0.95
    maturing: bool = True


def read(path: str | os.PathLike[str], *, needs_horizon: bool = True) -> Description:
    """Read a description from a TOML file."""
    content = read_toml(path)
    with _place_in_errors(""):  # errors name keys of the file, not options of a command
        return description_from(content, needs_horizon=needs_horizon)


def read_toml(path: str | os.PathLike[str]) -> dict[str, object]:
    """Return the content of a TOML file as a table."""
    check_file(path)
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise OptionError(f"`{os.fspath(path)}` cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise OptionError(f"`{os.fspath(path)}` is not TOML: it is not text in UTF-8.") from None
    except RecursionError:
        raise OptionError(f"`{os.fspath(path)}` cannot be read: its values are nested too deep.") from None
    except ValueError as error:
        raise OptionError(f"`{os.fspath(path)}` is not TOML: {error}.") from None


def description_from(table: Mapping[str, object], *, needs_horizon: bool = True) -> Description:
    """Return a description from a table, such as the content of a TOML file."""
    _check_keys(table, "", needed=("policy",) if "segments" in table else ("arms", "policy"), known=_KEYS)
    if ("horizon" in table) == ("horizons" in table) and (needs_horizon or "horizon" in table):
        raise OptionError("The description must have exactly one of `horizon` and `horizons` at the top level.")
    bandit = _any_bandit_from({key: table[key] for key in (*_PLAIN, *_CONTEXTUAL) if key in table})
    horizons = _checked_list(table, "horizons", lambda name, given: whole(name, given, least=1)) or ()
    if "horizon" in table:
        horizons = (whole("horizon", table["horizon"], least=1),)
    if "maturing" in table and bandit.window is None:
        raise OptionError('`maturing` is for arms of events, such as outcome = { name = "events", rate = 0.1 }.')
    return Description(
        bandit=bandit,
        policy=policy_from(table["policy"]),
        horizons=horizons,
        replications=whole("replications", table.get("replications", 1000), least=2),
        seed=whole("seed", table.get("seed", 0), least=0),
        estimators=_checked_list(table, "estimators", lambda name, given: one_of(name, given, ESTIMATORS)),
        targets=_checked_list(table, "targets", lambda name, given: _target(name, given, bandit)),
        intervals=_checked_list(table, "intervals", lambda name, given: one_of(name, given, INTERVALS)),
        level=fraction("level", table.get("level", 0.95)),
        maturing=_truth("maturing", table.get("maturing", True)),
    )


def check_events(about: Description, option: str) -> None:
    """Raise if an option about events is given for an experiment whose arms have none."""
    if about.bandit.window is None:
        raise OptionError(f"{argument(option)} is about events, but the outcomes of the description are not events.")


def bandit_from(table: object, place: str = "") -> Bandit:
    """Return a bandit from a table of `arms`, each with an `outcome` and optionally a `delay`; `window` and `measure`.

    The arms are a table by label, or a list of tables with a `label` each. A `delay` next to `arms` applies to arms
    without a delay of their own. `place` is where the table is in the description, such as "segments.DE".
    """
    table = _check_keys(table, place, needed=("arms",), known=_PLAIN)
    inside = f"{place}." if place else ""
    outcomes, late = {}, {}
    for label, entry in _by_label(table["arms"], f"{inside}arms").items():
        where = f"{inside}arms.{label}"
        arm = _check_keys(entry, where, needed=("outcome",), known=("outcome", "delay"))
        outcomes[label] = _make(Arm, arm["outcome"], f"{where}.outcome")
        if "delay" in arm:
            late[label] = _make(Delay, arm["delay"], f"{where}.delay")
    events = {"window": table.get("window"), "measure": table.get("measure")}
    with _place_in_errors(place):
        if "delay" not in table:
            return Bandit(outcomes, late, **events)
        common = _make(Delay, table["delay"], f"{inside}delay")
        return Bandit(outcomes, dict.fromkeys(outcomes, common) | late if late else common, **events)


def _any_bandit_from(table: Mapping[str, object]) -> AnyBandit:
    """Return a bandit from a table of `arms` or, by segment, of `segments`.

    Each segment has `arms`, a `delay`, `window` and `measure` as a bandit has, and a `share`. A `delay`, `window` or
    `measure` next to `segments` applies to segments without one.
    """
    if "segments" not in table:
        for key in (key for key in _CONTEXTUAL if key in table):
            raise OptionError(
                f"`{key}` needs `segments`; without segments, put the arms into one, such as segments.all."
            )
        return bandit_from(table)
    if "arms" in table:
        raise OptionError("The description has both `arms` and `segments`; put the arms of each segment into it.")
    bandits, shares = {}, {}
    for label, given in _by_label(table["segments"], "segments").items():
        where = f"segments.{label}"
        entry = _check_keys(given, where, needed=("arms",), known=("share", *_PLAIN))
        common = {key: table[key] for key in _COMMON if key in table}
        own = {key: value for key, value in entry.items() if key != "share"}
        bandits[label] = bandit_from(common | own, where)
        if "share" in entry:
            shares[label] = entry["share"]
    with _place_in_errors("segments"):
        plain = ContextualBandit(bandits, shares or None)
    covariates = _by_label(table.get("covariates", {}), "covariates")
    slopes = _by_label(table.get("slopes", {}), "slopes")
    return ContextualBandit(
        bandits,
        shares or None,
        {name: _make(Arm, entry, f"covariates.{name}") for name, entry in covariates.items()},
        {name: _slope(f"slopes.{name}", slope, plain.arms) for name, slope in slopes.items()},
        _by_label(table.get("arrival", {}), "arrival"),
    )


def _slope(name: str, given: Slope, arms: Collection[Hashable]) -> Slope:
    """Return the slope of a covariate: a number, or a table by arm."""
    return {_arm(name, arm, arms): slope for arm, slope in given.items()} if isinstance(given, Mapping) else given


def bandit_to(bandit: Bandit) -> dict[str, object]:
    """Return the table from which `bandit_from` makes the same bandit."""
    rows = [{"label": _label(label, "arms"), "outcome": _table(arm)} for label, arm in bandit.arms.items()]
    events = {} if bandit.window is None else {"window": bandit.window, "measure": bandit.measure}
    if isinstance(bandit.delays, Delay):
        return {"arms": rows, "delay": _table(bandit.delays), **events}
    for label, row in zip(bandit.arms, rows, strict=True):
        row |= {"delay": _table(bandit.delays[label])} if label in bandit.delays else {}
    return {"arms": rows, **events}


def policy_from(table: object, place: str | None = "policy") -> Policy:
    """Return a policy from a table; `own` has no function then. Errors name `place`, where the table is, if given."""
    return replace(_make(Policy, table, place), function=None)


def policy_to(policy: Policy) -> dict[str, object]:
    """Return the table from which `policy_from` makes the same policy."""
    return _table(policy)


def _make(kind: type[Made], given: object, where: str | None) -> Made:
    """Call the constructor that a table names, with the other keys of the table as options."""
    constructors, changes = CONSTRUCTORS[kind.__module__], _CHANGES.get(kind, {})
    table = _check_keys(given, where, needed=("name",))
    offered = [name for name in constructors if name != "own" or table["name"] == name]  # no file can hold a function
    with _place_in_errors(where):
        name = one_of("name", table["name"], offered)
    parameters = dict(inspect.signature(constructors[name]).parameters)
    function = {"function": _as_is} if parameters.pop("function", None) else {}  # no table can hold a function
    needed = [option for option, parameter in parameters.items() if parameter.default is parameter.empty]
    _check_keys(table, where, needed, known=("name", *parameters, *changes))
    inside = f"{where}." if where else ""
    options = {key: _READ.get(key, _as_is)(table[key], inside + key) for key in parameters if key in table}
    with _place_in_errors(where):
        thing = constructors[name](**options, **function)
        for key in changes.keys() & table.keys():
            thing = changes[key](thing, table[key])
    return cast("Made", thing)


def _table(thing: Constructed) -> dict[str, object]:
    if not thing.constructor:
        raise OptionError(f"`{thing!r}` cannot be written: it was not made by a constructor such as arms.normal.")
    given = {key: value for key, value in thing.options.items() if value is not None}
    options = {key: _WRITTEN[key](value) if key in _WRITTEN else value for key, value in given.items()}
    changed = {key: getattr(thing, key) for key, usual in _USUAL.items() if getattr(thing, key, usual) != usual}
    return {"name": thing.constructor, **options, **changed}


def _as_is(given: object, where: str) -> object:
    return given


def _values(given: object, where: str) -> list[object]:
    return [math.inf if value == "inf" else value for value in _listed(given, where)]


def _shares(given: object, where: str) -> _ByLabel:
    shares = _by_label(given, where)
    if isinstance(given, Mapping):
        return shares
    return {
        label: _check_keys(entry, f"{where}.{label}", needed=("share",), known=("share",))["share"]
        for label, entry in shares.items()
    }


def _read_by_segment(policy: Policy, given: object) -> Policy:
    return policy if _truth("by_segment", given) else policy.pooled()


def _read_maturing(policy: Policy, given: object) -> Policy:
    return policy.matured() if _truth("maturing", given) else policy


def _truth(name: str, given: object) -> bool:
    if not isinstance(given, bool):
        raise OptionError(f"`{name}` is {shown(given)}; it must be true or false.")
    return given


#: Options that are set after construction, by type, and their defaults.
_CHANGES: dict[type[Constructed], dict[str, Callable[[Any, Any], Constructed]]] = {
    Delay: {"never": Delay.censored},
    Policy: {"batch": Policy.batched, "by_segment": _read_by_segment, "maturing": _read_maturing},
}
_USUAL: dict[str, float] = {"never": 0.0, "batch": 1, "by_segment": True, "maturing": False}

#: Options that are not numbers: JSON has no infinity, and no keys but text.
_READ: dict[str, Callable[[object, str], object]] = {
    "values": _values,
    "shares": _shares,
    "value": lambda given, where: _make(Arm, given, where),
}
_WRITTEN: dict[str, Callable[[Any], object]] = {
    "values": lambda values: [value if math.isfinite(value) else "inf" for value in values.tolist()],
    "shares": lambda shares: [{"label": _label(k, "shares"), "share": share} for k, share in shares.items()],
    "value": _table,
}


def _by_label(given: object, where: str) -> _ByLabel:
    """Return a table by label; a list of tables is indexed by the `label` of each."""
    if isinstance(given, Mapping):
        return {_label(label, where): entry for label, entry in given.items()}
    if not isinstance(given, list):
        raise OptionError(f"`{where}` is {shown(given)}; it must be a table, or a list of tables with a `label` each.")
    entries: _ByLabel = {}
    for i, each in enumerate(given):
        entry = _check_keys(each, f"{where}[{i}]", needed=("label",))
        label = _label(entry["label"], f"{where}[{i}]")
        if label in entries:
            raise OptionError(f"`{where}[{i}]` has the label {label!r}, which another one has too; labels must differ.")
        entries[label] = {key: value for key, value in entry.items() if key != "label"}
    return entries


def _label(label: object, where: str) -> str | int | float:
    plain = label.item() if isinstance(label, np.generic) else label
    if not isinstance(plain, (str, int, float)) or not (isinstance(plain, (str, int)) or math.isfinite(plain)):
        raise OptionError(f"`{where}` has the label {label!r}; it must be text, a number, or true or false.")
    return plain


def _target(name: str, given: object, bandit: AnyBandit) -> TargetLike:
    known = tuple(bandit.arms)
    if isinstance(given, Mapping):
        segments = bandit.labels
        if given.keys() == {"segment", "target"}:
            segment = _arm(f"{name}.segment", given["segment"], segments, "segments")
            return InSegment(segment, _target(f"{name}.target", given["target"], bandit))
        if segments and any(isinstance(choice, (str, Mapping)) for choice in given.values()):
            places = {segment: _arm(name, segment, segments, "segments") for segment in given}
            return {places[segment]: _choice(f"{name}.{segment}", arm, known) for segment, arm in given.items()}
        return {_arm(name, arm, known): real(f"{name}.{arm}", number) for arm, number in given.items()}
    if not isinstance(given, list):
        return _arm(name, given, known)
    if len(given) != 2:
        raise OptionError(
            f"`{name}` is {shown(given)}; it must be an arm, two arms to compare, or a table of coefficients."
        )
    return tuple(_arm(name, arm, known) for arm in given)


def _choice(name: str, given: object, known: Collection[Hashable]) -> object:
    """Return what a policy chooses in a segment: an arm, or probabilities by arm."""
    return _slope(name, given, known) if isinstance(given, Mapping) else _arm(name, given, known)


def _arm(name: str, given: object, known: Collection[Hashable], kind: str = "arms") -> Hashable:
    """Return the arm (or segment) with this label, or with this text as label, because keys in TOML are text."""
    matches = [arm for arm in known if arm == given] or [arm for arm in known if str(arm) == given]
    if not matches:
        raise OptionError(f"`{name}` is {shown(given)}, which is not one of the {kind} {list(known)!r}.")
    return matches[0]


def _checked_list(table: Mapping[str, object], key: str, check: Callable[[str, object], T]) -> tuple[T, ...] | None:
    """Return a list in a table with validated elements; None if there is none."""
    if key not in table:
        return None
    return tuple(check(f"{key}[{i}]", value) for i, value in enumerate(_listed(table[key], key)))


def _listed(given: object, where: str) -> list[object]:
    if not isinstance(given, list) or not given:
        raise OptionError(f"`{where}` is {shown(given)}; it must be a list with at least one element.")
    return given


def _check_keys(
    table: object, where: str | None, needed: Collection[str], known: Collection[str] | None = None
) -> _Given:
    """Return a table that has every required key and no unknown one; raise if it does not."""
    if not isinstance(table, Mapping):
        raise OptionError(f"`{where or 'table'}` is {shown(table)}; it must be a table.")
    known = table.keys() if known is None else known
    place = "" if where is None else f" in `{where}`" if where else " at the top level"
    for key in (key for key in table if key not in known):
        near = nearest(key, known)
        hint = f"did you mean `{near}`?" if near else f"the possible keys are {', '.join(f'`{k}`' for k in known)}."
        raise OptionError(f"Unknown key `{key}`{place}; {hint}")
    for key in needed:
        if key not in table:
            raise OptionError(f"The key `{key}` is missing{place}.")
    return table


@contextmanager
def _place_in_errors(where: str | None) -> Iterator[None]:
    """Add the place in the description to errors about options."""
    place = f"In `{where}`, " if where else ""
    try:
        yield
    except BelatedError as error:
        text = str(error)
        raise OptionError(f"{place}{text[:1].lower()}{text[1:]}" if place else text) from None
    except OverflowError:
        raise OptionError(f"{place}a number is too large.") from None
