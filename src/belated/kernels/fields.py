"""The sums that are kept of each arm: one table, from which every producer and every operation reads.

Kernels add to the columns by number, engines by name; recentring, merging and SQL follow from each field's powers. A
new field is one line here and one in the kernels that add rows: `rows.land` or `rows.accumulate`, and `bandit` for
simulations.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

#: Whose rows a field is summed over: every row, for every arm; rows for which the arm has a model; rows of any arm that
#: have arrived; the arm's own rows; those that have arrived; those that have arrived and for which there is a model.
Over = Literal["all", "all modelled", "all arrived", "own", "own arrived", "own modelled"]


class SumField(NamedTuple):
    """A sum over rows of h^a w^b y^c m^d r^e, given by the powers.

    h is the weight, pi the propensity, w = h / pi; y is the outcome and m the outcome model, both minus the arm's
    shift, and r = y - m. Where there is no model, as before an arm's first arrival, sums over other rows take the model
    for 0 (m is minus the shift).
    """

    name: str
    over: Over
    h: int = 0
    w: int = 0
    y: int = 0
    m: int = 0
    r: int = 0
    plain: bool = False  # whether only estimators that are not of Hajek's kind, or have a given model, read it
    largest: bool = False  # the largest term instead of the sum
    monomial: bool = True  # False: of another form, which the shift does not enter


#: Sums over rows of every arm, kept for every arm.
SPREAD_FIELDS = (
    SumField("h", "all", h=1),
    SumField("h2", "all", h=2, plain=True),
    SumField("h_modelled", "all modelled", h=1),
    SumField("hm", "all modelled", h=1, m=1),
    SumField("h2m", "all", h=2, m=1, plain=True),
    SumField("h2m2", "all", h=2, m=2, plain=True),
    SumField("h_arrived", "all arrived", h=1, plain=True),
)

#: Sums over an arm's own rows. `nonbinary`, the sum of abs(Y (1 - Y)), is 0 if every outcome is 0 or 1. `w_max` is
#: last, so that all others are added.
OWN_FIELDS = (
    SumField("assigned", "own"),
    SumField("arrived", "own arrived"),
    SumField("nonbinary", "own arrived", monomial=False),
    SumField("y", "own arrived", y=1),
    SumField("y2", "own arrived", y=2),
    SumField("y3", "own arrived", y=3),
    SumField("y4", "own arrived", y=4),
    SumField("w", "own arrived", w=1),
    SumField("wy", "own arrived", w=1, y=1),
    SumField("w_modelled", "own modelled", w=1),
    SumField("wm", "own modelled", w=1, m=1),
    SumField("w2", "own arrived", w=2),
    SumField("w2y", "own arrived", w=2, y=1),
    SumField("w2y2", "own arrived", w=2, y=2),
    SumField("w3", "own arrived", w=3),
    SumField("w3y", "own arrived", w=3, y=1),
    SumField("w3y2", "own arrived", w=3, y=2),
    SumField("hwr", "own arrived", h=1, w=1, r=1, plain=True),
    SumField("hwrm", "own arrived", h=1, w=1, r=1, m=1, plain=True),
    SumField("r", "own arrived", r=1, plain=True),
    SumField("r2", "own arrived", r=2, plain=True),
    SumField("r3", "own arrived", r=3, plain=True),
    SumField("r4", "own arrived", r=4, plain=True),
    SumField("w2r", "own arrived", w=2, r=1, plain=True),
    SumField("w2r2", "own arrived", w=2, r=2, plain=True),
    SumField("w3r", "own arrived", w=3, r=1, plain=True),
    SumField("w3r2", "own arrived", w=3, r=2, plain=True),
    SumField("w_max", "own arrived", w=1, largest=True),
)

SPREAD = tuple(field.name for field in SPREAD_FIELDS)
OWN = tuple(field.name for field in OWN_FIELDS)

# The columns' numbers, for compiled loops.
H, H2, H_MODELLED, HM, H2M, H2M2, H_ARRIVED = range(len(SPREAD))
(
    ASSIGNED, ARRIVED, NONBINARY, Y, Y2, Y3, Y4, W, WY, W_MODELLED, WM, W2, W2Y, W2Y2, W3, W3Y, W3Y2,
    HWR, HWRM, R, R2, R3, R4, W2R, W2R2, W3R, W3R2, W_MAX,
) = range(len(OWN))  # fmt: skip

#: The fields that are NaN in sums made for estimators of Hajek's kind without a given model.
PLAIN_SPREAD = [i for i, field in enumerate(SPREAD_FIELDS) if field.plain]
PLAIN_OWN = [i for i, field in enumerate(OWN_FIELDS) if field.plain]
