from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from kinds_of_columns import table

from belated.base.errors import LogError, OptionError
from belated.reading.guessing import find, key_pair, propensity_option
from belated.reading.roles import Propensity, Roles, wide


def played(roles: Roles) -> dict[str, str]:
    """Return what plays a role, the propensities aside."""
    names = ("arm", "outcome", "assigned_at", "arrived_at", "delay", "key", "outcome_key")
    return {name: getattr(roles, name) for name in names if getattr(roles, name) is not None}


ONE_TABLE = {
    "belated simulate": (
        table(i="step arrived", s="arm", n="p_A p_B outcome"),
        {"arm": "arm", "outcome": "outcome", "assigned_at": "step", "arrived_at": "arrived"},
        ("wide", "p_A", "p_B"),
    ),
    "Open Bandit": (
        table(
            t="timestamp", i="item_id position click", n="propensity_score user-item_affinity_0 user-item_affinity_1"
        ),
        {"arm": "item_id", "outcome": "click", "assigned_at": "timestamp"},
        ("chosen", "propensity_score"),
    ),
    "obp": (
        table(i="round action", n="reward pscore", list="action_dist"),
        {"arm": "action", "outcome": "reward", "assigned_at": "round"},
        ("column", "action_dist"),
    ),
    "Vowpal Wabbit": (
        table(n="_label_cost _label_probability", i="_label_Action", list="a p", s="EventId", t="Timestamp"),
        {"arm": "_label_Action", "outcome": "_label_cost", "assigned_at": "Timestamp"},
        ("chosen", "_label_probability"),
    ),
    "contextual bandit": (
        table(s="chosen_action context", n="action_prob reward", t="decision_time reward_time"),
        {"arm": "chosen_action", "outcome": "reward", "assigned_at": "decision_time", "arrived_at": "reward_time"},
        ("chosen", "action_prob"),
    ),
    "email": (
        table(s="customer_id subject_line country", t="sent_at purchased_at", n="order_value prob_A prob_B age"),
        {"arm": "subject_line", "outcome": "order_value", "assigned_at": "sent_at", "arrived_at": "purchased_at"},
        ("wide", "prob_A", "prob_B"),
    ),
    "email, several arrivals": (
        table(s="Template", b="clicked", n="A_prob B_prob")
        | dict.fromkeys(["Sent At", "Opened At", "Clicked At"], "time"),
        {"arm": "Template", "outcome": "clicked", "assigned_at": "Sent At", "arrived_at": "Clicked At"},
        ("wide", "A_prob", "B_prob"),
    ),
    "GrowthBook": (
        table(
            s="userId experimentId variationId", t="timestamp conversionTime", b="isConverted", struct="propensities"
        ),
        {"arm": "variationId", "outcome": "isConverted", "assigned_at": "timestamp", "arrived_at": "conversionTime"},
        ("column", "propensities"),
    ),
    "Statsig": (
        table(s="unit_id group_name", t="first_exposure", n="total_revenue probability", i="days_to_conversion"),
        {
            "arm": "group_name",
            "outcome": "total_revenue",
            "assigned_at": "first_exposure",
            "delay": "days_to_conversion",
        },
        ("chosen", "probability"),
    ),
    "clinical": (
        table(i="patient_id age", s="arm site", t="randomized_at followup", n="response propensity.A propensity.B"),
        {"arm": "arm", "outcome": "response", "assigned_at": "randomized_at", "arrived_at": "followup"},
        ("wide", "propensity.A", "propensity.B"),
    ),
    "dates as text, arrivals all missing": (
        table(s="treatment sent_date", o="responded_at", n="pi_A pi_B", b="responded"),
        {"arm": "treatment", "outcome": "responded", "assigned_at": "sent_date", "arrived_at": "responded_at"},
        ("wide", "pi_A", "pi_B"),
    ),
    "two clocks": (
        table(i="step arrived delay", t="timestamp", s="arm", n="outcome p_A p_B"),
        {"arm": "arm", "outcome": "outcome", "assigned_at": "step", "arrived_at": "arrived"},
        ("wide", "p_A", "p_B"),
    ),
    "a delay on its own clock": (
        table(i="step delay", t="timestamp", s="arm", n="outcome", json="probs"),
        {"arm": "arm", "outcome": "outcome", "assigned_at": "step", "delay": "delay"},
        ("column", "probs"),
    ),
    "a delay of a calendar": (
        table(d="conversion_delay", t="assigned_at", b="treated", n="outcome", map="assignment_probabilities"),
        {"arm": "treated", "outcome": "outcome", "assigned_at": "assigned_at", "delay": "conversion_delay"},
        ("column", "assignment_probabilities"),
    ),
    "JSON as text": (
        table(s="variant action_probs", n="reward"),
        {"arm": "variant", "outcome": "reward"},
        ("column", "action_probs"),
    ),
    "fractions for arms": (table(n="arm reward p"), {"arm": "arm", "outcome": "reward"}, ("chosen", "p")),
    "names nobody would guess": (
        table(s="variant", n="reward Blend_A Blend_B"),
        {"arm": "variant", "outcome": "reward"},
        ("wide", "Blend_A", "Blend_B"),
    ),
}


