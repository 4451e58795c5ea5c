"""What a log is reduced to: sums, from which estimates are read, and evidence, from which checks are read."""
