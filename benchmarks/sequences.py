"""How often confidence sequences are ever wrong, looking at every arrival, and how wide they are at their target.

python benchmarks/sequences.py --machine "..." > benchmarks/SEQUENCES.md    # an hour on one core
python benchmarks/sequences.py --speed                                      # only the time of ten million arrivals
python benchmarks/sequences.py --events                                     # only events while windows are open
"""

from __future__ import annotations

import argparse
import time
import warnings
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from event_logs import experiment
from made_by import made_by
from numba import njit
from scipy import special, stats

import belated as bl
from belated.kernels import jit

GRID = np.linspace(0.0, 1.0, 1001)
FAMILIES = {
    "normal": (lambda m: bl.arms.normal(m), {"asymptotic": {}, "sub_gaussian": {"sigma": 1.0}}),
    "exponential": (lambda m: bl.arms.exponential(1 + m), {"asymptotic": {}}),
    "lognormal": (lambda m: bl.arms.lognormal(np.log1p(m), 1.0), {"asymptotic": {}}),
    "Student t, 3": (lambda m: bl.arms.student_t(3, m), {"asymptotic": {}}),
    "uniform": (
        lambda m: bl.arms.empirical(0.8 * GRID + 0.2 * (m > 0)),
        {"asymptotic": {}, "bernstein": {"bounds": (0, 1)}},
    ),
    **{
        f"binary, {rate}": (
            lambda m, rate=rate: bl.arms.bernoulli(rate * (1 + m)),
            {"asymptotic": {}, "bernstein": {"bounds": (0, 1)}, "beta_binomial": {}},
        )
        for rate in (0.5, 0.05, 0.02)
    },
}


@njit
def turn(count: np.ndarray, total: np.ndarray, t: int) -> np.ndarray:
    """Favour one of two arms, then the other, over ever longer stretches: what contrasts may suffer from."""
    rest = min(0.5, t**-0.7)
    return np.array([1 - rest, rest] if int(1.5 * np.log(t)) % 2 == 0 else [rest, 1 - rest])


POLICIES = {
    "turning": lambda k: bl.policies.own(turn),
    "uniform": lambda k: bl.policies.uniform(),
    "t^-0.3": lambda k: bl.policies.epsilon_greedy(decay=0.3, burn_in=0.02),
    "t^-0.5": lambda k: bl.policies.epsilon_greedy(decay=0.5),
    "t^-0.7": lambda k: bl.policies.epsilon_greedy(decay=0.7, burn_in=0.02),
    "t^-0.9": lambda k: bl.policies.epsilon_greedy(decay=0.9, burn_in=0.02),
    "Thompson": lambda k: bl.policies.thompson_normal(1 / k, 0.5).batched(20),
    "UCB": lambda k: bl.policies.ucb(decay=0.5),
    "5 batches": lambda k: bl.policies.epsilon_greedy(decay=0.3).batched(4000),
}
DELAYS = {
    "none": bl.delays.none(),
    "geometric": bl.delays.geometric(100),
    "Pareto 0.3": bl.delays.pareto(0.3),
    "half never": bl.delays.pareto(0.75).censored(0.5),
}
#: Family, policy, delays, arms, margin of the first arm.
SETTINGS = [
    ("exponential", "t^-0.5", "none", 2, 0.0), ("lognormal", "t^-0.5", "geometric", 2, 0.0),
    ("binary, 0.05", "t^-0.5", "half never", 2, 0.0), ("normal", "t^-0.5", "half never", 2, 0.0),
    ("Student t, 3", "t^-0.7", "Pareto 0.3", 2, 0.0), ("exponential", "t^-0.7", "geometric", 2, 0.0),
    ("uniform", "t^-0.3", "Pareto 0.3", 5, 0.0), ("binary, 0.5", "t^-0.7", "geometric", 2, 0.2),
    ("normal", "Thompson", "Pareto 0.3", 5, 0.0), ("lognormal", "Thompson", "half never", 2, 0.0),
    ("binary, 0.02", "uniform", "none", 2, 0.0), ("exponential", "UCB", "half never", 5, 0.0),
    ("lognormal", "uniform", "none", 2, 0.0), ("normal", "t^-0.9", "geometric", 2, 0.0),
    ("exponential", "t^-0.9", "half never", 2, 0.0), ("exponential", "5 batches", "none", 5, 0.0),
    ("lognormal", "t^-0.3", "half never", 5, 0.0), ("Student t, 3", "t^-0.9", "half never", 2, 0.0),
    ("uniform", "t^-0.5", "half never", 2, 0.2), ("binary, 0.05", "uniform", "half never", 5, 0.0),
    ("binary, 0.05", "t^-0.7", "Pareto 0.3", 2, 0.5), ("binary, 0.02", "UCB", "geometric", 2, 0.0),
    ("normal", "turning", "none", 2, 0.0), ("normal", "uniform", "none", 20, 0.0),
    ("normal", "t^-0.7", "Pareto 0.3", 5, 0.3),
]  # fmt: skip


