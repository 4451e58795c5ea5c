"""Answers as rows of a CSV file, and as objects of JSON; docs/json.md says what each name means."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from belated.base.documents import csv_text
from belated.estimation.answers import Answer
from belated.estimation.estimate import Estimate
from belated.estimation.lift import Lift
from belated.estimation.target import Pair, PolicyLike

if TYPE_CHECKING:
    from belated.estimation.buildup import Windows
    from belated.estimation.by_segment import Heterogeneity
    from belated.sequences.answers import SequenceAnswer
    from belated.sequences.sequence import ConfidenceSequence

#: A probability for each arm; or, by segment, an arm or such probabilities; or "greedy".
PolicyAsked = PolicyLike | str

_CSV_NAMES = (
    "estimator", "kind", "question", "estimate", "std_error", "low", "high", "level", "statistic", "p_value",
    "interval", "assigned", "arrived",
)  # fmt: skip

# ---------------------------------------------------------------- CSV


def write_csv(
    rows: Sequence[Mapping[str, object]],
    *,
    sequential: bool,
    simultaneous: bool = False,
    capped: bool = False,
    by_segment: bool = False,
    windows: bool = False,
) -> str:
    """Return rows as CSV; each option that is true needs a column more."""
    more = {
        "simultaneous": simultaneous, "excluded_at": sequential, "cap": capped, "segment": by_segment,
        "window": windows,
    }  # fmt: skip
    names = (*_CSV_NAMES, *(name for name, wanted in more.items() if wanted))
    return csv_text({name: [_blank(row.get(name)) for row in rows] for name in names})


def estimate_rows(
    estimator: str,
    result: Estimate,
    contrasts: Mapping[Pair, Answer],
    policies: Sequence[PolicyAsked],
) -> list[dict[str, object]]:
    """Return a row for each arm, contrast, lift and policy."""
    counts = zip(result.assigned.tolist(), result.arrived.tolist(), strict=True)
    rows = [
        {"kind": "arm", "question": str(arm), **answer.to_dict(), "assigned": int(n), "arrived": int(m)}
        for arm, answer, (n, m) in zip(result.arms, result.arm_answers, counts, strict=True)
    ]
    for (a, b), answer in contrasts.items():
        joint = {"simultaneous": answer.joint}
        rows.append({"kind": "contrast", "question": f"{a} - {b}", **answer.to_dict(), **joint})
        if answer.lift is not None:
            rows.append({"kind": "lift", "question": f"{a} over {b}", **vars(answer.lift), **joint})
    rows += [{"kind": "policy", "question": _spelt(policy), **result.policy(policy).to_dict()} for policy in policies]
    return [{"estimator": estimator, **row} for row in rows]


def segment_rows(estimator: str, result: Estimate, by_segment: Mapping[Pair, Heterogeneity]) -> list[dict[str, object]]:
    """Return a row for each arm, contrast and lift in every segment, and for each test of differences between them."""
    rows: list[dict[str, object]] = []
    for i, segment in enumerate(result.segments if by_segment else ()):
        contrasts = {pair: test.contrasts.answers[i] for pair, test in by_segment.items()}
        own = estimate_rows(estimator, result.segment(segment), contrasts, ())
        rows += [{**row, "segment": str(segment)} for row in own]
    for (a, b), test in by_segment.items():
        numbers = {"statistic": test.statistic, "p_value": test.p_value}
        rows.append({"estimator": estimator, "kind": "heterogeneity", "question": f"{a} - {b}", **numbers})
    return rows


def window_rows(estimator: str, windows: Windows | None, pairs: Sequence[Pair]) -> list[dict[str, object]]:
    """Return a row for each arm and contrast in every window but the longest, which the other rows are about."""
    if windows is None:
        return []
    return [
        {**row, "window": window}
        for window in list(windows)[:-1]
        for row in estimate_rows(
            estimator, windows[window], {pair: windows[window].contrast(*pair) for pair in pairs}, ()
        )
    ]


def sequence_rows(sequence: ConfidenceSequence, contrasts: Mapping[Pair, SequenceAnswer]) -> list[dict[str, object]]:
    """Return a row for each arm and contrast of a confidence sequence."""
    answers = [("arm", str(arm), sequence.arm(arm)) for arm in sequence.arms]
    answers += [("contrast", f"{a} - {b}", answer) for (a, b), answer in contrasts.items()]
    return [
        {**answer.to_dict(), "estimator": "sequence", "interval": answer.kind, "kind": kind, "question": question,
         "simultaneous": answer.together > 1 if kind == "contrast" else None}
        for kind, question, answer in answers
    ]  # fmt: skip


def _spelt(policy: PolicyAsked) -> str:
    if isinstance(policy, str):
        return policy
    if all(isinstance(share, (int, float)) for share in policy.values()):
        return ",".join(f"{arm}={share:g}" for arm, share in policy.items())
    return ";".join(
        f"{segment}:{_spelt(choice) if isinstance(choice, Mapping) else choice}" for segment, choice in policy.items()
    )


def _blank(value: object) -> object:
    return None if isinstance(value, float) and math.isnan(value) else value


# ---------------------------------------------------------------- JSON


def estimate_json(
    estimator: str,
    result: Estimate,
    contrasts: Mapping[Pair, Answer],
    policies: Sequence[PolicyAsked],
) -> dict[str, object]:
    """Return what an estimator says of arms, contrasts and policies."""
    sums = result.sums
    unknown = math.isnan(sums["h"].sum()) or result.maturity is not None
    shares = [None] * len(result.arms) if unknown else result.observed_share.tolist()
    above = [None] * len(result.arms) if sums.cap is None else sums.cap.above.astype(int).tolist()
    numbers = zip(sums["assigned"], result.arrived, above, shares, result.effective_size.tolist(), strict=True)
    return {
        "estimator": estimator,
        "interval": result.interval,
        "arms": [
            {
                "arm": arm,
                **_numbers(answer),
                "assigned": int(assigned),
                "arrived": int(arrived),
                "capped": capped,
                "observed_share": share,
                "effective_size": size,
            }
            for arm, answer, (assigned, arrived, capped, share, size) in zip(
                result.arms, result.arm_answers, numbers, strict=True
            )
        ],
        "contrasts": [_contrast(pair, answer) for pair, answer in contrasts.items()],
        "policies": [
            {
                "policy": _by_text(policy),
                **_numbers(result.policy(policy), test=True),
            }
            for policy in policies
        ],
    }


def _contrast(pair: Pair, answer: Answer) -> dict[str, object]:
    return {
        "arm": pair[0],
        "baseline": pair[1],
        **_numbers(answer, test=True),
        "simultaneous": answer.joint,
        **({} if answer.lift is None else {"lift": _lift(answer.lift)}),
    }


def _by_text(policy: object) -> object:
    """Return a policy with arms and segments as text."""
    return {str(key): _by_text(value) for key, value in policy.items()} if isinstance(policy, Mapping) else policy


def segments_json(result: Estimate, by_segment: Mapping[Pair, Heterogeneity]) -> dict[str, object]:
    """Return what an estimator says of every segment, and whether contrasts differ between them."""
    return {
        "by_segment": [
            {
                "segment": segment,
                "arms": [
                    {"arm": arm, **_numbers(answer), "assigned": int(n), "arrived": int(m)}
                    for arm, answer, n, m in zip(own.arms, own.arm_answers, own.assigned, own.arrived, strict=True)
                ],
                "contrasts": [_contrast(pair, test.contrasts.answers[i]) for pair, test in by_segment.items()],
            }
            for i, (segment, own) in enumerate((each, result.segment(each)) for each in result.segments)
        ],
        "heterogeneity": [{"arm": a, "baseline": b, **test.to_dict()} for (a, b), test in by_segment.items()],
    }


def maturity_json(result: Estimate) -> dict[str, object]:
    """Return how far the rows of events have lived, if windows may be open."""
    maturity = result.maturity
    if maturity is None:
        return {}
    counts = {name: getattr(maturity, name).sum(axis=0).tolist() for name in ("closed", "open", "events")}
    return {
        "maturity": {
            "window": maturity.text(maturity.window),
            "asked": maturity.text(maturity.asked),
            "covered": None if maturity.covered is None else maturity.text(maturity.covered),
            "measure": maturity.measure,
            "arms": [
                {"arm": arm, **{name: int(counts[name][k]) for name in counts}} for k, arm in enumerate(result.arms)
            ],
        }
    }


def windows_json(windows: Windows | None, pairs: Sequence[Pair]) -> dict[str, object]:
    """Return what an estimator says of each window, if several were asked for."""
    if windows is None:
        return {}
    return {
        "windows": [
            {
                "window": window,
                "arms": [
                    {"arm": arm, **_numbers(answer)} for arm, answer in zip(own.arms, own.arm_answers, strict=True)
                ],
                "contrasts": [_contrast(pair, own.contrast(*pair)) for pair in pairs],
            }
            for window, own in windows.estimates.items()
        ]
    }


def sequence_json(sequence: ConfidenceSequence, contrasts: Mapping[Pair, SequenceAnswer]) -> dict[str, object]:
    """Return what a confidence sequence says of arms and contrasts."""
    return {
        "kind": sequence.kind,
        "basis": sequence.basis,
        "target": sequence.target,
        "bounds": sequence.design.bounds,
        "arms": [{"arm": arm, **_limits(sequence.arm(arm))} for arm in sequence.arms],
        "contrasts": [
            {"arm": a, "baseline": b, **_limits(answer, test=True), "simultaneous": answer.together > 1}
            for (a, b), answer in contrasts.items()
        ],
    }


def _numbers(answer: Answer, test: bool = False) -> dict[str, float]:
    names = ("estimate", "std_error", "low", "high", *(("statistic", "p_value") if test else ()))
    return {name: getattr(answer, name) for name in names}


def _lift(lift: Lift) -> dict[str, object]:
    return {name: getattr(lift, name) for name in ("estimate", "low", "high", "why")}


def _limits(answer: SequenceAnswer, test: bool = False) -> dict[str, object]:
    tested: dict[str, object] = {}
    if test:
        when = None if answer.excluded_at is None else str(answer.excluded_at)
        tested = {"p_value": answer.p_value, "excluded_at": when}
    return {"estimate": answer.estimate, "low": answer.low, "high": answer.high, **tested, "why": answer.why}
