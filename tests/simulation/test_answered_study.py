from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

import numpy as np
import pytest
from scipy import stats

import belated as bl
from belated.estimation.estimate import Estimate
from belated.estimation.estimators import ESTIMATORS

GREEDY = bl.policies.epsilon_greedy(decay=0.3, burn_in=0.1)
TRAP = bl.ContextualBandit(
    {
        "DE": bl.Bandit({"A": bl.arms.normal(0.5), "B": bl.arms.normal(1.0)}, bl.delays.pareto(1.2).censored(0.1)),
        "FR": bl.Bandit(
            {"A": bl.arms.normal(0.5), "B": bl.arms.normal(-0.2)}, {"B": bl.delays.poisson(9).censored(0.6)}
        ),
    },
    {"DE": 0.55, "FR": 0.45},
)
ADJUSTED = replace(TRAP, covariates={"x": bl.arms.normal()}, slopes={"x": {"A": 0.9, "B": 0.5}}, arrival={"x": 0.5})
BEST = {"DE": "B", "FR": {"A": 0.9, "B": 0.1}}
TARGETS = ["A", ("B", "A"), {"A": 0.3, "B": 0.7}, bl.in_segment("FR", ("B", "A")), bl.in_segment("DE", "B"), BEST]
SEVERAL = ("daipw", "dipw", "hajek", "mean", "iad")


def answers(log, estimator):
    """The answers of `estimate` to `TARGETS`."""
    chosen = ESTIMATORS[estimator]
    sums = bl.Sums.of(log, weights=chosen.weights, outcome_model=chosen.outcome_model)
    kind = "score" if chosen.normalisation == "hajek" else "t"
    est = Estimate(sums=sums, estimator=chosen, level=0.9, interval=kind)
    fr, de = est.segment("FR"), est.segment("DE")
    return [
        est.arm("A"), est.contrast("B", "A"), est.linear(TARGETS[2]), fr.contrast("B", "A"), de.arm("B"),
        est.policy(BEST),
    ]  # fmt: skip


@pytest.mark.parametrize("bandit", [TRAP, ADJUSTED], ids=["segments", "covariates"])
@pytest.mark.parametrize("wait", [0, 30])
def test_every_answer_is_that_of_estimate_on_the_log_of_the_run(bandit, wait):
    study = bl.study(
        bandit, GREEDY, 400, 5, estimators=SEVERAL, targets=TARGETS, intervals=["auto"], level=0.9, seed=3, wait=wait
    )
    for run in range(5):
        log = bl.simulate(bandit, GREEDY, 400, 3, run).at(400 + wait)
        for name in SEVERAL:
            for target, answer in zip(TARGETS, answers(log, name), strict=True):
                cell = study.cell(name, target)
                ours = [cell.error[run] + cell.truth, cell.std_error[run], cell.low[run], cell.high[run]]
                theirs = [answer.estimate, answer.std_error, answer.low, answer.high]
                np.testing.assert_allclose(ours, theirs, rtol=1e-9, err_msg=f"{name} {target} {run}")


def test_targets_have_the_truth_of_their_segments():
    study = bl.study(TRAP, GREEDY, 200, 4, targets=TARGETS, estimators=["daipw"])
    truths = [study.truth(target) for target in TARGETS]
    assert truths == pytest.approx([0.5, 0.55 - 0.09 - 0.5, 0.15 + 0.7 * 0.46, -0.7, 1.0, 0.55 + 0.45 * 0.43])
    assert [target.name for target in study.targets][3:] == ["B - A in FR", "B in DE", "DE: B; FR: 0.9 A + 0.1 B"]


def test_the_numbers_do_not_depend_on_how_it_was_run():
    def played(**options):
        study = bl.study(TRAP, GREEDY, [150, 250], 12, estimators=["daipw"], seed=5, **options)
        return [*study.moments.values(), *study.answers.values()]

    one = played(workers=1)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes:
        for other in (played(workers=2), played(executor=processes)):
            for ours, theirs in zip(one, other, strict=True):
                np.testing.assert_array_equal(ours, theirs)


def test_intervals_cover_overall_in_segments_and_for_policies():
    study = bl.study(TRAP, GREEDY, 600, 400, targets=TARGETS, estimators=["daipw", "mean"], intervals=["auto"], seed=8)
    for target in study.targets:
        cell = study.cell("daipw", target)
        assert cell.missing == 0
        hits = round(cell.coverage * 400)
        assert stats.binomtest(hits, 400, 0.95, alternative="less").pvalue > 1e-3, target.name
        assert abs(cell.bias) < 4 * cell.bias_error + 0.01
    # a policy that does not look at segments, seen by an estimate that does: the same holds
    pooled = bl.study(TRAP, GREEDY.pooled(), 600, 200, targets=[("B", "A")], estimators=["daipw"], seed=8)
    assert pooled.coverage("daipw", ("B", "A")) > 0.9


