"""Every estimator against its slow, obvious twin, on generated logs; and the algebra that must hold between answers."""

import warnings
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import belated as bl
from belated.kernels import jit
from belated.kernels import rows as kernel

ZERO_MODEL = ["dipw", "mean", "hajek"]  # these also work from the chosen arm's propensity alone
HAJEK = ["daipw", *ZERO_MODEL]
OUTCOMES = ["normal", "binary", "large", "constant", "heavy"]
LABELS = {
    "text": ("A", "B", "C", "D", "E"),
    "unsorted text": ("z", "why", "x", "", "a b"),
    "numbers": (0, 1, 2, 3, 4),
    "unsorted numbers": (100, -7, 3, 12, 0),
    "bool": (True, False),
    "mixed": ("x", 7, 2.5, "7", False),
}
UNITS = ["D", "h", "s", "ms", "us", "ns"]
SUMS = {  # by what they are sums of, each times at most an outcome's third power
    "h": ["h", "hm", "h_arrived"],
    "h2": ["h2", "h2m", "h2m2"],
    "arrived": ["assigned", "arrived", "y", "y2", "y3"],
    "w": ["w", "wy", "wm", "hwr", "hwrm", "w_max"],
    "w2": ["w2", "w2y", "w2y2", "w2r2"],
    "w3": ["w3", "w3y", "w3y2"],
}


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
    rows, k = draw(st.integers(1, 80)), draw(st.integers(*arms))

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


# ---------------------------------------------------------------- the estimators


@given(experiments())
@examples(200)
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
@examples(80)
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


@given(experiments(outcomes=["binary"], tiny=False, arms=(2, 3)), st.sampled_from([0.8, 0.95]))
@examples(60)
def test_wilson_and_mover_equal_the_twin(experiment, level):
    log, twin = experiment.log(), experiment.twin("dipw")
    known = twin.values[:2], twin.effective_size[:2], twin.inflation[:2]
    if not np.isfinite(twin.t_variances[:2]).all():
        return
    est = quietly(bl.estimate, log, "dipw", interval="wilson", level=level)
    expected = [naive.wilson(*(x[i] for x in known), level) for i in range(2)]
    for i in range(2):
        assert_close([est.arm(i).low, est.arm(i).high], expected[i], 1e-9)
    contrast = est.contrast(0, 1)
    assert_close([contrast.low, contrast.high], naive.mover(known[0], expected), 1e-9)


@given(experiments(outcomes=["normal", "heavy"], tiny=False, arms=(2, 3)), st.sampled_from([0.8, 0.95]))
@examples(60)
def test_skew_equals_the_twin(experiment, level):
    x, twin = experiment, experiment.twin("daipw")
    if not np.isfinite(twin.t_variances[:2]).all():
        return
    est = quietly(bl.estimate, x.log(), interval="skew", level=level)
    came = [t for t in naive.existing(x.assigned, x.as_of) if naive.has_arrived(x.arrived, t, x.as_of)]
    outcomes = [[Fraction(x.outcome[t]) for t in came if x.arm[t] == k] for k in range(2)]
    known = zip(twin.values, twin.t_variances, twin.effective_size, outcomes, strict=False)
    expected = [naive.skew(*one, level) for one in known]
    assert_close(est.statistics.skewness[:2], [naive.skewness(y) for y in outcomes], 1e-6)
    for i in range(2):
        assert_close([est.arm(i).low, est.arm(i).high], expected[i], 1e-6)
    contrast = est.contrast(0, 1)
    assert_close([contrast.low, contrast.high], naive.mover(twin.values[:2], expected), 1e-6)


@given(experiments())
@examples(60)
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
@examples(60)
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
    mu = np.array(naive.running_mean(x.arm, x.outcome, x.assigned, x.arrived, x.k), dtype=float)
    for name in ("daipw", "nh"):
        assert_same(ask(x.log(), name, weights=h, outcome_model=mu), x.twin(name))


@given(experiments(), st.sampled_from([None, 0, 50]), st.sampled_from([0.0, 0.3, 0.5, 0.9]))
@examples(60)
def test_two_point_weights(experiment, spare, decay):
    horizon = None if spare is None else len(experiment.arm) + spare
    for name in ("daipw", "dipw", "nh", "iad"):
        est = ask(experiment.log(), name, weights=bl.two_point(horizon, decay))
        assert_same(est, experiment.twin((("two_point", horizon, decay), *naive.ESTIMATORS[name][1:])))
        if decay == 0:
            assert_same(est, experiment.twin(name))


@given(experiments(outcomes=["normal"]))
@examples(60)
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


@pytest.mark.parametrize("interval", ["auto", "normal", "t", "skew", "wilson"])
def test_before_any_arrival_every_answer_is_nan(interval):
    log = bl.Log([0, 1], [1.0, 0.0], [[0.5, 0.5]] * 2, delay=[5, 5], as_of=2)
    with pytest.warns(bl.BelatedWarning):
        est = bl.estimate(log, interval=interval)
    assert np.isnan(est.values).all()


# ---------------------------------------------------------------- the ways to say it


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
@examples(120)
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
@examples(60)
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
@examples(60)
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


