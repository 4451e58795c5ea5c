"""Runs of a bandit experiment: draws, policies, a calendar of arrivals, and every estimator's sums.

Imported only to simulate, because it brings numba. A run is played in blocks of rows: first the
block's random numbers, then its steps one after another, then its sums, which the compiler turns
into vector instructions. No row outlives its block but in the calendar, which knows the outcomes
that are yet to arrive.

Indices are unsigned: numba then leaves out the code for negative ones, a fifth of all instructions.
Arrays are copied in loops: `a[:] = b` takes seconds to compile, for the sake of its error message.
"""

from __future__ import annotations

import math
from functools import cache
from types import FunctionType
from typing import Any

import numpy as np

from belated.base import checks
from belated.kernels import moments, streams
from belated.kernels.compiler import compiled
from belated.kernels.experiment import (
    ARRIVED,
    ASSIGNED,
    BERNOULLI,
    BLOCK,
    CHOICE,
    COLUMN,
    EPSILON_GREEDY,
    FIRST,
    FIRST_H,
    FIXED,
    GAMMA,
    GEOMETRIC_TAIL,
    GUIDE,
    LATENESS,
    LOGNORMAL,
    LONGEST,
    MEAN,
    NEVER,
    NOISE,
    NORMAL,
    PARETO_TAIL,
    ROOT,
    SECOND,
    STUDENT_T,
    TAIL,
    THOMPSON_BETA,
    TOTAL,
    UCB,
    Known,
    P,
    Posterior,
    Steps,
)
from belated.kernels.thompson import GRID, clipped_probabilities

#: Sums in any order of addition: vector registers, as wide as the machine's.
_VECTORS = {"reassoc", "contract", "nsz", "nnan"}

_index: Any = np.uint32  # numba's cast; NumPy's type would forbid sums with other integers

_ONE_BITS = np.float64(1.0).view(np.int64)


@compiled
def draw_outcome(stream, arms, arm):
    """Draw an outcome of an arm."""
    kind, first, second = arms.kind[arm], arms.first[arm], arms.second[arm]
    if kind == NORMAL:
        return first + second * streams.normal(stream)
    if kind == BERNOULLI:
        return 1.0 if streams.uniform(stream) < first else 0.0
    if kind == GAMMA:
        return second * streams.gamma(stream, first)
    if kind == LOGNORMAL:
        return math.exp(first + second * streams.normal(stream))
    if kind == STUDENT_T:
        half = arms.third[arm] / 2.0
        return first + second * streams.normal(stream) / math.sqrt(streams.gamma(stream, half) / half)
    size = arms.starts[arm + 1] - arms.starts[arm]
    return arms.samples[arms.starts[arm] + int(streams.uniform(stream) * size)]


@compiled(error_model="numpy")
def draw_tail(stream, delays, arm, u):
    """Return a delay from the tail."""
    tail = delays.tail[arm]
    u /= 1.0 - delays.never[arm]
    if tail == PARETO_TAIL:
        late = delays.second[arm] * (1.0 - u) ** (-1.0 / delays.first[arm]) - delays.second[arm]
    elif tail == GEOMETRIC_TAIL:
        late = math.log1p(-u) / math.log1p(-delays.first[arm])
    else:
        late = math.exp(delays.first[arm] + delays.second[arm] * streams.normal(stream))
    return np.int64(min(late, LONGEST))


