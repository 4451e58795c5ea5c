from __future__ import annotations

import csv
from html.parser import HTMLParser

import pytest

from belated.simulation.paper import files as paper_files
from belated.simulation.paper import reproduction as paper


class Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.images = []

    def handle_starttag(self, tag, attributes):
        if tag == "img":
            self.images.append(dict(attributes))


def test_the_files(ours, tmp_path):
    files = {path.name for path in paper_files.write(ours, tmp_path / "out", "1.2.3")}
    figures = {f"{name}.{kind}" for name in ("no-delay", "zero-margin") for kind in ("png", "svg")}
    assert files == figures | {"numbers.csv", "comparison.csv", "index.html"}
    assert files == {path.name for path in (tmp_path / "out").iterdir()}
    with (tmp_path / "out" / "numbers.csv").open() as file:
        numbers = list(csv.DictReader(file))
    assert len(numbers) == (4 + 1) * 7
    assert {row["estimator"] for row in numbers} == {"DAIPW", "DIPW", "Mean", "Hajek", "NH", "NH0", "IAD"}
    with (tmp_path / "out" / "comparison.csv").open() as file:
        compared = list(csv.DictReader(file))
    assert all(abs(float(row["z"])) < 6 for row in compared)
    page = Page()
    text = (tmp_path / "out" / "index.html").read_text()
    page.feed(text)
    assert all((tmp_path / "out" / image["src"]).exists() and image["alt"] for image in page.images)
    assert "belated 1.2.3" in text
    assert "http" not in text  # opens offline


def test_figures_show_what_the_paper_plots(ours):
    data = paper_files.criteria(ours, paper.FIGURES["no-delay"])
    cell = ours.cell(paper.Scenario("NODELAY", 0.5), 10_000, "NH")
    horizons, values = data["MSE"]["NH"]
    assert tuple(horizons) == paper.HORIZONS
    assert values[1] == pytest.approx((cell.error**2 + cell.variance).mean())
    errors = paper_files.studentised_errors(ours, paper.FIGURES["zero-margin"])
    assert list(errors) == ["DAIPW", "Mean", "NH", "NH0"]
    assert len(errors["NH"]) == 400
