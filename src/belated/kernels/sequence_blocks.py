"""Passes over arrivals in calendar order: which values a confidence sequence excludes, judged at every arrival.

Plain Python that numba can compile, as `belated.kernels.rows` is. Arrivals are cut into blocks. `sum_blocks` (and
`sum_bets`) sum each block on its own, so in any number of threads; running totals of the blocks are the states where
they begin and end. `next_block` bounds what any arrival within a block can have shown; `judge_block` goes through the
few blocks that may matter.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from belated.base.columns import Array
from belated.kernels import fields, rows
from belated.kernels import sequence_bounds as bounds
from belated.kernels.arrivals import ArrivalColumns
from belated.kernels.sequence_bounds import (
    ASYMPTOTIC,
    BERNSTEIN,
    BET_Y,
    BETA_BINOMIAL,
    BETS,
    CENTRE,
    COST,
    GAUGE,
    LOWER,
    PRICE,
    UPPER,
    BoundPlan,
)

#: Functions to compile, helpers before their callers.
KERNELS = (
    "sum_blocks", "sum_bets", "add_arrival", "is_due", "ask", "rate_pair_score", "question_score", "widest_gauges",
    "largest_score", "score_ends", "next_block", "measure", "judge_block",
)  # fmt: skip

#: An arm's beta-binomial reaches are found anew when its arrivals have grown by this share. Until then they shrink by
#: at most 1.2 %: those that would exclude something if they were this much of what they are, are found anew at once.
REFRESH, NEAR = 128, 0.97


class Blocks(NamedTuple):
    """Blocks of arrivals: block i begins at place `cuts[i]` and ends before `cuts[i + 1]`.

    `states` (blocks + 1, arms, state) are where blocks begin and end; `paths` (blocks, arms, 2) how far the sum of
    w (y - about) went up and down within each. Sums are of outcomes minus the arm's `shift`.
    """

    cuts: Array
    states: Array
    paths: Array
    shift: Array
    about: Array


class BlockArrivals(NamedTuple):
    """The arrivals of one block, the first of them at place `start`; `last`: the last of its moment."""

    start: int
    code: Array
    outcome: Array
    propensity: Array
    last: Array


class Hypotheses(NamedTuple):
    """What is judged: `arms` (questions, 2) holds an arm and -1, or two arms; `null` each arm's value to exclude.

    Hypotheses of single arms come before those of pairs.
    """

    arms: Array
    null: Array


class Question(NamedTuple):
    """One of the hypotheses: that the mean of arm a, minus that of arm b unless b is -1, is `null`."""

    a: int
    b: int
    null: float


class Verdicts(NamedTuple):
    """What arrivals have shown of the questions.

    `best` are the largest scores, `first` (2, questions) the places of the arrivals after which they first passed the
    thresholds, alone and together; -1: not yet. `gauges` (arms, gauge) are the arms' latest, and `measured` how many
    arrivals beta-binomial ones know of.
    """

    best: Array
    first: Array
    gauges: Array
    measured: Array


def sum_blocks(blocks: Blocks, first: int, last: int, columns: ArrivalColumns, weighted: bool) -> None:
    """Fill the states where blocks first to last end with the blocks' own sums, and their paths."""
    code, outcome, propensity, arrived = columns.code, columns.outcome, columns.propensity, columns.arrived
    full, cuts, shift, about = columns.full, blocks.cuts, blocks.shift, blocks.about
    lean = np.zeros(len(about))
    for block in range(first, last):
        own, path = blocks.states[block + 1], blocks.paths[block]
        own[:] = 0.0
        path[:] = 0.0
        lean[:] = 0.0
        for i in range(cuts[block], cuts[block + 1]):
            row = arrived[i]
            arm = int(code[row])
            y = outcome[row]
            pi = propensity[row, arm if full else 0]
            h = math.sqrt(pi)
            rows.add_outcome(own, arm, rows.ArrivedOutcome(y, shift[arm], math.nan, h, pi), False)
            at = lean[arm] + (y - about[arm]) * (h / pi if weighted else 1.0)
            lean[arm] = at
            path[arm, 0] = max(path[arm, 0], at)
            path[arm, 1] = min(path[arm, 1], at)


