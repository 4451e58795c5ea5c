from __future__ import annotations

from dataclasses import replace

import naive
import numpy as np
import pytest
from experiments import (
    ask,
    assert_same,
    examples,
    experiments,
    log_of,
    quietly,
)
from hypothesis import given
from hypothesis import strategies as st

import belated as bl


def test_a_long_trajectory_of_many_arms():
    log = bl.Log(np.arange(80) % 1000, np.arange(80.0), np.full((80, 1000), 1e-3))
    assert len(bl.trajectory(log, at=80)) == 80


def test_trajectory_ends_where_the_log_does():
    log = log_of()
    path = bl.trajectory(log, at=7)
    assert len(path) == 7
    assert path[-1].values == pytest.approx(bl.estimate(log).values)
    contrast = path.contrast("B", "A")
    assert list(contrast.answers) == list(path.moments)
    assert path.policy({"A": 1.0})[path.moments[3]].estimate == pytest.approx(path[3].values[0])
    assert path.linear({"B": 2.0})[path.moments[3]].estimate == pytest.approx(2 * path[3].values[1])
    assert path.arm("A")[path.moments[-1]].low == pytest.approx(bl.estimate(log).arm("A").low)


def looks(experiment):
    """Moments before, at and after things happen."""
    times = sorted({*experiment.assigned, *(x for x in experiment.arrived if x is not None)})
    return [times[0] - 1, *times[::4], times[-1] + 1]


@given(experiments(), st.sampled_from(sorted(bl.ESTIMATORS)))
@examples(30)
def test_trajectory_equals_estimates_at_every_moment(experiment, name):
    at = looks(experiment)
    path = quietly(bl.trajectory, experiment.log(as_of=None), name, at=at, interval="normal")
    x = experiment
    twins = naive.trajectory(name, x.arm, x.outcome, x.propensity, x.assigned, x.arrived, at)
    assert list(path.moments) == at
    for moment, est, twin in zip(at, path.estimates, twins, strict=True):
        assert_same(est, twin)
        assert_same(ask(x.log().at(moment), name), twin)


@given(experiments(), st.sampled_from([None, 100]))
@examples(20)
def test_trajectory_with_two_point_weights(experiment, horizon):
    at = looks(experiment)
    weights = bl.two_point(horizon)
    path = quietly(bl.trajectory, experiment.log(as_of=None), at=at, interval="normal", weights=weights)
    planned = horizon or len(experiment.arm)  # at every moment, as at the last
    for moment, est in zip(at, path.estimates, strict=True):
        twin = replace(experiment, as_of=moment).twin((("two_point", planned, 0.5), "running_mean", "hajek"))
        assert_same(ask(experiment.log(as_of=moment), weights=bl.two_point(planned)), twin)
        assert_same(est, twin)


@given(experiments(early=False), st.integers(1, 20))
@examples(20)
def test_evenly_spaced_trajectory_ends_with_the_log(experiment, count):
    path = quietly(bl.trajectory, experiment.log(), at=count, interval="normal")
    assert 1 <= len(path) <= count
    assert_same(path[len(path) - 1], experiment.twin("daipw"))
    for moment, est in zip(path.moments, path.estimates, strict=True):
        assert_same(est, replace(experiment, as_of=moment).twin("daipw"))
