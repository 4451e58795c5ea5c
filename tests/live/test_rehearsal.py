from __future__ import annotations

import numpy as np
import pytest

import belated as bl
from belated.live.importing import import_log
from belated.live.rehearsal import covers, rehearsal
from belated.simulation.log_files import write_log

BANDIT = bl.Bandit({"A": bl.arms.bernoulli(0.3), "B": bl.arms.bernoulli(0.45)}, bl.delays.geometric(20).censored(0.1))


def runs(policy, rows, count, every):
    for seed in range(count):
        with rehearsal(BANDIT, policy, rows, seed=seed, every=every, baseline="A") as exp:
            yield exp.answer()


def test_a_rehearsal_is_a_live_experiment_in_accelerated_time(tmp_path):
    path = tmp_path / "x.belated"
    with rehearsal(BANDIT, bl.policies.thompson_beta(), 200, place=path, every=20, baseline="A") as exp:
        assert exp._store.verify().clean
        answer = exp.answer()
    assert answer.counts.asked == 200
    log = bl.read(path, table="rehearsal").log()
    span = log.assigned_at[-1] - log.assigned_at[0]
    assert abs(span - np.timedelta64(180, "s")) < np.timedelta64(1, "ms")  # a version is just after what it has seen
    delays = (log.arrived_at - log.assigned_at)[log.arrived]
    assert delays.min() >= np.timedelta64(1, "s")
    assert 0.6 < log.arrived.mean() < 0.98


def test_a_rehearsal_chooses_as_a_simulation_and_its_answers_cover():
    """Shares within Monte Carlo error of `bl.simulate`; intervals at the end, and at every look."""
    policy, rows, count = bl.policies.thompson_beta(burn_in=20).batched(20), 240, 30
    answers = list(runs(policy, rows, count, 20))
    live = [answer.log.code.mean() for answer in answers]
    simulated = [bl.simulate(BANDIT, policy, rows, 11, r).code.mean() for r in range(count)]
    error = np.sqrt((np.var(live) + np.var(simulated)) / count)
    assert abs(np.mean(live) - np.mean(simulated)) < 4 * error
    held = np.array([covers(answer, BANDIT) for answer in answers]).sum(axis=0)
    assert held[0] >= 22  # of 30: fewer has a chance of 1e-4 at a coverage of 94 %
    assert held[1] >= 22


BY_SEGMENT = bl.ContextualBandit(
    {
        "FR": bl.Bandit({"A": bl.arms.bernoulli(0.2), "B": bl.arms.bernoulli(0.6)}, bl.delays.geometric(10)),
        "DE": bl.Bandit({"A": bl.arms.bernoulli(0.6), "B": bl.arms.bernoulli(0.2)}, bl.delays.geometric(10)),
    },
    shares={"FR": 0.7, "DE": 0.3},
)


def test_a_rehearsal_by_segment_chooses_as_a_simulation():
    """Shares of arms in each segment within Monte Carlo error of `bl.simulate`, and the mix is the bandit's."""
    policy, rows, count = bl.policies.thompson_beta(burn_in=20).batched(10), 240, 10

    def shares(log):
        labels, code = log.segment_column
        return [log.code[code == labels.index(segment)].mean() for segment in BY_SEGMENT.labels]

    live = []
    for seed in range(count):
        with rehearsal(BY_SEGMENT, policy, rows, seed=seed, every=10, baseline="A") as exp:
            live.append(shares(exp.log()))
            mix = np.bincount(exp.log().segment_column.code)[1] / rows  # labels are sorted: FR is the second
            assert abs(mix - 0.7) < 5 * np.sqrt(0.21 / rows)
    assert exp.setup.segmented
    simulated = [shares(bl.simulate(BY_SEGMENT, policy, rows, 11, r)) for r in range(2 * count)]
    error = np.sqrt((np.var(live, axis=0) + np.var(simulated, axis=0) / 2) / count)
    assert (np.abs(np.mean(live, axis=0) - np.mean(simulated, axis=0)) < 5 * error).all()
    assert np.mean(live, axis=0)[0] > 0.5 > np.mean(live, axis=0)[1]


