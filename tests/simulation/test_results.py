from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from scipy import stats

import belated as bl
from belated.estimation.intervals import combine

PAPERS = bl.Bandit(
    {"A": bl.arms.normal(1.0), "B": bl.arms.normal(0.5)},
    {"A": bl.delays.pareto(0.75).censored(0.5), "B": bl.delays.pareto(1.25)},
)

RATES = bl.Bandit({"A": bl.arms.bernoulli(0.6), "B": bl.arms.bernoulli(0.3)}, bl.delays.geometric(4.0))
GREEDY = bl.policies.epsilon_greedy(burn_in=0.1)


def test_the_table_says_what_the_replications_say():
    study = bl.study(PAPERS, GREEDY, [200, 400], 120, seed=1, targets=["A", ("A", "B"), {"A": 0.5, "B": 0.5}])
    cell = study.cell("daipw", ("A", "B"), "auto", 400)
    answers = [bl.estimate(bl.simulate(PAPERS, GREEDY, 400, 1, r)).contrast("A", "B") for r in range(120)]
    errors = np.array([a.estimate for a in answers]) - 0.5
    covered = np.mean([a.low <= 0.5 <= a.high for a in answers])
    assert cell.bias == pytest.approx(errors.mean())
    assert cell.abs_error == pytest.approx(np.abs(errors).mean())
    assert cell.sd == pytest.approx(errors.std(ddof=1))
    assert cell.rmse == pytest.approx(math.sqrt((errors**2).mean()))
    assert cell.mean_se == pytest.approx(np.mean([a.std_error for a in answers]))
    assert cell.length == pytest.approx(np.mean([a.high - a.low for a in answers]))
    assert cell.coverage == pytest.approx(covered)
    low, high = stats.binomtest(round(covered * 120), 120).proportion_ci(method="wilson")
    assert (cell.coverage_low, cell.coverage_high) == pytest.approx((low, high))
    np.testing.assert_allclose(cell.studentised, [(a.estimate - 0.5) / a.std_error for a in answers], rtol=1e-8)
    assert len(study.cells) == 2 * 3 * 7 * 2
    rows = list(zip(*(study.to_dict()[n] for n in ("horizon", "target", "estimator", "interval", "bias")), strict=True))
    assert (400, "A - B", "daipw", "score", cell.bias) in rows
    assert "A - B" in study.to_text(every=True)


def test_what_the_policy_did():
    study = bl.study(PAPERS, GREEDY, 500, 50, seed=4)
    logs = [bl.simulate(PAPERS, GREEDY, 500, 4, r) for r in range(50)]
    table = study.policy_table.to_dict()
    assert table["regret"] == pytest.approx([np.mean([0.5 * (log.code == 1).sum() for log in logs])])
    assert table["chosen A"] == pytest.approx([np.mean([(log.code == 0).mean() for log in logs])])
    observed = sum((log.arrived & (log.code == 0)).sum() for log in logs) / sum((log.code == 0).sum() for log in logs)
    assert table["observed A"] == pytest.approx([observed])
    assert table["cpu_seconds"][0] > 0


def test_a_study_can_be_seen_otherwise_without_running_again():
    study = bl.study(PAPERS, GREEDY, 300, 50, level=0.95)
    wide = study.viewed(level=0.99, estimators=["dipw"], targets=[("B", "A")], intervals=["normal"])
    assert wide.moments is study.moments
    combination = combine(study.statistics("dipw"), np.array([-1.0, 1.0]), "normal")
    low, high = combination.limits(0.005)
    assert wide.cell("dipw", ("B", "A")).length == pytest.approx((high - low).mean())
    assert len(wide.cells) == 1


def test_auto_is_one_kind_whatever_the_outcomes():
    for bandit in (RATES, PAPERS):
        study = bl.study(bandit, GREEDY, 300, 5)
        assert study.cell("daipw", "A", "auto").interval == "score"
        assert study.cell("nh", "A", "auto").interval == "t"


def test_replications_without_an_interval_are_counted():
    bandit = bl.Bandit({"A": bl.arms.normal(), "B": bl.arms.normal()}, {"B": bl.delays.none().censored(0.9)})
    study = bl.study(bandit, bl.policies.uniform(), 12, 200, seed=8)
    cell = study.cell("dipw", "B")
    assert 0 < cell.missing < 200
    assert cell.missing + cell.replications == 200
    assert "missing" in study.to_dict()
    assert "left out" in str(study)


def test_arms_that_always_give_the_same_are_seen_to():
    bandit = bl.Bandit({"A": bl.arms.bernoulli(0.01), "B": bl.arms.bernoulli(0.5)})
    study = bl.study(bandit, bl.policies.uniform(), 100, 40)
    for name in ("daipw", "mean", "hajek"):
        cell = study.cell(name, "A", "auto")
        logs = [bl.simulate(bandit, bl.policies.uniform(), 100, 0, r) for r in range(40)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bl.BelatedWarning)
            answers = [bl.estimate(log, name).arm("A") for log in logs]
        np.testing.assert_allclose(cell.high, [a.high for a in answers], rtol=1e-9)
        assert any(a.estimate == 0 for a in answers)


@pytest.mark.parametrize("labels", [(np.int64(3), np.int64(4)), (("a", 1), ("b", 2)), (None, "x")], ids=str)
def test_labels_of_any_kind(labels):
    study = bl.study(bl.Bandit(dict.fromkeys(labels, bl.arms.normal())), bl.policies.uniform(), 50, 5)
    assert [t.name for t in study.targets] == [str(labels[0]), str(labels[1]), f"{labels[1]} - {labels[0]}"]
    assert study.cell("dipw", (labels[1], labels[0])).replications == 5
