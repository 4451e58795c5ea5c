"""Reporting: everything a report shows, asked of one log; the page itself is made in `reports.report`."""

from __future__ import annotations

import datetime as dt
import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from belated.assumptions.checks.delays import where_outcomes_are
from belated.assumptions.diagnosis import checked
from belated.base.columns import Array
from belated.base.errors import BelatedWarning
from belated.base.files import check_place, write_whole
from belated.base.version import __version__
from belated.estimation.answers import Answer, Estimate, estimate
from belated.estimation.comparison import Comparison, compare
from belated.estimation.trajectory import trajectory
from belated.log.data import Data, require_data
from belated.reports.analysis import MANY, Analysis
from belated.reports.report import Arrivals, Chosen, Report, render
from belated.sequences import ConfidenceSequence, sequence
from belated.summaries.evidence import Evidence

_MOMENTS = 40

#: Rows that are brought into memory for a confidence sequence.
_MOST_FOLLOWED = 10_000_000


def report(
    log: Data,
    path: str | Path,
    *,
    title: str | None = None,
    estimator: str | None = None,
    baseline: Any = None,
    contrasts: Sequence[tuple[Any, Any]] = (),
    policies: Sequence[Mapping[Any, float] | str] = (),
    level: float = 0.95,
    interval: str = "auto",
) -> Path:
    """Write a report: one HTML file that opens anywhere, to be sent to those who did not run the experiment.

    Parameters
    ----------
    log : what `read` gives, or Log
    path : path
        Of the file; it appears whole or not at all.
    title : str, optional
        By default the name of the table.
    estimator, level, interval
        As in `estimate`; by default "daipw", or "dipw" if only the chosen arm's propensity is known.
    baseline : label, optional
        The arm that the others are compared with; by default all pairs are, or, of many arms, the first.
    contrasts : sequence of (arm, arm)
        Further contrasts, of the first minus the second.
    policies : sequence of dict, or "greedy"
        Further questions: what each policy would earn.
    """
    check_place(path)
    source = require_data(log)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", BelatedWarning)
        best = "daipw" if source.has_all_propensities else "dipw"
        result = estimate(source, estimator or best, level=level, interval=interval)
    told = [str(one.message) for one in caught if issubclass(one.category, BelatedWarning)]
    asked = [*(result.contrast(a, b) for a, b in contrasts), *(result.policy(policy) for policy in policies)]
    made = gather(source, result, baseline=baseline, asked=asked, told=told, title=title)
    return write_whole(path, render(made))


def write_report(found: Analysis, path: str | Path, *, title: str | None = None, command: str | None = None) -> Path:
    """Write the report of an analysis that has been made."""
    asked = [] if found.baseline is None or found.contrasts is None else list(found.contrasts.answers)
    extra = [answer for answer, (_, b) in zip(asked, found.pairs, strict=True) if b != found.baseline] if asked else []
    made = gather(
        found.source, found.result, comparison=found.comparison, baseline=found.baseline,
        asked=[*extra, *found.policy_answers], told=found.warnings, title=title, command=command,
        followed=found.sequence,
    )  # fmt: skip
    return write_whole(path, render(made))


def gather(
    source: Data,
    result: Estimate,
    *,
    comparison: Comparison | None = None,
    baseline: Any = None,
    asked: Sequence[Answer] = (),
    told: Sequence[str] = (),
    title: str | None = None,
    command: str | None = None,
    followed: ConfidenceSequence | None = None,
) -> Report:
    """Ask a log for everything that a report shows beside an estimate of it.

    `asked` are answers to further questions, `told` warnings, and `command` what makes the report again.
    """
    level, kind = result.level, result.interval
    if baseline is None and len(result.arms) > MANY:
        baseline = result.arms[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BelatedWarning)  # the estimate has said it
        compared = compare(source, level=level) if comparison is None else comparison
        moved = trajectory(source, result.estimator, at=_MOMENTS, level=level, interval=kind)
        if followed is None and len(source) <= _MOST_FOLLOWED:
            followed = sequence(source, level=level, looks=_MOMENTS, baseline=baseline)
    found = source.evidence()
    return Report(
        title=source.name if title is None else title,
        estimate=result,
        baseline=baseline,
        contrasts=result.contrasts(baseline) if len(result.arms) > 1 else None,
        asked=tuple(asked),
        comparison=compared,
        trajectory=moved if len(moved) > 1 else None,
        sequence=followed if len(moved) > 1 else None,
        arrivals=_arrivals(found, source.clock.unit is not None),
        chosen=_chosen(source, found),
        within=source.within,
        outcome=source.outcome_name,
        warnings=tuple(dict.fromkeys(told)),
        notes=source.notes,
        diagnosis=checked(found, source.name),
        how=tuple(source.how_read),
        command=command,
        version=__version__,
        made=dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )


# ---------------------------------------------------------------- arrivals and choices


def _arrivals(found: Evidence, dates: bool) -> Arrivals | None:
    if found.arrivals is None:
        return None
    delays: Array = found.arrivals.delays
    if dates:
        delays = delays.astype(np.int64).astype("timedelta64[us]")
    return Arrivals(found.arms, delays, arrived_within(found.arrivals.counts), *where_outcomes_are(found))


def arrived_within(counts: Array) -> Array:
    """Return, by arm and delay, the share of outcomes that arrive so soon: a life table of `evidence.ArrivalCounts`.

    In each bin, of the rows that were followed through it and whose outcome was out before it, the share whose
    outcome came in it.
    """
    arms, _, ages = counts.shape
    share = np.full((arms, ages), math.nan)
    waiting = np.ones(arms)
    for j in range(ages):
        followed = counts[:, :, j:]
        at_risk = followed[:, j:].sum(axis=(1, 2))
        came = followed[:, j].sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            waiting = np.where(at_risk > 0, waiting * (1 - came / at_risk), math.nan)
        share[:, j] = 1 - waiting
    return share


def _chosen(source: Data, found: Evidence) -> Chosen | None:
    assigned = found.sums["assigned"]
    total = assigned.sum(axis=1, keepdims=True)
    there = total[:, 0] > 0
    if there.sum() < 2:
        return None
    share = (assigned if found.p is None else found.p)[there] / total[there]
    moments = source.clock.show_many(np.floor(found.moments) if source.clock.unit is not None else found.moments)
    return Chosen(source.arms, moments[there], share, found.p is not None)
