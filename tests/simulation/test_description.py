from __future__ import annotations

import inspect
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from belated.base.errors import OptionError
from belated.simulation import arms, delays, policies
from belated.simulation.bandits import Bandit
from belated.simulation.constructors import CONSTRUCTORS
from belated.simulation.contextual import ContextualBandit
from belated.simulation.delays import Delay
from belated.simulation.description import (
    Description,
    bandit_from,
    bandit_to,
    description_from,
    policy_from,
    policy_to,
    read,
)
from belated.simulation.views import View, in_segment

EXAMPLE = """
seed = 1
horizons = [5_000, 20_000]
replications = 1_000
estimators = ["daipw", "hajek"]
intervals = ["normal", "t"]
level = 0.95
targets = ["A", ["A", "B"], {A = 0.2, B = 0.8}]    # an arm, a contrast, a linear combination

[policy]
name = "epsilon_greedy"
decay = 0.5
burn_in = 0.1
batch = 1

[arms.A]
outcome = { name = "normal", mean = 1.0 }
delay = { name = "pareto", shape = 0.75, never = 0.5 }
[arms.B]
outcome = { name = "normal", mean = 0.5 }
"""

REAL = st.floats(-10, 10) | st.integers(-10, 10)
ABOVE_0 = st.floats(0.01, 5) | st.integers(1, 5)
SHARE = st.floats(0.01, 0.99)
LABELS = st.text(max_size=3) | st.integers(-3, 3) | st.booleans() | st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def shares(draw):
    weights = draw(st.dictionaries(LABELS, st.integers(1, 9), min_size=1, max_size=4))
    return {label: weight / sum(weights.values()) for label, weight in weights.items()}


#: Options by name: every constructor of a module is drawn, those added later too.
COMMON = {"location": REAL, "rate": SHARE, "decay": SHARE, "burn_in": SHARE | st.integers(0, 50), "shares": shares()}


SAMPLES = {
    "arms": st.lists(st.floats(-9, 9), min_size=1, max_size=5),
    "delays": st.lists(st.integers(0, 9) | st.just(math.inf), min_size=1, max_size=5),
}


def any_of(module):
    kind = module.__name__.rpartition(".")[2]
    special = COMMON | {"values": SAMPLES.get(kind), "function": st.just(lambda count, total, t: [0.5, 0.5])}
    special |= {"mean": REAL} if kind == "arms" else {"steps": st.integers(0, 50)}

    def one(name, make):
        names = inspect.signature(make).parameters
        mean = {"mean": ABOVE_0} if name == "exponential" else {}
        return st.builds(make, **{each: (special | mean).get(each, ABOVE_0) for each in names})

    makers = CONSTRUCTORS[module.__name__].items()
    return st.one_of([one(name, make) for name, make in makers if name != "events"])


LATE = st.builds(Delay.censored, any_of(delays), st.just(0.0) | SHARE)


POLICIES = st.builds(policies.Policy.batched, any_of(policies), st.integers(1, 20))


@st.composite
def bandits(draw):
    window = draw(st.none() | st.integers(1, 999))
    of = draw(st.dictionaries(LABELS, any_of(arms), min_size=1, max_size=4))
    if window is not None:
        valued = draw(st.booleans())
        of = {k: arms.events(draw(SHARE), value if valued else None, draw(ABOVE_0)) for k, value in of.items()}
    late = draw(LATE | st.fixed_dictionaries({}, optional=dict.fromkeys(of, LATE)))
    return Bandit(of, late, window)


def through_json(table):
    return json.loads(json.dumps(table, allow_nan=False))


def same_labels(one, other):
    return [(type(label), label) for label in one] == [(type(label), label) for label in other]


@given(bandits())
def test_a_bandit_comes_back_from_json(bandit):
    again = bandit_from(through_json(bandit_to(bandit)))
    assert again == bandit
    assert same_labels(again.arms, bandit.arms)
    for label, arm in bandit.arms.items():
        assert repr(again.arms[label]) == repr(arm)
        assert repr(again.delay(label)) == repr(bandit.delay(label))
        np.testing.assert_array_equal(again.arms[label].values, arm.values)
        np.testing.assert_array_equal(again.delay(label).values, bandit.delay(label).values)


@given(POLICIES)
def test_a_policy_comes_back_from_json_but_for_a_function(policy):
    again = policy_from(through_json(policy_to(policy)))
    assert again == policy
    assert repr(again) == repr(policy)
    assert again.function is None
    assert same_labels(again.shares or (), policy.shares or ())


