"""Report: one page that answers an experiment, for those who did not run it.

Results are taken as they come (`Estimate`, `Contrasts`, `Comparison`, `Trajectory`); this room puts them into words,
tables and charts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from belated.assumptions.lights import LIGHTS
from belated.base.errors import OptionError
from belated.base.pages import page
from belated.base.tables import Column
from belated.base.text import count, one_line, p_words, percent
from belated.estimation.pairs import default_pairs
from belated.reports import charts
from belated.reports.narrative import answer, question, strongest, upper
from belated.summaries.evidence import SHARE_WITH_EVENT

#: What to know about each estimator beside the others.
REMARKS = {
    "daipw": "Adjusts for the policy's choices and for outcomes that are late or never come; a model narrows it.",
    "dipw": "Adjusts for the same without an outcome model: right too, often a little wider.",
    "mean": "The average of what arrived. Wrong: the policy drops an arm after bad luck, so its average stays too low.",
    "hajek": "Right, but every assignment counts alike, and the rarely chosen ones make it wide.",
    "nh": "The usual AIPW. Wrong when outcomes are late or never come: it takes them as equal to its prediction.",
    "nh0": "The usual IPW. Wrong when outcomes are late or never come: it takes them as 0.",
    "iad": "Takes every arm to lose the same share of its outcomes. Wrong when the shares differ.",
}

_MOST_ROWS, _MOST_RIBBONS, _LONG = 24, 6, 30


@dataclass(frozen=True)
class Arrivals:
    """When outcomes arrive, by arm.

    Attributes
    ----------
    arms : sequence
    delays : array of numbers or timedelta64
    share : array (arms, delays)
        Arrived within each delay among the rows old enough to tell; NaN where there are none.
    arrived, still_out, overdue : array (arms,)
        Shares of an arm's assignments: came, may still come, should have come. They add up to 1.
    """

    arms: Sequence[Any]
    delays: Any
    share: Any
    arrived: Any
    still_out: Any
    overdue: Any


@dataclass(frozen=True)
class Chosen:
    """What the policy did over time.

    Attributes
    ----------
    arms : sequence
    moments : array of numbers or datetime64
    share : array (moments, arms)
        The mean probability of each arm; or, with `probabilities` false, its share of the assignments.
    probabilities : bool
    """

    arms: Sequence[Any]
    moments: Any
    share: Any
    probabilities: bool = True


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """What a report is made of; `render` makes it a page.

    Attributes
    ----------
    title : str
    estimate : Estimate
    baseline : label or None
    contrasts : Contrasts or None
        ``estimate.contrasts(baseline)``; None with one arm.
    asked : tuple of Answer
        Further questions: policies, single contrasts.
    comparison : Comparison or None
    trajectory : Trajectory or None
    sequence : ConfidenceSequence or None
    arrivals : Arrivals or None
    chosen : Chosen or None
    within : str or None
        Such as "7 days": outcomes count if they came within this time of their assignment.
    outcome : str
        What the outcome is called, such as "revenue".
    warnings, notes : tuple of str
        Loud ones, and quiet ones.
    diagnosis : Diagnosis or None
        What speaks against the assumptions.
    how : tuple of (name, value)
        Facts about how it was computed.
    command : str or None
        The shell command that makes it again.
    version : str
    made : str
        The date.
    """

    title: str
    estimate: Any
    baseline: Any | None = None
    contrasts: Any | None = None
    asked: tuple[Any, ...] = ()
    comparison: Any | None = None
    trajectory: Any | None = None
    sequence: Any | None = None
    arrivals: Arrivals | None = None
    chosen: Chosen | None = None
    within: str | None = None
    outcome: str = "outcome"
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    diagnosis: Any | None = None
    how: tuple[tuple[str, str], ...] = ()
    command: str | None = None
    version: str = ""
    made: str = ""

    def __post_init__(self) -> None:
        if self.contrasts is not None and len(self.contrasts) != len(self.pairs):
            raise OptionError(
                f"`contrasts` holds {count(len(self.contrasts), 'answer')}; these arms make {len(self.pairs)}."
            )

    @cached_property
    def pairs(self) -> list[tuple[Any, Any]]:
        """The arms of each contrast: every arm with the baseline, or all pairs if there is none."""
        return default_pairs(self.estimate.arms, self.baseline)

    @cached_property
    def ranked(self) -> list[int]:
        """The arms that have an estimate, by number: those with an interval before those without, the highest first."""
        answers = self.estimate.arm_answers
        known = [k for k, one in enumerate(answers) if not math.isnan(one.estimate)]
        return sorted(known, key=lambda k: (math.isnan(answers[k].low), -answers[k].estimate))

    @cached_property
    def main(self) -> tuple[Any, Any] | None:
        """The contrast that matters most: of the highest arm with the baseline, or with the next."""
        arms = [self.estimate.arms[k] for k in self.ranked]
        if self.baseline is not None:
            arms = [arm for arm in arms if arm != self.baseline]
            return (arms[0], self.baseline) if arms else None
        return (arms[0], arms[1]) if len(arms) > 1 else None

    @property
    def level(self) -> float:
        """The level of the intervals."""
        return float(self.estimate.level)

    @property
    def measure(self) -> str:
        """What is estimated, in words."""
        return self.quantity + (f" within {self.within}" if self.within else "")

    @property
    def quantity(self) -> str:
        """What is averaged, in words; the mean of whether something happened is a share."""
        return SHARE_WITH_EVENT if self.outcome == SHARE_WITH_EVENT else f"mean {one_line(self.outcome)}"

    def look(self, arm: Any) -> int:
        """Return the colour and marker of an arm; with many arms all of them look alike."""
        arms = list(self.estimate.arms)
        return arms.index(arm) if len(arms) <= charts.LOOKS else 0


def render(report: Report) -> str:
    """Return a report as one page of HTML, which needs no other file."""
    assigned, arrived = (int(report.estimate.sums[name].sum()) for name in ("assigned", "arrived"))
    share = f" ({arrived / assigned:.1%})" if assigned else ""
    as_of = report.estimate.as_of
    how = {"estimator": report.estimate.estimator.name, "interval": report.estimate.interval}
    how |= {"version": f"belated {report.version}"} if report.version else {}
    how |= {"made": report.made} if report.made else {}
    return page(
        "belated.reports",
        "report.html",
        report=report,
        question=question(report),
        answer=answer(report),
        facts=[
            count(assigned, "assignment"),
            f"{count(arrived, 'outcome')} arrived{share}",
            *([f"as of {as_of}"] if as_of else []),
            f"{report.estimate.estimator.name}, {percent(report.level)} intervals",
        ],
        lights=LIGHTS,
        how=dict(report.how) | {name: value for name, value in how.items() if name not in dict(report.how)},
        arms=_arms(report),
        contrasts=_contrasts(report),
        asked=_asked(report),
        moved=_moved(report),
        looked=_looked(report),
        arrivals=_arrivals(report),
        chosen=_chosen(report),
        estimators=_estimators(report),
    )


# ---------------------------------------------------------------- tables and charts


@dataclass(frozen=True)
class Sheet:
    """A table of the page: a caption and columns."""

    caption: str
    columns: list[Column]

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """The cells, as text."""
        return list(zip(*(column.texts() for column in self.columns), strict=True))

    @property
    def is_long(self) -> bool:
        """Whether it is folded away on a screen."""
        return len(self.columns[0].values) > _LONG


@dataclass(frozen=True)
class Part:
    """What a section shows: charts, what they show, and a table."""

    charts: list[str]
    caption: str
    sheet: Sheet | None = None
    remarks: tuple[tuple[str, str, bool], ...] = ()


def _arms(report: Report) -> Part:
    estimate = report.estimate
    answers, sums = estimate.arm_answers, estimate.sums
    shown = list(range(len(answers)))
    more = ""
    if len(answers) > _MOST_ROWS:
        shown = report.ranked[:_MOST_ROWS] or shown[:_MOST_ROWS]
        more = f" The {len(shown)} highest of {len(answers)} arms are drawn."
    rows = [_row(estimate.arms[k], answers[k], report.look(estimate.arms[k])) for k in shown]
    columns = [Column("arm", list(estimate.arms), "label"), *_answer_columns(answers)]
    columns += [Column(name, sums[name].astype(int).tolist(), "count") for name in ("assigned", "arrived")]
    if not np.isnan(sums["h"]).any():
        columns.append(Column("ever comes", estimate.observed_share.tolist(), "share"))
    columns.append(Column("eff. size", estimate.effective_size.tolist(), "count"))
    title = f"{upper(report.measure)} by arm"
    return Part(
        [charts.forest(rows, title=title, level=report.level)],
        f"{title}, with {percent(report.level)} intervals.{more}",
        Sheet(f"The arms in numbers; {percent(report.level)} {estimate.interval} intervals", columns),
    )


def _contrasts(report: Report) -> Part | None:
    if report.contrasts is None:
        return None
    answers = list(report.contrasts.answers)
    shown = strongest(answers, _MOST_ROWS)
    rows = [_row(_label(report, *report.pairs[i]), answers[i], report.look(report.pairs[i][0])) for i in shown]
    together = " that hold together" if report.contrasts.simultaneous else ""
    intervals = f"{percent(report.level)} {report.contrasts.interval} intervals{together}"
    title = f"Differences in {report.measure}"
    more = f" The {len(shown)} clearest of {len(answers)} are drawn." if len(shown) < len(answers) else ""
    names = Column("difference", [one.name for one in answers], "label")
    if report.baseline is not None:
        names = Column(f"arm, minus {one_line(report.baseline, 20)}", [arm for arm, _ in report.pairs], "label")
    columns = [names, *_answer_columns(answers, test=True)]
    return Part(
        [charts.forest(rows, title=title, level=report.level, reference=0.0)],
        f"{title}, with {percent(report.level)} intervals{together}. "
        f"An interval that holds 0 leaves open which arm is better.{more}",
        Sheet(f"The differences in numbers; {intervals}, tests against 0", columns),
    )


def _asked(report: Report) -> Part | None:
    if not report.asked:
        return None
    answers = list(report.asked)
    tests = [f"{one.null:g}, {one.alternative}" for one in answers]
    columns = [Column("question", [one.name for one in answers], "label"), *_answer_columns(answers, test=True)]
    title = f"Further questions about {report.measure}"
    rows = [_row(one.name, one, 0) for one in answers[:_MOST_ROWS]]
    return Part(
        [charts.forest(rows, title=title, level=answers[0].level)],
        f"{title}, with {percent(answers[0].level)} intervals.",
        Sheet("The same in numbers", [*columns, Column("tested against", tests, "label")]),
    )


def _moved(report: Report) -> Part | None:
    trajectory = report.trajectory
    if trajectory is None or len(trajectory) < 2:
        return None
    if report.contrasts is None:
        arm = report.estimate.arms[0]
        followed = [(arm, report.look(arm), trajectory.arm(arm))]
        what = upper(report.measure)
    else:
        pairs = [report.pairs[i] for i in strongest(list(report.contrasts.answers), _MOST_RIBBONS)]
        followed = [(_label(report, *pair), report.look(pair[0]), trajectory.contrast(*pair)) for pair in pairs]
        what = f"Differences in {report.measure}"
    series = [_ribbon(name, list(answers.answers.values()), look) for name, look, answers in followed]
    drawn = charts.ribbons(
        trajectory.moments,
        series,
        title=f"{what} as outcomes came in",
        level=report.level,
        xlabel="as of",
        reference=None if report.contrasts is None else 0.0,
    )
    all_of = 1 if report.contrasts is None else len(report.contrasts)
    more = f" The {len(series)} clearest of {all_of} are drawn." if len(series) < all_of else ""
    return Part(drawn, f"{what}, estimated at {count(len(trajectory), 'moment')} from what had arrived by then.{more}")


def _looked(report: Report) -> Part | None:
    """Show the main difference, or the only arm, as it would have been known at every look."""
    if report.sequence is None or not report.ranked:
        return None
    asked = report.main or (report.estimate.arms[report.ranked[0]],)
    track = report.sequence.track(*asked)
    answer = report.sequence.contrast(*asked) if len(asked) == 2 else report.sequence.arm(*asked)
    error = (answer.high - answer.low) / 6 if math.isfinite(answer.high - answer.low) else math.nan
    bands = (
        ("for one look", track.fixed_estimate, track.fixed_low, track.fixed_high),
        ("for every look", track.estimate, track.low, track.high),
    )
    series = []
    for label, values, low, high in bands:
        known = np.isfinite(low) & np.isfinite(high)
        low, high = np.where(known, low, np.nan), np.where(known, high, np.nan)
        series.append(charts.Series(label, values, low, high, error, report.look(asked[0])))
    name, contrast = one_line(track.name, 120), len(asked) == 2
    drawn = charts.ribbons(
        track.moments,
        series,
        title=f"{name} at every look",
        level=track.level,
        xlabel="as of",
        reference=0.0 if contrast else None,
    )
    if answer.why:
        said = f"Nothing can be said yet: {answer.why}"
    else:
        low, high = Column("", [answer.low, answer.high], "estimate", [error] * 2).texts()
        said = f"Now it lies between {low} and {high}."
        if contrast:
            never = "It has never left out 0"
            when = Column("", [answer.excluded_at], "number").texts()[0]
            since = never if answer.excluded_at is None else f"It first left out 0 as of {when}"
            said += f" {since} (always-valid p {p_words(answer.p_value)})."
    kind = report.sequence.kind.replace("_", "-")
    return Part(
        drawn, f"{name}: intervals for one look, and a {percent(track.level)} {kind} confidence sequence. {said}"
    )


def _arrivals(report: Report) -> Part | None:
    arrivals = report.arrivals
    if arrivals is None:
        return None
    share = np.asarray(arrivals.share, dtype=np.float64)
    events = report.within is not None
    title = f"Share {'with an event' if events else 'of outcomes arrived'}, by time since assignment"
    series = [charts.Series(arrivals.arms[k], share[k], look=k) for k in _by_weight(report, arrivals.arms)]
    drawn = charts.curves(
        arrivals.delays,
        series,
        title=title,
        xlabel="time since assignment",
        ylabel="with an event" if events else "arrived",
        steps=True,
    )
    shares = [
        ("arrived", arrivals.arrived),
        ("still out", arrivals.still_out),
        ("overdue or never", arrivals.overdue),
    ]
    if events:
        shares = [("with an event", arrivals.arrived), ("without", arrivals.overdue)]
    columns = [Column(name, np.asarray(values).tolist(), "share") for name, values in shares]
    return Part(
        [drawn] if np.isfinite(share).any() else [],
        f"{title}{'' if events else ', among the assignments old enough to tell'}.",
        Sheet(
            f"Assignments within {report.within}" if events else "Where each arm's outcomes are",
            [Column("arm", list(arrivals.arms), "label"), *columns],
        ),
    )


def _chosen(report: Report) -> Part | None:
    chosen = report.chosen
    if chosen is None:
        return None
    share = np.asarray(chosen.share, dtype=np.float64)
    title = "Probability of each arm" if chosen.probabilities else "Share of assignments by arm"
    series = [charts.Series(chosen.arms[k], share[:, k], look=k) for k in _by_weight(report, chosen.arms)]
    drawn = charts.curves(chosen.moments, series, title=f"{title} over time", xlabel="assigned", ylabel=title.lower())
    why = "" if chosen.probabilities else " The log holds only the chosen arms' probabilities."
    return Part([drawn], f"{title} over time.{why}")


def _estimators(report: Report) -> Part | None:
    comparison = report.comparison
    if comparison is None or not report.ranked:
        return None
    if report.main is not None:
        answers, reference = comparison.contrast(*report.main), 0.0
    else:
        answers, reference = comparison.arm(report.estimate.arms[report.ranked[0]]), None
    by_name = answers.answers
    used = report.estimate.estimator.name
    rows = [_row(name, one, 0 if name == used else -1) for name, one in by_name.items()]
    name = next(iter(by_name.values())).name
    title = f"{one_line(name, 120)} by estimator"
    columns = [Column("estimator", list(by_name), "label"), *_answer_columns(list(by_name.values()))]
    remarks = tuple((one, REMARKS[one], one == used) for one in by_name if one in REMARKS)
    return Part(
        [charts.forest(rows, title=title, level=report.level, reference=reference)],
        f"{title}, with {percent(report.level)} intervals; this report uses {used}.",
        Sheet(
            "The estimators in numbers",
            [*columns, Column("interval", [one.interval for one in by_name.values()], "label")],
        ),
        remarks,
    )


def _label(report: Report, arm: Any, other: Any) -> str:
    """Return a contrast's name, short enough to show both arms."""
    arms = list(report.estimate.arms)
    names = charts.fit_all(arms, 12)
    return f"{names[arms.index(arm)]} - {names[arms.index(other)]}"


