from __future__ import annotations

import pickle

import numpy as np
import pytest

import belated as bl
from belated.base.figures import new_figure, scale_up


def test_a_notebook_shows_a_figure_once_without_magic_commands():
    figure, (axes,) = new_figure(["x"], "a title")
    axes.plot([1, 2], [3, 4])
    formatter = pytest.importorskip("IPython.core.formatters").DisplayFormatter()
    data, _ = formatter.format(figure)
    assert data["image/png"].startswith(b"\x89PNG")
    assert "text/html" not in data
    assert "matplotlib.pyplot" not in type(figure).__module__


LOG = bl.Log(["A", "B"] * 20, np.arange(40.0), np.full((40, 2), 0.5))
BANDIT = bl.Bandit({"A": bl.arms.bernoulli(0.1), "B": bl.arms.bernoulli(0.15)})
DRAWN = {
    "estimate": lambda: bl.estimate(LOG).plot(),
    "contrasts": lambda: bl.estimate(LOG).contrasts("A").plot(),
    "best": lambda: bl.estimate(LOG).best().plot(),
    "comparison": lambda: bl.compare(LOG).plot(),
    "trajectory": lambda: bl.trajectory(LOG).plot(),
    "diagnosis": lambda: bl.diagnose(LOG).plot(),
    "sensitivity": lambda: bl.sensitivity(LOG, ("B", "A")).plot(),
    "sequence": lambda: bl.sequence(LOG).plot("B", "A"),
    "study": lambda: bl.study(BANDIT, bl.policies.uniform(), [20, 400, 9_000], 20, targets=[("B", "A")]).plot(),
}


@pytest.mark.parametrize("result", DRAWN)
def test_what_plot_returns_is_such_a_figure_and_can_be_pickled(result):
    figure = DRAWN[result]()
    assert figure._repr_png_().startswith(b"\x89PNG")
    again = pickle.loads(pickle.dumps(figure))  # noqa: S301
    assert again._repr_png_() == figure._repr_png_()


def test_a_figure_whose_scale_is_stretched_can_be_pickled():
    figure, (axes,) = new_figure(["x"], "a title")
    points = np.array([0.9, 0.949, 0.951, 0.95])
    axes.plot(points)
    scale_up(axes, points, 0.95, np.array([points - 1e-4, points + 1e-4]))
    assert axes.get_title("right").startswith("log scale about")
    assert pickle.loads(pickle.dumps(figure))._repr_png_() == figure._repr_png_()  # noqa: S301
