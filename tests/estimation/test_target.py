from __future__ import annotations

import numpy as np
import pytest

import belated as bl
from belated.estimation.target import (
    MANY_ARMS,
    Target,
    default_pairs,
    find_arm,
    read_arm_or_contrast,
    read_contrast,
    read_policy,
    read_target,
    shown_baseline,
)

FORMS = "it must be an arm, a pair of arms such as ('B', 'A'), or a mapping from arms to numbers"
ARMS = ("A", "B", 3, ("A", "B"))


@pytest.mark.parametrize(
    ("given", "name", "coefficients"),
    [
        ("B", "B", [0, 1, 0, 0]),
        (np.int64(3), "3", [0, 0, 1, 0]),
        (("B", "A"), "B - A", [-1, 1, 0, 0]),
        (["B", 3], "B - 3", [0, 1, -1, 0]),
        (("A", "B"), "('A', 'B')", [0, 0, 0, 1]),  # an arm's own label comes first
        ({"A": 0.2, 3: 0.8}, "+0.2 A +0.8 3", [0.2, 0, 0.8, 0]),
        ({"A": 2, "B": -1.5}, "+2 A -1.5 B", [2, -1.5, 0, 0]),
        ({"A": 1, "B": 0}, "+1 A", [1, 0, 0, 0]),
    ],
)
def test_what_users_give(given, name, coefficients):
    target = read_target(ARMS, given)
    assert target.name == name
    np.testing.assert_array_equal(target.coefficients, coefficients)
    assert read_target(ARMS, target) is target


def test_names_that_would_not_be_seen_have_quotes():
    arms = ("", "A ", "B")
    assert [read_target(arms, arm).name for arm in arms] == ["''", "'A '", "B"]
    log = bl.Log(["", "A "] * 20, np.arange(40.0) % 3, np.full((40, 2), 0.5))
    est = bl.estimate(log)
    assert repr(est.arm("")).startswith("'': 95%")
    assert est.best().answer.name in ("greedy: ''", "greedy: 'A '")
    assert [answer.name for answer in est.contrasts("best").answers] == ["'' - best other", "'A ' - best other"]


def test_policies_and_their_names():
    target = Target.policy(("A", "B", "C"), {"A": 0.25, "B": 0.75, "C": 0})
    assert target.name == "0.25 A + 0.75 B"
    np.testing.assert_array_equal(target.coefficients, [0.25, 0.75, 0])
    for shares in ({"A": 0.5}, {"A": 1.5, "B": -0.5}):
        with pytest.raises(bl.OptionError, match="must not be negative and must sum to 1"):
            Target.policy(("A", "B"), shares)


def test_targets_are_values():
    first, second = Target.contrast(("A", "B"), "B", "A"), Target.contrast(("A", "B"), "B", "A")
    assert first == second
    assert hash(first) == hash(second)
    assert first != Target.contrast(("A", "B"), "A", "B")
    assert first != "B - A"
    assert len({first, second, Target.arm(("A", "B"), "A")}) == 2
    with pytest.raises(ValueError, match="read-only"):
        first.coefficients[0] = 5.0


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("Z", "There is no arm 'Z'; the arms are 'A', 'B', 3, ('A', 'B')."),
        (("A", "A"), "A contrast needs two different arms; both are 'A'."),
        (("A", "B", 3), f"`contrast` is ('A', 'B', 3), which is not a pair of arms; {FORMS}."),
        ({"A": "x"}, "`contrast['A']` is 'x'; it must be a finite number."),
        ({"Z": 1}, "There is no arm 'Z'; the arms are 'A', 'B', 3, ('A', 'B')."),
        ({"A": 0}, "`contrast` is {'A': 0}; at least one coefficient must differ from 0."),
        ({1, 2}, f"`contrast` is {{1, 2}}; {FORMS}."),
    ],
)
def test_what_is_no_target_is_said_in_the_users_words(given, sentence):
    with pytest.raises(bl.BelatedError) as caught:
        read_target(ARMS, given, option="contrast")
    assert str(caught.value) == sentence


def test_arms_as_text():
    assert find_arm(("A", 3), "3") == 3
    with pytest.raises(bl.UnknownArmError, match=r"There is no arm 'B'; the arms are 'A', '3'\."):
        find_arm(("A", 3), "B")


def test_a_contrast_is_called_what_the_option_is_called():
    with pytest.raises(bl.OptionError, match=r"`target` is 'B'; it must be two arms, such as B-A\."):
        read_contrast(("A", "B"), "B", option="target")
    with pytest.raises(bl.OptionError, match="can be read in 2 ways"):
        read_contrast(("A", "A-B", "B", "B-B"), "A-B-B")


