"""Splits: fixed probabilities of the arms, declared by the user because no column holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import TypeGuard

import numpy as np

from belated.base.checks import are_shares, nearest, real
from belated.base.columns import Array, ByArm, Label
from belated.base.errors import LogError, OptionError, argument
from belated.base.text import one_line, shown
from belated.log.labels import encode

#: The split in which every arm has the same probability.
UNIFORM = "uniform"


def is_split(given: object) -> TypeGuard[ByArm[float]]:
    """Whether a `propensity` maps arms to probabilities, not to columns; mixtures are refused."""
    if not isinstance(given, Mapping):
        return False
    numbers = [arm for arm, share in given.items() if isinstance(share, Real)]
    if numbers and len(numbers) < len(given):
        odd = next(arm for arm in given if arm not in numbers)
        raise OptionError(
            f"{argument('propensity')} gives arm {_named(numbers[0])} a probability and arm {_named(odd)} none; it "
            "must map every arm to a probability, or every arm to a column."
        )
    return bool(numbers)


def shares_of(split: ByArm[float] | str, labels: Sequence[Label], arms: Sequence[Label] | None) -> dict[Label, float]:
    """Return each arm's probability under a split.

    Parameters
    ----------
    split : mapping or "uniform"
        A probability for each arm; as text, labels need not be of the arms' type.
    labels : sequence
        The arms that rows have.
    arms : sequence or None
        All arms, if the user named them: only then an arm may have a share and no row.
    """
    if isinstance(split, str):
        if arms is None:
            _check_apart(labels)
        every = list(labels if arms is None else arms)
        return {arm: 1 / len(every) for arm in every}
    known = [*labels, *(arm for arm in arms or () if arm not in labels)]
    held, texts = {arm: arm for arm in known}, {str(arm): arm for arm in known}
    shares: dict[Label, float] = {}
    for label, given in split.items():
        share = real(f"propensity[{label!r}]", given)
        if share < 0:
            raise OptionError(
                f"{argument('propensity')} gives arm {_named(label)} the probability {share:g}; it must not be below 0."
            )
        arm = held.get(label, texts.get(str(label)))
        if arm is None:
            near = nearest(label, texts)
            hint = f" Did you mean {_named(near)}?" if near else ""
            raise LogError(
                f"{argument('propensity')} gives arm {_named(label)} a probability, but no row has this arm; the arms "
                f"are {', '.join(map(_named, labels[:10]))}.{hint} If it was never chosen, list all arms with "
                f"{argument('arms')}.",
                column="propensity",
            )
        shares[arm] = share
    without = next((arm for arm in known if arm not in shares), None)
    if without is not None:
        raise LogError(
            f"{argument('propensity')} gives arm {_named(without)} no probability; every arm in the log needs one.",
            column="propensity",
        )
    each = list(shares.values())
    if not are_shares(each):
        percent = "; these look like per cent, so divide them by 100" if are_shares([p / 100 for p in each]) else ""
        raise OptionError(
            f"The probabilities of {argument('propensity')} sum to {sum(each):.9g}; they must sum to 1{percent}."
        )
    return shares


def _check_apart(arms: Sequence[Label]) -> None:
    """Refuse labels that are one arm written in two ways, which would change everybody's share."""
    folded: dict[str, Label] = {}
    for arm in arms:
        other = folded.setdefault(" ".join(str(arm).split()).casefold(), arm)
        if other is not arm and other != arm:
            raise LogError(
                f"Arms {_named(other)} and {_named(arm)} differ only in spaces or case; if they are one arm, make "
                f"their labels the same, and if they are two, list the arms with {argument('arms')}.",
                column="arm",
            )


def _named(label: object) -> str:
    return one_line(repr(label))


def split_matrix(split: str | ByArm[float], arm: object, arms: Sequence[Label] | None) -> tuple[Array, Sequence[Label]]:
    """Return the propensities of a split, the same in every row, and the arms in their order."""
    if isinstance(split, str) and split != UNIFORM:
        raise LogError(
            f"{argument('propensity')} is {shown(split)}; it must hold probabilities, or be {UNIFORM!r} or a mapping "
            "such as {'A': 0.5, 'B': 0.5}.",
            column="propensity",
        )
    codes, labels = encode(arm, None, None)
    shares = shares_of(split, labels, arms)
    order = list(shares) if arms is None else list(arms)
    return np.tile([shares[label] for label in order], (len(codes), 1)), order
