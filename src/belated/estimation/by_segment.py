"""Questions about several segments at once: contrasts in each, whether they differ, and policies by segment."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict, TypeGuard

import numpy as np

from belated.base import special
from belated.base.checks import TINY
from belated.base.columns import Array, ByArm, Label
from belated.base.documents import JsonObject
from belated.base.errors import OptionError, argument
from belated.base.multiplicity import sidak_level, sidak_p_value, sidak_tail
from belated.base.tables import CellKind, Column, Table
from belated.base.text import Unit, count, one_line, p_words, percent, visible
from belated.estimation.answers import Answer, Contrasts, answer_columns, make_answer
from belated.estimation.intervals import KINDS
from belated.estimation.target import Pair, PolicyChoice, Target, find_arm, read_policy
from belated.summaries.caps import capped_at
from belated.summaries.segments import NO_SEGMENTS, segment_index

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from belated.estimation.estimate import Estimate

#: The tail of the intervals whose widths are the errors of the test of whether effects differ.
_TAIL = 0.025

#: Steps of the grid on which the sum of the largest errors is distributed.
_GRID = 512


# ---------------------------------------------------------------- contrasts in every segment


def contrasts_by_segment(estimate: Estimate, ask: Callable[[Estimate], Contrasts], *, simultaneous: bool) -> Contrasts:
    """Return the contrasts in every segment that `ask` asks of its estimate; together at the level, if simultaneous.

    Segments are disjoint, so that their estimates are independent: each gets Sidak's share of the miss rate.
    """
    level = estimate.level
    if simultaneous:
        level = 1 - sidak_level(1 - level, len(estimate.segments))
    answers = []
    parts = None
    for segment in estimate.segments:
        own = replace(estimate.segment(segment), level=level)
        parts = ask(own)
        for answer in parts.answers:
            tested = answer.tested
            if simultaneous:
                tested = answer.statistic, float(sidak_p_value(answer.p_value, len(estimate.segments)))
            answers.append(
                replace(
                    answer,
                    name=f"{answer.name} in {one_line(visible(segment))}",
                    parts=(),
                    level=estimate.level,
                    tested=tested,
                    joint=simultaneous,
                    segment=segment,
                )
            )
    if parts is None:
        raise OptionError(NO_SEGMENTS)
    return replace(parts, answers=tuple(answers), level=estimate.level)


# ---------------------------------------------------------------- do effects differ?


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Heterogeneity(Table):
    """Whether a contrast is the same in every segment: Welch's test, and the contrast in each segment.

    Attributes
    ----------
    contrasts : Contrasts
        The contrast in each segment.
    statistic : float
        Welch's F.
    degrees : (float, float)
        Its degrees of freedom.
    p_value : float
        The p-value of the hypothesis that the contrast is the same in every segment; NaN if fewer than two segments
        have an interval.
    left_out : tuple
        Segments without an interval.
    """

    contrasts: Contrasts
    name: str
    statistic: float
    degrees: tuple[float, float]
    p_value: float
    left_out: tuple[Label, ...]

    @property
    def note(self) -> str:
        """The result in words."""
        if math.isnan(self.p_value):
            return "Fewer than two segments have an interval, so nothing can be said about differences between them."
        numbers = f"F = {self.statistic:.3g} on {self.degrees[0]:.0f} and {self.degrees[1]:.0f} degrees of freedom"
        verdict = "differs" if self.p_value < 1 - self.contrasts.level else "is not shown to differ"
        return f"{self.name} {verdict} between segments: p {p_words(self.p_value)} ({numbers})."

    def plot(self) -> Figure:
        """Draw the contrast in every segment; a matplotlib figure, which notebooks show."""
        answers = self.contrasts.answers
        named = (replace(a, name=f"{a.name} in {one_line(visible(a.segment))}", parts=()) for a in answers)
        return replace(self.contrasts, answers=tuple(named)).plot()

    def _title(self) -> str:
        together = "simultaneous " if self.contrasts.simultaneous else ""
        kind = f"{percent(self.contrasts.level)} {together}{self.contrasts.interval} intervals"
        return f"{self.contrasts.estimator}{capped_at(self.contrasts.cap)}: {self.name} by segment, {kind}"

    def _columns(self) -> list[Column]:
        answers = list(self.contrasts.answers)
        return [Column("segment", [answer.segment for answer in answers], "label"), *answer_columns(answers, test=True)]

    def to_dict(self) -> JsonObject:
        """Return the values of the test by name."""
        left_out = [str(label) for label in self.left_out]
        names = ("statistic", "degrees", "p_value")
        return {**{name: getattr(self, name) for name in names}, "left_out": left_out}

    def _notes(self) -> list[str]:
        out = [one_line(repr(label)) for label in self.left_out]
        return [self.note, *([f"Left out, because they have no interval: {', '.join(out)}."] if out else [])]


def find_heterogeneity(estimate: Estimate, arm: Label, baseline: Label) -> Heterogeneity:
    """Test whether a contrast is the same in every segment (Welch 1951)."""
    target = Target.contrast(estimate.arms, arm, baseline)
    if not estimate.segments:
        raise OptionError(NO_SEGMENTS)
    answers, values, errors, degrees = [], [], [], []
    left_out = []
    for segment in estimate.segments:
        own = estimate.segment(segment)
        answer = replace(own.contrast(arm, baseline), segment=segment)
        answers.append(answer)
        if math.isnan(answer.low):
            left_out.append(segment)
            continue
        combination = own.combination(target.coefficients)
        # half the width of the 95 % interval in units of its quantile: a p-value does not depend on the level
        freedom = float(combination.freedom)
        low, high = map(float, combination.limits(_TAIL))
        quantile = -float(special.stdtrit(min(freedom, 1e8), _TAIL))
        values.append(answer.estimate)
        errors.append(max(answer.std_error, (high - low) / 2 / quantile))
        degrees.append(freedom)
    statistic, between, within, p_value = _welch(np.array(values), np.array(errors), np.array(degrees))
    contrasts = replace(estimate.contrasts_of([(arm, baseline)]), answers=tuple(answers))
    return Heterogeneity(
        contrasts=contrasts,
        name=target.name,
        statistic=statistic,
        degrees=(between, within),
        p_value=p_value,
        left_out=tuple(left_out),
    )


def differences_by_segment(
    estimate: Estimate,
    pairs: Sequence[Pair],
    *,
    simultaneous: bool = False,
    lift: bool = False,
    only: Sequence[int] | None = None,
) -> tuple[Heterogeneity, ...]:
    """Return each contrast in every segment with its test; if simultaneous, all intervals cover together.

    `only` are the positions of the pairs to return, all by default.
    """
    answers = estimate.contrasts_of(pairs, simultaneous=simultaneous, lift=lift, by="segment")
    tests = []
    for i in range(len(pairs)) if only is None else only:
        own = replace(answers, answers=answers.answers[i :: len(pairs)])
        tests.append(replace(find_heterogeneity(estimate, *pairs[i]), contrasts=own))
    return tuple(tests)


def _welch(values: Array, errors: Array, degrees: Array) -> tuple[float, float, float, float]:
    """Return Welch's F, its degrees of freedom and its p-value."""
    n = len(values)
    if n < 2 or not (errors > 0).all() or not np.isfinite(errors).all():
        return math.nan, math.nan, math.nan, math.nan
    weight = 1 / errors**2
    share = weight / weight.sum()
    loose = float(np.sum((1 - share) ** 2 / degrees))
    between = float(np.sum(weight * (values - share @ values) ** 2)) / (n - 1)
    statistic = between / (1 + 2 * (n - 2) / (n**2 - 1) * loose)
    within = (n**2 - 1) / (3 * loose) if loose > 0 else 1e9
    return statistic, n - 1.0, within, float(special.fdtrc(n - 1, within, statistic))


