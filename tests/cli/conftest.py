from __future__ import annotations

import pytest
from commands import invoke

import belated as bl

EXPERIMENT = """
seed = 1
horizons = [200, 400]
replications = 50
estimators = ["daipw", "nh"]
targets = [["A", "B"]]

[policy]
name = "epsilon_greedy"
burn_in = 0.1

[arms.A]
outcome = { name = "normal", mean = 1.0 }
delay = { name = "pareto", shape = 0.75, never = 0.5 }

[arms.B]
outcome = { name = "normal", mean = 0.5 }
"""


@pytest.fixture
def call():
    """Run the command line in this process."""

    def run(*arguments):
        return invoke(arguments)

    return run


@pytest.fixture
def refused(call):
    """Run a command that cannot be, and return the one sentence that says why."""

    def run(*arguments):
        done = call(*arguments)
        assert done.exit_code == 2
        assert done.stdout == ""
        (sentence,) = done.stderr.strip().splitlines()
        return sentence

    return run


@pytest.fixture
def file(tmp_path):
    """Describe an experiment in a file."""
    path = tmp_path / "experiment.toml"
    path.write_text(EXPERIMENT)
    return path


@pytest.fixture(scope="session")
def bandit():
    """Be the experiment that the file describes."""
    arms = {"A": bl.arms.normal(1.0), "B": bl.arms.normal(0.5)}
    return bl.Bandit(arms, {"A": bl.delays.pareto(0.75).censored(0.5)})


@pytest.fixture(scope="session")
def log(tmp_path_factory, bandit):
    """Write the log of one run, as `belated simulate` does."""
    from belated.simulation.log_files import write_log

    path = tmp_path_factory.mktemp("logs") / "log.csv"
    write_log(bl.simulate(bandit, bl.policies.epsilon_greedy(burn_in=0.1), 400, 3), path)
    return path


EVENTS = """
horizon = 300
window = 60
replications = 20

[policy]
name = "epsilon_greedy"
burn_in = 0.1
batch = 10

[arms.A]
outcome = { name = "events", rate = 0.3 }
delay = { name = "geometric", mean = 10 }

[arms.B]
outcome = { name = "events", rate = 0.4 }
delay = { name = "geometric", mean = 30 }
"""


@pytest.fixture
def events_file(tmp_path):
    """Describe an experiment whose outcomes are events in a file."""
    path = tmp_path / "events.toml"
    path.write_text(EVENTS)
    return path


@pytest.fixture
def shop(call, tmp_path):
    """Create an experiment; give its file."""
    path = tmp_path / "shop.belated"
    done = call(
        "live", "create", path, "subject line", "--arms", "Plain,Emoji", "--policy", "uniform", "--baseline", "Plain",
        "--planned", 2000,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "subject line: running, version 1, 0 units asked" in done.stdout
    return path


@pytest.fixture
def live(call, shop):
    """Run a command on the experiment, and give what it prints."""

    def run(command, *arguments, code=0):
        done = call("live", *command.split(), shop, "subject line", *arguments)
        assert done.exit_code == code, done.output
        return done.stdout

    return run
