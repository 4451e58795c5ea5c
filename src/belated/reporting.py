"""Reporting: everything a report shows, asked of one log; the page itself is made in `display.report`."""

from __future__ import annotations

import datetime as dt
import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from belated.analysis import MANY, Analysis
from belated.answers import Answer, Estimate, estimate
from belated.backends import views
from belated.backends.reading import read
from belated.backends.source import Source
from belated.columns import Array
from belated.comparison import Comparison, compare
from belated.display.report import Arrivals, Check, Chosen, Report, render
from belated.errors import BelatedWarning, OptionError
from belated.files import check_place, write_whole
from belated.log import Log
from belated.signs import direction, drift, miscalibration, p_words, single_value
from belated.tables import count, one_line
from belated.trajectory import trajectory
from belated.version import __version__

_MOMENTS = 40


def report(
    log: Source | Log,
    path: str | Path,
    *,
    title: str | None = None,
    estimator: str | None = None,
    baseline: Any = None,
    contrasts: Sequence[tuple[Any, Any]] = (),
    policies: Sequence[Mapping[Any, float]] = (),
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
    policies : sequence of dict
        Further questions: what each policy would earn.
    """
    check_place(path)
    source = log if isinstance(log, Source) else source_of(log)
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
    )  # fmt: skip
    return write_whole(path, render(made))


def source_of(log: Log) -> Source:
    """Return a log in memory as a table, for what engines are asked."""
    import pyarrow as pa

    if not isinstance(log, Log):
        raise OptionError(f"`log` is a {type(log).__name__}; it must be what `read` gives, or a Log.")
    arrived = log.assigned_at if log.arrived_at is None else log.arrived_at
    out = np.isnan(log.outcome)
    labels = [log.arms[k] for k in log.code.tolist()]
    chances = {"p": log.propensity} if log.propensity.ndim == 1 else {
        f"p{k}": log.propensity[:, k] for k in range(len(log.arms))
    }  # fmt: skip
    alike = len({type(label) for label in log.arms}) == 1 and isinstance(log.arms[0], (str, int, float, bool))
    table = pa.table(
        {
            "arm": labels if alike else list(map(str, labels)),
            "outcome": pa.array(log.outcome, mask=out),
            "assigned_at": log.assigned_at,
            "arrived_at": pa.array(arrived, mask=out),
            **chances,
        }
    )
    arms = log.arms if alike else tuple(map(str, log.arms))
    where: Any = "p" if "p" in chances else dict(zip(arms, chances, strict=True))
    return read(
        table, arm="arm", outcome="outcome", assigned_at="assigned_at", arrived_at="arrived_at", propensity=where,
        arms=arms, as_of=log.as_of,
    )  # fmt: skip


def gather(
    source: Source,
    result: Estimate,
    *,
    comparison: Comparison | None = None,
    baseline: Any = None,
    asked: Sequence[Answer] = (),
    told: Sequence[str] = (),
    title: str | None = None,
    command: str | None = None,
) -> Report:
    """Ask a log for everything that a report shows beside an estimate of it.

    `asked` are answers to further questions, `told` warnings, and `command` what makes the report again.
    """
    level, kind = result.level, result.interval
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BelatedWarning)  # the estimate has said it
        compared = compare(source, level=level) if comparison is None else comparison
        moved = trajectory(source, result.estimator, at=_MOMENTS, level=level, interval=kind)
    if baseline is None and len(result.arms) > MANY:
        baseline = result.arms[0]
    bins = views.time_bins(source)
    return Report(
        title=source.name if title is None else title,
        estimate=result,
        baseline=baseline,
        contrasts=result.contrasts(baseline) if len(result.arms) > 1 else None,
        asked=tuple(asked),
        comparison=compared,
        trajectory=moved if len(moved) > 1 else None,
        arrivals=_arrivals(source),
        chosen=_chosen(source, bins),
        within=source.within,
        outcome=source.outcome,
        warnings=tuple(dict.fromkeys(told)),
        notes=source.notes,
        checks=tuple(findings(source, result, bins)),
        how=tuple(_how(source)),
        command=command,
        version=__version__,
        made=dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )


# ---------------------------------------------------------------- arrivals and choices


def _arrivals(source: Source) -> Arrivals | None:
    found = views.arrival_counts(source)
    if found is None:
        return None
    share = arrived_within(found.counts)
    n = found.counts.sum(axis=(1, 2))
    out = found.counts[:, -1, :]  # by the age of the row
    with np.errstate(invalid="ignore", divide="ignore"):
        arrived = 1 - out.sum(axis=1) / n
        overdue = np.array([out[k, _late(found, k) :].sum() / n[k] for k in range(len(n))])
    if source.within is not None:  # all windows have closed
        overdue = 1 - arrived
    delays: Array = found.delays
    if source.clock.unit is not None:
        delays = delays.astype(np.int64).astype("timedelta64[us]")
    return Arrivals(source.arms, delays, share, arrived, 1 - arrived - overdue, overdue)


def arrived_within(counts: Array) -> Array:
    """Return, by arm and delay, the share of outcomes that arrive so soon: a life table of `views.ArrivalCounts`.

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


def _late(found: views.ArrivalCounts, arm: int) -> int:
    """Return the bin by which 99 % of an arm's arrivals had come: who is out for longer is overdue.

    No one is in an experiment that has not run for twice that time: what comes later has hardly had the chance.
    """
    came = found.counts[arm, :-1].sum(axis=1)
    late = int(np.searchsorted(np.cumsum(came), 0.99 * came.sum()))
    return late if came.any() and 2 * found.delays[late] <= found.followed else len(came)


def _chosen(source: Source, bins: views.TimeBins) -> Chosen | None:
    total = bins.assigned.sum(axis=1)
    there = total > 0
    if there.sum() < 2:
        return None
    with np.errstate(invalid="ignore", divide="ignore"):
        share = bins.assigned / total[:, np.newaxis] if bins.propensity is None else bins.propensity
    moments = source.clock.show_many(np.floor(bins.moments) if source.clock.unit is not None else bins.moments)
    return Chosen(source.arms, moments[there], share[there], bins.propensity is not None)


# ---------------------------------------------------------------- what was assumed


def findings(source: Source, result: Estimate, bins: views.TimeBins) -> list[Check]:
    """Return what the estimates assume, and what the log says about each."""
    return [
        _probabilities(source),
        _arrival(source, result),
        _overlap(result),
        _steady(bins),
        Check(
            "One assignment does not influence the outcome of another.",
            "This follows from how the experiment was run; no log can show it.",
            "unknown",
        ),
    ]


def _light(p_value: float, bad: float) -> str:
    return "bad" if p_value < bad else "attention" if p_value < 0.01 else "good"


def _probabilities(source: Source) -> Check:
    assumption = "The logged probabilities are those by which the arms were chosen."
    found = views.calibration(source)
    if found is None:
        return Check(
            assumption, "Only the chosen arm's probability is logged, so choices cannot be checked.", "unknown"
        )
    excess, variance = found
    p_value = miscalibration(excess, variance)
    if math.isnan(p_value):
        return Check(assumption, "Every choice was certain, so choices cannot be checked.", "unknown")
    light = _light(p_value, 1e-4)
    z = np.abs(excess) / np.sqrt(np.where(variance > 0, variance, math.inf))
    worst = int(np.argmax(z[:-1]))
    if light == "good":
        said = "Every arm was chosen about as often as its probabilities say"
    elif z[worst] > min(3.0, z[-1]):
        times = float(source.assigned[worst])
        said = (
            f"Arm {one_line(repr(source.arms[worst]), 40)} was chosen {times:,.0f} times; its probabilities say "
            f"{times - excess[worst]:,.1f}"
        )
    else:
        less = "less" if excess[-1] < 0 else "more"
        said = f"Likely arms were chosen {less} often than their probabilities say"
    return Check(assumption, f"{said} (p {p_words(p_value)}).", light)


def _arrival(source: Source, result: Estimate) -> Check:
    assumption = "Given the arm, whether and when an outcome arrives does not depend on what it is."
    if source.within is not None:
        return Check(
            assumption, f"Every outcome is known {source.within} after its assignment, whatever it is.", "good"
        )
    value = single_value(result.sums)
    if value is not None:
        only = f"Every outcome that has arrived is {value:g}, as if others were never recorded."
        return Check(assumption, only, "bad")
    p_value, z = source.dependence
    cannot = "About outcomes that never come the log is silent."
    if math.isnan(p_value):
        return Check(
            assumption, f"Outcomes are too few or too much alike to compare early with late ones. {cannot}", "unknown"
        )
    light, p = _light(p_value, 1e-3), f"p {p_words(p_value)}"
    said = {
        "bad": f"Early and late outcomes differ: {direction(z)} ({p}).",
        "attention": f"Early and late outcomes may differ: {direction(z)} ({p}).",
        "good": f"Early and late outcomes are alike ({p}). {cannot}",
    }
    return Check(assumption, said[light], light)


def _overlap(result: Estimate) -> Check:
    assumption = "Every arm keeps enough of a chance that no single row decides."
    sums = result.sums
    if not sums["w"].any():
        return Check(assumption, "No outcome has arrived.", "unknown")
    with np.errstate(invalid="ignore", divide="ignore"):
        largest = np.where(sums["w"] > 0, sums["w_max"] / sums["w"], 0.0)
    worst = int(np.argmax(largest))
    said = (
        f"The heaviest row of arm {one_line(repr(result.arms[worst]), 40)} has {largest[worst]:.1%} of its weight: "
        f"the arm's outcomes count like {result.effective_size[worst]:,.0f} of equal weight."
    )
    light = "bad" if largest[worst] > 0.2 else "attention" if largest[worst] > 0.05 else "good"
    return Check(assumption, said, light)


def _steady(bins: views.TimeBins) -> Check:
    assumption = "An arm's outcomes are of the same kind from beginning to end."
    coarse = [table.reshape(-1, 4, table.shape[1]).sum(axis=1) for table in (bins.arrived, bins.y, bins.y2)]
    p_value = drift(*coarse)
    if math.isnan(p_value):
        return Check(assumption, "Outcomes are too few or too much alike to compare stretches of time.", "unknown")
    light = _light(p_value, 1e-4)
    alike = {
        "bad": "change over time",
        "attention": "may change over time",
        "good": "are alike in ten stretches of time",
    }
    return Check(assumption, f"Mean outcomes {alike[light]} (p {p_words(p_value)}).", light)


def _how(source: Source) -> list[tuple[str, str]]:
    how = "streamed through the compiled kernel" if source.is_streamed else "sums computed by the engine"
    return [
        ("source", source.name),
        ("columns", source.roles.line(options=False).removeprefix("columns: ")),
        ("rows", count(len(source), "row")),
        ("as of", "everything that has arrived" if source.moment is None else source.clock.text(source.moment)),
        ("engine", f"{source.engine}, {how}"),
    ]