@given(experiments(arms=(1, 3)), st.sampled_from(sorted(LABELS)), st.sampled_from(["list", "array", "objects"]))
@examples(120)
def test_labels_of_every_kind(experiment, kind, form):
    labels = LABELS[kind][: experiment.k]
    if len(labels) < experiment.k:
        return
    arm = [labels[a] for a in experiment.arm]
    if form != "list":
        arm = np.array(arm, dtype=object if form == "objects" or kind == "mixed" else None)
    found = kind == "numbers" or (kind == "text" and len(set(experiment.arm)) == experiment.k)
    for arms in (labels, None) if found else (labels,):
        est = ask(replace(experiment, arm=arm).log(arms=arms))
        assert est.arms == labels
        assert [type(label) for label in est.arms] == [type(label) for label in labels]
        assert_same(est, experiment.twin("daipw"))


# ---------------------------------------------------------------- what must not matter


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


# ---------------------------------------------------------------- the other ways to the same answer


def looks(experiment):
    """Moments before, at and after things happen."""
    times = sorted({*experiment.assigned, *(x for x in experiment.arrived if x is not None)})
    return [times[0] - 1, *times[::4], times[-1] + 1]


@given(experiments(), st.sampled_from(sorted(bl.ESTIMATORS)))
@examples(50)
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
@examples(30)
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
@examples(30)
def test_evenly_spaced_trajectory_ends_with_the_log(experiment, count):
    path = quietly(bl.trajectory, experiment.log(), at=count, interval="normal")
    assert 1 <= len(path) <= count
    assert_same(path[len(path) - 1], experiment.twin("daipw"))
    for moment, est in zip(path.moments, path.estimates, strict=True):
        assert_same(est, replace(experiment, as_of=moment).twin("daipw"))


def parted(experiment, seed):
    """The rows of an experiment, dealt at random to at most three logs."""
    hand = np.random.default_rng(seed).integers(3, size=len(experiment.arm))
    parts = [experiment.rows(np.flatnonzero(hand == i)) for i in sorted(set(hand))]
    return [part.log(assigned_at=[float(x) for x in part.assigned]) for part in parts]


def summed(logs):
    """Sums of parts whose running means see all parts."""
    return sum(bl.Sums.of(log, history=[other for other in logs if other is not log]) for log in logs)


@given(experiments(), st.integers(0, 99))
@examples(50)
def test_sums_of_parts_add_up_to_the_whole(experiment, seed):
    logs = parted(experiment, seed)
    for name in ("dipw", "mean", "hajek", "nh0", "iad"):
        total = sum(bl.Sums.of(log, *bl.ESTIMATORS[name].parts) for log in logs)
        assert_same(ask(total, name), experiment.twin(name))
    for name in ("daipw", "nh"):
        assert_same(ask(summed(logs), name), experiment.twin(name))


def test_parts_belong_together_whether_or_not_all_their_outcomes_came():
    both = [[0.5, 0.5]] * 2
    parts = [
        bl.Log([0, 1], [1.0, 2.0], both, assigned_at=[1, 2], arrived_at=[1, 3]),
        bl.Log([0, 1], [3.0, None], both, assigned_at=[3, 4], arrived_at=[5, None]),
    ]
    whole = bl.Log([0, 1, 0, 1], [1.0, 2.0, 3.0, None], both * 2, assigned_at=[1, 2, 3, 4], arrived_at=[1, 3, 5, None])
    assert_close(ask(summed(parts)).values, ask(whole).values)


@given(experiments(outcomes=["normal"]), st.integers(0, 99), st.sampled_from(["sqrt", "uniform"]))
@examples(50)
def test_merging_is_associative_and_commutative(experiment, seed, weights):
    for model in ("zero", "running_mean"):
        sums = [bl.Sums.of(part, weights, model) for part in parted(experiment, seed)]
        a, b, c = (sums + [bl.Sums.empty(range(experiment.k), weights, model)] * 2)[:3]
        one = a + (b + c)
        for other in ((a + b) + c, c + (b + a), (c + a) + b):
            there = other.recentred(one.shift)
            for total, names in SUMS.items():
                for name in names:
                    assert_close(there[name], one[name], 1e-12 * one[total])


@given(experiments(), st.sampled_from([*sorted(bl.ESTIMATORS), "two_point"]))
@examples(60)
def test_ledger_replays_a_log(experiment, name):
    x = experiment
    estimator = bl.ESTIMATORS.get(name, bl.Estimator(bl.two_point(len(x.arm), 0.3)))
    ledger = bl.Ledger(range(x.k), *estimator.parts)
    out = set()

    def land(now):
        come = [t for t in out if naive.has_arrived(x.arrived, t, now)]
        ledger.land(come, x.outcome[come])
        out.difference_update(come)

    rows = naive.existing(x.assigned, x.as_of)
    for now in sorted({x.assigned[t] for t in rows}):
        land(now)
        batch = [t for t in rows if x.assigned[t] == now]
        ledger.assign([x.arm[t] for t in batch], x.propensity[batch], keys=batch)
        out.update(batch)
    land(x.as_of)
    twin = x.twin(name if name in bl.ESTIMATORS else (("two_point", len(x.arm), 0.3), "running_mean", "hajek"))
    assert_same(ask(ledger, estimator), twin)


@given(st.lists(experiments(early=False), min_size=3, max_size=3))
@examples(8)
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
