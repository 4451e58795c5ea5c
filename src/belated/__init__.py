"""Valid statistics for bandit experiments whose outcomes arrive late, or never.

>>> import belated as bl
>>> log = bl.Log(["A", "B"] * 4, [1, 2, 3, 1, None, 2, 3, 4], [[0.5, 0.5]] * 8, delay=[3, 0, 1, 1, None, 0, 2, 0])
>>> est = bl.estimate(log)  # the default estimator, DAIPW
>>> est.contrast("B", "A").interval
'score'
"""

from __future__ import annotations

from importlib import import_module

from belated.base.version import __version__

TYPE_CHECKING = False  # not typing's: the command hears Ctrl-C as it should only after this module is loaded
if TYPE_CHECKING:
    from belated import live
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
    from belated.estimation.answers import Answer, Answers, Contrasts
    from belated.estimation.best import Best
    from belated.estimation.buildup import Buildup, Windows
    from belated.estimation.by_segment import Heterogeneity
    from belated.estimation.comparison import Comparison, compare
    from belated.estimation.estimate import Estimate, estimate
    from belated.estimation.estimators import ESTIMATORS, Estimator
    from belated.estimation.ledger import Ledger
    from belated.estimation.lift import Lift
    from belated.estimation.trajectory import Trajectory, trajectory
    from belated.log.log import Log
    from belated.reading.read import read
    from belated.reading.source import Source
    from belated.reports.rendering import report
    from belated.sequences.sequence import ConfidenceSequence, sequence
    from belated.simulation import arms, delays, policies
    from belated.simulation.bandits import Bandit
    from belated.simulation.contextual import ContextualBandit
    from belated.simulation.planning.pilots import Pilot, pilot
    from belated.simulation.planning.plan import plan
    from belated.simulation.planning.results import Plan
    from belated.simulation.results import Study
    from belated.simulation.simulate import simulate
    from belated.simulation.study import study
    from belated.simulation.views import in_segment
    from belated.summaries.maturing import Maturity
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
    "Buildup",
    "Check",
    "Comparison",
    "ConfidenceSequence",
    "ContextualBandit",
    "Contrasts",
    "Diagnosis",
    "Estimate",
    "Estimator",
    "Heterogeneity",
    "Ledger",
    "Lift",
    "Log",
    "LogError",
    "Maturity",
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
    "Windows",
    "__version__",
    "arms",
    "compare",
    "delays",
    "diagnose",
    "estimate",
    "in_segment",
    "live",
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

#: The module of each name. It is imported when the name is first used, so that `import belated` is quick.
_MODULES = {
    "assumptions.checks.check": "Check",
    "assumptions.diagnosis": "Diagnosis diagnose",
    "assumptions.sensitivity": "Sensitivity sensitivity",
    "base.errors": "BelatedError BelatedWarning LogError MergeError MissingLibraryError OptionError PolicyError "
    "PropensitiesNeededError UnknownArmError",
    "estimation.answers": "Answer Answers Contrasts",
    "estimation.best": "Best",
    "estimation.buildup": "Buildup Windows",
    "estimation.by_segment": "Heterogeneity",
    "estimation.comparison": "Comparison compare",
    "estimation.estimate": "Estimate estimate",
    "estimation.estimators": "ESTIMATORS Estimator",
    "estimation.ledger": "Ledger",
    "estimation.lift": "Lift",
    "estimation.trajectory": "Trajectory trajectory",
    "live": "live",
    "log.log": "Log",
    "reading.read": "read",
    "reading.source": "Source",
    "reports.rendering": "report",
    "sequences.sequence": "ConfidenceSequence sequence",
    "simulation.arms": "arms",
    "simulation.bandits": "Bandit",
    "simulation.contextual": "ContextualBandit",
    "simulation.delays": "delays",
    "simulation.planning.pilots": "Pilot pilot",
    "simulation.planning.plan": "plan",
    "simulation.planning.results": "Plan",
    "simulation.policies": "policies",
    "simulation.results": "Study",
    "simulation.simulate": "simulate",
    "simulation.study": "study",
    "simulation.views": "in_segment",
    "summaries.maturing": "Maturity",
    "summaries.outcome_models": "OutcomeModel",
    "summaries.sums": "Sums",
    "summaries.weights": "Weights two_point",
}
_MODULE_OF = {name: f"belated.{module}" for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'belated' has no attribute {name!r}")
    module = import_module(_MODULE_OF[name])
    value: object = getattr(module, name, module)  # arms, delays, policies and live are modules themselves
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
