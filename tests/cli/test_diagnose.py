from __future__ import annotations

import csv
import json

import pytest

import belated as bl


def test_the_lights_are_those_of_the_library(call, log):
    done = call("diagnose", log, "--format", "json")
    assert done.exit_code == 0
    answer, expected = json.loads(done.stdout), bl.diagnose(bl.read(str(log)))
    assert answer["worst"] == expected.worst
    assert [check["light"] for check in answer["checks"]] == [check.light for check in expected.checks]


@pytest.mark.parametrize("form", ["table", "markdown", "csv"])
def test_every_format_has_every_check(call, log, form):
    done = call("diagnose", log, "--format", form)
    assert done.exit_code == 0
    checks = bl.diagnose(bl.read(str(log))).checks
    if form == "csv":
        assert [row["check"] for row in csv.DictReader(done.stdout.splitlines())] == [check.name for check in checks]
    assert all(check.name in done.stdout for check in checks)


def test_a_log_that_cannot_be_read(refused, tmp_path, log):
    assert "nothing.csv" in refused("diagnose", tmp_path / "nothing.csv")
    assert "--format is 'xml'" in refused("diagnose", log, "--format", "xml")
    assert "--arm" in refused("diagnose", log, "--arm", "nowhere")