def test_rates_by_segment_have_wilsons_interval_and_points():
    rates = bl.ContextualBandit(
        {
            name: bl.Bandit({"A": bl.arms.bernoulli(0.1), "B": bl.arms.bernoulli(p)})
            for name, p in (("x", 0.3), ("y", 0.2))
        }
    )
    study = bl.study(
        rates, bl.policies.thompson_beta(0.3), 500, 200, intervals=["wilson"], targets=[("B", "A")], seed=2
    )
    assert study.coverage("daipw", ("B", "A")) > 0.9
    assert "errors in percentage points" in str(study)


def test_runs_whose_segment_was_merged_have_no_answer_there_but_overall():
    shares = {"DE": 0.8, "FR": 0.1, "IT": 0.1}
    small = bl.ContextualBandit(dict.fromkeys(shares, TRAP.segments["DE"]), shares)
    targets = [("B", "A"), bl.in_segment("FR", ("B", "A")), bl.in_segment("DE", ("B", "A"))]
    study = bl.study(small, bl.policies.uniform(), 150, 20, targets=targets, estimators=["daipw"])
    cells = [study.cell("daipw", target) for target in targets]
    assert cells[0].missing == 0
    assert cells[1].missing > 10
    assert cells[2].missing < 3  # merged too if the others have too few outcomes even together
    assert "`missing` counts them" in str(study)


def test_the_regret_is_unknown_where_no_arm_of_a_segment_has_a_mean():
    wild, tame = (bl.Bandit({"A": arm, "B": arm}) for arm in (bl.arms.student_t(0.9), bl.arms.normal()))
    study = bl.study(
        bl.ContextualBandit({"x": wild, "y": tame}), bl.policies.uniform(), 60, 2, estimators=["mean"],
        targets=[bl.in_segment("y", "A")],
    )  # fmt: skip
    assert np.isnan(study.policy_table.to_dict()["regret"]).all()


def test_the_policy_table_has_regret_by_segment():
    study = bl.study(TRAP, bl.policies.fixed({"A": 1.0, "B": 0.0}), 300, 30, estimators=["mean"], targets=["A"])
    table = study.policy_table.to_dict()
    assert table["chosen A"] == [1.0]
    assert table["regret"][0] == pytest.approx(300 * 0.55 * 0.5, rel=0.03)
    assert table["observed A"][0] == pytest.approx(0.55 * 0.9 + 0.45, abs=0.05)


def test_what_is_not_kept_is_refused_in_a_sentence(tmp_path):
    study = bl.study(TRAP, GREEDY, 200, 4, targets=["A", ("B", "A")], estimators=["daipw", "mean"])
    view = study.viewed(targets=[("B", "A")], estimators=["mean"], intervals=["auto"])
    assert len(view.cells) == 1
    for ask in (
        lambda: study.viewed(targets=["B"]),
        lambda: study.viewed(estimators=["hajek"]),
        lambda: study.viewed(level=0.9),
        lambda: study.cell("daipw", "B"),
        lambda: study.cell("daipw", "A", "t"),
        lambda: study.statistics("daipw"),
    ):
        with pytest.raises(bl.OptionError, match="keeps only the answers that it was run for"):
            ask()
    with pytest.raises(bl.OptionError, match="cannot be saved"):
        study.save(tmp_path / "study.npz")
    assert not (tmp_path / "study.npz").exists()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"targets": [bl.in_segment("IT", "A")]}, "There is no segment 'IT'; the segments are 'DE', 'FR'"),
        ({"targets": [bl.in_segment("DE", "C")]}, "There is no arm 'C'"),
        ({"targets": [{"DE": "B"}]}, "has nothing for segment 'FR'"),
        ({"as_published": True}, "`as_published` is for bandits without segments"),
        ({"intervals": ["wilson"]}, "needs outcomes that are 0 or 1"),
    ],
)
def test_what_cannot_be_studied_is_refused_before_anything_runs(options, sentence):
    with pytest.raises(bl.BelatedError) as caught:
        bl.study(TRAP, GREEDY, 10**6, 1000, **options)
    assert sentence in str(caught.value)
    with pytest.raises(bl.OptionError, match="the bandit has no segments"):
        bl.study(TRAP.segments["DE"], GREEDY, 100, 10, targets=[bl.in_segment("DE", "A")])


