from __future__ import annotations

import asyncio
import http.client
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from served import PATIENCE

import belated as bl
from belated.live import connecting, remote, wire
from tests.live.conftest import ServedPlace

pytestmark = pytest.mark.parametrize("engine", ["http"], indirect=True)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(connecting, "_PAUSE", 0.001)


class Proxy(ThreadingHTTPServer):
    """Stands between a client and a service, and drops some replies after the service has made them."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), Between)
        self.port, self.dropped, self.drops = port, 0, iter(())
        self.change = lambda content: content
        self.url = f"http://127.0.0.1:{self.server_port}"


class Between(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        service = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=PATIENCE)
        service.request(self.command, self.path, body, {"authorization": self.headers["authorization"]})
        reply = service.getresponse()
        content = self.server.change(reply.read())
        service.close()
        if next(self.server.drops, False):
            self.server.dropped += 1
            self.close_connection = True
            return
        self.send_response(reply.status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do  # noqa: N815


@pytest.fixture
def proxy(place: ServedPlace) -> Iterator[Proxy]:
    with Proxy(place.served.port) as found:
        thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def gone() -> str:
    """Return an address at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


def counts(place: ServedPlace, table: str) -> int:
    return place.sql(f"select count(*) from {table}")[0][0]  # noqa: S608


def test_retries_do_not_double(place, proxy):
    place.create(outcome=bl.live.events("1h"))
    with bl.live.open(proxy.url, token=place.served.token, retries=5) as store:
        exp = store.experiment("button")
        proxy.drops = iter([True, True, False] * 100)
        first = exp.ask("x")
        assert first.repeated  # the first reply was lost
        assert exp.tell("x", key="order 1").status == "repeated"
        assert exp.tell("nobody", key="order 1").status == "parked"
        replies = exp.ask_many(["x", "y", "z"])
        assert [reply.repeated for reply in replies] == [True] * 3
        assert [each.status for each in exp.tell_many([("x", 1, "order 1"), ("x", 1, "order 2")])] == ["repeated"] * 2
        assert exp.tick().number == 2
    assert proxy.dropped == 12
    assert [counts(place, table) for table in ("decision", "outcome", "parked", "version")] == [3, 2, 1, 2]
    assert place.again().ask("x").arm == first.arm


def test_a_change_whose_reply_is_lost_is_made_once_and_says_that_it_may_have_been(place, proxy):
    place.create()
    with bl.live.open(proxy.url, token=place.served.token, retries=5) as store:
        exp = store.experiment("button")
        for change in (lambda: exp.set_policy(bl.policies.fixed({"A": 0.5, "B": 0.5})), lambda: exp.add_arm("C")):
            exp.status()
            proxy.drops = iter([False, True] if "set_policy" in change.__code__.co_names else [True])
            with pytest.raises(bl.live.StorageError, match="may have been done nevertheless; check before"):
                change()
    assert [change.what for change in place.again().changes()] == ["create", "start", "set policy", "add arm"]


def test_many_clients_whose_replies_are_lost_store_each_thing_once(place, proxy):
    place.create()
    units = [f"unit-{i}" for i in range(30)]
    with (
        bl.live.open(proxy.url, token=place.served.token, retries=8, timeout=60) as store,
        ThreadPoolExecutor(8) as pool,
    ):
        exp = store.experiment("button")
        proxy.drops = iter([True, False, False] * 10_000)
        arms = [reply.arm for reply in pool.map(exp.ask, units * 3)]
        told = list(pool.map(lambda unit: exp.tell(unit, 1).status, units * 3))
    assert arms[:30] == arms[30:60] == arms[60:]
    assert set(told) <= {"new", "repeated"}
    assert proxy.dropped > 40
    assert [counts(place, table) for table in ("decision", "outcome")] == [30, 30]
    assert place.open().verify().clean


# ---------------------------------------------------------------- the fallback arm


def test_a_fallback_is_marked_and_enters_no_log(place):
    exp = place.create()
    with bl.live.open(gone(), token="x", retries=1, fallback={"button": "A"}) as store:  # noqa: S106
        away = store.experiment("button")  # a product starts without the service
        reply = away.ask("x")
        assert reply == bl.live.Decision("x", "A", {"A": 1.0}, 0, None, repeated=False, logged=False)
        assert [each.arm for each in away.ask_many(["x", "y"], fallback="B")] == ["B", "B"]
        assert asyncio.run(away.ask_async("x")).logged is False
        with pytest.raises(bl.live.StorageError, match="cannot be reached"):
            away.tell("x", 1)
        with pytest.raises(bl.live.StorageError):
            store.experiment("another")
    assert counts(place, "decision") == 0
    assert exp.answer().counts.asked == 0
    assert exp.ask("x").logged


@pytest.mark.parametrize("fallback", [5, "", {"button": None}, ["A"]])
def test_a_fallback_that_is_no_text_is_refused_at_once(place, fallback):
    with pytest.raises(bl.OptionError, match="`fallback`"):
        bl.live.open(place.url, token="x", fallback=fallback)  # noqa: S106


def test_without_a_fallback_it_is_an_error(place):
    place.create()
    with bl.live.open(gone(), token="x", retries=0) as store, pytest.raises(bl.live.StorageError):  # noqa: S106
        store.experiment("button")


