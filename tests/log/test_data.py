"""One suite over every kind of log: the same rows give the same answers, in memory and in a table."""

from __future__ import annotations

import math
from dataclasses import fields
from functools import cache

import numpy as np
import pytest
from engines import source_of
from simulated_logs import changed, chosen, played, waits

import belated as bl
from belated.base.errors import without_warnings
from belated.kernels.fields import OWN, SPREAD
from belated.log.data import Data, require_data
from belated.summaries.evidence import ArrivalCounts, CovariateEvidence, OutcomeShape, SegmentEvidence

ROWS = 600


def dated(unit, step):
    """Return a log whose steps are so many units of time."""
    log = played(ROWS, 3, labels=["A", "B", "C"])
    late = waits(log)
    at = np.datetime64("2026-01-05T00:00", unit) + np.arange(ROWS) * np.timedelta64(step, unit)
    length = np.timedelta64(step, unit)
    delay = np.where(np.isinf(late), np.timedelta64("NaT", unit), np.nan_to_num(late, posinf=0).astype(int) * length)
    labels = [log.arms[k] for k in log.code]
    return bl.Log(labels, log.outcome, log.propensity, arms=log.arms, assigned_at=at, delay=delay, as_of=at[500])


def timed(assigned_at, delay=None):
    """Return a log with other times of assignment, and perhaps other delays."""
    log = played(ROWS, 3)
    late, at = waits(log) if delay is None else delay, assigned_at(ROWS)
    return bl.Log(log.code, log.outcome, log.propensity, arms=log.arms, assigned_at=at, delay=late, as_of=at.max())


def dependent():
    log = played(4000)
    late = np.floor(np.random.default_rng(1).geometric(0.02, 4000) * np.exp(0.5 * np.nan_to_num(log.outcome)))
    return changed(log, delay=late)


def sparse():
    log = played(3000, kind="exponential")
    return changed(log, outcome=np.where(np.random.default_rng(1).random(3000) < 0.2, log.outcome, math.nan))


def swapped():
    log = played(2000, policy="greedy")
    return changed(log, propensity=log.propensity[:, ::-1])


def segmented(rows=ROWS, small=False, covariates=False, arrival=False, **options):
    """Return a log with three segments, one of them missing; perhaps with ten that are merged, or with covariates."""
    log = played(rows, 3, **options)
    rng = np.random.default_rng(2)
    country = rng.choice(["DE", "FR", ""], rows, p=[0.5, 0.3, 0.2]).astype(object)
    country[country == ""] = None
    if small:
        few = rng.random(rows) < 0.1
        country[few] = rng.choice(list("abcdefghij"), few.sum())
    age = rng.normal(40, 10, rows)
    late, labels = waits(log), [log.arms[k] for k in log.code]
    return bl.Log(
        labels, log.outcome + age / 10 + (country == "DE"), log.propensity, arms=log.arms, delay=late,
        assigned_at=np.arange(rows) // 3, as_of=log.as_of, segment=country,
        covariates={"age": age, "noise": rng.random(rows)} if covariates else None,
        arrival_probability=rng.uniform(0.5, 1.0, rows) if arrival else None,
    )  # fmt: skip


