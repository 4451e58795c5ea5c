"""Every estimator against its slow, obvious twin, on generated logs; and the algebra that must hold between answers."""

from __future__ import annotations

import copy
import warnings
from dataclasses import replace

import naive
import numpy as np
import pytest
from experiments import (
    HAJEK,
    ZERO_MODEL,
    Experiment,
    ask,
    assert_close,
    assert_same,
    examples,
    experiments,
    parted,
    quietly,
    summed,
)
from hypothesis import given
from hypothesis import strategies as st

import belated as bl
from belated.estimation.estimators import MATURING, default_estimator, default_for
from belated.kernels import jit
from belated.kernels import rows as kernel
from belated.log.events import MATURING_ESTIMATORS

LABELS = {
    "text": ("A", "B", "C", "D", "E"),
    "unsorted text": ("z", "why", "x", "", "a b"),
    "numbers": (0, 1, 2, 3, 4),
    "unsorted numbers": (100, -7, 3, 12, 0),
    "bool": (True, False),
    "mixed": ("x", 7, 2.5, "7", False),
}


UNITS = ["D", "h", "s", "ms", "us", "ns"]


@given(experiments())
@examples(80)
def test_every_estimator_equals_its_twin(experiment):
    log = experiment.log()
    for name in bl.ESTIMATORS:
        est = ask(log, name)
        assert_same(est, experiment.twin(name))
        assert_close(est.std_errors, np.sqrt(est.variances))


@pytest.mark.parametrize("name", HAJEK)
def test_a_large_mean_costs_no_digits(name):
    rng = np.random.default_rng(0)
    arm, outcome, propensity = rng.integers(2, size=60), rng.normal(size=60), rng.dirichlet([2, 2], 60)
    for assigned in (np.ones(60), np.arange(60)):
        experiment = Experiment(arm, outcome + 1e8, propensity, assigned, list(assigned), None)
        assert_close(ask(experiment.log(), name).variances, experiment.twin(name).variances)


@given(experiments(tiny=False))
@examples(50)
def test_t_standard_errors_equal_the_twin_and_bound_hc3(experiment):
    for name in HAJEK:
        twin = experiment.twin(name)
        variances = quietly(bl.estimate, experiment.log(), name, interval="t").std_errors ** 2
        several = np.isfinite(twin.t_variances)
        np.testing.assert_array_equal(np.isfinite(variances), several)
        rounding = (1e-14 * twin.variance_scale + (1e-14 * twin.value_scale) ** 2)[several] / twin.rest[several] ** 2
        assert_close(variances[several], twin.t_variances[several], rounding)
        assert (variances[several] >= twin.true_hc3[several] * (1 - 1e-10) - rounding).all()


@pytest.mark.parametrize("smallest", [1e-3, 1e-6, 1e-11])
@pytest.mark.parametrize("order", [1, -1])
def test_t_standard_error_of_an_arm_that_one_row_dominates(smallest, order):
    outcome = np.array([-0.89, -0.29, 0.88, 0.58, 0.09, 0.67])[::order]
    propensity = np.array([[0.5], [0.5], [0.5], [smallest], [0.5], [0.5]])[::order]
    experiment = Experiment([0] * 6, outcome, propensity, list(range(6)), list(range(6)), None)
    est = bl.estimate(experiment.log(propensity=propensity[:, 0]), "hajek", interval="t")
    assert_close(est.std_errors**2, experiment.twin("hajek").t_variances, rtol=1e-4)


@given(experiments())
@examples(40)
def test_chosen_propensities_are_enough_for_those_that_use_no_others(experiment):
    log = experiment.log(propensity=experiment.propensity[np.arange(len(experiment.arm)), experiment.arm])
    for name in ZERO_MODEL:
        assert_same(ask(log, name), experiment.twin(name), share=name == "hajek")
    for name in ("dipw", "mean"):
        with pytest.raises(bl.PropensitiesNeededError):
            ask(log, name).observed_share  # noqa: B018
    for name in ("daipw", "nh", "nh0", "iad"):
        with pytest.raises(bl.PropensitiesNeededError):
            ask(log, name)


