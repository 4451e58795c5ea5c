"""Analysis: what one command asks of a log, and its answers as text, Markdown, CSV or JSON."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from belated.base.errors import BelatedWarning, LogError, OptionError
from belated.base.files import csv_text
from belated.base.json_text import json_text
from belated.base.tables import Table
from belated.base.text import one_line
from belated.estimation.answers import Answer, Contrasts, Estimate, estimate
from belated.estimation.comparison import Comparison, compare
from belated.estimation.pairs import default_pairs
from belated.estimation.target import find_arm, read_contrast, read_policy
from belated.log.data import Data
from belated.sequences import ConfidenceSequence, SequenceAnswer, SequenceAnswers, sequence
from belated.summaries.single_value import single_value, single_value_words

#: Arms beyond which all pairs of them are too many to show.
MANY = 8


@dataclass(frozen=True)
class Questions:
    """What is asked, with arms as text, as a command line has them."""

    estimator: str | None = None  # the best that the propensities allow
    baseline: str | None = None
    contrasts: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()
    level: float = 0.95
    interval: str = "auto"
    sequential: bool = False
    target: int | None = None


@dataclass(frozen=True, eq=False)
class Analysis:
    """Answers to `Questions`.

    Attributes
    ----------
    source : Log, or what `read` gives
    result : Estimate
    comparison : Comparison or None
        Every estimator's answers, if they were asked for.
    baseline : label or None
    pairs : tuple of (arm, arm)
        Of the contrasts, the first minus the second.
    policies : tuple of dict, or "greedy"
    warnings : tuple of str
    sequence : ConfidenceSequence or None
        Intervals that hold at every look, if they were asked for.
    """

    source: Data
    result: Estimate
    comparison: Comparison | None
    baseline: Any | None
    pairs: tuple[tuple[Any, Any], ...]
    policies: tuple[dict[Any, float] | str, ...]
    warnings: tuple[str, ...] = field(default=())
    sequence: ConfidenceSequence | None = None

    @cached_property
    def contrasts(self) -> Contrasts | None:
        """The contrasts that were asked for, or all that there are."""
        answers = tuple(self.result.contrast(a, b) for a, b in self.pairs)
        if not answers:
            return None
        return Contrasts(answers, self.result.estimator.name, self.result.interval, self.result.level, False)

    @cached_property
    def policy_answers(self) -> list[Answer]:
        """What each policy would earn."""
        return [self.result.policy(policy) for policy in self.policies]

    @cached_property
    def sequence_contrasts(self) -> SequenceAnswers | None:
        """The contrasts as confidence sequences, if they were asked for."""
        if self.sequence is None or not self.pairs:
            return None
        answers = tuple(self.sequence.contrast(a, b) for a, b in self.pairs)
        return SequenceAnswers(answers, self.sequence.kind, self.sequence.level, False)

    # ---------------------------------------------------------------- formats

    def tables(self) -> list[Table]:
        """Return the answers as tables."""
        main: Table = self.result if self.comparison is None else self.comparison
        tables = [main]
        if self.comparison is not None:
            tables += [self.comparison.contrast(a, b) for a, b in self.pairs]
            tables += [self.comparison.policy(policy) for policy in self.policies]
        else:
            tables += [] if self.contrasts is None else [self.contrasts]
            tables += self.policy_answers
        tables += [] if self.sequence is None else [self.sequence]
        tables += [] if self.sequence_contrasts is None else [self.sequence_contrasts]
        return tables

    def to_text(self) -> str:
        """Return the answers as text for a terminal."""
        estimand = f"The outcome is {self.estimand}.\n\n"
        return estimand + "\n\n".join(table.to_text(every=True) for table in self.tables())

    def to_markdown(self) -> str:
        """Return the answers as Markdown."""
        return f"The outcome is {self.estimand}.\n\n" + "\n\n".join(table.to_markdown() for table in self.tables())

    @property
    def estimand(self) -> str:
        """What is estimated, in words."""
        name = one_line(self.source.outcome_name)
        return f"{name} within {self.source.within} of assignment" if self.source.within else name

    def to_csv(self) -> str:
        """Return the answers as CSV: a line for each question and estimator."""
        rows = [row for name, each in self._estimates().items() for row in self._rows(name, each)]
        names: tuple[str, ...] = ("estimator", "kind", "question", "estimate", "std_error", "low", "high", "level",
                                  "statistic", "p_value", "interval", "assigned", "arrived")  # fmt: skip
        if self.sequence is not None:
            rows += [
                {**answer.to_dict(), "estimator": "sequence", "interval": answer.kind, "kind": kind, "question": name}
                for kind, name, answer in self._sequence_answers(self.sequence)
            ]
            names += ("excluded_at",)
        return csv_text({name: [_blank(row.get(name)) for row in rows] for name in names})

    def _estimates(self) -> dict[str, Estimate]:
        return {self.result.estimator.name: self.result} if self.comparison is None else self.comparison.estimates

    def _sequence_answers(self, found: ConfidenceSequence) -> list[tuple[str, str, SequenceAnswer]]:
        arms = [("arm", str(arm), found.arm(arm)) for arm in found.arms]
        return arms + [("contrast", f"{a} - {b}", found.contrast(a, b)) for a, b in self.pairs]

    def _rows(self, estimator: str, each: Estimate) -> list[dict[str, Any]]:
        counts = zip(each.sums["assigned"].tolist(), each.sums["arrived"].tolist(), strict=True)
        rows = [
            {"kind": "arm", "question": str(arm), **answer.to_dict(), "assigned": int(n), "arrived": int(m)}
            for arm, answer, (n, m) in zip(each.arms, each.arm_answers, counts, strict=True)
        ]
        rows += [{"kind": "contrast", "question": f"{a} - {b}", **each.contrast(a, b).to_dict()} for a, b in self.pairs]
        rows += [
            {"kind": "policy", "question": _spelt(policy), **each.policy(policy).to_dict()} for policy in self.policies
        ]
        return [{"estimator": estimator, **row} for row in rows]

    def to_json(self) -> str:
        """Return the answers as JSON; docs/json.md says what each name means. What is not finite is null."""
        source = self.source
        return json_text(
            "analysis",
            {
                "source": {
                    "name": source.name,
                    "engine": source.engine,
                    "rows": len(source),
                    "arrived": int(self.result.sums["arrived"].sum()),
                    "as_of": self.result.as_of,
                    "columns": source.columns,
                    "notes": list(source.notes),
                },
                "outcome": {"name": source.outcome_name, "within": source.within},
                "level": self.result.level,
                "answers": [self._json(name, each) for name, each in self._estimates().items()],
                **({} if self.sequence is None else {"sequence": self._sequence_json(self.sequence)}),
                "warnings": list(self.warnings),
            },
        )

    def _json(self, name: str, each: Estimate) -> dict[str, Any]:
        shares = [None] * len(each.arms) if math.isnan(each.sums["h"].sum()) else each.observed_share.tolist()
        arms = [
            {"arm": arm, **_plain(answer), "assigned": int(n), "arrived": int(m), "observed_share": share,
             "effective_size": size}
            for arm, answer, n, m, share, size in zip(
                each.arms, each.arm_answers, each.sums["assigned"], each.sums["arrived"], shares,
                each.effective_size.tolist(), strict=True,
            )
        ]  # fmt: skip
        return {
            "estimator": name,
            "interval": each.interval,
            "arms": arms,
            "contrasts": [{"arm": a, "baseline": b, **_plain(each.contrast(a, b), test=True)} for a, b in self.pairs],
            "policies": [
                {
                    "policy": policy if isinstance(policy, str) else {str(arm): share for arm, share in policy.items()},
                    **_plain(each.policy(policy), test=True),
                }
                for policy in self.policies
            ],
        }

    def _sequence_json(self, found: ConfidenceSequence) -> dict[str, Any]:
        return {
            "kind": found.kind,
            "target": found.target,
            "arms": [{"arm": arm, **_always(found.arm(arm))} for arm in found.arms],
            "contrasts": [{"arm": a, "baseline": b, **_always(found.contrast(a, b), test=True)} for a, b in self.pairs],
        }


def analyse(source: Data, asked: Questions) -> Analysis:
    """Answer questions about a log; refuse one that records outcomes only when they happen."""
    arms = source.arms
    baseline = None if asked.baseline is None else find_arm(arms, asked.baseline)
    policies = tuple(read_policy(arms, text) for text in asked.policies)
    if asked.contrasts:
        pairs = [read_contrast(arms, text) for text in asked.contrasts]
    else:
        pairs = default_pairs(arms, arms[0] if baseline is None and len(arms) > MANY else baseline)
    if asked.contrasts and baseline is not None:
        pairs = list(dict.fromkeys([*pairs, *default_pairs(arms, baseline)]))
    everyone = asked.estimator == "all"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", BelatedWarning)
        best = "daipw" if source.has_all_propensities else "dipw"
        main = best if everyone or asked.estimator is None else asked.estimator
        if everyone:
            comparison = compare(source, level=asked.level, interval=asked.interval)
            result = comparison[main]
        else:
            comparison, result = None, estimate(source, main, level=asked.level, interval=asked.interval)
    value = single_value(result.sums)
    if value is not None:
        out = 1 - result.sums["arrived"].sum() / result.sums["assigned"].sum()
        raise LogError(single_value_words(value, out), column="outcome")
    told = [str(one.message) for one in caught if issubclass(one.category, BelatedWarning)]
    told += [words for words in (*source.doubts(), *source.oddities()) if words not in told]
    followed = None
    if asked.sequential:
        followed = sequence(source, level=asked.level, target=asked.target, baseline=baseline)
    elif asked.target is not None:
        raise OptionError("`target` is given without `sequential`; it says when a sequence should be narrowest.")
    return Analysis(source, result, comparison, baseline, tuple(pairs), policies, tuple(told), followed)


def _spelt(policy: Mapping[Any, float] | str) -> str:
    return policy if isinstance(policy, str) else ",".join(f"{arm}={share:g}" for arm, share in policy.items())


def _finite(value: Any) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def _blank(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def _plain(answer: Answer, test: bool = False) -> dict[str, Any]:
    names = ("estimate", "std_error", "low", "high", *(("statistic", "p_value") if test else ()))
    return {name: _finite(getattr(answer, name)) for name in names}


def _always(answer: SequenceAnswer, test: bool = False) -> dict[str, Any]:
    numbers: dict[str, Any] = {name: _finite(getattr(answer, name)) for name in ("estimate", "low", "high")}
    if test:
        when = None if answer.excluded_at is None else str(answer.excluded_at)
        numbers |= {"p_value": answer.p_value, "excluded_at": when}
    return {**numbers, "why": answer.why}
