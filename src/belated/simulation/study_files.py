"""Saving and loading a study: its moments as arrays, and its description as JSON."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from belated.base.checks import real, whole
from belated.base.columns import Array, locked
from belated.base.documents import JsonObject
from belated.base.errors import BelatedError, OptionError
from belated.base.files import check_file, write_whole
from belated.base.text import shown
from belated.estimation.target import Target
from belated.kernels.moments import ARRIVED, ASSIGNED, MOMENTS
from belated.simulation.bandits import Bandit
from belated.simulation.contextual import AnyBandit, is_plain
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


def check_saved(bandit: AnyBandit) -> Bandit:
    """Return the bandit of a study that can be saved; raise otherwise."""
    if not is_plain(bandit):
        raise OptionError(
            "A study of a bandit with segments or events cannot be saved: it does not keep the sums of its runs. Write "
            "its rows, such as with `to_json()` or `--format json`."
        )
    return bandit


def save(study: Study, path: str | Path) -> None:
    """Write a study to a file; a failure leaves no partial file."""
    bandit = check_saved(study.bandit)
    about = {
        "format": _FORMAT,
        "bandit": bandit_to(bandit),
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
    """Read the fields of a saved study; raise if the file is not a valid study."""
    check_file(path)
    try:
        with Path(path).open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            about = json.loads(str(file["about"]))
            if about["format"] != _FORMAT:
                raise OptionError("it was saved by another version of belated; run the study again.")
            return _fields(about, lambda horizon: file[f"moments_{horizon}"])
    except FileNotFoundError:
        raise
    except BelatedError as error:
        raise OptionError(f"{str(path)!r} is not a saved study: {error}") from None
    except (Exception, RecursionError) as error:
        raise OptionError(f"{str(path)!r} is not a saved study, or is damaged ({type(error).__name__}).") from None


def _fields(about: JsonObject, moments_of: Callable[[int], Array]) -> Fields:
    """Return the fields, validated like a user's options."""
    bandit, policy = bandit_from(about["bandit"]), policy_from(about["policy"])
    horizons = [whole("horizons", horizon, least=1) for horizon in _listed("horizons", about["horizons"])]
    seconds = [real("seconds", number) for number in _listed("seconds", about["seconds"])]
    if not horizons or len(set(horizons)) < len(horizons) or len(seconds) != len(horizons) or min(seconds) < 0:
        raise OptionError("its horizons and their seconds do not match.")
    if not isinstance(about["as_published"], bool):
        raise OptionError(f"`as_published` is {shown(about['as_published'])}; it must be true or false.")
    wait = about.get("wait", 0.0)
    wait = math.inf if wait == "inf" else real("wait", wait)
    if wait < 0:
        raise OptionError(f"`wait` is {shown(wait)}; it must be 0 or more.")
    view = View.read(
        bandit,
        estimators=_listed("estimators", about["estimators"]),
        targets=[_target(given, len(bandit.arms)) for given in _listed("targets", about["targets"])],
        intervals=_listed("intervals", about["intervals"]),
        level=about["level"],
    )
    return {
        "bandit": bandit,
        "policy": policy,
        "seed": whole("seed", about["seed"], least=0),
        "as_published": about["as_published"],
        "moments": {horizon: _moments(moments_of(horizon), horizon, len(bandit.arms)) for horizon in horizons},
        "seconds": dict(zip(horizons, seconds, strict=True)),
        "view": view,
        "asked": whole("asked", about["asked"], least=0),
        "left_out": whole("left_out", about["left_out"], least=0),
        "wait": wait,
    }


def _listed(name: str, given: object) -> list[Any]:
    if not isinstance(given, list):
        raise OptionError(f"`{name}` is {shown(given)}; it must be a list.")
    return given


def _target(given: object, arms: int) -> Target:
    """Return a target from its name and coefficients."""
    if not (isinstance(given, list) and len(given) == 2 and isinstance(given[0], str)):
        raise OptionError(f"`targets` contains {given!r}; it must contain names and coefficients.")
    coefficients = np.array([real("targets", number) for number in _listed("targets", given[1])])
    if len(coefficients) != arms or not coefficients.any():
        raise OptionError(f"`targets` contains {given!r}; it must have {arms} coefficients that are not all 0.")
    return Target(name=given[0], coefficients=locked(coefficients))


def _moments(given: Array, horizon: int, arms: int) -> Array:
    """Return the moments of the runs at a horizon, or raise if they are inconsistent with it."""
    if given.dtype != np.float64 or given.ndim != 3 or len(given) < 2 or given.shape[1:] != (arms, len(MOMENTS)):
        raise OptionError(f"its runs at horizon {horizon:,} are of shape {given.shape} and type {given.dtype}.")
    assigned, arrived = given[:, :, ASSIGNED], given[:, :, ARRIVED]
    fits = (arrived >= 0) & (arrived <= assigned) & (assigned % 1 == 0) & (arrived % 1 == 0)
    if not np.isfinite(given).all() or not fits.all() or (assigned.sum(axis=1) != horizon).any():
        raise OptionError(f"its runs at horizon {horizon:,} do not have that many assignments, or are not numbers.")
    return given
