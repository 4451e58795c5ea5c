from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from drawn import DRAWN, refused, same
from kinds_of_columns import table

import belated as bl
from belated.base.errors import LogError, OptionError
from belated.reading.guessing import find
from belated.reading.roles import Propensity, wide

pytestmark = [
    pytest.mark.usefixtures("empty_folder"),
    pytest.mark.filterwarnings("ignore::belated.BelatedWarning", "ignore::DeprecationWarning"),
]

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
    propensity = find(NUMBERS, None, {"propensity": given}).settled(["A", "B"]).propensity
    assert (propensity.kind, propensity.labels, propensity.extra) == ("wide", labels, extra)
    swapped = given == "B = p_A, A = p_B"
    assert propensity.columns[0] == ("p_B" if swapped else "prob_A" if given == "prob_*" else "p_A")


def test_propensities_that_fit_no_arm():
    for given in ("p_A,prob_B", ["p_A", "p_value"], {"A": "p_A"}, "A=p_A,D=p_B", "p_*", ["p_A", "p_B", "prob_A"]):
        arms = ["A", "B"] if isinstance(given, list) else ["A", "D", "B"]
        with pytest.raises(LogError, match="`propensity` needs one column for each of the arms 'A', "):
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
    propensity = find(kinds).settled(["A", "B"]).propensity
    assert (propensity.columns, propensity.labels, propensity.extra) == (("p_A", "p_B"), ("A", "B"), {"C": "p_C"})
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
        "key = customer_id, propensities = p_A, p_B, p_C (guessed; change with --arm, --outcome, --assigned-at, "
        "--arrived-at, --key, --propensity)"
    )
    one = find(table(s="variant", n="reward p"), None, {"arm": "variant", "propensity": "p"})
    assert one.line() == "columns: arm = variant, outcome = reward, propensity = p (guessed; change with `outcome`)"
    every = find(table(s="variant", n="reward p"), None, {"arm": "variant", "propensity": "p", "outcome": "reward"})
    assert every.line() == "columns: arm = variant, outcome = reward, propensity = p"


@pytest.mark.parametrize(
    ("columns", "arms", "expected", "extra"),
    [
        ("p_1 p_11 p_111", [1, 11], "p_1 p_11", {111: "p_111"}),
        ("p_A p_AA p_B", ["A", "AA"], "p_A p_AA", {"B": "p_B"}),
        ("p_a p_b", ["A", "B"], "p_a p_b", {}),
        ("p_a p_b p_A p_B", ["A", "B"], "p_A p_B", {"a": "p_a", "b": "p_b"}),
        ("P_A P_B P_C", ["a", "b"], "P_A P_B", {"C": "P_C"}),
        ("A_prob B_prob", ["A", "B"], "A_prob B_prob", {}),
        ("p_A_logged p_B_logged", ["A", "B"], "p_A_logged p_B_logged", {}),
        ("probA probB proba", ["A", "B"], "probA probB", {}),
        ("p1 p2 price", [1, 2], "p1 p2", {}),
        ("p_True p_False", [True, False], "p_True p_False", {}),
        ("p_true p_false", [np.True_], "p_true", {False: "p_false"}),
        ("p_0 p_1 p_value", [np.int64(0), np.int64(1)], "p_0 p_1", {}),
        ("p_0 p_1", [0.0, 1.0], "p_0 p_1", {}),
        (
            "p_free_shipping p_ten_percent_off",
            ["Free Shipping", "ten-percent off"],
            "p_free_shipping p_ten_percent_off",
            {},
        ),
        ("p_0.5 p_1.5 p_2.5", [0.5, 1.5], "p_0.5 p_1.5", {"2.5": "p_2.5"}),
        ("p_0.5 p_1.0 p_2.0", [0.5, 1.0], "p_0.5 p_1.0", {"2.0": "p_2.0"}),
        ("A B other", ["A", "B"], "A B", {}),
        ("score_A score_B x_A x_B", ["A", "B"], "score_A score_B", {}),
        ("p_A p_B revenue_A revenue_B prob_sale_A prob_sale_B", ["A", "B"], "p_A p_B", {}),
        ("p_A", ["A"], "p_A", {}),
    ],
)
def test_wide(columns, arms, expected, extra):
    assert wide(columns.split(), arms) == (dict(zip(arms, expected.split(), strict=True)), extra)


@pytest.mark.parametrize(
    ("columns", "arms"),
    [("p_A", ["A", "B"]), ("p_A B_p", ["A", "B"]), ("pa pb", ["a", "b"]), ("x_A", ["A"]), ("", ["A"]), ("p_A p_B", [])],
)
def test_not_wide(columns, arms):
    assert wide(columns.split(), arms) is None


