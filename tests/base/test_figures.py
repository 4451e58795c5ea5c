from __future__ import annotations

import math
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from xml.etree import ElementTree

import numpy as np
import pytest

import belated as bl
from belated.base import figures

pytest.importorskip("matplotlib")


def drawn(title=""):
    figure, (axes,) = figures.new_figure(["c"], title)
    axes.plot([1, 2], [1, 2])
    axes.fill_between([1, 2], [0, 1], [2, 3], alpha=0.2)
    return figure


# ---------------------------------------------------------------- files


def test_without_matplotlib(monkeypatch):
    figures.check_library()
    monkeypatch.setattr(figures, "find_spec", lambda name: None)
    for needs in (figures.check_library, lambda: figures.new_figure(["a"]), lambda: figures.safe_label("a")):
        with pytest.raises(bl.MissingLibraryError, match="matplotlib is not installed; run `pip install matplotlib`"):
            needs()


def test_files_are_the_same_each_time_and_titled(tmp_path):
    def write(name):
        return [path.read_bytes() for path in figures.save(drawn("t"), tmp_path / name, "Coverage <é> & 'more'\n")]

    with ThreadPoolExecutor(3) as pool:
        first, second, third = pool.map(write, ["v1.2", "b", "v1.2"])
    assert first == second == third
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.png", "b.svg", "v1.2.png", "v1.2.svg"]
    png, svg = first
    root = ElementTree.fromstring(svg)  # noqa: S314
    assert root[0].tag.endswith("title")
    assert root[0].text == "Coverage <é> & 'more'\\n"
    assert root.get("role") == "img"
    assert "Coverage <é>".encode("latin-1") in png
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    used = {
        value.split("#")[1].rstrip(")")
        for e in root.iter()
        for value in e.attrib.values()
        if "#" in value and ":" not in value
    }
    assert used <= set(ids)


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path):
    figure = drawn()
    (tmp_path / "x.svg").mkdir()
    with pytest.raises(bl.OptionError, match="cannot be written: Is a directory"):
        figures.save(figure, tmp_path / "x", "t")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.png", "x.svg"]
    with pytest.raises(bl.OptionError, match="cannot be written"):
        figures.save(figure, tmp_path / "no" / "x", "t")


# ---------------------------------------------------------------- style


def test_facets_stand_in_two_columns():
    figure, axes = figures.new_figure("abc", "$title")
    assert [facet.get_subplotspec().rowspan.start for facet in axes] == [0, 0, 1]
    assert [facet.get_title("left") for facet in axes] == ["a", "b", "c"]
    assert figure.get_suptitle() == "\\$title"
    with pytest.raises(bl.OptionError, match="nothing to draw"):
        figures.new_figure([])


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        ("$x^", "\\$x^"),
        ("two\nlines", "two\\nlines"),
        ("é 漢", "é □"),
        ("👩\u200d👩\u200d👧 family", "□ family"),
        ("x" * 30, "x" * 14 + "…" + "x" * 7),
        (3, "3"),
    ],
)
def test_labels_are_text(label, shown):
    assert figures.safe_label(label, 22) == shown


def test_what_cannot_be_drawn_is_nan():
    np.testing.assert_array_equal(figures.drawable([1, None, math.inf, 1e200, -2]), [1, *[math.nan] * 3, -2])


@pytest.mark.parametrize(("ticks", "scale"), [([100.0, 200.0, 300.0], "linear"), ([100.0, 1000.0, 5000.0], "log")])
def test_ticks_stand_at_the_horizons(ticks, scale):
    _, (axes,) = figures.new_figure(["a"])
    figures.scale_across(axes, ticks)
    assert axes.get_xscale() == scale
    assert sorted(axes.get_xticks()) == ticks
    low, high = axes.get_xlim()
    assert low < ticks[0]
    assert ticks[-1] < high


def test_ticks_that_would_touch_are_left_out_but_never_the_last():
    _, (axes,) = figures.new_figure(["a"])
    figures.scale_across(axes, [100.0, 101.0, 500.0, 990.0, 1000.0])
    assert sorted(axes.get_xticks()) == [100, 500, 1000]


