from __future__ import annotations

import csv
import json

import pytest

import belated as bl


def test_the_bounds_are_those_of_the_library(call, log):
    done = call("sensitivity", log, "--contrast", "A-B", "--gamma", "1,2", "--level", 0.9, "--format", "csv")
    assert done.exit_code == 0
    expected = bl.sensitivity(bl.read(str(log)), ("A", "B"), gammas=[1, 2], level=0.9).to_dict()
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert list(rows[0]) == list(expected)
    assert [float(row["low"]) for row in rows] == pytest.approx(expected["low"])


def test_people_see_the_shift_too_and_programs_all_of_it(call, log):
    asked = ("sensitivity", log, "--contrast", "A-B", "--format")
    text, markdown = (call(*asked, form).stdout for form in ("table", "markdown"))
    shift = bl.sensitivity(bl.read(str(log)), ("A", "B")).shift
    assert text.rstrip("\n").endswith(shift.to_text(every=True))
    assert markdown.rstrip("\n").endswith(shift.to_markdown())
    assert json.loads(call(*asked, "json").stdout)


def test_it_is_drawn(call, log, tmp_path):
    assert call("sensitivity", log, "--contrast", "A-B", "--plot", tmp_path / "s").exit_code == 0
    assert {path.name for path in tmp_path.iterdir()} == {"s.png", "s.svg"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--gamma", "1,x"), "--gamma is '1,x'; it must be numbers, such as 1,1.5,2."),
        (("--level", "1"), "strictly between 0 and 1"),
        (("--plot", "/nowhere/s"), "there is no folder"),
        (("--format", "xml"), "--format is 'xml'"),
    ],
)
def test_what_cannot_be_is_said_before_the_log_is_read(refused, log, arguments, sentence):
    assert sentence in refused("sensitivity", log, "--contrast", "A-B", *arguments)


def test_a_contrast_is_needed(call, log):
    done = call("sensitivity", log)
    assert done.exit_code == 2
    assert "--contrast" in done.stderr


@pytest.mark.parametrize("gamma", ["1e308", "1,1e200"])
def test_a_factor_beyond_all_bounds_draws_no_warning_of_numpys(call, log, gamma):
    done = call("sensitivity", log, "--contrast", "B-A", "--gamma", gamma)
    assert (done.exit_code, done.exception) == (0, None)
    assert "Warning" not in done.stderr
