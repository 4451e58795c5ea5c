"""Diagnostics: what the theory asks of a log, and what the log shows against it."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from belated.base.checks import one_of
from belated.base.columns import Array
from belated.base.json_text import json_text
from belated.base.tables import Column, Table
from belated.base.text import count, one_line, p_words
from belated.log.data import Data, require_data
from belated.summaries.evidence import ArrivalCounts, Evidence
from belated.summaries.signs import (
    BLATANT,
    CALIBRATION_ADVICE,
    DEPENDENCE_ADVICE,
    POSITIVE_ADVICE,
    SURE,
    calibration,
    delay_tails,
    direction,
    drift,
    is_sparse,
    most_recorded,
    one_value,
    outcome_dependence,
    positive_finding,
    single_value_advice,
    single_value_finding,
    steady_arrival,
    swapped,
    trend,
)

#: Lights, the worst last, with the sign that stands for each where there is no colour.
LIGHTS = {"green": "✓", "grey": "?", "amber": "!", "red": "✗"}


#: The share of an arm's weight that one row must not hold, and that which is looked at.
_HEAVY, _NOTABLE = 0.15, 0.05

#: How often a row as unlikely as the heaviest must be expected, if every arm's probabilities are known, or not.
_UNHEARD, _UNHEARD_CHOSEN = 1e-3, 0.02

#: Arrivals, or outcomes of equal weight, below which an arm's interval is a rough one.
_FEW = 30

#: The p-value below which something may be amiss.
_DOUBT = 0.01

_WIDTH = 100


@dataclass(frozen=True)
class Check:
    """One check of a log.

    Attributes
    ----------
    name : str
    condition : str
        Which of the paper's conditions it speaks to, A1 to A5, or "practice".
    asks : str
        What must hold, in a sentence.
    light : str
        "green", "amber", "red", or "grey": the log cannot tell.
    finding : str
        What the log shows, in a sentence.
    advice : str
        What to do; empty if the light is green.
    numbers : dict
        What was measured: a number, or a dict by arm.
    """

    name: str
    condition: str
    asks: str
    light: str
    finding: str
    advice: str = ""
    numbers: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        one_of("light", self.light, LIGHTS)

    def to_dict(self) -> dict[str, Any]:
        """Return the check as plain values."""
        return {
            "check": self.name, "condition": self.condition, "light": self.light, "asks": self.asks,
            "finding": self.finding, "advice": self.advice, "numbers": self.numbers,
        }  # fmt: skip


@dataclass(frozen=True, repr=False)
class Diagnosis(Table):
    """What a log shows against what its estimates assume; prints as a table.

    ``diagnosis["drift"]`` is one `Check`; iterating gives all.

    Attributes
    ----------
    name : str
    rows : int
    arms : tuple
    checks : tuple of Check
    """

    name: str
    rows: int
    arms: tuple[Any, ...]
    checks: tuple[Check, ...]

    def __getitem__(self, name: str) -> Check:
        return {check.name: check for check in self.checks}[one_of("check", name, [c.name for c in self.checks])]

    def __iter__(self) -> Iterator[Check]:
        return iter(self.checks)

    def __len__(self) -> int:
        return len(self.checks)

    @property
    def worst(self) -> str:
        """The worst light: "red", "amber", or "green"; "grey" if nothing could be judged."""
        lights = {check.light for check in self.checks} - {"grey"}
        return max(lights, key=list(LIGHTS).index, default="grey")

    @property
    def red(self) -> tuple[str, ...]:
        """The names of the checks whose light is red."""
        return tuple(check.name for check in self.checks if check.light == "red")

    @property
    def amber(self) -> tuple[str, ...]:
        """The names of the checks whose light is amber."""
        return tuple(check.name for check in self.checks if check.light == "amber")

    def _title(self) -> str:
        lights = [check.light for check in self.checks]
        told = [f"{lights.count(light)} {light}" for light in reversed(LIGHTS) if light in lights]
        size = f"{count(self.rows, 'row')}, {count(len(self.arms), 'arm')}"
        return f"Diagnosis of {one_line(self.name)} ({size}): {', '.join(told)}"

    def _columns(self) -> list[Column]:
        texts = {
            "light": [f"{LIGHTS[check.light]} {check.light}" for check in self.checks],
            "check": [check.name for check in self.checks],
            "condition": [check.condition for check in self.checks],
            "finding": [check.finding for check in self.checks],
            "advice": [check.advice for check in self.checks],
        }
        return [Column(name, list(values), "sentence") for name, values in texts.items()]

    def _notes(self) -> list[str]:
        return ["That one assignment does not influence another's outcome, no log can show."]

    def to_text(self, *, every: bool = False) -> str:
        """Return the checks as text for a terminal, the sentences wrapped; all are shown, whatever `every` says."""
        heads = [f"{LIGHTS[c.light]} {c.light:<5}  {c.name:<18}  {c.condition:<8}  " for c in self.checks]
        lines = [self._title()]
        for head, check in zip(heads, self.checks, strict=True):
            first = textwrap.wrap(check.finding, _WIDTH - len(head))
            then = [] if not check.advice else textwrap.wrap(f"To do: {check.advice}", _WIDTH - len(head))
            lines.append(head + first[0])
            lines += [" " * len(head) + line for line in (*first[1:], *then)]
        return "\n".join([*lines, *self._notes()])

    def to_dict(self) -> dict[str, Any]:
        """Return the diagnosis as plain values: `worst`, and a list of checks."""
        return {"worst": self.worst, "checks": [check.to_dict() for check in self.checks]}

    def to_csv(self) -> str:
        """Return a line for each check as CSV, without the numbers."""
        from belated.base.files import csv_text

        names = ("check", "condition", "light", "finding", "advice")
        return csv_text({name: [check.to_dict()[name] for check in self.checks] for name in names})

    def to_json(self) -> str:
        """Return the diagnosis as JSON; docs/json.md says what each name means. What is not finite is null."""
        return json_text("diagnosis", {"source": self.name, "rows": self.rows, **self.to_dict()})


def diagnose(log: Data) -> Diagnosis:
    """Hold a log against what its estimates assume.

    Parameters
    ----------
    log : Log, or what `read` gives
        Of a table that stays where it is, only counts and sums are asked.

    Returns
    -------
    Diagnosis
        For each check a light, a sentence, what to do, and the numbers. Red: an estimate from this log should not be
        used as it is. Amber: look, and say it beside the answer. Grey: the log cannot tell.

    Notes
    -----
    docs/diagnostics.md says what each check measures and how often it errs.

    Examples
    --------
    >>> import belated as bl
    >>> bandit = bl.Bandit({"A": bl.arms.normal(1), "B": bl.arms.normal(0)}, bl.delays.poisson(3))
    >>> log = bl.simulate(bandit, bl.policies.epsilon_greedy(decay=0.3, burn_in=50), 1000, seed=1)
    >>> bl.diagnose(log).red
    ()
    """
    data = require_data(log)
    return checked(data.evidence(), data.name)


def checked(evidence: Evidence, name: str) -> Diagnosis:
    """Return what evidence shows."""
    checks = (
        _largest_weight, _effective_size, _variance_sums, _propensity_decay, _delay_tail, _still_out, _arrivals,
        _probabilities, _outcome_dependence, _recorded, _variation, _drift,
    )  # fmt: skip
    with np.errstate(invalid="ignore", divide="ignore"):
        return Diagnosis(name, evidence.rows, evidence.arms, tuple(check(evidence) for check in checks))


def _by_arm(evidence: Evidence, values: Any) -> dict[Any, float]:
    return {arm: float(value) for arm, value in zip(evidence.arms, values, strict=True)}


def _say(evidence: Evidence, arm: int) -> str:
    return f"arm {one_line(repr(evidence.arms[arm]), 40)}"


def _light(p_value: float, sure: float) -> str:
    return "red" if p_value < sure else "amber" if p_value < _DOUBT else "green"


# ---------------------------------------------------------------- the weights (A1, A3, A4, A5)


def _largest_weight(e: Evidence) -> Check:
    name, condition = "largest weight", "A1, A4"
    asks = "No single row decides an arm's answer."
    share = e.rarest**-0.5 / e.totals["w"]
    of_sums = 1 / e.rarest / e.totals["w2"]
    numbers = {"share": _by_arm(e, share), "share_of_variance": _by_arm(e, of_sums)}
    if e.h is not None and e.h_max is not None:
        numbers["share_of_all_rows"] = _by_arm(e, e.h_max / e.h)
    if np.isnan(share).all():
        return Check(name, condition, asks, "grey", "No outcome has arrived.", "Wait for outcomes.", numbers)
    expected = e.rarest * e.rows if e.chance is None else e.chance
    numbers["expected_so_unlikely"] = _by_arm(e, expected)
    planted = (share >= _HEAVY) & (expected < (_UNHEARD_CHOSEN if e.chance is None else _UNHEARD))
    if planted.any():
        k = int(np.nanargmax(np.where(planted, share, math.nan)))
        return Check(
            name, condition, asks, "red",
            f"One row of {_say(e, k)} holds {share[k]:.1%} of the arm's weight; a row as unlikely (probability "
            f"{e.rarest[k]:.2g}) was to be expected {expected[k]:.2g} times in the whole log.",
            "Look at that row's logged probability. If it is right, the arm's answer hangs on one outcome: report the "
            "arm without an interval, or leave it out.",
            numbers,
        )  # fmt: skip
    if e.h is not None and e.h_max is not None and e.rows >= _FEW and np.nanmax(e.h_max / e.h) >= _HEAVY:
        k = int(np.nanargmax(e.h_max / e.h))
        return Check(
            name, condition, asks, "red",
            f"{_upper(_say(e, k))} had a real chance in a handful of rows only: one of them holds "
            f"{e.h_max[k] / e.h[k]:.1%} of what all rows could have told about it.",
            "Leave the arm out, or run on with a floor under every arm's probability.", numbers,
        )  # fmt: skip
    k = int(np.nanargmax(share))
    said = f"The heaviest row of {_say(e, k)} holds {share[k]:.1%} of the arm's weight."
    if share[k] < _NOTABLE:
        return Check(name, condition, asks, "green", said, "", numbers)
    return Check(
        name, condition, asks, "amber",
        f"{said[:-1]}, which is what the policy's small probabilities make of few rows.",
        "Use the t interval (the default), which allows for it; the normal one is too narrow here.", numbers,
    )  # fmt: skip


def _effective_size(e: Evidence) -> Check:
    name, condition, asks = "effective size", "A3", "Every arm keeps being tried."
    size = np.where(e.totals["w2"] > 0, e.totals["w"] ** 2 / e.totals["w2"], 0.0)
    numbers = {"effective_size": _by_arm(e, size)}
    k = int(np.argmin(size))
    said = f"The outcomes of {_say(e, k)} count like {size[k]:,.0f} of equal weight"
    if (size < 5).all():
        return Check(
            name, condition, asks, "red", f"{said}, and no arm's like 5 or more.",
            "Wait for more outcomes; nothing can be concluded yet.", numbers,
        )  # fmt: skip
    if size[k] < _FEW:
        few = int((size < _FEW).sum())
        more = "" if few == 1 else f"; {few} arms have fewer than {_FEW}"
        return Check(
            name, condition, asks, "amber", f"{said}{more}.",
            "Read such an arm's interval as a rough one, or let it be tried more often.", numbers,
        )  # fmt: skip
    return Check(name, condition, asks, "green", f"{said}, which is the fewest.", "", numbers)


def _variance_sums(e: Evidence) -> Check:
    name, condition, asks = "variance sums", "A5", "The sums behind the standard errors settle down."
    wobble = np.sqrt(e.totals["w4"]) / e.totals["w2"]
    p_value = math.nan if e.within is not None else steady_arrival(e.coarse("old"), e.coarse("soon"))
    numbers = {"relative_error": _by_arm(e, wobble), "steady_arrival_p": p_value}
    if p_value < BLATANT:
        return Check(
            name, condition, asks, "red",
            f"The share of outcomes that come in good time changes from beginning to end (p {p_words(p_value, 2)}).",
            "Find out what changed in how outcomes are recorded, and use the stretch in which nothing did.", numbers,
        )  # fmt: skip
    if np.isnan(wobble).all():
        return Check(name, condition, asks, "grey", "No outcome has arrived.", "Wait for outcomes.", numbers)
    k = int(np.nanargmax(wobble))
    said = f"The sum of squared weights of {_say(e, k)} is known to within about {wobble[k]:.0%}"
    if wobble[k] >= 0.5 or p_value < SURE:
        return Check(
            name, condition, asks, "amber", f"{said}: its standard error is uncertain itself.",
            "Use the t interval (the default), which allows for it, and expect it to change as outcomes come.", numbers,
        )  # fmt: skip
    return Check(name, condition, asks, "green", f"{said}, which is the least certain.", "", numbers)


def _propensity_decay(e: Evidence) -> Check:
    name, condition = "propensity decay", "A1-A5"
    asks = "The smallest probability falls more slowly than 1 / t."
    if e.p is None or e.p_min is None:
        said = "Only the chosen arm's probability is logged, so how far the others fell cannot be told."
        return Check(name, condition, asks, "grey", said, "Log every arm's probability.")
    rows = e.sums["assigned"].sum(axis=1)
    step = np.cumsum(rows)
    there = (rows > 0) & (step >= 0.25 * e.rows)
    floor = np.min(e.p_min, axis=1)
    later = (step - rows / 2 > e.rows / 2) & (rows > 0)
    expected = e.p[later].sum(axis=0)
    least = int(np.argmin(expected))
    numbers: dict[str, Any] = {"exponent": math.nan, "expected_in_later_half": _by_arm(e, expected)}
    if there.sum() < 3 or not (floor[there] > 0).all():
        if there.sum() >= 3 and expected[least] < 1:
            said = f"From some time on {_say(e, least)} had no chance: {expected[least]:.2g} choices in the later half."
            return Check(
                name, condition, asks, "amber", said, "Leave out an arm that was dropped, or use the rows before.",
                numbers,
            )  # fmt: skip
        said = "There are too few moments to follow the probabilities."
        if there.sum() >= 3:
            return Check(name, condition, asks, "green", "Arms that were switched off were tried again.", "", numbers)
        return Check(name, condition, asks, "grey", said, "", numbers)
    x, z = np.log(step[there]), np.log(floor[there])
    x = x - x.mean()
    slope = float(np.sum(x * z) / np.sum(x * x))
    rest = z - z.mean() - slope * x
    error = math.sqrt(float(rest @ rest) / max(len(x) - 2, 1) / float(x @ x))
    exponent = -slope
    numbers |= {"exponent": exponent, "std_error": error}
    falls = f"falls like t^-{exponent:.2f}" if exponent >= 0.005 else "does not fall"
    said = f"The smallest probability {falls}; of {_say(e, least)}"
    times = f"{expected[least]:,.0f}" if expected[least] >= 100 else f"{expected[least]:.2g}"
    rest_said = f"{times} choices were to be expected in the later half"
    if exponent - 3 * error > 1 and expected[least] < 1:
        return Check(
            name, condition, asks, "red", f"{said}, only {rest_said}.",
            "Keep a floor under the probabilities that falls more slowly, such as t^-0.5, and leave out arms that were "
            "given up.", numbers,
        )  # fmt: skip
    if exponent > 0.85 and expected[least] < 10:
        return Check(
            name, condition, asks, "amber", f"{said}, {rest_said}.",
            "Expect wide intervals for such arms; a floor such as t^-0.5 keeps them alive.", numbers,
        )  # fmt: skip
    return Check(name, condition, asks, "green", f"{said}, {rest_said}.", "", numbers)


# ---------------------------------------------------------------- the delays (A2)


def _delay_tail(e: Evidence) -> Check:
    name, condition = "delay tail", "A2"
    asks = "The share of outcomes later than d falls at least like d^-1/2."
    if e.within is not None:
        return Check(name, condition, asks, "green", f"Every outcome is known {e.within} after its assignment.")
    if not e.totals["arrived"].any():
        return Check(name, condition, asks, "grey", "No outcome has arrived.", "Wait for outcomes.")
    if e.arrivals is None:
        return Check(name, condition, asks, "green", "Every outcome that has come came at once.")
    tails = delay_tails(e.arrivals, e.grain)
    numbers = {
        "exponent": _by_arm(e, tails.exponent), "low": _by_arm(e, tails.low), "high": _by_arm(e, tails.high),
    }  # fmt: skip
    known = ~np.isnan(tails.exponent)
    if not known.any():
        said = f"No arm has {_FEW} outcomes that came late, so few that their tail cannot be told."
        came_late = e.arrivals.counts[:, 1:-1].sum() / e.totals["arrived"].sum()
        light = "green" if came_late < 0.05 and e.totals["arrived"].sum() >= 100 else "grey"
        return Check(name, condition, asks, light, said, "", numbers)
    among = tails.heavy if tails.heavy.any() else known
    k = int(np.argmin(np.where(among, tails.exponent, math.inf)))
    k = k if among[k] else int(np.argmax(among))
    texts = [f"{end:.2f}" if end < 10 else "10 or more" for end in (tails.exponent[k], tails.low[k], tails.high[k])]
    said = f"Delays of {_say(e, k)} fall with exponent {texts[0]} (99% interval {texts[1]} to {texts[2]})"
    if tails.heavy.any():
        return Check(
            name, condition, asks, "red", f"{said}: too many outcomes come very late for the theory to hold.",
            "Fix a time within which outcomes count (events and a window, --events --window 7d), so that every row has "
            "had all of it.", numbers,
        )  # fmt: skip
    if tails.exponent[k] < 0.5:
        return Check(
            name, condition, asks, "amber", f"{said}: outcomes may come too late, which so few cannot decide.",
            "Wait longer after the last assignment and look again, or fix a time within which outcomes count.", numbers,
        )  # fmt: skip
    return Check(name, condition, asks, "green", f"{said}, the least of all arms.", "", numbers)


def where_outcomes_are(e: Evidence) -> tuple[Array, Array, Array]:
    """Return, by arm, the shares of rows whose outcome has arrived, may still come, and should have come."""
    if e.arrivals is None:
        arrived = e.totals["arrived"] / e.totals["assigned"]
        return arrived, np.zeros(len(arrived)), 1 - arrived
    n = e.arrivals.counts.sum(axis=(1, 2))
    out = e.arrivals.counts[:, -1, :]  # by the age of the row
    with np.errstate(invalid="ignore", divide="ignore"):
        arrived = 1 - out.sum(axis=1) / n
        overdue = np.array([out[k, _late(e.arrivals, k) :].sum() / n[k] for k in range(len(n))])
    if e.within is not None:  # all windows have closed
        overdue = 1 - arrived
    return arrived, 1 - arrived - overdue, overdue


def _late(found: ArrivalCounts, arm: int) -> int:
    """Return the bin by which 99 % of an arm's arrivals had come: who is out for longer is overdue.

    No one is in an experiment that has not run for twice that time: what comes later has hardly had the chance.
    """
    came = found.counts[arm, :-1].sum(axis=1)
    late = int(np.searchsorted(np.cumsum(came), 0.99 * came.sum()))
    return late if came.any() and 2 * found.delays[late] <= found.followed else len(came)


def _still_out(e: Evidence) -> Check:
    name, condition, asks = "still out", "A2", "Few outcomes are still to come."
    if e.within is not None:
        return Check(name, condition, asks, "green", f"Every outcome is known {e.within} after its assignment.")
    arrived, still, never = where_outcomes_are(e)
    numbers = {"arrived": _by_arm(e, arrived), "still_out": _by_arm(e, still), "overdue": _by_arm(e, never)}
    if np.isnan(still).all():
        return Check(name, condition, asks, "grey", "There are no rows.", "", numbers)
    k, m = int(np.nanargmax(still)), int(np.nanargmax(never))
    said = (
        f"Of {_say(e, k)}, {still[k]:.1%} of the outcomes may still come; of {_say(e, m)}, {never[m]:.1%} are overdue "
        "or will never come"
    )
    if still[k] > 0.2 or never[m] > 0.6:
        return Check(
            name, condition, asks, "amber", f"{said}.",
            "Wait before you decide, and ask whether what is missing may differ from what has come; the log cannot "
            "tell.", numbers,
        )  # fmt: skip
    return Check(name, condition, asks, "green", f"{said}, the most of all arms.", "", numbers)


# ---------------------------------------------------------------- what happens in practice


def _arrivals(e: Evidence) -> Check:
    name, condition, asks = "arrivals", "practice", "Every arm has outcomes to go by."
    arrived = e.totals["arrived"]
    numbers = {"arrived": _by_arm(e, arrived)}
    k = int(np.argmin(arrived))
    said = f"{_upper(_say(e, k))} has {count(int(arrived[k]), 'outcome')}"
    if (arrived < 2).all():
        return Check(
            name, condition, asks, "red", "No arm has two outcomes, so that nothing can be estimated with an interval.",
            "Wait for outcomes.", numbers,
        )  # fmt: skip
    if arrived[k] < 2:
        return Check(
            name, condition, asks, "amber", f"{said}: it has no interval.",
            "Wait for its outcomes, or leave the arm out.", numbers,
        )  # fmt: skip
    if arrived[k] < _FEW:
        return Check(
            name, condition, asks, "amber", f"{said}: its interval is a rough one.",
            "Wait for more, or read its interval with care.", numbers,
        )  # fmt: skip
    return Check(name, condition, asks, "green", f"{said}, the fewest of all arms.", "", numbers)


def _probabilities(e: Evidence) -> Check:
    name, condition = "probabilities", "practice"
    asks = "The logged probabilities are those by which the arms were chosen."
    p_value = calibration(e)
    numbers: dict[str, Any] = {"p_value": p_value}
    if e.excess is None:
        said = "As far as the chosen arms' probabilities alone can tell, choices agree with them"
    else:
        numbers["excess_choices"] = _by_arm(e, e.excess[: len(e.arms)])
        said = "Every arm was chosen about as often as its probabilities say"
    if math.isnan(p_value):
        why = "Every choice was certain" if e.excess is not None else "Only the chosen arm's probability is logged"
        return Check(name, condition, asks, "grey", f"{why}, so choices cannot be checked.", "", numbers)
    light = _light(p_value, SURE)
    if light != "green":
        said = _miscalibrated(e)
    advice = "" if light == "green" else CALIBRATION_ADVICE
    return Check(name, condition, asks, light, f"{said} (p {p_words(p_value, 2)}).", advice, numbers)


def _miscalibrated(e: Evidence) -> str:
    """Say what of the choices does not agree with the probabilities."""
    if e.excess is None or e.variance is None:
        return "The arms were chosen more or less often than the chosen rows' probabilities say"
    arms = len(e.arms)
    if e.log_p is not None and swapped(e.log_p) < SURE:
        return "Arms' probabilities seem to stand in each other's place"
    z = np.abs(e.excess) / np.sqrt(np.where(e.variance > 0, e.variance, math.inf))
    worst = int(np.argmax(z[:arms]))
    if z[worst] > min(3.0, z[arms:].max(initial=0.0)):
        times = float(e.totals["assigned"][worst])
        return (
            f"{_upper(_say(e, worst))} was chosen {times:,.0f} times; its probabilities say "
            f"{times - e.excess[worst]:,.1f}"
        )
    if z[arms] >= 3:
        return f"Likely arms were chosen {'less' if e.excess[arms] < 0 else 'more'} often than their probabilities say"
    return "In some stretch of time the choices do not agree with the probabilities"


def _outcome_dependence(e: Evidence) -> Check:
    name, condition = "outcome and delay", "practice"
    asks = "Given the arm, whether and when an outcome arrives does not depend on what it is."
    if e.within is not None:
        said = f"Every outcome is known {e.within} after its assignment, whatever it is."
        return Check(name, condition, asks, "green", said)
    p_value, z = outcome_dependence(e.dependence)
    numbers = {"p_value": p_value, "z": _by_arm(e, z)}
    cannot = "About outcomes that never come the log is silent."
    if math.isnan(p_value):
        said = f"Outcomes are too few or too much alike to compare early with late ones. {cannot}"
        if e.arrivals is None and e.totals["arrived"].any():
            said = f"Every outcome that has come came at once. {cannot}"
        return Check(name, condition, asks, "grey", said, "", numbers)
    light, p = _light(p_value, SURE), f"p {p_words(p_value, 2)}"
    said = {
        "red": f"Early and late outcomes differ: {direction(z)} ({p}).",
        "amber": f"Early and late outcomes may differ: {direction(z)} ({p}).",
        "green": f"Early and late outcomes are alike ({p}). {cannot}",
    }[light]
    return Check(name, condition, asks, light, said, "" if light == "green" else DEPENDENCE_ADVICE, numbers)


def _recorded(e: Evidence) -> Check:
    name, condition = "recorded outcomes", "practice"
    asks = "Outcomes are recorded whatever they are, not only when something happens."
    if e.within is not None:
        said = f"What has not happened within {e.within} counts as 0."
        return Check(name, condition, asks, "green", said)
    t = e.totals
    out = 1 - t["arrived"].sum() / t["assigned"].sum()
    lowest, most = float(np.nanmin(e.low, initial=math.inf)), most_recorded(t["old"], t["soon"])
    numbers: dict[str, Any] = {"lowest": _by_arm(e, e.low), "recorded": _by_arm(e, t["soon"] / t["old"])}
    value = one_value(t["assigned"], t["arrived"], t["y"], t["y2"], e.shift)
    if value is not None:
        said = single_value_finding(value, float(out))
        return Check(name, condition, asks, "red", said, single_value_advice(value), numbers)
    if not math.isfinite(lowest):
        return Check(name, condition, asks, "grey", "No outcome has arrived.", "Wait for outcomes.", numbers)
    if lowest > 0 and most < 0.9:
        light = "red" if is_sparse(t["old"], t["soon"]) and not _still_coming(e) else "amber"
        return Check(name, condition, asks, light, positive_finding(most), POSITIVE_ADVICE, numbers)
    if lowest > 0:
        said = "Every outcome is above 0, and nearly every row of some arm has one."
        return Check(name, condition, asks, "green", said, "", numbers)
    k = _only_successes(e)
    if k is not None:
        said = (
            f"{_upper(_say(e, k))} has only outcomes of {e.low[k]:g}, and {1 - t['soon'][k] / t['old'][k]:.0%} of its "
        )
        said += "rows followed longest have none; other arms have smaller outcomes."
        return Check(name, condition, asks, "red", said, single_value_advice(float(e.low[k])), numbers)
    return Check(name, condition, asks, "green", "There are outcomes of 0 or below.", "", numbers)


def _still_coming(e: Evidence) -> bool:
    """Whether, of rows followed for half of the experiment, many outcomes came in the later half of that time."""
    if e.arrivals is None:
        return False
    half = e.arrivals.followed / 2
    long = np.concatenate([[0.0], e.arrivals.delays]) >= half  # followed in full so many bins
    by_delay = e.arrivals.counts[:, :-1, long[: e.arrivals.counts.shape[2]]].sum(axis=(0, 2))
    soon, late = e.arrivals.delays <= half, e.arrivals.delays > half / 2
    return bool(by_delay[soon & late].sum() > 0.1 * by_delay[soon].sum())


def _only_successes(e: Evidence) -> int | None:
    """Return an arm whose outcomes all have one value above 0 and mostly do not come, if others have smaller ones."""
    t = e.totals
    n = t["arrived"]
    with np.errstate(invalid="ignore", divide="ignore"):
        flat = (n >= _FEW) & (t["y2"] - t["y"] ** 2 / n <= 1e-12 * t["y2"])
        sparse = [is_sparse(t["old"][k : k + 1], t["soon"][k : k + 1]) for k in range(len(n))]
    found = np.flatnonzero(flat & (e.low > 0) & (e.low > np.nanmin(e.low)) & sparse)
    return int(found[0]) if len(found) else None


def _variation(e: Evidence) -> Check:
    name, condition, asks = "variation", "practice", "An arm's outcomes vary."
    t = e.totals
    n = t["arrived"]
    mean = t["y"] / n
    variance = np.maximum(t["y2"] - n * mean**2, 0) / (n - 1)
    known = n >= 2
    flat = known & (t["y2"] - n * mean**2 <= 1e-12 * t["y2"])
    numbers = {"variance": _by_arm(e, np.where(known, np.where(flat, 0.0, variance), math.nan))}
    if not known.any():
        return Check(name, condition, asks, "grey", "No arm has two outcomes.", "Wait for outcomes.", numbers)
    if not flat.any():
        return Check(name, condition, asks, "green", "The outcomes of every arm vary.", "", numbers)
    k = int(np.argmax(flat * n))
    value = float(e.shift[k] + mean[k])
    said = f"All {n[k]:,.0f} outcomes of {_say(e, k)} are {value:g}"
    enough = 500 if value in (0.0, 1.0) else 50
    if flat[known].all() and n.sum() >= enough:
        return Check(
            name, condition, asks, "red", f"{said}, and no arm's outcomes vary.",
            "Look at how outcomes are recorded: is this the right column, and are other values missing?", numbers,
        )  # fmt: skip
    return Check(
        name, condition, asks, "amber", f"{said}: they do not show how much they vary.",
        "Wait for more of them; with 0/1 outcomes the wilson interval (the default) allows for it.", numbers,
    )  # fmt: skip


def _drift(e: Evidence) -> Check:
    name, condition, asks = "drift", "practice", "An arm's outcomes are of the same kind from beginning to end."
    between = drift(e.coarse("arrived"), e.coarse("y"), e.coarse("y2"))
    finely = drift(e.sums["arrived"], e.sums["y"], e.sums["y2"], few=100)
    along = trend(e.sums["arrived"], e.sums["y"], e.sums["y2"])
    p_value = min((3 * p for p in (between, finely, along) if not math.isnan(p)), default=math.nan)
    p_value = min(p_value, 1.0)
    numbers = {
        "p_value": p_value, "between_stretches_p": between, "between_short_stretches_p": finely, "trend_p": along,
    }  # fmt: skip
    if math.isnan(p_value):
        said = "Outcomes are too few or too much alike to compare stretches of time."
        return Check(name, condition, asks, "grey", said, "", numbers)
    light = _light(p_value, SURE)
    alike = {"red": "change over time", "amber": "may change over time", "green": "do not change over time"}[light]
    advice = (
        ""
        if light == "green"
        else "An arm's answer is then an average over the time of the experiment, weighted by when it was tried. "
        "Compare arms over a stretch in which nothing changed, or say that the answer is about this time only."
    )
    return Check(
        name,
        condition,
        asks,
        light,
        f"Within arms, mean outcomes {alike} (p {p_words(p_value, 2)}).",
        advice,
        numbers,
    )


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
