"""The whole simulation study of Shi, Wang and Wu (ICML 2023), beside the numbers that its authors recorded.

Two arms with N(mu, 1) outcomes under epsilon-greedy with eps_t = t^-1/2 after a burn-in of a tenth
of the horizon; half of arm 1's outcomes never come. `as_published` follows the authors' code:

- the running mean recorded at step t includes Y_t when it came at once, so DAIPW and NH peek;
- "Mean" is the unweighted Hajek estimator, its variance taken about the DIPW estimate.

Otherwise names mean what they mean everywhere in belated: the outcome model sees the past alone,
and "Mean" is the sample mean of the paper's text.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import resources
from typing import Literal

import numpy as np

from belated.base import special
from belated.base.checks import one_of, whole
from belated.base.columns import Array, Label
from belated.estimation.estimators import ArmStatistics, EstimatorName
from belated.estimation.intervals import combine
from belated.kernels.moments import MOMENTS
from belated.simulation import arms, delays, policies
from belated.simulation.arms import Arm
from belated.simulation.bandits import Bandit
from belated.simulation.delays import Delay
from belated.simulation.results import Study
from belated.simulation.study import study

HORIZONS = (5_000, 10_000, 15_000, 20_000)

DELAYS: dict[str, tuple[Delay, Delay]] = {
    "NODELAY": (delays.none(), delays.none()),
    "POISSON": (delays.poisson(50), delays.poisson(5)),
    "NEGBINOM": (delays.negative_binomial(50, 0.5), delays.negative_binomial(5, 0.5)),
    "PARETO": (delays.pareto(0.75), delays.pareto(1.25)),
}


@dataclass(frozen=True, order=True)
class Scenario:
    """One experiment of the paper: its delays, and how much better arm 1 is."""

    delay: str
    margin: float

    @property
    def bandit(self) -> Bandit:
        """The bandit: arm 2 has mean 0.5, and half of arm 1's outcomes never come."""
        first, second = DELAYS[self.delay]
        outcomes: dict[Label, Arm] = {1: arms.normal(0.5 + self.margin), 2: arms.normal(0.5)}
        return Bandit(outcomes, {1: first.censored(0.5), 2: second})

    @property
    def horizons(self) -> tuple[int, ...]:
        """The horizons that the authors ran."""
        return HORIZONS if self.margin == 0.5 else HORIZONS[-1:]


@dataclass(frozen=True)
class Figure:
    """A figure of the paper: lines over horizons, or histograms of studentised errors at the longest."""

    name: str
    caption: str
    scenario: Scenario
    estimators: tuple[str, ...]
    histogram: float | None = None  # the width of its bins


_FOUR = ("DAIPW", "Mean", "NH", "NH0")
_FIVE = ("DAIPW", "DIPW", "Mean", "NH", "NH0")

FIGURES = {
    figure.name: figure
    for figure in (
        Figure("zero-margin", "Zero margin, Pareto delays", Scenario("PARETO", 0.0), _FOUR, histogram=0.2),
        Figure("nonzero-margin", "Margin 0.1, Pareto delays", Scenario("PARETO", 0.1), _FOUR, histogram=0.2),
        Figure("no-delay", "No finite delays", Scenario("NODELAY", 0.5), _FOUR[:3]),
        Figure("negative-binomial", "Negative binomial delays", Scenario("NEGBINOM", 0.5), _FIVE[:4]),
        Figure("pareto", "Pareto delays", Scenario("PARETO", 0.5), _FIVE[:4]),
        Figure("weak-margin", "Weak margin 0.1, Pareto delays", Scenario("PARETO", 0.1), _FIVE, histogram=0.2),
        Figure("strong-margin", "Strong margin 0.5, Pareto delays", Scenario("PARETO", 0.5), _FIVE, histogram=0.4),
    )
}

#: All that the authors ran: the figures, and Poisson delays, which are in their code alone.
SCENARIOS = tuple(dict.fromkeys([*(figure.scenario for figure in FIGURES.values()), Scenario("POISSON", 0.5)]))

ESTIMATORS: dict[str, EstimatorName] = {
    "DAIPW": "daipw_paper",
    "DIPW": "dipw",
    "Mean": "mean",
    "NH": "nh",
    "IAD": "iad",
    "NH0": "nh0",
}

#: What else the default shows: the estimator that the authors' code calls "Mean".
HAJEK = "Hajek"

#: A row of a table of numbers.
PaperRow = dict[str, str | int | float]

#: What a figure's lines show, and the quantity that is.
CRITERIA = {"Bias": "abs_error", "Coverage": "coverage", "MSE": "mse_plot", "SE": "mean_se"}


