"""Diagnosis: whether a log shows signs against what its estimates assume."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from belated.assumptions.checks import cohorts, delays, outcomes, probabilities, segments
from belated.assumptions.checks.check import LIGHTS, Check, Light
from belated.base.checks import one_of
from belated.base.columns import Label
from belated.base.documents import JsonObject, csv_text, json_text
from belated.base.tables import Column, Table, screen_width
from belated.base.text import count, one_line
from belated.log.data import Data, require_data
from belated.summaries.caps import Cap, cap_text, no_cap
from belated.summaries.evidence import Evidence
from belated.summaries.signs import copies_remark

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The checks of every log, in the order in which a diagnosis shows them.
CHECKS: tuple[Callable[[Evidence], Check], ...] = (
    probabilities.largest_weight,
    probabilities.effective_size,
    probabilities.variance_sums,
    probabilities.propensity_decay,
    delays.delay_tail,
    delays.still_out,
    outcomes.arrivals,
    probabilities.calibrated,
    probabilities.same_for_all_units,
    delays.outcome_and_delay,
    outcomes.recorded,
    outcomes.variation,
    outcomes.tail,
    outcomes.drift_over_time,
)

#: The further checks of a log of events, with segments, and with covariates.
EVENT_CHECKS = (cohorts.same_build_up,)
SEGMENT_CHECKS = (segments.arms_in_segments,)
COVARIATE_CHECKS = (segments.covariates_and_arrival, segments.covariates_and_choice)

#: The width of a diagnosis printed as text, in characters, and the least of its sentences.
_WIDTH, _LEAST_WIDTH = 100, 24


@dataclass(frozen=True, repr=False)
class Diagnosis(Table):
    """The checks of a log's assumptions, each with a light; prints as a table.

    ``diagnosis["drift"]`` is one `Check`; iterating gives all of them.

    Attributes
    ----------
    name : str
        The name of the log.
    rows : int
        The number of rows.
    arms : tuple
        The labels of the arms.
    checks : tuple of Check
    arrived : int
        The number of outcomes that have arrived.
    cap : Cap or None
        The cap on outcomes, and the number of outcomes above it.
    copies : int
        How many times the log contains every row.
    """

    name: str
    rows: int
    arms: tuple[Label, ...]
    checks: tuple[Check, ...]
    arrived: int = 0
    cap: Cap | None = None
    copies: int = 1

    def __getitem__(self, name: str) -> Check:
        by_name = {check.name: check for check in self.checks}
        return by_name[one_of("check", name, by_name)]

    def __iter__(self) -> Iterator[Check]:
        return iter(self.checks)

    def __len__(self) -> int:
        return len(self.checks)

    @property
    def worst(self) -> Light:
        """The worst light: "red", "amber" or "green"; "grey" if every check is grey."""
        lights = [check.light for check in self.checks if check.light != "grey"]
        return max(lights, key=list(LIGHTS).index, default="grey")

    @property
    def red(self) -> tuple[str, ...]:
        """The names of the checks whose light is red."""
        return tuple(check.name for check in self.checks if check.light == "red")

    @property
    def amber(self) -> tuple[str, ...]:
        """The names of the checks whose light is amber."""
        return tuple(check.name for check in self.checks if check.light == "amber")

    def worded(self, wording: Callable[[str], str]) -> Diagnosis:
        """Return the same checks with other words for their findings and advice."""
        checks = [replace(each, finding=wording(each.finding), advice=wording(each.advice)) for each in self.checks]
        return replace(self, checks=tuple(checks))

    def plot(self) -> Figure:
        """Draw every check with its light and finding; a matplotlib figure, which notebooks show."""
        from belated.assumptions.figures import diagnosis_figure

        return diagnosis_figure(self)

    def _title(self) -> str:
        lights = [check.light for check in self.checks]
        tally = [f"{lights.count(light)} {light}" for light in reversed(LIGHTS) if light in lights]
        size = f"{count(self.rows, 'row')}, {count(len(self.arms), 'arm')}"
        cap = "" if self.cap is None else f", outcomes capped at {cap_text(self.cap.value)}"
        return f"Diagnosis of {one_line(self.name)} ({size}{cap}): {', '.join(tally)}"

    def _columns(self) -> list[Column]:
        texts: dict[str, Sequence[str]] = {
            "light": [f"{LIGHTS[check.light].sign} {check.light}" for check in self.checks],
            "check": [check.name for check in self.checks],
            "condition": [check.condition for check in self.checks],
            "finding": [check.finding for check in self.checks],
            "advice": [check.advice for check in self.checks],
        }
        return [Column(name, list(values), "sentence") for name, values in texts.items()]

    def _notes(self) -> list[str]:
        capped = [] if self.cap is None else [self.cap.note(self.arrived)]
        copied = [] if self.copies == 1 else [copies_remark(self.copies).text]
        return [*capped, *copied, "No log can show whether one assignment influences the outcome of another."]

    def to_text(self, *, every: bool = False) -> str:
        """Return all checks as text for a terminal, with wrapped lines; `every` has no effect."""
        widest = max(18, *(len(c.name) for c in self.checks))
        heads = [f"{LIGHTS[c.light].sign} {c.light:<5}  {c.name:<{widest}}  {c.condition:<8}  " for c in self.checks]
        lines, width = [self._title()], min(_WIDTH, screen_width())
        if width < len(heads[0]) + _LEAST_WIDTH:
            heads = [f"{LIGHTS[c.light].sign} {c.name}: " for c in self.checks]
        for head, check in zip(heads, self.checks, strict=True):
            first = textwrap.wrap(check.finding, width - len(head))
            then = [] if not check.advice else textwrap.wrap(f"To do: {check.advice}", width - len(head))
            lines.append(head + first[0])
            lines += [" " * len(head) + line for line in (*first[1:], *then)]
        return "\n".join([*lines, *self._notes()])

    def to_dict(self) -> JsonObject:
        """Return the diagnosis as plain values: the worst light, and a list of checks."""
        return {"worst": self.worst, "checks": [check.to_dict() for check in self.checks]}

    def to_csv(self) -> str:
        """Return one line of CSV per check, without the numbers."""
        names = ("check", "condition", "light", "finding", "advice")
        return csv_text({name: [check.to_dict()[name] for check in self.checks] for name in names})

    def to_json(self) -> str:
        """Return the diagnosis as JSON, with null for NaN and infinity; docs/json.md explains each field."""
        capped = no_cap() if self.cap is None else self.cap.to_dict(self.arrived)
        return json_text(
            "diagnosis", {"source": self.name, "rows": self.rows, "copies": self.copies, **capped, **self.to_dict()}
        )


def diagnose(log: Data, *, cap: float | None = None) -> Diagnosis:
    """Check whether a log satisfies the assumptions behind its estimates.

    Parameters
    ----------
    log : Log or Source
        A log in memory, or a table from `read`. A table is not loaded: the engine computes counts and sums.
    cap : float, optional
        Outcomes above the cap count as the cap. By default, the cap of the log, if it has one.

    Returns
    -------
    Diagnosis
        For each check a light, a finding, advice and numbers. Red: do not use estimates from this log as they are.
        Amber: look into it, and report it with the result. Grey: the log cannot tell.

    Notes
    -----
    docs/diagnostics.md describes what each check measures and its error rates.

    Examples
    --------
    >>> import belated as bl
    >>> bandit = bl.Bandit({"A": bl.arms.normal(1), "B": bl.arms.normal(0)}, bl.delays.poisson(3))
    >>> log = bl.simulate(bandit, bl.policies.epsilon_greedy(decay=0.3, burn_in=50), 1000, seed=1)
    >>> bl.diagnose(log).red
    ()
    """
    data = require_data(log, cap)
    return checked(data.evidence(), data.name, data.capping, data.copies())


def checked(evidence: Evidence, name: str, cap: Cap | None = None, copies: int = 1) -> Diagnosis:
    """Return the diagnosis of evidence."""
    with np.errstate(invalid="ignore", divide="ignore"):
        checks = _checks_of(evidence)
    arrived = int(evidence.totals["arrived"].sum())
    return Diagnosis(
        name=name, rows=evidence.rows, arms=evidence.arms, checks=checks, arrived=arrived, cap=cap, copies=copies
    )


def _checks_of(evidence: Evidence) -> tuple[Check, ...]:
    """Return every check that concerns a log."""
    checks = (
        *CHECKS,
        *(() if evidence.cohorts is None else EVENT_CHECKS),
        *(() if evidence.segments is None else SEGMENT_CHECKS),
        *(() if evidence.covariates is None else COVARIATE_CHECKS),
    )
    return tuple(check(evidence) for check in checks)
