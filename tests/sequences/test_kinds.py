"""Kinds of sequences."""

from __future__ import annotations

import numpy as np

import belated as bl


def test_auto_takes_what_is_given():
    y = np.linspace(0, 1, 40)
    log = bl.Log(["A", "B"] * 20, y, np.full(40, 0.5))
    assert bl.sequence(log).kind == "asymptotic"
    assert bl.sequence(log, sigma=1).kind == "sub_gaussian"
    assert bl.sequence(log, bounds=(0, 1)).kind == "bernstein"
    assert bl.sequence(log, "sub_gaussian", bounds=(0, 1)).design.sigma == 0.5
    assert bl.sequence(bl.Log(["A", "B"] * 20, y > 0.5, np.full(40, 0.5))).kind == "beta_binomial"