LOGS = {
    "segments": segmented,
    "small segments": lambda: segmented(small=True),
    "segments and covariates": lambda: segmented(small=True, covariates=True, arrival=True),
    "segments before all": lambda: segmented(covariates=True).at(1),
    "no delay": lambda: played(ROWS, 2, delays=bl.delays.none()),
    "at once": lambda: bl.Log(["A", "B"] * 50, np.arange(100.0), [[0.5, 0.5]] * 100),
    "delays": lambda: played(ROWS, 3),
    "everything": lambda: played(ROWS, 3).at(None),
    "never": lambda: played(ROWS, 3, delays=bl.delays.pareto(0.75).censored(0.7)),
    "hours": lambda: dated("h", 1),
    "nanoseconds": lambda: dated("ns", 1_000_500),
    "floats": lambda: timed(lambda rows: np.sqrt(np.arange(rows)), delay=waits(played(ROWS, 3)) / 31),
    "batches": lambda: timed(lambda rows: np.arange(rows) // 50, delay=np.floor(waits(played(ROWS, 3)) / 50)),
    "any order": lambda: timed(lambda rows: np.random.default_rng(1).permutation(rows)),
    "as of": lambda: played(ROWS, 3).at(250),
    "before all": lambda: played(ROWS, 3).at(1),
    "chosen only": lambda: changed(played(ROWS, 3), propensity=chosen(played(ROWS, 3))),
    "an arm without rows": lambda: bl.Log([0, 1] * 100, np.arange(200.0), [[0.5, 0.5, 0.0]] * 200, arms=[0, 1, 2]),
    "no outcome": lambda: bl.Log([0, 1] * 20, [math.nan] * 40, [[0.5, 0.5]] * 40),
    "zeros and ones": lambda: played(2000, 2, "rare"),
    "far from 0": lambda: changed(played(ROWS, 2), outcome=played(ROWS, 2).outcome + 1e6),
    "miscalibrated": swapped,
    "dependent": dependent,
    "sparse": sparse,
}

#: Weights and outcome models; those after the first need every arm's probabilities.
PARTS = (("sqrt", "zero"), ("sqrt", "running_mean"), ("uniform", "running_mean"))

#: What is said of the logs that have a fault; of the others, nothing.
SAYS = {"miscalibrated": "do not agree with", "dependent": "depends on its value", "sparse": "above 0"}


@cache
def pair(name):
    """Return a log in memory, and the same rows in a table."""
    log = LOGS[name]()
    return log, source_of(log)


@pytest.fixture(params=LOGS)
def both(request):
    return pair(request.param)


def close(first, second, what, scale=1.0):
    """Fail unless two arrays agree to 1e-9, of themselves or of a scale."""
    np.testing.assert_allclose(first, second, rtol=1e-9, atol=1e-9 * scale, err_msg=what)


def test_both_are_data(both):
    for data in both:
        assert isinstance(data, Data)
        assert require_data(data) is data
    with pytest.raises(bl.OptionError, match="`log` is of type list"):
        require_data([])


def test_arms_rows_and_moments(both):
    memory, table = both
    assert table.arms == memory.arms
    assert len(table) == len(memory)
    assert table.has_all_propensities == memory.has_all_propensities
    assert (table.as_of, table.as_of_text, table.within) == (memory.as_of, memory.as_of_text, memory.within)
    assert table.clock.show(table.last_look) == memory.clock.show(memory.last_look)
    for data in both:
        assert (data.as_of is None) == (data.moment is None)
        assert data.name
        assert data.outcome_name
        assert data.engine == ("memory" if data is memory else "duckdb")
        assert {name for name, _ in data.how_read} >= {"source", "rows", "as of", "engine"}


def test_even_moments_end_with_the_last_look(both):
    for data in both:
        for how_many in (1, 7):
            moments = data.even_moments(how_many)
            assert len(moments) <= how_many
            assert (np.diff(moments) > 0).all()
            assert moments[-1] == data.last_look


def agree(ours, theirs):
    """Fail unless two logs' sums are the same about the same shift."""
    if ours.segments is not None:
        agree_by_segment(ours.segments, theirs.segments)
    theirs = theirs.recentred(ours.shift)
    weight, outcome = np.nanmax(ours["w_max"], initial=1.0), np.abs(ours["y2"]).max(initial=1.0)
    for field in (*SPREAD, *OWN):
        close(ours[field], theirs[field], field, float(weight**3 * outcome))


def agree_by_segment(ours, theirs):
    """Fail unless sums by segment are the same, and those of products with covariates."""
    assert (ours.labels, ours.merged) == (theirs.labels, theirs.merged)
    agree(ours.cells, theirs.cells)
    first, second = ours.covariates, theirs.covariates
    assert (first is None) == (second is None)
    if first is not None:
        assert [f"about {name}" for name in first.names] == list(second.names)
        second = second.rescaled(first.centre, first.scale).recentred(first.shift)
        scale = float(np.abs(first.own).max(initial=1.0))
        close(first.own, second.own, "products of arrived rows", scale)
        close(first.all, second.all, "products of all rows", scale)


def test_segments(both):
    memory, table = both
    assert table.segments == memory.segments == table.log().segments
    if memory.segment_column is not None:
        with without_warnings():
            first, second = (bl.estimate(data) for data in both)
            assert first.segments == memory.segments
            for name in first.segments:
                close(first.segment(name).values, second.segment(name).values, "by segment")
                close(first.segment(name).std_errors, second.segment(name).std_errors, "by segment")
        close(first.values, second.values, "values")


def test_sums(both):
    memory, table = both
    parts = PARTS if memory.has_all_propensities else PARTS[:1]
    for plain in (True, False) if memory.has_all_propensities else (False,):
        for (first,), (second,) in zip(*(data.sums(parts, plain=plain) for data in both), strict=True):
            agree(first, second)
    moments = memory.even_moments(5)
    shown = [memory.clock.show(moment) for moment in moments.tolist()]
    of_table = np.array([table.clock.read("as_of", moment) for moment in shown])
    both_sums = memory.sums(parts, moments, plain=False), table.sums(parts, of_table, plain=False)
    for ours, theirs in zip(*both_sums, strict=True):
        assert len(ours) == len(theirs) == len(moments)
        for first, second in zip(ours, theirs, strict=True):
            agree(first, second)


def about(evidence, shift):
    """Return the sums of evidence, and those behind `outcome_dependence`, with outcomes about another shift."""
    d = evidence.shift - shift
    sums, moments = dict(evidence.sums), evidence.dependence.copy()
    sums["y"] = evidence.sums["y"] + d * evidence.sums["arrived"]
    sums["y2"] = evidence.sums["y2"] + 2 * d * evidence.sums["y"] + d**2 * evidence.sums["arrived"]
    first, second = evidence.dependence[:, :, 0], evidence.dependence[:, :, 1]
    by_cell = np.tile(d, len(moments) // len(d))[:, np.newaxis]
    moments[:, :, 1] += by_cell * first
    moments[:, :, 2] += 2 * by_cell * second + by_cell**2 * first
    return sums, moments


def agree_on_units(first, second, rows, same_scale):
    """Fail unless evidence by segment, or of covariates, is the same; outcomes are about the arms' own shifts."""
    if isinstance(first, SegmentEvidence):
        assert first[:3] == second[:3]
        for name in first.sums.keys() - {"y", "y2"}:
            close(first.sums[name], second.sums[name], name)
        return
    for name in ("old", "soon", *(("x", "x2", "x3", "x_soon", "choice") if same_scale else ())):
        close(getattr(first, name), getattr(second, name), name, 10 * rows)


def test_evidence_field_by_field(both):
    ours, theirs = (data.evidence() for data in both)
    size = max(1.0, float(np.nan_to_num(np.abs(ours.sums["y2"])).max()))
    (sums, moments), (their_sums, their_moments) = (about(evidence, ours.shift) for evidence in (ours, theirs))
    assert sums.keys() == their_sums.keys()
    for name, table in sums.items():
        close(table, their_sums[name], name, size)
    close(moments, their_moments, "dependence", size * 100)
    assert seconds(both[0], ours) == pytest.approx(seconds(both[1], theirs))
    for field in fields(ours):
        first, second = getattr(ours, field.name), getattr(theirs, field.name)
        if field.name in ("moments", "sums", "shift", "dependence"):
            continue
        if isinstance(first, ArrivalCounts):
            close(first.delays, second.delays, "delays", float(first.delays.max()))
            close(first.counts, second.counts, "counts")
            assert first.followed == pytest.approx(second.followed)
        elif isinstance(first, (SegmentEvidence, CovariateEvidence)):
            agree_on_units(first, second, ours.rows, same_scale=len(both[0]) == len(both[0].code))
        elif isinstance(first, OutcomeShape):
            for name, mine, other in zip(OutcomeShape._fields, first, second, strict=True):
                close(mine, other, name, ours.rows)
        elif isinstance(first, np.ndarray):
            close(first, second, field.name, ours.rows)
        else:
            assert first == second, field.name


def seconds(data, evidence):
    """Return the stretches' middles in seconds, or as plain numbers."""
    unit = data.clock.unit
    return (evidence.moments * (np.timedelta64(1, unit) / np.timedelta64(1, "s") if unit else 1.0)).tolist()


@pytest.mark.parametrize("name", LOGS)
def test_doubts_and_oddities(name):
    memory, table = pair(name)
    assert table.doubts() == memory.doubts()
    assert table.oddities() == memory.oddities()
    said = " ".join([*memory.doubts(), *memory.oddities()])
    assert SAYS[name] in said if name in SAYS else not said


def test_an_earlier_moment_is_the_log_that_stood_then(both):
    memory, table = both
    earlier = memory.even_moments(3)[0].item()
    ours = memory.at_number(earlier)
    theirs = table.at_number(table.clock.read("as_of", memory.clock.show(earlier)))
    assert len(ours) == len(theirs) <= len(memory)
    assert ours.as_of == theirs.as_of
    agree(*(data.sums([("sqrt", "zero")], plain=False)[0][-1] for data in (ours, theirs)))


def test_the_rows_in_memory(both):
    memory, table = both
    assert memory.log() is memory
    rows = table.log()
    assert isinstance(rows, bl.Log)
    assert len(rows) == len(memory)
    agree(*(data.sums([("sqrt", "zero")], plain=False)[0][-1] for data in (memory, rows)))


def test_a_cap_cuts_and_counts_alike(both):
    known = both[0].outcome[both[0].arrived]
    cap = float(np.quantile(known, 0.6)) if len(known) > 1 and known.max() > 1 else 0.5
    memory, table = (data.capped(cap) for data in both)
    assert memory.cap == table.cap == cap
    assert memory.above_cap().sum() == (known > cap).sum()
    moments = memory.even_moments(4)
    of_table = np.array([table.clock.read("as_of", memory.clock.show(moment)) for moment in moments.tolist()])
    for ours, theirs in ((None, None), (moments, of_table)):
        np.testing.assert_array_equal(memory.above_cap(ours), table.above_cap(theirs))
    for data in (table, table.log(), table.at_number(of_table[-1].item())):
        first, second = (each.sums([("sqrt", "zero")], plain=False)[0][-1] for each in (memory, data))
        agree(first, second)
        assert (first.cap.value, first.cap.above.tolist()) == (second.cap.value, second.cap.above.tolist())
    close(memory.evidence().low, table.evidence().low, "low")
    assert ("cap", f"{cap:,.15g}") in memory.how_read
    assert ("cap", f"{cap:,.15g}") in table.how_read
    assert table.capped(None).cap is None
