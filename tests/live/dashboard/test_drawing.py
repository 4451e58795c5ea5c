from __future__ import annotations

import re

import numpy as np
import pytest
from live.dashboard.conftest import Time
from reports.samples import read_table

import belated as bl
from belated.live.dashboard.cutting import MOST_ROWS
from belated.live.dashboard.drawing import answered, as_report, draw
from belated.live.dashboard.history import read_history
from belated.live.storage import system_clock
from belated.live.store import Store, open_storage


@pytest.fixture
def time():
    return Time(system_clock())


@pytest.fixture
def store(tmp_path, time):
    with Store(open_storage(tmp_path / "shop.belated", time), ticking=False) as found:
        found.storage.relax()
        yield found


def drawn(exp):
    return draw(exp.answer(), read_history(exp))


def run(exp, time, rates, rows=2400, batch=200):
    """Have units come in batches, whose outcomes come a minute later."""
    rng = np.random.default_rng(0)
    for first in range(0, rows, batch):
        decisions = exp.ask_many([f"unit {first + i}" for i in range(batch)])
        time.now += 60_000_000
        exp.tell_many([(each.unit, float(rng.random() < rates[each.arm])) for each in decisions])
    exp.tick()


OUTCOMES = {
    "binary": (bl.live.binary(), (1.0, 0.0)),
    "equal": (bl.live.binary(), (1.0, 1.0)),
    "real": (bl.live.real(), (3.5, -2.0)),
    "bounded": (bl.live.bounded(0, 20), (20.0, 0.0)),
}


@pytest.mark.parametrize("kind", OUTCOMES)
@pytest.mark.parametrize("arms", [1, 2, 3])
@pytest.mark.parametrize("segments", [None, ["x", "y"]])
def test_however_few_outcomes_there_are(store, time, kind, arms, segments):
    outcome, values = OUTCOMES[kind]
    exp = store.create(
        "few", arms=list("ABC")[:arms], policy=bl.policies.uniform(), outcome=outcome, segments=segments
    ).start()  # fmt: skip
    assert drawn(exp).lead == ["No unit has been asked for yet."]
    units = [f"unit {i}" for i in range(9)]
    exp.ask_many(units, segments=None if segments is None else [segments[i % 2] for i in range(9)])
    assert drawn(exp).lead == ["No outcome has arrived yet."]
    for i, unit in enumerate(units[:7]):
        time.now += 1_000_000
        exp.tell(unit, values[i % 2])
        if i in (0, 1, 2, 6):
            found = drawn(exp)
            assert found.lead
            assert found.soundness
            assert found.answer


def test_many_arms_without_a_baseline_are_compared_at_one_look_as_in_the_report(store, time, tmp_path):
    """At every look, all pairs are followed, as what was known once stays known when arms are added."""
    arms = [f"arm {k}" for k in range(9)]
    exp = store.create("nine", arms=arms, policy=bl.policies.uniform(), outcome=bl.live.binary(), planned_rows=900)
    run(exp.start(), time, {arm: 0.1 if k else 0.9 for k, arm in enumerate(arms)}, rows=900, batch=300)
    answer = exp.answer()
    sections = answered(answer, as_report(answer, answer.log, answer.log.evidence()))
    once = next(section for section in sections if section.name == "differences").parts[0].sheet.columns[0]
    assert (once.name, list(once.values)) == ("arm, minus arm 0", arms[1:])
    page = answer.report(tmp_path / "nine.html").read_text(encoding="utf-8")
    assert [row[0] for row in read_table(page, "The differences in numbers")] == arms[1:]
    assert len(answer.contrasts) == 36
    always = next(section for section in sections if section.name == "always").parts[0]
    assert "the 8 clearest of 36, `belated live answer` has all" in always.sheet.caption


def test_too_few_outcomes_to_call_an_arm_best_are_said(store):
    exp = store.create("few", arms=["A", "B"], policy=bl.policies.uniform(), outcome=bl.live.binary()).start()
    exp.tell(exp.ask("ada").unit, 1)
    (best,) = [section for section in drawn(exp).answer if section.name == "best"]
    assert "an interval needs two arrived outcomes" in best.intro


