"""Figures of sequences."""

from __future__ import annotations

import numpy as np

import belated as bl


def test_it_is_drawn(tmp_path):
    name = "<b>$\\frac$\nB"
    log = bl.Log([name, "A"] * 300, np.random.default_rng(0).normal(size=600), np.full(600, 0.5))
    sequence = bl.sequence(log, looks=20)
    for figure in (sequence.plot(name, "A"), sequence.plot("A")):
        figure.savefig(tmp_path / "band.png")
        assert (tmp_path / "band.png").stat().st_size > 5000
    (axes,) = sequence.plot(name, "A").axes
    low, high = axes.get_ylim()
    assert high - low < 10 * (sequence.contrast(name, "A").high - sequence.contrast(name, "A").low)
    assert "&lt;b&gt;" in sequence.to_html()
    assert len(sequence.track("A")) == 20
    empty = bl.sequence(log.at(3), looks=2)
    empty.plot("A").savefig(tmp_path / "empty.png")


def test_a_band_of_one_look_is_drawn():
    days, even = np.arange(60), np.full(60, 0.5)
    log = bl.Log(
        ["A", "B"] * 30, np.random.default_rng(0).normal(size=60), even, assigned_at=days, arrived_at=days + 99
    )
    sequence = bl.sequence(log)
    track = sequence.track("A")
    assert np.isfinite(track.low).sum() == 1
    (axes,) = sequence.plot("A").axes
    (line,) = axes.collections[-1].get_segments()
    np.testing.assert_allclose(line, [[158, track.low[-1]], [158, track.high[-1]]])


def test_lines_do_not_strike_the_legend_out():
    log = bl.Log(["A", "B"] * 3, [0.0, 1.0] * 3, np.full(6, 0.5))
    (axes,) = bl.sequence(log).plot("B", "A").axes
    frame = axes.get_legend().get_frame()
    assert frame.get_visible()
    assert frame.get_facecolor() == (1, 1, 1, 0.85)


def test_a_mean_far_from_0_is_drawn_without_it():
    rng = np.random.default_rng(0)
    for mean, has_0 in ((1.0, True), (1e8, False)):
        log = bl.Log(["A", "B"] * 300, rng.normal(mean, size=600), np.full(600, 0.5))
        sequence = bl.sequence(log)
        (axes,) = sequence.plot("A").axes
        low, high = axes.get_ylim()
        assert (low <= 0 <= high) == has_0
        assert low < sequence.arm("A").low < sequence.arm("A").high < high


def test_one_outcome_is_one():
    log = bl.Log(["A", "B"], [1.5, 2.5], np.full(2, 0.5))
    assert "effective sample size of 1 (1 arrived outcome); an asymptotic" in bl.sequence(log).arm("A").why