@given(experiments(), st.sampled_from(["hajek", "plain", "arrived"]), st.booleans(), st.integers(0, 99))
@examples(40)
def test_weights_and_outcome_models_can_be_given(experiment, normalisation, as_functions, seed):
    rng = np.random.default_rng(seed)
    h, mu = rng.random(experiment.propensity.shape), rng.normal(size=experiment.propensity.shape)
    given_h, given_mu = (lambda _: h, lambda _: mu) if as_functions else (h, mu)
    est = ask(experiment.log(), weights=given_h, outcome_model=given_mu, normalisation=normalisation)
    assert_same(est, experiment.twin((h, mu, normalisation)))


@given(experiments(outcomes=["normal", "binary", "heavy"]))
@examples(30)
def test_what_has_a_name_can_be_given(experiment):
    x = experiment
    h = naive.weights("sqrt", x.propensity, x.assigned)
    means = naive.running_mean(x.arm, x.outcome, x.assigned, x.arrived, x.k)
    mu = np.array([[0.0 if m is None else float(m) for m in row] for row in means]).reshape(x.propensity.shape)
    assert_same(ask(x.log(), "nh", weights=h, outcome_model=mu), x.twin("nh"))
    given, twin = ask(x.log(), "daipw_paper", weights=h, outcome_model=mu), x.twin("daipw_paper")
    assert_close(given.values, twin.values, 1e-14 * twin.value_scale, rtol=0)  # variances are about a given model


@given(experiments(), st.sampled_from([None, 0, 50]), st.sampled_from([0.0, 0.3, 0.5, 0.9]))
@examples(40)
def test_two_point_weights(experiment, spare, decay):
    horizon = None if spare is None else len(experiment.arm) + spare
    for name in ("daipw", "dipw", "nh", "iad"):
        est = ask(experiment.log(), name, weights=bl.two_point(horizon, decay))
        assert_same(est, experiment.twin((("two_point", horizon, decay), *naive.ESTIMATORS[name][1:])))
        if decay == 0:
            assert_same(est, experiment.twin(name))


@given(experiments())
@examples(40)
def test_weights_from_the_past(experiment):
    for name in ("daipw", "dipw", "nh", "iad"):
        est = ask(experiment.log(), name, weights="past")
        assert_same(est, experiment.twin(("past", *naive.ESTIMATORS[name][1:])))


@given(experiments(outcomes=["normal"]))
@examples(40)
def test_arms_with_too_few_arrivals_are_warned_of(experiment):
    arrivals = np.zeros(experiment.k)
    for t, arm in enumerate(experiment.arm):
        arrivals[arm] += naive.has_arrived(experiment.arrived, t, experiment.as_of)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        est = bl.estimate(experiment.log(), "dipw", interval="t")
    assert bool(caught) == bool((arrivals < 2).any())
    assert all(issubclass(warning.category, bl.BelatedWarning) for warning in caught)
    for number in (est.values, est.variances, est.effective_size):
        np.testing.assert_array_equal(np.isnan(number), arrivals == 0)
    np.testing.assert_array_equal(np.isnan(est.std_errors), arrivals < 2)


def moments(clock, times, unit):
    """Whole numbers as moments of a clock."""
    if clock == "datetime":
        start = np.datetime64("2024-02-28", unit)
        return [np.datetime64("NaT", unit) if x is None else start + x for x in times]
    return [None if x is None else x / 4 if clock == "float" else x for x in times]


def delays(clock, experiment, unit, never=None):
    lengths = [None if b is None else b - a for a, b in zip(experiment.assigned, experiment.arrived, strict=True)]
    if clock == "datetime":
        return [np.timedelta64("NaT" if x is None else x, unit) for x in lengths]
    return [never if x is None else x / 4 if clock == "float" else x for x in lengths]


