import pytest

import belated as bl
from belated.base.errors import OptionError
from belated.simulation.words import policy_from_words


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("uniform", bl.policies.uniform()),
        ("epsilon_greedy,decay=0.3", bl.policies.epsilon_greedy(decay=0.3)),
        ("epsilon_greedy:decay=0.3", bl.policies.epsilon_greedy(decay=0.3)),
        ("ucb: c=0.5, burn_in=100", bl.policies.ucb(c=0.5, burn_in=100)),
        ("ucb,batch=20", bl.policies.ucb().batched(20)),
        ("fixed:A=0.25,B=0.75", bl.policies.fixed({"A": 0.25, "B": 0.75})),
        ("fixed,A:1=0.25,B=0.75", bl.policies.fixed({"A:1": 0.25, "B": 0.75})),
        ('fixed:"A,B=0.25",C=0.75', bl.policies.fixed({"A,B": 0.25, "C": 0.75})),
        ("best:c=2", bl.policies.ucb(c=2)),
    ],
)
def test_a_policy_of_words(text, policy):
    assert policy_from_words(text, {"best": "ucb"}) == policy


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("greedy", "`policy` is 'greedy'; it must be one of 'uniform', 'fixed', 'epsilon_greedy'"),
        ("greedy,x", "`policy` is 'greedy,x'; options must be like c=0.5,burn_in=100."),
        ("ucb:c=\rx", "`policy` has c='\\rx'; it must be a number."),
        ("ucb:c=x", "`policy` has c='x'; it must be a number."),
        ("ucb,cc=1", "`policy` cannot be 'ucb,cc=1': Unknown key `cc`; did you mean `c`?"),
        ("fixed:A=0.5,A=1", "`policy` has 'A' twice; give each option once."),
        ("fixed:A=2", "`policy` cannot be 'fixed:A=2': `shares` is {'A': 2}; its probabilities must not be negative"),
        ("own", "`policy` is a Python function; give it in Python"),
    ],
)
def test_what_is_no_policy_is_said_in_a_sentence(text, words):
    with pytest.raises(OptionError) as refused:
        policy_from_words(text)
    assert str(refused.value).startswith(words)
