"""`compare`: several estimators side by side."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from belated.base.checks import fraction, one_of
from belated.base.columns import ByArm, Label
from belated.base.errors import BelatedWarning, LogError
from belated.base.tables import Column, Table
from belated.base.text import percent
from belated.estimation.answers import Answers, answer_columns
from belated.estimation.estimate import Estimate
from belated.estimation.estimators import ESTIMATORS, MATURING, SIDE_BY_SIDE, EstimatorName, needs_all_propensities
from belated.estimation.intervals import INTERVALS, Interval, fallback_interval, resolve_interval
from belated.estimation.target import PolicyLike
from belated.log.data import Data, require_data

if TYPE_CHECKING:
    from matplotlib.figure import Figure


#: What names of estimators say when only closed windows count.
CLOSED = "closed only"


def compare(log: Data, *, level: float = 0.95, interval: Interval = "auto", cap: float | None = None) -> Comparison:
    """Estimate with every estimator of the paper, side by side.

    "daipw_paper" is left out because it nearly equals "daipw". Estimators that need every arm's propensity are left out
    if the log has only the chosen arm's. For events, estimates from all rows are shown beside those from closed windows
    alone. The arguments are those of `estimate`.
    """
    log = require_data(log, cap)
    word, level = one_of("interval", interval, INTERVALS), fraction("level", level)
    if not log.is_maturing:
        estimates = _side_by_side(log, level, word)
    else:  # windows that have closed, beside all rows
        estimates = _side_by_side(log, level, word, MATURING)
        with suppress(LogError):  # no window has closed yet
            estimates |= _side_by_side(log.closed(), level, word, ("daipw", "dipw"), f", {CLOSED}")
    next(iter(estimates.values())).warn()
    for words in log.doubts_when_estimated(follows_units=True):
        warnings.warn(words, BelatedWarning, stacklevel=2)
    return Comparison(estimates)


def _side_by_side(
    log: Data, level: float, interval: Interval, names: Sequence[EstimatorName] = SIDE_BY_SIDE, suffix: str = ""
) -> dict[str, Estimate]:
    """Return the estimates by the estimator's name, with `suffix` after it."""
    known = log.has_all_propensities
    chosen = {n: ESTIMATORS[n] for n in names if known or not needs_all_propensities(ESTIMATORS[n])}
    parts = list(dict.fromkeys(estimator.parts for estimator in chosen.values()))
    shared = {part: sums[-1] for part, sums in zip(parts, log.sums(parts), strict=True)}
    estimates = {}
    for name, estimator in chosen.items():
        sums = shared[estimator.parts]
        estimates[name + suffix] = Estimate(
            sums=sums,
            estimator=estimator,
            level=level,
            interval=resolve_interval(fallback_interval(interval, estimator), sums, estimator),
            as_of=log.as_of_text,
            outcome=log.outcome_name,
            unit=sums.unit_of(log.measure),
        )
    return estimates


@dataclass(frozen=True, repr=False)
class Comparison(Table):
    """Estimates by several estimators; ``comparison["daipw"]`` is an `Estimate`.

    For events, ``comparison["dipw"]`` uses all rows, and ``comparison["dipw, closed only"]`` those whose window has
    closed.
    """

    estimates: dict[str, Estimate]

    def __getitem__(self, name: str) -> Estimate:
        return self.estimates[one_of("estimator", name, self.estimates)]

    def arm(self, arm: Label) -> Answers:
        """Return every estimator's answer for one arm."""
        return Answers("estimator", {name: e.arm(arm) for name, e in self.estimates.items()})

    def contrast(self, arm: Label, baseline: Label) -> Answers:
        """Return every estimator's answer for one contrast."""
        return Answers("estimator", {name: e.contrast(arm, baseline) for name, e in self.estimates.items()})

    def policy(self, policy: PolicyLike | str) -> Answers:
        """Return every estimator's answer for one policy."""
        return Answers("estimator", {name: e.policy(policy) for name, e in self.estimates.items()})

    def linear(self, coefficients: ByArm[float]) -> Answers:
        """Return every estimator's answer for one linear combination."""
        return Answers("estimator", {name: e.linear(coefficients) for name, e in self.estimates.items()})

    def __len__(self) -> int:
        return len(self.estimates)

    def __iter__(self) -> Iterator[str]:
        return iter(self.estimates)

    def plot(self) -> Figure:
        """Draw every estimator's answers, in a facet for each arm; a matplotlib figure, which notebooks show."""
        from belated.estimation.figures import comparison_figure

        return comparison_figure(self)

    def _title(self) -> str:
        first = next(iter(self.estimates.values()))
        wanted = SIDE_BY_SIDE if first.maturity is None else MATURING
        left_out = [name for name in wanted if name not in self.estimates]
        why = f" ({', '.join(left_out)} need every arm's propensity)" if left_out else ""
        what = "" if first.cap is None else f", {first.estimand}"
        return f"{len(self.estimates)} estimators side by side{what}, {percent(first.level)} intervals{why}"

    def _columns(self) -> list[Column]:
        rows = [(name, e.interval, answer) for name, e in self.estimates.items() for answer in e.arm_answers]
        return [
            Column("estimator", [name for name, _, _ in rows], "label"),
            Column("arm", [arm for e in self.estimates.values() for arm in e.arms], "label"),
            *answer_columns([answer for _, _, answer in rows], test=False),
            Column("interval", [kind for _, kind, _ in rows], "label"),
        ]
