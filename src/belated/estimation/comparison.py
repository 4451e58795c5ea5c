"""Comparison: every estimator side by side, and one question's answers in a row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from belated.base.checks import fraction, one_of
from belated.base.errors import OptionError
from belated.base.tables import Column, Table
from belated.base.text import percent
from belated.estimation.answers import Answer, Estimate, answer_columns, interval_kind
from belated.estimation.estimators import ESTIMATORS, needs_all_propensities
from belated.estimation.intervals import INTERVALS
from belated.log.data import Data, require_data


def compare(log: Data, *, level: float = 0.95, interval: str = "auto") -> Comparison:
    """Estimate with every estimator of the paper's table, side by side.

    Those that need every arm's propensity are left out if the log does not have them.
    """
    require_data(log)
    chosen = {n: e for n, e in ESTIMATORS.items() if log.has_all_propensities or not needs_all_propensities(e)}
    parts = list(dict.fromkeys(estimator.parts for estimator in chosen.values()))
    shared = {part: sums[-1] for part, sums in zip(parts, log.sums(parts), strict=True)}
    estimates = {}
    for name, estimator in chosen.items():
        sums = shared[estimator.parts]
        # the estimators that are not of Hajek's kind have no score interval
        unscored = interval in ("wilson", "skew") and estimator.normalisation != "hajek"
        kind = interval_kind("t" if unscored else one_of("interval", interval, INTERVALS), sums, estimator)
        estimates[name] = Estimate(sums, estimator, fraction("level", level), kind, log.as_of_text)
    next(iter(estimates.values())).warn()
    return Comparison(estimates)


@dataclass(frozen=True, repr=False)
class Comparison(Table):
    """Estimates of several estimators, by name."""

    estimates: dict[str, Estimate]

    def __getitem__(self, name: str) -> Estimate:
        return self.estimates[one_of("estimator", name, self.estimates)]

    def arm(self, arm: Any) -> Answers:
        """Return every estimator's answer for one arm."""
        return Answers("estimator", {name: e.arm(arm) for name, e in self.estimates.items()})

    def contrast(self, arm: Any, baseline: Any) -> Answers:
        """Return every estimator's answer for one contrast."""
        return Answers("estimator", {name: e.contrast(arm, baseline) for name, e in self.estimates.items()})

    def policy(self, policy: Mapping[Any, float] | str) -> Answers:
        """Return every estimator's answer for one policy."""
        return Answers("estimator", {name: e.policy(policy) for name, e in self.estimates.items()})

    def linear(self, coefficients: Mapping[Any, float]) -> Answers:
        """Return every estimator's answer for one linear combination."""
        return Answers("estimator", {name: e.linear(coefficients) for name, e in self.estimates.items()})

    def __len__(self) -> int:
        return len(self.estimates)

    def __iter__(self) -> Iterator[str]:
        return iter(self.estimates)

    def _title(self) -> str:
        left_out = [name for name in ESTIMATORS if name not in self.estimates]
        why = f" ({', '.join(left_out)} need every arm's propensity)" if left_out else ""
        level = next(iter(self.estimates.values())).level
        return f"{len(self.estimates)} estimators side by side, {percent(level)} intervals{why}"

    def _columns(self) -> list[Column]:
        rows = [(name, e.interval, answer) for name, e in self.estimates.items() for answer in e.arm_answers]
        return [
            Column("estimator", [name for name, _, _ in rows], "label"),
            Column("arm", [arm for e in self.estimates.values() for arm in e.arms], "label"),
            *answer_columns([answer for _, _, answer in rows], test=False),
            Column("interval", [kind for _, kind, _ in rows], "label"),
        ]


@dataclass(frozen=True, repr=False)
class Answers(Table):
    """Answers to one question, by estimator or by moment."""

    by: str
    answers: dict[Any, Answer]

    def __len__(self) -> int:
        return len(self.answers)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.answers)

    def __getitem__(self, key: Any) -> Answer:
        if key not in self.answers:
            raise OptionError(f"There is no answer for {key!r}; there are {len(self)}, by {self.by}.")
        return self.answers[key]

    def _title(self) -> str:
        first = next(iter(self.answers.values()))
        return f"{first.name}: {percent(first.level)} intervals, by {self.by}"

    def _columns(self) -> list[Column]:
        return [
            Column(self.by, list(self.answers), "label"),
            *answer_columns(list(self.answers.values()), test=True),
            Column("interval", [answer.interval for answer in self.answers.values()], "label"),
        ]
