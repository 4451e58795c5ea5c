"""Confidence sequences: against the twin, while they grow, and at every look."""

from __future__ import annotations

import csv
import io
import json
import math

import naive.sequences as naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from typer.testing import CliRunner

import belated as bl
from belated.cli.app import app
from belated.kernels import jit, sequence_blocks, sequence_bounds
from belated.sequences import record

OPTIONS = {
    "asymptotic": {},
    "sub_gaussian": {"sigma": 0.6},
    "bernstein": {"bounds": (-1.0, 2.0)},
    "beta_binomial": {},
}


def made_up(rng, rows, arms, kind, *, ties=False, batches=False):
    """Columns of a log: arms, outcomes, every propensity, assignment and arrival times (None: never)."""
    pi = rng.dirichlet(np.ones(arms), size=rows) * 0.9 + 0.1 / arms
    arm = np.array([rng.choice(arms, p=p / p.sum()) for p in pi])
    outcome = rng.normal(0.3 * arm, 0.4, size=rows).clip(-1, 2)
    if kind == "beta_binomial":
        outcome = (rng.uniform(size=rows) < 0.2 + 0.6 * (arm == 0)).astype(float)
    assigned = rng.permutation(rows) // (4 if batches else 1)
    late = rng.integers(0, 6, size=rows) if ties else rng.exponential(5.0, size=rows)
    arrived = [float(a + d) if rng.uniform() < 0.8 else None for a, d in zip(assigned, late, strict=True)]
    return arm, outcome, pi, assigned.astype(float), arrived


def as_log(arm, outcome, pi, assigned, arrived, as_of=None, chosen=False):
    came = np.array([math.nan if t is None else t for t in arrived])
    y = np.where(np.isnan(came), math.nan, outcome)
    p = pi[np.arange(len(arm)), arm] if chosen else pi
    return bl.Log(arm, y, p, arms=range(pi.shape[1]), assigned_at=assigned, arrived_at=came, as_of=as_of)


def events_of(arm, outcome, pi, assigned, arrived, as_of=None):
    own = pi[np.arange(len(arm)), arm]
    return naive.arrivals(arm, outcome, own, assigned, arrived, as_of)


@pytest.mark.parametrize("kind", OPTIONS)
@pytest.mark.parametrize("shape", [{"ties": True}, {"batches": True}, {"ties": True, "batches": True}])
def test_every_answer_is_the_twins(kind, shape, monkeypatch):
    monkeypatch.setattr(record, "_LEAST", 4)  # several blocks
    rng = np.random.default_rng(len(kind))
    columns = made_up(rng, 110, 3, kind, **shape)
    null = {0: 0.3, 2: -0.1} if kind != "beta_binomial" else {0: 0.5, 1: 0.4, 2: 0.4}
    options = OPTIONS[kind]
    found = bl.sequence(as_log(*columns), kind, level=0.9, target=200, null=null, looks=[10, 25], **options)
    twin = naive.Twin(kind, 3, 0.9, 200, null=[null.get(k, 0.0) for k in range(3)], **options)
    events = events_of(*columns)
    bounds = {"bernstein": (-1.0, 2.0), "beta_binomial": (0.0, 1.0)}.get(kind, (-math.inf, math.inf))
    width = bounds[1] - bounds[0]
    for a in range(3):
        q, low, high = twin.interval(events, a)
        answer = found.arm(a)
        assert answer.estimate == pytest.approx(q)
        assert (answer.low, answer.high) == pytest.approx((max(low, bounds[0]), min(high, bounds[1])))
        assert answer.excluded_at == twin.first(events, a)
        if kind != "beta_binomial":
            assert answer.p_value == pytest.approx(twin.p_value(events, a), rel=1e-6)
        for b in range(a):
            q, low, high = twin.interval(events, a, b)
            for sign, contrast in ((1, found.contrast(a, b)), (-1, found.contrast(b, a))):
                ends = sorted((sign * max(low, -width), sign * min(high, width)))
                assert (contrast.low, contrast.high) == pytest.approx(ends, rel=1e-6)
                assert contrast.estimate == pytest.approx(sign * q)
                assert contrast.excluded_at == twin.first(events, a, b)
            if kind != "beta_binomial":
                assert contrast.p_value == pytest.approx(twin.p_value(events, a, b), rel=1e-6)
            track = found.track(a, b)
            for i, moment in enumerate(track.moments[:-1]):
                q, low, high = twin.interval([e for e in events if e[0] <= moment], a, b)
                assert track.low[i] == pytest.approx(max(low, -width), rel=1e-6)
                assert track.high[i] == pytest.approx(min(high, width), rel=1e-6)
    joint = found.contrasts(simultaneous=True)
    threshold = math.log(3 / 0.1)
    pairs = [(1, 0), (2, 0), (2, 1)]
    for answer, (a, b) in zip(joint.answers, pairs, strict=True):
        _, low, high = twin.interval(events, a, b, threshold)
        assert (answer.low, answer.high) == pytest.approx((max(low, -width), min(high, width)), rel=1e-6)
        assert answer.excluded_at == twin.first(events, a, b, together=3)