@pytest.mark.parametrize(
    ("points", "ideal", "scale"),
    [
        ([0.94, 0.95, 0.96], 0.95, "linear"),
        ([0.94, 0.95, 0.0], 0.95, "function"),
        ([0.01, 0.5, 2.0], None, "log"),
        ([1.0, 2.0], None, "linear"),
        ([math.nan], None, "linear"),
    ],
)
def test_the_scale_keeps_near_points_apart_and_far_ones_in_view(points, ideal, scale):
    _, (axes,) = figures.new_figure(["a"])
    values = np.array(points)
    figures.scale_up(axes, values, ideal, np.array([values - 0.001, values + 0.001]))
    assert axes.get_yscale() == scale
    low, high = axes.get_ylim()
    assert all(low < value < high for value in points if math.isfinite(value))


@pytest.mark.parametrize("name", ["plot", "plot.png", "plot.svg", "plot.PNG"])
def test_a_suffix_that_a_figure_has_anyway_is_not_doubled(tmp_path, name):
    assert [path.name for path in figures.save(drawn("t"), tmp_path / name, "t")] == ["plot.png", "plot.svg"]
    assert [path.name for path in figures.figure_files("plot.v1").values()] == ["plot.v1.png", "plot.v1.svg"]


@pytest.mark.parametrize("path", ["", ".", "..", "/"])
def test_a_figure_needs_a_name(path):
    with pytest.raises(bl.OptionError, match=r"The figure has no name: .* is a folder"):
        figures.figure_files(path)


@pytest.mark.parametrize("known", [1, 60])
def test_times_of_a_day_have_their_date_and_no_others_are_shown(known):
    moments = list(np.datetime64("2026-01-05T10:00:00") + np.arange(60) * np.timedelta64(60, "s"))
    figure, (axes,) = figures.new_figure(None)
    estimate = np.where(np.arange(60) < 60 - known, math.nan, 1.0)
    axes.plot([figures.moment_to_draw(moment) for moment in moments], estimate)
    figures.scale_moments(figure, axes, moments)
    figure.draw_without_rendering()
    shown = [tick.get_text() for tick in axes.get_xticklabels()]
    assert "2026-01-05 10:10" in shown
    assert len(shown) < 10
    assert np.ptp(axes.get_xlim()) < 2 / 24


@pytest.mark.parametrize(
    ("moment", "tick"), [(5, "5"), (np.datetime64("2026-01-05T10:00:00"), "2026-01-05 10:00:00")], ids=["step", "time"]
)
def test_the_tick_of_a_single_moment_is_that_moment(moment, tick):
    figure, (axes,) = figures.new_figure(None)
    axes.plot([figures.moment_to_draw(moment)], [1.0], "o")
    figures.scale_moments(figure, axes, [moment])
    figure.draw_without_rendering()
    assert [label.get_text() for label in axes.get_xticklabels()] == [tick]


def test_labels_that_the_font_lacks_stay_different():
    assert figures.safe_labels(["漢", "字", "plain", "漢"], 22) == ["□ (1)", "□ (2)", "plain", "□ (1)"]


def test_a_long_title_and_the_name_of_a_single_facet_keep_their_ends():
    arms = [f"{'free shipping on orders ' * 3}({colour})" for colour in ("blue", "green")]
    figure, (axes,) = figures.new_figure([arms[1]], " - ".join(arms), (7.2, 4.2))
    lines = figure.get_suptitle().splitlines()
    assert len(lines) == 2
    assert "(blue)" in figure.get_suptitle()
    assert lines[1].endswith("(green)")
    assert axes.get_title(loc="left").endswith("(green)")


@pytest.mark.parametrize("call", ["check_library()", "new_figure(['a'])"])
def test_a_setting_that_matplotlib_refuses_is_a_sentence(call):
    code = f"from belated.base import figures\nfigures.{call}"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "MPLBACKEND": "nonsense"}, capture_output=True, text=True
    )
    assert "OptionError: matplotlib cannot be used: " in done.stderr
    assert "'nonsense'" in done.stderr
