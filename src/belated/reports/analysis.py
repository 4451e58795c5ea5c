"""Analysis: the questions to a log, and the answers, which tables, files and reports show."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar, get_args

from belated.base.columns import Label
from belated.base.documents import json_text
from belated.base.errors import LogError, OptionError, argument, recorded_warnings
from belated.base.tables import Table, markdown
from belated.base.text import one_line
from belated.estimation.answers import Answer, Answers, Contrasts
from belated.estimation.buildup import Windows
from belated.estimation.by_segment import (
    Heterogeneity,
    Mix,
    differences_by_segment,
    is_by_segment,
    policy_by_segment,
)
from belated.estimation.comparison import Comparison, compare
from belated.estimation.estimate import Estimate, estimate
from belated.estimation.estimators import Estimator, EstimatorName, default_estimator
from belated.estimation.intervals import Interval
from belated.estimation.target import Pair, Target, default_pairs, shown_baseline
from belated.log.data import Data
from belated.log.labels import arm_index
from belated.reports import formats
from belated.reports.formats import PolicyAsked
from belated.summaries.caps import capped_at, no_cap
from belated.summaries.maturing import Age
from belated.summaries.signs import single_value_remark

if TYPE_CHECKING:
    from belated.sequences.answers import SequenceAnswers
    from belated.sequences.design import KindOption
    from belated.sequences.sequence import ConfidenceSequence

#: An estimator, or every one, side by side.
EstimatorOption = Literal["all", EstimatorName]
ESTIMATOR_OPTIONS: tuple[EstimatorOption, ...] = (*get_args(EstimatorName), "all")

_Answer = TypeVar("_Answer", covariant=True)


class _Several(Protocol[_Answer]):
    """Several answers, of a moment or of every look."""

    @property
    def answers(self) -> tuple[_Answer, ...]:
        """One for each question."""


@dataclass(frozen=True)
class Questions:
    """The questions to a log; arms are labels.

    Attributes
    ----------
    estimator : str, Estimator or None
        None: "daipw", or "dipw" if only the chosen arm's propensity is known or outcomes are events whose windows may
        be open; "all": every one, side by side.
    baseline : label or None
        The arm with which the others are compared.
    contrasts : tuple of (arm, arm)
        The first minus the second.
    policies : tuple of dict, or "greedy"
        A probability for each arm; or, by segment, an arm or such probabilities.
    level : float
    interval : str
    simultaneous : bool
        Whether the contrasts hold together; if not, each holds by itself.
    lift : bool
        Whether to give the relative differences, too.
    by_segment : bool
        Whether to give the contrasts in every segment, too.
    sequential : bool
        Whether to give intervals that hold at every look, too.
    target : int or None
        The number of assignments at which those are narrowest.
    kind : str
        What kind those are, as in `sequence`.
    bounds : (float, float) or None
        The least and the largest outcome that there can be, for those.
    """

    estimator: EstimatorOption | Estimator | None = None
    baseline: Label | None = None
    contrasts: tuple[Pair, ...] = ()
    policies: tuple[PolicyAsked, ...] = ()
    level: float = 0.95
    interval: Interval = "auto"
    simultaneous: bool = False
    lift: bool = False
    by_segment: bool = False
    sequential: bool = False
    target: int | None = None
    kind: KindOption = "auto"
    bounds: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.target is not None and not self.sequential:
            raise OptionError(
                f"{argument('target')} is given without {argument('sequential')}; it "
                "is the size at which a sequence is narrowest."
            )
        if (self.kind != "auto" or self.bounds is not None) and not self.sequential:
            given = argument("bounds" if self.kind == "auto" else "kind")
            raise OptionError(f"{given} applies only to a confidence sequence; add {argument('sequential')}.")

    def about(self, arms: tuple[Label, ...], segments: tuple[Label, ...] = ()) -> Questions:
        """Return the same questions with the arms' own labels; refuse arms and segments that are not there."""
        if self.by_segment and not segments:
            raise OptionError(
                f"{argument('by_segment')} needs segments; name their column, such as {argument('segment', 'country')}."
            )

        def own(arm: Label) -> Label:
            return arms[arm_index(arms, arm)]

        for pair in self.contrasts:
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise OptionError(f"{argument('contrasts')} holds {pair!r}; each must be two arms, such as ('B', 'A').")
            Target.contrast(arms, *pair)

        def own_policy(policy: PolicyAsked) -> PolicyAsked:
            if isinstance(policy, str):
                return policy if policy == "greedy" else Target.policy(arms, policy).name  # refuses other text
            if is_by_segment(policy, segments, arms):
                policy_by_segment(arms, segments, policy)
                return policy
            Target.policy(arms, policy)
            return {own(arm): share for arm, share in policy.items()}

        return replace(
            self,
            baseline=None if self.baseline is None else own(self.baseline),
            contrasts=tuple((own(a), own(b)) for a, b in self.contrasts),
            policies=tuple(map(own_policy, self.policies)),
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Analysis:
    """Answers to `Questions`.

    Attributes
    ----------
    source : Log, or what `read` gives
    questions : Questions
    result : Estimate
    comparison : Comparison or None
        Every estimator's answers, if they were asked for.
    sequence : ConfidenceSequence or None
        Intervals that hold at every look, if they were asked for.
    warnings : tuple of str
    """

    source: Data
    questions: Questions
    result: Estimate
    comparison: Comparison | None = None
    sequence: ConfidenceSequence | None = None
    warnings: tuple[str, ...] = ()

    @property
    def reference(self) -> Label | None:
        """The arm that the others are compared with: the baseline, or the first of many arms; None: all pairs are."""
        return shown_baseline(self.result.arms, self.questions.baseline)

    @cached_property
    def default_pairs(self) -> tuple[Pair, ...]:
        """The arms of the contrasts that need no asking: every arm with the reference, or all pairs."""
        return tuple(default_pairs(self.result.arms, self.reference))

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """The arms of each contrast that was asked for, and of those with the baseline; or all that there are."""
        asked = self.questions.contrasts
        if asked and self.questions.baseline is None:
            return asked
        return tuple(dict.fromkeys([*asked, *self.default_pairs]))

    @cached_property
    def contrasts(self) -> Contrasts | None:
        """The contrasts that were asked for, or all that there are."""
        return self._contrasts(self.result, self.pairs) if self.pairs else None

    @cached_property
    def default_contrasts(self) -> Contrasts | None:
        """The default contrasts, which a report always shows."""
        if not self.default_pairs:
            return None
        if self.contrasts is None or not set(self.default_pairs) <= set(self.pairs):
            return self._contrasts(self.result, self.default_pairs)
        return replace(self.contrasts, answers=self._answers(self.default_pairs))

    @cached_property
    def by_segment(self) -> tuple[Heterogeneity, ...]:
        """Each contrast in every segment, and whether it differs between them, if that was asked for."""
        return self._by_segment(self.result)

    def _by_segment(self, result: Estimate) -> tuple[Heterogeneity, ...]:
        if not self.questions.by_segment or not self.pairs:
            return ()
        return differences_by_segment(result, self.pairs, simultaneous=self.questions.simultaneous,
                                      lift=self.questions.lift)  # fmt: skip

    def _contrasts(self, result: Estimate, pairs: tuple[Pair, ...]) -> Contrasts:
        return result.contrasts_of(pairs, simultaneous=self.questions.simultaneous, lift=self.questions.lift)

    def _answers(self, pairs: tuple[Pair, ...]) -> tuple[Answer, ...]:
        """Return the answers to some of the contrasts that are shown."""
        known = _by_pair(self.pairs, self.contrasts)
        return tuple(known[pair] for pair in pairs)

    @cached_property
    def further(self) -> tuple[Answer, ...]:
        """The answers to what was asked by name: contrasts, then policies."""
        return (*self._answers(self.questions.contrasts), *self.policy_answers)

    @cached_property
    def policy_answers(self) -> list[Answer]:
        """The mean outcome under each policy."""
        return [self.result.policy(policy) for policy in self.questions.policies]

    @cached_property
    def sequence_contrasts(self) -> SequenceAnswers | None:
        """The contrasts as confidence sequences, if they were asked for."""
        if self.sequence is None or not self.pairs:
            return None
        from belated.sequences.answers import SequenceAnswers

        joint, kind, level = self.questions.simultaneous, self.sequence.kind, self.sequence.level
        together = len(self.pairs) if joint else 1
        answers = tuple(self.sequence.contrast(a, b, together=together) for a, b in self.pairs)
        return SequenceAnswers(answers=answers, kind=kind, level=level, simultaneous=joint, cap=self.sequence.cap)

    @cached_property
    def windows(self) -> Windows | None:
        """The estimates for several windows, if several were asked for; those that rows have lived through."""
        return self._windows(self.result)

    def _windows(self, result: Estimate) -> Windows | None:
        maturity = result.maturity
        if maturity is None or len(self.source.windows) < 2:
            return None
        lengths = [min(maturity.length(window), maturity.window) for window in self.source.windows]
        return result.windows([Age(length) for length in lengths])

    @property
    def within(self) -> str | None:
        """The window that the answers are about, in words; None if outcomes are not events."""
        return window_words(self.source, self.result)

    @property
    def estimand(self) -> str:
        """What is estimated, in words."""
        name = one_line(self.source.outcome_name)
        within = f" within {self.within} of assignment" if self.within else ""
        return f"{name}{within}{capped_at(self.source.cap)}"

    # ---------------------------------------------------------------- formats

    def tables(self) -> list[Table]:
        """Return the answers as tables."""
        if self.comparison is not None:
            tables: list[Table] = [self.comparison]
            for i in range(len(self.pairs)):
                rows: dict[Hashable, Answer] = {name: each[i] for name, (_, each) in self._by_estimator.items() if each}
                tables.append(Answers("estimator", rows))
            tables += [self.comparison.policy(policy) for policy in self.questions.policies]
        else:
            tables = [self.result, *([] if self.contrasts is None else [self.contrasts]), *self.policy_answers]
        if self.windows is not None:
            tables += [self.windows, *(self.windows.contrast(*pair) for pair in self.pairs)]
        tables += [Mix(self.result), *self.by_segment] if self.questions.by_segment else []
        tables += [] if self.sequence is None else [self.sequence]
        tables += [] if self.sequence_contrasts is None else [self.sequence_contrasts]
        return tables

    def to_text(self) -> str:
        """Return the answers as text for a terminal."""
        estimand = f"Outcome: {self.estimand}.\n\n"
        return estimand + "\n\n".join(table.to_text(every=True) for table in self.tables())

    def to_markdown(self) -> str:
        """Return the answers as Markdown."""
        return (
            markdown(f"Outcome: {self.estimand}.")
            + "\n\n"
            + "\n\n".join(table.to_markdown() for table in self.tables())
        )

    def to_csv(self) -> str:
        """Return the answers as CSV: a line for each question and estimator."""
        rows = [
            row
            for name, (result, contrasts) in self._by_estimator.items()
            for row in [
                *formats.estimate_rows(name, result, _by_pair(self.pairs, contrasts), self.questions.policies),
                *formats.segment_rows(name, result, dict(zip(self.pairs, self._by_segment(result), strict=False))),
                *formats.window_rows(name, self._windows(result), self.pairs),
            ]
        ]
        if self.sequence is not None:
            rows += formats.sequence_rows(self.sequence, _by_pair(self.pairs, self.sequence_contrasts))
        return formats.write_csv(
            rows,
            sequential=self.sequence is not None,
            simultaneous=self.questions.simultaneous,
            capped=self.source.cap is not None,
            by_segment=self.questions.by_segment,
            windows=self.windows is not None,
        )

    def to_json(self) -> str:
        """Return the answers as JSON; docs/json.md says what each name means. What is not finite is null."""
        source = self.source
        answers = [
            {
                **formats.estimate_json(name, result, _by_pair(self.pairs, contrasts), self.questions.policies),
                **self._segments_json(result),
                **formats.windows_json(self._windows(result), self.pairs),
            }
            for name, (result, contrasts) in self._by_estimator.items()
        ]
        followed = {}
        if self.sequence is not None:
            contrasts = _by_pair(self.pairs, self.sequence_contrasts)
            followed = {"sequence": formats.sequence_json(self.sequence, contrasts)}
        sums = self.result.sums
        arrived = int(self.result.arrived.sum())
        capped = no_cap() if sums.cap is None else sums.cap.to_dict(sums["arrived"].sum())
        return json_text(
            "analysis",
            {
                "source": {
                    "name": source.name,
                    "engine": source.engine,
                    "rows": len(source),
                    "arrived": arrived,
                    "as_of": self.result.as_of,
                    "columns": source.columns,
                    "notes": list(source.notes),
                },
                "outcome": {"name": source.outcome_name, "within": self.within, **capped},
                "level": self.result.level,
                **formats.maturity_json(self.result),
                **self._mix_json(),
                "answers": answers,
                **followed,
                "warnings": list(self.warnings),
            },
        )

    def _mix_json(self) -> dict[str, object]:
        """Return the segments, their shares, and those that were merged, if the log has segments."""
        segments = self.result.sums.segments
        if segments is None or not self.result.segments:
            return {}
        return {"segments": Mix(self.result).rows, "merged_segments": list(segments.merged)}

    def _segments_json(self, result: Estimate) -> dict[str, object]:
        if not self.questions.by_segment:
            return {}
        return formats.segments_json(result, dict(zip(self.pairs, self._by_segment(result), strict=False)))

    @cached_property
    def _by_estimator(self) -> Mapping[str, tuple[Estimate, Contrasts | None]]:
        """Each estimator's estimate and contrasts."""
        if self.comparison is None:
            return {self.result.estimator.name: (self.result, self.contrasts)}
        pairs = self.pairs
        results = {name: self.comparison[name] for name in self.comparison}
        return {name: (one, self._contrasts(one, pairs) if pairs else None) for name, one in results.items()}


def window_words(source: Data, result: Estimate) -> str | None:
    """Return the window that an estimate is about, in words; None if outcomes are not events."""
    maturity = result.maturity
    return source.within if maturity is None else maturity.text(maturity.window)


def _by_pair(pairs: Sequence[Pair], contrasts: _Several[_Answer] | None) -> dict[Pair, _Answer]:
    return {} if contrasts is None else dict(zip(pairs, contrasts.answers, strict=True))


def analyse(source: Data, questions: Questions) -> Analysis:
    """Answer questions about a log; refuse one that records outcomes only when they happen."""
    questions = questions.about(source.arms, source.segments)
    with recorded_warnings() as sentences:
        result, comparison = _estimate(source, questions)
    remark = single_value_remark(result.sums, result.sums.shift)
    if remark is not None:
        raise LogError(remark.text, column="outcome")
    followed = None
    if questions.sequential:
        from belated.sequences.sequence import sequence

        with recorded_warnings() as further:
            followed = sequence(
                source,
                questions.kind,
                level=questions.level,
                target=questions.target,
                bounds=questions.bounds,
                baseline=questions.baseline,
            )
        sentences += further
    return Analysis(
        source=source,
        questions=questions,
        result=result,
        comparison=comparison,
        sequence=followed,
        warnings=tuple(dict.fromkeys([*sentences, *source.doubts(), *_contexts(source, result), *source.oddities()])),
    )


def _contexts(source: Data, result: Estimate) -> list[str]:
    """Return that the policy looked at the unit, in words, if the estimate's weights suffer from it."""
    return source.contexts() if result.estimator.weights.follow_units else []


def _estimate(source: Data, questions: Questions) -> tuple[Estimate, Comparison | None]:
    """Return the estimate to answer from, and every estimator's if all were asked for."""
    level, interval = questions.level, questions.interval
    usual = default_estimator(source)
    if questions.estimator == "all":
        comparison = compare(source, level=level, interval=interval)
        return comparison[usual], comparison
    return estimate(source, questions.estimator or usual, level=level, interval=interval), None
