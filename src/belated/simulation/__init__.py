"""Simulation of bandit experiments: arms, delays, policies, single runs and studies."""
