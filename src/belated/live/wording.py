"""Advice in the words of live experiments, whose answers take no options: what these stand for was declared."""

from __future__ import annotations

from functools import cache


def in_live(text: str) -> str:
    """Return a text in which advice to use options of an analysis is advice that a live experiment can follow."""
    for words, instead in _phrases():
        text = text.replace(words, instead)
    return text


@cache
def _phrases() -> tuple[tuple[str, str], ...]:
    """Return what texts say of options, each with what they say to those who run an experiment."""
    from belated.assumptions.checks.cohorts import CLOSED_OPTIONS
    from belated.assumptions.checks.outcomes import CAP_THEM
    from belated.estimation.standardised import ARRIVAL_OPTION
    from belated.sequences.intervals import BINARY_KIND, BOUNDED
    from belated.summaries.signs import ARMS_OPTION, CONTEXT_ADVICE, FINER_ADVICE, WINDOW_OPTIONS

    return (
        (BOUNDED, "one of bounded outcomes, which only a new experiment can declare, does not"),
        (BINARY_KIND, ""),
        (WINDOW_OPTIONS, "a window in a new experiment, whose outcomes are events"),
        (ARMS_OPTION, ""),
        (ARRIVAL_OPTION, ""),
        (CONTEXT_ADVICE, f"Name what the policy looked at as the segments of a new experiment. {_UNIFORM}"),
        (FINER_ADVICE, f"Name finer segments in a new experiment: everything that the policy looked at. {_UNIFORM}"),
        (CLOSED_OPTIONS, " in an analysis of the experiment's log"),
        (CAP_THEM, "Cap the outcomes in an analysis of the experiment's log"),
    )


_UNIFORM = (
    "Or analyse the experiment's log in Python with weights='uniform' or weights='past', which are right if arrival "
    "does not depend on the unit."
)