def reproduce(
    figures: Sequence[str] | None = None,
    *,
    as_published: bool = False,
    replications: int = 1000,
    seed: int = 2023,
    workers: int | None = None,
    executor: Executor | None = None,
    progress: bool | None = None,
) -> Paper:
    """Run the paper's study, or what some of its figures need."""
    names = list(dict.fromkeys(one_of("figure", name, FIGURES) for name in figures or FIGURES))
    scenarios = SCENARIOS if not figures else tuple(dict.fromkeys(FIGURES[name].scenario for name in names))
    runs = whole("replications", replications, least=2)
    studies = {}
    for scenario in scenarios:
        lines = not figures or any(FIGURES[n].scenario == scenario and not FIGURES[n].histogram for n in names)
        studies[scenario] = study(
            scenario.bandit,
            policies.epsilon_greedy(burn_in=0.1),
            scenario.horizons if lines else scenario.horizons[-1:],
            runs,
            # every scenario its own seed, the same whichever others are run
            seed=seed + 1_000_003 * SCENARIOS.index(scenario),
            targets=[(1, 2)],
            workers=workers,
            executor=executor,
            progress=progress,
            as_published=as_published,
        )
        if studies[scenario].stopped:
            raise KeyboardInterrupt
    return Paper(studies=studies, as_published=as_published, figures=tuple(names), seed=seed)


@dataclass(frozen=True, eq=False)
class Paper:
    """The paper's study as run here."""

    studies: dict[Scenario, Study]
    as_published: bool
    figures: tuple[str, ...]
    seed: int

    @property
    def estimators(self) -> tuple[str, ...]:
        """The estimators' names, as the paper has them."""
        return tuple(ESTIMATORS) if self.as_published else (*ESTIMATORS, HAJEK)

    @cached_property
    def cells(self) -> list[PaperCell]:
        """The results of every estimator in every scenario at every horizon."""
        return [
            self.cell(scenario, horizon, estimator)
            for scenario, runs in self.studies.items()
            for horizon in runs.horizons
            for estimator in self.estimators
        ]

    def cell(self, scenario: Scenario, horizon: int, estimator: str) -> PaperCell:
        """Return what one estimator made of one scenario at one horizon."""
        runs = self.studies[scenario]
        name = "hajek" if estimator == HAJEK or (estimator == "Mean" and self.as_published) else ESTIMATORS[estimator]
        statistics = runs.statistics(name, horizon)
        if estimator == "Mean" and self.as_published:
            statistics = replace(statistics, variance=_about_dipw(runs, horizon))
        return PaperCell(scenario=scenario, horizon=horizon, estimator=estimator, statistics=statistics)

    def numbers(self) -> list[PaperRow]:
        """Return every number, a row for each cell."""
        return [cell.row() for cell in self.cells]

    def comparison(self) -> list[Difference]:
        """Return every difference from what the authors recorded."""
        cells = {(c.scenario, c.horizon, c.estimator): c for c in self.cells}
        differences = []
        for record in authors_records():
            scenario = Scenario(record["scenario"], float(record["margin"]))
            same = HAJEK if record["estimator"] == "Mean" and not self.as_published else record["estimator"]
            cell = cells.get((scenario, int(record["horizon"]), same))
            if cell is not None:
                n = int(record["replications"])
                differences += [cell.difference(q, float(record[q]), n) for q in QUANTITIES if record.get(q)]
        return differences


def _about_dipw(runs: Study, horizon: int) -> Array:
    """Return sum gamma^2 (Y - Q_DIPW)^2 / (sum gamma)^2, gamma = w^2: the variance that their code has for Mean."""
    gamma, zeroth, first, second = (
        runs.moments[horizon][:, :, MOMENTS.index(name)] for name in ("w2", "w4", "w4y", "w4y2")
    )
    about = runs.statistics("dipw", horizon).value - runs.centres
    return np.asarray((second - 2 * about * first + about**2 * zeroth) / gamma**2)


def _skewness(x: Array) -> Array:
    """Return each value's influence on the skewness."""
    z = (x - x.mean()) / x.std()
    skew = (z**3).mean()
    return np.asarray(z**3 - 3 * z - skew - 1.5 * skew * (z**2 - 1))


@dataclass(frozen=True)
class Quantity:
    """A summary of replications: its value, and the influence of each replication on it."""

    of: Callable[[PaperCell], Array]
    statistic: Literal["mean", "sd", "skew"] = "mean"

    def value(self, cell: PaperCell) -> float:
        """Return the value."""
        x = self.of(cell)
        if self.statistic == "mean":
            return float(x.mean())
        if self.statistic == "sd":
            return float(x.std(ddof=1))
        return float((((x - x.mean()) / x.std()) ** 3).mean())

    def deviation(self, cell: PaperCell) -> float:
        """Return the standard deviation of the influences: over sqrt(n), the Monte Carlo error."""
        x = self.of(cell)
        if self.statistic == "mean":
            return float(x.std())
        if self.statistic == "sd":
            return float(((x - x.mean()) ** 2).std() / (2 * x.std()))
        return float(_skewness(x).std())