@pytest.mark.parametrize("kind", OPTIONS)
def test_blocks_that_are_passed_over_hold_nothing(kind, monkeypatch):
    def every(candidates, block, questions, blocks, plan, verdicts):
        candidates[:] = np.arange(len(candidates))
        return block, len(candidates) if block < len(blocks.paths) else 0

    jit.compile_kernels()
    passed, n = 0, 6000
    for seed in range(8):
        rng = np.random.default_rng(seed)
        arm = rng.integers(0, 3, n)
        y = rng.normal(0.02 * seed * arm, 0.3).clip(-1, 2)
        if kind == "beta_binomial":
            y = (rng.uniform(size=n) < 0.3 + 0.01 * seed * arm).astype(float)
        came = np.arange(n) + rng.exponential(50, n)
        log = bl.Log(
            arm,
            y,
            np.full((n, 3), 1 / 3),
            assigned_at=np.arange(n),
            arrived_at=np.ceil(came / 3 ** (seed % 3)) * 3 ** (seed % 3),
        )
        options = {"kind": kind, "null": {0: float(y.mean()), 1: 0.3, 2: 0.0}, "level": 0.8, **OPTIONS[kind]}
        with monkeypatch.context() as patch:
            patch.setattr(sequence_blocks, "next_block", every)
            slow = bl.sequence(log, **options)
        with monkeypatch.context() as patch:
            patch.setattr(jit, "LONG", 1000)  # and in threads
            quick = bl.sequence(log, **options)
        assert (quick._history.record.first == slow._history.record.first).all()
        assert quick._history.record.best == pytest.approx(slow._history.record.best, rel=1e-9)
        assert quick._history.record.state == pytest.approx(slow._history.record.state, rel=1e-9)
        passed += sum(moment is not None for moment in quick._history.record.first.flat)
    assert 10 < passed < 96


@pytest.mark.parametrize("ones", [0, 1, 7, 40, 9000])
def test_limits_of_the_beta_mixture_are_its_roots(ones):
    plan = bl.sequence(bl.Log([0, 1], [0, 1], [0.5, 0.5]), target=10_000).design.plan
    sizes = list(plan.prior_sizes)
    for n in (ones + 1, 3 * ones + 50, 100 * ones + 1000):
        for threshold in (0.5, 3.0, 8.0):
            share, below, above = naive.beta_reach(_coins(ones, n), threshold, sizes)
            assert sequence_bounds.limit(float(ones), float(n - ones), threshold, False, plan) == pytest.approx(
                share - below, rel=1e-6, abs=1e-8
            )
            assert sequence_bounds.limit(float(ones), float(n - ones), threshold, True, plan) == pytest.approx(
                share + above, rel=1e-6, abs=1e-8
            )


