from __future__ import annotations

import json
import math
import re
from fractions import Fraction

import pytest
from scipy import special

import belated as bl

N = bl.arms.normal
PROMPT = bl.Bandit({"A": N(0), "B": N(0.3)})
UNIFORM = bl.policies.uniform()


def test_what_cannot_be_reached_is_said():
    plan = bl.plan(PROMPT, UNIFORM, half_width=0.01, max_horizon=2000)
    assert not plan.reached
    assert plan.horizon == pytest.approx(4 * (special.ndtri(0.975) / 0.01) ** 2, rel=0.2)
    assert "not reached within 2,000 assignments" in plan.words
    assert json.loads(plan.to_json())["reached"] is False
    never = bl.plan(
        bl.Bandit(PROMPT.arms, {"B": bl.delays.none().censored(1.0)}), UNIFORM, half_width=1, max_horizon=99
    )
    assert never.horizon == math.inf
    assert "often has no interval, so the number that reaches it is unknown." in never.words


def test_a_plan_is_never_rounded_to_nothing(monkeypatch):
    plan = bl.plan(PROMPT, UNIFORM, half_width=0.4, replications=100)
    monkeypatch.setattr(type(plan), "_width", 1e6)  # far less sure than the horizon is long
    assert re.match(r"About [1-9][\d,]* assignments \([1-9]", plan.words)


def test_a_plan_goes_everywhere():
    odd = bl.Bandit({"<b>": N(0), "B\n|": N(0.5)}, bl.delays.constant(300))
    plan = bl.plan(odd, UNIFORM, half_width=0.25, per_day=100)
    assert "\n|" not in plan.words
    assert "<b>" not in plan.to_html()
    assert "days" in plan.words
    assert plan.to_pandas()["horizon"][0] > plan.horizon
    about = json.loads(plan.to_json())
    assert about["wait"] == 300
    assert all(row["days"] == pytest.approx(row["total"] / 100, abs=0.01) for row in about["waits"])
    assert about["curve"][0]["half_width"] > 0.25 > about["curve"][-1]["half_width"]
    assert [row["choice"] for row in about["waits"] if row["wait"] in (0, 300)] == ["", "planned"]
    widths = plan.curve.to_dict()["half_width"]
    assert widths == sorted(widths, reverse=True)


def test_one_day_and_one_assignment_are_no_plural():
    plan = bl.plan(bl.Bandit(PROMPT.arms, bl.delays.constant(100)), UNIFORM, half_width=0.4, wait=100, per_day=100)
    assert " and 1 day of waiting at 100 assignments per day: " in plan.words
    assert " days at 1 assignment per day: " in bl.plan(PROMPT, UNIFORM, half_width=0.4, per_day=Fraction(1)).words
