"""The sums that are kept of each arm: one table, from which every producer and every operation reads.

Kernels add to the columns by number, engines by name; recentring, merging, SQL and the sums of studies follow from each
field's powers. A new field is one line here, and one in the kernel that adds rows: `rows.add_outcome` or
`rows.accumulate`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

#: Whose rows a field is summed over: every row, for every arm; rows for which the arm has a model, or has none; rows of
#: any arm that have arrived; the arm's own rows; those that have arrived; of these, those with a model, or without.
Over = Literal[
    "all", "all modelled", "all unmodelled", "all arrived", "own", "own arrived", "own modelled", "own unmodelled"
]


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


class FieldTable:
    """Fields that are kept together: one column for each, in the order in which they are added."""

    def __init__(self) -> None:
        self.fields: tuple[SumField, ...] = ()

    def add(self, field: SumField) -> int:
        """Add a field; return the number of its column, for compiled loops."""
        self.fields += (field,)
        return len(self.fields) - 1


# Sums over rows of every arm, kept for every arm.
_spread = FieldTable()
H = _spread.add(SumField("h", "all", h=1))
H2 = _spread.add(SumField("h2", "all", h=2, plain=True))
H_MODELLED = _spread.add(SumField("h_modelled", "all modelled", h=1))
HM = _spread.add(SumField("hm", "all modelled", h=1, m=1))
H2M = _spread.add(SumField("h2m", "all", h=2, m=1, plain=True))
H2M2 = _spread.add(SumField("h2m2", "all", h=2, m=2, plain=True))
H_ARRIVED = _spread.add(SumField("h_arrived", "all arrived", h=1, plain=True))

# Sums over an arm's own rows. `nonbinary`, the sum of abs(Y (1 - Y)), is 0 if every outcome is 0 or 1. `w_max` is last,
# so that all others are added.
_own = FieldTable()
ASSIGNED = _own.add(SumField("assigned", "own"))
ARRIVED = _own.add(SumField("arrived", "own arrived"))
NONBINARY = _own.add(SumField("nonbinary", "own arrived", monomial=False))
Y = _own.add(SumField("y", "own arrived", y=1))
Y2 = _own.add(SumField("y2", "own arrived", y=2))
Y3 = _own.add(SumField("y3", "own arrived", y=3))
Y4 = _own.add(SumField("y4", "own arrived", y=4))
W = _own.add(SumField("w", "own arrived", w=1))
WY = _own.add(SumField("wy", "own arrived", w=1, y=1))
W_MODELLED = _own.add(SumField("w_modelled", "own modelled", w=1))
WM = _own.add(SumField("wm", "own modelled", w=1, m=1))
W2 = _own.add(SumField("w2", "own arrived", w=2))
W2Y = _own.add(SumField("w2y", "own arrived", w=2, y=1))
W2Y2 = _own.add(SumField("w2y2", "own arrived", w=2, y=2))
W3 = _own.add(SumField("w3", "own arrived", w=3))
W3Y = _own.add(SumField("w3y", "own arrived", w=3, y=1))
W3Y2 = _own.add(SumField("w3y2", "own arrived", w=3, y=2))
HWR = _own.add(SumField("hwr", "own arrived", h=1, w=1, r=1, plain=True))
HWRM = _own.add(SumField("hwrm", "own arrived", h=1, w=1, r=1, m=1, plain=True))
R = _own.add(SumField("r", "own arrived", r=1, plain=True))
R2 = _own.add(SumField("r2", "own arrived", r=2, plain=True))
R3 = _own.add(SumField("r3", "own arrived", r=3, plain=True))
R4 = _own.add(SumField("r4", "own arrived", r=4, plain=True))
W2R = _own.add(SumField("w2r", "own arrived", w=2, r=1, plain=True))
W2R2 = _own.add(SumField("w2r2", "own arrived", w=2, r=2, plain=True))
W3R = _own.add(SumField("w3r", "own arrived", w=3, r=1, plain=True))
W3R2 = _own.add(SumField("w3r2", "own arrived", w=3, r=2, plain=True))
W_MAX = _own.add(SumField("w_max", "own arrived", w=1, largest=True))

SPREAD_FIELDS, OWN_FIELDS = _spread.fields, _own.fields
SPREAD = tuple(field.name for field in SPREAD_FIELDS)
OWN = tuple(field.name for field in OWN_FIELDS)

#: The fields that are NaN in sums made for estimators of Hajek's kind without a given model.
PLAIN_SPREAD = [i for i, field in enumerate(SPREAD_FIELDS) if field.plain]
PLAIN_OWN = [i for i, field in enumerate(OWN_FIELDS) if field.plain]