@pytest.mark.parametrize("name", ONE_TABLE)
def test_one_table(name):
    kinds, expected, (kind, *columns) = ONE_TABLE[name]
    roles = find(kinds).settled([0, 1] if "Open" in name else ["A", "B"])
    assert played(roles) == expected
    assert (roles.propensity.kind, list(roles.propensity.columns)) == (kind, columns)
    assert set(roles.guessed) == set(expected) | {"propensity"}


TWO_TABLES = {
    "email": (
        table(i="customer_id", s="variant", t="sent_at", n="p_A p_B"),
        table(i="customer_id", t="purchased_at", n="revenue"),
        {"assigned_at": "sent_at", "arrived_at": "purchased_at", "outcome": "revenue", "key": "customer_id"},
    ),
    "Segment": (
        table(s="id user_id experiment_id variant", t="timestamp received_at", n="p_A p_B"),
        table(s="id user_id experiment_id variant", t="timestamp received_at sent_at", n="value"),
        {"assigned_at": "timestamp", "arrived_at": "timestamp", "outcome": "value", "key": "user_id"},
    ),
    "written in two ways": (
        table(s="userId Variant", t="exposureTime", n="p_A p_B"),
        table(s="user_id", t="event_time", n="amount"),
        {"assigned_at": "exposureTime", "arrived_at": "event_time", "outcome": "amount", "key": "userId"},
    ),
    "VW": (
        table(s="EventId variant", n="p_A p_B"),
        table(s="EventId", n="reward"),
        {"outcome": "reward", "key": "EventId"},
    ),
    "a plain id": (
        table(i="id", s="variant", n="p_A p_B"),
        table(i="id delay", n="y"),
        {"key": "id", "delay": "delay"},
    ),
    "only one name in common": (
        table(s="phone variant", n="p_A p_B"),
        table(s="phone", n="y"),
        {"key": "phone"},
    ),
    "the decision before the customer": (
        table(s="decision_id customer_id variant", n="p_A p_B"),
        table(s="decision_id customer_id", n="y"),
        {"key": "decision_id"},
    ),
}


@pytest.mark.parametrize("name", TWO_TABLES)
def test_two_tables(name):
    first, second, expected = TWO_TABLES[name]
    roles = find(first, second).settled(["A", "B"])
    assert expected.items() <= played(roles).items()
    assert roles.outcome_key in second
    assert roles.propensity.columns == ("p_A", "p_B")
    assert roles.second == "outcomes"


def test_events_need_no_outcome():
    first = table(s="user_id variant", n="p_A p_B", t="sent_at")
    roles = find(first, table(s="user_id event", t="ts"), {"events": True})
    assert (roles.outcome, roles.arrived_at) == (None, "ts")
    assert "outcome = each row (from events)" in roles.line()
    with pytest.raises(LogError, match=r"No column in the outcomes is named like an outcome; .* 'user_id', 'event'"):
        find(first, table(s="user_id event", t="ts"))
    both = table(s="user_id", t="ts", n="revenue")
    assert find(first, both, {"events": True}).outcome == "revenue"
    assert find(first, both, {"events": True, "outcome": ""}).outcome is None