@compiled
def decide(p, rule, known, posterior, memo):
    """Fill `p` with the policy's probabilities; `posterior` is room for Thompson sampling."""
    n_arms = len(p)
    count, total, t = known.arrived, known.total, known.step
    if rule.kind == FIXED:
        for k in range(n_arms):
            p[k] = rule.parameters[k]
        return
    share = rule.share[t]
    if rule.kind == EPSILON_GREEDY or rule.kind == UCB:
        best, highest = 0, -math.inf
        for k in range(n_arms):
            score = total[k] / count[k] if count[k] > 0 else 0.0
            if rule.kind == UCB:
                score = score + rule.parameters[0] * math.sqrt(math.log(t) / count[k]) if count[k] > 0 else math.inf
            if score > highest:
                best, highest = k, score
        p[:] = share / max(n_arms - 1, 1)
        p[best] = 1.0 - share
    elif memo is not None:
        beta, first, second = rule.kind == THOMPSON_BETA, posterior.first, posterior.second
        for k in range(n_arms):
            if beta:
                first[k] = rule.parameters[0] + total[k]
                second[k] = rule.parameters[1] + count[k] - total[k]
            else:  # a prior N(0, prior_sd^2) is as good as (noise_sd / prior_sd)^2 outcomes of 0
                weight = count[k] + rule.parameters[1]
                first[k] = total[k] / weight
                second[k] = rule.parameters[0] / math.sqrt(weight)
        clipped_probabilities(p, beta, first, second, share, memo)


tolerance = compiled(checks.tolerance)


@compiled
def is_distribution(p, n_arms):
    """Return whether `p` is a probability vector."""
    if len(p) != n_arms:
        return False
    total = 0.0
    for k in range(n_arms):
        if not p[k] >= 0.0:
            return False
        total += p[k]
    return abs(total - 1.0) <= tolerance(n_arms)


@compiled
def first_largest(values):
    """Return the index of the largest value, the first of equals."""
    best = 0
    for k in range(1, len(values)):
        if values[k] > values[best]:
            best = k
    return best


