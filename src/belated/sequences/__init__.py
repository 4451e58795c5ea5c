"""Confidence sequences: intervals that hold at every look, under any delays.

The policy uses only outcomes that have arrived, and given its arm and the past, an outcome does not depend on its
arrival time. So the sum of w (Y - mean) over an arm's arrivals, w = h / pi, is a martingale in calendar time for any
distribution of delays, and mixtures of its exponentials bound it at all times at once. docs/sequences.md has the
formulas.
"""
