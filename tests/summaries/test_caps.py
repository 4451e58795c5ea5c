"""Caps: outcomes above count as the cap, how many do is known, and every answer says so."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from simulated_logs import changed, played

import belated as bl
from belated.summaries.caps import Cap, cap_text, capped_at, quantity
from belated.summaries.evidence import SHARE_WITH_EVENT


@pytest.fixture(scope="module")
def log():
    return played(800, 2, kind="exponential", labels=["A", "B"])


CAP = 1.5


def by_hand(log, cap):
    """Return the log that a user would make who cuts the outcomes beforehand."""
    return changed(log, outcome=np.minimum(log.outcome, cap))


def test_words():
    assert [cap_text(cap) for cap in (500, 1234567.0, 0.1, -2)] == ["500", "1,234,567", "0.1", "-2"]
    assert (capped_at(None), capped_at(500), capped_at(Cap(2.5, np.zeros(1)))) == (
        "", ", capped at 500", ", capped at 2.5"
    )  # fmt: skip
    assert (quantity("revenue"), quantity(SHARE_WITH_EVENT)) == ("mean revenue", SHARE_WITH_EVENT)
    assert Cap(500.0, np.array([1.0, 2])).note(1000) == (
        "3 of 1,000 arrived outcomes (0.30%) lie above 500 and count as 500."
    )
    assert Cap(5.0, np.array([1.0])).note(1) == "1 of 1 arrived outcome (100.00%) lies above 5 and counts as 5."
    assert Cap(5.0, np.array([0.0])).note(0) == "0 of 0 arrived outcomes lie above 5 and count as 5."


@pytest.mark.parametrize("cap", [math.nan, math.inf, -math.inf, "500", True, np.True_, [500]])
def test_a_cap_is_a_number(log, cap):
    for ask in (bl.estimate, bl.compare, bl.trajectory, bl.sequence, bl.diagnose):
        with pytest.raises(bl.OptionError, match=r"^`cap` is .*; it must be a finite number\.$"):
            ask(log, cap=cap)
    with pytest.raises(bl.OptionError, match="`cap`"):
        bl.Log(["A", "B"], [1, 2], [0.5, 0.5], cap=cap)


def test_a_cap_below_every_outcome_is_refused():
    columns = ["A", "B", "A"], [3.0, 2.0, 4.0], [0.5] * 3
    for cap in (2, 1.5, -1):
        with pytest.raises(bl.OptionError, match=r"the smallest outcome is 2, so all outcomes"):
            bl.Log(*columns, cap=cap)
        with pytest.raises(bl.OptionError, match="so all outcomes would be equal"):
            bl.estimate(bl.Log(*columns), "dipw", cap=cap)
    below = bl.Log(["A", "B", "A"], [-3.0, -2.0, -1.0], [0.5] * 3, cap=-2)
    assert below.outcome.tolist() == [-3, -2, -2]
    # how a log stood earlier is not asked
    assert bl.Log(*columns, assigned_at=[1, 2, 3], cap=2.5).at(1).outcome.tolist() == [2.5, 2, 2.5]


def test_a_log_is_cut_and_the_original_kept(log):
    capped = log.capped(CAP)
    assert capped.cap == CAP
    assert np.array_equal(capped.outcome, np.minimum(log.outcome, CAP), equal_nan=True)
    arrived = log.arrived
    counts = [int((log.outcome[arrived & (log.code == k)] > CAP).sum()) for k in range(2)]
    assert capped.above_cap().tolist() == [counts]
    assert capped.capped(None).outcome.tolist() == pytest.approx(log.outcome.tolist(), nan_ok=True)
    assert capped.capped(2 * CAP).above_cap().sum() < sum(counts)  # from what it was, not from what was cut
    assert log.cap is None
    assert log.capping is None
    assert "outcomes capped at 1.5" in str(capped)


def test_what_equals_the_cap_is_not_above_it():
    log = bl.Log(["A", "B"] * 3, [1.0, 2, 2, 2, 3, 0], [0.5] * 6, cap=2)
    assert log.above_cap().tolist() == [[1, 0]]


def test_an_outcome_that_cannot_be_is_refused_whatever_the_cap():
    with pytest.raises(bl.LogError, match="`outcome` in row 1 is inf"):
        bl.Log(["A", "B", "A"], [1.0, math.inf, 0.0], [0.5] * 3, cap=2)


def test_answers_are_those_of_outcomes_cut_by_hand(log):
    cut = by_hand(log, CAP)
    ours, theirs = bl.estimate(log, cap=CAP), bl.estimate(cut)
    assert ours.values == pytest.approx(theirs.values, rel=1e-12)
    assert ours.std_errors == pytest.approx(theirs.std_errors, rel=1e-12)
    compared = bl.compare(log, cap=CAP)
    for name, each in bl.compare(cut).estimates.items():
        assert compared[name].values == pytest.approx(each.values, rel=1e-12)
    assert bl.sensitivity(log, ("B", "A"), cap=CAP).tipping_point == pytest.approx(
        bl.sensitivity(cut, ("B", "A")).tipping_point
    )
    lights = [(check.light, check.finding) for check in bl.diagnose(log, cap=CAP)]
    assert lights == [(check.light, check.finding) for check in bl.diagnose(cut)]


@pytest.mark.parametrize("estimator", ["dipw", "daipw"])
def test_the_cap_scales_with_the_outcomes(log, estimator):
    ours = bl.estimate(log, estimator, cap=CAP)
    scaled = bl.estimate(changed(log, outcome=log.outcome * 7), estimator, cap=7 * CAP)
    assert scaled.values == pytest.approx(7 * ours.values, rel=1e-9)
    assert scaled.sums.cap.above.tolist() == ours.sums.cap.above.tolist()
    limits = [[x.low, x.high] for x in ours.arm_answers]
    assert np.array([[x.low, x.high] for x in scaled.arm_answers]) == pytest.approx(7 * np.array(limits), rel=1e-9)


def test_the_cap_shifts_with_the_outcomes(log):
    ours = bl.estimate(log, "dipw", cap=CAP)
    shifted = bl.estimate(changed(log, outcome=log.outcome - 10), "dipw", cap=CAP - 10)
    assert shifted.values == pytest.approx(ours.values - 10, rel=1e-9)


def test_a_trajectory_counts_as_of_each_moment(log):
    moved = bl.trajectory(log, at=5, cap=CAP)
    for moment, estimate in zip(moved.moments, moved.estimates, strict=True):
        then = bl.estimate(log.at(moment), cap=CAP)
        assert estimate.sums.cap.above.tolist() == then.sums.cap.above.tolist()
        assert estimate.values == pytest.approx(then.values)
    assert "mean outcome, capped at 1.5," in str(moved)


def test_everything_printed_says_so(log):
    capped = log.capped(CAP)
    estimate = bl.estimate(capped)
    n, arrived = int(capped.above_cap().sum()), int(log.arrived.sum())
    note = f"{n:,} of {arrived:,} arrived outcomes ({n / arrived:.2%}) lie above 1.5 and count as 1.5."
    assert estimate.estimand == "mean outcome, capped at 1.5"
    followed = bl.sequence(capped, looks=4)
    for table in (estimate, followed, bl.diagnose(capped), bl.sensitivity(capped, ("B", "A")), followed.fixed()):
        assert "capped at 1.5" in str(table).splitlines()[0]
        assert note in str(table)
    assert estimate.to_dict()["capped"] == capped.above_cap()[0].tolist()
    for table in (
        estimate.contrast("B", "A"), estimate.contrast("B", "A").at_level(0.9), estimate.contrasts(), estimate.best(),
        estimate.contrasts(simultaneous=True), estimate.policy("greedy"), bl.compare(capped),
        bl.compare(capped).contrast("B", "A"), followed.contrast("B", "A"), followed.contrasts(),
        followed.track("B", "A"), estimate.lift("B", "A"), bl.sensitivity(capped, ("B", "A")).shift,
    ):  # fmt: skip
        assert "capped at 1.5" in str(table).splitlines()[0]
    assert "capped" not in str(bl.estimate(log))
    assert note in str(bl.pilot(capped))


def test_documents_say_so(log):
    n, arrived = int(log.capped(CAP).above_cap().sum()), int(log.arrived.sum())
    with_cap = {"cap": CAP, "capped": n, "capped_share": pytest.approx(n / arrived)}
    for cap, expected in ((CAP, with_cap), (None, {"cap": None, "capped": None, "capped_share": None})):
        for answer in (bl.diagnose(log, cap=cap), bl.sensitivity(log, ("B", "A"), cap=cap)):
            document = json.loads(answer.to_json())
            assert {name: document[name] for name in with_cap} == expected


def test_sums_merge_if_their_caps_agree(log):
    at = np.arange(1, len(log.code) + 1)
    halves = [
        bl.Log(log.code[s], log.outcome[s], log.propensity[s], assigned_at=at[s], arrived_at=log.arrived_at[s])
        for s in (slice(400), slice(400, None))
    ]
    parts = [bl.Sums.of(half.capped(CAP), "sqrt", "zero") for half in halves]
    whole = bl.estimate(halves[0].joined(halves[1:]), "dipw", cap=CAP)
    merged = bl.estimate(parts[0] + parts[1], "dipw")
    assert merged.values == pytest.approx(whole.values)
    assert merged.sums.cap.above.tolist() == whole.sums.cap.above.tolist()
    assert "capped at 1.5" in str(merged)
    for other, text in ((bl.Sums.of(halves[1], "sqrt", "zero"), "none"), (_recapped(parts[1]), "2")):
        with pytest.raises(bl.MergeError, match=rf"their caps differ, 1\.5 and {text}\."):
            parts[0] + other
    with pytest.raises(bl.LogError, match="the same `cap`"):
        halves[0].capped(CAP).joined([halves[1]])
    later = bl.Sums.of(halves[1].capped(CAP), history=halves[0].capped(CAP))
    assert later.cap.above.tolist() == parts[1].cap.above.tolist()


def _recapped(sums):
    return replace(sums, cap=Cap(2.0, sums.cap.above))


def test_sums_have_no_rows_to_cap(log):
    for sums in (bl.Sums.of(log), bl.Ledger(["A", "B"])):
        with pytest.raises(bl.OptionError, match="`cap` cannot be applied to sums"):
            bl.estimate(sums, cap=CAP)


def test_a_ledger_caps_what_lands():
    ledger = bl.Ledger(["A", "B"], cap=2)
    keys = ledger.assign(["A", "B", "A", "B"], [[0.5, 0.5]] * 4)
    ledger.land(keys, [1, 5, 2, 0.5])
    log = bl.Log(["A", "B", "A", "B"], [1, 5, 2, 0.5], [[0.5, 0.5]] * 4, assigned_at=[1] * 4, cap=2)
    ours, theirs = bl.estimate(ledger), bl.estimate(log)
    assert ours.values == pytest.approx(theirs.values)
    assert ours.sums.cap.above.tolist() == theirs.sums.cap.above.tolist() == [0, 1]