@dataclass(frozen=True, eq=False)
class PaperCell:
    """The results of one estimator in one scenario at one horizon."""

    scenario: Scenario
    horizon: int
    estimator: str
    statistics: ArmStatistics

    @cached_property
    def error(self) -> Array:
        """The contrast's errors."""
        value = self.statistics.value
        return np.asarray(value[:, 0] - value[:, 1] - self.scenario.margin)

    @cached_property
    def variance(self) -> Array:
        """The contrast's variances."""
        return np.asarray(self.statistics.variance.sum(axis=1))

    @property
    def studentised(self) -> Array:
        """Errors over standard errors."""
        return np.asarray(self.error / np.sqrt(self.variance))

    @property
    def covered(self) -> Array:
        """Whether the paper's 95 % interval held the truth."""
        return np.asarray((np.abs(self.studentised) <= special.ndtri(0.975)).astype(np.float64))

    @property
    def coverage_t(self) -> float:
        """How often belated's own interval held the truth."""
        low, high = combine(self.statistics, np.array([1.0, -1.0]), "t").limits(0.025)
        return float(((low <= self.scenario.margin) & (self.scenario.margin <= high)).mean())

    def row(self) -> PaperRow:
        """Return the cell's numbers by name."""
        about: PaperRow = {"scenario": self.scenario.delay, "margin": self.scenario.margin, "horizon": self.horizon}
        about |= {"estimator": self.estimator, "replications": len(self.error)}
        return about | {name: q.value(self) for name, q in QUANTITIES.items()} | {"coverage_t": self.coverage_t}

    def difference(self, quantity: str, recorded: float, replications: int) -> Difference:
        """Return how far a quantity is from a recorded one, and the Monte Carlo error of that."""
        measure = QUANTITIES[quantity]
        deviation = measure.deviation(self)
        if quantity == "coverage":  # both shares of the same probability; never without error
            n, m = len(self.error), replications
            p = (measure.value(self) * n + recorded * m + 1) / (n + m + 2)
            deviation = math.sqrt(p * (1 - p))
        error = deviation * math.sqrt(1 / len(self.error) + 1 / replications)
        return Difference(
            scenario=self.scenario,
            horizon=self.horizon,
            estimator=self.estimator,
            quantity=quantity,
            ours=measure.value(self),
            authors=recorded,
            monte_carlo_error=error,
        )


QUANTITIES = {
    "bias": Quantity(lambda c: c.error),
    "abs_error": Quantity(lambda c: np.abs(c.error)),
    "sd": Quantity(lambda c: c.error, "sd"),
    "mean_se": Quantity(lambda c: np.sqrt(c.variance)),
    "mse_plot": Quantity(lambda c: c.error**2 + c.variance),
    "coverage": Quantity(lambda c: c.covered),
    "t_mean": Quantity(lambda c: c.studentised),
    "t_sd": Quantity(lambda c: c.studentised, "sd"),
    "t_skew": Quantity(lambda c: c.studentised, "skew"),
    "arm1_mean": Quantity(lambda c: c.statistics.value[:, 0]),
    "arm1_sd": Quantity(lambda c: c.statistics.value[:, 0], "sd"),
    "arm2_mean": Quantity(lambda c: c.statistics.value[:, 1]),
    "arm2_sd": Quantity(lambda c: c.statistics.value[:, 1], "sd"),
}


@dataclass(frozen=True)
class Difference:
    """One quantity here and in the authors' records."""

    scenario: Scenario
    horizon: int
    estimator: str
    quantity: str
    ours: float
    authors: float
    monte_carlo_error: float

    @property
    def difference(self) -> float:
        """Ours minus theirs."""
        return self.ours - self.authors

    @property
    def z(self) -> float:
        """The difference in Monte Carlo errors; without any, as of two replications that agree, it is infinite or 0."""
        if self.monte_carlo_error == 0:
            return math.copysign(math.inf, self.difference) if self.difference else 0.0
        return self.difference / self.monte_carlo_error

    def row(self) -> PaperRow:
        """Return the difference as a row of a table."""
        return {
            "scenario": self.scenario.delay, "margin": self.scenario.margin, "horizon": self.horizon,
            "estimator": self.estimator, "quantity": self.quantity, "ours": self.ours, "authors": self.authors,
            "difference": self.difference, "monte_carlo_error": self.monte_carlo_error, "z": self.z,
        }  # fmt: skip


def authors_records() -> Iterable[dict[str, str]]:
    """Return what the authors recorded; records/README.md says from where."""
    text = resources.files("belated.simulation.paper").joinpath("records/shi_wang_wu_2023.csv").read_text()
    return csv.DictReader(text.splitlines())
