"""`GroupStart`: the groups of rows that a policy decides on, before the first row.

It is imported only to simulate, because it imports numba.
"""

from __future__ import annotations

import numpy as np

from belated.base.columns import Array
from belated.kernels.contextual import Groups, new_groups
from belated.kernels.experiment import FIXED, Rule
from belated.simulation.policies import Policy
from belated.simulation.stage import memo_of


class GroupStart:
    """The burn-in, the probabilities during it and the memo of each group.

    A group is a segment, or all rows if the policy does not look at segments; `mix` are the shares of segments.
    """

    def __init__(self, policy: Policy, rule: Rule, mix: Array, horizon: int, n_arms: int) -> None:
        shares = mix if policy.by_segment else np.ones(1)
        self.burn_in = np.array([policy.burn_in_steps(share * horizon) for share in shares])
        even = rule.parameters if rule.kind == FIXED else np.full(n_arms, 1 / n_arms)
        self.p = np.tile(even, (len(shares), 1))
        memo = memo_of(rule, n_arms)
        self.memo = None if memo is None else np.array([memo] * len(shares))

    def groups(self) -> Groups:
        """Return groups of which nothing is known."""
        return new_groups(self.burn_in, self.p)
