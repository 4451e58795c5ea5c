from __future__ import annotations

import numpy as np
import pytest

import belated as bl
from belated.live.design import ArmRow, Setup, Snapshot, plan_setup, read_segments, read_unit, read_units
from belated.live.records import Version


@pytest.mark.parametrize("odd", ["x" * 500, "é", "a\nb", 7, np.int64(7)])
def test_units_together_are_read_as_each_alone(odd):
    """Those that are plain text are checked together."""
    assert read_units(["plain", odd, "text"]) == ["plain", read_unit(odd), "text"]
    assert read_units([]) == []


@pytest.mark.parametrize("wrong", ["", "x" * 501, "\x7ferased 1", "a\x00b", "\ud800", 7.0, True, None, b"x"])
def test_a_unit_that_cannot_be_is_refused_among_others(wrong):
    with pytest.raises(bl.OptionError) as alone:
        read_unit(wrong)
    with pytest.raises(bl.OptionError) as together:
        read_units(["plain", wrong, "text"])
    assert str(together.value) == str(alone.value)


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        (bl.live.binary(), "sub_gaussian"),
        (bl.live.real(), "bernstein"),
        (bl.live.events("5d", "count"), "beta_binomial"),
    ],
)
def test_a_kind_of_sequence_that_the_outcome_cannot_have_is_refused_at_once(tmp_path, outcome, kind):
    with bl.live.open(tmp_path / "shop.belated") as store, pytest.raises(bl.OptionError, match="`kind`"):
        store.create("x", arms=["A", "B"], policy=bl.policies.uniform(), outcome=outcome, planned_rows=10, kind=kind)


@pytest.mark.parametrize(
    ("outcome", "segmented", "kind", "of_a_segment"),
    [
        (bl.live.binary(), False, "beta_binomial", "beta_binomial"),
        (bl.live.real(), False, "asymptotic", "asymptotic"),
        (bl.live.bounded(0, 5), False, "bernstein", "bernstein"),
        (bl.live.binary(), True, "auto", "beta_binomial"),
        (bl.live.bounded(0, 5), True, "asymptotic", "asymptotic"),
    ],
)
def test_a_setup_has_the_sequence_of_its_outcome_and_is_read_as_it_was_written(outcome, segmented, kind, of_a_segment):
    setup = plan_setup(["A", "B"], outcome, baseline="A", planned_rows=5000, segmented=segmented)
    assert (setup.kind, setup.target, setup.every) == (kind, 5000, 10)
    assert Setup.from_json(setup.to_json()) == Setup.from_dict(setup.to_dict()) == setup
    assert setup.segment_options(4) == {**setup.sequence_options, "kind": of_a_segment, "target": 1250}


def test_a_setup_that_was_altered_is_said_in_a_sentence():
    for text in ("{", "{}", '{"outcome": {"kind": "events"}}', "[]"):
        with pytest.raises(bl.live.StorageError, match="damaged: the setup of an experiment cannot be read"):
            Setup.from_json(text)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["DE", "DE"], "must be 1 to 50 different names"),
        ([], "must be 1 to 50 different names"),
        (["DE", "all"], "has 'all', a name that answers use themselves"),
        (["DE", ""], "has 0 characters"),
    ],
)
def test_segments_that_cannot_be_are_refused(names, words):
    with pytest.raises(bl.OptionError, match=words):
        read_segments(names)
    assert read_segments("DE") == ["DE"]


def test_a_snapshot_knows_the_arms_that_came_later_and_shows_no_salt():
    setup = plan_setup(["A", "B"], bl.live.binary(), baseline=None, planned_rows=10)
    arms = (ArmRow(0, "A", "offered"), ArmRow(1, "B", "dropped"), ArmRow(2, "C", "offered"))
    version = Version(1, 1, 1, 0, 0, (0, 1), (0.25, 0.75), (0.0, 0.0), (0.0, 0.0), "start")
    about = Snapshot(1, "button", "running", b"secret", setup, None, None, False, arms, (), version)
    assert about.offered == (0, 2)
    assert about.probabilities(version) == {"A": 0.25, "B": 0.75, "C": 0.0}
    assert about.arm("C") is arms[2]
    with pytest.raises(bl.OptionError, match="`final` is 'D'; it must be one of 'A', 'B', 'C'"):
        about.arm("D", "final")
    assert "secret" not in repr(about)