def test_the_example_file(tmp_path):
    file = tmp_path / "study.toml"
    file.write_text(EXAMPLE)
    late = {"A": delays.pareto(0.75).censored(0.5)}
    expected = Description(
        Bandit({"A": arms.normal(1.0), "B": arms.normal(0.5)}, late),
        policies.epsilon_greedy(decay=0.5, burn_in=0.1),
        horizons=(5_000, 20_000),
        replications=1_000,
        seed=1,
        estimators=("daipw", "hajek"),
        targets=("A", ("A", "B"), {"A": 0.2, "B": 0.8}),
        intervals=("normal", "t"),
        level=0.95,
    )
    assert read(file) == read(str(file)) == expected
    file.write_bytes(b"\xef\xbb\xbf" + EXAMPLE.encode())  # as some editors save it
    assert read(file) == expected


ONE = {"arms": {"A": {"outcome": {"name": "normal"}}}, "policy": {"name": "uniform"}, "horizon": 10}


def test_what_a_description_need_not_say():
    assert description_from(ONE) == Description(Bandit({"A": arms.normal()}, {}), policies.uniform(), (10,))


def test_one_delay_for_the_arms_without_their_own():
    outcome = {"name": "normal"}
    table = {"arms": {"A": {"outcome": outcome}, "B": {"outcome": outcome}}, "delay": {"name": "poisson", "mean": 3}}
    assert bandit_from(table).delays == delays.poisson(3)
    table["arms"]["B"]["delay"] = {"name": "constant", "steps": 2}
    assert bandit_from(table).delays == {"A": delays.poisson(3), "B": delays.constant(2)}


def test_labels_that_are_not_text():
    rows = [{"label": label, "outcome": {"name": "bernoulli", "rate": 0.5}} for label in (1, 2.5, False, "1")]
    description = description_from(ONE | {"arms": rows, "targets": ["1", 1, [False, 2.5], {"2.5": 1}]})
    assert same_labels(description.bandit.arms, (1, 2.5, False, "1"))
    assert description.targets == ("1", 1, (False, 2.5), {2.5: 1.0})
    bandit = Bandit({np.int64(1): arms.normal(), np.str_("B"): arms.normal()})
    assert same_labels(bandit_from(through_json(bandit_to(bandit))).arms, (1, "B"))


def test_shares_by_label_and_as_a_list():
    rows = [{"label": 1, "share": 0.25}, {"label": "B", "share": 0.75}]
    assert policy_from({"name": "fixed", "shares": rows}) == policies.fixed({1: 0.25, "B": 0.75})
    assert policy_from({"name": "fixed", "shares": {"A": 1.0}}) == policies.fixed({"A": 1.0})


def arm(**table):
    return {"arms": {"A": {"outcome": {"name": "normal"}} | table}}


def outcome(**table):
    return arm(outcome=table)


def policy(**table):
    return {"policy": table}


def rows(*tables):
    return {"arms": list(tables)}