# ---------------------------------------------------------------- what people measure


def of_counts(mean: float) -> bl.Arm:
    """Return an arm of Poisson counts, as a sample of 100,000."""
    return bl.arms.empirical(stats.poisson.ppf((np.arange(100_000) + 0.5) / 100_000, mean))


def mostly_zero(share: float, scale: float) -> bl.Arm:
    """Return an arm of outcomes that are 0 but for a share of lognormal ones of mean 50, as a sample of 100,000."""
    n = round(100_000 * share)
    sizes = np.exp(scale * special.ndtri((np.arange(n) + 0.5) / n))
    return bl.arms.empirical(np.concatenate([np.zeros(100_000 - n), 50 * sizes / sizes.mean()]))


METRICS = {
    "mostly 0, .03 lognormal 1": lambda: mostly_zero(0.03, 1.0),
    "mostly 0, .1 lognormal 1": lambda: mostly_zero(0.1, 1.0),
    "mostly 0, .1 lognormal 1.5": lambda: mostly_zero(0.1, 1.5),
    "0 or 9.99 at .03": lambda: bl.arms.empirical([0.0] * 97 + [9.99] * 3),
    "counts of mean .1": lambda: of_counts(0.1),
    "counts of mean 1": lambda: of_counts(1.0),
    "lognormal 1": lambda: bl.arms.lognormal(0, 1.0),
    "lognormal 1.5": lambda: bl.arms.lognormal(0, 1.5),
    "lognormal 2": lambda: bl.arms.lognormal(0, 2.0),
    "exponential": lambda: bl.arms.exponential(1.0),
    "normal, mean 0": lambda: bl.arms.normal(0),
    "normal, mean 20 sd": lambda: bl.arms.normal(20),
    **{f"0/1 at {rate}": lambda rate=rate: bl.arms.bernoulli(rate) for rate in (0.005, 0.03, 0.3, 0.97)},
}
CHOICES = {
    "coin": lambda arm: bl.policies.uniform(),
    "epsilon-greedy": lambda arm: bl.policies.epsilon_greedy(decay=0.5),
    "clipped Thompson": lambda arm: bl.policies.thompson_normal(0.5, 0.3, arm.sd, 100 * arm.sd),
}
ROWS = (30, 100, 300, 1000, 20_000)
AFRESH = 25


def ever_wrong(job: tuple) -> tuple[np.ndarray, float]:
    """Return how often two equal arms and their contrast were ever excluded, and the share of finite contrasts."""
    metric, choice, rows, replications, afresh = job
    arm = METRICS[metric]()
    bandit, policy = bl.Bandit({0: arm, 1: arm}, bl.delays.none()), CHOICES[choice](arm)
    jit.compile_kernels()
    seed = 1000 * list(METRICS).index(metric) + 10 * list(CHOICES).index(choice) + ROWS.index(rows)
    wrong, finite = np.zeros(3), 0
    for r in range(replications):
        log = bl.simulate(bandit, policy, rows, seed, r)
        looks = [rows * i // AFRESH for i in range(1, AFRESH + 1)] if afresh else [rows]
        excluded = np.zeros(3, bool)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bl.BelatedWarning)
            for look in looks:
                sequence = bl.sequence(log.at(look) if afresh else log, null=arm.mean, looks=1)
                answers = [sequence.arm(0), sequence.arm(1), sequence.contrast(1, 0)]
                excluded |= [answer.excluded_at is not None for answer in answers]
        wrong += excluded
        finite += np.isfinite(answers[2].high) and answers[2].why is None
    return wrong / replications, finite / replications