def test_what_is_known_is_shown_however_many_arms_there_are(store, time):
    """The clearest differences are drawn, in the table and in words; the last arms may be the best."""
    arms = [f"arm {k}" for k in range(12)]
    exp = store.create(
        "many", arms=arms, policy=bl.policies.uniform(), outcome=bl.live.binary(), baseline="arm 0", planned_rows=2400
    ).start()
    # far apart, so that it does not matter who gets which arm
    run(exp, time, {arm: 0.1 if k < 2 else 0.5 + 0.02 * k for k, arm in enumerate(arms)} | {"arm 11": 0.98})
    found, known = drawn(exp), exp.answer().exclusions
    assert len(known) > MOST_ROWS
    assert found.lead[0].startswith("arm 11 is higher than arm 0")
    assert found.lead[MOST_ROWS] == f"{len(known) - MOST_ROWS} more differences are known."
    always = found.answer[0].parts[0]
    rows = always.sheet.columns[0].values
    assert len(rows) == MOST_ROWS
    assert "arm 11" in rows
    assert always.sheet.columns[0].name == "arm, minus arm 0"
    assert "arm 1 - arm 0" not in rows
    assert "the 8 clearest of 11, `belated live answer` has all" in always.sheet.caption
    assert all(len(column.texts()) == MOST_ROWS for column in always.sheet.columns)
    for section in found.answer[1:]:  # what is drawn is what the table has
        for part in section.parts:
            if part.charts and section.name in ("arms", "differences"):
                labels = {str(label).partition(" - ")[0] for label in part.sheet.columns[0].values}
                assert labels <= set(re.findall(r"arm \d+", "".join(part.charts)))


def test_windows_that_have_not_closed_are_named(store, time):
    exp = store.create(
        "sales", arms=["A", "B"], policy=bl.policies.uniform(), outcome=bl.live.events("12h")
    ).start()  # fmt: skip
    exp.ask_many(["ada", "bob"])
    time.now += 60_000_000
    exp.tell("ada", 1, key="order 1")
    assert drawn(exp).lead == [
        "No window has closed yet: the outcome of a unit is known 12 hours after its assignment."
    ]  # fmt: skip


def test_one_moment_is_no_line(store, time):
    exp = store.create("once", arms=["A", "B"], policy=bl.policies.uniform(), outcome=bl.live.bounded(0, 20)).start()
    decisions = exp.ask_many([f"unit {i}" for i in range(100)])
    time.now += 60_000_000
    exp.tell_many([(each.unit, i % 20) for i, each in enumerate(decisions)])
    found = drawn(exp)
    (draws,) = found.soundness
    assert list(draws.parts[0].charts) == []
    assert draws.parts[0].sheet is not None
    assert [section.name for section in found.over_time] == ["versions"]


def test_a_band_that_holds_everything_is_not_drawn(store, time):
    """While a segment has too few outcomes, the interval over all has every difference: only the rest is a chart."""
    exp = store.create(
        "late", arms=["A", "B"], policy=bl.policies.uniform(), outcome=bl.live.binary(), segments=["x", "y"],
        planned_rows=2000,
    ).start()  # fmt: skip
    for batch in range(20):
        segments = ["x" if i % 33 else "y" for i in range(100)]
        decisions = exp.ask_many([f"unit {batch} {i}" for i in range(100)], segments=segments)
        time.now += 60_000_000
        exp.tell_many([(each.unit, (i + batch) % 5 == 0) for i, each in enumerate(decisions)])
        exp.tick()
    (band, *_) = drawn(exp).over_time
    ticks = {int(text) for text in re.findall(r">(-?\d+)</text>", "".join(band.parts[0].charts))}
    assert ticks
    assert max(ticks) < 100


def test_an_arm_that_is_new_has_no_empty_chart(store, time):
    exp = store.create(
        "new", arms=["A", "B"], policy=bl.policies.uniform(), outcome=bl.live.binary(), baseline="A", planned_rows=2400
    ).start()
    run(exp, time, {"A": 0.1, "B": 0.3})
    exp.add_arm("C")
    (band, *_) = drawn(exp).over_time
    assert len(band.parts[0].charts) == 1
    assert "The 1 clearest of 2" in band.parts[0].caption


def test_what_cannot_be_read_yet_is_said_of_that_difference_alone(store, time):
    exp = store.create(
        "new", arms=["A", "B"], policy=bl.policies.uniform(), outcome=bl.live.binary(), baseline="A", planned_rows=2400
    ).start()
    run(exp, time, {"A": 0.1, "B": 0.3})
    exp.add_arm("C")
    exp.ask_many([f"late {i}" for i in range(30)])
    first, *others = drawn(exp).lead
    assert first.startswith("B is higher than A")
    assert others[-1].endswith("Until then, it is not known which is higher: C or A.")


