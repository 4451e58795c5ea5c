from __future__ import annotations

import pickle

import numpy as np
import pytest

import belated as bl
from belated.base.figures import new_figure


def test_a_notebook_shows_a_figure_once_without_magic_commands():
    figure, (axes,) = new_figure(["x"], "a title")
    axes.plot([1, 2], [3, 4])
    formatter = pytest.importorskip("IPython.core.formatters").DisplayFormatter()
    data, _ = formatter.format(figure)
    assert data["image/png"].startswith(b"\x89PNG")
    assert "text/html" not in data
    assert "matplotlib.pyplot" not in type(figure).__module__


def test_what_plot_returns_is_such_a_figure_and_can_be_pickled():
    log = bl.Log(["A", "B"] * 20, np.arange(40.0), np.full((40, 2), 0.5))
    figure = bl.estimate(log).plot()
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert pickle.loads(pickle.dumps(figure)).get_axes()  # noqa: S301