# ---------------------------------------------------------------- the mix


#: The names of a segment's values.
_MixName: TypeAlias = Literal["segment", "share", "assigned", "arrived"]


class MixRow(TypedDict):
    """A segment of a log: its share of the population, its rows and its outcomes."""

    segment: Label
    share: float
    assigned: int
    arrived: int


@dataclass(frozen=True, eq=False, repr=False)
class Mix(Table):
    """The segments of a log: the share of each in the population of the estimate, its rows and its outcomes."""

    estimate: Estimate

    @property
    def rows(self) -> list[MixRow]:
        """The values of each segment by name."""
        segments = self.estimate.sums.segments
        if segments is None:
            return []
        maturity = self.estimate.maturity
        counts = [segments.cells[name].reshape(-1, segments.arms).sum(axis=1) for name in ("assigned", "arrived")]
        counts[1] = counts[1] if maturity is None else maturity.closed.sum(axis=1)
        return [
            {"segment": label, "share": share, "assigned": int(assigned), "arrived": int(arrived)}
            for (label, share), assigned, arrived in zip(self.estimate.shares.items(), *counts, strict=True)
        ]

    def _title(self) -> str:
        whose = "its share" if len(self.rows) == 1 else "their shares"
        return f"{count(len(self.rows), 'segment')}, and {whose} of the population"

    @property
    def columns(self) -> list[Column]:
        """The values of the segments, as columns to show."""
        kinds: dict[_MixName, CellKind] = {
            "segment": "label",
            "share": "share",
            "assigned": "count",
            "arrived": "count",
        }
        shown = {} if self.estimate.maturity is None else {"arrived": "closed"}
        return [Column(shown.get(name, name), [row[name] for row in self.rows], kind) for name, kind in kinds.items()]

    def _columns(self) -> list[Column]:
        return self.columns


