from __future__ import annotations

import json


def test_a_rehearsal_and_the_demo(call, file, tmp_path, monkeypatch):
    monkeypatch.setattr("belated.live.creating.secrets.token_bytes", bytes)  # the same arms in every run
    text = call("live", "simulate", file, "--rows", 100, "--every", 20, "--baseline", "B").stdout
    assert "100 asked" in text
    assert "The true means are A 1, B 0.5." in text
    path = tmp_path / "demo.belated"
    text = call("live", "demo", path, "--rows", 300).stdout
    assert "300 asked" in text
    assert "goes on" in text
    assert "Every rule of the store holds: True." in text
    path = tmp_path / "longer.belated"
    text = call("live", "demo", path, "--rows", 3000).stdout
    assert "Emoji is better than Plain at every look. Stopped; later customers get Emoji." in text
    assert "stopped" in call("live", "status", path, "subject line").stdout


DESCRIPTION = """
horizon = 120
[policy]
name = "thompson_beta"
[segments.DE.arms]
A = {outcome = {name = "bernoulli", rate = 0.2}}
B = {outcome = {name = "bernoulli", rate = 0.6}}
[segments.FR.arms]
A = {outcome = {name = "bernoulli", rate = 0.5}}
B = {outcome = {name = "bernoulli", rate = 0.3}}
"""


def test_a_rehearsal_by_segment(call, tmp_path):
    path = tmp_path / "experiment.toml"
    path.write_text(DESCRIPTION)
    done = call("live", "simulate", path, "--every", 20, "--baseline", "A")
    assert done.exit_code == 0, done.output
    assert "In DE they are A 0.2, B 0.6." in done.stdout
    assert "120 asked" in done.stdout


def test_a_table_is_imported(call, log, tmp_path):
    path = tmp_path / "shop.belated"
    done = call("live", "import", path, "mail", log, "--outcome", "real", "--baseline", "B", "--format", "json")
    assert done.exit_code == 0, done.output
    status = json.loads(done.stdout)
    assert (status["experiment"], status["state"], status["asked"]) == ("mail", "running", 400)


def test_an_import_or_a_rehearsal_that_is_refused_makes_no_file(refused, log, file, tmp_path):
    place = tmp_path / "shop.belated"
    before = sorted(tmp_path.iterdir())
    refused("live", "import", place, "x", log, "--outcome", "binary")
    refused("live", "import", place, "x", log, "--outcome", "real", "--baseline", "Z")
    late = tmp_path / "late.csv"
    late.write_text("arm,outcome,p_A,p_B,assigned_at,arrived_at\n" + "A,1,0.5,0.5,2999-01-01,2999-01-02\n" * 3)
    before.append(late)
    assert "was assigned later than now" in refused("live", "import", place, "x", late)
    refused("live", "simulate", file, "--place", place, "--rows", 100, "--baseline", "Z")
    own = tmp_path / "own.toml"
    own.write_text(file.read_text().replace('name = "epsilon_greedy"\nburn_in = 0.1', 'name = "own"'))
    before.append(own)
    assert "cannot be in a file" in refused("live", "simulate", own, "--place", place, "--rows", 100)
    assert sorted(tmp_path.iterdir()) == sorted(before)