@given(
    experiments(),
    st.sampled_from(["integer", "float", "datetime"]),
    st.sampled_from(UNITS),
    st.sampled_from([None, np.nan, np.inf]),
    st.booleans(),
    st.booleans(),
)
@examples(50)
def test_times_of_every_kind(experiment, clock, unit, never, by_delay, as_arrays):
    said = {"assigned_at": moments(clock, experiment.assigned, unit)}
    if by_delay:
        said |= {"arrived_at": None, "delay": delays(clock, experiment, unit, never)}
    else:
        said |= {"arrived_at": moments(clock, experiment.arrived, unit)}
    if as_arrays:
        said = {name: column if column is None else np.array(column) for name, column in said.items()}
    if experiment.as_of is not None:
        said["as_of"] = moments(clock, [experiment.as_of], unit)[0]
    assert_same(ask(experiment.log(**said)), experiment.twin("daipw"))


@given(experiments(), st.booleans(), st.booleans())
@examples(40)
def test_integers_too_long_for_floats(experiment, by_delay, as_arrays):
    start = 1_700_000_000_000_000_000  # an epoch in nanoseconds
    late = [None if x is None else start + x for x in experiment.arrived]
    said = {"assigned_at": [start + x for x in experiment.assigned], "arrived_at": late}
    if by_delay:
        said |= {"arrived_at": None, "delay": delays("integer", experiment, "s")}
    if as_arrays:
        said = {name: column if column is None else np.array(column) for name, column in said.items()}
    if experiment.as_of is not None:
        said["as_of"] = start + experiment.as_of
    assert_same(ask(experiment.log(**said)), experiment.twin("daipw"))


@given(experiments(), st.sampled_from(UNITS[:4]), st.sampled_from(UNITS[2:]))
@examples(40)
def test_datetimes_of_different_units(experiment, unit, other):
    said = {
        "assigned_at": np.array(moments("datetime", experiment.assigned, unit)),
        "arrived_at": np.array(moments("datetime", experiment.arrived, unit)).astype(f"datetime64[{other}]"),
    }
    if experiment.as_of is not None:
        said["as_of"] = moments("datetime", [experiment.as_of], unit)[0].astype("datetime64[us]").item()
    if UNITS.index(other) >= UNITS.index(unit):  # nothing was cut off
        assert_same(ask(experiment.log(**said)), experiment.twin("daipw"))


@given(experiments(orders=["steps"]))
@examples(30)
def test_steps_are_the_default_times(experiment):
    log = experiment.log(assigned_at=None, arrived_at=None, delay=delays("integer", experiment, "s"))
    assert_same(ask(log), experiment.twin("daipw"))


@given(experiments())
@examples(30)
def test_outcomes_without_arrival_times_came_at_once(experiment):
    at_once = [None if b is None else a for a, b in zip(experiment.assigned, experiment.arrived, strict=True)]
    experiment = replace(experiment, arrived=at_once)
    assert_same(ask(experiment.log(arrived_at=None)), experiment.twin("daipw"))


@pytest.mark.filterwarnings("ignore:`arm` has integers")  # of one arm alone, its number says that there are others
@given(experiments(arms=(1, 3)), st.sampled_from(sorted(LABELS)), st.sampled_from(["list", "array", "objects"]))
@examples(50)
def test_labels_of_every_kind(experiment, kind, form):
    labels = LABELS[kind][: experiment.k]
    if len(labels) < experiment.k:
        return
    arm = [labels[a] for a in experiment.arm]
    if form != "list":
        arm = np.array(arm, dtype=object if form == "objects" or kind == "mixed" else None)
    inferred = kind == "numbers" or (kind == "text" and len(set(experiment.arm)) == experiment.k)
    for arms in (labels, None) if inferred else (labels,):
        est = ask(replace(experiment, arm=arm).log(arms=arms))
        assert est.arms == labels
        assert [type(label) for label in est.arms] == [type(label) for label in labels]
        assert_same(est, experiment.twin("daipw"))


@given(experiments(orders=["unsorted, distinct"]), st.integers(0, 99))
@examples(30)
def test_order_of_rows_does_not_matter(experiment, seed):
    shuffled = experiment.rows(np.random.default_rng(seed).permutation(len(experiment.arm)))
    for name in bl.ESTIMATORS:
        assert_same(ask(shuffled.log(), name), experiment.twin(name))


