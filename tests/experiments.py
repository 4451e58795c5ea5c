"""Experiments to estimate from: generated ones with their twins, and a few logs; and what it means to agree."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import naive
import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

import belated as bl

ZERO_MODEL = ["dipw", "mean", "hajek"]  # these also work from the chosen arm's propensity alone


HAJEK = ["daipw", *ZERO_MODEL]


OUTCOMES = ["normal", "binary", "large", "constant", "heavy"]


def examples(count):
    return settings(derandomize=True, deadline=None, database=None, max_examples=count)


@dataclass(frozen=True)
class Experiment:
    """Arms by number, times as whole numbers, None for never: what the twin reads."""

    arm: Any
    outcome: Any
    propensity: Any
    assigned: list[int]
    arrived: list[int | None]
    as_of: int | None

    @property
    def k(self):
        return self.propensity.shape[1]

    def twin(self, estimator):
        return naive.estimate(
            estimator, self.arm, self.outcome, self.propensity, self.assigned, self.arrived, self.as_of
        )

    def log(self, **changes):
        said = {
            "propensity": self.propensity,
            "arms": range(self.k),
            "assigned_at": self.assigned,
            "arrived_at": [np.nan if x is None else x for x in self.arrived],
            "as_of": self.as_of,
        }
        return bl.Log(self.arm, self.outcome, **(said | changes))

    def rows(self, keep):
        """The experiment with some of its rows, in the given order."""
        return replace(
            self,
            arm=[self.arm[t] for t in keep],
            outcome=self.outcome[keep],
            propensity=self.propensity[keep],
            assigned=[self.assigned[t] for t in keep],
            arrived=[self.arrived[t] for t in keep],
        )


@st.composite
def experiments(draw, *, orders=("steps", "gaps", "batches", "unsorted"), outcomes=OUTCOMES, arms=(1, 5), **options):
    """Experiments whose shape is drawn and whose rows are random.

    Options: `tiny` (propensities down to 1e-12), `early` (moments before the first row).
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows, k = draw(st.integers(1, 50)), draw(st.integers(*arms))

    assigned = {
        "steps": np.arange(1, rows + 1),
        "gaps": np.cumsum(rng.integers(1, 4, rows)),
        "batches": np.sort(rng.integers(-3, rows // 4 + 1, rows)),
        "unsorted": rng.integers(0, rows, rows),
        "unsorted, distinct": rng.permutation(2 * rows)[:rows],
    }[draw(st.sampled_from(orders))]
    delay = rng.geometric(1 / draw(st.sampled_from([1, 3, 20])), rows) - 1
    never = rng.random(rows) < draw(st.sampled_from([0, 0.3, 0.9, 1]))
    arrived = [None if gone else int(t) for t, gone in zip(assigned + delay, never, strict=True)]
    moments = [None, int(np.median(assigned)), int(assigned.max()) + 5]
    as_of = draw(st.sampled_from(moments + [int(assigned.min()) - 1] * options.get("early", True)))

    propensity = rng.exponential(size=(rows, k)) ** draw(st.sampled_from([0.5, 1, 4]))
    if options.get("tiny", True) and draw(st.booleans()):
        propensity[rng.random((rows, k)) < 0.1] *= 1e-12
    propensity /= propensity.sum(axis=1, keepdims=True)
    followed = (propensity.cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1).clip(0, k - 1)
    arm = np.where(rng.random(rows) < 0.5, followed, rng.integers(k, size=rows))
    barred = rng.random((rows, k)) < draw(st.sampled_from([0, 0.2]))
    propensity[barred & (np.arange(k) != arm[:, None])] = 0
    propensity /= propensity.sum(axis=1, keepdims=True)

    outcome = {
        "normal": rng.normal(size=rows) + arm,
        "dyadic": np.round(1024 * rng.normal(size=rows)) / 1024,
        "binary": (rng.random(rows) < 0.3).astype(float),
        "large": 1e8 + rng.normal(size=rows),
        "constant": np.full(rows, -2.5),
        "heavy": rng.standard_cauchy(rows) * 1e3,
    }[draw(st.sampled_from(outcomes))]
    return Experiment(arm.tolist(), np.where(never, np.nan, outcome), propensity, assigned.tolist(), arrived, as_of)


def quietly(function, *args, **kwargs):
    """Call without the warnings of arms of which too little has arrived."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bl.BelatedWarning)
        return function(*args, **kwargs)


def ask(log, estimator="daipw", **kwargs):
    return quietly(bl.estimate, log, estimator, interval="normal", **kwargs)


def assert_close(actual, expected, rounding=0.0, rtol=1e-10):
    rounding = np.nan_to_num(rounding)
    near = np.isclose(actual, expected, rtol=rtol, atol=rounding, equal_nan=True)
    assert near.all(), f"{actual} is not {expected} but {np.subtract(actual, expected)} from it; allowed: {rounding}"


def assert_same(est, twin, *, shift=0.0, factor=1.0, share=True):
    """The answers are the twin's, or what the twin's become when outcomes are multiplied and shifted."""
    scale = abs(factor) * twin.value_scale + abs(shift)
    assert_close(est.values, factor * twin.values + shift, 1e-14 * scale, rtol=0)
    rounding = 1e-14 * factor**2 * twin.variance_scale + (1e-14 * scale) ** 2
    assert_close(est.variances, factor**2 * twin.variances, rounding)
    assert_close(est.effective_size, twin.effective_size)
    if share:
        assert_close(est.observed_share, twin.observed_share)


def parted(experiment, seed):
    """The rows of an experiment, dealt at random to at most three logs."""
    hand = np.random.default_rng(seed).integers(3, size=len(experiment.arm))
    parts = [experiment.rows(np.flatnonzero(hand == i)) for i in sorted(set(hand))]
    return [part.log(assigned_at=[float(x) for x in part.assigned]) for part in parts]


def summed(logs):
    """Sums of parts whose running means see all parts."""
    return sum(bl.Sums.of(log, history=[other for other in logs if other is not log]) for log in logs)


def log_of(rows=400, seed=0, **changes):
    rng = np.random.default_rng(seed)
    propensity = rng.dirichlet([4, 3, 2], rows)
    arm = (propensity.cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1)
    delay = rng.geometric(0.1, rows) - 1.0
    outcome = rng.normal(arm / 4)
    delay[rng.random(rows) < 0.2] = np.nan
    outcome[np.isnan(delay)] = np.nan
    columns = {"arm": np.array(["A", "B", "C"])[arm], "outcome": outcome, "propensity": propensity, "delay": delay}
    return bl.Log(**{**columns, **changes})


def binary_log():
    log = log_of()
    return log_of(outcome=np.where(np.isnan(log.outcome), np.nan, log.outcome > 0))


def skewed_log(sign=1.0):
    return log_of(outcome=sign * np.exp(1.2 * log_of().outcome))
