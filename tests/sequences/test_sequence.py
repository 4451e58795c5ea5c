"""Confidence sequences: what they are asked, and what they refuse."""

from __future__ import annotations

import csv
import io
import json
import math

import numpy as np
import pytest
from commands import invoke
from sequence_logs import as_log, random_columns

import belated as bl
from belated.reports.analysis import Questions, analyse


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
        ({"looks": [10_000]}, "after the last time of the log"),
        ({"kind": "bernstein", "bounds": (0, 0.5)}, "outside"),
        ({"kind": "beta_binomial"}, "0 or 1"),
    ],
)
def test_bad_options_are_one_sentence(options, words):
    log = bl.Log(["A", "B"] * 20, np.linspace(0, 1, 40), np.full(40, 0.5))
    with pytest.raises(bl.BelatedError, match=words) as caught:
        bl.sequence(log, **options)
    assert "\n" not in str(caught.value)


def test_a_baseline_and_all_pairs_agree():
    rng = np.random.default_rng(2)
    log = as_log(*random_columns(rng, 400, 4, "asymptotic"))
    every, few = bl.sequence(log, sigma=0.5), bl.sequence(log, sigma=0.5, baseline=2)
    for k in (0, 1, 3):
        assert every.contrast(k, 2).to_dict() == pytest.approx(few.contrast(k, 2).to_dict())
    assert [a.name for a in few.contrasts().answers] == ["0 - 2", "1 - 2", "3 - 2"]
    # a pair that is not followed is answered by looks
    other = few.contrast(3, 1)
    assert (other.low, other.high) == (every.contrast(3, 1).low, every.contrast(3, 1).high)
    assert other.p_value >= every.contrast(3, 1).p_value
    assert other.excluded_at is None or other.excluded_at >= every.contrast(3, 1).excluded_at


def test_datetimes_one_arm_and_a_moment_before_anything():
    start = np.datetime64("2026-03-01T00:00:00")
    assigned = start + np.arange(300) * np.timedelta64(1, "h")
    y = np.random.default_rng(0).normal(3, size=300)
    log = bl.Log(["only"] * 300, y, np.ones(300), assigned_at=assigned, arrived_at=assigned + np.timedelta64(90, "m"))
    sequence = bl.sequence(log)
    assert isinstance(sequence.arm("only").excluded_at, np.datetime64)
    assert sequence.arm("only").low > 2
    with pytest.raises(bl.OptionError, match="two arms"):
        sequence.contrasts()
    with pytest.raises(bl.OptionError, match="datetimes"):
        sequence.update("only", 1.0, 1.0)
    sequence.update("only", 1.0, 1.0, at="2026-04-01")
    assert sequence.moments[-1] == np.datetime64("2026-04-01")
    early = bl.sequence(log.at(start))
    assert early.arm("only").why == "No outcome of arm 'only' has arrived."
    assert "–" in str(early)
    assert early.track("only").to_pandas().shape == (1, 7)


def test_the_command_line(tmp_path):
    bandit = bl.Bandit({"A": bl.arms.bernoulli(0.3), "B": bl.arms.bernoulli(0.5)}, bl.delays.geometric(20))
    log = bl.simulate(bandit, bl.policies.thompson_beta(), 1500, seed=2)
    path = tmp_path / "log.csv"
    arrived = log.arrived
    lines = ["step,arm,p,outcome,arrived"]
    for t in range(1500):
        done = f"{log.outcome[t]:g},{int(log.arrived_at[t])}" if arrived[t] else ","
        lines.append(f"{t + 1},{log.arms[log.code[t]]},{float(log.propensity[t, log.code[t]])!r},{done}")
    path.write_text("\n".join(lines))
    names = ["--arm", "arm", "--propensity", "p", "--outcome", "outcome"]
    names += ["--assigned-at", "step", "--arrived-at", "arrived"]

    def call(*more):
        return invoke(["analyze", str(path), *names, *more])

    sequence = bl.sequence(log, target=1200)
    done = call("--sequential", "--target", "1200")
    assert done.exit_code == 0, done.stderr
    assert str(sequence) in done.stdout
    assert str(sequence.contrasts()) in done.stdout
    assert "| B - A |" in call("--sequential", "--format", "markdown").stdout
    document = json.loads(call("--sequential", "--target", "1200", "--format", "json").stdout)["sequence"]
    assert (document["kind"], document["target"]) == ("beta_binomial", 1200)
    wanted = sequence.contrast("B", "A")
    (contrast,) = document["contrasts"]
    assert [contrast[n] for n in ("estimate", "low", "high", "p_value")] == pytest.approx(
        [wanted.estimate, wanted.low, wanted.high, wanted.p_value]
    )
    assert contrast["excluded_at"] == str(wanted.excluded_at)
    rows = list(csv.DictReader(io.StringIO(call("--sequential", "--target", "1200", "--format", "csv").stdout)))
    (row,) = [row for row in rows if row["estimator"] == "sequence" and row["kind"] == "contrast"]
    assert (row["interval"], float(row["low"])) == ("beta_binomial", pytest.approx(wanted.low))
    assert "sequence" not in json.loads(call("--format", "json").stdout)
    assert call("--target", "1200").exit_code == 2


# ---------------------------------------------------------------- caps


def revenue(rows=400, seed=3):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(rows) < 0.3, rng.lognormal(3, 1.5, rows), 0.0)
    return bl.Log(rng.choice(["A", "B"], rows), y, np.full(rows, 0.5), arms=["A", "B"])