def sum_bets(blocks: Blocks, first: int, last: int, columns: ArrivalColumns, plan: BoundPlan) -> None:
    """Fill the sums of empirical Bernstein's bets of blocks first to last, and their paths.

    The other sums of the states where blocks begin must be running totals already.
    """
    code, outcome, propensity, arrived = columns.code, columns.outcome, columns.propensity, columns.arrived
    full, cuts, shift, about = columns.full, blocks.cuts, blocks.shift, blocks.about
    arms = len(about)
    n, sum_y, sum_y2, lean = np.empty(arms), np.empty(arms), np.empty(arms), np.empty(arms)
    bottom, extent = plan.bottom, plan.extent
    for block in range(first, last):
        begin, own, path = blocks.states[block], blocks.states[block + 1], blocks.paths[block]
        path[:] = 0.0
        for a in range(arms):
            n[a] = begin[a, fields.ARRIVED]
            sum_y[a] = begin[a, fields.Y]
            sum_y2[a] = begin[a, fields.Y2]
            lean[a] = 0.0
        for i in range(cuts[block], cuts[block + 1]):
            row = arrived[i]
            a = int(code[row])
            y = outcome[row] - shift[a]
            x = (outcome[row] - bottom) / extent
            bet = bounds.stake(n[a], sum_y[a], sum_y2[a], propensity[row, a if full else 0], plan)
            mean = (0.5 + (sum_y[a] + n[a] * (shift[a] - bottom)) / extent) / (n[a] + 1.0)
            own[a, BETS] += bet
            own[a, BET_Y] += bet * x
            own[a, COST] += (x - mean) * (x - mean) * bounds.stake_cost(bet)
            n[a] += 1.0
            sum_y[a] += y
            sum_y2[a] += y * y
            at = lean[a] + bet * (outcome[row] - about[a]) / extent
            lean[a] = at
            path[a, 0] = max(path[a, 0], at)
            path[a, 1] = min(path[a, 1], at)


def add_arrival(state: Array, a: int, y: float, pi: float, shift: float, plan: BoundPlan) -> None:
    """Add one outcome to its arm's state, as `sum_blocks` and `sum_bets` do."""
    if plan.kind == BERNSTEIN:
        n = state[a, fields.ARRIVED]
        x = (y - plan.bottom) / plan.extent
        bet = bounds.stake(n, state[a, fields.Y], state[a, fields.Y2], pi, plan)
        mean = (0.5 + (state[a, fields.Y] + n * (shift - plan.bottom)) / plan.extent) / (n + 1.0)
        state[a, BETS] += bet
        state[a, BET_Y] += bet * x
        state[a, COST] += (x - mean) * (x - mean) * bounds.stake_cost(bet)
    rows.add_outcome(state, a, rows.ArrivedOutcome(y, shift, math.nan, math.sqrt(pi), pi), False)