def test_options_win_over_guesses():
    kinds = table(s="arm variant", n="outcome revenue p_A p_B q_A q_B", t="sent_at opened_at clicked_at")
    given = {"arm": "variant", "outcome": "revenue", "propensity": "q_*", "arrived_at": "opened_at"}
    roles = find(kinds, None, given).settled(["A", "B"])
    assert played(roles) == {
        "arm": "variant",
        "outcome": "revenue",
        "assigned_at": "sent_at",
        "arrived_at": "opened_at",
    }
    assert roles.propensity.columns == ("q_A", "q_B")
    assert roles.guessed == ("assigned_at",)
    assert find(kinds, None, {"arrived_at": "", "assigned_at": ""}).arrived_at is None
    assert find(kinds, None, {"delay": "p_A"}).arrived_at is None


def test_a_named_time_decides_the_clock():
    kinds = table(s="arm", n="outcome p", t="sent_at clicked_at", i="step arrived")
    assert played(find(kinds, None, {"assigned_at": "step"}))["arrived_at"] == "arrived"
    assert played(find(kinds, None, {"arrived_at": "clicked_at"}))["assigned_at"] == "sent_at"
    mixed = find(kinds, None, {"arrived_at": "clicked_at", "assigned_at": "step"})
    assert (mixed.assigned_at, mixed.arrived_at) == ("step", "clicked_at")


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        (table(s="variant treatment", n="y p"), "'variant', 'treatment' could each be `arm`; choose one with `arm`"),
        (table(s="arm", n="revenue p", b="converted"), "'revenue', 'converted' could each be `outcome`"),
        (
            table(s="arm", n="y p", t="sent_at opened_at clicked_at"),
            "'opened_at', 'clicked_at' could each be `arrived_at`",
        ),
        (table(s="arm", n="y propensity pscore"), "'propensity', 'pscore' could each be `propensity`"),
        (table(s="arm Arm", n="y p"), "'arm', 'Arm' could each be `arm`"),
        (
            table(t="arm", n="y p"),
            "'arm' is named like an arm, but is of kind time, which it cannot be; name another column with `arm`",
        ),
        (
            table(s="arm outcome", n="p"),
            "Column 'outcome' is named like an outcome, but is of kind text, which it cannot be; "
            "write numbers or, in a CSV file, true/false, t/f, yes/no or y/n",
        ),
        (
            table(n="y p treatment"),
            "Column 'treatment' is named like an arm, but is of kind number, which is not guessed; if it is the arm, "
            "use `arm='treatment'`; if not, name another column with `arm`",
        ),
        (
            table(s="age_group product_variant", n="y p"),
            "No column is named like an arm; .* the columns are 'age_group'",
        ),
        ({}, "No column is named like an arm"),
    ],
)
def test_what_cannot_be_guessed_is_asked(kinds, message):
    with pytest.raises(LogError, match=message):
        find(kinds)


def test_names_that_only_look_the_part():
    kinds = table(s="arm", n="outcome p_value purchase_probability churn_propensity response_time latency", i="age")
    roles = find(kinds)
    assert played(roles) == {"arm": "arm", "outcome": "outcome"}
    assert roles.propensity.kind == "guess"
    with pytest.raises(LogError, match=r"of the arms 'A', 'B'; name.*'p_value', 'purchase_probability'"):
        roles.settled(["A", "B"])


def test_propensities_that_are_text_are_named():
    roles = find(table(s="arm p_A p_B note", n="outcome"))
    with pytest.raises(LogError, match=r"Columns 'p_A', 'p_B' are named like .* but are of kind text"):
        roles.settled(["A", "B"])
    with pytest.raises(LogError, match="No columns are named like the propensities of the arms 'A', 'C'; name them"):
        roles.settled(["A", "C"])