def _coins(ones, n):
    return [(1, 1.0)] * ones + [(0, 1.0)] * (n - ones)


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(sorted(OPTIONS)), st.booleans())
def test_growing_is_the_same_as_building(seed, kind, ties):
    rng = np.random.default_rng(seed)
    columns = made_up(rng, 90, 2, kind, ties=ties)
    events = events_of(*columns)
    whole_log = as_log(*columns, chosen=True)
    whole = bl.sequence(whole_log, kind, target=100, **OPTIONS[kind])
    half = events[len(events) // 2][0]
    grown = bl.sequence(whole_log.at(half), kind, target=100, **OPTIONS[kind])
    by_log = bl.sequence(whole_log.at(half), kind, target=100, **OPTIONS[kind]).update(whole_log)
    later = [e for e in events if e[0] > half]
    cut = len(later) // 3
    while 0 < cut < len(later) and later[cut - 1][0] == later[cut][0]:
        cut += 1
    for part in (later[:cut], later[cut:]):
        if part:
            time, arm, y, p = (list(x) for x in zip(*part, strict=True))
            grown.update(arm, y, p, at=time)
    for one in (grown, by_log):
        for ask in (lambda s: s.arm(1), lambda s: s.contrast(1, 0)):
            a, b = ask(one).to_dict(), ask(whole).to_dict()
            numbers = ("estimate", "low", "high", "p_value")
            assert [a[n] for n in numbers] == pytest.approx([b[n] for n in numbers], rel=1e-9, nan_ok=True)
            assert a["excluded_at"] == b["excluded_at"]


def test_one_at_a_time():
    rng = np.random.default_rng(0)
    log = bl.Log([0, 1], [0.1, 0.2], [0.5, 0.5])
    grown = bl.sequence(log, "sub_gaussian", sigma=1, target=1000)
    arm, y = rng.integers(0, 2, 300), rng.normal(size=300)
    for a, x in zip(arm, y, strict=True):
        grown.update(int(a), x, 0.5)
    whole = bl.sequence(bl.Log([0, 1, *arm], [0.1, 0.2, *y], np.full(302, 0.5)), "sub_gaussian", sigma=1, target=1000)
    assert grown.moments[-1] == 302
    assert grown.contrast(1, 0).to_dict() == pytest.approx(whole.contrast(1, 0).to_dict())


def test_what_cannot_be_grown_is_refused():
    rng = np.random.default_rng(3)
    arm, y = rng.integers(0, 2, 60), rng.normal(size=60)
    log = bl.Log(arm, y, np.full(60, 0.5), assigned_at=np.arange(60))
    found = bl.sequence(log.at(30), "sub_gaussian", sigma=1)
    changed = y.copy()
    changed[10] += 1
    with pytest.raises(bl.LogError, match="no later state"):
        found.update(bl.Log(arm, changed, np.full(60, 0.5), assigned_at=np.arange(60)))
    with pytest.raises(bl.OptionError, match="before the last look"):
        found.update(0, 1.0, 0.5, at=3)
    with pytest.raises(bl.OptionError, match="go back in time"):
        found.update([0, 1], [1.0, 2.0], [0.5, 0.5], at=[40, 35])
    with pytest.raises(bl.OptionError, match="propensity"):
        found.update(0, 1.0, 0.0)
    with pytest.raises(bl.OptionError, match="not finite"):
        found.update(0, math.nan, 0.5)
    with pytest.raises(bl.UnknownArmError):
        found.update(7, 1.0, 0.5)
    binary = bl.sequence(bl.Log([0, 1], [0, 1], [0.5, 0.5]))
    with pytest.raises(bl.LogError, match="0 or 1"):
        binary.update(0, 0.5, 0.5)
    assert found.update(log).moments[-1] == 59


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kind": "bernstein"}, "bounds"),
        ({"kind": "sub_gaussian"}, "sigma"),
        ({"kind": "nonsense"}, "one of"),
        ({"bounds": (1, 0)}, "below"),
        ({"bounds": 3}, "two numbers"),
        ({"kind": "sub_gaussian", "sigma": -1}, "above 0"),
        ({"target": 0}, "whole number"),
        ({"level": 1.0}, "strictly"),
        ({"baseline": "Z"}, "no arm"),
        ({"looks": [10_000]}, "after the log's last"),
        ({"kind": "bernstein", "bounds": (0, 0.5)}, "outside"),
        ({"kind": "beta_binomial"}, "0 or 1"),
    ],
)
def test_bad_options_are_one_sentence(options, words):
    log = bl.Log(["A", "B"] * 20, np.linspace(0, 1, 40), np.full(40, 0.5))
    with pytest.raises(bl.BelatedError, match=words) as caught:
        bl.sequence(log, **options)
    assert "\n" not in str(caught.value)