@pytest.mark.parametrize(
    ("text", "pair"), [("B-A", ("B", "A")), ("B - A", ("B", "A")), ("x-1-B", ("x-1", "B")), ("1-2", (1, 2))]
)
def test_contrasts_as_text(text, pair):
    assert read_contrast(("A", "B", "x-1", 1, 2), text) == pair


def test_an_arm_as_text_comes_before_a_contrast():
    arms = ("A", "B", "B-A", 3)
    assert read_arm_or_contrast(arms, "B-A") == "B-A"
    assert read_arm_or_contrast(arms, "3") == 3
    assert read_arm_or_contrast(arms, "B - 3") == ("B", 3)
    with pytest.raises(bl.OptionError) as caught:
        read_arm_or_contrast(tuple(range(12)), "Z")
    first = ", ".join(f"'{arm}'" for arm in range(10))
    assert str(caught.value) == f"`target` is 'Z'; it must be two arms, such as B-A, or one of {first}."
    with pytest.raises(bl.UnknownArmError, match="There is no arm 'Z'"):
        read_arm_or_contrast(arms, "Z-B")
    with pytest.raises(bl.OptionError, match="`target` is 'B-B'; a contrast needs two different arms"):
        read_arm_or_contrast(arms, "B-B")


@pytest.mark.parametrize("text", ["B", "B-Z", "Z-B", "B-B", ""])
def test_contrasts_that_cannot_be(text):
    with pytest.raises(bl.BelatedError):
        read_contrast(("A", "B"), text)


def test_policies_as_text():
    assert read_policy(("A", "B,C=1", 3), "A=0.2,B,C=1=0.3,3=.5") == {"A": 0.2, "B,C=1": 0.3, 3: 0.5}
    for text in ("", "A", "A=x", "Z=1"):
        with pytest.raises(bl.BelatedError):
            read_policy(("A", "B"), text)


def test_without_a_baseline_all_pairs_the_later_arm_first():
    assert default_pairs("ABC") == [("B", "A"), ("C", "A"), ("C", "B")]


def test_with_a_baseline_every_other_arm():
    assert default_pairs("ABC", "B") == [("A", "B"), ("C", "B")]


def test_arms_may_be_numbers_and_the_first_of_them_a_baseline():
    assert default_pairs(range(3), 0) == [(1, 0), (2, 0)]
    assert default_pairs(range(3)) == [(1, 0), (2, 0), (2, 1)]


@pytest.mark.parametrize("baseline", [None, "A"])
def test_one_arm_makes_no_pair(baseline):
    assert default_pairs(["A"], baseline) == []


@pytest.mark.parametrize("baseline", [None, "A", "B"])
def test_estimates_and_sequences_make_the_same_pairs(baseline):
    log = bl.Log(list("ABC") * 20, [float(i % 7) for i in range(60)], [1 / 3] * 60)
    names = [f"{arm} - {other}" for arm, other in default_pairs(log.arms, baseline)]
    assert [answer.name for answer in bl.estimate(log, "dipw").contrasts(baseline).answers] == names
    assert [answer.name for answer in bl.sequence(log).contrasts(baseline).answers] == names


def test_the_name_of_a_combination_of_many_arms_is_short():
    arms = tuple(f"an_arm_with_a_rather_long_name_{k}" for k in range(34))
    policy = Target.policy(arms, {arm: 0.5 if k == 7 else 0.5 / 33 for k, arm in enumerate(arms)})
    assert len(policy.name) < 110
    assert "0.5 …a_rather_long_name_7" in policy.name
    assert policy.name.endswith(" + 31 others")
    linear = Target.linear(arms, {arm: (-1) ** k for k, arm in enumerate(arms)})
    assert len(linear.name) < 110
    assert linear.name.endswith(" + 31 others")
    assert Target.policy(("A", "B"), {"A": 0.25, "B": 0.75}).name == "0.25 A + 0.75 B"


def test_an_average_of_shares_is_in_percent_and_other_combinations_are_in_points():
    arms = ("A", "B")
    assert Target.arm(arms, "A").unit("percent") == "percent"
    assert Target.policy(arms, {"A": 0.25, "B": 0.75}).unit("percent") == "percent"
    assert Target.contrast(arms, "A", "B").unit("percent") == "points"
    assert Target.linear(arms, {"A": 1, "B": 1}).unit("percent") == "points"
    assert Target.contrast(arms, "A", "B").unit("number") == "number"


def test_spaces_around_names_may_be_part_of_them():
    assert read_contrast(("A", "A "), "A - A ") == ("A", "A ")
    assert read_contrast((" A", "B"), "B- A") == ("B", " A")
    assert read_contrast(("A", "B"), " A  -  B ") == ("A", "B")


def test_many_arms_are_compared_with_the_first_where_no_baseline_is_named():
    assert shown_baseline(range(MANY_ARMS)) is None
    assert shown_baseline(range(MANY_ARMS + 1)) == 0
    assert shown_baseline(range(MANY_ARMS + 1), 3) == 3
