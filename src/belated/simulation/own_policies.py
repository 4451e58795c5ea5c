"""A user's own policy, called by a kernel: its result is checked, and what goes wrong is one sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numba.core.errors import NumbaError

from belated.base.columns import Array
from belated.base.errors import PolicyError
from belated.base.text import one_line
from belated.kernels.bandit import is_distribution
from belated.simulation.policies import Policy, PolicyFunction

_Result = TypeVar("_Result")


class OwnPolicy:
    """What a kernel calls for the policy: `function`, None unless the policy is the user's own."""

    def __init__(self, policy: Policy, n_arms: int) -> None:
        self.policy, self.n_arms = policy, n_arms
        self.plain = policy.function is not None and not hasattr(policy.function, "py_func")  # not compiled by numba
        self.function: PolicyFunction | None = self._ask if self.plain else policy.function

    def call(self, kernel_function: Callable[..., _Result], *arguments: object) -> _Result:
        """Call a kernel; raise an error with one sentence if a user's compiled policy fails."""
        if self.policy.function is None:
            return kernel_function(*arguments)
        try:
            return kernel_function(*arguments)
        except (PolicyError, KeyboardInterrupt):
            raise
        except NumbaError as error:
            must = "it must be a function of (count, total, t) that returns an array of probabilities"
            raise PolicyError(f"The compiled policy has the wrong form; {must}.") from error
        except Exception as error:
            raise PolicyError(f"The policy failed: {type(error).__name__}: {error}.") from error

    def failure(self, count: Array, total: Array, step: int) -> PolicyError:
        """Call a compiled policy once more, to show its result in the error."""
        return self._invalid_answer(self._users_function(count.copy(), total.copy(), step), step)

    def _ask(self, count: Array, total: Array, step: int) -> Array:
        """Call a user's plain function, and check its result."""
        try:
            answer = self._users_function(count, total, step)
        except Exception as error:
            raise PolicyError(f"The policy failed at step {step}: {type(error).__name__}: {error}.") from error
        try:
            p = np.asarray(answer)
            p = p.astype(np.float64) if p.dtype.kind in "biuf" else np.empty(0)
        except ValueError:  # rows of uneven length
            p = np.empty(0)
        if p.ndim != 1 or not is_distribution(p, self.n_arms):
            raise self._invalid_answer(answer, step)
        return np.asarray(p)

    @property
    def _users_function(self) -> PolicyFunction:
        """The user's own function; no other policy can fail."""
        if self.policy.function is None:
            raise PolicyError(f"The policy {self.policy!r} has no function.")
        return self.policy.function

    def _invalid_answer(self, answer: object, step: int) -> PolicyError:
        shown = one_line(repr(answer.tolist() if isinstance(answer, np.ndarray) else answer), 200)
        must = f"it must be {self.n_arms} probabilities that sum to 1"
        return PolicyError(f"The policy returned {shown} at step {step}; {must}.")
