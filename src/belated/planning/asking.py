"""What the command line asks for: files and words, to a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from belated.base.errors import OptionError
from belated.estimation.target import find_arm, read_contrast
from belated.planning.pilots import pilot
from belated.planning.plan import plan
from belated.planning.results import Plan
from belated.reading.source import Source
from belated.simulation.description import policy_from, read, read_toml
from belated.simulation.policies import Policy


def ask(
    source: str,
    read_log: Callable[[], Source],
    policy: str | None,
    target: str | None,
    *,
    wait: str | None,
    level: float | None,
    seed: int | None,
    **options: Any,
) -> Plan:
    """Plan from a TOML file that describes an experiment, or from the table of a pilot."""
    chosen = None if policy is None else read_policy_words(policy)
    bandit: Any
    if source.lower().endswith(".toml"):
        about = read(source, needs_horizon=False)
        bandit, chosen = about.bandit, about.policy if chosen is None else chosen
        level, seed = about.level if level is None else level, about.seed if seed is None else seed
        wanted = about.targets[0] if target is None and about.targets is not None else None
    else:
        bandit, wanted = pilot(read_log(), per_day=options.get("per_day")), None
    labels = tuple(bandit.arms)
    if target is not None:
        wanted = _target(labels, target)
    return plan(
        bandit, chosen, wanted, wait=_wait(wait), level=0.95 if level is None else level,
        seed=0 if seed is None else seed, **options,
    )  # fmt: skip


def read_policy_words(text: str) -> Policy:
    """Return a policy from words such as epsilon_greedy,decay=0.5, or from a TOML file's [policy]."""
    if text.lower().endswith(".toml"):
        table = read_toml(text)
        given = table.get("policy", table)
        if not isinstance(given, Mapping):
            raise OptionError(f"`policy` names `{text}`, in which there is no table [policy].")
        return policy_from(given)
    name, *options = (part.strip() for part in text.split(","))
    table = {"name": name}
    for option in options:
        key, _, value = option.partition("=")
        try:
            table[key.strip()] = int(value) if value.strip().isdigit() else float(value)
        except ValueError:
            raise OptionError(
                f"`policy` is {text!r}; it must be a name and its options, such as epsilon_greedy,decay=0.5."
            ) from None
    return policy_from(table)


def _target(labels: tuple[Any, ...], text: str) -> Any:
    """Return an arm, or the two arms of a contrast."""
    if text in map(str, labels):
        return find_arm(labels, text)
    return read_contrast(labels, text, option="target")


def _wait(text: str | None) -> float | str | None:
    if text is None or text == "full":
        return text
    try:
        return float(text)
    except ValueError:
        raise OptionError(f"`wait` is {text!r}; it must be a number of steps, 0 or more, or 'full'.") from None
