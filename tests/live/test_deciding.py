from __future__ import annotations

import threading
from contextvars import ContextVar

import numpy as np
import pytest

import belated as bl
from belated.base.errors import PolicyError
from belated.kernels import bandit
from belated.live import deciding
from belated.live.deciding import answer_of, decide
from belated.live.learning import Knowledge


def test_a_policy_that_never_answers_keeps_the_last_good_version(tmp_path, monkeypatch):
    """Neither asks nor answers wait for it, and it is not called again before it has ended."""
    called, begun, go_on = [], threading.Event(), threading.Event()

    def policy(count, total, step):
        called.append(step)
        if step > 1:
            begun.set()
            go_on.wait(60)
        return [0.25, 0.75]

    with bl.live.open(tmp_path / "shop.belated", ticking=False) as store:
        exp = store.create("x", arms=["A", "B"], policy=bl.policies.own(policy), outcome=bl.live.binary()).start()
        exp.ask("x")
        monkeypatch.setattr(deciding, "SECONDS", 0.3)
        ticking = threading.Thread(target=exp.tick)
        ticking.start()
        assert begun.wait(30)
        assert exp.status().version == 1  # while the policy is waited for
        assert exp.ask("y").probabilities == {"A": 0.25, "B": 0.75}
        ticking.join()
        assert exp.status().problem == "The policy has not returned for 0.3 seconds."
        assert exp.tick().number == 1
        assert called == [1, 2]
        assert "still running" in exp.status().problem
        exp.pause_arm("A")
        assert exp.ask("z").probabilities == {"A": 0.0, "B": 1.0}
        monkeypatch.undo()
        go_on.set()
        deciding._stuck[id(policy)].join()
        exp.resume_arm("A")
        assert exp.status().problem is None
        assert exp.ask("w").probabilities == {"A": 0.25, "B": 0.75}
        assert store.verify().clean


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ([1e308, 1e308], "must be 2 probabilities that sum to 1"),
        (MemoryError(), "The policy failed at step 1: MemoryError."),
    ],
)
def test_what_a_policy_may_not_return_is_a_sentence(said, words):
    def policy(count, total, step):
        if isinstance(said, Exception):
            raise said
        return said

    with pytest.raises(bl.PolicyError, match=words):
        decide(bl.policies.own(policy), "AB", [0, 1], Knowledge(1, (0.0, 0.0), (0.0, 0.0)), 100)


def test_fixed_shares_are_those_among_the_arms_that_are_offered():
    policy, known = bl.policies.fixed({"A": 0.25, "B": 0.25, "C": 0.5, "D": 0.0}), Knowledge(1, (0.0,) * 4, (0.0,) * 4)
    assert decide(policy, "ABCD", [0, 1, 2, 3], known, 100) == [0.25, 0.25, 0.5, 0.0]
    assert decide(policy, "ABCD", [0, 2], known, 100) == pytest.approx([1 / 3, 0.0, 2 / 3, 0.0])
    nothing = bl.policies.fixed({"A": 0.0, "B": 0.0, "C": 1.0})
    with pytest.raises(bl.PolicyError, match="shares of the arms that are offered are all 0"):
        decide(nothing, "ABC", [0, 1], Knowledge(1, (0.0,) * 3, (0.0,) * 3), 100)


@pytest.mark.parametrize("policy", [bl.policies.ucb(), bl.policies.epsilon_greedy(), bl.policies.thompson_normal()])
def test_plans_of_any_size_cost_nothing(policy):
    known = Knowledge(21, (10.0, 10.0), (3.0, 7.0))
    assert decide(policy, "AB", [0, 1], known, 10**15) == decide(policy, "AB", [0, 1], known, 100)


@pytest.mark.parametrize("policy", [bl.policies.epsilon_greedy(), bl.policies.thompson_beta()])
def test_whole_totals_compile_nothing_anew(policy):
    """A request would wait for the compiler."""
    floats, whole = (Knowledge(21, (10.0, 10.0), totals) for totals in ((3.0, 7.0), (3, 7)))
    p = decide(policy, ["A", "B"], [0, 1], floats, 100)
    compiled = len(bandit.decide.signatures)
    assert decide(policy, ["A", "B"], [0, 1], whole, 100) == p
    assert len(bandit.decide.signatures) == compiled


@pytest.mark.parametrize(
    "policy",
    [
        bl.policies.uniform(),
        bl.policies.fixed({"A": 0.2, "B": 0.3, "C": 0.5}),
        bl.policies.epsilon_greedy(c=0.7),
        bl.policies.thompson_beta(c=0.5),
        bl.policies.thompson_normal(),
        bl.policies.ucb(width=2.0),
        bl.policies.own(lambda count, total, t: [0.5, 0.25, 0.25]),
    ],
    ids=repr,
)
def test_every_policy_decides_as_in_a_simulation(policy):
    """The probabilities of a simulated row, from the outcomes that had arrived by then."""
    bandit = bl.Bandit({arm: bl.arms.bernoulli(rate) for arm, rate in {"A": 0.2, "B": 0.5, "C": 0.4}.items()})
    log = bl.simulate(bandit, policy, 300, seed=5)
    for t in (1, 2, 10, 50, 300):
        counts = np.bincount(log.code[: t - 1], minlength=3).astype(float)
        totals = np.bincount(log.code[: t - 1], log.outcome[: t - 1], minlength=3)
        known = Knowledge(t, tuple(counts), tuple(totals))
        assert decide(policy, ["A", "B", "C"], (0, 1, 2), known, 300) == pytest.approx(log.propensity[t - 1], abs=1e-9)


def test_what_a_function_returns_is_returned_and_what_it_raises_is_raised():
    assert answer_of(lambda a, b: [a, b], 1, 2) == [1, 2]
    for error in (ValueError("no"), SystemExit(3), KeyboardInterrupt()):

        def fail(error=error):
            raise error

        with pytest.raises(type(error)) as caught:
            answer_of(fail)
        assert caught.value is error


def test_a_function_sees_the_context_of_its_caller():
    word = ContextVar("word", default="none")
    word.set("mine")
    assert answer_of(word.get) == "mine"


def test_a_function_that_does_not_answer_is_called_again_only_after_it_has_ended(monkeypatch):
    monkeypatch.setattr(deciding, "SECONDS", 0.01)
    go_on, called = threading.Event(), []

    def stuck():
        called.append(1)
        go_on.wait(30)
        return "late"

    with pytest.raises(PolicyError, match=r"has not returned for 0\.01 seconds"):
        answer_of(stuck)
    with pytest.raises(PolicyError, match="is still running"):
        answer_of(stuck)
    monkeypatch.setattr(deciding, "SECONDS", 30)
    assert answer_of(lambda: "another") == "another"  # others are not held up
    go_on.set()
    deciding._stuck[id(stuck)].join()
    assert len(called) == 1
    assert answer_of(stuck) == "late"
    assert id(stuck) not in deciding._stuck