@compiled(nogil=True, error_model="numpy")
def play(stream, steps, experiment, own_policy, two, desk, calendar, rows):
    """Play some steps; return the one at which the policy failed, or 0.

    Without a calendar every outcome arrives at once, or never. `rows` receive the rows themselves, if
    they are to be kept. `two`, unless None, says that there are two arms, whose loops are then
    unrolled. What may be None is an argument of its own: numba leaves out the branches for None of
    arguments, not of a tuple's fields.
    """
    arms, delays, rule, peek = experiment.arms, experiment.delays, experiment.rule, experiment.peek
    start, stop, horizon, last = steps.start, steps.stop, experiment.horizon, experiment.last
    block, state, arrived, ends = desk.block, desk.state, desk.arrived, desk.ends
    sure, guide, starts, cumulative, values = (
        delays.sure, delays.guide, delays.starts, delays.cumulative, delays.values)  # fmt: skip
    arrives = delays.arrives
    first, second, burn_in, batch = arms.first, arms.second, rule.burn_in, rule.batch
    share, root_best, root_other = rule.share, rule.root_best, rule.root_other
    n_arms = len(ends) if two is None else 2
    total_, mean_, assigned_ = _index(TOTAL * n_arms), _index(MEAN * n_arms), _index(ASSIGNED * n_arms)
    first_m = _index(FIRST_H + n_arms * COLUMN)
    n = len(ends)  # not a constant: the search below remains a branch, which is foreseen, not a data dependency
    mean, p = state[MEAN * n : (MEAN + 1) * n], state[P * n : (P + 1) * n]
    count, total, root = state[:n], state[TOTAL * n : (TOTAL + 1) * n], state[ROOT * n : (ROOT + 1) * n]
    posterior = Posterior(state[FIRST * n : (FIRST + 1) * n], state[SECOND * n :])
    greedy, all_normal = rule.kind == EPSILON_GREEDY, arms.all_normal
    best = _index(first_largest(p))
    eps = 1.0 - p[best]
    h_best, h_other = math.sqrt(1.0 - eps), math.sqrt(eps / max(n_arms - 1, 1))
    free = calendar.free[0] if calendar is not None else 0
    for k in range(n_arms):
        ends[k] = k * 3 * COLUMN
    streams.fill_uniform(stream, block, np.int64(CHOICE), stop - start)
    if all_normal:
        streams.fill_normal(stream, block, NOISE, stop - start)
    if not sure.all():
        streams.fill_uniform(stream, block, np.int64(LATENESS), stop - start)
    for t in range(start, stop):
        b = _index(t - start)
        if calendar is not None:
            slot = calendar.last[_index(t)]
            calendar.last[_index(t)] = 0
            while slot:
                k = _index(calendar.arm[_index(slot)])
                state[k] += 1.0
                state[k + total_] += calendar.outcome[_index(slot)]
                state[k + mean_] = state[k + total_] / state[k]
                before = calendar.previous[_index(slot)]
                calendar.previous[_index(slot)] = free
                free = slot
                slot = before
        u = block[b]
        if greedy and t > burn_in:
            if batch == 1 or (t - burn_in - 1) % batch == 0:
                beaten = False
                top = state[best + mean_]
                for k in range(n_arms):
                    beaten |= (state[_index(k) + mean_] >= top) and k != best
                if beaten:
                    best = _index(first_largest(mean))
                eps, h_best, h_other = share[_index(t)], root_best[_index(t)], root_other[_index(t)]
            for k in range(n_arms):
                block[b + _index(FIRST_H + k * COLUMN)] = h_other
            block[b + _index(FIRST_H) + best * _index(COLUMN)] = h_best
            other = eps / max(n_arms - 1, 1)
            if rows is not None:
                rows.propensity[b] = other
                rows.propensity[b, best] = 1.0 - eps
            arm, h = best, h_best
            if u < eps:
                h = h_other
                i = min(_index(np.int64(u / other)), _index(n_arms - 2))
                arm = _index(i + 1) if i >= best else i
        else:
            if t > burn_in and (t - burn_in - 1) % batch == 0:
                if own_policy is None:
                    decide(p, rule, Known(count, total, t), posterior, desk.memo)
                else:
                    chosen = own_policy(count.copy(), total.copy(), t)
                    if not is_distribution(chosen, n_arms):
                        return t
                    for k in range(n_arms):
                        p[k] = chosen[k]
                for k in range(n_arms):
                    root[k] = math.sqrt(p[k])
            for k in range(n_arms):
                block[b + _index(FIRST_H + k * COLUMN)] = root[k]
            if rows is not None:
                for k in range(n_arms):
                    rows.propensity[b, k] = p[k]
            arm = _index(0)
            below = p[0]
            while u >= below and arm < n_arms - 1:
                arm = _index(arm + 1)
                below += p[arm]
            while p[arm] == 0.0:  # rounding pushed the draw past the last possible arm
                arm = _index(arm - 1)
            h = root[arm]
        y = first[arm] + second[arm] * block[b + _index(NOISE)] if all_normal else draw_outcome(stream, arms, arm)
        late: Any = np.int64(0)  # numba infers its type
        v = block[b + _index(LATENESS)]
        if calendar is None:
            counts = 1.0 if v < arrives[arm] else 0.0
            late = np.int64(0) if v < arrives[arm] else np.int64(NEVER)
        elif not sure[arm]:
            i = starts[arm] + guide[arm, _index(np.int64(v * GUIDE))]
            while v >= cumulative[_index(i)]:
                i += 1
            late = values[_index(i)]
            if late == TAIL:
                late = draw_tail(stream, delays, arm, v)
        if calendar is not None:
            counts = 1.0 if late <= last - t else 0.0
        model = state[arm + mean_]
        for k in range(n_arms):
            block[b + first_m + _index(k * COLUMN)] = state[_index(k) + mean_]
        if peek and late == 0:
            model = (state[arm + total_] + y) / (state[arm] + 1.0)
            block[b + first_m + arm * _index(COLUMN)] = model
        at = _index(ends[arm])
        arrived[at] = y
        arrived[at + _index(COLUMN)] = h
        arrived[at + _index(2 * COLUMN)] = model
        ends[arm] = at + np.int64(counts)
        state[arm + assigned_] += 1.0
        block[b + _index(ARRIVED)] = counts
        if rows is not None:
            rows.code[b], rows.outcome[b], rows.late[b] = arm, y, late
        if calendar is None:
            state[arm] += counts
            state[arm + total_] += y if counts > 0.0 else -0.0
            state[arm + mean_] = state[arm + total_] / max(state[arm], 1.0)
        else:  # what arrives after the horizon goes to a step that is never played, and leaves its slot free
            due = _index(min(t + max(late, 1), horizon + 1))
            calendar.arm[_index(free)] = arm
            calendar.outcome[_index(free)] = y
            after = calendar.previous[_index(free)]
            after = after if after else free + 1
            kept = due <= horizon
            calendar.previous[_index(free)] = calendar.last[due] if kept else after
            calendar.last[due] = free if kept else 0
            free = after if kept else free
    if calendar is not None:
        calendar.free[0] = free
    if greedy and stop - 1 > burn_in:
        p[:] = eps / max(n_arms - 1, 1)
        p[best] = 1.0 - eps
    return 0


