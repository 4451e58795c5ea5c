from __future__ import annotations

import io
import math
from xml.etree import ElementTree

import numpy as np
import pytest

import belated as bl
from belated.simulation import figures as plots

pytest.importorskip("matplotlib")
HOSTILE = [
    "$\\alpha_",
    "$x$ \\$ $$",
    "<b>&amp;</b>",
    "x" * 10_000,
    "two\nlines\r\x00",
    "é 漢 \ud800",
    "_hidden",
    "",
    "W" * 60,
]


@pytest.fixture(scope="module")
def study():
    bandit = bl.Bandit({"A": bl.arms.normal(1.0), "$B_": bl.arms.normal(0.5)}, bl.delays.poisson(5).censored(0.5))
    policy = bl.policies.epsilon_greedy(burn_in=0.1)
    return bl.study(bandit, policy, [60, 40], 40, estimators=["daipw", "nh0"], workers=1)


def texts(figure):
    from matplotlib.text import Text

    return [t.get_text() for t in figure.findobj(Text)]


def render(figure):
    files = {}
    for suffix in ("png", "svg"):
        buffer = io.BytesIO()
        figure.savefig(buffer, format=suffix)
        files[suffix] = buffer.getvalue()
        figure.set_layout_engine("none")  # it is laid out now
    assert files["png"].startswith(b"\x89PNG")
    ElementTree.fromstring(files["svg"])  # noqa: S314


# ---------------------------------------------------------------- data


def test_histogram_bins_are_centred_on_multiples_of_the_width():
    data = plots.histogram([-0.25, -0.09, 0.0, 0.09, 0.11, 0.35, math.nan, math.inf], 0.2)
    np.testing.assert_allclose(data["edges"], [-0.3, -0.1, 0.1, 0.3, 0.5], atol=1e-12)
    np.testing.assert_allclose(data["density"] * 6 * 0.2, [1, 3, 1, 1])
    assert (data["used"], data["dropped"], data["width"]) == (6, 2, 0.2)
    assert data["mean"] == pytest.approx(0.21 / 6)


@pytest.mark.parametrize("furthest", [23.0, 24.5, 1000.0, 1e12, 1e99])
def test_histograms_of_long_tails_have_at_most_120_bins(furthest):
    values = np.append(np.random.default_rng(0).normal(size=500), furthest)
    data = plots.histogram(values)
    assert len(data["density"]) <= 120
    assert (data["density"] * np.diff(data["edges"])).sum() == pytest.approx(1)
    assert data["width"] / 0.2 == pytest.approx(round(data["width"] / 0.2))
    assert data["edges"][0] <= values.min()
    assert values.max() < data["edges"][-1]


def test_histogram_of_one_value_and_of_none():
    one, none = plots.histogram([3.0, 3.0]), plots.histogram([math.nan, 1e300])
    np.testing.assert_allclose(one["edges"], [2.9, 3.1])
    np.testing.assert_allclose(one["density"], [5])
    assert len(none["density"]) == len(none["edges"]) == none["used"] == 0
    assert none["dropped"] == 2
    assert math.isnan(none["mean"])
    with pytest.raises(bl.OptionError, match="`width` is 0"):
        plots.histogram([1.0], 0)


def test_quantiles_of_few_are_all_and_of_many_2000_with_both_ends():
    few = plots.quantile([3.0, 1.0, math.nan, 2.0])
    np.testing.assert_array_equal(few["sample"], [1, 2, 3])
    np.testing.assert_allclose(few["theoretical"], [-0.967421566, 0, 0.967421566], atol=1e-9)  # qnorm(ppoints(3, .5))
    values = np.random.default_rng(0).normal(size=50_000)
    many = plots.quantile(values)
    assert 1000 < len(many["sample"]) <= 2000
    assert (many["sample"][0], many["sample"][-1]) == (values.min(), values.max())
    assert (np.diff(many["theoretical"]) > 0).all()
    assert np.abs(many["sample"] - many["theoretical"])[500:-500].max() < 0.05
    assert len(plots.quantile([])["sample"]) == 0