def test_auto_takes_what_is_given():
    y = np.linspace(0, 1, 40)
    log = bl.Log(["A", "B"] * 20, y, np.full(40, 0.5))
    assert bl.sequence(log).kind == "asymptotic"
    assert bl.sequence(log, sigma=1).kind == "sub_gaussian"
    assert bl.sequence(log, bounds=(0, 1)).kind == "bernstein"
    assert bl.sequence(log, "sub_gaussian", bounds=(0, 1)).design.sigma == 0.5
    assert bl.sequence(bl.Log(["A", "B"] * 20, y > 0.5, np.full(40, 0.5))).kind == "beta_binomial"


def test_it_is_infinite_and_says_why():
    rng = np.random.default_rng(5)
    n = 4000

    def one(y, pi=0.5, arm=None):
        arms = np.arange(len(y)) % 2 if arm is None else arm
        return bl.sequence(bl.Log(arms, y, np.full(len(y), pi), arms=[0, 1, 2]), "asymptotic")

    few = one(rng.normal(size=40))
    assert math.isinf(few.contrast(0, 1).high)
    assert "weigh as much as 20 equal ones" in few.arm(0).why
    assert "No outcome of arm 2" in few.contrast(0, 2).why
    assert "No outcome" in str(few)
    rare = one((rng.uniform(size=n) < 0.002).astype(float))
    assert "of 2,000 outcomes are 1; an asymptotic sequence needs 10" in rare.arm(1).why
    assert "no variance" in one(np.full(n, 3.0)).arm(0).why
    assert "skewed" in one(np.where(np.arange(n) < 4, 1e6, rng.normal(size=n))).arm(1).why
    sound = one(rng.normal(size=n))
    assert sound.arm(0).why is None
    assert math.isfinite(sound.arm(0).high)
    heavy = bl.sequence(
        bl.Log(np.zeros(200, int), rng.normal(size=200), np.where(np.arange(200) == 0, 1e-6, 0.9)), "asymptotic"
    )
    assert "weigh as much as" in heavy.arm(0).why


def test_outcomes_recorded_only_when_they_happen_say_nothing():
    y = np.where(np.arange(200) % 3 == 0, 1.0, math.nan)
    log = bl.Log(np.arange(200) % 2, y, np.full(200, 0.5))
    with pytest.warns(bl.BelatedWarning, match="recorded only when it happens"):
        found = bl.sequence(log)
    assert found.arm(0).p_value == 1
    assert found.contrast(1, 0).excluded_at is None
    assert (found.arm(0).low, found.arm(0).high) == (0, 1)
    assert "recorded only when it happens" in found.arm(0).why


@pytest.mark.parametrize("binary", [False, True])
def test_beside_it_stands_the_interval_of_a_single_look(binary):
    arms = {k: bl.arms.bernoulli(0.3 + 0.1 * k) if binary else bl.arms.normal(k) for k in range(3)}
    log = bl.simulate(bl.Bandit(arms, bl.delays.geometric(30).censored(0.2)), bl.policies.ucb(), 600, seed=4)
    found = bl.sequence(log, looks=[100, 333])
    track = found.track(2, 0)
    for i, moment in enumerate(track.moments):
        fixed = bl.estimate(log.at(moment), "dipw", interval="wilson" if binary else "t").contrast(2, 0)
        assert (track.fixed_low[i], track.fixed_high[i]) == pytest.approx((fixed.low, fixed.high))
    assert found.arm(2).estimate == pytest.approx(
        log.outcome[(log.code == 2) & log.arrived].mean() if binary else bl.estimate(log, "dipw").values[2]
    )


