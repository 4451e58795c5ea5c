"""The lights' one table."""

from __future__ import annotations

from typing import get_args

from belated.assumptions.lights import LIGHTS, Light


def test_the_table_holds_every_light_and_the_worst_is_last():
    assert tuple(LIGHTS) == get_args(Light)
    assert list(LIGHTS)[-1] == "red"
    assert len({meaning.sign for meaning in LIGHTS.values()}) == 4
