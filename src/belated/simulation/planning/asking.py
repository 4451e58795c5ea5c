"""Planning from the text options of the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Literal, TypedDict, Unpack

from belated.base.errors import OptionError, argument
from belated.base.text import one_line
from belated.estimation.estimators import EstimatorName
from belated.estimation.intervals import Interval
from belated.estimation.target import read_arm_or_contrast
from belated.reading.source import Source
from belated.simulation.contextual import AnyBandit
from belated.simulation.description import check_events, policy_from, read, read_toml
from belated.simulation.planning.pilots import Pilot, pilot
from belated.simulation.planning.plan import plan, read_wait
from belated.simulation.planning.results import Plan
from belated.simulation.policies import Policy
from belated.simulation.views import TargetLike
from belated.simulation.words import policy_from_words


class PlanOptions(TypedDict):
    """The options that the command line passes to `plan` unchanged."""

    half_width: float | None
    power: float | None
    assurance: float | None
    patience: float
    maturing: bool
    per_day: float | None
    max_horizon: int
    estimator: EstimatorName | None
    replications: int
    workers: int | None


def ask(
    source: str,
    read_log: Callable[[], Source],
    policy: str | None,
    target: str | None,
    *,
    wait: str | None,
    level: float | None,
    seed: int | None,
    interval: Interval,
    **options: Unpack[PlanOptions],
) -> Plan:
    """Plan from a TOML file that describes an experiment, or from the log of a pilot."""
    chosen = None if policy is None else read_policy_words(policy)
    wanted: TargetLike = None
    named = 0
    bandit: AnyBandit | Pilot
    if source.lower().endswith(".toml"):
        about = read(source, needs_horizon=False)
        bandit, chosen = about.bandit, about.policy if chosen is None else chosen
        if not options["maturing"]:
            check_events(about, "closed_only")
        options["maturing"] &= about.maturing
        level, seed = about.level if level is None else level, about.seed if seed is None else seed
        wanted, named = (None, 0) if about.targets is None else (about.targets[0], len(about.targets))
    else:
        bandit = pilot(read_log(), per_day=options["per_day"])
    answer = plan(
        bandit,
        chosen,
        wanted if target is None else read_arm_or_contrast(tuple(bandit.arms), target),
        wait=_wait(wait),
        level=0.95 if level is None else level,
        seed=0 if seed is None else seed,
        interval=interval,
        **options,
    )
    if target is None and named > 1:
        first = f"This plan is for {one_line(answer.target)}, the first of the file's {named} targets."
        return replace(answer, notes=(*answer.notes, first))
    return answer


def read_policy_words(text: str) -> Policy:
    """Return a policy from text such as epsilon_greedy,decay=0.5, or from the [policy] table of a TOML file."""
    if text.lower().endswith(".toml"):
        content = read_toml(text)
        given = content.get("policy", content)
        if not isinstance(given, Mapping):
            raise OptionError(f"{argument('policy')} is the file `{text}`, which has no table [policy].")
        return policy_from(given)
    return policy_from_words(text)


def _wait(text: str | None) -> float | Literal["full"] | None:
    if text is None:
        return None
    with suppress(ValueError):
        return float(text)
    return read_wait(text)