SOME_ROW = {"label": 1, "outcome": {"name": "normal"}}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        # keys
        ({"horizn": 5}, "Unknown key `horizn` at the top level; did you mean `horizon`?"),
        (
            {"zzz": 5},
            "Unknown key `zzz` at the top level; the possible keys are `arms`, `delay`, `window`, `measure`, "
            "`segments`, `covariates`, `slopes`, `arrival`, `policy`, `horizon`, `horizons`, `replications`, `seed`, "
            "`estimators`, `targets`, `intervals`, `level`, `maturing`.",
        ),
        (arm(delays={}), "Unknown key `delays` in `arms.A`; did you mean `delay`?"),
        (arm(zzz=1), "Unknown key `zzz` in `arms.A`; the possible keys are `outcome`, `delay`."),
        ({"arms": {"A": {}}}, "The key `outcome` is missing in `arms.A`."),
        (outcome(mean=1.0), "The key `name` is missing in `arms.A.outcome`."),
        (outcome(name="bernoulli"), "The key `rate` is missing in `arms.A.outcome`."),
        (outcome(name="normal", men=1), "Unknown key `men` in `arms.A.outcome`; did you mean `mean`?"),
        (
            outcome(name="normal", never=0.5),
            "Unknown key `never` in `arms.A.outcome`; the possible keys are `name`, `mean`, `sd`.",
        ),
        (
            arm(delay={"name": "none", "zzz": 1}),
            "Unknown key `zzz` in `arms.A.delay`; the possible keys are `name`, `never`.",
        ),
        (
            policy(name="own", function="print"),
            "Unknown key `function` in `policy`; the possible keys are `name`, `burn_in`, `batch`, `by_segment`, "
            "`maturing`.",
        ),
        ({"delay": {"name": "poisson"}}, "The key `mean` is missing in `delay`."),
        ({"horizons": [5]}, "The description must have exactly one of `horizon` and `horizons` at the top level."),
        # tables
        ({"arms": 3}, "`arms` is 3; it must be a table, or a list of tables with a `label` each."),
        ({"arms": {}}, "`arms` must map labels to arms, such as {'A': arms.normal(1.0)}."),
        ({"arms": {"A": "normal"}}, "`arms.A` is 'normal'; it must be a table."),
        (arm(outcome="normal"), "`arms.A.outcome` is 'normal'; it must be a table."),
        ({"policy": "ucb"}, "`policy` is 'ucb'; it must be a table."),
        (rows("A"), "`arms[0]` is 'A'; it must be a table."),
        (rows({"outcome": {}}), "The key `label` is missing in `arms[0]`."),
        (rows({"label": [1]}), "`arms[0]` has the label [1]; it must be text, a number, or true or false."),
        (rows({"label": math.nan}), "`arms[0]` has the label nan; it must be text, a number, or true or false."),
        (
            rows(SOME_ROW, SOME_ROW | {"label": 1.0}),
            "`arms[1]` has the label 1.0, which another one has too; labels must differ.",
        ),
        (rows({"label": 1, "outcome": 2}), "`arms.1.outcome` is 2; it must be a table."),
        # values
        (
            {"policy": {"name": "greedy"}},
            "In `policy`, `name` is 'greedy'; it must be one of 'uniform', 'fixed', 'epsilon_greedy', "
            "'thompson_normal', 'thompson_beta', 'ucb'.",
        ),
        (
            outcome(name="norml"),
            "In `arms.A.outcome`, `name` is 'norml'; it must be one of 'normal', 'bernoulli', 'exponential', 'gamma', "
            "'lognormal', 'student_t', 'empirical', 'events'. Did you mean 'normal'?",
        ),
        (outcome(name="normal", sd=0), "In `arms.A.outcome`, `sd` is 0; it must be above 0."),
        (outcome(name="normal", mean="1"), "In `arms.A.outcome`, `mean` is '1'; it must be a finite number."),
        (outcome(name="exponential", mean=-1), "In `arms.A.outcome`, `mean` is -1; it must be above 0."),
        (
            outcome(name="lognormal", location=1000),
            "In `arms.A.outcome`, `mean` of these outcomes is inf; it must lie between -1e+60 and 1e+60.",
        ),
        (
            outcome(name="normal", sd=1e61),
            "In `arms.A.outcome`, `sd` of these outcomes is 1e+61; it must be at most 1e+60.",
        ),
        (
            outcome(name="empirical", values=3),
            "`arms.A.outcome.values` is 3; it must be a list with at least one element.",
        ),
        (
            outcome(name="empirical", values=[]),
            "`arms.A.outcome.values` is []; it must be a list with at least one element.",
        ),
        (
            outcome(name="empirical", values=[1, "inf"]),
            "In `arms.A.outcome`, `values` contains inf; it must have finite numbers.",
        ),
        (
            outcome(name="empirical", values=["x"]),
            "In `arms.A.outcome`, `values` in row 0 is 'x'; it must be a number.",
        ),
        (
            arm(delay={"name": "none", "never": 2}),
            "In `arms.A.delay`, `never` is 2; it must lie in [0, 1].",
        ),
        (
            arm(delay={"name": "poisson", "mean": 1e9}),
            "In `arms.A.delay`, these delays are too long; they must be at most 4,194,304 steps.",
        ),
        (
            policy(name="ucb", batch=0),
            "In `policy`, `batch` is 0; it must be a whole number, 1 or more.",
        ),
        (
            policy(name="fixed", shares={"A": 0.5}),
            "In `policy`, `shares` is {'A': 0.5}; its probabilities must not be negative and must sum to 1.",
        ),
        (
            policy(name="fixed", shares=0.5),
            "`policy.shares` is 0.5; it must be a table, or a list of tables with a `label` each.",
        ),
        (policy(name="fixed", shares=[{"label": 1}]), "The key `share` is missing in `policy.shares.1`."),
        ({"horizon": 0}, "`horizon` is 0; it must be a whole number, 1 or more."),
        ({"seed": -1}, "`seed` is -1; it must be a whole number, 0 or more."),
        ({"replications": 1.5}, "`replications` is 1.5; it must be a whole number, 2 or more."),
        ({"replications": 1}, "`replications` is 1; it must be a whole number, 2 or more."),
        ({"level": 95}, "`level` is 95; it must lie strictly between 0 and 1."),
        ({"estimators": "daipw"}, "`estimators` is 'daipw'; it must be a list with at least one element."),
        (
            {"estimators": ["daipw", "hajk"]},
            "`estimators[1]` is 'hajk'; it must be one of 'daipw', 'daipw_paper', 'dipw', 'mean', 'hajek', 'nh', "
            "'nh0', 'iad'. Did you mean 'hajek'?",
        ),
        ({"intervals": [1]}, "`intervals[0]` is 1; it must be one of 'auto', 'normal', 't', 'score', 'wilson'."),
        ({"targets": ["A", "C"]}, "`targets[1]` is 'C', which is not one of the arms ['A']."),
        ({"targets": [["A", ["A"]]]}, "`targets[0]` is ['A'], which is not one of the arms ['A']."),
        ({"targets": [{"A": "x"}]}, "`targets[0].A` is 'x'; it must be a finite number."),
        (
            {"targets": [["A"]]},
            "`targets[0]` is ['A']; it must be an arm, two arms to compare, or a table of coefficients.",
        ),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(change, sentence):
    with pytest.raises(OptionError) as caught:
        description_from(ONE | change)
    assert str(caught.value) == sentence


