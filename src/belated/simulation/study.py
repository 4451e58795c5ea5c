"""`study`: many simulated runs of an experiment, with the results of each estimator."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from heapq import merge
from itertools import takewhile

import numpy as np

from belated.base.checks import whole
from belated.base.columns import Array
from belated.base.errors import OptionError, argument
from belated.base.text import shown
from belated.estimation.estimators import MATURING, SIDE_BY_SIDE, EstimatorName
from belated.estimation.intervals import Interval, check_interval
from belated.simulation.answered_study import AnsweredStudy, AnswerTask
from belated.simulation.bandits import Bandit
from belated.simulation.contextual import AnyBandit, is_plain
from belated.simulation.crew import run
from belated.simulation.policies import Policy
from belated.simulation.results import Study
from belated.simulation.simulate import check, check_horizon
from belated.simulation.views import TargetLike, View

#: The duration of one task in nanoseconds: long enough for little overhead, short enough to stop quickly.
_TASK_NANOSECONDS = 5e7

#: The approximate duration of a step in nanoseconds, for slow policies and for the others; what a log of each run adds.
STEP_COSTS = {"thompson_normal": 400, "thompson_beta": 400, "own": 20_000}
_STEP_COST, LOG_COST = 10, 1000

#: The largest number of replications; each stores half a kilobyte.
_MOST_RUNS = 10_000_000

#: A horizon, and the first and last replication; what a task returns: arrays by replication, and seconds.
Piece = tuple[int, int, int]
PieceResult = tuple[tuple[Array, ...], float]


def study(  # noqa: PLR0913
    bandit: AnyBandit,
    policy: Policy,
    horizons: int | Sequence[int],
    replications: int = 1000,
    *,
    estimators: Sequence[EstimatorName] | None = None,
    targets: Sequence[TargetLike] | None = None,
    intervals: Sequence[Interval] = ("normal", "auto"),
    level: float = 0.95,
    seed: int = 0,
    workers: int | None = None,
    executor: Executor | None = None,
    progress: bool | None = None,
    as_published: bool = False,
    wait: float = 0,
    maturing: bool = True,
) -> Study:
    """Simulate an experiment many times at each horizon, to measure bias, errors and coverage of estimators.

    Parameters
    ----------
    bandit : Bandit or ContextualBandit
    policy : Policy
    horizons : int or sequence of int
        The numbers of assignments.
    replications : int
        The number of runs at each horizon. Run r is ``simulate(bandit, policy, horizon, seed, replication=r)``.
    estimators : sequence of str, optional
        By default all; for events whose windows are open, those without an outcome model.
    targets : list
        Each is an arm, a pair (arm, baseline) for a contrast, or a mapping from arms to coefficients for a policy or
        any linear combination. By default every arm, and every contrast with the first arm. With segments, these are
        averages over all segments; ``in_segment("DE", ("B", "A"))`` is a target in one segment, and
        ``{"DE": "B", "FR": "A"}`` a policy by segment.
    intervals : sequence of {"auto", "normal", "t", "score", "wilson"}
    level : float
        The level of the intervals.
    seed : int
    workers : int, optional
        The number of threads; by default one per core.
    executor : concurrent.futures.Executor, optional
        An executor to use instead of threads: processes, or a cluster (``dask.distributed.Client().get_executor()``).
        The numbers do not depend on it. Processes help if the policy is a plain Python function.
    progress : bool, optional
        Whether to show progress on stderr; by default only on a terminal.
    as_published : bool
        Whether the outcome model uses a row's own outcome if it arrived at once, as in the authors' published code.
    wait : float
        Steps from the last assignment to the analysis; infinity waits for every outcome that ever arrives.
    maturing : bool
        If arms are events: whether rows count whose window is open, as in `estimate`. If not, only closed windows do.

    Returns
    -------
    Study
        `Study.viewed` changes estimators, targets, intervals and level without running anything again; with segments or
        events, only to some of those that the study was run with. After Ctrl-C it has the completed replications.

    Examples
    --------
    >>> import belated as bl
    >>> bandit = bl.Bandit({"A": bl.arms.normal(1.0), "B": bl.arms.normal(0.5)}, bl.delays.poisson(5).censored(0.5))
    >>> result = bl.study(bandit, bl.policies.epsilon_greedy(burn_in=0.1), 500, replications=200)
    >>> result.coverage("daipw", ("A", "B")) > 0.9
    True
    """
    check(bandit, policy)
    lengths = _horizons(horizons)
    if workers is not None:
        whole("workers", workers, least=1)
    runs, seed = whole("replications", replications, least=2), whole("seed", seed, least=0)
    if runs > _MOST_RUNS:
        raise OptionError(f"{argument('replications')} is {shown(replications)}; it must be at most {_MOST_RUNS:,}.")
    if isinstance(wait, bool) or not isinstance(wait, (int, float, np.number)) or not wait >= 0:
        raise OptionError(f"`wait` is {shown(wait)}; it must be a number of steps, 0 or more.")
    if estimators is None:
        estimators = MATURING if maturing and bandit.window is not None else SIDE_BY_SIDE
    view = View.read(bandit, estimators=estimators, targets=targets, intervals=intervals, level=level)
    for interval in view.intervals if maturing and bandit.window is not None else ():
        check_interval(interval, binary=False, subject="Windows are open, and `intervals` contains")
    step = step_cost(bandit, policy)
    sizes = {h: max(1, min(int(_TASK_NANOSECONDS / (h * step)), math.ceil(runs / 4))) for h in lengths}
    # all horizons progress together
    pieces = merge(*(_pieces(horizon, runs, size) for horizon, size in sizes.items()), key=lambda piece: piece[1])
    total = sum(math.ceil(runs / size) for size in sizes.values())
    task: Callable[[int, int, int], PieceResult]
    if is_plain(bandit):
        task = _Task(bandit=bandit, policy=policy, seed=seed, peek=bool(as_published), wait=float(wait))
    elif as_published:
        raise OptionError("`as_published` is for bandits without segments and events, as in the published code.")
    else:
        task = AnswerTask(bandit=bandit, policy=policy, seed=seed, wait=float(wait), view=view, maturing=bool(maturing))
    done = run(task, pieces, total, workers or os.cpu_count() or 1, executor, progress)
    moments: dict[int, Array] = {}
    answers: dict[int, Array] = {}
    seconds: dict[int, float] = {}
    for horizon, size in sizes.items():
        # up to the first missing replication, so that run r is replication r even if the study was stopped
        parts = [done[piece] for piece in takewhile(done.__contains__, _pieces(horizon, runs, size))]
        if sum(len(arrays[0]) for arrays, _ in parts) >= 2:
            moments[horizon], *others = (np.concatenate(each) for each in zip(*(a for a, _ in parts), strict=True))
            if others:
                answers[horizon] = others[0]
            seconds[horizon] = sum(took for _, took in parts)
    if not moments:
        raise KeyboardInterrupt
    result = Study(
        bandit=bandit,
        policy=policy,
        seed=seed,
        as_published=as_published,
        moments=moments,
        seconds=seconds,
        view=view,
        asked=runs,
        left_out=len(lengths) - len(moments),
        wait=float(wait),
        maturing=bool(maturing),
    )
    return result if not answers else AnsweredStudy.of(result, answers)


def step_cost(bandit: AnyBandit, policy: Policy) -> float:
    """Return the approximate duration of a step in nanoseconds, with the sums of several estimators."""
    if is_plain(bandit):
        return STEP_COSTS.get(policy.name, _STEP_COST) + 5 * len(bandit.arms)
    return STEP_COSTS.get(policy.name, 0) + LOG_COST + 20 * len(bandit.arms)


def _horizons(given: int | Sequence[int]) -> list[int]:
    lengths = list(given) if isinstance(given, Iterable) else [given]
    horizons = [check_horizon("horizons", horizon) for horizon in lengths]
    if not horizons or len(set(horizons)) < len(horizons):
        raise OptionError(f"`horizons` is {shown(given)}; it must have at least one horizon, and none twice.")
    return horizons


def _pieces(horizon: int, runs: int, size: int) -> Iterator[Piece]:
    """Yield the pieces of one horizon's replications."""
    return ((horizon, start, min(start + size, runs)) for start in range(0, runs, size))


@dataclass(frozen=True)
class _Task:
    """A task for an executor: replications of one experiment."""

    bandit: Bandit
    policy: Policy
    seed: int
    peek: bool
    wait: float

    def __call__(self, horizon: int, start: int, stop: int) -> PieceResult:
        from belated.simulation.stage import Stage

        stage = Stage(self.bandit, self.policy, horizon)
        if start == 0:
            stage.moments(self.seed, 0, 0, self.peek, self.wait)  # compiles if necessary, outside the measured time
        since = time.thread_time()
        moments = stage.moments(self.seed, start, stop, self.peek, self.wait)
        return (moments,), time.thread_time() - since