@given(experiments(outcomes=["dyadic", "binary"]), st.sampled_from([-3.0, 1e3, 1e8]))
@examples(40)
def test_shifted_outcomes_shift_the_estimates_alone(experiment, shift):
    shifted = replace(experiment, outcome=experiment.outcome + shift)  # without rounding
    for name in ZERO_MODEL:
        assert_same(ask(shifted.log(), name), experiment.twin(name), shift=shift)


@given(experiments(outcomes=["dyadic", "binary"]), st.sampled_from([-1.0, 2.0**-30, 3.0, 1e8]))
@examples(30)
def test_scaled_outcomes_scale_the_answers(experiment, factor):
    scaled = replace(experiment, outcome=experiment.outcome * factor)  # without rounding
    for name in bl.ESTIMATORS:
        assert_same(ask(scaled.log(), name), experiment.twin(name), factor=factor)


@given(st.lists(experiments(early=False), min_size=3, max_size=3))
@examples(4)
def test_compiled_and_interpreted_kernels_agree(some):
    def answers():
        estimates = []
        for x in some:
            estimates += [ask(x.log(), name) for name in bl.ESTIMATORS]
            estimates += [ask(x.log(), weights=bl.two_point(100, 0.3)), ask(summed(parted(x, 1)))]
            estimates += quietly(bl.trajectory, x.log(), at=5, interval="normal").estimates
        return [np.array([est.values, est.variances, est.observed_share, est.effective_size]) for est in estimates]

    jit.compile_kernels()
    compiled = answers()
    with pytest.MonkeyPatch.context() as patch:
        for name, function in list(vars(kernel).items()):
            if hasattr(function, "py_func"):
                patch.setattr(kernel, name, function.py_func)
        interpreted = answers()
    for one, other in zip(compiled, interpreted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_the_default_is_what_the_known_propensities_allow():
    arm, outcome = ["A", "B", "A"], [1.0, 2.0, 3.0]
    assert default_estimator(bl.Log(arm, outcome, np.full((3, 2), 0.5), arms=["A", "B"])) == "daipw"
    assert default_estimator(bl.Log(arm, outcome, np.full(3, 0.5), arms=["A", "B"])) == "dipw"


def test_what_events_are_estimated_by_while_windows_are_open_is_said():
    *most, last = map(repr, MATURING)
    assert f" by {', '.join(most)} or {last}, which" in MATURING_ESTIMATORS
    assert default_for(maturing=True) in MATURING


def test_an_estimator_is_a_value():
    custom = bl.Estimator(weights="sqrt", outcome_model="running_mean", normalisation="hajek", name="daipw")
    assert custom == bl.ESTIMATORS["daipw"]
    assert hash(custom) == hash(bl.ESTIMATORS["daipw"])
    assert custom != bl.Estimator() != "daipw"
    assert copy.deepcopy(custom) == custom
    assert repr(custom).startswith("Estimator(weights=Weights(name='sqrt'")
    with pytest.raises(AttributeError):
        custom.name = "other"
    with pytest.raises(bl.OptionError, match="Did you mean 'hajek'"):
        bl.Estimator(normalisation="hayek")


def test_an_estimator_plans_for_rows_only_if_it_must():
    assert bl.ESTIMATORS["daipw"].planned_for(10) == bl.ESTIMATORS["daipw"]
    planned = bl.Estimator(bl.two_point(), name="mine").planned_for(10)
    assert (planned.weights.horizon, planned.name) == (10, "mine")


def test_outcomes_are_equal_whatever_has_not_arrived_yet():
    # the row that weighs most is what sums are taken about, and its outcome, 9.99, comes later
    propensity = np.full((30, 2), 0.5)
    propensity[7] = 0.05, 0.95
    outcome, delay = np.zeros(30), np.zeros(30)
    outcome[7], delay[7] = 9.99, 50
    log = bl.Log(["A"] * 15 + ["B"] * 15, outcome, propensity, delay=delay, as_of=30)
    statistics = quietly(bl.estimate, log).statistics
    assert statistics.constant.all()
    assert (statistics.moments.pooled_second == 0).all()
    assert np.isnan(quietly(bl.estimate, log).arm("A").low)
