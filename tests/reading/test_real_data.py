"""Real experiments: docs/data/README.md names their sources and licences."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import belated as bl

DATA = Path(__file__).parents[2] / "docs" / "data"


def test_an_experiment_with_a_fixed_split_gives_the_shares_of_its_groups():
    table = bl.read(DATA / "released.csv", arm="group", outcome="arrested")
    est = bl.estimate(table)
    # Rossi, Berk and Lenihan (1980): 48 of 216 with aid were arrested within a year, 66 of 216 without
    assert est.arms == ("aid", "none")
    np.testing.assert_allclose(est.values, [48 / 216, 66 / 216])
    difference = est.contrast("aid", "none")
    assert difference.estimate == pytest.approx(-18 / 216)
    assert difference.low < -18 / 216 < difference.high


def test_events_within_a_window_are_those_of_the_whole_table_up_to_then():
    options = {"key": "person", "arm": "group", "window": 26, "as_of": 26}
    est = bl.estimate(bl.read(DATA / "released.csv", DATA / "arrests.csv", events="indicator", **options))
    # weeks 1 to 26 of the same source: 22 and 32 arrests
    np.testing.assert_allclose(est.values, [22 / 216, 32 / 216])


def test_a_log_of_thompson_sampling_agrees_with_what_random_choices_earned():
    columns = {"arm": "item", "outcome": "clicked", "assigned_at": "shown_at", "propensity": "propensity"}
    table = bl.read(DATA / "open_bandit.csv.gz", **columns)
    with pytest.warns(bl.BelatedWarning, match="All arrived outcomes"):
        est = bl.estimate(table, "dipw")
    assert (len(est.arms), est.sums["assigned"].sum()) == (34, 10_000)
    equal = est.policy(dict.fromkeys(est.arms, 1 / 34))
    assert equal.low < 46 / 10_000 < equal.high  # the file obd/random/men/men.csv of the same package: 46 clicks
    assert bl.diagnose(table).worst != "red"
