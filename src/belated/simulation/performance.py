"""`Performance`: how one estimator did over the replications of a study."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from belated.base import special
from belated.base.checks import NO_DIFFERENCE
from belated.base.columns import Array
from belated.estimation.estimators import EstimatorName
from belated.estimation.intervals import Interval


@dataclass(frozen=True, eq=False)
class Performance:
    """The performance of one estimator for one target at one horizon; arrays have one entry per replication."""

    horizon: int
    estimator: EstimatorName
    target: str
    interval: Interval
    truth: float
    error: Array
    std_error: Array
    low: Array
    high: Array

    @cached_property
    def _has_interval(self) -> Array:
        return np.asarray(np.isfinite(self.low) & np.isfinite(self.high))

    @property
    def missing(self) -> int:
        """The number of replications without an interval."""
        return int((~self._has_interval).sum())

    @property
    def replications(self) -> int:
        """The number of replications with an interval."""
        return int(self._has_interval.sum())

    @property
    def studentised(self) -> Array:
        """Errors divided by standard errors, of replications with an interval."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray((self.error / self.std_error)[self._has_interval])

    def _mean(self, values: Array) -> float:
        return float(values[self._has_interval].mean()) if self.replications else math.nan

    @property
    def bias(self) -> float:
        """The mean error."""
        return self._mean(self.error)

    @property
    def abs_error(self) -> float:
        """The mean absolute error."""
        return self._mean(np.abs(self.error))

    @property
    def sd(self) -> float:
        """The standard deviation of the estimate."""
        return float(self.error[self._has_interval].std(ddof=1)) if self.replications > 1 else math.nan

    @property
    def mean_se(self) -> float:
        """The mean standard error."""
        return self._mean(self.std_error)

    @property
    def rmse(self) -> float:
        """The root of the mean squared error."""
        return math.sqrt(self._mean(self.error**2))

    @property
    def bias_error(self) -> float:
        """The Monte Carlo error of the bias."""
        return self.sd / math.sqrt(self.replications) if self.replications else math.nan

    @property
    def sd_error(self) -> float:
        """The Monte Carlo error of the standard deviation, assuming normal estimates."""
        return self.sd / math.sqrt(2 * (self.replications - 1)) if self.replications > 1 else math.nan

    @property
    def coverage(self) -> float:
        """The share of intervals that cover the true value; limits that differ from it only by rounding do."""
        rounding = NO_DIFFERENCE * np.maximum(np.abs(self.low), np.abs(self.high))
        return self._mean((self.low - rounding <= self.truth) & (self.truth <= self.high + rounding))

    @property
    def coverage_low(self) -> float:
        """The lower limit of the 95 % Monte Carlo interval of the coverage (Wilson's)."""
        return share_limits(self.coverage, self.replications)[0]

    @property
    def coverage_high(self) -> float:
        """The upper limit of the 95 % Monte Carlo interval of the coverage."""
        return share_limits(self.coverage, self.replications)[1]

    @property
    def length(self) -> float:
        """The mean length of the interval."""
        return self._mean(self.high - self.low)


def share_limits(share: float, n: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval for a share of n replications."""
    if not n:
        return math.nan, math.nan
    z2 = float(special.ndtri(0.975)) ** 2
    centre, reach = share + z2 / (2 * n), math.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n**2)))
    return max((centre - reach) / (1 + z2 / n), 0.0), min((centre + reach) / (1 + z2 / n), 1.0)
