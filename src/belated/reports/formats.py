"""Answers as rows of a CSV file, and as objects of JSON; docs/json.md says what each name means."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from belated.base.columns import ByArm
from belated.base.documents import csv_text
from belated.estimation.answers import Answer
from belated.estimation.estimate import Estimate
from belated.estimation.lift import Lift
from belated.estimation.target import Pair

if TYPE_CHECKING:
    from belated.sequences.answers import SequenceAnswer
    from belated.sequences.sequence import ConfidenceSequence

#: A probability for each arm, or "greedy".
PolicyAsked = ByArm[float] | str

_CSV_NAMES = (
    "estimator", "kind", "question", "estimate", "std_error", "low", "high", "level", "statistic", "p_value",
    "interval", "assigned", "arrived",
)  # fmt: skip

# ---------------------------------------------------------------- CSV


def write_csv(
    rows: Sequence[Mapping[str, object]], *, sequential: bool, simultaneous: bool = False, capped: bool = False
) -> str:
    """Return rows as CSV; a confidence sequence, contrasts that hold together, and a cap need a column more each."""
    names = _CSV_NAMES + ("simultaneous",) * simultaneous + ("excluded_at",) * sequential + ("cap",) * capped
    return csv_text({name: [_blank(row.get(name)) for row in rows] for name in names})


def estimate_rows(
    estimator: str,
    result: Estimate,
    contrasts: Mapping[Pair, Answer],
    policies: Sequence[PolicyAsked],
) -> list[dict[str, object]]:
    """Return a row for each arm, contrast, lift and policy."""
    counts = zip(result.sums["assigned"].tolist(), result.sums["arrived"].tolist(), strict=True)
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
    return policy if isinstance(policy, str) else ",".join(f"{arm}={share:g}" for arm, share in policy.items())


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
    shares = [None] * len(result.arms) if math.isnan(sums["h"].sum()) else result.observed_share.tolist()
    above = [None] * len(result.arms) if sums.cap is None else sums.cap.above.astype(int).tolist()
    numbers = zip(sums["assigned"], sums["arrived"], above, shares, result.effective_size.tolist(), strict=True)
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
        "contrasts": [
            {
                "arm": a,
                "baseline": b,
                **_numbers(answer, test=True),
                "simultaneous": answer.joint,
                **({} if answer.lift is None else {"lift": _lift(answer.lift)}),
            }
            for (a, b), answer in contrasts.items()
        ],
        "policies": [
            {
                "policy": policy if isinstance(policy, str) else {str(arm): share for arm, share in policy.items()},
                **_numbers(result.policy(policy), test=True),
            }
            for policy in policies
        ],
    }


def sequence_json(sequence: ConfidenceSequence, contrasts: Mapping[Pair, SequenceAnswer]) -> dict[str, object]:
    """Return what a confidence sequence says of arms and contrasts."""
    return {
        "kind": sequence.kind,
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