@pytest.mark.parametrize("key", ["arms", "policy"])
def test_a_missing_key_at_the_top(key):
    with pytest.raises(OptionError, match=f"^The key `{key}` is missing at the top level.$"):
        description_from({k: value for k, value in ONE.items() if k != key})


def test_a_missing_horizon():
    with pytest.raises(
        OptionError, match=r"^The description must have exactly one of `horizon` and `horizons` at the top level.$"
    ):
        description_from({k: value for k, value in ONE.items() if k != "horizon"})


def test_a_horizon_in_a_list():
    horizonless = {k: value for k, value in ONE.items() if k != "horizon"}
    with pytest.raises(OptionError, match=r"^`horizons\[1\]` is 0; it must be a whole number, 1 or more.$"):
        description_from(horizonless | {"horizons": [5, 0]})


@pytest.mark.parametrize("call", [description_from, bandit_from])
def test_what_is_not_a_table(call):
    with pytest.raises(OptionError, match=r"^`table` is \[\]; it must be a table.$"):
        call([])


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"seed = 1\nhorizon = \n", r"Invalid value \(at line 2, column 11\)"),
        (b"seed = 1\nseed = 2\n", r"Cannot overwrite a value \(at line 2, column 9\)"),
        (b"\xff\xfe", "it is not text in UTF-8"),
    ],
)
def test_a_file_that_is_not_toml(tmp_path, content, why):
    (tmp_path / "x.toml").write_bytes(content)
    with pytest.raises(OptionError, match=rf"x\.toml` is not TOML: {why}\.$"):
        read(tmp_path / "x.toml")


def test_values_that_are_nested_too_deep(tmp_path):
    (tmp_path / "x.toml").write_text("a = " + "[" * 5_000 + "]" * 5_000)
    with pytest.raises(OptionError, match=r"x\.toml` cannot be read: its values are nested too deep\.$"):
        read(tmp_path / "x.toml")


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(OptionError, match=r"none\.toml` cannot be read: No such file or directory\.$"):
        read(tmp_path / "none.toml")
    with pytest.raises(OptionError, match=r"` cannot be read: Is a directory\.$"):
        read(tmp_path)


def test_what_cannot_be_written():
    with pytest.raises(OptionError, match=r"^`arms` has the label None; it must be text, a number, or true or false.$"):
        bandit_to(Bandit({None: arms.normal()}))
    with pytest.raises(OptionError, match=r"^`Policy\(\)` cannot be written: it was not made by a constructor"):
        policy_to(policies.Policy("ucb"))