def test_study_panels_are_the_cells(study):
    data = plots.study_panels(study)
    assert list(data["panels"]) == ["bias", "standard deviation", "coverage", "interval length"]
    assert data["reference"] == {"bias": 0.0, "coverage": 0.95}
    cells = [study.cell("nh0", study.targets[-1], "auto", h) for h in (40, 60)]
    for name, attribute in [("bias", "bias"), ("standard deviation", "sd"), ("interval length", "length")]:
        x, y = data["panels"][name]["nh0"]
        assert (x.tolist(), y.tolist()) == ([40, 60], [getattr(c, attribute) for c in cells])
    low, high = data["bands"]["coverage"]["nh0"]
    assert (low.tolist(), high.tolist()) == ([c.coverage_low for c in cells], [c.coverage_high for c in cells])
    assert data["title"] == "$B_ - A: 95% default intervals, 40 replications"
    other = plots.study_panels(study, "A", "normal")
    assert other["panels"]["coverage"]["daipw"][1][1] == study.coverage("daipw", "A", "normal", 60)


def test_study_errors_are_the_longest_horizons(study):
    data = plots.study_errors(study)
    assert data["title"] == "$B_ - A at horizon 60, 40 replications"
    np.testing.assert_array_equal(data["values"]["nh0"], study.cell("nh0", ("$B_", "A"), None, 60).studentised)
    np.testing.assert_array_equal(
        plots.study_errors(study, "A", 40, "t")["values"]["daipw"], study.cell("daipw", "A", "t", 40).studentised
    )
    with pytest.raises(bl.OptionError, match="`horizon` is 7"):
        plots.study_errors(study, horizon=7)


# ---------------------------------------------------------------- figures


def test_study_figures_render(study):
    for draw in (study.plot, lambda: plots.study_histograms(study), lambda: plots.study_quantiles(study)):
        figure = draw()
        render(figure)
        assert any("\\$B_ - A" in text for text in texts(figure))


def test_facets_have_one_line_for_each_estimator_and_readable_horizons():
    x = np.array([5_000, 10_000, 20_000])
    rows = {f"estimator {k}": (x, np.array([0.9, 0.94, 0.95]) + k / 1000) for k in range(7)}
    figure = plots.lines({"coverage": rows, "length": rows}, reference={"coverage": 0.95}, title="seven")
    render(figure)
    assert [len(axes.lines) for axes in figure.axes] == [8, 7]
    assert {"5,000", "10,000", "20,000", "coverage", "seven", "estimator 6"} <= set(texts(figure))
    (legend,) = figure.legends
    lowest = legend.get_window_extent().y0
    assert all(axes.title.get_window_extent().y1 < lowest for axes in figure.axes)


def test_one_horizon_is_points_apart_from_each_other():
    rows = {name: ([300], [0.95]) for name in "abc"}
    bands = {"coverage": {name: ([0.9], [1.0]) for name in "abc"}}
    figure = plots.lines({"coverage": rows}, bands=bands)
    render(figure)
    (axes,) = figure.axes
    assert [t.get_text() for t in axes.get_xticklabels()] == ["300"]
    places = [line.get_transform().transform((300, 0.95))[0] for line in axes.lines]
    assert np.diff(places).min() > 10
    assert {line.get_linestyle() for line in axes.lines} == {"None"}


def test_everything_stays_in_view_and_a_far_estimator_does_not_flatten_the_others():
    x = [100, 200]
    rows = {"good": (x, [0.945, 0.955]), "fair": (x, [0.94, 0.93]), "bad": (x, [0.0, 0.01])}
    bands = {"coverage": {name: (np.array(y) - 0.01, np.array(y) + 0.01) for name, (_, y) in rows.items()}}
    figure = plots.lines({"coverage": rows}, reference={"coverage": 0.95}, bands=bands)
    (axes,) = figure.axes
    height = axes.transAxes.inverted().transform(axes.transData.transform([(100, y) for y in (-0.01, 0.93, 0.95)]))
    assert height[0, 1] > 0
    assert height[2, 1] - height[1, 1] > 0.1  # a fiftieth of the linear axis
    assert "log scale about 0.95" in texts(figure)
    assert {0.95, 0.9, 0.5} <= set(axes.get_yticks())
    plain = plots.lines({"coverage": {k: rows[k] for k in ("good", "fair")}}, reference={"coverage": 0.95}, bands=bands)
    assert "log scale about 0.95" not in texts(plain)
    lengths = plots.lines({"length": {"a": (x, [0.01, 0.02]), "b": (x, [1, 2])}})
    assert "log scale" in texts(lengths)
    assert {0.01, 0.1, 1.0} <= set(lengths.axes[0].get_yticks())