def is_due(measured: float, n: float) -> bool:
    """Return whether reaches measured after so many of an arm's arrivals are out of date after n."""
    return n >= measured + max(1.0, measured // REFRESH)


def ask(questions: Hypotheses, q: int) -> Question:
    """Return one of the questions."""
    a, b = questions.arms[q, 0], questions.arms[q, 1]
    return Question(a, b, questions.null[a] - (questions.null[b] if b >= 0 else 0.0))


def rate_pair_score(now: Array, question: Question, shrink: float, plan: BoundPlan) -> float:
    """Return the larger of the thresholds that a contrast of rates passes, its reach shrunk to a share; 0: neither.

    The gauges of arms may be different: the highest of one, the lowest of the other.
    """
    a, b, null = question
    d = now[a, CENTRE] - now[b, CENTRE] - null
    up, down = (a, b) if d > 0.0 else (b, a)
    value = 0.0
    for j in range(2):
        p, q = now[up, LOWER + 2 * j], now[down, UPPER + 2 * j]
        if d * d > shrink * shrink * (p * p + q * q):
            value = max(value, plan.levels[2 * j])
    return value


def question_score(now: Array, state: Array, shift: Array, question: Question, plan: BoundPlan) -> float:
    """Return the score of one question."""
    a, b, null = question
    if plan.kind != BETA_BINOMIAL:
        return bounds.score(now, a, null, plan.kind) if b < 0 else bounds.pair_score(now, a, b, null, plan.kind)
    if b >= 0:
        return rate_pair_score(now, question, 1.0, plan)
    n = state[a, fields.ARRIVED]
    ones = state[a, fields.Y] + n * shift[a]
    if 0.0 < null < 1.0:
        return bounds.mixture(ones, n - ones, null, plan)
    against = ones if null <= 0.0 else n - ones
    return math.inf if against > 0.5 or null < 0.0 or null > 1.0 else 0.0


def widest_gauges(ends: Array, now: Array, a: int, block: int, blocks: Blocks, plan: BoundPlan) -> None:
    """Fill `ends` with gauges of arm `a` that no arrival of a block can pass: its highest centre, then its lowest.

    Sums of squares, costs and prices only grow: they are no less than where the block begins, and weights no more than
    where it ends. Skewness, and doubt about the variance, only widen. Beta-binomial reaches are `now`, the latest.
    """
    state, after, path = blocks.states[block], blocks.states[block + 1], blocks.paths[block]
    about = blocks.about[a]
    arms = len(blocks.about)
    field = BETS if plan.kind == BERNSTEIN else fields.ARRIVED if plan.kind == BETA_BINOMIAL else fields.W
    w, most = state[a, field], after[a, field]
    unit, price, lower, upper = 1.0, 0.0, 0.0, 0.0
    if plan.kind == BERNSTEIN:
        unit = plan.extent
        lean = state[a, BET_Y] - w * (about - plan.bottom) / unit
        lower, upper = most / unit, state[a, COST]
    elif plan.kind == BETA_BINOMIAL:
        lean = state[a, fields.Y] + w * (blocks.shift[a] - about)
    else:
        lean = state[a, fields.WY] + w * (blocks.shift[a] - about)
        v, n = state[a, fields.W2], state[a, fields.ARRIVED]
        variance = plan.sigma * plan.sigma
        if plan.kind == ASYMPTOTIC:
            spread = max(state[a, fields.Y2] - state[a, fields.Y] * state[a, fields.Y] / n, 0.0) if n > 0.0 else 0.0
            variance = spread / (after[a, fields.ARRIVED] - 1.0)
        lower = upper = variance * (v + plan.eta) / (most * most)
        price = math.log1p(v / plan.eta)
    for side in range(2):
        end = ends[a + side * arms]
        furthest = lean + path[a, side]
        inward = furthest < 0.0 if side == 0 else furthest > 0.0
        if plan.kind == BETA_BINOMIAL:
            for j in range(len(end)):
                end[j] = now[a, j]
        else:
            end[LOWER] = lower
            end[UPPER] = upper
            end[PRICE] = price
        least = most if inward else w
        end[CENTRE] = about + unit * furthest / least if least > 0.0 else (1.0 - 2.0 * side) * math.inf


def largest_score(
    ends: Array, measured: Array, question: Question, block: int, blocks: Blocks, plan: BoundPlan
) -> float:
    """Return a score that a question cannot have passed within a block."""
    state, after, path = blocks.states[block], blocks.states[block + 1], blocks.paths[block]
    a, b, null = question
    kind, arms = plan.kind, len(blocks.about)
    if b >= 0:
        if kind != BETA_BINOMIAL:
            high = bounds.pair_score(ends, a, b + arms, null, kind)
            return max(high, bounds.pair_score(ends, a + arms, b, null, kind))
        if is_due(measured[a], after[a, fields.ARRIVED]) or is_due(measured[b], after[b, fields.ARRIVED]):
            return plan.levels[2]
        high = rate_pair_score(ends, Question(a, b + arms, null), NEAR, plan)
        return max(high, rate_pair_score(ends, Question(a + arms, b, null), NEAR, plan))
    if kind != BETA_BINOMIAL:
        return max(bounds.score(ends, a, null, kind), bounds.score(ends, a + arms, null, kind))
    if not 0.0 < null < 1.0:
        return math.inf
    about = blocks.about[a]
    value = -math.inf
    for side in range(2):  # convex in the ones and zeros: largest in a corner of where they may have been
        for last in range(2):
            n = after[a, fields.ARRIVED] if last else state[a, fields.ARRIVED]
            begun = state[a, fields.Y] + state[a, fields.ARRIVED] * (blocks.shift[a] - about)
            ones = begun + path[a, side] + n * about
            if not 0.0 <= ones <= n:
                return math.inf
            value = max(value, bounds.mixture(ones, n - ones, null, plan))
    return value


def score_ends(questions: Hypotheses, blocks: Blocks, plan: BoundPlan, verdicts: Verdicts) -> None:
    """Raise the best scores to what they are where blocks end: blocks that cannot pass them need no examination."""
    shift, now, best = blocks.shift, verdicts.gauges, verdicts.best
    for block in range(1, len(blocks.states)):
        state = blocks.states[block]
        if plan.kind != BETA_BINOMIAL:
            for a in range(len(shift)):
                bounds.gauge(now, a, state, shift, plan)
        for q in range(len(questions.arms)):
            question = ask(questions, q)
            pair = question.b >= 0
            if pair and plan.kind == BETA_BINOMIAL:
                continue
            if state[question.a, fields.ARRIVED] > 0.0 and (not pair or state[question.b, fields.ARRIVED] > 0.0):
                best[q] = max(best[q], question_score(now, state, shift, question, plan))


def next_block(
    candidates: Array, block: int, questions: Hypotheses, blocks: Blocks, plan: BoundPlan, verdicts: Verdicts
) -> tuple[int, int]:
    """Return the next block, from `block` on, in which a question may be answered, and how many may.

    That is, its score may pass a threshold for the first time, or be the largest. `candidates` receives them.
    """
    best, first = verdicts.best, verdicts.first
    arms = len(blocks.about)
    ends = np.empty((2 * arms, GAUGE))
    while block < len(blocks.paths):
        state, after = blocks.states[block], blocks.states[block + 1]
        for a in range(arms):
            widest_gauges(ends, verdicts.gauges, a, block, blocks, plan)
        n = 0
        for q in range(len(questions.arms)):
            question = ask(questions, q)
            a, b = question.a, question.b
            if not after[a, fields.ARRIVED] > 0.0 or (b >= 0 and not after[b, fields.ARRIVED] > 0.0):
                continue
            if after[a, fields.ARRIVED] == state[a, fields.ARRIVED] and (
                b < 0 or after[b, fields.ARRIVED] == state[b, fields.ARRIVED]
            ):
                continue
            value = largest_score(ends, verdicts.measured, question, block, blocks, plan)
            value += 1e-9 * abs(value)  # rounding
            may = not value <= best[q]
            for j in range(2):
                may = may or (first[j, q] < 0 and not value < plan.levels[j if b < 0 else 2 * j])
            if may:
                candidates[n] = q
                n += 1
        if n > 0:
            return block, n
        block += 1
    return block, 0


def measure(now: Array, measured: Array, a: int, state: Array, shift: Array, plan: BoundPlan) -> None:
    """Find the gauge of arm `a` anew."""
    bounds.gauge(now, a, state, shift, plan)
    measured[a] = state[a, fields.ARRIVED]


def judge_block(
    candidates: Array,
    arrivals: BlockArrivals,
    state: Array,
    shift: Array,
    questions: Hypotheses,
    plan: BoundPlan,
    verdicts: Verdicts,
) -> None:
    """Judge questions at every moment of a block, which begins at `state`; the state is changed."""
    code, outcome, pi, last = arrivals.code, arrivals.outcome, arrivals.propensity, arrivals.last
    best, first, now, measured = verdicts.best, verdicts.first, verdicts.gauges, verdicts.measured
    arms = len(shift)
    rates, pairs = plan.kind == BETA_BINOMIAL, candidates[-1] >= arms
    fresh = np.zeros(arms, np.bool_)
    touched = np.empty(arms, np.int64)
    n_touched = 0
    for a in range(arms):  # of beta-binomial arms, only those that pairs may find out of date
        if not rates or (pairs and is_due(measured[a], state[a, fields.ARRIVED])):
            measure(now, measured, a, state, shift, plan)
    for i in range(len(code)):
        add_arrival(state, code[i], outcome[i], pi[i], shift[code[i]], plan)
        if not fresh[code[i]]:
            fresh[code[i]] = True
            touched[n_touched] = code[i]
            n_touched += 1
        if not last[i]:
            continue
        for t in range(n_touched):
            a = touched[t]
            n = state[a, fields.ARRIVED]
            if not rates or (pairs and is_due(measured[a], n)):
                measure(now, measured, a, state, shift, plan)
            elif pairs:
                now[a, CENTRE] = shift[a] + state[a, fields.Y] / n
        for q in candidates:
            question = ask(questions, q)
            a, b = question.a, question.b
            touches = fresh[a] or (b >= 0 and fresh[b])
            if touches and state[a, fields.ARRIVED] > 0.0 and (b < 0 or state[b, fields.ARRIVED] > 0.0):
                if rates and b >= 0:
                    near = rate_pair_score(now, question, NEAR, plan)
                    if near == 0.0 or near <= best[q]:
                        continue
                    for arm in (a, b):
                        if measured[arm] < state[arm, fields.ARRIVED]:
                            measure(now, measured, arm, state, shift, plan)
                value = question_score(now, state, shift, question, plan)
                best[q] = max(best[q], value)
                for j in range(2):
                    if first[j, q] < 0 and value >= plan.levels[j if b < 0 else 2 * j]:
                        first[j, q] = arrivals.start + i
        for t in range(n_touched):
            fresh[touched[t]] = False
        n_touched = 0
