from __future__ import annotations

import csv

import pytest
from pyarrow import parquet

import belated as bl


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_simulate_writes_the_log_that_simulate_makes(call, file, bandit, tmp_path, suffix):
    path = tmp_path / f"log.{suffix}"
    done = call("simulate", file, "-o", path, "--seed", 3)
    assert done.exit_code == 0
    assert done.stderr == f"400 rows written to {path}\n"
    if suffix == "csv":
        with path.open() as opened:
            rows = list(csv.DictReader(opened))
        frame = {name: [float(row[name]) if row[name] else None for row in rows] for name in rows[0] if name != "arm"}
        frame["arm"] = [row["arm"] for row in rows]
    else:
        frame = parquet.read_table(path).to_pydict()
    log = bl.simulate(bandit, bl.policies.epsilon_greedy(burn_in=0.1), 400, 3)
    read = bl.Log(
        frame["arm"], frame["outcome"], list(zip(frame["p_A"], frame["p_B"], strict=True)), arms=["A", "B"],
        assigned_at=frame["step"], arrived_at=frame["arrived"], as_of=400,
    )  # fmt: skip
    assert bl.estimate(read).values == pytest.approx(bl.estimate(log).values, rel=1e-12)
    assert len(list(tmp_path.iterdir())) == 2


def test_the_horizon_and_the_replication_may_be_chosen(call, file, tmp_path):
    for name, options in {"a": (), "b": ("--replication", 1), "c": ("--horizon", 50)}.items():
        assert call("simulate", file, "-o", tmp_path / f"{name}.csv", *options).exit_code == 0
    texts = {name: (tmp_path / f"{name}.csv").read_text() for name in "abc"}
    assert texts["a"] != texts["b"]
    assert [len(text.splitlines()) for text in texts.values()] == [401, 401, 51]


def test_a_file_with_another_suffix_is_refused(refused, file, tmp_path):
    assert "must end in .csv or .parquet" in refused("simulate", file, "-o", tmp_path / "log.xls")
    assert [p.name for p in tmp_path.iterdir()] == ["experiment.toml"]


def test_nothing_is_written_if_the_events_cannot_be(refused, events_file, tmp_path):
    (tmp_path / "log-events.csv").mkdir()
    assert "log-events.csv` cannot be written: it is a folder" in refused(
        "simulate", events_file, "-o", tmp_path / "log.csv"
    )
    assert not (tmp_path / "log.csv").exists()


def test_the_events_do_not_replace_the_description(refused, events_file, tmp_path):
    description = events_file.rename(tmp_path / "log-events.csv")
    before = description.read_text()
    assert "it is an input file" in refused("simulate", description, "-o", tmp_path / "log.csv")
    assert description.read_text() == before
    assert not (tmp_path / "log.csv").exists()


def test_events_are_written_beside_the_rows(call, events_file, tmp_path):
    done = call("simulate", events_file, "-o", tmp_path / "log.csv", "--seed", 2)
    texts = [(tmp_path / name).read_text() for name in ("log.csv", "log-events.csv")]
    rows, events = (list(csv.DictReader(text.splitlines())) for text in texts)
    assert done.stderr.splitlines() == [
        f"300 rows written to {tmp_path / 'log.csv'}",
        f"{len(events)} events written to {tmp_path / 'log-events.csv'}",
    ]
    read = bl.Log.of_events(
        [row["arm"] for row in rows],
        [[float(row["p_A"]), float(row["p_B"])] for row in rows],
        {"unit": [event["unit"] for event in events], "time": [int(event["happened_at"]) for event in events]},
        unit=[row["unit"] for row in rows],
        assigned_at=[int(row["step"]) for row in rows],
        arms=["A", "B"],
        window=60,
        as_of=300,
    )
    bandit = bl.Bandit(
        {"A": bl.arms.events(0.3), "B": bl.arms.events(0.4)},
        {"A": bl.delays.geometric(10), "B": bl.delays.geometric(30)},
        window=60,
    )
    log = bl.simulate(bandit, bl.policies.epsilon_greedy(burn_in=0.1).batched(10), 300, 2)
    assert bl.estimate(read).values == pytest.approx(bl.estimate(log).values, rel=1e-12)