# ---------------------------------------------------------------- policies by segment


def is_by_segment(
    policy: object, segments: tuple[Label, ...], arms: tuple[Label, ...]
) -> TypeGuard[ByArm[PolicyChoice]]:
    """Whether a policy is given by segment: its keys are segments, or its values are not numbers."""
    if not segments or not isinstance(policy, Mapping):
        return False
    if all(isinstance(value, Real) for value in policy.values()):  # keys are arms, unless one is a segment only
        return any(key in segments and key not in arms for key in policy)
    return True


def policy_by_segment(arms: tuple[Label, ...], segments: tuple[Label, ...], policy: ByArm[PolicyChoice]) -> Target:
    """Return the mean outcome under a policy that has an arm, or a probability for each arm, in every segment."""
    table, names = np.zeros((len(segments), len(arms))), []
    for segment, choice in policy.items():
        target = Target.policy(arms, choice) if isinstance(choice, Mapping) else Target.arm(arms, choice)
        table[segment_index(segments, segment)] = target.coefficients
        names.append(f"{one_line(segment, 24)}: {target.name}")
    missing = [segment for segment in segments if segment not in policy]
    if missing:
        raise OptionError(
            f"{argument('policy')} has nothing for segment {missing[0]!r}; it must have an arm, or probabilities, for "
            "every segment."
        )
    return Target(name=_joined(names), coefficients=table)


def read_policy_by_segment(
    arms: tuple[Label, ...], segments: tuple[Label, ...], text: str
) -> dict[Label, PolicyChoice] | None:
    """Return a policy by segment from text such as DE:B,FR:A or DE:B;FR:A=0.2,B=0.8; None if it is not one."""
    names = {str(segment): segment for segment in segments}
    choices: list[tuple[Label, int, int]] = []  # the segment, and where its name and its choice begin
    at = 0
    while at < len(text):
        name = max((t for t in names if text.startswith(f"{t}:", at)), key=len, default=None)
        if name is not None:
            choices.append((names[name], at, at + len(name) + 1))
            at = choices[-1][2]
        elif at == 0:
            if segments and ":" in text and "=" not in text:
                segment_index(segments, text.partition(":")[0])  # raises, with the known ones
            return None
        ends = [i for i in (text.find(mark, at) for mark in ",;") if i >= 0]
        at = min(ends, default=len(text)) + 1
        at += len(text[at:]) - len(text[at:].lstrip())
    if not choices:
        return None
    stops = [start for _, start, _ in choices[1:]] + [len(text)]
    by_text = {str(arm): arm for arm in arms}
    policy: dict[Label, PolicyChoice] = {}
    for (segment, _, start), stop in zip(choices, stops, strict=True):
        choice = text[start:stop].strip().rstrip(",;").strip()
        if segment in policy:
            raise OptionError(f"{argument('policy')} has segment {one_line(repr(segment))} twice; give it once.")
        policy[segment] = by_text[choice] if choice in by_text else _choice(arms, choice)
    return policy