def test_a_service_that_has_just_failed_is_not_waited_for(place, proxy, monkeypatch):
    place.create()
    with bl.live.open(proxy.url, token=place.served.token, retries=0, fallback="B") as store:
        exp = store.experiment("button")
        proxy.drops = iter([True, False, False])
        monkeypatch.setattr(remote, "_FALLBACK_SECONDS", 3600.0)
        assert not exp.ask("x").logged
        assert not exp.ask("y").logged  # without asking
        assert (proxy.dropped, counts(place, "decision")) == (1, 1)
        monkeypatch.setattr(remote, "_FALLBACK_SECONDS", 0.0)
        assert exp.ask("y").logged
        assert exp.ask("z").probabilities == {"A": 0.5, "B": 0.5}


def test_what_is_refused_is_refused_with_a_fallback_too(place):
    exp = place.create(start=False)
    with pytest.raises(bl.live.NotRunningError):
        exp.ask("x", fallback="A")
    with pytest.raises(bl.OptionError):
        exp.ask("", fallback="A")
    with bl.live.open(place.url, token="wrong", fallback="A") as store, pytest.raises(bl.live.AccessError):  # noqa: S106
        store.experiment("button").ask("x")


# ---------------------------------------------------------------- the rest


@pytest.mark.parametrize("name", ["a/b", "..", ".", "%2e%2e", "?x=1", "#", "a b", "ü/é", "x%00", "\\", ";", "http://x"])
def test_a_name_is_one_part_of_the_path(place, name):
    exp = place.create(name)
    assert exp.ask("x").logged
    assert list(place.open().experiments()) == [name]
    assert place.again(name).status().asked == 1


def test_large_batches_are_sent_in_parts(place, monkeypatch):
    exp = place.create()
    monkeypatch.setattr(wire, "_MOST_ITEMS", 7)
    units = [f"unit-{i}" for i in range(40)]
    assert [reply.unit for reply in exp.ask_many(units)] == units
    monkeypatch.setattr(wire, "_MOST_BYTES", 200)
    told = exp.tell_many([*((unit, 1) for unit in units), (units[0], 7)])
    assert [each.status for each in told] == ["new"] * 40 + ["refused"]
    assert exp.ask_many([]) == exp.tell_many([]) == []


def test_what_cannot_go_over_http_is_refused_in_a_sentence(place):
    exp = place.create()
    own = bl.policies.own(lambda count, total, t: [0.5, 0.5])
    for act in (
        lambda: exp.set_policy(own),
        lambda: place.create("other", policy=own),
        lambda: exp._store.experiment("button", policy=own),
    ):
        with pytest.raises(bl.OptionError, match="is a Python function, which is not sent over HTTP"):
            act()
    with pytest.raises(bl.OptionError, match="not imported over HTTP"):
        exp._store.import_table("x", "log.csv", policy=bl.policies.uniform(), outcome=bl.live.binary())
    assert list(exp._store.experiments()) == ["button"]


def test_an_answer_is_fetched_again_only_if_something_is_new(place):
    exp = place.create()
    exp.ask_many(["x", "y", "z"])
    exp.tell("x", 1)
    answer = exp.answer()
    assert exp.answer() is answer
    exp.tell("y", 0)
    assert exp.answer() is not answer
    assert exp.answer().counts.told == 2
    own = place.served.store.experiment("button").answer()
    assert exp.answer().to_json() == own.to_json()
    assert exp.answer().estimate.to_json() == own.estimate.to_json()


def test_a_token_is_the_author_unless_one_is_named(place):
    exp = place.create()
    exp.add_arm("C")
    exp.pause_arm("C", author="Ada", reason="it blinks")
    assert [(each.author, each.reason) for each in exp.changes()][-2:] == [("everything", ""), ("Ada", "it blinks")]


def test_a_token_that_may_not_is_told_so(place):
    place.create()
    token = place.served.make_token("read")
    with bl.live.open(place.url, token=token) as store:
        exp = store.experiment("button")
        with pytest.raises(bl.live.AccessError, match="lacks the scope ask"):
            exp.ask("x")
        with pytest.raises(bl.live.AccessError, match="lacks the scope admin"):
            exp.stop()
        with pytest.raises(bl.live.AccessError):
            store.backup(place.folder / "copy.belated")
    assert not list(place.folder.glob("*copy*"))


def test_a_backup_does_not_replace_a_file(place):
    exp = place.create()
    (place.folder / "copy.belated").write_text("mine")
    with pytest.raises(bl.live.StorageError, match="is already there"):
        exp._store.backup(place.folder / "copy.belated")
    assert (place.folder / "copy.belated").read_text() == "mine"


@pytest.mark.parametrize("ending", [0, 1000, 4096, -4096, None])
def test_a_backup_that_is_not_whole_is_none(place, proxy, ending):
    """A proxy that reads until the service closes the connection cannot know that there was more."""
    place.create()
    proxy.change = lambda content: b"<html>Log in</html>" if ending is None else content[:ending]
    with (
        bl.live.open(proxy.url, token=place.served.token, retries=0) as store,
        pytest.raises(bl.live.StorageError, match="is not a whole store"),
    ):
        store.backup(place.folder / "copy.belated")
    assert not list(place.folder.glob("*copy*"))


def test_a_unit_is_in_no_address(place, monkeypatch):
    """Addresses are kept in logs of proxies."""
    exp = place.create()
    seen = []
    call = connecting.ServiceConnection.call
    monkeypatch.setattr(
        connecting.ServiceConnection, "call", lambda self, method, path, *rest, **more: seen.append(path) or call(
            self, method, path, *rest, **more
        )
    )  # fmt: skip
    exp.ask("customer-17")
    exp.tell("customer-17", 1)
    exp.erase("customer-17")
    assert len(seen) == 3
    assert "customer" not in str(seen)