def test_given_names_must_exist_and_fit():
    kinds = table(s="Variant note", n="revenue p", t="sent_at")
    with pytest.raises(
        LogError, match=r"There is no column 'variant' for `arm`; .*\. Did you mean 'Variant'\?"
    ) as error:
        find(kinds, None, {"arm": "variant"})
    assert error.value.column == "arm"
    with pytest.raises(
        LogError, match="'note' for `outcome` is of kind text; it must be one of integer, number, boolean"
    ):
        find(kinds, None, {"outcome": "note"})
    with pytest.raises(LogError, match="'sent_at' for `arm` is of kind time"):
        find(kinds, None, {"arm": "sent_at"})
    with pytest.raises(LogError, match="'note' for `propensity` is of kind text; it must be one of integer, number"):
        find(kinds, None, {"propensity": {"A": "p", "B": "note"}})
    with pytest.raises(
        LogError, match="'p' is named for both `outcome` and `propensity`; a column can have only one role"
    ):
        find(kinds, None, {"outcome": "p", "propensity": "p"})
    with pytest.raises(OptionError, match="`arrived_at` and `delay` are two forms of the same"):
        find(kinds, None, {"arrived_at": "sent_at", "delay": "p"})
    for strange in (3, ["Variant"], b"Variant"):
        with pytest.raises(OptionError, match=r"`arm` is .*; it must be the name of a column"):
            find(kinds, None, {"arm": strange})
    column = np.array([1, 2])
    for role in ("outcome", "arrived_at", "recorded_at", "arrival_probability", "propensity"):
        with pytest.raises(OptionError, match=f"`{role}` is of type ndarray; it must be the name of a column"):
            find(kinds, None, {role: column if role != "propensity" else [column]})
    with pytest.raises(OptionError, match=r"`key` is .*; it must be the name"):
        find(kinds, None, {"key": column})
    with pytest.raises(LogError, match="no column 'p' for `outcome` in the outcomes"):
        find(kinds, table(n="revenue"), {"outcome": "p", "key": "note"})
    with pytest.raises(LogError, match="is named like an outcome"):
        find(table(s="arm", n="p"), None, {"events": True})
    with pytest.raises(LogError, match="is named like an outcome"):
        find(kinds, None, {"outcome": ""})


def test_keys():
    first, second = table(s="id arm", n="p"), table(s="id assignment_id", n="y")
    with pytest.raises(
        LogError, match=r"No column is clearly the key of both tables.*'id=user_id'.*in the outcomes 'id', 'ass"
    ):
        find(first, second)
    for given in ("id=assignment_id", " id = assignment_id ", ("id", "assignment_id"), ["id", "assignment_id"]):
        roles = find(first, second, {"key": given})
        assert (roles.key, roles.outcome_key) == ("id", "assignment_id")
        assert "key = id = assignment_id" in roles.line()
    assert find(first, second, {"key": "id"}).outcome_key == "id"
    with pytest.raises(LogError, match="no column 'uid' for `key` in the outcomes"):
        find(first, second, {"key": "id=uid"})
    with pytest.raises(OptionError, match="`key` is 3; it must be a name, or a pair"):
        find(first, second, {"key": 3})
    with pytest.raises(LogError, match="'user_id', 'session_id' are in both tables and could each be the key"):
        find(table(s="user_id session_id arm", n="p"), table(s="user_id session_id", n="y"))
    with pytest.raises(LogError, match="'phone', 'post' are in both tables"):
        find(table(s="phone post arm", n="p"), table(s="phone post", n="y"))
    with pytest.raises(
        LogError, match="No column is clearly the key of both tables"
    ):  # a time or an experiment joins nothing
        find(table(s="arm experiment_id", n="p", t="ts"), table(s="experiment_id", n="y", t="ts"))
    assert key_pair("a=b=c", ["a=b"], ["c"]) == ("a=b", "c")
    assert key_pair("a=b", ["a=b"], ["a=b"]) == ("a=b", "a=b")
    assert find(table(s="arm me", n="y p"), None, {"key": "me"}).key == "me"


def test_exact_names_win_over_patterns():
    kinds = table(s="arm", n="y p_A p_B") | {"p_*": "number", "A=p_A": "number", "p,q": "list"}
    assert find(kinds, None, {"propensity": "p_*"}).propensity == Propensity("chosen", ("p_*",))
    assert find(kinds, None, {"propensity": "A=p_A"}).propensity.kind == "chosen"
    assert find(kinds, None, {"propensity": "p,q"}).propensity.kind == "column"
    assert propensity_option('"Hi, Anna=p_A",B=p_B', kinds) == {"Hi, Anna": "p_A", "B": "p_B"}
    assert propensity_option("x=1=p_A", kinds) == {"x=1": "p_A"}
    assert propensity_option("A=1/3,B=2/3", kinds) == {"A": 1 / 3, "B": 2 / 3}
    assert propensity_option("A=20%,B=80%", kinds) == {"A": 0.2, "B": 0.8}
    assert propensity_option("p=*", ["p=A", "p=B"]) == "p=*"
    with pytest.raises(OptionError, match="cannot be read"):
        propensity_option("A=p_A,\n,B", kinds)