def test_odd_numbers_render():
    odd = [[math.nan] * 2, [0.0, 0.0], [math.inf, 1.0], [1e99, -1e-99], [5.0, 5.0], [1e-300, 1.0], [-1e200, 1e16]]
    panels = {f"{k} {y}": {"e": ([1, 1000], y)} for y in odd for k in range(2)}
    figure = plots.lines(panels, reference=dict.fromkeys(list(panels)[::2], 0.0))
    figure.set_layout_engine("none")  # four times as fast
    figure.savefig(io.BytesIO(), format="png")
    render(plots.lines({"a": {"e": ([0, 10**6], [1, 2])}}))


def test_hostile_labels_are_text():
    rows = {label: ([1, 2], [k, k + 1]) for k, label in enumerate(HOSTILE)}
    figure = plots.lines({"$y^": rows, HOSTILE[3]: rows}, title=HOSTILE[0], xlabel=HOSTILE[1])
    render(figure)
    labels = [t.get_text() for t in figure.legends[0].get_texts()]
    assert len(labels) == len(HOSTILE)
    assert max(map(len, labels)) <= 22 + 4
    assert labels[0] == "\\$\\alpha_"
    assert labels[4] == "two\\nlines\\r\\x00"
    assert labels[5] == "é □ \\ud800"
    render(plots.histograms({label: [0.0, 1.0] for label in HOSTILE[:2]}, title=HOSTILE[3]))


def test_five_facets_make_three_rows_and_say_mean_and_sd():
    rng = np.random.default_rng(1)
    values = {name: rng.standard_t(2, 300) for name in "abcd"} | {"e": [math.nan]}
    figure = plots.histograms(values)
    render(figure)
    assert len({round(axes.get_position().y0, 3) for axes in figure.axes}) == 3
    assert f"mean {values['a'].mean():.3g}, sd {values['a'].std(ddof=1):.3g}" in texts(figure)
    assert "no finite values, 1 dropped" in texts(figure)
    assert len(plots.quantiles(values).axes) == 5


def test_nothing_to_draw():
    for draw in (plots.lines, plots.histograms, plots.quantiles):
        with pytest.raises(bl.OptionError, match="nothing to draw"):
            draw({})
    with pytest.raises(bl.OptionError, match="nothing to draw"):
        plots.lines({"coverage": {}})


@pytest.mark.parametrize("kind", ["lines", "histograms", "quantiles"])
def test_a_study_draws_itself(kind):
    bandit = bl.Bandit({"A": bl.arms.normal(1.0), "B": bl.arms.normal(0.5)})
    study = bl.study(bandit, bl.policies.uniform(), [30, 60], 20, estimators=["daipw", "dipw"])
    figure = study.plot(kind, target=("B", "A"), interval="t")
    assert len([axes for axes in figure.axes if axes.has_data()]) == (4 if kind == "lines" else 2)
    with pytest.raises(bl.OptionError, match="`kind` is 'line'"):
        study.plot("line")


def test_errors_of_rates_are_in_points():
    bandit = bl.Bandit({"A": bl.arms.bernoulli(0.3), "B": bl.arms.bernoulli(0.4)})
    study = bl.study(bandit, bl.policies.uniform(), 100, 40, targets=[("B", "A")], estimators=["daipw"], seed=1)
    data, cell = plots.study_panels(study), study.cell("daipw", ("B", "A"))
    assert list(data["panels"]) == ["bias, points", "standard deviation, points", "coverage", "interval length, points"]
    assert data["panels"]["interval length, points"]["daipw"][1][0] == pytest.approx(100 * cell.length)
    assert data["panels"]["coverage"]["daipw"][1][0] == cell.coverage
    assert set(data["reference"]) == {"bias, points", "coverage"}
    assert [axes.get_title("left") for axes in study.plot().axes] == list(data["panels"])  # none is shortened
    assert "errors in percentage points" in str(study).splitlines()[0]
    assert study.to_dict()["length"][-1] == cell.length
