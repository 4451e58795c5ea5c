"""The words of a report: the question, and the answer in sentences."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Sequence

import numpy as np

from belated.base.columns import Label
from belated.base.text import count, one_line, p_words, percent, with_unit
from belated.estimation.answers import Answer, lift_notes
from belated.estimation.best import Best
from belated.estimation.target import Pair
from belated.reports.charts import estimate_texts
from belated.reports.report import Report

_MOST_SENTENCES = 4


def question(report: Report) -> str:
    """Return what was asked, in a sentence."""
    arms = report.estimate.arms
    what = f"{report.quantity}{report.comma}"
    when = f" within {report.within} of assignment" if report.within else ""
    if len(arms) == 1:
        return f"What is the {what}{when} for {_say(report, arms[0])}?"
    if report.baseline is not None and len(arms) > 2:
        base = _say(report, report.baseline)
        return f"What is the {what}{when} for each of {len(arms)} arms, and how do they differ from {base}?"
    each = _listed(report, arms) if len(arms) == 2 else f"each of {len(arms)} arms"
    return f"What is the {what}{when} for {each}, and do they differ?"


def answer(report: Report) -> list[str]:
    """Return the answer in sentences, the most important first."""
    sentences = _differences(report)
    if report.ranked and (len(report.estimate.arms) != 2 or not sentences):
        sentences.insert(0, _best(report))
    sentences += [*_by_segment(report), *report.estimate.maturity_notes()]
    asked = report.further[:_MOST_SENTENCES]
    sentences += [f"{one_line(further.name, 120)}: {_interval(further)}{_lift(further)}." for further in asked]
    return sentences + _unanswered(report)


def _by_segment(report: Report) -> list[str]:
    """Say that answers are averages over segments, and whether the main difference differs between them."""
    estimate = report.estimate
    if not estimate.segments:
        return []
    number = f"{len(estimate.segments):,} segments"
    averaged = one_segment(report) or f"These are averages over {number}, each with its share."
    tests = [test for pair, test in report.by_segment.items() if report.main and set(pair) == set(report.main)]
    return [" ".join([averaged, *(test.note for test in tests)])]


def one_segment(report: Report) -> str | None:
    """Say that all rows count as one segment, if they do."""
    segments = report.estimate.sums.segments
    if segments is None or len(report.estimate.segments) != 1:
        return None
    return (
        "Segments are too small to be analysed separately, and count as one."
        if segments.merged
        else "There is one segment."
    )


def _best(report: Report) -> str:
    """Say which arm is highest, and whether that is certain."""
    estimate, highest = report.estimate, report.estimate.arms[report.ranked[0]]
    answers = estimate.arm_answers
    if len(estimate.arms) == 1:
        return f"With {_say(report, highest)}, {report.measure}{report.comma} is {_interval(answers[0])}."
    known = sum(not math.isnan(own.low) for own in answers)
    if known == 0:
        return "No arm has an interval, so it is not known which one is the best."
    if known == 1:
        words = _interval(estimate.arm(highest))
        alone = f"With {_say(report, highest)}, {report.measure}{report.comma} is {words}."
        return f"{alone} No other arm has an interval to compare it with."
    among = "Among the arms with an interval, " if known < len(answers) else ""
    best = estimate.best()
    words = _interval(best, f"adjusted for being the best of {known}")
    first = upper(f"{among}{report.measure}{report.comma} is highest with {_say(report, best.arm)}: {words}.")
    may_be_equal = {arm for pair in _shown_ties(report) if best.arm in pair for arm in pair}
    others = [arm for arm in estimate.arms if arm != best.arm and arm not in best.left_out]
    close = [arm for arm in others if arm in best.contenders or arm in may_be_equal]
    if close:
        these = _listed(report, close) if len(close) < _MOST_SENTENCES else count(len(close), "other arm")
        return f"{first} It is not clearly higher than {these}."
    these = "all the others" if among else "every other arm"
    at_once = f"the {len(others)} others compared with it at once, " if len(others) > 1 else ""
    return f"{first} It is clearly higher than {these} ({at_once}at {percent(report.level)})."


def _differences(report: Report) -> list[str]:
    """Say which arms differ, by how much, and which cannot be told apart."""
    if report.contrasts is None or report.together is None:
        return []
    answers = zip(report.contrasts.answers, report.together.answers, report.pairs, strict=True)
    known = [(one, joint, pair) for one, joint, pair in answers if not math.isnan(one.low)]
    apart = [(one, *pair) for one, joint, pair in known if not _may_be_0(joint)]
    alone = [(one, *pair) for one, joint, pair in known if _may_be_0(joint) and not _may_be_0(one)]
    alike = [(one, *pair) for one, _, pair in known if _may_be_0(one)]
    shown = strongest([contrast for contrast, _, _ in apart], _MOST_SENTENCES)
    sentences = [_apart(report, *apart[i]) for i in shown]
    if len(apart) > len(shown):
        more = len(apart) - len(shown)
        sentences[-1] += f" There {'is' if more == 1 else 'are'} {count(more, 'more clear difference')} in the table."
    if alone:
        these = [f"{_say(report, arm)} minus {_say(report, other)}" for _, arm, other in alone]
        few = count(len(these), "difference") if len(these) > _MOST_SENTENCES else _joined(these)
        few = _first(few, alone[0][1])
        own = "its own interval excludes" if len(alone) == 1 else "their own intervals exclude"
        at_once = f"when all {len(known)} differences are compared at once"
        sentences.append(f"{few}: {own} 0, but not {at_once}.")
    if len(known) == 1 and alike:
        sentences.append(_alike(report, *alike[0]))
    elif len(alike) > _MOST_SENTENCES:
        than = "from one another" if report.baseline is None else f"from {_say(report, report.baseline)}"
        what = "pair" if report.baseline is None else "arm"
        sentences.append(
            f"{upper(count(len(alike), what))} {'does' if len(alike) == 1 else 'do'} not differ clearly {than}."
        )
    elif alike:
        each = [f"{_say(report, arm)} minus {_say(report, other)} ({_span(c)})" for c, arm, other in alike]
        what, shown_as = ("These differences", "intervals") if len(each) > 1 else ("This difference", "interval")
        level = percent(report.level)
        sentences.append(f"{what} may be 0 ({level} {shown_as} in brackets): {_joined(each, '; ')}.")
    if len(known) > 1:
        sentences.append(_how_they_hold(report, len(known), some_apart=bool(apart)))
    return sentences + lift_notes([contrast for contrast, _, _ in known])


def _shown_ties(report: Report) -> list[Pair]:
    """Return the pairs whose difference may be 0 by the intervals that are shown, if these hold together."""
    if report.together is None or report.contrasts is None or not report.contrasts.simultaneous:
        return []
    return [pair for joint, pair in zip(report.together.answers, report.pairs, strict=True) if _may_be_0(joint)]


def _may_be_0(contrast: Answer) -> bool:
    return contrast.low <= 0 <= contrast.high


def _how_they_hold(report: Report, number: int, *, some_apart: bool) -> str:
    """Say whether the intervals of several differences are adjusted for being several."""
    if report.contrasts is not None and report.contrasts.simultaneous:
        return f"The intervals of all {number} differences hold together at {percent(report.level)}."
    judged = " A difference is stated here only if it is also clear with all compared at once." if some_apart else ""
    return f"Each of the {number} intervals holds by itself; none is adjusted for the others.{judged}"


def _apart(report: Report, contrast: Answer, arm: Label, other: Label) -> str:
    estimate, *ends = _texts(contrast, absolute=True)
    near, far = ends if contrast.estimate > 0 else reversed(ends)
    way, (this, that) = "higher" if contrast.estimate > 0 else "lower", (_say(report, arm), _say(report, other))
    return (
        f"{upper(report.measure)}{report.comma} is {estimate} {way} with {this} than with {that} "
        f"({percent(contrast.level)} interval {near} to {far} {way}{_p(contrast)}){_lift(contrast)}."
    )


def _alike(report: Report, contrast: Answer, arm: Label, other: Label) -> str:
    this, that = _say(report, arm), _say(report, other)
    return (
        f"There is no clear difference between {this} and {that} in {report.measure} "
        f"({this} minus {that}: {percent(contrast.level)} interval {_span(contrast)}{_p(contrast)})"
        f"{_lift(contrast)}."
    )


def _lift(answer: Answer) -> str:
    return "" if answer.lift is None or math.isnan(answer.lift.low) else f", a lift of {answer.lift.words}"


def _unanswered(report: Report) -> list[str]:
    """Say which arms have no answer or no interval, and why."""
    estimate = report.estimate
    groups: dict[str, list[Label]] = {}
    for arm, own, arrived in zip(estimate.arms, estimate.arm_answers, estimate.sums["arrived"], strict=True):
        one, come = ("outcomes", "arrived") if estimate.maturity is None else ("rows", "lived so long")
        if math.isnan(own.estimate):
            why = f"none of its {one} has {come}" if arrived == 0 else f"none of its {one} has any weight"
            groups.setdefault(f"has no answer: {why}.", []).append(arm)
        elif math.isnan(own.low):
            why = f"only one of its {one} has {come}" if arrived == 1 else "its outcomes do not show their variance"
            groups.setdefault(f"has an estimate, but no interval: {why}.", []).append(arm)
    return [
        f"{_first(_say(report, arms[0]), arms[0]) if len(arms) == 1 else f'Each of {_listed(report, arms)}'} {what}"
        for what, arms in groups.items()
    ]


def _interval(answer: Answer | Best, remark: str = "") -> str:
    """Return an estimate with its interval, if it has one, and a remark about that."""
    estimate, low, high = _texts(answer)
    if math.isnan(answer.estimate):
        return "no answer"
    if math.isnan(answer.low):
        return estimate
    return f"{estimate} ({percent(answer.level)} interval {low} to {high}{', ' * bool(remark)}{remark})"


def _span(answer: Answer) -> str:
    """Return an interval, with its unit."""
    _, low, high = _texts(answer)
    return f"{low} to {with_unit(high, answer.unit)}"


def _p(answer: Answer) -> str:
    return "" if math.isnan(answer.p_value) else f", p {p_words(answer.p_value)}"


def _texts(answer: Answer | Best, *, absolute: bool = False) -> list[str]:
    numbers = [answer.estimate, *answer.shown]
    shown = [abs(number) for number in numbers] if absolute else numbers
    return estimate_texts(shown[0], shown[1], shown[2], answer.std_error, answer.unit)


def _say(report: Report, arm: Label) -> str:
    """Return an arm's name for a sentence, short and unlike the others', quoted where it would not read as a name."""
    text = report.names[arm]
    if _is_number(arm):
        text = f"arm {text}"
    elif not text.replace("_", "").replace("-", "").isalnum():
        text = f"“{text}”"
    # what is written from the right must not turn the sentence around
    turns = any(unicodedata.bidirectional(c) in ("R", "AL", "AN") for c in text)
    return f"\u2068{text}\u2069" if turns else text


def _first(text: str, arm: Label) -> str:
    """Return text that begins a sentence, perhaps with an arm's name, which stays as it is."""
    return upper(text) if _is_number(arm) else text


def _is_number(arm: Label) -> bool:
    return isinstance(arm, (int, float, np.number))


def _listed(report: Report, arms: Iterable[Label]) -> str:
    names = [_say(report, arm) for arm in arms]
    return _joined([*names[:4], count(len(names) - 4, "other")] if len(names) > 5 else names)


def _joined(texts: list[str], comma: str = ", ") -> str:
    return f"{comma.join(texts[:-1])} and {texts[-1]}" if len(texts) > 1 else texts[0]


def upper(text: str) -> str:
    """Return text that begins a sentence."""
    return text[:1].upper() + text[1:]


def strongest(answers: Sequence[Answer], most: int) -> list[int]:
    """Return the places, in order, of the answers furthest from what they are tested against."""
    if len(answers) <= most:
        return list(range(len(answers)))
    statistics = np.nan_to_num(np.abs([answer.statistic for answer in answers]), nan=-1.0)
    return sorted(np.argsort(-statistics, kind="stable")[:most].tolist())
