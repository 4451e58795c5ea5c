"""The kernel adds exactly the terms that the table of fields names, by their powers."""

from __future__ import annotations

import math

import naive
import numpy as np
import pytest
from experiments import examples, experiments
from hypothesis import given

import belated as bl
from belated.kernels import fields
from belated.kernels import rows as kernel
from belated.kernels.fields import OWN, OWN_FIELDS, SPREAD, SPREAD_FIELDS

FIELDS = SPREAD_FIELDS + OWN_FIELDS
CHOICES = [(weights, model) for weights in ("sqrt", "uniform", "propensity") for model in ("running_mean", "zero")]


def term(field, h, pi, outcome, model, shift):
    """What one row adds to a field, by the field's powers."""
    if field.name == "nonbinary":
        return abs(outcome * (1 - outcome))
    assert field.monomial
    y, m = outcome - shift, model - shift
    # an outcome that has not arrived has no part in fields over all rows
    late = (y**field.y) * ((y - m) ** field.r) if field.y or field.r else 1.0
    own = (h / pi) ** field.w if field.w else 1.0
    return h**field.h * own * m**field.m * late


class Twin:
    """The terms of every field, from weights and models by the naive twins."""

    def __init__(self, experiment, weights, model):
        x = self.experiment = experiment
        rows = naive.existing(x.assigned, x.as_of)
        self.part = x.rows(rows)
        self.h = naive.weights(weights, self.part.propensity, self.part.assigned)
        none = [[None] * x.k for _ in rows]
        means = naive.running_mean(self.part.arm, self.part.outcome, self.part.assigned, self.part.arrived, x.k)
        self.mu = none if model == "zero" else means
        self.arrived = [naive.has_arrived(self.part.arrived, t, x.as_of) for t in range(len(rows))]

    def field(self, field, shift):
        """A field by arm, and the sum of its terms' sizes: what rounding is relative to."""
        part, values, sizes = self.part, [], []
        over_arrived = field.over in ("all arrived", "own arrived", "own modelled")
        for k in range(self.experiment.k):
            terms = []
            for t, has_arrived in enumerate(self.arrived):
                if field.over.startswith("own") and part.arm[t] != k:
                    continue
                if over_arrived and not has_arrived:
                    continue
                mu = self.mu[t][k]
                if field.over.endswith("modelled") and mu is None:
                    continue
                model = 0.0 if mu is None else float(mu)
                terms.append(term(field, self.h[t][k], part.propensity[t][k], part.outcome[t], model, shift[k]))
            values.append(max(terms, default=0.0) if field.largest else math.fsum(terms))
            sizes.append(math.fsum(map(abs, terms)))
        return np.array(values), np.array(sizes)


@pytest.mark.parametrize(("weights", "model"), CHOICES)
@given(experiment=experiments(outcomes=["normal", "binary"], arms=(1, 3)))
@examples(25)
def test_every_field_is_the_sum_of_its_terms(weights, model, experiment):
    sums, twin = bl.Sums.of(experiment.log(), weights, model), Twin(experiment, weights, model)
    for field in FIELDS:
        values, sizes = twin.field(field, sums.shift)
        difference = np.abs(sums[field.name] - values)
        # a running mean is itself rounded, near outcomes of size 10 at most
        assert (difference <= 1e-11 * sizes + 1e-12 * (sizes > 0)).all(), field.name


@pytest.mark.parametrize(("weights", "model"), CHOICES)
@given(experiment=experiments(outcomes=["normal"], arms=(1, 3)))
@examples(10)
def test_recentred_sums_are_those_about_the_other_shift(weights, model, experiment):
    sums, twin = bl.Sums.of(experiment.log(), weights, model), Twin(experiment, weights, model)
    shift = sums.shift + np.linspace(-2.0, 3.0, experiment.k)
    there = sums.recentred(shift)
    np.testing.assert_array_equal(there.shift, shift)
    before = {field.name: twin.field(field, sums.shift)[1] for field in FIELDS}
    for field in FIELDS:
        values, sizes = twin.field(field, shift)
        lower = [
            before[other.name]
            for other in FIELDS
            if (other.over, other.h, other.w) == (field.over, field.h, field.w) and other.monomial
        ]
        size = sizes + before[field.name] + 30 * sum(lower, np.zeros(experiment.k))
        assert (np.abs(there[field.name] - values) <= 1e-11 * size).all(), field.name


def test_an_outcome_that_lands_adds_one_term_to_each_of_its_fields():
    h, pi, outcome, model, shift = 0.7, 0.2, 2.5, 1.25, 0.5
    for plain in (True, False):
        own = np.zeros((2, len(OWN)))
        kernel.add_outcome(own, 1, kernel.ArrivedOutcome(outcome, shift, model - shift, h, pi), plain)
        assert not own[0].any()
        for field, value in zip(OWN_FIELDS, own[1], strict=True):
            is_added = field.over in ("own arrived", "own modelled") and (plain or not field.plain)
            assert value == pytest.approx(term(field, h, pi, outcome, model, shift) if is_added else 0.0, rel=1e-14)


def test_columns_are_where_their_names_say():
    for names in (SPREAD, OWN):
        assert [getattr(fields, name.upper()) for name in names] == list(range(len(names)))


def test_names_are_unique_and_the_largest_weight_is_last():
    assert len({*SPREAD, *OWN}) == len(FIELDS)
    assert [field.name for field in FIELDS if field.largest] == [OWN[-1]]
