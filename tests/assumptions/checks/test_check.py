"""How a check is made of a function that judges evidence."""

from __future__ import annotations

import math
from typing import get_args

import pytest
from simulated_logs import played

import belated as bl
from belated.assumptions.checks.check import LIGHTS, Light, Verdict, arm_name, arm_name_first, by_arm, check, light_of
from belated.assumptions.diagnosis import CHECKS


def test_a_check_holds_what_it_asks_and_how_it_ended():
    @check("rows", condition="practice", asks="There are rows.")
    def has_rows(evidence):
        """Judge how many rows there are."""
        return Verdict("amber", f"There are {evidence.rows}.", "Wait.", {"rows": float(evidence.rows)})

    result = has_rows(played(50).evidence())
    assert result == bl.Check(
        name="rows", condition="practice", asks="There are rows.", light="amber", finding="There are 50.",
        advice="Wait.", numbers={"rows": 50.0},
    )  # fmt: skip
    assert list(result.to_dict()) == ["check", "condition", "light", "asks", "finding", "advice", "numbers"]
    assert has_rows.__doc__ == "Judge how many rows there are."


def test_a_check_is_shown_in_a_line_without_its_numbers():
    amber = bl.Check("rows", "A3", "There are rows.", "amber", "There are 50.", "Wait.", {"rows": 50.0})
    assert repr(amber) == "! amber  rows (A3): There are 50. To do: Wait."
    assert all(len(repr(each)) < 500 for each in bl.diagnose(played(50, labels=range(12))))


def test_every_check_has_a_name_of_its_own():
    evidence = played(300).evidence()
    names = [judge(evidence).name for judge in CHECKS]
    assert len(set(names)) == len(CHECKS) == 14


def test_there_are_four_lights():
    with pytest.raises(bl.OptionError, match="`light` is 'blue'"):
        bl.Check("a", "b", "c", "blue", "d")
    assert [light_of(p) for p in (1e-4, 5e-3, 0.5, math.nan)] == ["red", "amber", "green", "green"]
    assert [light_of(p, red=1e-4) for p in (9e-5, 1e-4, 0.5)] == ["red", "amber", "green"]


def test_arms_in_sentences():
    evidence = played(50, labels=["A", "b" * 90]).evidence()
    assert (arm_name(evidence, 0), arm_name_first(evidence, 0)) == ("arm 'A'", "Arm 'A'")
    assert len(arm_name(evidence, 1)) == len("arm ") + 40
    assert by_arm(evidence, [1, 2]) == {"A": 1.0, "b" * 90: 2.0}


def test_the_table_holds_every_light_and_the_worst_is_last():
    assert tuple(LIGHTS) == get_args(Light)
    assert list(LIGHTS)[-1] == "red"
    assert len({meaning.sign for meaning in LIGHTS.values()}) == 4