# ---------------------------------------------------------------- events

SHOP = bl.Bandit(
    {"A": bl.arms.events(0.10), "B": bl.arms.events(0.15)},
    {"A": bl.delays.geometric(40), "B": bl.delays.geometric(120)},
    window=250,
)
SPENT = bl.Bandit({k: bl.arms.events(0.3, bl.arms.exponential()) for k in "AB"}, SHOP.delays, window=250)
BY_SEGMENT = bl.ContextualBandit(
    {
        "DE": SHOP,
        "FR": bl.Bandit({"A": bl.arms.events(0.2), "B": bl.arms.events(0.1)}, bl.delays.geometric(30), window=250),
    }
)
EXPLORING = bl.policies.epsilon_greedy(c=0.3, decay=0.0, burn_in=50).batched(25)
THOMPSON = bl.policies.thompson_beta(c=0.1, decay=0.0, burn_in=50).batched(25)


@pytest.mark.parametrize("bandit", [SHOP, SPENT, BY_SEGMENT], ids=["indicator", "sum", "segments"])
@pytest.mark.parametrize("maturing", [True, False])
def test_answers_to_events_are_those_of_estimate(bandit, maturing):
    names = ("dipw", "mean") if maturing else ("dipw", "daipw")
    options = {"estimators": names, "intervals": ["auto"], "level": 0.9, "seed": 3, "wait": 30, "maturing": maturing}
    study = bl.study(bandit, EXPLORING, 400, 4, targets=["A", ("B", "A")], **options)
    for run in range(4):
        log = bl.simulate(bandit, EXPLORING, 400, 3, run).at(430)
        log = log if maturing else log.closed()
        for name in names:
            est = bl.estimate(log, name, level=0.9)
            for target, answer in (("A", est.arm("A")), (("B", "A"), est.contrast("B", "A"))):
                cell = study.cell(name, target)
                ours = [cell.error[run] + cell.truth, cell.std_error[run], cell.low[run], cell.high[run]]
                theirs = [answer.estimate, answer.std_error, answer.low, answer.high]
                np.testing.assert_allclose(ours, theirs, rtol=1e-9, err_msg=f"{name} {target} {run}")


@pytest.mark.parametrize("policy", [EXPLORING, THOMPSON, THOMPSON.matured()], ids=["greedy", "thompson", "matured"])
def test_intervals_of_maturing_events_cover_and_are_narrower_than_those_of_closed_windows(policy):
    options = {"estimators": ["dipw"], "intervals": ["auto"], "seed": 5}
    matured = bl.study(SHOP, policy, 350, 300, **options)
    closed = bl.study(SHOP, policy, 350, 60, maturing=False, **options)
    for cell in matured.cells:
        assert stats.binomtest(round(300 * cell.coverage), 300, 0.95, alternative="less").pvalue > 0.01
        assert abs(cell.bias) < 4 * cell.bias_error
    assert matured.cell("dipw", ("B", "A")).length < 0.8 * closed.cell("dipw", ("B", "A")).length
    assert "closed windows only" in str(closed).splitlines()[0]
    assert "closed windows only" not in str(matured)


def test_before_any_window_has_closed_there_is_no_answer():
    for maturing in (True, False):
        study = bl.study(SHOP, EXPLORING, [200, 300], 4, estimators=["dipw"], maturing=maturing)
        assert [study.cell("dipw", "A", horizon=h).missing for h in (200, 300)] == [4, 0]


def test_what_events_cannot_be_studied_with_is_refused(tmp_path):
    assert bl.study(SHOP, EXPLORING, 300, 2).estimators == ("dipw", "mean", "hajek")
    for options, sentence in (
        ({"estimators": ["daipw"]}, "While windows are open, events are estimated by"),
        ({"intervals": ["wilson"]}, "Windows are open, and `intervals` contains 'wilson', which needs outcomes"),
        ({"as_published": True}, "`as_published` is for bandits without segments and events"),
    ):
        with pytest.raises(bl.OptionError) as caught:
            bl.study(SHOP, EXPLORING, 300, 2, **options)
        assert sentence in str(caught.value)
    study = bl.study(SHOP, EXPLORING, 300, 2, maturing=False, intervals=["wilson"], estimators=["daipw"])
    with pytest.raises(bl.OptionError, match="A study of a bandit with segments or events cannot be saved"):
        study.save(tmp_path / "study")