def test_a_baseline_and_all_pairs_agree():
    rng = np.random.default_rng(2)
    log = as_log(*made_up(rng, 400, 4, "asymptotic"))
    every, few = bl.sequence(log, sigma=0.5), bl.sequence(log, sigma=0.5, baseline=2)
    for k in (0, 1, 3):
        assert every.contrast(k, 2).to_dict() == pytest.approx(few.contrast(k, 2).to_dict())
    assert [a.name for a in few.contrasts().answers] == ["0 - 2", "1 - 2", "3 - 2"]
    # a pair that is not followed is answered by looks
    other = few.contrast(3, 1)
    assert (other.low, other.high) == (every.contrast(3, 1).low, every.contrast(3, 1).high)
    assert other.p_value >= every.contrast(3, 1).p_value
    assert other.excluded_at is None or other.excluded_at >= every.contrast(3, 1).excluded_at


def test_many_arms():
    rng = np.random.default_rng(8)
    arm = rng.integers(0, 60, 5000)
    log = bl.Log(arm, rng.normal(arm == 7, 0.2), np.full(5000, 1 / 60), arms=range(60))
    found = bl.sequence(log, sigma=0.2)
    assert found.contrast(7, 3).excluded_at is not None
    assert bl.sequence(log, sigma=0.2, baseline=3).contrast(7, 3).excluded_at <= found.contrast(7, 3).excluded_at
    assert len(found.contrasts(3)) == 59


def test_datetimes_one_arm_and_a_moment_before_anything():
    start = np.datetime64("2026-03-01T00:00:00")
    assigned = start + np.arange(300) * np.timedelta64(1, "h")
    y = np.random.default_rng(0).normal(3, size=300)
    log = bl.Log(["only"] * 300, y, np.ones(300), assigned_at=assigned, arrived_at=assigned + np.timedelta64(90, "m"))
    found = bl.sequence(log)
    assert isinstance(found.arm("only").excluded_at, np.datetime64)
    assert found.arm("only").low > 2
    with pytest.raises(bl.OptionError, match="two arms"):
        found.contrasts()
    with pytest.raises(bl.OptionError, match="datetimes"):
        found.update("only", 1.0, 1.0)
    found.update("only", 1.0, 1.0, at="2026-04-01")
    assert found.moments[-1] == np.datetime64("2026-04-01")
    early = bl.sequence(log.at(start))
    assert early.arm("only").why == "No outcome of arm 'only' has arrived."
    assert "–" in str(early)
    assert early.track("only").to_pandas().shape == (1, 7)


def test_first_times_are_kept():
    rng = np.random.default_rng(1)
    y = np.concatenate([rng.normal(1, 0.1, 400), rng.normal(-1, 0.1, 400)])
    found = bl.sequence(bl.Log(np.arange(800) % 2, np.where(np.arange(800) % 2, y, 0), np.full(800, 0.5)), sigma=0.2)
    answer = found.contrast(1, 0)
    assert answer.excluded_at < 400
    assert answer.low < 0 < answer.high
    assert answer.p_value < 0.05


@pytest.mark.parametrize(("kind", "arms", "options"), [
    ("asymptotic", bl.arms.exponential(1), {}),
    ("asymptotic", bl.arms.normal(0), {}),
    ("sub_gaussian", bl.arms.normal(0), {"sigma": 1.0}),
    ("bernstein", bl.arms.bernoulli(0.1), {"bounds": (0, 1)}),
    ("beta_binomial", bl.arms.bernoulli(0.05), {}),
])  # fmt: skip
def test_the_truth_is_hardly_ever_excluded(kind, arms, options):
    bandit = bl.Bandit({0: arms, 1: arms}, bl.delays.pareto(0.3).censored(0.3))
    policy = bl.policies.epsilon_greedy(decay=0.5)
    runs, missed = 60, np.zeros(3)
    for r in range(runs):
        found = bl.sequence(
            bl.simulate(bandit, policy, 2000, 17, r), kind, looks=1, level=0.9, null=arms.mean, **options
        )
        answers = [found.arm(0), found.arm(1), found.contrast(1, 0)]
        missed += [answer.excluded_at is not None for answer in answers]
    for n in missed:
        assert stats.binomtest(int(n), runs, 0.1, alternative="greater").pvalue > 0.001