@compiled(nogil=True, error_model="numpy")
def play_two(stream, steps, experiment, desk):
    """`play` for two arms under epsilon-greedy, with normal outcomes that arrive at once or never.

    The paper's own case, and the commonest: what is known of two arms fits the registers.
    """
    arms, delays, rule, peek = experiment.arms, experiment.delays, experiment.rule, experiment.peek
    start, stop = steps.start, steps.stop
    block, state, arrived, ends, share = desk.block, desk.state, desk.arrived, desk.ends, rule.share
    root_best, root_other, root_half = rule.root_best, rule.root_other, math.sqrt(0.5)
    mean_0, mean_1, sd_0, sd_1 = arms.first[0], arms.first[1], arms.second[0], arms.second[1]
    arrives_0, arrives_1, burn_in = delays.arrives[0], delays.arrives[1], rule.burn_in
    n_0, n_1, sum_0, sum_1 = state[0], state[1], state[2], state[3]
    m_0, m_1, assigned_0, assigned_1 = state[4], state[5], state[6], state[7]
    end_0, end_1 = _index(0), _index(3 * COLUMN)
    streams.fill_uniform(stream, block, np.int64(CHOICE), stop - start)
    streams.fill_normal(stream, block, NOISE, stop - start)
    if not delays.sure.all():
        streams.fill_uniform(stream, block, np.int64(LATENESS), stop - start)
    for t in range(start, stop):
        b = _index(t - start)
        u, z, v = block[b], block[b + _index(NOISE)], block[b + _index(LATENESS)]
        eps, h_best, h_other = 0.5, root_half, root_half
        if t > burn_in:
            eps, h_best, h_other = share[_index(t)], root_best[_index(t)], root_other[_index(t)]
        second_best = t > burn_in and m_1 > m_0
        h_0 = h_other if second_best else h_best
        h_1 = h_best if second_best else h_other
        block[b + _index(FIRST_H)], block[b + _index(FIRST_H + COLUMN)] = h_0, h_1
        block[b + _index(FIRST_H + 2 * COLUMN)], block[b + _index(FIRST_H + 3 * COLUMN)] = m_0, m_1
        if (u < eps) == (second_best or t <= burn_in):
            y = mean_0 + sd_0 * z
            counts = 1.0 if v < arrives_0 else 0.0
            model = m_0
            if peek and v < arrives_0:
                model = (sum_0 + y) / (n_0 + 1.0)
                block[b + _index(FIRST_H + 2 * COLUMN)] = model
            arrived[end_0], arrived[end_0 + _index(COLUMN)], arrived[end_0 + _index(2 * COLUMN)] = y, h_0, model
            end_0 += _index(counts)
            n_0 += counts
            sum_0 += y if v < arrives_0 else -0.0
            m_0 = sum_0 / max(n_0, 1.0)
            assigned_0 += 1.0
        else:
            y = mean_1 + sd_1 * z
            counts = 1.0 if v < arrives_1 else 0.0
            model = m_1
            if peek and v < arrives_1:
                model = (sum_1 + y) / (n_1 + 1.0)
                block[b + _index(FIRST_H + 3 * COLUMN)] = model
            arrived[end_1], arrived[end_1 + _index(COLUMN)], arrived[end_1 + _index(2 * COLUMN)] = y, h_1, model
            end_1 += _index(counts)
            n_1 += counts
            sum_1 += y if v < arrives_1 else -0.0
            m_1 = sum_1 / max(n_1, 1.0)
            assigned_1 += 1.0
        block[b + _index(ARRIVED)] = counts
    state[0], state[1], state[2], state[3] = n_0, n_1, sum_0, sum_1
    state[4], state[5], state[6], state[7] = m_0, m_1, assigned_0, assigned_1
    ends[0], ends[1] = end_0, end_1


