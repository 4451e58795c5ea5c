from __future__ import annotations

import pytest

import belated as bl
from belated.base.errors import OptionError
from belated.live.tokens import SCOPES, all_tokens, digest_of, make_token, revoke, tokens, use_link
from tests.live.conftest import of_storages

pytestmark = of_storages("tokens are kept by a storage; one that is served has the service's own, too")


def known(storage):
    with storage.reading() as session:
        return all_tokens(session)


def test_a_store_keeps_the_hash_of_a_token_and_not_the_token(place):
    storage = place.create()._store.storage
    secret, made = make_token(storage, "checkout", ["tell", "ask"], author="Ada", experiment="button", lasting="30d")
    assert secret.startswith("belated_")
    assert len(secret) > 50
    assert known(storage)[digest_of(secret)] == made
    assert (made.scopes, made.experiment, made.author) == ({"ask", "tell"}, "button", "Ada")
    assert (made.expires_at - made.made_at).days == 30
    assert secret not in str(place.sql("select * from token"))
    assert make_token(storage, "checkout", ["ask"], author="Ada")[0] != secret


def test_tokens_expire_and_are_revoked(place):
    storage = place.create()._store.storage
    _, short = make_token(storage, "short", ["ask"], author="Ada", lasting="1h")
    _, always = make_token(storage, "always", ["ask"], author="Ada", lasting="never")
    assert short.is_valid(short.made_at)
    assert not short.is_valid(short.expires_at)
    assert always.expires_at is None
    assert revoke(storage, always.id)
    assert not revoke(storage, always.id)
    listed = tokens(storage)
    assert [(each.label, each.ended_at is None) for each in listed] == [("short", True), ("always", False)]
    assert not list(listed)[1].is_valid(always.made_at)
    with pytest.raises(bl.live.LiveError, match=r"There is no token 5; `belated live token list` shows them\."):
        revoke(storage, 5)


def test_a_link_is_used_once(place):
    storage = place.create()._store.storage
    secret, link = make_token(storage, "Ada", ["read"], author="Ada", kind="link")
    kept, browser = use_link(storage, secret)
    assert (browser.kind, browser.label, browser.scopes) == ("browser", "Ada", link.scopes)
    assert use_link(storage, secret) is None
    assert use_link(storage, kept) is None
    assert [each.label for each in tokens(storage)] == []  # links and browsers are not listed
    place.clock.forward(3 * 86_400)
    use_link(storage, make_token(storage, "Ada", ["read"], author="Ada", kind="link")[0])
    assert digest_of(kept) not in known(storage)  # what has long expired is gone


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"scopes": []}, "`scopes` is empty; it must name some of ask, tell, read, units, admin"),
        ({"scopes": ["write"]}, "`scopes` is 'write'; it must be one of 'ask'"),
        ({"label": ""}, "`label` has 0 characters"),
        *(
            ({"lasting": given}, rf"`expires` is '{given}'; it must be a duration, such as .* or '90s', or 'never'\.$")
            for given in ("soon", "7", "0d", "-1d", "3 steps", "")
        ),
        ({"lasting": "9999999d"}, "`expires` is '9999999d'; it must be at most 100 years"),
    ],
)
def test_a_token_that_cannot_be_is_refused(place, options, words):
    storage = place.create()._store.storage
    given = {"label": "x", "scopes": SCOPES} | options
    with pytest.raises(OptionError, match=words):
        make_token(storage, given.pop("label"), given.pop("scopes"), author="Ada", **given)
    with pytest.raises(bl.live.UnknownExperimentError):
        make_token(storage, "x", SCOPES, author="Ada", experiment="nothing")
    assert not known(storage)


def test_a_restored_store_has_the_tokens_of_the_one_it_replaces(place, tmp_path):
    store = place.create()._store
    old, new = (make_token(store.storage, label, ["ask"], author="Ada") for label in ("old", "new"))
    store.backup(tmp_path / "copy.belated")
    revoke(store.storage, old[1].id)
    later, _ = make_token(store.storage, "later", ["ask"], author="Ada", experiment="button")
    place.create("after the backup")
    make_token(store.storage, "gone", ["ask"], author="Ada", experiment="after the backup")
    place.close()
    bl.live.restore(tmp_path / "copy.belated", place.url, replace=True)
    found = known(place.open().storage)
    assert {digest_of(old[0]), digest_of(new[0]), digest_of(later)} == set(found)
    assert found[digest_of(old[0])].ended_at is not None
    assert found[digest_of(later)].experiment == "button"


def test_a_restored_store_without_another_has_those_of_the_backup(place, tmp_path):
    store = place.create()._store
    secret, _ = make_token(store.storage, "old", ["ask"], author="Ada", experiment="button")
    store.backup(tmp_path / "copy.belated")
    bl.live.restore(tmp_path / "copy.belated", tmp_path / "new.belated")
    with bl.live.open(tmp_path / "new.belated", ticking=False) as again:
        assert known(again.storage)[digest_of(secret)].experiment == "button"
