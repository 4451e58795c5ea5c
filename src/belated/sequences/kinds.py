"""Kinds of confidence sequences: by what is assumed of the outcomes."""

from __future__ import annotations

from typing import Literal, get_args

from belated.base.checks import one_of
from belated.sequences.arrivals import ArrivedRows

#: In the order in which kernels number them.
Kind = Literal["asymptotic", "sub_gaussian", "bernstein", "beta_binomial"]
KINDS: tuple[Kind, ...] = get_args(Kind)

#: What may be asked for.
KindOption = Literal["auto", "asymptotic", "sub_gaussian", "bernstein", "beta_binomial"]
KIND_OPTIONS: tuple[KindOption, ...] = get_args(KindOption)


def resolve_kind(
    option: KindOption, arrivals: ArrivedRows, bounds: tuple[float, float] | None, sigma: float | None
) -> Kind:
    """Return the kind that an option stands for: "auto" is the one that assumes most among those that may be."""
    one_of("kind", option, KIND_OPTIONS)
    if option != "auto":
        return option
    if len(arrivals) and arrivals.outside(0, 1, ends=True) is None:
        return "beta_binomial"
    if bounds is not None:
        return "bernstein"
    return "asymptotic" if sigma is None else "sub_gaussian"


def kind_text(kind: Kind) -> str:
    """Return a kind as people write it."""
    return kind.replace("_", "-")