CONTEXTUAL = """
horizon = 500
targets = ["B", ["B", "A"], {segment = "DE", target = ["B", "A"]}, {DE = "B", FR = {A = 0.8, B = 0.2}}]
policy = { name = "thompson_normal", c = 0.3, by_segment = false }
delay = { name = "poisson", mean = 5 }
covariates.age = { name = "normal", mean = 40, sd = 10 }
slopes.age = { A = 0.05 }
arrival.age = 0.02

[segments.DE]
share = 0.6
arms.A.outcome = { name = "normal", mean = 0.5 }
arms.B.outcome = { name = "normal", mean = 1.0 }

[segments.FR]
share = 0.4
delay = { name = "none" }
arms.A.outcome = { name = "normal", mean = 0.5 }
arms.B = { outcome = { name = "normal", mean = -0.2 }, delay = { name = "none", never = 0.3 } }
"""


def test_segments_and_covariates_from_a_file(tmp_path):
    (tmp_path / "x.toml").write_text(CONTEXTUAL)
    description, half = read(tmp_path / "x.toml"), arms.normal(0.5)
    late = delays.none()
    assert description.bandit == ContextualBandit(
        {
            "DE": Bandit({"A": half, "B": arms.normal(1.0)}, delays.poisson(5)),
            "FR": Bandit({"A": half, "B": arms.normal(-0.2)}, {"A": late, "B": late.censored(0.3)}),
        },
        {"DE": 0.6, "FR": 0.4},
        {"age": arms.normal(40, 10)},
        {"age": {"A": 0.05}},
        {"age": 0.02},
    )
    assert description.targets == (
        "B", ("B", "A"), in_segment("DE", ("B", "A")), {"DE": "B", "FR": {"A": 0.8, "B": 0.2}},
    )  # fmt: skip
    assert description.policy == policies.thompson_normal(c=0.3).pooled()
    assert policy_to(description.policy)["by_segment"] is False
    bandit, targets = description.bandit, description.targets
    assert len(View.read(bandit, estimators=["daipw"], targets=targets, intervals=["t"], level=0.9).targets) == 4


def test_labels_that_are_numbers_are_found_by_their_text():
    rows = [{"label": k, "outcome": {"name": "normal"}} for k in (1, 2)]
    table = {
        "segments": [{"label": 7, "arms": rows}, {"label": 8, "arms": rows}],
        "covariates": {"x": {"name": "normal"}},
        "slopes": {"x": {"1": 0.5}},
        "policy": {"name": "uniform"},
        "horizon": 5,
        "targets": [{"7": "1", "8": {"1": 0.5, "2": 0.5}}, {"segment": "8", "target": "2"}],
    }
    description = description_from(table)
    assert description.bandit.labels == (7, 8)
    assert description.bandit.slope_matrix.tolist() == [[0.5], [0.0]]
    assert description.targets == ({7: 1, 8: {1: 0.5, 2: 0.5}}, in_segment(8, 2))


SEGMENT = {"arms": {"A": {"outcome": {"name": "normal"}}}}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"arms": {}},
            "The description has both `arms` and `segments`; put the arms of each segment into it.",
        ),
        ({"segments": 3}, "`segments` is 3; it must be a table, or a list of tables with a `label` each."),
        (
            {"segments": {}},
            "In `segments`, `segments` must map labels to bandits, such as {'DE': Bandit(...), 'FR': Bandit(...)}.",
        ),
        ({"segments": {"DE": "A"}}, "`segments.DE` is 'A'; it must be a table."),
        ({"segments": {"DE": {"share": 1}}}, "The key `arms` is missing in `segments.DE`."),
        (
            {"segments": {"DE": SEGMENT | {"shares": 1}}},
            "Unknown key `shares` in `segments.DE`; did you mean `share`?",
        ),
        (
            {"segments": {"DE": {"arms": {}}}},
            "In `segments.DE`, `arms` must map labels to arms, such as {'A': arms.normal(1.0)}.",
        ),
        (
            {"segments": {"DE": {"arms": {"A": {}}}}},
            "The key `outcome` is missing in `segments.DE.arms.A`.",
        ),
        (
            {"segments": {"DE": SEGMENT | {"share": "x"}}},
            "In `segments`, `shares['DE']` is 'x'; it must be a finite number.",
        ),
        (
            {"segments": {"DE": SEGMENT | {"share": 0.5}, "FR": SEGMENT}},
            "In `segments`, `shares` is {'DE': 0.5}; it must have a share for each of the segments ['DE', 'FR'].",
        ),
        ({"covariates": {"x": {"name": "normal", "sd": 0}}}, "In `covariates.x`, `sd` is 0; it must be above 0."),
        ({"slopes": {"x": 1}}, "`slopes` names 'x', which is not one of the covariates []."),
        ({"slopes": {"x": {"C": 1}}}, "`slopes.x` is 'C', which is not one of the arms ['A']."),
        ({"arrival": 3}, "`arrival` is 3; it must be a table, or a list of tables with a `label` each."),
        ({"policy": {"name": "uniform", "by_segment": 1}}, "In `policy`, `by_segment` is 1; it must be true or false."),
        (
            {"targets": [{"segment": "IT", "target": "A"}]},
            "`targets[0].segment` is 'IT', which is not one of the segments ['DE'].",
        ),
        (
            {"targets": [{"segment": "DE", "target": "B"}]},
            "`targets[0].target` is 'B', which is not one of the arms ['A'].",
        ),
        ({"targets": [{"IT": "A"}]}, "`targets[0]` is 'IT', which is not one of the segments ['DE']."),
        ({"targets": [{"DE": "B"}]}, "`targets[0].DE` is 'B', which is not one of the arms ['A']."),
    ],
)
def test_what_is_wrong_with_segments_is_said_in_a_sentence(change, sentence):
    table = {"segments": {"DE": SEGMENT}, "policy": {"name": "uniform"}, "horizon": 5}
    with pytest.raises(OptionError) as caught:
        description_from(table | change)
    assert str(caught.value) == sentence


