from __future__ import annotations

import pytest
from kinds_of_columns import table

from belated.base.errors import LogError, OptionError
from belated.reading.guessing import find
from belated.reading.roles import Propensity

NUMBERS = table(s="arm", n="y p_A p_B p_C p_value prob_A prob_B")


@pytest.mark.parametrize(
    ("given", "labels", "extra"),
    [
        ("p_*", ("A", "B"), {"C": "p_C", "value": "p_value"}),
        ("p_{arm}", ("A", "B"), {"C": "p_C", "value": "p_value"}),
        ("prob_*", ("A", "B"), {}),
        ("p_A,p_B,p_C", ("A", "B", "C"), {}),
        ("p_B, p_A", ("A", "B"), {}),
        (["p_A", "p_B"], ("A", "B"), {}),
        ("A=p_A,B=p_B", ("A", "B"), {}),
        ("B = p_A, A = p_B", ("A", "B"), {}),
        ("a=p_A,b=p_B,C=p_value", ("A", "B", "C"), {}),
        ({"A": "p_A", "B": "p_B", "C": "p_C"}, ("A", "B", "C"), {}),
    ],
)
def test_propensities_by_option(given, labels, extra):
    found = find(NUMBERS, None, {"propensity": given}).settled(["A", "B"]).propensity
    assert (found.kind, found.labels, found.extra) == ("wide", labels, extra)
    swapped = given == "B = p_A, A = p_B"
    assert found.columns[0] == ("p_B" if swapped else "prob_A" if given == "prob_*" else "p_A")


def test_propensities_that_fit_no_arm():
    for given in ("p_A,prob_B", ["p_A", "p_value"], {"A": "p_A"}, "A=p_A,D=p_B", "p_*", ["p_A", "p_B", "prob_A"]):
        arms = ["A", "B"] if isinstance(given, list) else ["A", "D", "B"]
        with pytest.raises(LogError, match="of `propensity` are not one for each of the arms 'A', "):
            find(NUMBERS, None, {"propensity": given}).settled(arms)
    with pytest.raises(LogError, match=r"No column of numbers fits 'q_\*' for `propensity`"):
        find(NUMBERS, None, {"propensity": "q_*"})
    with pytest.raises(OptionError, match="a pattern must have one"):
        find(NUMBERS, None, {"propensity": "p_*_*"})
    with pytest.raises(LogError, match="Did you mean 'p_A'"):
        find(NUMBERS, None, {"propensity": "A=p_a,B=p_B"})
    with pytest.raises(OptionError, match="has 'A=p_B' in it; each arm needs one part"):
        find(NUMBERS, None, {"propensity": "A=p_A,A=p_B"})
    with pytest.raises(OptionError, match="has 'p_B' in it"):
        find(NUMBERS, None, {"propensity": "A=p_A,p_B"})
    with pytest.raises(OptionError, match="must be the name of a column"):
        find(NUMBERS, None, {"propensity": 7})


def test_every_arm_is_worth_more_than_the_chosen_one():
    kinds = table(s="arm", n="y propensity x_A x_B")
    assert find(kinds).settled(["A", "B"]).propensity == Propensity("chosen", ("propensity",))
    kinds |= table(n="p_A p_B p_C p_value")
    found = find(kinds).settled(["A", "B"]).propensity
    assert (found.columns, found.labels, found.extra) == (("p_A", "p_B"), ("A", "B"), {"C": "p_C"})
    assert find(kinds).settled(["A", "D"]).propensity.kind == "chosen"
    assert find(kinds | {"propensities": "struct"}).propensity == Propensity("column", ("propensities",))


def test_settled_leaves_alone_what_is_settled():
    roles = find(table(s="arm", n="y pscore"), None, {"propensity": "pscore"})
    assert roles.settled(["A"]) is roles


def test_the_guess_is_shown_on_one_line():
    first = table(s="variant customer_id", t="sent_at", n="p_A p_B p_C")
    roles = find(first, table(s="customer_id", t="purchased_at", n="revenue")).settled("ABC")
    assert roles.line(cli=True) == (
        "columns: arm = variant, outcome = revenue (from outcomes), assigned at = sent_at, arrived at = purchased_at, "
        "key = customer_id, propensities = p_A, p_B, p_C (guessed; say otherwise with --arm, --outcome, --assigned-at, "
        "--arrived-at, --key, --propensity)"
    )
    one = find(table(s="variant", n="reward p"), None, {"arm": "variant", "propensity": "p"})
    assert (
        one.line() == "columns: arm = variant, outcome = reward, propensity = p (guessed; say otherwise with `outcome`)"
    )
    every = find(table(s="variant", n="reward p"), None, {"arm": "variant", "propensity": "p", "outcome": "reward"})
    assert every.line() == "columns: arm = variant, outcome = reward, propensity = p"