def test_no_chart_is_empty_and_no_number_is_minus_nothing(store, time):
    exp = store.create("one", arms=["A", "B"], policy=bl.policies.uniform(), outcome=bl.live.binary(), baseline="A")
    exp.start().ask_many([f"unit {i}" for i in range(5)])
    exp.tell("unit 1", 1)
    found = drawn(exp)
    sections = {section.name: section for section in found.answer}
    assert [list(sections[name].parts[0].charts) for name in ("always", "differences")] == [[], []]
    assert sections["arms"].parts[0].charts
    (draws,) = found.soundness
    assert "-0" not in [text for row in draws.parts[0].sheet.rows for text in row]


def test_differences_in_segments_have_a_column_of_segments(store, time):
    exp = store.create(
        "mail", arms=["A", "B"], policy=bl.policies.uniform(), outcome=bl.live.binary(), baseline="A",
        segments=["DE", "FR"],
    ).start()  # fmt: skip
    units = [f"unit {i}" for i in range(200)]
    exp.ask_many(units, ["DE", "FR"] * 100)
    time.now += 60_000_000
    exp.tell_many([(unit, i % 3 == 0) for i, unit in enumerate(units)])
    (own,) = [section for section in drawn(exp).answer if section.name == "in-segments"]
    names, segments, *_ = own.parts[0].sheet.columns
    assert (names.name, list(names.values), list(segments.values)) == ("arm, minus A", ["B", "B"], ["DE", "FR"])


def test_a_build_up_that_is_cut_shows_whole_ages_up_to_the_last(store, time):
    exp = store.create(
        "sales", arms=["A", "B", "C"], policy=bl.policies.uniform(), outcome=bl.live.events("12h")
    ).start()  # fmt: skip
    decisions = exp.ask_many([f"unit {i}" for i in range(60)])
    for hour in range(12):
        time.now += 3_600_000_000
        exp.tell_many([(each.unit, 1) for each in decisions[hour * 4 : hour * 4 + 2]])
    time.now += 3_600_000_000
    exp.ask("last")
    (section,) = [each for each in drawn(exp).arrivals if each.name == "buildup"]
    rows = section.parts[0].sheet.rows
    assert len(rows) == 6
    assert [row[1] for row in rows] == ["A", "B", "C"] * 2
    assert rows[-1][0] == "12 hours"


def test_of_many_arms_those_are_shown_that_say_most(store, time):
    arms = [f"arm {k}" for k in range(12)]
    shares = dict.fromkeys(arms, 0.02) | {"arm 10": 0.4, "arm 11": 0.4}
    exp = store.create("many", arms=arms, policy=bl.policies.fixed(shares), outcome=bl.live.binary()).start()
    run(exp, time, dict.fromkeys(arms, 0.5))
    found = drawn(exp)
    arriving, draws = found.arrivals[0].parts[0], found.soundness[0].parts[0]
    assert [row[0] for row in arriving.sheet.rows][-2:] == ["arm 10", "arm 11"]
    assert arriving.caption.endswith("The 8 arms that most units got are shown, of 12.")
    away = {row[0]: abs(float(row[-1])) for row in draws.sheet.rows}
    assert draws.sheet.caption.startswith(
        "Units by arm, and what the probabilities predict, where they differ most; 8 of"
    )
    log = exp.log()
    units, chances = np.bincount(log.code, minlength=12), log.propensity[0]
    every = np.abs(units - 2400 * chances) / np.sqrt(2400 * chances * (1 - chances))
    assert sorted(away.values()) == pytest.approx(sorted(every)[4:], abs=0.01)


def test_a_difference_that_has_turned_is_not_said_to_have_been_known(store, time):
    exp = store.create(
        "turning", arms=["A", "B"], policy=bl.policies.uniform(), outcome=bl.live.binary(), planned_rows=600
    ).start()  # fmt: skip
    rng = np.random.default_rng(0)
    for batch, b_is_better in enumerate([True, True, False, False, False, False, False]):
        decisions = exp.ask_many([f"unit {batch}-{i}" for i in range(100)])
        time.now += 60_000_000
        good = "B" if b_is_better else "A"
        exp.tell_many([(each.unit, float(rng.random() < (0.9 if each.arm == good else 0.1))) for each in decisions])
        lead = drawn(exp).lead
        if batch == 1:
            assert lead[0].startswith("B is higher than A: by ")
            assert "You could have stopped at" in lead[0]
    (lead,) = lead
    assert lead.startswith("A is higher than B: by ")
    assert "It seemed lower when the interval first excluded 0, at " in lead
    assert "You could have stopped" not in lead