def test_covariates_need_segments():
    sentence = "^`covariates` needs `segments`; without segments, put the arms into one, such as segments.all.$"
    with pytest.raises(OptionError, match=sentence):
        description_from(ONE | {"covariates": {"x": {"name": "normal"}}})


EVENTS = """
horizon = 400
window = 100
measure = "count"
maturing = false
delay = { name = "geometric", mean = 20 }

[policy]
name = "epsilon_greedy"
maturing = true

[arms.A]
outcome = { name = "events", rate = 0.1 }

[arms.B]
outcome = { name = "events", rate = 0.2, repeats = 0.5, value = { name = "lognormal", scale = 0.5 } }
delay = { name = "geometric", mean = 30 }
"""


def test_events_are_read_from_toml(tmp_path):
    path = tmp_path / "events.toml"
    path.write_text(EVENTS)
    about = read(path)
    assert about.bandit == Bandit(
        {"A": arms.events(0.1), "B": arms.events(0.2, arms.lognormal(scale=0.5), 0.5)},
        {"A": delays.geometric(20), "B": delays.geometric(30)},
        window=100,
        measure="count",
    )
    assert about.policy == policies.epsilon_greedy().matured()
    assert not about.maturing
    assert policy_from(through_json(policy_to(about.policy))) == about.policy


def test_segments_share_a_window(tmp_path):
    entry = {"arms": {"A": {"outcome": {"name": "events", "rate": 0.1}}}}
    table = {"segments": {"DE": entry, "FR": entry}, "window": 7, "policy": {"name": "uniform"}, "horizon": 9}
    bandit = description_from(table).bandit
    assert bandit.window == 7
    assert bandit.measure == "indicator"
    table["segments"] = {"DE": entry, "FR": entry | {"window": 8}}
    with pytest.raises(OptionError) as caught:
        description_from(table)
    assert "`segments['FR']` has the window 8, and `segments['DE']` has 7; it must be the same" in str(caught.value)
    table |= {"segments": {"DE": entry}, "covariates": {"x": {"name": "normal"}}}
    with pytest.raises(OptionError) as caught:
        description_from(table)
    assert "`covariates` cannot be used with events, which depend on the arm and the segment alone." in str(
        caught.value
    )


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("window = 100\n", "", "`window` is missing; events need the number of steps in which they count."),
        ('measure = "count"\n', "", "The sum of values is the outcome, but the events of `arms['A']` have no `value`."),
        ('name = "lognormal"', 'name = "zzz"', "In `arms.B.outcome.value`, `name` is 'zzz'; it must be one of"),
        ("maturing = false", "maturing = 3", "`maturing` is 3; it must be true or false."),
        ("maturing = true", "maturing = 3", "In `policy`, `maturing` is 3; it must be true or false."),
    ],
)
def test_what_is_wrong_with_events_is_said_in_a_sentence(tmp_path, old, new, sentence):
    path = tmp_path / "events.toml"
    path.write_text(EVENTS.replace(old, new))
    with pytest.raises(OptionError) as caught:
        read(path)
    assert sentence in str(caught.value)


def test_maturing_needs_events(tmp_path):
    path = tmp_path / "experiment.toml"
    path.write_text("maturing = false\n" + EXAMPLE)
    with pytest.raises(OptionError, match=r"^`maturing` is for arms of events, such as outcome"):
        read(path)
