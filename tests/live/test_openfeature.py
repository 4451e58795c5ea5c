from __future__ import annotations

import asyncio
import socket
import threading

import pytest
from openfeature import api
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import ErrorCode
from openfeature.flag_evaluation import Reason
from openfeature.track import TrackingEventDetails

import belated as bl
from belated.live.openfeature import Provider


@pytest.fixture
def store(tmp_path):
    return bl.live.open(tmp_path / "shop.belated", ticking=False)


@pytest.fixture
def client(store):
    api.set_provider(Provider(store))
    yield api.get_client()
    api.shutdown()
    api.clear_providers()


def create(store, name="button", arms=("Buy", "Order"), **options):
    given = {"policy": bl.policies.uniform(), "outcome": bl.live.binary()}
    return store.create(name, arms=arms, **given | options).start()


def unit(name: str) -> EvaluationContext:
    return EvaluationContext(targeting_key=name)


def test_a_flag_is_an_experiment_and_its_variant_the_arm(store, client):
    exp = create(store)
    found = client.get_string_details("button", "none", unit("x"))
    assert found.value == found.variant == exp.ask("x").arm
    assert found.reason == Reason.SPLIT
    assert found.flag_metadata == {"logged": True, "version": 1}
    assert asyncio.run(client.get_string_value_async("button", "none", unit("x"))) == found.value
    assert exp.status().asked == 1


def test_tracking_tells_an_outcome(store, client):
    exp = create(store, outcome=bl.live.events("1h", "sum"))
    client.get_string_value("button", "none", unit("x"))
    client.track("button", unit("x"))
    client.track("button", unit("x"), TrackingEventDetails(20.5, {"key": "order 2"}))
    assert exp.tell("x", 1.0).status == exp.tell("x", 20.5, key="order 2").status == "repeated"
    with pytest.raises(bl.live.ContradictionError):
        client.track("button", unit("x"), TrackingEventDetails(3.0))


def test_arms_may_be_booleans_and_numbers(store, client):
    create(store, "dark", ("on", "off"))
    create(store, "columns", ("2", "3"))
    assert client.get_boolean_value("dark", False, unit("x")) is (store.experiment("dark").ask("x").arm == "on")
    assert client.get_integer_value("columns", 1, unit("x")) in (2, 3)
    assert client.get_float_value("columns", 1.0, unit("x")) in (2.0, 3.0)
    wrong = client.get_boolean_details("columns", True, unit("x"))
    assert (wrong.value, wrong.error_code) == (True, ErrorCode.TYPE_MISMATCH)
    assert client.get_object_details("dark", {}, unit("x")).error_code == ErrorCode.TYPE_MISMATCH


def test_a_unit_whose_arm_is_not_given_is_not_asked(store, client):
    """The product shows the default of the call; the log must not say that it showed an arm."""
    exp = create(store, "dark", ("on", "off", "dim"))
    for name in ("x", "y", "z"):
        assert client.get_boolean_details("dark", True, unit(name)).error_code == ErrorCode.TYPE_MISMATCH
        assert client.get_integer_details("dark", 1, unit(name)).error_code == ErrorCode.TYPE_MISMATCH
    assert exp.status().asked == 0
    exp.drop_arm("dim")
    assert client.get_boolean_details("dark", True, unit("x")).reason == Reason.SPLIT
    assert exp.status().asked == 1


@pytest.mark.parametrize("kind", ["string", "boolean", "integer", "float"])
def test_no_flag_blocks_an_event_loop(store, client, monkeypatch, kind):
    arms, default = {
        "string": (("a", "b"), "c"), "boolean": (("on", "off"), True), "integer": (("1", "2"), 3),
        "float": (("1.5", "2"), 0.5),
    }[kind]  # fmt: skip
    exp, threads = create(store, arms=arms), set()
    monkeypatch.setattr(
        type(exp), "ask", lambda self, name: threads.add(threading.get_ident()) or self.ask_many([name])[0]
    )
    found = asyncio.run(getattr(client, f"get_{kind}_details_async")("button", default, unit("x")))
    assert found.reason == Reason.SPLIT
    assert len(threads) == 1
    assert threading.get_ident() not in threads


def test_a_key_that_is_none_is_no_key(store, client):
    exp = create(store, outcome=bl.live.events("1h"))
    exp.ask("x")
    client.track("button", unit("x"), TrackingEventDetails(1.0, {"key": None}))
    assert exp.tell("x", 1.0).status == "repeated"


def test_what_is_refused_leaves_no_trace_in_the_log_of_the_product(store, client, caplog):
    create(store, segments=["DE", "FR"])
    found = client.get_string_details("button", "none", unit("x"))
    assert (found.value, found.error_code) == ("none", ErrorCode.GENERAL)
    assert not [record for record in caplog.records if record.exc_info]


def test_what_fails_is_the_default_of_the_call(store, client):
    create(store).stop()
    for flag, context, code in (
        ("button", None, ErrorCode.TARGETING_KEY_MISSING),
        ("nothing", unit("x"), ErrorCode.FLAG_NOT_FOUND),
        ("button", unit("x"), ErrorCode.GENERAL),  # it has stopped
    ):
        found = client.get_string_details(flag, "none", context)
        assert (found.value, found.reason, found.error_code) == ("none", Reason.ERROR, code)


def test_a_fallback_is_no_split():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    provider = Provider(bl.live.open(url, token="x", retries=0, fallback="Buy"))  # noqa: S106
    found = provider.resolve_string_details("button", "none", unit("x"))
    assert (found.value, found.reason, found.flag_metadata["logged"]) == ("Buy", Reason.DEFAULT, False)
    provider.shutdown()