def _row(label: Any, one: Any, look: int) -> charts.Interval:
    return charts.Interval(label, one.estimate, one.low, one.high, one.std_error, look)


def _ribbon(label: Any, answers: list[Any], look: int) -> charts.Series:
    values, low, high = ([getattr(one, part) for one in answers] for part in ("estimate", "low", "high"))
    return charts.Series(label, values, low, high, answers[-1].std_error, look)


def _answer_columns(answers: list[Any], *, test: bool = False) -> list[Column]:
    errors = [one.std_error for one in answers]
    names = {"estimate": "estimate", "std_error": "std. error", "low": "low", "high": "high"}
    columns = [
        Column(head, [getattr(one, name) for one in answers], "estimate", errors) for name, head in names.items()
    ]
    return columns + [Column("p", [one.p_value for one in answers], "p_value")] * test


def _by_weight(report: Report, arms: Sequence[Any]) -> list[int]:
    """Return arms by number, in their order if all can have a colour, otherwise the baseline and the highest first."""
    if len(arms) <= charts.LOOKS:
        return list(range(len(arms)))
    labels = list(arms)
    ranked = [labels.index(report.estimate.arms[k]) for k in report.ranked if report.estimate.arms[k] in labels]
    first = [labels.index(report.baseline)] if report.baseline is not None and report.baseline in labels else []
    return list(dict.fromkeys([*first, *ranked, *range(len(labels))]))
