"""A study as a file: its moments as arrays, and what was run as JSON beside them."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from belated.base.columns import Array
from belated.base.errors import BelatedError, OptionError
from belated.base.files import write_whole
from belated.estimation.target import Target
from belated.simulation.bandits import Bandit
from belated.simulation.description import bandit_from, bandit_to, policy_from, policy_to
from belated.simulation.policies import Policy
from belated.simulation.views import View

if TYPE_CHECKING:
    from belated.simulation.results import Study

_FORMAT = "belated study 3"


class Fields(TypedDict):
    """The fields of a study."""

    bandit: Bandit
    policy: Policy
    seed: int
    as_published: bool
    moments: dict[int, Array]
    seconds: dict[int, float]
    view: View
    asked: int
    left_out: int
    wait: float


def save(study: Study, path: str | Path) -> None:
    """Write a study to a file, whole or not at all."""
    about = {
        "format": _FORMAT,
        "bandit": bandit_to(study.bandit),
        "policy": policy_to(study.policy),
        "seed": study.seed,
        "as_published": study.as_published,
        "level": study.level,
        "asked": study.asked,
        "estimators": study.estimators,
        "intervals": study.intervals,
        "horizons": study.horizons,
        "left_out": study.left_out,
        "targets": [[target.name, target.coefficients.tolist()] for target in study.targets],
        "seconds": [study.seconds[horizon] for horizon in study.horizons],
        "wait": study.wait if math.isfinite(study.wait) else "inf",
    }
    arrays: dict[str, Any] = {f"moments_{horizon}": moments for horizon, moments in study.moments.items()}
    content = io.BytesIO()
    np.savez_compressed(content, about=np.array(json.dumps(about)), **arrays)
    write_whole(path, content.getvalue())


def load(path: str | Path) -> Fields:
    """Read the fields of a study that was saved."""
    try:
        with Path(path).open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            about = json.loads(str(file["about"]))
            if about["format"] != _FORMAT:
                raise OptionError(f"{str(path)!r} was saved by another version of belated; run the study again.")
            return {
                "bandit": bandit_from(about["bandit"]),
                "policy": policy_from(about["policy"]),
                "seed": about["seed"],
                "as_published": about["as_published"],
                "moments": {horizon: file[f"moments_{horizon}"] for horizon in about["horizons"]},
                "seconds": dict(zip(about["horizons"], about["seconds"], strict=True)),
                "view": View(
                    estimators=tuple(about["estimators"]),
                    targets=tuple(Target(name=name, coefficients=np.array(c)) for name, c in about["targets"]),
                    intervals=tuple(about["intervals"]),
                    level=about["level"],
                ),
                "asked": about["asked"],
                "left_out": about["left_out"],
                "wait": float(about.get("wait", 0.0)),
            }
    except (FileNotFoundError, BelatedError):
        raise
    except Exception as error:
        raise OptionError(f"{str(path)!r} is not a study that was saved ({type(error).__name__}).") from None
