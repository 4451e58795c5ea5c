from __future__ import annotations

from typing import get_args

from belated.kernels import experiment
from belated.simulation.arms import ArmName
from belated.simulation.policies import PolicyName


def test_numbers_of_kinds_are_their_places():
    assert experiment.ARMS[experiment.STUDENT_T] == "student_t"
    assert experiment.POLICIES[experiment.THOMPSON_BETA] == "thompson_beta"
    assert experiment.TAILS[experiment.GEOMETRIC_TAIL] == "geometric"
    assert {*experiment.ARMS, "events"} == set(get_args(ArmName))  # events have a kernel of their own
    assert set(experiment.POLICIES) == set(get_args(PolicyName))


def test_a_desk_and_a_calendar_have_room():
    desk = experiment.new_desk(3)
    assert len(desk.block) == experiment.FIRST_H + 6 * experiment.COLUMN
    assert len(desk.state) == 24
    calendar = experiment.new_calendar(100)
    assert len(calendar.last) >= 102  # a step for what comes after the horizon
    assert calendar.free[0] == 1
