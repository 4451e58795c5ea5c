from __future__ import annotations

import re

import pytest

import belated as bl
from belated.live.dashboard.creating import CREATE_FIELDS, create, read_creation
from belated.live.dashboard.forms import FormValues
from belated.simulation.description import policy_to

#: What the form holds when its page is opened, and what must be filled in.
FIRST = {field.name: field.value for field in CREATE_FIELDS} | {"name": "new", "arms": "A\nB"}


#: What is filled in, the kind of outcome of the experiment that is made, and the fields that are wrong.
CREATIONS = [
    ({"outcome": "bounded", "low": "0", "high": "20"}, "bounded", {}),
    ({"outcome": "bounded", "low": "5", "high": "2"}, None, {"high"}),
    ({"outcome": "bounded", "low": "x", "high": ""}, None, {"low", "high"}),
    ({"outcome": "real", "policy": "thompson"}, "real", {}),
    ({"outcome": "real", "policy": "ucb", "burn_in": "10"}, "real", {}),
    ({"policy": "fixed", "shares": "A=0.3\nB=0.7"}, "binary", {}),
    ({"policy": "fixed", "shares": "A=0.3\nB=0.8"}, None, {"shares"}),
    ({"policy": "fixed", "shares": "A=0.3\nC=0.7"}, None, {"shares"}),
    ({"policy": "fixed", "shares": "nonsense"}, None, {"shares"}),
    ({"policy": "epsilon_greedy", "decay": "1.5"}, None, {"decay"}),
    ({"policy": "epsilon_greedy", "burn_in": "-1"}, None, {"burn_in"}),
    ({"policy": "own"}, None, {"policy"}),
    ({"outcome": "nonsense"}, None, {"outcome"}),
    ({"level": "nan", "seconds": "0", "planned": "0"}, None, {"level", "seconds", "planned"}),
    ({"name": "", "arms": ""}, None, {"name", "arms"}),
    ({"name": "x" * 201, "arms": "y" * 201}, None, {"name", "arms"}),
    ({"reason": "z" * 2001}, None, {"reason"}),
]


def test_what_a_creation_may_be(own_site):
    usual = {"arms": "A\nB", "outcome": "binary", "policy": "uniform", "planned": "100", "level": "0.9", "seconds": "2"}
    usual |= {"burn_in": "0", "decay": "0.5", "window": "7d", "measure": "count", "low": "0", "high": "1"}
    for number, (form, made, wrong) in enumerate(CREATIONS):
        name = f"new {number}"
        reply = own_site.post("/new", {"name": name} | usual | form)
        found = set(re.findall(r'class="error" id="(\w+)-wrong"', reply.body.decode()))
        assert found == set(wrong), form
        assert reply.status == (422 if made is None else 303), form
        if made is None:
            assert name not in list(own_site.store.experiments())
        else:
            assert own_site.store.experiment(name).setup.outcome.kind == made


def test_what_the_form_holds_at_first_has_the_defaults_of_the_library(store):
    exp, given = create(store, FIRST, "Ada")
    assert given.errors == {}
    usual = store.create("usual", arms=["A", "B"], policy=bl.policies.thompson_beta(), outcome=bl.live.binary())
    assert exp.setup.to_json() == usual.setup.to_json()
    assert [(each.what, each.author, each.reason) for each in exp.changes()] == [
        ("create", "Ada", ""), ("start", "Ada", ""),
    ]  # fmt: skip


def test_without_its_tick_it_is_a_draft(store):
    form = {name: value for name, value in FIRST.items() if name != "start"}  # as browsers send it
    assert create(store, form, "Ada")[0].status().state == "draft"


@pytest.mark.parametrize(
    ("outcome", "name"),
    [
        ({"outcome": "binary"}, "thompson_beta"),
        ({"outcome": "bounded", "low": "0", "high": "1"}, "thompson_beta"),
        ({"outcome": "bounded", "low": "0", "high": "2"}, "thompson_normal"),
        ({"outcome": "events", "measure": "indicator"}, "thompson_beta"),
        ({"outcome": "events", "measure": "count"}, "thompson_normal"),
        ({"outcome": "real"}, "thompson_normal"),
    ],
    ids=str,
)
def test_thompson_sampling_fits_the_outcome(outcome, name):
    given = FormValues(FIRST | outcome, CREATE_FIELDS)
    assert policy_to(read_creation(given)["policy"])["name"] == name


def test_lines_are_arms_and_blank_ones_are_none():
    given = FormValues(FIRST | {"arms": "\r\n  A \r\n\r\nB b\r\n", "segments": " DE\n\nFR "}, CREATE_FIELDS)
    options = read_creation(given)
    assert (options["arms"], options["segments"]) == (["A", "B b"], ["DE", "FR"])


def test_what_the_store_refuses_is_said_beside_the_name(store):
    create(store, FIRST, "Ada")
    exp, given = create(store, FIRST | {"arms": "C"}, "Eve")
    assert exp is None
    assert list(given.errors) == ["name"]
    assert "already an experiment" in given.errors["name"]
