"""Confidence sequences: intervals that hold at every look, under any delays.

The policy sees only outcomes that have arrived, and an outcome does not depend on when it comes, given its arm and the
past. So the sum of w (Y - mean) over an arm's arrivals, w = h / pi, is a martingale in calendar time whatever the
delays' tail, and mixtures of its exponentials bound it at all times at once. docs/sequences.md has the formulas.
"""
