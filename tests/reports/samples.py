"""Reports of small experiments, and how to read a page."""

from __future__ import annotations

import math
import warnings
from html.parser import HTMLParser

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import belated as bl
from belated.assumptions.checks.check import Check
from belated.assumptions.diagnosis import Diagnosis
from belated.base.errors import BelatedWarning
from belated.reports.report import Arrivals, Chosen, Report

HOSTILE = (
    "<script>window.pwned=1</script>",
    "quo\"te' & <img src=x onerror=window.pwned=1>",
    "two\nlines",
    "🎉",
    "שלום",
)
MATURE = 10


CHECKS = (
    Check("outcome and delay", "practice", "Delays do not depend on outcomes.", "green", "p = 0.41."),
    Check("largest weight", "A1, A4", "No row decides.", "amber", "One holds 7%.", "Use the t interval."),
    Check("drift", "practice", "Nothing changes.", "red", f"{HOSTILE[0]} changed.", f"Ask {HOSTILE[1]}."),
    Check("delay tail", "A2", "Delays are not too long.", "grey", "No outcome has come."),
)


def sample_report(names=("A", "B"), means=(1.0, 2.0), rows=240, dates=False, arriving=None, **changes):
    """Return a report of a small experiment: `arriving` limits how many outcomes of an arm arrive."""
    rng = np.random.default_rng(1)
    count = len(names)
    code = rng.integers(count, size=rows)
    outcome = rng.normal(np.array(means)[code])
    delay = rng.integers(0, MATURE, size=rows).astype(float)
    delay[rng.random(rows) < 0.2] = math.inf
    for k, most in (arriving or {}).items():
        delay[np.flatnonzero((code == k) & np.isfinite(delay))[most:]] = math.inf
    step = np.arange(rows)
    arrives_by_now = np.isfinite(delay) & (step + delay < rows)
    delay = np.where(arrives_by_now, delay, math.nan)
    times = {"assigned_at": step, "delay": delay}
    moments, delays = step[::20], np.arange(MATURE + 1)
    if dates:
        start, hour = np.datetime64("2026-01-05T00:00:00"), np.timedelta64(3600, "s")
        late = np.where(arrives_by_now, np.nan_to_num(delay) * hour, np.timedelta64("NaT", "h"))
        times = {"assigned_at": start + step * hour, "delay": late}
        moments, delays = start + moments * hour, delays * hour
    propensity = np.full((rows, count), 1 / count)
    labels = [names[k] for k in code]
    log = bl.Log(labels, np.where(arrives_by_now, outcome, math.nan), propensity, arms=list(names), **times)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BelatedWarning)
        estimate, comparison, trajectory = bl.estimate(log), bl.compare(log), bl.trajectory(log, at=12)
    share = np.array([[np.mean(delay[code == k] <= d) for d in range(MATURE + 1)] for k in range(count)])
    arrived = np.array([arrives_by_now[code == k].mean() for k in range(count)])
    baseline = names[0] if count > 1 else None
    parts = {
        "baseline": baseline,
        "contrasts": estimate.contrasts(baseline) if count > 1 else None,
        "comparison": comparison,
        "trajectory": trajectory,
        "arrivals": Arrivals(
            arms=names,
            delays=delays,
            share=share,
            arrived=arrived,
            still_out=np.zeros(count),
            overdue=1 - arrived,
        ),
        "chosen": Chosen(arms=names, moments=moments, share=propensity[::20]),
        "within": "7 days",
        "outcome": "revenue",
        "diagnosis": Diagnosis("sent.parquet", rows, tuple(names), CHECKS),
        "how": (("source", "sent.parquet"),),
        "command": "belated report sent.parquet",
        "version": "0.1.0",
        "made_at": "2026-03-01",
    }
    return Report(**{"title": "Spring campaign", "estimate": estimate, **parts, **changes})


def event_columns(names=("A", "B"), rows=1_500, whole=False):
    """Return assignments over 20 steps: times, arms and probabilities, and the age of each row's event or infinity."""
    rng = np.random.default_rng(3)
    time = np.sort(rng.uniform(0, 20, rows))
    code = rng.integers(len(names), size=rows)
    age = np.where(rng.random(rows) < 0.15 + 0.05 * code, rng.exponential(2.0 + 2 * code), math.inf)
    if whole:
        time, age = np.floor(time).astype(int), np.floor(age)
    return time, np.array(names)[code], np.full((rows, len(names)), 1 / len(names)), age


