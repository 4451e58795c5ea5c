"""Gathering: what a report shows beside the answers, asked of the same log."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import ParamSpec, TypeVar

import numpy as np

from belated.assumptions.checks.delays import where_outcomes_are
from belated.assumptions.diagnosis import checked
from belated.base.columns import Array, Label
from belated.base.errors import LogError, OptionError, without_warnings
from belated.base.threads import Threads
from belated.base.version import __version__
from belated.estimation.comparison import compare
from belated.estimation.estimate import Estimate
from belated.estimation.standardised import segment_notes
from belated.estimation.trajectory import trajectory
from belated.log.data import Data
from belated.reports.analysis import Analysis
from belated.reports.report import Arrivals, Chosen, Report
from belated.sequences.design import KindOption
from belated.sequences.sequence import ConfidenceSequence, sequence
from belated.summaries.evidence import Evidence

_P = ParamSpec("_P")
_Result = TypeVar("_Result")

_MOMENTS = 40

#: Rows that are brought into memory for a confidence sequence.
_MOST_FOLLOWED = 10_000_000


def gather(analysis: Analysis, *, title: str | None = None, command: str | None = None) -> Report:
    """Ask a log for everything that a report shows beside the answers of its analysis.

    Parameters
    ----------
    analysis : Analysis
    title : str, optional
        By default the log's name.
    command : str, optional
        The shell command that makes the report again.
    """
    source, result, questions = analysis.source, analysis.result, analysis.questions
    level, compared, followed = result.level, analysis.comparison, analysis.sequence
    with without_warnings(), Threads(1) as aside:  # the analysis has the warnings

        def later(task: Callable[_P, _Result], *arguments: _P.args, **options: _P.kwargs) -> Future[_Result]:
            return aside.submit(copy_context().run, partial(task, *arguments, **options))

        in_memory = source.hold()
        checking = later(source.evidence)
        comparing = later(compare, source, level=level, interval=questions.interval) if compared is None else None
        moving = later(trajectory, source, result.estimator, at=_MOMENTS, level=level, interval=result.interval)
        if not in_memory:  # an engine is asked one question after another
            moving.result()
        if followed is None and len(source) <= _MOST_FOLLOWED:
            with suppress(LogError):  # no window has closed yet
                followed = _sequence_unasked(source, level, analysis.reference)
        buildup = None if result.maturity is None else result.buildup()
        evidence, moved = checking.result(), moving.result()
        compared = compared if comparing is None else comparing.result()
    return Report(
        title=_title(source, result) if title is None else title,
        estimate=result,
        baseline=analysis.reference,
        contrasts=analysis.default_contrasts,
        further=analysis.further,
        comparison=compared,
        trajectory=moved if len(moved) > 1 else None,
        sequence=followed if len(moved) > 1 else None,
        arrivals=None if buildup else arrivals(evidence, dates=source.clock.unit is not None),
        chosen=chosen(source, evidence),
        buildup=buildup,
        windows=analysis.windows,
        within=analysis.within,
        outcome=source.outcome_name,
        warnings=analysis.warnings,
        notes=(*source.notes, *_segment_notes(result)),
        diagnosis=checked(evidence, source.name, result.sums.cap),
        how=tuple(source.how_read),
        command=command,
        version=__version__,
        made_at=dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )


def _segment_notes(result: Estimate) -> list[str]:
    """Return sentences on merged segments and on covariates, if there are any."""
    segments = result.sums.segments
    return [] if segments is None else segment_notes(segments, result.estimator)


def _title(source: Data, result: Estimate) -> str:
    return source.name if source.cap is None else f"{source.name}: {result.estimand}"


def _sequence_unasked(source: Data, level: float, baseline: Label | None) -> ConfidenceSequence | None:
    """Return the sequence that `sequence` makes by default, or None if there is none for such a log.

    It is asymptotic if a cap alone does not bound the outcomes.
    """
    kinds: tuple[KindOption, ...] = ("auto",) if source.cap is None else ("auto", "asymptotic")
    for kind in kinds:
        with suppress(OptionError):
            return sequence(source, kind, level=level, baseline=baseline)
    return None


# ---------------------------------------------------------------- arrivals and choices


def arrivals(evidence: Evidence, *, dates: bool) -> Arrivals | None:
    """Return when outcomes arrive, and where those are that have not; None without delays."""
    if evidence.arrivals is None:
        return None
    delays: Array = evidence.arrivals.delays
    if dates:
        delays = delays.astype(np.int64).astype("timedelta64[us]")
    arrived, still_out, overdue = where_outcomes_are(evidence)
    return Arrivals(
        arms=evidence.arms,
        delays=delays,
        share=arrived_within(evidence.arrivals.counts),
        arrived=arrived,
        still_out=still_out,
        overdue=overdue,
    )


def arrived_within(counts: Array) -> Array:
    """Return, by arm and delay, the share of outcomes that arrive so soon: a life table of `evidence.ArrivalCounts`.

    In each bin, of the rows that were followed through it and whose outcome was out before it, the share whose
    outcome arrived in it.
    """
    arms, _, ages = counts.shape
    share = np.full((arms, ages), math.nan)
    waiting = np.ones(arms)
    for j in range(ages):
        followed = counts[:, :, j:]
        at_risk = followed[:, j:].sum(axis=(1, 2))
        arrived = followed[:, j].sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            waiting = np.where(at_risk > 0, waiting * (1 - arrived / at_risk), math.nan)
        share[:, j] = 1 - waiting
    return share


def chosen(source: Data, evidence: Evidence) -> Chosen | None:
    """Return what the policy did over time; None if fewer than two stretches of it have rows."""
    assigned = evidence.sums["assigned"]
    total = assigned.sum(axis=1, keepdims=True)
    has_rows = total[:, 0] > 0
    if has_rows.sum() < 2:
        return None
    share = (assigned if evidence.p is None else evidence.p)[has_rows] / total[has_rows]
    numbers = np.floor(evidence.moments) if source.clock.unit is not None else evidence.moments
    return Chosen(
        arms=source.arms,
        moments=source.clock.show_many(numbers)[has_rows],
        share=share,
        probabilities=evidence.p is not None,
    )
