"""`belated live serve` as a process: how it starts, what it refuses, and how it stops."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

import belated as bl
from belated.base.errors import OptionError
from belated.live.serving import check_host
from belated.live.tokens import make_token
from tests.live.conftest import of_storages

ASK = "/v1/experiments/button/ask"


@dataclass
class Process:
    process: subprocess.Popen
    port: int
    link: str
    lines: list[str]

    def send(self, method: str, path: str, token: str, content=None) -> tuple[int, dict]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            body = None if content is None else json.dumps(content)
            connection.request(method, path, body, {"Authorization": f"Bearer {token}"})
            reply = connection.getresponse()
            return reply.status, json.loads(reply.read())

    def wait_until_ready(self) -> None:
        while True:
            with contextlib.suppress(OSError):
                if self.send("GET", "/ready", "")[0] == 200:
                    return
            assert self.process.poll() is None
            time.sleep(0.05)


@contextlib.contextmanager
def process(place: str, *options: str) -> Iterator[Process]:
    command = [sys.executable, "-m", "belated", "live", "serve", place, "--port", "0", *options]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as started:
        try:
            lines = [started.stdout.readline() for _ in range(2)]
            found = re.search(r"http://127\.0\.0\.1:(\d+);", lines[0])
            assert found, (lines, started.stderr.read() if started.poll() is not None else "")
            link = lines[1].rpartition(" ")[2].strip()
            yield Process(started, int(found[1]), link, lines)
        finally:
            if started.poll() is None:
                started.terminate()
            started.communicate(timeout=60)


@of_storages("a service is in front of a storage")
def test_what_was_accepted_is_answered_after_a_signal_to_stop(place):
    """Requests that wait for the storage when the signal comes are stored and answered; then the process ends."""
    exp = place.create()
    storage = exp._store.storage
    secret, _ = make_token(storage, "test", ["ask", "read"], author="test", lasting="never")
    if place.kind == "sqlite":
        hold = storage.writing
    else:  # others' inserts wait for one that is not committed

        @contextlib.contextmanager
        def hold():
            with storage.writing() as session:
                session.run("lock table decision in exclusive mode")
                yield

    with process(place.url) as server:
        server.wait_until_ready()
        assert server.send("POST", ASK, secret, {"unit": "first"})[0] == 200
        replies: list[tuple[int, dict]] = []
        with hold():
            threads = [
                threading.Thread(target=lambda i=i: replies.append(server.send("POST", ASK, secret, {"unit": str(i)})))
                for i in range(8)
            ]
            for thread in threads:
                thread.start()
            time.sleep(3)  # they are on their way
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
        for thread in threads:
            thread.join()
        assert [status for status, _ in replies] == [200] * 8
        assert server.process.wait(60) in (0, -signal.SIGTERM)
    again = place.again()
    assert all(reply.repeated for reply in again.ask_many([body["unit"] for _, body in replies]))
    assert again.status().asked == 9


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_several_processes_serve_a_database(place):
    exp = place.create()
    secret, _ = make_token(exp._store.storage, "test", ["ask", "read"], author="test", lasting="never")
    with process(place.url, "--workers", "2") as server:
        server.wait_until_ready()
        for number in range(20):
            assert server.send("POST", ASK, secret, {"unit": str(number % 10)})[0] == 200
        children = _children(server.process.pid)
        assert len([child for child in children if "spawn_main" in child]) == 2
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(60)
    assert place.again().status().asked == 10


def _children(parent: int) -> list[str]:
    found = subprocess.run(["ps", "-o", "args=", "--ppid", str(parent)], capture_output=True, text=True, check=False)  # noqa: S607
    return found.stdout.splitlines()


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_one_process_serves_a_file_and_its_link_logs_in(place):
    place.create()
    place.create("events", outcome=bl.live.events("1h"))
    place.close()
    with process(place.url, "--workers", "3") as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        path = server.link.partition(str(server.port))[2]
        connection.request("GET", path)
        assert b"<button" in connection.getresponse().read()
        body = path.partition("?")[2]
        connection.request("POST", "/login", body, {"Content-Type": "application/x-www-form-urlencoded"})
        assert connection.getresponse().status == 303
        connection.close()
        server.wait_until_ready()
        server.process.send_signal(signal.SIGINT)
        _, said = server.process.communicate(timeout=60)
    assert "leaked" not in said
    assert "Only one process can serve a file; use PostgreSQL for more." in said
    assert server.link.partition("code=")[2] not in said


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.0.1", "example.org", "::"])  # noqa: S104
def test_others_reach_it_only_if_that_is_said(host):
    words = "is reached by others; say so with `public`, and name the hosts by which it is addressed with `allow_host`"
    for names, public in (((), False), (("example.org",), False), ((), True)):
        with pytest.raises(OptionError, match=words):
            check_host(host, names, public=public)
    assert check_host(host, ("Example.org",), public=True) == ("example.org",)


def test_this_machine_reaches_it_by_its_own_names():
    for host in ("127.0.0.1", "localhost", "::1", "127.1.2.3"):
        assert check_host(host, ("shop.local",), public=False) == ("localhost", "127.0.0.1", "[::1]", "shop.local")


def test_it_may_have_more_connections_open_than_the_system_says_at_first():
    resource = pytest.importorskip("resource")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65_536 if hard == resource.RLIM_INFINITY else min(hard, 65_536)
    code = f"""
import resource
from belated.live.serving import allow_connections
resource.setrlimit(resource.RLIMIT_NOFILE, (200, {hard}))
allow_connections()
print(resource.getrlimit(resource.RLIMIT_NOFILE) == ({wanted}, {hard}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "True\n", done.stderr
