"""What a run of a study leaves of each arm: its moments, from which the sums of every estimator follow.

They are sums with weights h = sqrt(pi), so that w = 1 / h. `bandit.py` adds to the columns by number,
simulation/moments.py reads them by their powers. Sums over modelled rows follow from those over unmodelled ones.
"""

from __future__ import annotations

from belated.kernels.fields import FieldTable, SumField

_moments = FieldTable()
ASSIGNED = _moments.add(SumField("assigned", "own"))
ARRIVED = _moments.add(SumField("arrived", "own arrived"))
W_MAX = _moments.add(SumField("w_max", "own arrived", w=1, largest=True))
H_UNMODELLED = _moments.add(SumField("h_unmodelled", "all unmodelled", h=1))
W_UNMODELLED = _moments.add(SumField("w_unmodelled", "own unmodelled", w=1))
Y = _moments.add(SumField("y", "own arrived", y=1))
Y2 = _moments.add(SumField("y2", "own arrived", y=2))
Y3 = _moments.add(SumField("y3", "own arrived", y=3))
Y4 = _moments.add(SumField("y4", "own arrived", y=4))
W = _moments.add(SumField("w", "own arrived", w=1))
WY = _moments.add(SumField("wy", "own arrived", w=1, y=1))
WM = _moments.add(SumField("wm", "own arrived", w=1, m=1))
W2 = _moments.add(SumField("w2", "own arrived", w=2))
W2Y = _moments.add(SumField("w2y", "own arrived", w=2, y=1))
W2Y2 = _moments.add(SumField("w2y2", "own arrived", w=2, y=2))
W3 = _moments.add(SumField("w3", "own arrived", w=3))
W3Y = _moments.add(SumField("w3y", "own arrived", w=3, y=1))
W3Y2 = _moments.add(SumField("w3y2", "own arrived", w=3, y=2))
W4 = _moments.add(SumField("w4", "own arrived", w=4))
W4Y = _moments.add(SumField("w4y", "own arrived", w=4, y=1))
W4Y2 = _moments.add(SumField("w4y2", "own arrived", w=4, y=2))
W6 = _moments.add(SumField("w6", "own arrived", w=6))
W6Y = _moments.add(SumField("w6y", "own arrived", w=6, y=1))
W6Y2 = _moments.add(SumField("w6y2", "own arrived", w=6, y=2))
M = _moments.add(SumField("m", "own arrived", m=1))
YM = _moments.add(SumField("ym", "own arrived", y=1, m=1))
M2 = _moments.add(SumField("m2", "own arrived", m=2))
W2M = _moments.add(SumField("w2m", "own arrived", w=2, m=1))
W2YM = _moments.add(SumField("w2ym", "own arrived", w=2, y=1, m=1))
W2M2 = _moments.add(SumField("w2m2", "own arrived", w=2, m=2))
H = _moments.add(SumField("h", "all", h=1))
H2 = _moments.add(SumField("h2", "all", h=2))
HM = _moments.add(SumField("hm", "all", h=1, m=1))
H2M = _moments.add(SumField("h2m", "all", h=2, m=1))
H2M2 = _moments.add(SumField("h2m2", "all", h=2, m=2))
H_ARRIVED = _moments.add(SumField("h_arrived", "all arrived", h=1))

MOMENT_FIELDS = _moments.fields
MOMENTS = tuple(field.name for field in MOMENT_FIELDS)
