"""The summaries of a log: sums, from which estimates are computed, and evidence, from which checks are computed."""