@compiled(nogil=True)
def begin(desk):
    """Clear the desk for a new run."""
    n_arms = len(desk.ends)
    desk.state[:] = 0.0
    desk.state[TOTAL * n_arms : (MEAN + 1) * n_arms] = -0.0
    desk.state[P * n_arms : (P + 1) * n_arms] = 1.0 / n_arms
    desk.state[ROOT * n_arms : (ROOT + 1) * n_arms] = math.sqrt(1.0 / n_arms)
    forget(desk.memo)


@compiled(nogil=True)
def forget(memo):
    """Clear the memo, if there is one."""
    if memo is not None:
        memo[GRID] = math.nan


@compiled(nogil=True, fastmath=_VECTORS)
def add_spread(out, block, k, n, shift):
    """Add a block's sums over all rows."""
    h = h2 = hm = h2m = h2m2 = h_arrived = 0.0
    at = FIRST_H + k * COLUMN
    roots, arrived = block[at : at + n], block[ARRIVED : ARRIVED + n]
    m = block[at + len(out) * COLUMN : at + len(out) * COLUMN + n]
    for i in range(n):
        root = roots[i]
        p = root * root
        x = m[i] - shift
        h += root
        h2 += p
        hm += root * x
        h2m += p * x
        h2m2 += p * x * x
        h_arrived += root * arrived[i]
    out[k, moments.H] += h
    out[k, moments.H2] += h2
    out[k, moments.HM] += hm
    out[k, moments.H2M] += h2m
    out[k, moments.H2M2] += h2m2
    out[k, moments.H_ARRIVED] += h_arrived


@compiled(nogil=True, fastmath=_VECTORS, error_model="numpy")
def add_own(out, arrived, k, n, shift):
    """Add a block's sums over an arm's arrived rows: in two loops, as many as there are registers for."""
    at = k * 3 * COLUMN
    outcome, h, model = arrived[at : at + n], arrived[at + COLUMN : at + COLUMN + n], arrived[at + 2 * COLUMN :]
    sy = sy2 = sy3 = sy4 = sw = swy = swm = sw2 = sw2y = sw2y2 = sw3 = sw3y = sw3y2 = 0.0
    for i in range(n):
        y, m = outcome[i] - shift, model[i] - shift
        w, y2 = 1.0 / h[i], y * y
        w2 = w * w
        w3 = w2 * w
        sy += y
        sy2 += y2
        sy3 += y2 * y
        sy4 += y2 * y2
        sw += w
        swy += w * y
        swm += w * m
        sw2 += w2
        sw2y += w2 * y
        sw2y2 += w2 * y2
        sw3 += w3
        sw3y += w3 * y
        sw3y2 += w3 * y2
    sw4 = sw4y = sw4y2 = sw6 = sw6y = sw6y2 = sm = sym = sm2 = sw2m = sw2ym = sw2m2 = 0.0
    for i in range(n):
        y, m = outcome[i] - shift, model[i] - shift
        w2, y2 = 1.0 / (h[i] * h[i]), y * y
        w4, w2m = w2 * w2, w2 * m
        w6 = w4 * w2
        sw4 += w4
        sw4y += w4 * y
        sw4y2 += w4 * y2
        sw6 += w6
        sw6y += w6 * y
        sw6y2 += w6 * y2
        sm += m
        sym += y * m
        sm2 += m * m
        sw2m += w2m
        sw2ym += w2m * y
        sw2m2 += w2m * m
    least = _ONE_BITS
    for bits in h.view(np.int64):  # positive numbers are ordered as their bits, and vectors of integers have minima
        least = min(least, bits)
    out[k, moments.ARRIVED] += n
    if n:
        out[k, moments.W_MAX] = max(out[k, moments.W_MAX], 1.0 / np.int64(least).view(np.float64))
    out[k, moments.Y] += sy
    out[k, moments.Y2] += sy2
    out[k, moments.Y3] += sy3
    out[k, moments.Y4] += sy4
    out[k, moments.W] += sw
    out[k, moments.WY] += swy
    out[k, moments.WM] += swm
    out[k, moments.W2] += sw2
    out[k, moments.W2Y] += sw2y
    out[k, moments.W2Y2] += sw2y2
    out[k, moments.W3] += sw3
    out[k, moments.W3Y] += sw3y
    out[k, moments.W3Y2] += sw3y2
    out[k, moments.W4] += sw4
    out[k, moments.W4Y] += sw4y
    out[k, moments.W4Y2] += sw4y2
    out[k, moments.W6] += sw6
    out[k, moments.W6Y] += sw6y
    out[k, moments.W6Y2] += sw6y2
    out[k, moments.M] += sm
    out[k, moments.YM] += sym
    out[k, moments.M2] += sm2
    out[k, moments.W2M] += sw2m
    out[k, moments.W2YM] += sw2ym
    out[k, moments.W2M2] += sw2m2


