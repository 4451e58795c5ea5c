"""Every estimator against its slow, obvious twin, on generated logs; and the algebra that must hold between answers."""

import warnings
from dataclasses import dataclass, replace
from typing import Any

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import belated as bl
from belated.kernels import jit
from belated.kernels import rows as kernel

ZERO_MODEL = ["dipw", "mean", "hajek"]  # what also works from the chosen arm's propensity alone
HAJEK = ["daipw", *ZERO_MODEL]
LABELS = {
    "text": ("A", "B", "C", "D", "E"),
    "reversed": ("z", "why", "x", "", "a b"),
    "numbers": (0, 1, 2, 3, 4),
    "codes": (100, -7, 3, 12, 0),
    "bool": (True, False),
    "mixed": ("x", 7, 2.5, "7", False),
}
UNITS = ["D", "h", "s", "ms", "us", "ns"]
SUMS = (
    "h h2 hm h2m h2m2 h_arrived assigned arrived binary y y2 w wy wm w2 w2y w2y2 w3 w3y w3y2 hwr hwrm w2r2 w_max"
).split()


def reproducible(examples):
    return settings(derandomize=True, deadline=None, max_examples=examples, database=None)


@dataclass(frozen=True)
class Experiment:
    """Arms by number, times as whole numbers, None for never: what the twin reads."""

    arm: list[int]
    outcome: Any
    propensity: Any
    assigned: list[int]
    arrived: list[int | None]
    as_of: int | None

    @property
    def k(self):
        return self.propensity.shape[1]

    @property
    def chosen(self):
        return self.propensity[np.arange(len(self.arm)), self.arm]

    @property
    def spread(self):
        """How far outcomes lie from each other, and from 0: the scales of what may be lost."""
        y = self.outcome[np.isfinite(self.outcome)]
        return (np.ptp(y), np.abs(y).max()) if y.size else (0.0, 0.0)

    def twin(self, estimator):
        return naive.estimate(
            estimator, self.arm, self.outcome, self.propensity, self.assigned, self.arrived, self.as_of
        )

    def log(self, **changes):
        kwargs = {
            "arms": range(self.k),
            "assigned_at": self.assigned,
            "arrived_at": [np.nan if x is None else x for x in self.arrived],
            "as_of": self.as_of,
            "propensity": self.propensity,
        } | changes
        return bl.Log(self.arm, self.outcome, **kwargs)

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
def experiments(draw, *, orders=("steps", "sorted", "batches", "unsorted"), outcomes=None, tiny=True, arms=(1, 5)):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows, k = draw(st.integers(1, 80)), draw(st.integers(*arms))

    order = draw(st.sampled_from(orders))
    if order == "steps":
        assigned = np.arange(1, rows + 1)
    elif order == "batches":
        assigned = np.sort(rng.integers(-3, rows // 4 + 1, rows))
    elif order == "unsorted":
        assigned = rng.integers(0, rows, rows)
    else:
        assigned = np.cumsum(rng.integers(1, 4, rows))
    if order == "distinct":
        assigned = rng.permutation(assigned)
    delay = rng.geometric(1 / draw(st.sampled_from([1, 3, 20])), rows) - 1
    never = rng.random(rows) < draw(st.sampled_from([0, 0.3, 0.9, 1]))
    arrived = [None if gone else int(a + d) for a, d, gone in zip(assigned, delay, never, strict=True)]

    propensity = rng.exponential(size=(rows, k)) ** draw(st.sampled_from([0.5, 1, 4]))
    if tiny and draw(st.booleans()):
        propensity[rng.random((rows, k)) < 0.1] *= 1e-12
    propensity /= propensity.sum(axis=1, keepdims=True)
    greedy = (propensity.cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1).clip(0, k - 1)
    arm = np.where(rng.random(rows) < 0.5, greedy, rng.integers(k, size=rows))
    zero = (rng.random((rows, k)) < draw(st.sampled_from([0, 0.2]))) & (np.arange(k) != arm[:, None])
    propensity = np.where(zero, 0, propensity)
    propensity /= propensity.sum(axis=1, keepdims=True)

    kind = draw(st.sampled_from(outcomes or ["normal", "binary", "large", "constant", "heavy"]))
    outcome = {
        "normal": rng.normal(size=rows) + arm,
        "binary": (rng.random(rows) < 0.3).astype(float),
        "large": 1e8 + rng.normal(size=rows),
        "constant": np.full(rows, -2.5),
        "heavy": rng.standard_cauchy(rows) * 1e3,
    }[kind]
    outcome = np.where(never, np.nan, outcome)

    middle = int(np.median(assigned))
    as_of = draw(st.sampled_from([None, None, middle, int(assigned.min()) - 1, int(assigned.max()) + 5]))
    return Experiment(arm.tolist(), outcome, propensity, assigned.tolist(), arrived, as_of)


def quietly(estimate, *args, **kwargs):
    """Answers of a log with arms of which nothing has arrived, without the warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bl.BelatedWarning)
        return estimate(*args, **kwargs)


def ask(log, estimator="daipw", **kwargs):
    return quietly(bl.estimate, log, estimator, interval="normal", **kwargs)


def assert_close(actual, expected, floor=0.0):
    np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=floor, equal_nan=True)


def floors(experiment, estimator):
    """Absolute errors allowed in values and variances: 1e-13 of the outcomes' scale.

    With a zero model and Hajek's normalisation the scale is the spread, however far from 0 the outcomes are.
    """
    spread, size = experiment.spread
    scale = spread if estimator in ZERO_MODEL else size
    return 1e-13 * size, 1e-13 * scale**2


def assert_same(est, expected, floor=(0.0, 0.0), share=True):
    assert_close(est.values, expected.values, floor[0])
    assert_close(est.variances, expected.variances, floor[1])
    assert_close(est.effective_size, expected.effective_size)
    if share:
        assert_close(est.observed_share, expected.observed_share)