def few(replications: int, rows: int) -> int:
    """Return how many runs of so many rows there are."""
    return replications if rows <= 1000 else max(replications * 3 // 10, 1)


def print_ever_wrong(replications: int, pool: ProcessPoolExecutor) -> None:
    """Print the tables of `ever_wrong`."""
    jobs = [(m, c, rows, few(replications, rows), False) for m in METRICS for rows in ROWS for c in CHOICES]
    errors = [100 * (0.05 * 0.95 / few(replications, rows)) ** 0.5 for rows in (ROWS[0], ROWS[-1])]
    print(
        "## What people measure\n\nTwo equal arms, no delays, `bl.sequence(log)` with its defaults: the share of runs, "
        "in %, in which a 95 % interval excluded the true value at some arrival, so that a wrong exclusion "
        "(`excluded_at`, p at most 0.05) was reported: worse arm / contrast; in brackets, the share of contrasts that "
        "are finite at the end. "
        f"{few(replications, ROWS[0]):,} runs, {few(replications, ROWS[-1]):,} of {ROWS[-1]:,} rows (Monte Carlo error "
        f"at 5 %: {errors[0]:.1f} and {errors[1]:.1f} points). Not covered: arms that differ, more than two arms, and "
        "late outcomes (the table below has these), outcomes that drift, policies that stop choosing an arm.\n"
    )
    print(f"| outcomes | rows | {' | '.join(CHOICES)} |\n|:--|--:|{':--|' * len(CHOICES)}", flush=True)
    cells, worst = [], [0.0, 0.0]
    for (metric, _, rows, *_), (wrong, finite) in zip(jobs, pool.map(ever_wrong, jobs), strict=True):
        arms, contrast = 100 * wrong[:2].max(), 100 * wrong[2]
        worst = [max(worst[0], arms), max(worst[1], contrast)]
        cells.append(f"{arms:.1f} / {contrast:.1f} ({100 * finite:.0f})")
        if len(cells) == len(CHOICES):
            print(f"| {metric} | {rows:,} | {' | '.join(cells)} |", flush=True)
            cells = []
    print(f"\nWorst: arms {worst[0]:.1f}, contrasts {worst[1]:.1f}.\n")
    runs = few(replications, ROWS[-1])
    print(
        "### A new sequence at every look\n\n"
        f"The same with a coin and 1,000 rows, but at {AFRESH} looks a new `bl.sequence(log)` is "
        f"made from the arrived outcomes, with its own kind and target: the share of runs, in %, in which any of them "
        f"was "
        f"ever wrong: first arm / second arm / contrast. {runs:,} runs (Monte Carlo error at 5 %: {errors[1]:.1f} "
        "points). Only a stated target guarantees 5 %.\n\n| outcomes | ever wrong |\n|:--|:--|"
    )
    jobs = [(metric, "coin", 1000, runs, True) for metric in METRICS]
    for metric, (wrong, _) in zip(METRICS, pool.map(ever_wrong, jobs), strict=True):
        print(f"| {metric} | {' / '.join(f'{x:.1f}' for x in 100 * wrong)} |", flush=True)
    print()


# ---------------------------------------------------------------- over segments

SEGMENTED = {
    "normal": lambda mean: bl.arms.normal(mean),
    "exponential": lambda mean: bl.arms.exponential(mean),
    "0/1": lambda mean: bl.arms.bernoulli(mean / 5),
}
LEARNING = {
    "epsilon-greedy": bl.policies.epsilon_greedy(decay=0.3),
    "clipped Thompson": bl.policies.thompson_normal(0.2, 0.0),
}


def wrong_over_segments(job: tuple) -> tuple[np.ndarray, float, float]:
    """Return how often arms and contrast over segments were ever wrong, finite contrasts, and their relative width."""
    metric, choice, segments, rows, replications = job
    late = bl.delays.geometric(20)
    bandit = bl.ContextualBandit(
        {
            f"S{s}": bl.Bandit(
                {"A": SEGMENTED[metric](1.0 + 0.5 * s / segments), "B": SEGMENTED[metric](1.5 - 0.3 * s)},
                {"A": late, "B": late.censored(0.1 + 0.4 * s / segments)},
            )
            for s in range(segments)
        }
    )
    jit.compile_kernels()
    wrong, widths = np.zeros(3), []
    for r in range(replications):
        log = bl.simulate(bandit, LEARNING[choice], rows, 10 * segments + rows, r)
        sequence = bl.sequence(log, null=bandit.means, looks=200)
        answers = [sequence.arm("A"), sequence.arm("B"), sequence.contrast("B", "A")]
        wrong += [answer.excluded_at is not None for answer in answers]
        one = sequence.fixed().contrast("B", "A")
        widths.append((answers[2].high - answers[2].low) / (one.high - one.low))
    finite = np.isfinite(widths)
    return (
        wrong / replications,
        float(finite.mean()),
        float(np.median(np.array(widths)[finite])) if finite.any() else np.nan,
    )


def print_over_segments(replications: int, pool: ProcessPoolExecutor) -> None:
    """Print how often sequences over segments are ever wrong."""
    jobs = [
        (metric, choice, segments, rows, few(replications, rows))
        for metric in SEGMENTED for choice in LEARNING for segments in (2, 4) for rows in (1000, 5000)
    ]  # fmt: skip
    print("## Over segments\n\nA policy that learns by segment, 200 looks, delays of 20 steps.\n")
    print("| outcomes | policy | segments | rows | runs | A, % | B, % | contrast, % | finite, % | width / one look |")
    print("|:--|:--|--:|--:|--:|--:|--:|--:|--:|--:|")
    for job, (wrong, finite, width) in zip(jobs, pool.map(wrong_over_segments, jobs), strict=True):
        shares = " | ".join(f"{100 * share:.1f}" for share in (*wrong, finite))
        print(f"| {' | '.join(map(str, job))} | {shares} | {width:.2f} |", flush=True)
    print()


# ---------------------------------------------------------------- events

#: What is measured, the standard deviation of the logarithm of values, and the rate of events.
EVENTS = [
    ("indicator", 1.0, 0.02), ("indicator", 1.0, 0.1), ("indicator", 1.0, 0.3),
    ("count", 1.0, 0.1), ("count", 1.0, 0.5), ("sum", 1.0, 0.1), ("sum", 1.0, 0.5), ("sum", 1.5, 0.3),
]  # fmt: skip


def wrong_with_events(job: tuple) -> tuple[np.ndarray, float, float]:
    """Return how often arms and contrast were ever wrong, finite contrasts at 1.5 windows, and width against closed."""
    (measure, values, rate), policy, rows, replications, seed = job
    jit.compile_kernels()
    rng, wrong, widths = np.random.default_rng(seed), np.zeros(3), []
    truth, finite = {0: rate, 1: 1.2 * rate}, 0
    for _ in range(replications):
        columns = experiment(rng, rows, tuple(truth.values()), policy=policy, measure=measure, values=values)
        log = columns.log(4.0, measure)
        sequence = bl.sequence(log, null=truth, looks=100)
        wrong += [a.excluded_at is not None for a in (sequence.arm(0), sequence.arm(1), sequence.contrast(1, 0))]
        at = next(look for look, moment in enumerate(sequence.moments) if moment >= 1.5)
        threshold = sequence.design.threshold()
        _, low, high = sequence._interval(at, 1, 0, threshold)
        finite += np.isfinite(high - low) and high - low < 2
        closed = bl.sequence(log.known_at_closing(), sequence.kind, looks=[sequence.moments[at]])
        _, bottom, top = closed._interval(0, 1, 0, threshold)
        widths.append((high - low) / (top - bottom) if max(high - low, top - bottom) < 2 else np.nan)
    known = np.array(widths)[np.isfinite(widths)]
    return wrong / replications, finite / replications, float(np.median(known)) if len(known) else np.nan


def print_with_events(replications: int, only: str, pool: ProcessPoolExecutor) -> None:
    """Print how often sequences of events are ever wrong while windows are open."""
    jobs = [
        (events, policy, rows, few(replications, rows), 7 * i + rows)
        for i, events in enumerate(EVENTS)
        if events[0].startswith(only)
        for policy in ("uniform", "eps-greedy", "thompson")
        for rows in (500, 3000)
    ]
    print("## Events while windows are open\n\nRows are assigned over three windows; the policy learns from the events "
          "so far; mean delays of 0.2 and 0.5 windows; 100 looks from the first closing to 4 windows. Last columns: "
          "the share of runs in which the contrast is finite at 1.5 windows, and there its width over that of the "
          "sequence of closed windows (median). Policies with the same number of rows share their random "
          "numbers.\n")  # fmt: skip
    print("| measure | sd of log values | rate | policy | rows | runs | A, % | B, % | contrast, % | finite, % | width "
          "/ closed |\n|:--|--:|--:|:--|--:|--:|--:|--:|--:|--:|--:|")  # fmt: skip
    worst = np.zeros(3)
    for (events, *rest, _), (wrong, finite, width) in zip(jobs, pool.map(wrong_with_events, jobs), strict=True):
        shares = " | ".join(f"{100 * share:.1f}" for share in (*wrong, finite))
        ratio = "–" if np.isnan(width) else f"{width:.2f}"
        print(f"| {' | '.join(map(str, (*events, *rest)))} | {shares} | {ratio} |", flush=True)
        worst = np.maximum(worst, wrong)
    print(f"\nWorst: arms {100 * worst[:2].max():.1f} %, contrast {100 * worst[2]:.1f} %.\n")


# ---------------------------------------------------------------- kinds, policies, delays, widths


def cell(job: tuple) -> dict:
    """Return, by kind, ever-misses, median width ratios to the fixed-time intervals, and shares that are finite."""
    (family, policy, delay, arms, margin), horizon, replications, seed = job
    make, kinds = FAMILIES[family]
    bandit = bl.Bandit({k: make(margin if k == 0 else 0.0) for k in range(arms)}, DELAYS[delay])
    truth = {k: arm.mean for k, arm in bandit.arms.items()}
    rule = POLICIES[policy](arms)
    jit.compile_kernels()
    facts_by_kind: dict = {kind: [] for kind in kinds}
    for r in range(replications):
        log = bl.simulate(bandit, rule, horizon, seed, r)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bl.BelatedWarning)
            fixed = bl.estimate(log)
            paper = bl.estimate(fixed.sums, interval="normal")
            for kind, options in kinds.items():
                sequence = bl.sequence(log, kind, null=truth, looks=1, **options)
                questions = [(sequence.arm(k), fixed.arm(k), paper.arm(k)) for k in (0, 1)]
                questions.append((sequence.contrast(1, 0), fixed.contrast(1, 0), paper.contrast(1, 0)))
                facts_by_kind[kind].append([_facts(*question) for question in questions])
    summary = {}
    for kind, rows in facts_by_kind.items():
        facts = np.array(rows)  # (replications, questions, facts)
        missed = facts[:, :, 0].mean(axis=0)
        with np.errstate(invalid="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            ratio, classic = (np.nanmedian(facts[:, :, f], axis=0) for f in (1, 2))
        summary[kind] = missed, ratio, classic, np.isfinite(facts[:, :, 1]).mean(axis=0)
    return summary


def _facts(answer: bl.Answer, fixed: bl.Answer, paper: bl.Answer) -> tuple[float, float, float]:
    width = answer.high - answer.low
    # an interval that is all that can be says nothing, as an infinite one does
    width = np.nan if answer.why or width >= 2 or np.isinf(width) else width
    ratios = [width / max(other.high - other.low, 1e-12) for other in (fixed, paper)]
    return float(answer.excluded_at is not None), *ratios


def speed(arrivals: int) -> list[str]:
    """Return the rows of a table: seconds of the estimate's pass and of the sequences', and their ratio."""
    rng = np.random.default_rng(1)
    pi = np.clip(rng.uniform(size=arrivals), 0.05, 0.95)
    code = (rng.uniform(size=arrivals) >= pi).astype(np.int64)
    delay = rng.geometric(0.001, size=arrivals)
    propensity = np.stack([pi, 1 - pi], axis=1)
    lines = []
    for outcomes, kinds in (
        (rng.normal(size=arrivals), {"asymptotic": {}, "sub_gaussian": {"sigma": 1.0}}),
        (
            (rng.uniform(size=arrivals) < 0.3).astype(float),
            {"asymptotic": {}, "bernstein": {"bounds": (0, 1)}, "beta_binomial": {}},
        ),
    ):
        for kind, options in kinds.items():
            times = []
            for _ in range(3):
                pair = []
                for sequential in (False, True):
                    log = bl.Log(code, outcomes, propensity, delay=delay)
                    start = time.perf_counter()
                    _ = bl.sequence(log, kind, **options) if sequential else bl.estimate(log)
                    pair.append(time.perf_counter() - start)
                times.append(pair)
            estimate, sequence = min(times, key=lambda pair: pair[1] / pair[0])
            what = "0/1" if outcomes.max() == 1 else "normal"
            lines.append(f"| {kind}, {what} | {estimate:.2f} | {sequence:.2f} | {sequence / estimate:.2f} |")
    return lines


def print_kinds(replications: int, horizon: int, only: str, pool: ProcessPoolExecutor) -> None:
    """Print the tables of `cell`."""
    chosen = [s for s in SETTINGS if s[0].startswith(only)]
    jobs = [(s, horizon, replications, 100 + SETTINGS.index(s)) for s in chosen]
    error = 100 * (0.05 * 0.95 / replications) ** 0.5
    print(
        "## Kinds, policies, delays and widths\n\nEvery arrival is a look: the share of runs in which a 95 % sequence "
        "ever missed the true value, after it became finite (first arm, second arm, second minus first); its width "
        "at the target over that of the default fixed-time interval (median), over the paper's normal one, and the "
        f"share of runs in which it was finite by then. {horizon:,} assignments, the target being the "
        f"last; {replications:,} replications (Monte Carlo error at 5 %: {error:.1f} points).\n"
    )
    print("| outcomes | policy | delays | arms | kind | ever missed, % | width / default | / paper's | finite, % |")
    print("|:--|:--|:--|--:|:--|:--|:--|:--|:--|", flush=True)
    worst: dict[str, list[float]] = {}
    for setting, summary in zip(chosen, pool.map(cell, jobs), strict=True):
        family, policy, delay, arms, margin = setting
        for kind, (missed, ratio, classic, finite) in summary.items():
            what = f"{family}{f', margin {margin}' if margin else ''} | {policy} | {delay} | {arms} | {kind}"
            cells = [" / ".join(f"{x:.1f}" for x in 100 * missed)]
            cells += [" / ".join("–" if np.isnan(x) else f"{x:.2f}" for x in r) for r in (ratio, classic)]
            cells.append(" / ".join(f"{x:.0f}" for x in 100 * finite))
            print(f"| {what} | {' | '.join(cells)} |", flush=True)
            old = worst.get(kind, [0.0, 0.0, 0.0])
            often = np.where(finite >= 0.5, ratio, 0.0)
            new = missed[:2].max(), missed[2], np.nanmax(often)
            worst[kind] = [max(pair) for pair in zip(old, new, strict=True)]
    print("\n| worst over all settings | arms, % | contrast, % | width / default |\n|:--|--:|--:|--:|")
    for kind, (arm, contrast, width) in worst.items():
        print(f"| {kind} | {100 * arm:.1f} | {100 * contrast:.1f} | {width:.2f} |")
    print("\nWorst widths are over sequences that were finite in at least half of the runs.\n")


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=1000, help="three tenths of these at 20,000 rows")
    parser.add_argument("--horizon", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", default="", help="settings whose family, or measure of events, begins so")
    parser.add_argument("--arrivals", type=int, default=10_000_000)
    parser.add_argument("--speed", action="store_true", help="only the speed")
    parser.add_argument("--segments", action="store_true", help="only sequences over segments")
    parser.add_argument("--events", action="store_true", help="only sequences of events while windows are open")
    options = parser.parse_args()
    if options.segments or options.events:
        with ProcessPoolExecutor(options.workers) as pool:
            if options.segments:
                print_over_segments(options.replications, pool)
            if options.events:
                print_with_events(options.replications, options.only, pool)
        return
    if not options.speed:
        print(f"# Confidence sequences\n\n{made_by()}\n")
        with ProcessPoolExecutor(options.workers) as pool:
            if not options.only:
                print_ever_wrong(options.replications, pool)
                print_over_segments(options.replications, pool)
                print_with_events(options.replications, "", pool)
            print_kinds(few(options.replications, options.horizon), options.horizon, options.only, pool)
        print("## Speed\n")
    print(f"{options.arrivals:,} arrivals, two arms, both timed from the same log in one run.\n")
    print("| sequence | estimate, s | sequence, s | ratio |\n|:--|--:|--:|--:|")
    print("\n".join(speed(options.arrivals)))


if __name__ == "__main__":
    main()