@compiled
def is_minus_zero(x):
    """Return whether a number is -0.0."""
    return x == 0.0 and math.copysign(1.0, x) < 0.0


@compiled(nogil=True)
def add_unmodelled(out, block, arrived, k, n, n_arrived):
    """Add a block's sums over rows before an arm's first arrival, whose model is -0.0."""
    at = FIRST_H + k * COLUMN
    for i in range(n):
        if not is_minus_zero(block[at + len(out) * COLUMN + i]):
            break
        out[k, moments.H_UNMODELLED] += block[at + i]
    at = k * 3 * COLUMN
    for i in range(n_arrived):
        if is_minus_zero(arrived[at + 2 * COLUMN + i]):
            out[k, moments.W_UNMODELLED] += 1.0 / arrived[at + COLUMN + i]


@compiled(nogil=True)
def replicate(out, states, experiment, own_policy, two, desk, calendar):
    """Fill `out` (runs, arms, moments), a run for each stream; return where the policy failed, or (-1, 0)."""
    arms, rule, horizon, shift = experiment.arms, experiment.rule, experiment.horizon, experiment.arms.shift
    n_arms = len(shift)
    simple = arms.all_normal and rule.kind == EPSILON_GREEDY and rule.batch == 1
    unmodelled = np.empty(n_arms, np.bool_)
    for run in range(len(states)):
        begin(desk)
        for start in range(1, horizon + 1, BLOCK):
            stop = min(start + BLOCK, horizon + 1)
            steps = Steps(start, stop)
            for k in range(n_arms):
                unmodelled[k] = desk.state[k] == 0.0
            is_played = False
            if calendar is None and two is not None:  # else numba leaves out `play_two`, which takes long to compile
                if simple:
                    play_two(states[run], steps, experiment, desk)
                is_played = simple
            if not is_played:
                failed = play(states[run], steps, experiment, own_policy, two, desk, calendar, None)
                if failed:
                    return run, failed
            for k in range(n_arms):
                add_spread(out[run], desk.block, k, stop - start, shift[k])
                n_arrived = desk.ends[k] - k * 3 * COLUMN
                add_own(out[run], desk.arrived, k, n_arrived, shift[k])
                if unmodelled[k]:
                    add_unmodelled(out[run], desk.block, desk.arrived, k, stop - start, n_arrived)
        for k in range(n_arms):
            out[run, k, moments.ASSIGNED] = desk.state[ASSIGNED * n_arms + k]
    return -1, 0


@cache
def for_own_policy(plain):
    """Return `play` and `replicate` for a user's own policy: not kept on disk, and not compiled if it is `plain`."""
    if plain:
        return play.py_func, _rebound(replicate.py_func, play.py_func)
    own = compiled(play.py_func, cache=False, nogil=True, error_model="numpy")
    return own, compiled(_rebound(replicate.py_func, own), cache=False, nogil=True)


def _rebound(function, other_play):
    """Return the same function, calling another `play`."""
    return FunctionType(function.__code__, globals() | {"play": other_play}, function.__name__)
