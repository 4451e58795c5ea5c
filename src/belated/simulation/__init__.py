"""Experiments that never were: bandits, delays and policies, simulated to logs."""
