"""What a run of an experiment is made of: distributions, a policy, and the arrays it is played in.

`bandit.py` plays, and leaves the moments of `moments.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from belated.base.columns import Array

ARMS = ("normal", "bernoulli", "gamma", "lognormal", "student_t", "empirical")
NORMAL, BERNOULLI, GAMMA, LOGNORMAL, STUDENT_T, EMPIRICAL = range(6)

POLICIES = ("fixed", "epsilon_greedy", "thompson_normal", "thompson_beta", "ucb", "own")
FIXED, EPSILON_GREEDY, THOMPSON_NORMAL, THOMPSON_BETA, UCB, OWN = range(6)

#: What follows the last tabled delay: nothing, a Pareto or a geometric tail; or no table at all.
TAILS = ("none", "pareto", "geometric", "lognormal")
NO_TAIL, PARETO_TAIL, GEOMETRIC_TAIL, ALL_LOGNORMAL = range(4)

#: In a table: an outcome that never arrives, one whose delay is in the tail; and the longest delay there is.
NEVER, TAIL = 1 << 62, -1
LONGEST = float(1 << 60)

#: Equally wide cells of [0, 1), each with the place in a table of delays where the search begins.
GUIDE = 1024

#: Rows played before their sums are taken: the block stays in the first cache.
BLOCK = 1024

#: How far apart columns of a block are kept: at 1,024 numbers a row's would all compete for one set of the cache.
COLUMN = BLOCK + 24


class Arms(NamedTuple):
    """Outcome distributions; `first`, `second`, `third` are a kind's parameters."""

    kind: Array
    first: Array
    second: Array
    third: Array
    samples: Array
    starts: Array
    shift: Array  # what each arm's moments are taken about
    all_normal: bool


class Delays(NamedTuple):
    """Delay distributions, tabled: a uniform u becomes values[i], i the first with u < cumulative[i].

    `guide` (arms, cells) says where to begin for u in each of equally wide cells. The last entry of
    each arm's table stands for what follows it: never, or a tail.
    """

    sure: Array  # whether every outcome arrives at once: nothing to draw
    arrives: Array  # the share of outcomes that arrive, above 1 if sure
    guide: Array
    starts: Array
    cumulative: Array
    values: Array
    tail: Array
    first: Array
    second: Array
    never: Array


class Rule(NamedTuple):
    """A policy; `share` is c t ** -decay for each step t, cut so that it can be everyone's floor."""

    kind: int
    share: Array
    root_best: Array  # under epsilon-greedy, square roots of the best arm's propensity and of each other's
    root_other: Array
    parameters: Array
    burn_in: int
    batch: int


class ExperimentArrays(NamedTuple):
    """What is played.

    `last` is when a run is looked at: the horizon, or later. `peek` lets the recorded running mean
    see an outcome that arrived at once, as the published code does.
    """

    arms: Arms
    delays: Delays
    rule: Rule
    horizon: int
    last: int
    peek: bool


class Steps(NamedTuple):
    """Steps of a run: from `start` to before `stop`."""

    start: int
    stop: int


class Known(NamedTuple):
    """What a policy knows at a step: of each arm, the number of outcomes that have arrived, and their sum."""

    arrived: Array
    total: Array
    step: int


class Posterior(NamedTuple):
    """Parameters of each arm's posterior under Thompson sampling: mean and deviation, or those of a Beta."""

    first: Array
    second: Array


class ArrivalCalendar(NamedTuple):
    """Outcomes that are yet to arrive, in slots: the one pushed last for each step, the one pushed before each.

    A slot is free again when its outcome has arrived, so that what is still out stays in the cache
    however long the run. Free slots are chained by `previous` from `free` on; 0 stands for the next.
    """

    last: Array
    previous: Array
    arm: Array
    outcome: Array
    free: Array


class BlockRows(NamedTuple):
    """A block's rows, if they are to be kept."""

    code: Array
    outcome: Array
    late: Array
    propensity: Array


class Desk(NamedTuple):
    """Where a run is played; reused by the next one. One array for many columns keeps one pointer in a register."""

    block: Array  # columns of BLOCK rows: CHOICE, NOISE, LATENESS, ARRIVED, then each arm's h, and its model
    # columns of an entry for each arm: COUNT, TOTAL, MEAN, ASSIGNED, P, ROOT, FIRST, SECOND; before an arm's first
    # arrival its total and mean are -0.0, which nothing that has arrived gives
    state: Array
    arrived: Array  # for each arm, BLOCK outcomes that arrived, their h = sqrt(propensity) and models
    ends: Array  # where each arm's next arrived outcome goes
    memo: Array | None  # what Thompson sampling keeps from step to step


CHOICE, NOISE, LATENESS, ARRIVED, FIRST_H = 0, COLUMN, 2 * COLUMN, 3 * COLUMN, 4 * COLUMN
COUNT, TOTAL, MEAN, ASSIGNED, P, ROOT, FIRST, SECOND = range(8)


def new_desk(n_arms: int, memo: Array | None = None) -> Desk:
    """Return an empty desk."""
    return Desk(
        block=np.zeros(FIRST_H + 2 * n_arms * COLUMN),
        state=np.zeros(8 * n_arms),
        arrived=np.zeros(3 * n_arms * COLUMN),
        ends=np.zeros(n_arms, np.int64),
        memo=memo,
    )


def new_calendar(horizon: int) -> ArrivalCalendar:
    """Return an empty calendar; playing a run to its end leaves it empty again."""
    last, previous, arm = (np.zeros(horizon + 3, np.int32) for _ in range(3))
    return ArrivalCalendar(
        last=last, previous=previous, arm=arm, outcome=np.empty(horizon + 3), free=np.ones(1, np.int32)
    )
