from __future__ import annotations

import pytest

from belated.live.dashboard.tokens import fields, listed, make
from belated.live.tokens import make_token, revoke, tokens

FORM = {"label": "checkout", "scope-ask": "yes", "expires": "30d"}


@pytest.fixture
def owner(store):
    return make_token(store.storage, "Ada", ["read", "admin"], author="Ada", kind="browser")[1]


def test_only_who_may_see_units_can_allow_it(store, owner):
    keeper = make_token(store.storage, "Eve", ["admin", "units"], author="Eve", kind="browser")[1]
    names = lambda token: [each.name for each in fields([], token) if each.kind == "tick"]  # noqa: E731
    assert names(owner) == ["scope-ask", "scope-tell", "scope-read", "scope-admin"]
    assert set(names(keeper)) - set(names(owner)) == {"scope-units"}
    secret, _ = make(store, FORM | {"scope-units": "yes"}, fields([], owner), owner)
    assert secret is not None
    (made,) = tokens(store.storage)
    assert made.scopes == {"ask"}


def test_a_token_is_made_by_its_owner_for_what_was_chosen(store, owner):
    wanted = fields(["button", "x" * 200], owner)
    choices = dict(next(each for each in wanted if each.name == "experiment").choices)
    assert list(choices) == ["", "button", "x" * 200]
    assert max(map(len, choices.values())) <= 80
    secret, given = make(store, FORM | {"scope-tell": "yes", "expires": "never"}, wanted, owner)
    assert (secret.startswith("belated_"), given.errors) == (True, {})
    found, now = listed(store)
    (made,) = found
    assert (made.label, made.author, made.experiment, made.expires_at) == ("checkout", "Ada", None, None)
    assert made.scopes == {"ask", "tell"}
    assert made.is_valid(now)
    revoke(store.storage, made.id)
    assert not listed(store)[0][0].is_valid(now)


@pytest.mark.parametrize(
    ("form", "wrong"),
    [
        ({"label": "", "scope-ask": "", "expires": "soon"}, {"label", "scope-ask", "expires"}),
        ({"label": "x" * 201}, {"label"}),
        ({"expires": ""}, {"expires"}),
        ({"expires": "101 years"}, {"expires"}),
        ({"expires": "99999d"}, {"expires"}),
    ],
    ids=["everything", "long", "nothing", "unreadable", "late"],
)
def test_what_is_wrong_is_said_and_no_token_is_made(store, owner, form, wrong):
    secret, given = make(store, FORM | form, fields([], owner), owner)
    assert (secret, set(given.errors)) == (None, wrong)
    assert len(tokens(store.storage)) == 0