HOSTILE = [
    "",
    " ",
    "\n",
    "a\nb",
    "'",
    '"; DROP TABLE',
    "\x00",
    "\x1b[31m",
    "*",
    "{arm} 2",
    "=",
    ",",
    "x" * 10_000,
    "1_" * 5_000,
    *("p_\n", "\ud800", "İ", "ß", "(", "\\", "`", "\u202e", "٣", "²"),
]


def test_hostile_names():
    kinds = table(s="arm", n="y p") | dict(
        zip(HOSTILE, itertools.cycle(["number", "text", "time", "list"]), strict=False)
    )
    assert played(find(kinds, None, {"arrived_at": "", "assigned_at": ""})) == {"arm": "arm", "outcome": "y"}
    for name, role in itertools.product(HOSTILE, ("arm", "outcome", "propensity", "key", "arrived_at")):
        for columns in (kinds, table(s="arm", n="y p")):
            try:
                line = find(columns, None, {role: name}).settled(["A", "1", "\n", ""]).line()
            except (LogError, OptionError) as error:
                line = str(error)
            assert line.isprintable()
            assert len(line) < 3_000
    assert wide(HOSTILE, HOSTILE[1:]) is not None
    assert wide([f"p_{name}" for name in HOSTILE], HOSTILE[1:]).columns["ß"] == "p_ß"


def many(columns: int) -> float:
    kinds = table(s="arm", n="outcome p") | {f"{'feature' * 10}_{i}": "number" for i in range(columns)}
    kinds |= {f"p_arm {i}": "number" for i in range(columns)} | {"1_" * 2_000 + str(i): "number" for i in range(20)}
    start = time.process_time()
    roles = find(kinds).settled([f"arm {i}" for i in range(columns - 1)])
    find(kinds).settled(range(columns))
    with pytest.raises(LogError, match=rf"and {2 * columns + 3:,} more\. Did you mean 'p_arm 17'") as error:
        find(kinds, None, {"arm": "p_arm_17"})
    took = time.process_time() - start
    assert roles.propensity.extra == {f"arm {columns - 1}": f"p_arm {columns - 1}"}
    assert max(len(roles.line()), len(str(error.value))) < 3_000
    return took


def test_many_columns_take_no_longer_than_their_number():
    assert min(many(2_000) for _ in range(2)) < 32 * min(many(250) for _ in range(3))  # 8 times as many


@pytest.mark.parametrize(
    "columns",
    [{"arrived": "boolean"}, {"outcome_observed": "boolean"}, {"is_observed": "integer"}, {"Matured": "number"}],
)
def test_a_flag_that_says_whether_outcomes_have_come_is_asked_about(columns):
    log = table(s="arm", n="outcome p_A p_B", i="step")
    with pytest.raises(LogError, match="seems to say whether an outcome has come, but not when; leave outcomes empty"):
        find({**log, **columns})
    assert find({**log, **columns}, given={"arrived_at": "none"}).arrived_at is None
    assert find({**log, **columns, "arrived_at": "integer"}).arrived_at == "arrived_at"
    assert find({**log, "clicked": "boolean", "returning": "boolean"}).arrived_at is None


def test_clock_times_of_arrival_are_asked_about():
    with pytest.raises(LogError, match="'arrived' is named like `arrived_at`, but is of kind duration"):
        find({**table(s="arm", n="outcome p_A p_B", i="step"), "arrived": "duration"})


def test_a_column_that_has_another_role_is_named_as_such():
    log = table(s="arm", n="outcome p_A p_B", i="step")
    for given, words in (
        ({"segment": "arm"}, "'arm' is named like an arm, but is given for `segment`; name another column with `arm`"),
        ({"covariates": "outcome"}, "'outcome' is named like an outcome, but is given for `covariates`"),
    ):
        with pytest.raises(LogError, match=words):
            find(log, given=given)


def test_one_of_several_columns_of_propensities_is_not_the_chosen_arms():
    log = table(s="arm", n="outcome p_A p_B propensity", i="step")
    with pytest.raises(LogError, match=r"Column 'p_A' .* is one of several, as the table also has 'p_B'; .* 'p_\*'"):
        find(log, given={"propensity": "p_A"}).settled(["A", "B"])
    for column, arms in (("propensity", ["A", "B"]), ("p_A", ["A", "C"]), ("p_A", ["A"])):
        chosen = find(log, given={"propensity": column}).settled(arms).propensity
        assert chosen is not None
        assert (chosen.kind, chosen.columns) == ("chosen", (column,))