@pytest.mark.parametrize(("kind", "arms", "options"), [
    ("asymptotic", bl.arms.normal(0), {}),
    ("sub_gaussian", bl.arms.normal(0), {"sigma": 1.0}),
    ("bernstein", bl.arms.bernoulli(0.5), {"bounds": (0, 1)}),
    ("beta_binomial", bl.arms.bernoulli(0.3), {}),
])  # fmt: skip
@pytest.mark.parametrize("never", [0.0, 0.6])
def test_at_its_target_it_is_hardly_wider_than_the_fixed_interval(kind, arms, options, never):
    bandit = bl.Bandit({0: arms, 1: arms}, bl.delays.geometric(50).censored(never))
    log = bl.simulate(bandit, bl.policies.epsilon_greedy(decay=0.3), 20_000, 3)
    found, fixed = bl.sequence(log, kind, **options), bl.estimate(log)
    for sequence, answer in (
        (found.arm(0), fixed.arm(0)), (found.arm(1), fixed.arm(1)), (found.contrast(1, 0), fixed.contrast(1, 0))
    ):  # fmt: skip
        assert 1.2 < (sequence.high - sequence.low) / (answer.high - answer.low) < 1.6


def test_it_is_drawn(tmp_path):
    name = "<b>$\\frac$\nB"
    log = bl.Log([name, "A"] * 300, np.random.default_rng(0).normal(size=600), np.full(600, 0.5))
    found = bl.sequence(log, looks=20)
    for figure in (found.plot(name, "A"), found.plot("A")):
        figure.savefig(tmp_path / "band.png")
        assert (tmp_path / "band.png").stat().st_size > 5000
    (axes,) = found.plot(name, "A").axes
    low, high = axes.get_ylim()
    assert high - low < 10 * (found.contrast(name, "A").high - found.contrast(name, "A").low)
    assert "&lt;b&gt;" in found.to_html()
    assert len(found.track("A")) == 20
    empty = bl.sequence(log.at(3), looks=2)
    empty.plot("A").savefig(tmp_path / "empty.png")


def test_the_command_line(tmp_path):
    bandit = bl.Bandit({"A": bl.arms.bernoulli(0.3), "B": bl.arms.bernoulli(0.5)}, bl.delays.geometric(20))
    log = bl.simulate(bandit, bl.policies.thompson_beta(), 1500, seed=2)
    path = tmp_path / "log.csv"
    came = log.arrived
    lines = ["step,arm,p,outcome,arrived"]
    for t in range(1500):
        done = f"{log.outcome[t]:g},{int(log.arrived_at[t])}" if came[t] else ","
        lines.append(f"{t + 1},{log.arms[log.code[t]]},{float(log.propensity[t, log.code[t]])!r},{done}")
    path.write_text("\n".join(lines))
    names = ["--arm", "arm", "--propensity", "p", "--outcome", "outcome"]
    names += ["--assigned-at", "step", "--arrived-at", "arrived"]

    def call(*more):
        return CliRunner().invoke(app, ["analyze", str(path), *names, *more])

    found = bl.sequence(log, target=1200)
    done = call("--sequential", "--target", "1200")
    assert done.exit_code == 0, done.stderr
    assert str(found) in done.stdout
    assert str(found.contrasts()) in done.stdout
    assert "| B - A |" in call("--sequential", "--format", "markdown").stdout
    made = json.loads(call("--sequential", "--target", "1200", "--format", "json").stdout)["sequence"]
    assert (made["kind"], made["target"]) == ("beta_binomial", 1200)
    wanted = found.contrast("B", "A")
    (contrast,) = made["contrasts"]
    assert [contrast[n] for n in ("estimate", "low", "high", "p_value")] == pytest.approx(
        [wanted.estimate, wanted.low, wanted.high, wanted.p_value]
    )
    assert contrast["excluded_at"] == str(wanted.excluded_at)
    rows = list(csv.DictReader(io.StringIO(call("--sequential", "--target", "1200", "--format", "csv").stdout)))
    (row,) = [row for row in rows if row["estimator"] == "sequence" and row["kind"] == "contrast"]
    assert (row["interval"], float(row["low"])) == ("beta_binomial", pytest.approx(wanted.low))
    assert "sequence" not in json.loads(call("--format", "json").stdout)
    assert call("--target", "1200").exit_code == 2
