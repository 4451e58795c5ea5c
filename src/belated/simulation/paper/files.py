"""The paper's study as files: figures, tables of numbers, and a page that sets them beside the authors'."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from belated.base import special
from belated.base.columns import Array
from belated.base.documents import csv_text, page
from belated.base.errors import OptionError
from belated.base.figures import save
from belated.base.files import write_whole
from belated.base.text import count, one_line
from belated.simulation import figures as plots
from belated.simulation.figures import Panels
from belated.simulation.paper.reproduction import CRITERIA, FIGURES, QUANTITIES, Difference, Figure, Paper, PaperRow
from belated.simulation.performance import share_limits

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawn

_SOURCE = (
    "The authors' figures: summaries of the results saved with their R code (LeiShi-rocks/DelayBandits), 1,000 "
    "replications a cell; those at horizon 15,000 and with Poisson delays were read off the coordinates of its figures."
)


def write(paper: Paper, folder: str | Path, version: str) -> list[Path]:
    """Write a study to a folder; return the files."""
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OptionError(f"`{folder}` cannot be a folder: {error.strerror}.") from None
    files = []
    for name in paper.figures:
        files += save(draw(paper, FIGURES[name]), folder / name, FIGURES[name].caption, private=False)
    differences = paper.comparison()
    files.append(write_whole(folder / "numbers.csv", _csv(paper.numbers()), private=False))
    files.append(write_whole(folder / "comparison.csv", _csv([d.row() for d in differences]), private=False))
    files.append(write_whole(folder / "index.html", _page(paper, differences, version), private=False))
    return files


def studentised_errors(paper: Paper, figure: Figure) -> dict[str, Array]:
    """Return what histograms show: each estimator's studentised errors at the longest horizon."""
    horizon = paper.studies[figure.scenario].horizons[-1]
    return {name: paper.cell(figure.scenario, horizon, name).studentised for name in figure.estimators}


def criteria(paper: Paper, figure: Figure) -> Panels:
    """Return what lines show: by criterion and estimator, horizons and values."""
    horizons = paper.studies[figure.scenario].horizons
    cells = {name: [paper.cell(figure.scenario, h, name) for h in horizons] for name in figure.estimators}
    return {
        criterion: {name: (horizons, [QUANTITIES[q].value(c) for c in row]) for name, row in cells.items()}
        for criterion, q in CRITERIA.items()
    }


def draw(paper: Paper, figure: Figure) -> Drawn:
    """Draw a figure."""
    if figure.histogram:
        errors = studentised_errors(paper, figure)
        return plots.histograms(errors, width=figure.histogram, title=figure.caption)
    data = criteria(paper, figure)
    runs = min(len(m) for m in paper.studies[figure.scenario].moments.values())
    limits = {name: np.array([share_limits(p, runs) for p in values]) for name, (_, values) in data["Coverage"].items()}
    bands = {"Coverage": {name: (ends[:, 0], ends[:, 1]) for name, ends in limits.items()}}
    return plots.lines(data, reference={"Coverage": 0.95}, bands=bands, xlabel="Time", title=figure.caption)


def _alt(figure: Figure) -> str:
    shown = ", ".join(figure.estimators)
    if figure.histogram:
        return f"Histograms of the studentised errors of {shown} at horizon 20,000, with the standard normal density."
    return f"Bias, coverage, MSE and SE of {shown} at horizons 5,000 to 20,000."


def _csv(rows: Sequence[PaperRow]) -> str:
    names = list(rows[0]) if rows else []
    return csv_text(
        {n: [f"{r[n]:.6g}" if isinstance(r[n], float) else r[n] for r in rows] for n in names}, as_written=True
    )


def _page(paper: Paper, differences: list[Difference], version: str) -> str:
    z = np.abs([d.z for d in differences])
    studies = paper.studies.values()
    quantities = dict.fromkeys(d.quantity for d in differences)
    by_quantity = {q: np.array([abs(d.z) for d in differences if d.quantity == q]) for q in quantities}
    return page(
        "belated.simulation.paper",
        "paper.html",
        version=version,
        as_published=paper.as_published,
        cells=count(sum(len(s.moments) for s in studies), "cell"),
        replications=f"{min(len(m) for s in studies for m in s.moments.values()):,}",
        steps=f"{sum(h * len(m) for s in studies for h, m in s.moments.items()):,}",
        seconds=f"{sum(t for s in studies for t in s.seconds.values()):.3g} s",
        seed=paper.seed,
        compared=f"{len(z):,}",
        within_two=f"{int((z <= 2).sum()):,}",
        expected_two=f"{math.floor(len(z) * (1 - 2 * special.ndtr(-2))):,}",
        beyond_three=int((z > 3).sum()),
        largest=f"{z.max(initial=0.0):.1f}",
        by_quantity=[
            {"name": q, "compared": len(part), "within": int((part <= 2).sum()), "largest": f"{part.max():.1f}"}
            for q, part in by_quantity.items()
        ],
        figures=[{"name": n, "caption": FIGURES[n].caption, "alt": _alt(FIGURES[n])} for n in paper.figures],
        differences=[
            {
                "scenario": one_line(d.scenario.delay),
                "margin": d.scenario.margin,
                "horizon": f"{d.horizon:,}",
                "estimator": d.estimator,
                "quantity": d.quantity,
                "ours": f"{d.ours:.5f}",
                "authors": f"{d.authors:.5f}",
                "difference": f"{d.difference:+.5f}",
                "error": f"{d.monte_carlo_error:.5f}",
                "z": f"{d.z:+.1f}",
                "far": abs(d.z) > 2,
            }
            for d in differences
        ],
        source=_SOURCE,
    )
