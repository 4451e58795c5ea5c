"""The charts and tables of an answer on the pages: those of the report, with few enough rows for a live page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from belated.assumptions.diagnosis import Diagnosis
from belated.base.columns import Array
from belated.base.errors import OptionError
from belated.base.tables import Column
from belated.base.text import count, one_line, percent
from belated.estimation.answers import Answer
from belated.estimation.target import shown_baseline
from belated.live.answers import LiveAnswer
from belated.live.dashboard.cutting import MOST_ROWS, cut, cut_part, rows_of
from belated.live.dashboard.history import ExperimentHistory
from belated.log.data import Data
from belated.reports import charts
from belated.reports.analysis import window_words
from belated.reports.gather import arrivals, chosen
from belated.reports.layout import Part, Section, Sheet, look, pair_name
from belated.reports.narrative import strongest
from belated.reports.report import Arrivals, Report
from belated.reports.sections import arms_section, arrivals_section, differences_section, segments_section
from belated.reports.sections_over_time import buildup_section
from belated.reports.svg import LOOKS
from belated.sequences.answers import SequenceAnswer, Track
from belated.summaries.evidence import Evidence

#: Lines of a chart, charts over time, and looks of each: a fragment has at most 50 kB.
_MOST_LINES, _MOST_RIBBONS, _MOST_LOOKS = 7, 4, 60


class Drawn(NamedTuple):
    """The parts of an answer that the pages of an experiment show.

    Attributes
    ----------
    lead : list of str
        What may be said at any look, in sentences.
    answer, over_time, arrivals, soundness : list of Section
    diagnosis : Diagnosis or None
    """

    lead: list[str]
    answer: list[Section]
    over_time: list[Section]
    arrivals: list[Section]
    soundness: list[Section]
    diagnosis: Diagnosis | None


def draw(answer: LiveAnswer, history: ExperimentHistory) -> Drawn:
    """Return the parts of an answer that the pages show."""
    log, estimate = answer.log, answer.estimate
    over_time = [] if answer.sequence is None or estimate is None else bands(answer, history)
    over_time += versions(history)
    if log is None:
        return Drawn(["No unit has been asked for yet."], [], over_time, [], [], None)
    evidence = log.evidence()
    soundness = draws(log, evidence)
    if estimate is None:
        return Drawn([answer.nothing_known], [], over_time, [], soundness, answer.diagnosis)
    report = as_report(answer, log, evidence)
    return Drawn(
        lead=sentences(answer),
        answer=answered(answer, report),
        over_time=over_time,
        arrivals=arrived(report),
        soundness=soundness,
        diagnosis=answer.diagnosis,
    )


def as_report(answer: LiveAnswer, log: Data, evidence: Evidence) -> Report:
    """Return the parts of a report that pages show, made from an answer."""
    estimate = answer.estimate
    assert estimate is not None  # noqa: S101 - there are outcomes
    baseline = shown_baseline(estimate.arms, answer.setup.baseline)
    buildup = None if estimate.maturity is None else estimate.buildup()
    several = len(estimate.arms) > 1
    return Report(
        title=answer.name,
        estimate=estimate,
        baseline=baseline,
        contrasts=estimate.contrasts(baseline, lift=True) if several else None,
        sequence=answer.sequence,
        arrivals=None if buildup else _busiest(arrivals(evidence, dates=log.clock.unit is not None), evidence),
        chosen=chosen(log, evidence),
        buildup=buildup,
        outcome=log.outcome_name,
        within=window_words(log, estimate),
    )


def _busiest(arrivals: Arrivals | None, evidence: Evidence) -> Arrivals | None:
    """Return the arrivals of the arms that most units got."""
    if arrivals is None or len(arrivals.arms) <= MOST_ROWS:
        return arrivals
    units = evidence.sums["assigned"].sum(axis=0)
    shown = sorted(np.argsort(-units, kind="stable")[:MOST_ROWS].tolist())
    return replace(
        arrivals,
        arms=tuple(arrivals.arms[k] for k in shown),
        share=arrivals.share[shown],
        arrived=arrivals.arrived[shown],
        still_out=arrivals.still_out[shown],
        overdue=arrivals.overdue[shown],
    )


# ---------------------------------------------------------------- the answer


def overall(answer: LiveAnswer) -> list[tuple[Answer, SequenceAnswer]]:
    """Return the differences over all units, at one look and at every look."""
    return [each for each in answer.contrasts if each[0].segment is None]


def sentences(answer: LiveAnswer) -> list[str]:
    """Return a sentence on each difference that holds at every look; known differences come first."""
    differences = overall(answer)
    if not differences:
        return ["There is one arm, and nothing to compare it with."]
    excluded = [each for fixed, each in differences if fixed.name in answer.exclusions]
    said = [_exclusion_text(each, answer) for each in sorted(excluded, key=_least_difference, reverse=True)][:MOST_ROWS]
    more = len(excluded) - len(said)
    said += [f"{count(more, 'more difference')} {'is' if more == 1 else 'are'} known."] if more else []
    rest = [(fixed, each) for fixed, each in differences if fixed.name not in answer.exclusions]
    unknown = [_difference(fixed) for fixed, each in rest if not each.why]
    silent = [(fixed, each.why) for fixed, each in rest if each.why]
    said += [f"Not known yet which is higher: {_listed(unknown)}."] if unknown else []
    if silent:
        what = (
            "nothing can be read at every look"
            if len(silent) == len(differences)
            else f"it is not known which is higher: {_listed([_difference(a) for a, _ in silent])}"
        )
        said.append(f"{silent[0][1]} Until then, {what}.")
    return said


def _holds_0(answer: SequenceAnswer) -> bool:
    return not (math.isfinite(answer.estimate) and (answer.low > 0 or answer.high < 0))


def _least_difference(answer: SequenceAnswer) -> float:
    """Return how large a difference is at least; below 0 if its interval holds 0."""
    return max(answer.low, -answer.high) if math.isfinite(answer.estimate) else -math.inf


def _clearest(answers: Sequence[SequenceAnswer], most: int = MOST_ROWS) -> list[int]:
    """Return the places of the clearest differences in their order, few enough for a page."""
    return sorted(sorted(range(len(answers)), key=lambda i: -_least_difference(answers[i]))[:most])


def _exclusion_text(answer: SequenceAnswer, about: LiveAnswer) -> str:
    above, below = (one_line(part, 40) for part in answer.parts)
    at = about.exclusions[answer.name].strftime("%Y-%m-%d %H:%M")
    if _holds_0(answer):
        return (
            f"The interval of {above} and {below} excluded 0 at {at} UTC: you could have stopped. It includes 0 again."
        )
    higher, lower = (above, below) if answer.estimate > 0 else (below, above)
    known = f"{higher} is higher than {lower}: by {_span(answer)}."
    if _has_turned(answer, about):
        return f"{known} It seemed lower when the interval first excluded 0, at {at} UTC: look whether outcomes drift."
    return f"{known} You could have stopped at {at} UTC."


def _has_turned(answer: SequenceAnswer, about: LiveAnswer) -> bool:
    """Whether the other arm was higher when the interval of a difference first excluded 0."""
    if about.sequence is None:
        return False
    track = about.sequence.track(*answer.parts)
    at = np.datetime64(about.exclusions[answer.name].replace(tzinfo=None), "us")
    then = min(int(np.searchsorted(np.asarray(track.moments), at)), len(track) - 1)
    return bool(track.estimate[then] * answer.estimate < 0)


def _span(answer: SequenceAnswer) -> str:
    near, far = sorted(map(abs, answer.shown))
    error = (answer.high - answer.low) / 6
    low, high = Column("", [near, far], "limit", [error] * 2, unit=answer.unit, terse=True).texts()
    return f"{low} to {high}{' points' if answer.unit == 'points' else ''}"


def _difference(answer: Answer) -> str:
    return " or ".join(one_line(part, 40) for part in answer.parts)


def _listed(names: Sequence[str]) -> str:
    few = names if len(names) <= 5 else [*names[:4], f"{len(names) - 4:,} more"]
    return "; ".join(few)


def answered(answer: LiveAnswer, report: Report) -> list[Section]:
    """Return the sections of the answer: at every look, then what holds at one planned look."""
    once = f"Holds at one look that was planned in advance ({percent(report.level)}); do not stop because of it."
    several = len(report.estimate.arms) > 1
    sections = [always(answer, report)] if several else []
    own = in_segments(answer)
    sections += [] if own is None else [own]
    different = differences_section(report, MOST_ROWS)
    if different is not None and report.contrasts is not None:
        named = replace(different, heading="Differences and lift, at one planned look", intro=once)
        if not _has_estimate(report.contrasts.answers):
            named = replace(named, parts=tuple(replace(part, charts=[]) for part in named.parts))
        sections.append(cut(named, strongest(list(report.contrasts.answers), MOST_ROWS)))
    sections += [cut(_best(answer, once))] if several else []
    arms = arms_section(report, MOST_ROWS)
    named = replace(arms, heading="The arms, at one planned look", intro=f"{arms.intro} {once}")
    sections.append(cut(named, report.ranked))
    segments = segments_section(report, MOST_ROWS)
    if segments is not None:  # the report has the other differences
        sections.append(cut(replace(segments, parts=(*segments.parts[:1], *segments.parts[-1:]))))
    return sections


def always(answer: LiveAnswer, report: Report) -> Section:
    """Show the differences as they hold at every look, with the numbers of `belated live answer`."""
    pairs = overall(answer)
    places = _clearest([each for _, each in pairs])
    rows = [
        charts.ForestRow(
            label=pair_name(report, *one.parts),
            estimate=one.estimate,
            low=_finite(each.shown[0]),
            high=_finite(each.shown[1]),
            std_error=one.std_error,
            look=look(report, one.parts[0]),
            unit=one.unit,
        )
        for one, each in (pairs[i] for i in places)
    ]
    sheet = [_names(answer), *_always_columns(answer)]
    title = "Differences, with intervals that hold at every look"
    forest = charts.forest(rows, title=title, level=report.level, reference=0.0)
    part = Part(
        charts=[forest] if _has_estimate(one for one, _ in pairs) else [],  # an empty chart says nothing
        caption=f"{title} ({percent(report.level)}, each by itself). Where an interval excludes 0, you may stop.",
        sheet=Sheet(
            f"{_table_words(answer)} at every look, in numbers{_clearest_note(len(pairs))}",
            [rows_of(column, places) for column in sheet],
        ),
    )
    intro = "These intervals hold at all looks together: look as often as you like, and stop when you like."
    return Section(name="always", link="At every look", heading="At every look", intro=intro, parts=(part,))


def _has_estimate(answers: Iterable[Answer]) -> bool:
    """Whether there is an estimate to draw."""
    return any(math.isfinite(each.estimate) for each in answers)


def _names(answer: LiveAnswer) -> Column:
    """Return the names of differences, the same in every segment; of those from one baseline, the other arm."""
    differences, base = [fixed for fixed, _ in overall(answer)], answer.setup.baseline
    names = [each.name if base is None else each.parts[0] for each in differences]
    head = "difference" if base is None else f"arm, minus {one_line(base, 20)}"
    return Column(head, names * (len(answer.contrasts) // max(len(differences), 1)), "label")


def _table_words(answer: LiveAnswer) -> str:
    """Say what a table is of; on a phone, its columns have no heads."""
    base = answer.setup.baseline
    return "Differences" if base is None else f"Differences from {one_line(base, 40)}"


def _always_columns(answer: LiveAnswer) -> list[Column]:
    """Return what `belated live answer` prints of every look, with the always-valid p-value."""
    columns = {column.name: column for column in answer._columns()}
    p = Column("p", [each.p_value for _, each in answer.contrasts], "p_value")
    return [
        columns["estimate"],
        replace(columns["low_at_every_look"], name="low"),
        replace(columns["high_at_every_look"], name="high"),
        p,
        replace(columns["excluded_at"], name="could have stopped at (UTC)"),
    ]


def in_segments(answer: LiveAnswer) -> Section | None:
    """Show the differences in each segment as they hold at every look; None without segments."""
    before = len(overall(answer))
    own = [each for _, each in answer.contrasts[before:]]
    if not own:
        return None
    places = [before + i for i in _clearest(own)]
    segments = Column("segment", [fixed.segment for fixed, _ in answer.contrasts], "label")
    columns = [_names(answer), segments, *_always_columns(answer)]
    sheet = Sheet(
        f"{_table_words(answer)} at every look in each segment{_clearest_note(len(own))}",
        [rows_of(column, places) for column in columns],
    )
    intro = "The answers above are averages over the units so far. Each line holds at every look, by itself."
    part = Part(charts=[], caption="", sheet=sheet)
    return Section(
        name="in-segments", link="In segments", heading="At every look, by segment", intro=intro, parts=(part,)
    )


def _clearest_note(number: int) -> str:
    """Say that a table has only the clearest differences, unless it has all."""
    return f"; the {MOST_ROWS} clearest of {number:,}, `belated live answer` has all" if number > MOST_ROWS else ""


def _finite(limit: float) -> float:
    return limit if math.isfinite(limit) else math.nan


def _best(answer: LiveAnswer, once: str) -> Section:
    try:
        best = answer.best
        assert best is not None  # noqa: S101 - there are outcomes of several arms
    except OptionError as error:  # too few outcomes
        return Section(name="best", link="Best", heading="Who may be best", intro=str(error), parts=())
    names = {"p_value_is_best": "p, is best", "may_be_best": "may be best", "std_error": "std. error"}
    columns = [replace(each, name=names.get(each.name, each.name)) for each in best._columns()]
    part = Part(
        charts=[], caption="", sheet=Sheet("Which arms may be best; intervals adjusted for the choice", columns)
    )
    return Section(name="best", link="Best", heading="Who may be best", intro=f"{best.note} {once}", parts=(part,))


# ---------------------------------------------------------------- over time


def bands(answer: LiveAnswer, history: ExperimentHistory) -> list[Section]:
    """Show how the intervals that hold at every look moved, with changes as marks."""
    sequence = answer.sequence
    assert sequence is not None  # noqa: S101 - asked before
    if len(sequence.moments) < 2:
        return []
    differences, outcome = overall(answer), answer.setup.outcome
    widest = (outcome.high - outcome.low) * (2 if differences else 1)
    if differences:
        few = [differences[i][0].parts for i in _clearest([each for _, each in differences], _MOST_RIBBONS)]
        what, reference = "Differences", 0.0
    else:
        few, what, reference = [sequence.arms[:1]], "The mean", None
    followed = [(parts[0], sequence.track(*parts)) for parts in few]
    tracks = [(arm, track) for arm, track in followed if _is_line(track, widest)]
    if not tracks:
        return []
    more = f" The {len(tracks)} clearest of {len(differences)} are drawn." if len(tracks) < len(differences) else ""
    arms = list(sequence.arms)
    series = [_band(track, widest, arms.index(arm) % LOOKS) for arm, track in tracks]
    drawn = charts.ribbons(
        np.asarray(tracks[0][1].moments)[_places(tracks[0][1])],
        series,
        title=f"{what} at every look",
        level=answer.setup.level,
        xlabel="as of",
        reference=reference,
        marks=history.marks,
    )
    level = percent(answer.setup.level)
    part = Part(charts=drawn, caption=f"{what} over time; the {level} band holds at all moments together.{more}")
    return [Section(name="band", link="The band", heading="The band over time", parts=(part,))]


def _informative_looks(track: Track, widest: float) -> Array:
    """Return at which looks a band says anything: it has an estimate, and leaves out values that are possible."""
    width = np.asarray(track.high - track.low)
    says: Array = np.isfinite(track.estimate) & np.isfinite(width) & (width < 0.99 * widest)
    return says


def _is_line(track: Track, widest: float) -> bool:
    """Whether there is something to draw: the band says anything at two moments or more."""
    return len(np.unique(np.asarray(track.moments)[_informative_looks(track, widest)])) > 1


def _places(track: Track) -> Array:
    """Return at most a given number of looks, evenly spaced, with the last."""
    n = len(track.moments)
    return np.unique(np.linspace(0, n - 1, min(n, _MOST_LOOKS)).round().astype(np.int64))


def _band(track: Track, widest: float, arm_look: int) -> charts.Series:
    places = _places(track)
    known = _informative_looks(track, widest)[places]
    values, low, high = (
        np.where(known, track.shown(name)[places], np.nan) for name in ("estimate", "low", "high")
    )  # fmt: skip
    width = float(track.high[-1] - track.low[-1])
    return charts.Series(
        label=track.name,
        values=values,
        low=low,
        high=high,
        std_error=width / 6 if math.isfinite(width) else math.nan,
        look=arm_look,
        unit=track.unit,
    )


def versions(history: ExperimentHistory) -> list[Section]:
    """Show the probabilities of the arms by policy version, in the first segments if there are any."""
    if len(history.moments) < 2:
        return []
    shown = dict(list(history.probabilities.items())[:_MOST_RIBBONS])
    likely = np.argsort(-sum(table[-1] for table in shown.values()), kind="stable")[:_MOST_LINES].tolist()
    arms = sorted(likely) if len(history.labels) > _MOST_LINES else list(range(len(history.labels)))
    title = "Probability of each arm, by policy version"
    drawn = [
        charts.curves(
            history.moments,
            [charts.Series(label=history.labels[k], values=table[:, k], look=k % LOOKS) for k in arms],
            title=f"{title}: {segment}" if segment else title,
            xlabel="version made",
            ylabel=one_line(segment, 40) if segment else "probability",
            steps=True,
            marks=history.marks,
        )
        for segment, table in shown.items()
    ]
    words = f"{title} ({history.latest:,} so far)."
    if len(arms) < len(history.labels):
        words += f" The {len(arms)} likeliest of {len(history.labels)} arms are drawn."
    if len(shown) < len(history.probabilities):
        words += f" The first {len(shown)} of {len(history.probabilities)} segments are drawn."
    part = Part(charts=drawn, caption=words)
    return [Section(name="versions", link="Probabilities", heading="Probabilities by version", parts=(part,))]


# ---------------------------------------------------------------- arrivals and soundness


def arrived(report: Report) -> list[Section]:
    """Show when outcomes arrive, or how events build up."""
    arriving, building = arrivals_section(report), buildup_section(report)
    sections = []
    if arriving is not None and report.arrivals is not None:
        (part,), shown, arms = arriving.parts, len(report.arrivals.arms), len(report.estimate.arms)
        words = f" The {shown} arms that most units got are shown, of {arms:,}." if shown < arms else ""
        sections.append(replace(arriving, parts=(replace(part, caption=f"{part.caption}{words}"),)))
    if building is not None and building.parts[0].sheet is not None:
        rows, arms = len(building.parts[0].sheet.columns[0].values), len(report.estimate.arms)
        last = rows - arms * max(MOST_ROWS // arms, 1)  # of many ages, the last ones are shown
        first, *others = building.parts
        parts = (cut_part(first, range(max(last, 0), rows)), *(cut_part(each) for each in others))
        sections.append(replace(building, parts=parts))
    return sections


def draws(log: Data, evidence: Evidence) -> list[Section]:
    """Show how many units each arm got, and how many the probabilities predict."""
    if evidence.p is None or evidence.p2 is None:
        return []
    assigned, p, p2 = evidence.sums["assigned"], evidence.p, evidence.p2
    drawn, expected = assigned.sum(axis=0), p.sum(axis=0)
    spread = np.sqrt(np.maximum((p - p2).sum(axis=0), 0.0))
    with np.errstate(invalid="ignore", divide="ignore"):
        away = np.where(spread > 0, (drawn - expected) / spread, math.nan)
    columns = [
        Column("arm", list(evidence.arms), "label"),
        Column("units", drawn.astype(int).tolist(), "count"),
        Column("expected", np.round(expected).tolist(), "count"),
        Column("difference", (np.round(drawn - expected) + 0.0).tolist(), "count"),
        Column("in standard errors", away.tolist(), "statistic"),
    ]
    furthest = np.argsort(-np.nan_to_num(np.abs(away), nan=-1.0), kind="stable")[:MOST_ROWS]
    words = "Units by arm, and what the probabilities predict"
    words += ", where they differ most" if len(evidence.arms) > MOST_ROWS else ""
    part = Part(
        charts=_drawn_over_time(log, evidence),
        sheet=Sheet(words, columns),
        caption="Share of units that each arm got so far, minus its mean probability (line); at each moment, 95% of "
        "draws by chance lie in the band.",
    )
    heading = "Draws against probabilities"
    intro = (
        "Arms are drawn by chance with the logged probabilities. Differences beyond 4 standard errors are not chance."
    )
    section = Section(name="draws", link="Draws", heading=heading, intro=intro, parts=(part,))
    return [cut(section, sorted(furthest.tolist()))]


def _drawn_over_time(log: Data, evidence: Evidence) -> list[str]:
    assert evidence.p is not None and evidence.p2 is not None  # noqa: S101, PT018 - asked before
    rows = np.cumsum(evidence.sums["assigned"].sum(axis=1))
    known = rows > 0
    if len(np.unique(evidence.moments[known])) < 2:
        return []
    n = rows[known, np.newaxis]
    away = np.cumsum(evidence.sums["assigned"] - evidence.p, axis=0)[known] / n
    reach = 1.96 * np.sqrt(np.maximum(np.cumsum(evidence.p - evidence.p2, axis=0)[known], 0.0)) / n
    numbers = np.floor(evidence.moments[known]) if log.clock.unit is not None else evidence.moments[known]
    busiest = sorted(np.argsort(-evidence.p.sum(axis=0), kind="stable")[:_MOST_RIBBONS].tolist())
    return charts.ribbons(
        log.clock.show_many(numbers),
        [
            charts.Series(
                label=evidence.arms[k],
                values=away[:, k],
                low=-reach[:, k],
                high=reach[:, k],
                unit="points",
                std_error=float(reach[-1, k]) or math.nan,
                look=k % LOOKS,
            )
            for k in busiest
        ],
        title="Share of units minus the probabilities",
        level=0.95,
        xlabel="assigned",
        reference=0.0,
    )
