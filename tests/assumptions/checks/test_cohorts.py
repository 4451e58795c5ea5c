"""The check that events build up alike in rows assigned early and late."""

from __future__ import annotations

import numpy as np
import pytest
from event_logs import Change, experiment
from scipy import stats
from simulated_logs import played

import belated as bl

NAME = "build-up over time"


def light(log):
    return bl.diagnose(log)[NAME].light


def test_only_logs_of_events_have_the_check():
    log = experiment(np.random.default_rng(1), 400, (0.3, 0.3)).log(2.0, "indicator")
    assert NAME in [check.name for check in bl.diagnose(log)]
    for other in (log.closed(), played(300)):
        assert NAME not in [check.name for check in bl.diagnose(other)]


@pytest.mark.parametrize(
    ("change", "words"),
    [(Change(rate=0.4), "fewer or smaller events"), (Change(delay=0.4), "events at ages")],
)
@pytest.mark.parametrize("measure", ["indicator", "count", "sum"])
def test_a_changed_build_up_is_red(change, words, measure):
    log = experiment(np.random.default_rng(2), 6000, (0.3, 0.3), measure=measure, change=change).log(3.0, measure)
    check = bl.diagnose(log)[NAME]
    assert check.light == "red", check
    assert words in check.finding
    assert "lag" in check.advice
    assert check.numbers["p_value"] < 1e-4


def test_events_that_are_not_yet_recorded_are_found():
    columns = experiment(np.random.default_rng(3), 6000, (0.3, 0.3))
    log = columns.log(2.0, "indicator")
    late = columns.at[columns.unit] + columns.age > 1.6  # happened, but recorded after 2
    behind = columns._replace(**{name: getattr(columns, name)[~late] for name in ("unit", "age", "value")})
    assert light(log) == "green"
    assert light(behind.log(2.0, "indicator")) == "red"


def test_few_events_cannot_tell():
    log = experiment(np.random.default_rng(4), 100, (0.05, 0.05)).log(2.0, "indicator")
    check = bl.diagnose(log)[NAME]
    assert (check.light, check.finding) == (
        "grey", "There are fewer than 30 events, too few to compare rows assigned early and late.",
    )  # fmt: skip


@pytest.mark.parametrize("policy", ["eps-greedy", "thompson"])
def test_healthy_logs_are_hardly_ever_amber(policy):
    rng, runs, lights = np.random.default_rng(5), 60, []
    for measure in ("indicator", "sum"):
        for rows, rate in ((300, 0.3), (1500, 0.05)):
            columns = (experiment(rng, rows, (rate, 1.2 * rate), policy=policy, measure=measure) for _ in range(runs))
            lights += [light(each.log(1.5, measure)) for each in columns]
    assert "red" not in lights
    # P(more) < 0.001 if one in a hundred is amber
    assert lights.count("amber") <= stats.binom.ppf(0.999, len(lights), 0.01)


def test_changes_in_opposite_directions_are_found_by_arm():
    rng = np.random.default_rng(6)
    up, down = (experiment(rng, 4000, (0.3,), policy="uniform", change=Change(rate=rate)) for rate in (2.0, 0.5))
    arm = np.repeat([0, 1], 4000)
    events = {
        "unit": np.concatenate([up.unit, 4000 + down.unit]),
        "time": np.concatenate([each.at[each.unit] + each.age for each in (up, down)]),
    }
    log = bl.Log.of_events(
        arm, "uniform", events, window=1.0, measure="indicator", assigned_at=np.append(up.at, down.at), as_of=3.0
    )
    check = bl.diagnose(log)[NAME]
    assert check.light == "red"
    assert check.numbers["z"][0] > 4
    assert check.numbers["z"][1] < -4