def test_two_sets_of_columns_compete():
    with pytest.raises(LogError, match=r"Columns 'p_\*', 'prob_\*' could each be the propensities; choose with"):
        wide(["p_A", "p_B", "prob_A", "prob_B"], ["A", "B"])
    with pytest.raises(LogError, match=r"'x_\*', 'y_\*' could each"):
        wide(["x_A", "x_B", "y_A", "y_B"], ["A", "B"])
    assert wide(["x_A", "x_B", "y_A", "y_B"], ["A", "B"], sure=True) is None


def test_lists_of_propensities():
    def lists(change=lambda p: p):
        rows = [change(p) if i == 7 else p for i, p in enumerate(DRAWN.p.tolist())]
        return DRAWN.wide().drop(["p_A", "p_B"]).append_column("propensities", pa.array(rows, pa.list_(pa.float64())))

    same(bl.read(lists()))
    for change in (lambda p: p[:1], lambda p: None, lambda p: [None, p[1]], lambda p: [], lambda p: [np.nan, p[1]]):
        refused("`propensity` in row 7 for arm 'A' is nan", lists(change))
    refused("3 columns but `arm` has 2", lists(lambda p: [*p, 0.0]))
    refused("must sum to 1", lists(lambda p: [0.5, 0.6]))
    refused("must lie in", lists(lambda p: [-0.5, 1.5]))
    refused("gives the chosen arm", lists(lambda p: [float(DRAWN.code[7] != 0), float(DRAWN.code[7] != 1)]))


def test_an_arm_that_first_appears_after_hundreds_of_rows_is_found():
    documents = ['{"A": 0.5, "B": 0.5}'] * 500 + ['{"A": 0.4, "B": 0.4, "C": 0.2}'] * 400
    table = pa.table({"arm": ["A", "B"] * 450, "propensity": documents, "outcome": [1.0, 2.0] * 450})
    assert bl.read(table, propensity="propensity").arms == ("A", "B", "C")


@pytest.mark.parametrize("form", ["frame", "csv"])
@pytest.mark.parametrize("whole", ["1", "1.0"])
def test_whole_numbers_in_names_are_those_of_arms_with_and_without_a_point(form, whole):
    arms, names = (1.0, 1.5), (f"p_{whole}", "p_1.5")
    given = DRAWN.table({"p0": names[0], "p1": names[1]}, arm=pa.array([arms[k] for k in DRAWN.code]))
    if form == "csv":
        given.to_pandas().to_csv("arms.csv", index=False)
    source = given if form == "frame" else "arms.csv"
    for propensity in (None, "p_*", names, dict(zip((whole, "1.5"), names, strict=True))):
        read = bl.read(source, propensity=propensity)
        assert read.arms == arms
        assert bl.estimate(read).values == pytest.approx(DRAWN.answers.values, rel=1e-9)
    refused("is one of several, as the table also has", source, propensity="p_1.5")


MAPS_OF_NUMBERS = pa.map_(pa.int8(), pa.float64())


@pytest.mark.parametrize(
    ("arms", "propensity", "expected"),
    [
        ([0, 1], pa.array([[(2, 0.2), (0, 0.5), (1, 0.3)]] * 12, MAPS_OF_NUMBERS), (0, 1, 2)),
        ([0, 1], pa.array(['{"2": 0.2, "0": 0.5, "1": 0.3}'] * 12), (0, 1, 2)),
        ([0, 10], pa.array(['{"": 0.2, "10": 0.3, "0": 0.5}'] * 12), (0, 10, "")),
        ([0.0, 1.0], pa.array(['{"0": 0.5, "1": 0.5}'] * 12), (0.0, 1.0)),
        ([False, True], pa.array(['{"true": 0.5, "false": 0.5}'] * 12), (False, True)),
        ([True, True], pa.array([{"true": 0.5, "false": 0.5}] * 12), (False, True)),
        ([True, False], pa.array([[(True, 0.5), (False, 0.5)]] * 12, pa.map_(pa.bool_(), pa.float64())), (False, True)),
        (["true", "True"], pa.array(['{"true": 0.5, "True": 0.5}'] * 12), ("True", "true")),
    ],
)
def test_names_of_propensities_are_those_of_numbers_and_truths(arms, propensity, expected):
    table = pa.table({"arm": arms * 6, "outcome": [1.0] * 12, "p": propensity})
    source = bl.read(table, propensity="p", arrived_at="none")
    assert source.arms == expected
    assert [type(arm) for arm in source.arms] == [type(arm) for arm in expected]
    by_arm = {"0": 0.5, "1": 0.3, "10": 0.3, "2": 0.2, "": 0.2} if 0.2 in source.log().propensity else {}
    for arm, p in zip(source.arms, source.log().propensity[0], strict=True):
        assert p == by_arm.get(str(arm), 0.5)
