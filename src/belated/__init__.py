"""Valid statistics for bandit experiments whose outcomes come late, or never.

>>> import belated as bl
>>> log = bl.Log(["A", "B"] * 4, [1, 2, 3, 1, None, 2, 3, 4], [[0.5, 0.5]] * 8, delay=[3, 0, 1, 1, None, 0, 2, 0])
>>> est = bl.estimate(log)  # the paper's estimator, with an interval that covers
>>> est.contrast("B", "A").interval
'score'
"""

from belated.assumptions.checks.check import Check
from belated.assumptions.diagnosis import Diagnosis, diagnose
from belated.assumptions.sensitivity import Sensitivity, sensitivity
from belated.base.errors import (
    BelatedError,
    BelatedWarning,
    LogError,
    MergeError,
    MissingLibraryError,
    OptionError,
    PolicyError,
    PropensitiesNeededError,
    UnknownArmError,
)
from belated.base.version import __version__
from belated.estimation.answers import Answer, Answers, Contrasts
from belated.estimation.best import Best
from belated.estimation.comparison import Comparison, compare
from belated.estimation.estimate import Estimate, estimate
from belated.estimation.estimators import ESTIMATORS, Estimator
from belated.estimation.ledger import Ledger
from belated.estimation.lift import Lift
from belated.estimation.trajectory import Trajectory, trajectory
from belated.log.log import Log
from belated.planning.pilots import Pilot, pilot
from belated.planning.plan import plan
from belated.planning.results import Plan
from belated.reading.read import read
from belated.reading.source import Source
from belated.reports.rendering import report
from belated.sequences.sequence import ConfidenceSequence, sequence
from belated.simulation import arms, delays, policies
from belated.simulation.bandits import Bandit
from belated.simulation.results import Study
from belated.simulation.simulate import simulate
from belated.simulation.study import study
from belated.summaries.outcome_models import OutcomeModel
from belated.summaries.sums import Sums
from belated.summaries.weights import Weights, two_point

__all__ = [
    "ESTIMATORS",
    "Answer",
    "Answers",
    "Bandit",
    "BelatedError",
    "BelatedWarning",
    "Best",
    "Check",
    "Comparison",
    "ConfidenceSequence",
    "Contrasts",
    "Diagnosis",
    "Estimate",
    "Estimator",
    "Ledger",
    "Lift",
    "Log",
    "LogError",
    "MergeError",
    "MissingLibraryError",
    "OptionError",
    "OutcomeModel",
    "Pilot",
    "Plan",
    "PolicyError",
    "PropensitiesNeededError",
    "Sensitivity",
    "Source",
    "Study",
    "Sums",
    "Trajectory",
    "UnknownArmError",
    "Weights",
    "__version__",
    "arms",
    "compare",
    "delays",
    "diagnose",
    "estimate",
    "pilot",
    "plan",
    "policies",
    "read",
    "report",
    "sensitivity",
    "sequence",
    "simulate",
    "study",
    "trajectory",
    "two_point",
]