def test_covariates_change_the_outcomes_of_a_rehearsal():
    normal = bl.Bandit({"A": bl.arms.normal(0.0, 0.1), "B": bl.arms.normal(1.0, 0.1)})
    hidden = {"covariates": {"x": bl.arms.normal(5.0, 0.1)}, "slopes": {"x": {"A": 2.0}}}
    bandit = bl.ContextualBandit({"all": normal}, **hidden)
    with rehearsal(bandit, bl.policies.uniform(), 100, every=50) as exp:
        assert not exp.setup.segmented  # the only segment "all" is none
        assert exp.answer().estimate.values == pytest.approx(list(bandit.means.values()), abs=0.3)
    shop = bl.Bandit({"A": bl.arms.events(0.1)}, bl.delays.geometric(5), window=10)
    with (
        pytest.raises(bl.OptionError, match="has events; a rehearsal needs outcomes"),
        rehearsal(shop, bl.policies.uniform(), 10),
    ):
        pass


def test_an_import_goes_on_with_what_was_logged(tmp_path):
    log = bl.simulate(BANDIT, bl.policies.epsilon_greedy(), 300, 1)
    path = write_log(log, tmp_path / "log.parquet")
    with bl.live.open(tmp_path / "shop.belated", ticking=False) as store:
        exp = store.import_table(
            "mail", path, policy=bl.policies.thompson_beta(), outcome=bl.live.binary(), unit="step", baseline="A"
        )
        assert bl.estimate(exp.log()).values == pytest.approx(bl.estimate(log).values, rel=1e-12)
        made = exp.tick()
        assert made.step == 301
        assert made.counts == tuple(np.bincount(log.code[log.arrived], minlength=2))
        again = exp.ask("17")
        assert (again.repeated, again.arm) == (True, "AB"[log.code[16]])
        assert not exp.ask("301").repeated
        assert store.verify().clean


@pytest.mark.parametrize("drawn", ["A", "B"])
def test_an_arm_that_was_never_drawn_is_imported(tmp_path, drawn):
    import pyarrow as pa

    table = pa.table({"arm": [drawn] * 3, "p_A": [0.5, 0.4, 0.4], "p_B": [0.5, 0.6, 0.6], "outcome": [1.0, 0, None]})
    with bl.live.open(tmp_path / "shop.belated", ticking=False) as store:
        exp = store.import_table("mail", table, policy=bl.policies.uniform(), outcome=bl.live.binary())
        assert exp.log().propensity.tolist() == [[0.5, 0.5], [0.4, 0.6], [0.4, 0.6]]
        assert exp.ask("new").probabilities == {"A": 0.5, "B": 0.5}
        assert store.verify().clean


def test_imports_that_cannot_be(tmp_path):
    import pyarrow as pa

    table = pa.table({"who": ["x", "x"], "arm": ["A", "B"], "p_A": [0.5, 0.5], "p_B": [0.5, 0.5], "outcome": [1.0, 0]})
    given = {"policy": bl.policies.uniform(), "outcome": bl.live.binary()}
    with bl.live.open(tmp_path / "shop.belated", ticking=False) as store:
        with pytest.raises(bl.LogError, match="has the unit of row 0 in other rows"):
            import_log(store, "mail", table, unit="who", **given)
        with pytest.raises(bl.LogError, match="needs every arm's"):
            import_log(store, "mail", table.drop(["p_B"]).rename_columns(["who", "arm", "p", "outcome"]), **given)
        with pytest.raises(bl.OptionError, match="of events, which cannot be imported"):
            import_log(store, "mail", table, policy=given["policy"], outcome=bl.live.events("1h"))
        assert len(store.experiments()) == 0