def event_log(names=("A", "B"), as_of=14.0, window=10.0, whole=False, arms=None, **options):
    """Return a log of events with many open windows; `arms` may have more than there are rows of."""
    time, arm, propensity, age = event_columns(names, whole=whole)
    there = time <= as_of
    happened = np.flatnonzero(there & (time + age <= as_of))
    chances = np.column_stack([propensity[there], np.zeros((there.sum(), len(arms or names) - len(names)))])
    ages = age[happened].astype(int) if whole else age[happened]
    return bl.Log.of_events(
        arm[there], chances, {"unit": happened, "age": ages}, window=int(window) if whole else window,
        assigned_at=time[there], as_of=int(as_of) if whole else as_of, arms=arms, **options,
    )  # fmt: skip


def event_tables(folder):
    """Write the same experiment as two tables with dates from 1 March 2026 on, and return their paths."""
    time, arm, propensity, age = event_columns()
    start, day = np.datetime64("2026-03-01", "us"), np.timedelta64(86_400_000_000, "us")
    sent = {"id": np.arange(len(time)), "arm": arm, "sent_at": start + time * day}
    sent |= {f"p_{name}": propensity[:, k] for k, name in enumerate("AB")}
    rows = np.flatnonzero(np.isfinite(age))
    bought = {"id": rows, "bought_at": start + (time + age)[rows] * day, "amount": np.round(1 + age[rows], 2)}
    paths = folder / "sent.parquet", folder / "bought.parquet"
    for path, columns in zip(paths, (sent, bought), strict=True):
        parquet.write_table(pa.table(columns), path)
    return paths


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.said = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.said.append(data)


def read_page(html):
    reader = Reader()
    reader.feed(html)
    return reader


def experiment(horizon=2000, seed=1, outcome=bl.arms.normal, means=(1.0, 1.0), delays=None):
    delays = delays or {0: bl.delays.pareto(0.75).censored(0.5), 1: bl.delays.geometric(20)}
    bandit = bl.Bandit({k: outcome(mean) for k, mean in enumerate(means)}, delays)
    return bl.simulate(bandit, bl.policies.epsilon_greedy(decay=0.5, burn_in=0.2), horizon, seed)


def waits(log):
    """Return delays in steps, infinite for never."""
    return np.where(np.isnan(log.outcome), math.inf, log.arrived_at - log.assigned_at)


def changed(log, outcome=None, propensity=None, delay=None):
    """Return the same log with other columns; what has no outcome never comes."""
    outcome = log.outcome if outcome is None else outcome
    delay = np.where(np.isnan(outcome), math.inf, waits(log) if delay is None else delay)
    return bl.Log(
        log.code, outcome, log.propensity if propensity is None else propensity, delay=delay, as_of=len(log.code)
    )


class Tables(HTMLParser):
    """The tables of a page by caption, each as rows of text, the first being the heads."""

    def __init__(self):
        super().__init__()
        self.by_caption, self.tag = {}, ""

    def handle_starttag(self, tag, attrs):
        if tag in ("span", "bdi"):  # of the words of a cell
            return
        self.tag = tag
        if tag == "table":
            self.rows = []
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        if tag in ("span", "bdi"):
            return
        self.tag = ""
        if tag == "table":
            self.by_caption[self.caption] = self.rows

    def handle_data(self, data):
        if self.tag == "caption":
            self.caption = data
        elif self.tag in ("th", "td"):
            self.rows[-1][-1] += data


def read_table(html, caption):
    """Return the rows below the heads of the table whose caption begins so."""
    tables = Tables()
    tables.feed(html)
    (rows,) = [rows for title, rows in tables.by_caption.items() if title.startswith(caption)]
    return rows[1:]


def many_arms(names=tuple("ABCDEFGHIJ"), rows=2_000, seed=3):
    """Return a log of so many arms that not all pairs are shown."""
    rng = np.random.default_rng(seed)
    code = rng.integers(len(names), size=rows)
    delay = rng.integers(0, 20, size=rows).astype(float)
    labels = [names[k] for k in code]
    propensity = np.full((rows, len(names)), 1 / len(names))
    return bl.Log(labels, rng.normal(0.1 * code), propensity, delay=delay, arms=list(names), as_of=rows)


def write_table(log, path):
    """Write a log of steps as a Parquet file, in which the arms are text."""
    arrived = log.arrived
    columns = {
        "step": log.assigned_at,
        "arm": [str(log.arms[k]) for k in log.code],
        "outcome": pa.array(np.where(arrived, log.outcome, 0.0), mask=~arrived),
        "arrived": pa.array(np.where(arrived, log.arrived_at, 0).astype(int), mask=~arrived),
        **{f"p_{arm}": log.propensity[:, k] for k, arm in enumerate(log.arms)},
    }
    parquet.write_table(pa.table(columns), path)
    return path
