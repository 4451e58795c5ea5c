"""The kernel of studies adds exactly the terms that the table of moments names, by their powers."""

from __future__ import annotations

import math

import naive
import numpy as np
import pytest

import belated as bl
from belated.kernels import fields, moments

GREEDY = bl.policies.epsilon_greedy(burn_in=0.1)
DELAYED = bl.Bandit(
    {"A": bl.arms.normal(1.0), "B": bl.arms.normal(0.5), "C": bl.arms.gamma(2.0, 0.5)},
    {"A": bl.delays.pareto(0.75).censored(0.5), "B": bl.delays.geometric(3.0)},
)
AT_ONCE = bl.Bandit({"A": bl.arms.normal(1.0), "B": bl.arms.normal(0.5)}, {"A": bl.delays.none().censored(0.5)})


def test_columns_are_where_their_names_say():
    for place, name in enumerate(moments.MOMENTS):
        assert getattr(moments, name.upper()) == place
    assert len(set(moments.MOMENTS)) == len(moments.MOMENTS)


def test_a_moment_has_the_powers_of_the_field_of_its_name():
    named = {field.name: field for field in fields.SPREAD_FIELDS + fields.OWN_FIELDS}
    shared = [(field, named[field.name]) for field in moments.MOMENT_FIELDS if field.name in named]
    assert len(shared) > 20
    for moment, field in shared:
        assert moment.over == field.over.replace("own modelled", "own arrived").removesuffix(" modelled"), moment.name
        assert moment[2:7] == field[2:7], moment.name
        assert moment.largest == field.largest


def sum_of_terms(field, log, shift, k):
    """Return a moment of an arm of a log, and the sum of the sizes of its terms, which rounding is relative to."""
    arrived = [None if math.isinf(t) else t for t in log.arrival_times.tolist()]
    assigned = range(1, len(log.code) + 1)
    mu = naive.running_mean(log.code, np.where(log.arrived, log.outcome, 0.0), assigned, arrived, len(log.arms))
    terms = []
    for t, code in enumerate(log.code):
        if field.over.startswith("own") and code != k:
            continue
        if field.over not in ("own", "all", "all unmodelled") and not log.arrived[t]:
            continue
        if field.over.endswith("unmodelled") and mu[t][k] is not None:
            continue
        h = math.sqrt(log.propensity[t, k])
        m = float(mu[t][k] or 0) - shift
        y = (log.outcome[t] - shift) ** field.y if field.y else 1.0
        terms.append(h ** (field.h - field.w) * y * m**field.m)
    value = max(terms, default=0.0) if field.largest else math.fsum(terms)
    return value, math.fsum(map(abs, terms))


@pytest.mark.parametrize("bandit", [DELAYED, AT_ONCE], ids=["delayed", "at once"])
def test_every_moment_is_the_sum_of_its_terms(bandit):
    horizon = 150
    log = bl.simulate(bandit, GREEDY, horizon, 4, replication=1)
    found = bl.study(bandit, GREEDY, horizon, 2, seed=4).moments[horizon][1]
    shift = [arm.centre for arm in bandit.arms.values()]
    for place, field in enumerate(moments.MOMENT_FIELDS):
        for k in range(len(bandit.arms)):
            value, size = sum_of_terms(field, log, shift[k], k)
            assert found[k, place] == pytest.approx(value, abs=1e-11 * size), field.name
