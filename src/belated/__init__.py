"""Valid statistics for bandit experiments whose outcomes come late, or never.

>>> import belated as bl
>>> log = bl.Log(["A", "B"] * 4, [1, 2, 3, 1, None, 2, 3, 4], [[0.5, 0.5]] * 8, delay=[3, 0, 1, 1, None, 0, 2, 0])
>>> est = bl.estimate(log)  # the paper's estimator, with an interval that covers
>>> est.contrast("B", "A").interval
't'
"""

from belated.answers import Answer, Best, Contrasts, Estimate, estimate
from belated.backends.reading import read
from belated.backends.source import Source
from belated.comparison import Answers, Comparison, compare
from belated.diagnostics import Check, Diagnosis, diagnose
from belated.errors import (
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
from belated.estimators import ESTIMATORS, Estimator
from belated.ledger import Ledger
from belated.log import Log
from belated.outcome_models import OutcomeModel
from belated.planning.pilots import Pilot, pilot
from belated.planning.plan import plan
from belated.planning.results import Plan
from belated.reporting import report
from belated.sensitivity import Sensitivity, sensitivity
from belated.sequences import ConfidenceSequence, sequence
from belated.simulation import arms, delays, policies
from belated.simulation.bandits import Bandit
from belated.simulation.simulate import simulate
from belated.simulation.study import Study, study
from belated.sums import Sums
from belated.trajectory import Trajectory, trajectory
from belated.version import __version__
from belated.weights import Weights, two_point

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
