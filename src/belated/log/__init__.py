"""The log: assignments, arrived outcomes, and outcomes that are still out."""
