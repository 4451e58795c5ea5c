from __future__ import annotations

import itertools
from dataclasses import fields

import numpy as np
import pytest
from experiments import quietly

import belated as bl
from belated.kernels.fields import OWN, SPREAD
from belated.kernels.moments import MOMENTS
from belated.simulation.moments import sums_of_runs

PAPERS = bl.Bandit(
    {"A": bl.arms.normal(1.0), "B": bl.arms.normal(0.5)},
    {"A": bl.delays.pareto(0.75).censored(0.5), "B": bl.delays.pareto(1.25)},
)

THREE = bl.Bandit(
    {"A": bl.arms.gamma(0.5, 2.0), "B": bl.arms.student_t(6, 3.0), "C": bl.arms.empirical([1.0, 2.0, 7.0])},
    {"A": bl.delays.lognormal(1.0, 1.0), "B": bl.delays.poisson(5).censored(0.3)},
)

RATES = bl.Bandit({"A": bl.arms.bernoulli(0.6), "B": bl.arms.bernoulli(0.3)}, bl.delays.geometric(4.0))
GREEDY = bl.policies.epsilon_greedy(burn_in=0.1)
CHOICES = [("sqrt", "running_mean"), ("sqrt", "zero"), ("uniform", "zero"), ("propensity", "zero")]


@pytest.mark.parametrize(
    ("bandit", "policy"),
    [
        (PAPERS, GREEDY),
        (bl.Bandit(PAPERS.arms, {"A": bl.delays.none().censored(0.5)}), GREEDY),
        (THREE, bl.policies.ucb(0.5, 0.3)),
        (THREE, bl.policies.thompson_normal(0.6, 0.3, noise_sd=2.0).batched(7)),
        (THREE, GREEDY),
        (RATES, bl.policies.thompson_beta(0.5, 0.2)),
        (RATES, bl.policies.fixed({"A": 0.2, "B": 0.8})),
    ],
    ids=["pareto", "at once", "ucb", "thompson", "greedy", "beta", "fixed"],
)
def test_a_studys_replications_are_the_logs_that_simulate_makes(bandit, policy):
    horizon = 1500
    study = bl.study(bandit, policy, horizon, 4, seed=9)
    logs = {r: bl.simulate(bandit, policy, horizon, 9, replication=r) for r in (0, 3)}
    for (r, log), name in itertools.product(logs.items(), bl.ESTIMATORS):
        ours, theirs = study.statistics(name), bl.estimate(log, name, interval="normal").statistics
        for expected, actual in zip(theirs.moments, ours.moments, strict=True):
            np.testing.assert_allclose(actual[r], expected, rtol=1e-8, atol=1e-10, err_msg=f"{name} moments")
        for part in (f.name for f in fields(theirs) if f.name not in ("constant", "moments")):
            expected, actual = getattr(theirs, part), getattr(ours, part)
            if expected is not None:
                np.testing.assert_allclose(actual[r], expected, rtol=1e-9, atol=1e-12, err_msg=f"{name} {part}")


@pytest.mark.parametrize(("weights", "model"), CHOICES)
def test_the_sums_of_a_run_are_those_of_its_log(weights, model):
    policy, horizon = bl.policies.ucb(0.5, 0.3), 400
    estimator = next(
        each for each in bl.ESTIMATORS.values() if (each.weights.name, each.outcome_model.name) == (weights, model)
    )
    centres = np.array([arm.centre for arm in THREE.arms.values()])
    moments = bl.study(THREE, policy, horizon, 3, seed=9).moments[horizon]
    found = sums_of_runs(moments, centres, estimator, horizon)
    expected = bl.Sums.of(bl.simulate(THREE, policy, horizon, 9, replication=2), weights, model).recentred(centres)
    unknown = set()
    for name in SPREAD + OWN:
        ours, theirs = found[name][-3:], expected[name]
        if np.isnan(ours).all():
            unknown.add(name)
        else:
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-7, err_msg=name)
    assert (
        unknown
        == {"nonbinary"}
        | {
            "sqrt": {"r3", "r4", "w3r", "w3r2"} if model == "running_mean" else set(),
            "uniform": set(),
            "propensity": {"h2", "h2m", "h2m2", "h_arrived", "hwr", "hwrm"},
        }[weights]
    )


def test_a_study_has_no_sums_of_other_weights():
    estimator = bl.Estimator("uniform", "running_mean")
    with pytest.raises(bl.OptionError, match="no sums for weights 'uniform' with outcome model 'running_mean'"):
        sums_of_runs(np.zeros((1, 2, len(MOMENTS))), np.zeros(2), estimator, 10)


@pytest.mark.parametrize("values", [[9.99] * 3 + [0.0] * 97, [-1.0] * 19 + [1.0], [0.0] * 97 + [3.7, 12.1, 0.3]])
def test_arms_that_have_given_one_value_only_are_seen_to(values):
    arm, policy = bl.arms.empirical(values), bl.policies.epsilon_greedy()
    bandit = bl.Bandit(dict.fromkeys("ABC", arm), bl.delays.geometric(3).censored(0.1))
    study = bl.study(bandit, policy, 60, 60, targets=["A", ("B", "A")], seed=3)
    theirs = [quietly(bl.estimate, bl.simulate(bandit, policy, 60, 3, replication=r)) for r in range(60)]
    constant = np.array([estimate.statistics.constant for estimate in theirs])
    assert 0.1 < constant.mean() < 0.9
    np.testing.assert_array_equal(study.statistics("daipw").constant, constant)
    for target in ("A", ("B", "A")):
        cell = study.cell("daipw", target, "auto")
        answers = [e.arm(target) if target == "A" else e.contrast(*target) for e in theirs]
        np.testing.assert_allclose(cell.high, [a.high for a in answers], rtol=1e-6, atol=1e-6)