def _choice(arms: tuple[Label, ...], text: str) -> PolicyChoice:
    """Return an arm, or a probability for each arm, from text."""
    return read_policy(arms, text) if "=" in text else find_arm(arms, text)


def greedy_by_segment(estimate: Estimate) -> Answer:
    """Return the mean outcome of always choosing the arm with the largest estimate of each segment.

    The interval holds for all policies by segment at once, and so for the chosen one: it is as wide as the quantile of
    the sum over segments of the largest error of an arm. Its shape is that of the chosen policy's interval, at most at
    the tail at which the arms of all segments hold together: further out, Student's tails would outgrow any error.
    Segments without an estimate of every arm use the others.
    """
    population = estimate.population
    if population is None:
        raise OptionError(NO_SEGMENTS)
    table, names = np.zeros((len(population.labels), len(estimate.arms))), []
    errors, own_variance = [], 0.0
    for s in np.flatnonzero(population.shares):
        label, share = population.labels[s], population.shares[s]
        own = estimate.segment(label)
        if np.isnan(own.values).all():
            raise OptionError(f"Segment {label!r} has no estimate of any arm, so there is no greedy policy.")
        best = int(np.nanargmax(own.values))
        table[s, best] = 1.0
        names.append(f"{one_line(label, 24)}: {one_line(estimate.arms[best], 24)}")
        errors.append(share * own.std_errors[np.isfinite(own.std_errors)])
        own_variance += float(share * own.std_errors[best]) ** 2
    combination = estimate.combination(table)
    answer = make_answer(
        f"greedy: {_joined(names)}", combination, level=estimate.level, null=0.0, alternative="two-sided",
        cap=estimate.cap,
    )  # fmt: skip
    unit: Unit = "number" if estimate.unit == "number" else "percent"
    answer = replace(answer, unit=unit, tested=(math.nan, math.nan), joint=True)
    total = float(combination.std_error)
    if not combination.has_interval or not total > 0:
        return answer
    shares_error = math.sqrt(max(total**2 - own_variance, 0.0))
    tail = (1 - estimate.level) / 2
    reach = _largest_sum([*errors, np.array([shares_error])] if shares_error > 0 else errors, tail) / total
    furthest = -float(special.ndtri(sidak_tail(1 - estimate.level, sum(map(len, errors)))))
    low, high = map(float, combination.limits(min(float(special.ndtr(-min(reach, furthest))), tail)))
    if reach > furthest:
        rule, stretch = KINDS[estimate.interval], reach / furthest
        centre = float(np.sum(combination.coefficients * rule.within(combination.arms.value)))
        least, most = rule.possible if estimate.cap is None else (-math.inf, max(estimate.cap, centre))
        low = max(centre - stretch * (centre - low), least)
        high = min(centre + stretch * (high - centre), most)
    return replace(answer, low=low, high=high)


def _joined(names: list[str]) -> str:
    """Return the choices of a policy by segment as text, at most four."""
    return "; ".join(names) if len(names) <= 4 else f"{'; '.join(names[:3])}; {count(len(names) - 3, 'other')}"


def _largest_sum(errors: list[Array], tail: float) -> float:
    """Return the upper quantile of a sum of maxima, each over independent normal errors of these standard deviations.

    Distributions are convolved on a grid.
    """
    step = sum(float(each.max()) for each in errors) / _GRID
    density, start = np.ones(1), 0.0
    for each in errors:
        half = math.ceil(8.0 * float(each.max()) / step) + 1
        edges = (np.arange(-half, half + 2) - 0.5) * step
        with np.errstate(over="ignore"):
            below = np.exp(np.sum(special.log_ndtr(edges[:, np.newaxis] / np.maximum(each, TINY)), axis=1))
        density = np.convolve(density, np.diff(below))
        start -= half * step
    above = np.cumsum(density[::-1])[::-1]
    return start + float(np.searchsorted(-above, -tail)) * step