def test_a_cap_makes_an_exact_bounded_sequence():
    log = revenue()
    capped = bl.sequence(log, cap=50)
    assert (capped.kind, capped.design.bounds, capped.cap) == ("bernstein", (0, 50), 50)
    assert capped.arm("A").high <= 50
    cut = bl.Log(log.code, np.minimum(log.outcome, 50), log.propensity, arms=[0, 1])
    by_hand = bl.sequence(cut, "bernstein", bounds=(0, 50))
    for name, k in (("A", 0), ("B", 1)):
        assert capped.arm(name).low == pytest.approx(by_hand.arm(k).low, rel=1e-12)
        assert capped.arm(name).high == pytest.approx(by_hand.arm(k).high, rel=1e-12)
    assert bl.sequence(log.capped(50)).arm("A").to_dict() == capped.arm("A").to_dict()
    assert capped.arm("A").to_dict()["cap"] == 50
    # a kind that is declared does not change with what has been seen
    zeros = bl.Log(["A", "B"] * 20, [0.0, 1.0] * 20, np.full(40, 0.5), cap=50)
    assert (bl.sequence(zeros).kind, bl.sequence(zeros).design.bounds) == ("bernstein", (0, 50))
    assert bl.sequence(log, "asymptotic", cap=50).kind == "asymptotic"
    assert bl.sequence(log, "sub_gaussian", cap=50).design.sigma == 25


def test_of_bounds_and_a_cap_the_smaller_holds():
    log = revenue()
    assert bl.sequence(log, cap=50, bounds=(-10, 80)).design.bounds == (-10, 50)
    assert bl.sequence(log, cap=50, bounds=(0, 50)).design.bounds == (0, 50)
    with pytest.raises(bl.LogError, match="outside `bounds`"):
        bl.sequence(log, cap=50, bounds=(0, 40))
    with pytest.raises(bl.OptionError, match="above the lower of the `bounds`"):
        bl.sequence(log, cap=50, bounds=(60, 80))


def test_a_cap_alone_does_not_bound_negative_outcomes():
    log = bl.Log(["A", "B"] * 20, np.linspace(-1, 1, 40), np.full(40, 0.5))
    with pytest.raises(bl.OptionError, match=r"an outcome is -1; give both bounds with `bounds=\(low, high\)`\.$"):
        bl.sequence(log, cap=0.5)
    with pytest.raises(bl.OptionError, match=r"the cap is -2; give both bounds"):
        bl.sequence(bl.Log(["A", "B"], [np.nan, np.nan], [0.5, 0.5]), cap=-2)
    assert bl.sequence(log, cap=0.5, bounds=(-1, 1)).design.bounds == (-1, 0.5)


def test_updates_are_capped_too():
    log = revenue()
    whole = bl.sequence(log, cap=50)
    grown = bl.sequence(log.at(150), cap=50, target=400)
    labels = [log.arms[k] for k in log.code[150:]]
    grown.update(labels, log.outcome[150:], log.propensity[150:])
    later = bl.sequence(log.at(150), cap=50, target=400).update(log)
    for other in (grown, later):
        for arm in ("A", "B"):
            assert other.arm(arm).low == pytest.approx(whole.arm(arm).low)
            assert other.arm(arm).high == pytest.approx(whole.arm(arm).high)
        assert other.fixed().sums.cap.above.tolist() == whole.fixed().sums.cap.above.tolist()
        assert str(other).splitlines()[-1] == str(whole).splitlines()[-1]
    with pytest.raises(bl.OptionError, match="the same cap"):
        bl.sequence(log.at(150), cap=50).update(log.capped(60))
    with pytest.raises(bl.OptionError, match="the same cap"):
        bl.sequence(log.at(150)).update(log.capped(60))


def test_outcomes_whose_powers_vanish_have_no_interval():
    outcome = 1e-100 * np.random.default_rng(1).normal(size=200)
    sequence = bl.sequence(bl.Log(["A", "B"] * 100, outcome, np.full(200, 0.5)))
    assert math.isinf(sequence.arm("A").high - sequence.arm("A").low)


def test_titles_of_one_row_are_in_the_singular():
    one = bl.sequence(bl.Log(["A"], [1.0], [[1.0]]))
    assert repr(one).splitlines()[0].endswith("as of 1, 1 arrival; narrowest at 1 assignment")
    log = bl.Log(["A", "B"] * 40, [1.0, 0.0, 0.5, 1.0] * 20, [[0.5, 0.5]] * 80, segment=["DE"] * 80)
    title = repr(bl.sequence(log)).splitlines()[0]
    assert title.endswith("standardised to the log's mix of 1 segment, tested at 80 looks")


def test_a_policy_that_looked_at_the_unit_is_pointed_out():
    rng = np.random.default_rng(0)
    country = rng.integers(2, size=2000)  # its mean differs, and the policy prefers an arm in it; the arms are equal
    b = np.where(country == 1, 0.8, 0.2)
    arm = np.where(rng.random(2000) < b, "B", "A")
    log = bl.Log(arm, country + rng.normal(size=2000), np.column_stack([1 - b, b]))
    with pytest.warns(bl.BelatedWarning, match="the policy looked at the unit"):
        sequence = bl.sequence(log)
    assert sequence.contrast("B", "A").low > 0
    said = analyse(log, Questions(sequential=True)).warnings
    assert sum("the policy looked at the unit" in words for words in said) == 1
