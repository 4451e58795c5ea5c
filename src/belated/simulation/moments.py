"""Conversion of the moments of a run to the sums of each estimator.

With weights sqrt(pi), h w = 1 for w = h / pi, so sums of r follow from those of y and m. With weights 1, w is the
square of that, and with weights pi it is 1. The sums of the zero model follow from the weights alone.
"""

from __future__ import annotations

import numpy as np

from belated.base.columns import Array
from belated.base.errors import OptionError
from belated.estimation.estimators import Estimator
from belated.kernels.experiment import ARRIVED_ROWS, MOMENTS
from belated.kernels.fields import OWN, SPREAD
from belated.summaries.sums import Sums


def sums_of_runs(moments: Array, centres: Array, estimator: Estimator, horizon: int) -> Sums:
    """Return the sums of many runs, treating each arm of each run as an arm; `moments` are (runs, arms, moments)."""
    weights, model = estimator.weights.name, estimator.outcome_model.name
    if (weights, model) not in (
        ("sqrt", "running_mean"),
        ("sqrt", "zero"),
        ("uniform", "zero"),
        ("propensity", "zero"),
    ):
        raise OptionError(f"A study has no sums for weights {weights!r} with outcome model {model!r}.")
    flat = moments.reshape(-1, moments.shape[2])
    own: dict[str, Array] = {name: flat[:, i] for i, name in enumerate(MOMENTS)}
    shift = np.tile(centres, len(moments))
    n, y, y2 = own["arrived"], own["y"], own["y2"]
    new = {"assigned": own["assigned"], "arrived": n, "nonbinary": np.full_like(n, np.nan), "y": y, "y2": y2}
    new |= {name: own[name] for name in ("y3", "y4")}
    if weights == "sqrt":
        new |= {name: own[name] for name in ("w", "wy", "w2", "w2y", "w2y2", "w3", "w3y", "w3y2", "w_max")}
        new |= {name: own[name] for name in ("h", "h2", "h_arrived")}
    elif weights == "uniform":
        powers = {"w": "w2", "w2": "w4", "w3": "w6"}
        new |= {a + e: own[b + e] for a, b in powers.items() for e in ("", "y", "y2")}
        everyone = np.repeat(moments[:, :, ARRIVED_ROWS].sum(axis=1), moments.shape[1])
        new |= {"w_max": own["w_max"] ** 2, "h": np.full_like(n, horizon), "h2": np.full_like(n, horizon)}
        new |= {"h_arrived": everyone}
    else:
        new |= {a + e: v for a in ("w", "w2", "w3") for e, v in (("", n), ("y", y), ("y2", y2))}
        new |= {"w_max": np.minimum(n, 1.0), "h": own["h2"]}
    if model == "running_mean":
        new |= {f"{v}_modelled": own[v] - own[f"{v}_unmodelled"] for v in ("h", "w")}
        new |= {f"{v}m": own[f"{v}m"] + shift * own[f"{v}_unmodelled"] for v in ("h", "w")}
        new |= {name: own[name] for name in ("h2m", "h2m2")}
        new |= {"hwr": y - own["m"], "hwrm": own["ym"] - own["m2"]}
        new |= {"w2r2": own["w2y2"] - 2 * own["w2ym"] + own["w2m2"]}
    else:  # there is no model, or it is always -shift
        new |= {name: np.zeros_like(n) for name in ("h_modelled", "w_modelled", "hm", "wm")}
        if weights != "propensity":
            hw, hwy = (n, y) if weights == "sqrt" else (new["w"], new["wy"])
            new |= {"h2m": -shift * new["h2"], "h2m2": shift**2 * new["h2"]}
            new |= {"hwr": hwy + shift * hw, "hwrm": -shift * (hwy + shift * hw)}
            new |= {"w2r2": new["w2y2"] + 2 * shift * new["w2y"] + shift**2 * new["w2"]}
    missing = np.full_like(n, np.nan)
    spread = np.array([new.get(name, missing) for name in SPREAD])
    columns = np.array([new.get(name, missing) for name in OWN]).T
    return Sums(
        arms=tuple(range(len(n))),
        weights=estimator.weights,
        outcome_model=estimator.outcome_model,
        shift=shift,
        spread=spread,
        own=columns,
    )
