"""Estimates and answers: arms, contrasts, policies, tests, the winner."""
