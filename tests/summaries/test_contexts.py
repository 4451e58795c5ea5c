"""Whether probabilities swing as those of a policy do that looks at the unit: found where it does, and only there."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from contextual_policies import contextual
from engines import source_of
from simulated_logs import changed, chosen, two_segments

import belated as bl
from belated.log.row_summaries import glimpse
from belated.summaries import contexts

DETECTED = ("quiet", "loud", "outcomes")


def contexts_of(log):
    return contexts.contexts(contexts.swings(glimpse(log)))


def coarse(log, width):
    """The same rows, with times that count only every so many steps."""
    arrived = np.where(log.arrived, np.floor(log.arrived_numbers / width), np.inf)
    outcome = np.where(log.arrived, log.outcome, np.nan)
    assigned = log.assigned_numbers // width
    return bl.Log(log.code, outcome, log.propensity, arms=range(2), assigned_at=assigned, arrived_at=arrived)


@pytest.mark.parametrize("rows", [500, 2000])
@pytest.mark.parametrize("delay", [0, 20])
@pytest.mark.parametrize("width", [1, 10, 100])
def test_a_policy_that_looks_at_the_unit_is_found(rows, delay, width):
    log = two_segments(rows, delay=delay)
    log = log if width == 1 else coarse(log, width)
    assert bl.diagnose(log)["units"].light == "red"
    with pytest.warns(bl.BelatedWarning, match="looked at the unit"):
        bl.estimate(log)


def test_weights_that_do_not_follow_the_unit_cover_and_are_not_warned_of():
    covers = dict.fromkeys(("sqrt", "uniform", "past"), 0)
    for seed in range(30):
        log = two_segments(600, seed, delay=10)
        for weights in covers:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore" if weights == "sqrt" else "error", bl.BelatedWarning)
                answer = bl.estimate(log, weights=weights).contrast("B", "A")
            covers[weights] += answer.low <= -0.1 <= answer.high
    assert covers["uniform"] >= 26
    assert covers["past"] >= 26
    assert covers["sqrt"] <= 22


POLICIES = [
    bl.policies.epsilon_greedy(decay=0.3),
    bl.policies.epsilon_greedy(0.1, 0.0, burn_in=0.2),
    bl.policies.epsilon_greedy(0.2, 0.0).batched(10),
    bl.policies.thompson_normal(0.1, 0.0),
    bl.policies.thompson_normal(0.5, 0.5).batched(20),
    bl.policies.ucb(0.2, 0.0),
    bl.policies.ucb(decay=0.5, width=3.0),
]


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
@pytest.mark.parametrize("delay", [bl.delays.none(), bl.delays.geometric(20), bl.delays.pareto(0.75).censored(0.2)])
def test_a_policy_that_does_not_is_not(policy, delay):
    bandit = bl.Bandit({"A": bl.arms.normal(1.0), "B": bl.arms.normal(1.0)}, delay)
    for rows in (150, 1000):
        log = bl.simulate(bandit, policy, rows, seed=3)
        assert contexts_of(log) == "none"
        for width in (5, 60):
            assert contexts_of(coarse(log, width)) == "none"


def test_monte_carlo_probabilities_jitter():
    bandit = bl.Bandit({"A": bl.arms.normal(0.0), "B": bl.arms.normal(0.1)}, bl.delays.geometric(20))
    log = bl.simulate(bandit, bl.policies.thompson_normal(0.1, 0.0), 2000, seed=1)
    drawn = np.random.default_rng(1).binomial(200, log.propensity[:, 0]) / 200
    p = np.clip(drawn, 0.02, 0.98)
    check = bl.diagnose(changed(log, propensity=np.column_stack([p, 1 - p])))["units"]
    assert check.light == "amber"
    assert check.numbers["jitter"] == pytest.approx(0.03, abs=0.01)
    assert "Monte Carlo draws" in check.finding
    assert bl.diagnose(log)["units"].light == "green"


@pytest.mark.parametrize("arms", [2, 3, 10])
def test_few_monte_carlo_draws_jitter_however_many_arms_there_are(arms):
    found = [contexts_of(drawn_thompson(arms, segments=1, seed=seed)) for seed in range(4)]
    assert found == ["jitter"] * 4


@pytest.mark.parametrize("arms", [2, 3, 10])
def test_few_monte_carlo_draws_do_not_hide_a_policy_that_looks_at_the_unit(arms):
    found = [contexts_of(drawn_thompson(arms, segments=2, seed=seed)) for seed in range(4)]
    assert set(found) <= set(DETECTED)


def drawn_thompson(arms, segments, seed, rows=2000, draws=50, batch=50):
    """Thompson sampling by segment, whose probabilities are shares of a few draws; outcomes arrive in batches."""
    rng = np.random.default_rng(seed)
    rate = np.tile(np.linspace(0.1, 0.3, arms), (segments, 1))
    rate[1:] = rate[1:, ::-1]
    beta = np.ones((2, segments, arms))
    segment, code, outcome = rng.integers(segments, size=rows), np.zeros(rows, int), np.zeros(rows)
    p = np.zeros((rows, arms))
    for t in range(rows):
        if t and t % batch == 0:
            new = slice(t - batch, t)
            np.add.at(beta, (1 - outcome[new].astype(int), segment[new], code[new]), 1)
        best = rng.beta(*beta[:, segment[t]], (draws, arms)).argmax(axis=1)
        p[t] = (1 - 0.02 * arms) * np.bincount(best, minlength=arms) / draws + 0.02
        code[t] = rng.choice(arms, p=p[t])
        outcome[t] = rng.random() < rate[segment[t], code[t]]
    assigned = np.arange(1, rows + 1)
    return bl.Log(
        code, outcome, p, arms=range(arms), assigned_at=assigned, arrived_at=-(assigned // -batch) * batch + 0.5
    )


def test_the_chosen_arms_probabilities_can_tell():
    log = two_segments(3000, delay=20)
    assert bl.diagnose(changed(log, propensity=chosen(log)))["units"].light == "red"
    bandit = bl.Bandit({"A": bl.arms.normal(0.0), "B": bl.arms.normal(0.1)}, bl.delays.none())
    log = bl.simulate(bandit, bl.policies.thompson_normal(0.1, 0.0), 2000, seed=1)
    check = bl.diagnose(changed(log, propensity=chosen(log)))["units"]
    assert check.light == "grey"
    assert "Log every arm's probability" in check.advice


def test_outcomes_that_follow_the_probabilities_tell_where_order_does_not():
    log = two_segments(8000, seed=2)
    shuffled = np.random.default_rng(1).permutation(8000)
    mixed = bl.Log(
        np.array(["A", "B"])[log.code[shuffled]],
        log.outcome[shuffled],
        log.propensity[shuffled],
        assigned_at=shuffled // 50,
    )
    assert contexts_of(mixed) == "outcomes"


def test_short_logs_cannot_tell():
    check = bl.diagnose(two_segments(60))["units"]
    assert (check.light, check.finding) == ("grey", "60 rows are too few to tell.")
    one = bl.Log(["A"], [1.0], [[0.5, 0.5]], arms=["A", "B"])
    assert bl.diagnose(one)["units"].finding == "1 row is too few to tell."
    merged = bl.Log(["A", "B"] * 5, [1.0, 2.0] * 5, "uniform", segment=list("abcdefghij"))
    assert bl.diagnose(merged)["units"].finding == "Within segments, too few rows can be compared to tell."


@pytest.mark.parametrize("arms", ["AB", "ABC", "ABCD"])
def test_ucb_swings_as_old_outcomes_arrive(arms):
    # at each 0 of an arm, whenever it arrives, the policy turns to another
    bandit = bl.Bandit({arm: bl.arms.bernoulli(0.05) for arm in arms}, bl.delays.pareto(0.75))
    for seed in range(40):
        for rows in (150, 300):
            assert contexts_of(bl.simulate(bandit, bl.policies.ucb(), rows, seed=seed)) == "none"


def test_a_long_log_is_looked_at_in_places():
    places = contexts.stretches(1_000_000)
    assert sum(stop - start for start, stop in places) == contexts.EARLIEST + contexts.LATER * contexts.STRETCH
    assert places[0] == (0, contexts.EARLIEST)
    assert places[-1][1] == 1_000_000
    assert contexts.stretches(500) == [(0, 500)]
    # a burn-in of 20,000 rows, and then a policy that looks at the unit
    rng = np.random.default_rng(1)
    p = np.where(rng.random(60_000) < 0.5, 0.9, 0.1)
    p[:20_000] = 0.5
    code = (rng.random(60_000) < p).astype(int)
    log = bl.Log(code, rng.normal(size=60_000), np.column_stack([1 - p, p]))
    assert contexts_of(log) == "loud"


def test_a_table_shows_what_memory_does():
    log = two_segments(1000, delay=20)
    source = source_of(log)
    np.testing.assert_allclose(source.evidence().swings, log.evidence().swings, rtol=1e-9)
    assert source.contexts() == log.contexts() != []


def sensitivity_of(log):
    return bl.sensitivity(log, ("B", "A"))


@pytest.mark.parametrize("ask", [bl.estimate, bl.compare, bl.trajectory, bl.sequence, sensitivity_of])
@pytest.mark.parametrize("form", [lambda log: log, source_of], ids=["memory", "table"])
def test_whatever_is_asked_there_is_one_warning_where_it_is_asked(ask, form):
    with pytest.warns(bl.BelatedWarning, match="looked at the unit") as warned:
        ask(form(two_segments(1000, delay=20)))
    assert len(warned) == 1
    assert warned[0].filename == __file__


def test_a_movement_of_weights_that_do_not_follow_the_unit_is_not_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error", bl.BelatedWarning)
        bl.trajectory(two_segments(1000, delay=20), weights="past")


def test_probabilities_whose_powers_vanish_are_compared():
    rng = np.random.default_rng(1)
    code, outcome, p = np.zeros(60, dtype=int), rng.random(60), rng.uniform(0.1, 0.9, 60)
    own = glimpse(bl.Log(code, outcome, p))
    swings = [contexts.swings(own._replace(p=own.p * scale)) for scale in (1.0, 1e-200)]
    assert swings[1].z == pytest.approx(swings[0].z)
    assert swings[1].terms == pytest.approx(swings[0].terms)


@pytest.mark.parametrize("share", [0.1, 0.3, 1 / 3, 0.5])
@pytest.mark.parametrize("known", ["all", "chosen"])
def test_rounding_of_a_fixed_split_does_not_follow_outcomes_that_rise_with_time(share, known):
    rng = np.random.default_rng(1)
    code = (rng.random(5000) > share).astype(int)
    outcome = (rng.random(5000) < np.linspace(0.1, 0.6, 5000)).astype(float)
    weight = np.array([share, 1 - share]) * rng.uniform(0.5, 2, (5000, 1))
    p = weight / weight.sum(axis=1, keepdims=True)  # the same in every row, but for rounding
    swings = contexts.swings(glimpse(bl.Log(code, outcome, p if known == "all" else p[np.arange(5000), code])))
    assert (swings.z, swings.terms) == (0.0, 0.0)


# ---------------------------------------------------------------- logs with segments


@pytest.mark.parametrize("policy", ["greedy", "thompson"])
@pytest.mark.parametrize("batch", [1, 20])
def test_a_policy_by_segment_is_not_finer_than_segments(policy, batch):
    for seed, (rows, segments, delay) in enumerate([(300, 2, 0), (1000, 5, 0), (1000, 3, 20), (300, 5, 20)]):
        log = contextual(rows, segments, policy=policy, batch=batch, delay=delay, seed=seed).log
        assert contexts_of(log) not in DETECTED
        assert log.contexts() == []


def test_the_same_log_without_its_segments_names_the_segment():
    log = contextual(1000, 2, delay=20).log
    check = bl.diagnose(log)["units"]
    assert (check.light, check.finding.startswith("Within segments, the probabilities")) == ("green", True)
    without = bl.Log(log.code, log.outcome, log.propensity, arms=range(2), assigned_at=log.assigned_at)
    with pytest.warns(bl.BelatedWarning, match="segment='country'"):
        bl.estimate(without)


@pytest.mark.parametrize(("policy", "delay"), [("greedy", 0), ("greedy", 20), ("thompson", 20)])
def test_a_policy_finer_than_segments_is_found(policy, delay):
    log = contextual(2000, 3, policy=policy, delay=delay, traits=2, seed=3).log
    assert bl.diagnose(log)["units"].light == "red"
    with pytest.warns(bl.BelatedWarning, match="more of the unit than its segment.*weights='past'.*finer segments"):
        bl.estimate(log)
    with warnings.catch_warnings():
        warnings.simplefilter("error", bl.BelatedWarning)
        bl.estimate(log, weights="past")
    chosen_only = log.propensity[np.arange(len(log.code)), log.code]
    names = np.array(log.segment_column.labels)[log.segment_column.code]
    chosen_log = bl.Log(log.code, log.outcome, chosen_only, assigned_at=log.assigned_at, segment=names)
    assert contexts.swings(glimpse(chosen_log)).segmented


def test_rows_of_merged_segments_are_not_judged():
    rng = np.random.default_rng(1)
    p = np.where(rng.random(400) < 0.5, 0.9, 0.1)
    segment = np.array(["big"] * 200 + [f"small {i}" for i in range(200)])
    p[:200] = 0.5
    order = rng.permutation(400)
    p, segment = p[order], segment[order]
    log = bl.Log((rng.random(400) < p).astype(int), rng.normal(size=400), np.c_[1 - p, p], segment=segment)
    assert log.segments == ("big", "other")
    swings = contexts.swings(glimpse(log))
    assert (swings.rows, contexts.contexts(swings)) == (200, "none")


@pytest.mark.parametrize("traits", [1, 2])
def test_a_table_with_segments_shows_what_memory_does(traits):
    log = contextual(1000, 2, delay=0, traits=traits, seed=2, columns={"covariates": {"x": np.arange(1000.0) % 7}}).log
    names = np.array(log.segment_column.labels)[log.segment_column.code]
    table = pd.DataFrame(
        {"arm": log.code, "y": log.outcome, "pA": log.propensity[:, 0], "pB": log.propensity[:, 1], "s": names,
         "t": log.assigned_at, "x": np.arange(1000.0) % 7}
    )  # fmt: skip
    source = bl.read(
        table, arm="arm", outcome="y", propensity={0: "pA", 1: "pB"}, assigned_at="t", segment="s", covariates=["x"]
    )
    np.testing.assert_allclose(source.evidence().swings, log.evidence().swings, rtol=1e-9)
    assert source.contexts() == log.contexts()
    assert [c.light for c in bl.diagnose(source)] == [c.light for c in bl.diagnose(log)]
    assert (bl.diagnose(source)["units"].light == "red") == (traits == 2)


def test_rows_of_which_neither_order_nor_arrivals_are_known_tell_nothing():
    """A database sums up events of open windows without knowing what had happened between two assignments."""

    def unordered(log):
        seen = glimpse(log)._replace(arrivals=None, in_order=False, outcome=np.zeros(len(log)))
        return contexts.contexts(contexts.swings(seen))

    log = two_segments(500)
    assert contexts_of(log) in DETECTED
    assert unordered(log) == "unknown"
    even = np.full((500, 2), 0.5)
    assert unordered(bl.Log(log.code, log.outcome, even, arms=range(2), assigned_at=log.assigned_numbers)) == "none"


def test_rows_of_different_times_have_an_order_in_every_kind_of_table(engine):
    log = two_segments(500)
    p = log.propensity
    columns = pa.table(
        {"arm": log.code.astype(int), "y": log.outcome, "p0": p[:, 0], "p1": p[:, 1], "t": log.assigned_at}
    )
    options = {"arm": "arm", "outcome": "y", "propensity": ["p0", "p1"], "assigned_at": "t"}
    expected = bl.read(columns, **options).contexts()
    assert expected
    shuffled = columns.take(np.random.default_rng(1).permutation(500))
    for source in (bl.read(shuffled, **options), bl.Log.from_frame(shuffled, **options)):
        assert source.contexts() == expected
    assert bl.read(engine.table(shuffled), **options).contexts() == expected
