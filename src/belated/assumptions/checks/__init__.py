"""The checks of a diagnosis, grouped by what they examine; `CHECKS` of `assumptions.diagnosis` lists them."""
