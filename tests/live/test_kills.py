"""Processes that ask and tell the same units are killed, stopped and cut off at random: nothing acknowledged is lost.

``BELATED_KILL_SECONDS=600`` makes it last longer than the few seconds of an ordinary run.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import engines
import psycopg
import pytest

import belated as bl
from belated.live.design import versions
from belated.live.tokens import SCOPES, make_token
from tests.live.conftest import Place

SECONDS = float(os.environ.get("BELATED_KILL_SECONDS", "2"))
WORKERS, UNITS = 3, 400

#: Imports everything once, then forks a worker for each line: a new process is there in milliseconds.
NURSERY = """
import json, os, random, signal, sys, time
import belated as bl
import belated.live, belated.simulation.description
try:
    import psycopg
except ImportError:
    pass
place, folder, options = sys.argv[1:]
options = json.loads(options)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)

def work(seed):
    rng = random.Random(seed)
    acks = os.open(f"{folder}/acks-{seed}", os.O_WRONLY | os.O_CREAT)
    exp = bl.live.open(place, ticking=False, **options).experiment("kills")
    while True:
        number = rng.randrange(UNITS)
        unit = f"unit-{number}"
        try:
            if rng.random() < 0.1:
                batch = sorted({f"unit-{rng.randrange(UNITS)}" for _ in range(20)}, key=lambda _: rng.random())
                for reply in exp.ask_many(batch):
                    os.write(acks, f"ask {reply.unit} {reply.arm} {reply.version}\\n".encode())
            reply = exp.ask(unit)
            os.write(acks, f"ask {unit} {reply.arm} {reply.version}\\n".encode())
            if rng.random() < 0.5:
                assert exp.tell(unit, number % 2).taken
                os.write(acks, f"tell {unit} {number % 2} 0\\n".encode())
            if rng.random() < 0.1:
                os.write(acks, f"tick {exp.tick().number} 0 0\\n".encode())
        except bl.live.StorageError:
            os.write(acks, b"error 0 0 0\\n")
            time.sleep(0.01)

for line in sys.stdin:
    child = os.fork()
    if not child:
        try:
            work(int(line))
        finally:
            os._exit(1)
    print(child, flush=True)
""".replace("UNITS", str(UNITS))


class Nursery:
    """Starts workers, and does harm to them."""

    def __init__(self, url: str, folder: Path, **options: object) -> None:
        self.started = 0
        command = [sys.executable, "-c", NURSERY, url, str(folder), json.dumps(options)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.workers: list[int] = []

    def start(self) -> None:
        self.started += 1
        self.process.stdin.write(f"{self.started}\n")
        self.process.stdin.flush()
        self.workers.append(int(self.process.stdout.readline()))

    def kill(self, which: int) -> None:
        os.kill(self.workers.pop(which), signal.SIGKILL)

    def close(self) -> None:
        while self.workers:
            self.kill(0)
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(30)


def test_nothing_acknowledged_is_lost(place, capsys, tmp_path):
    exp = place.create("kills", policy=bl.policies.fixed({"A": 0.3, "B": 0.7}))
    folder = tmp_path / "acks"
    folder.mkdir()
    rng, done = random.Random(7), Counter()  # noqa: S311
    nursery = Nursery(place.url, folder)
    try:
        for _ in range(WORKERS):
            nursery.start()
        end = time.monotonic() + SECONDS
        while time.monotonic() < end or done["killed"] < 3:
            time.sleep(rng.uniform(0.02, 0.3))
            _harm(place, nursery, rng, done)
    finally:
        nursery.close()
    time.sleep(1)  # PostgreSQL notices that they are gone
    said = _acknowledged(folder)
    with capsys.disabled():
        counts = ", ".join(f"{n} {what}" for what, n in sorted((done + Counter(row[0] for row in said)).items()))
        print(f"\n  {place.kind}: {counts}")  # noqa: T201
    _check(exp, said)


def _harm(place, nursery: Nursery, rng: random.Random, done: Counter) -> None:
    """Kill a worker, stop it for a while, or cut its connections."""
    which = rng.randrange(len(nursery.workers))
    act = rng.random()
    if act < 0.6:
        nursery.kill(which)
        nursery.start()
        done["killed"] += 1
    elif act < 0.8 or place.kind != "postgres":
        os.kill(nursery.workers[which], signal.SIGSTOP)
        time.sleep(rng.uniform(0.01, 0.1))
        os.kill(nursery.workers[which], signal.SIGCONT)
        done["stopped"] += 1
    else:
        with psycopg.connect(place.url, autocommit=True) as connection:
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and "
                "query like '%decision%' order by random() limit 1"
            )
        done["cut"] += 1


def _acknowledged(folder: Path) -> list[list[str]]:
    """Return what workers were told; the last line of one that was killed may be cut short."""
    lines = [line for path in folder.iterdir() for line in path.read_bytes().decode().split("\n")[:-1]]
    return [line.split() for line in lines]


def _check(exp: bl.live.Experiment, said: list[list[str]]) -> None:
    asked = {(unit, arm, int(version)) for what, unit, arm, version in said if what == "ask"}
    told = {(unit, float(value)) for what, unit, value, _ in said if what == "tell"}
    ticked = {int(number) for what, number, *_ in said if what == "tick"}
    assert len({unit for unit, *_ in asked}) == len(asked)  # no unit was ever told of two arms
    replies = exp.ask_many(sorted(unit for unit, *_ in asked))
    assert {(reply.unit, reply.arm, reply.version) for reply in replies} == asked
    assert all(reply.repeated for reply in replies)
    assert all(each.status == "repeated" for each in exp.tell_many(told))
    with exp._store.storage.reading() as session:
        ((units, rows),) = session.run("select count(distinct unit), count(*) from decision")
        ((outcomes, decisions),) = session.run("select count(*), count(distinct decision) from outcome")
        made = versions(session, exp._id)
    assert units == rows <= UNITS
    assert outcomes == decisions >= len(told)
    assert ticked <= {version.number for version in made}
    assert exp.replay() == made
    final = exp.tick()
    assert (final.step - 1, sum(final.counts)) == (rows, outcomes)
    assert exp._store.verify().clean
    assert exp.answer().counts.told == outcomes


class Server:
    """A PostgreSQL server that can be stopped without a word, and started again."""

    def __init__(self, folder: Path) -> None:
        self.binaries, user = engines._postgres_binaries(), engines._unprivileged()
        self.run_as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
        self.folder = folder
        if user:
            os.chown(folder, user.pw_uid, user.pw_gid)
        make = [self.binaries / "initdb", "-D", folder / "data", "-U", "postgres", "-A", "trust", "-N", "--locale=C"]
        subprocess.run(make, cwd=folder, check=True, capture_output=True, **self.run_as)
        self.start()

    def start(self) -> None:
        serve = [self.binaries / "postgres", "-D", self.folder / "data", "-k", self.folder, "-c", "listen_addresses="]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(serve, cwd=self.folder, **quiet, **self.run_as)
        ready = self.folder / "data" / "postmaster.pid"
        while not (ready.exists() and "ready" in ready.read_text()):
            assert self.process.poll() is None
            time.sleep(0.02)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGQUIT)  # at once: no checkpoint, no goodbye
        self.process.wait(60)


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_a_server_that_stops_at_once_loses_nothing(engine, capsys):
    with tempfile.TemporaryDirectory(prefix="belated-") as home:
        server = Server(Path(home))
        place = Place(engine, f"postgresql://postgres@/postgres?host={home}", Path(home))
        folder = Path(home, "acks")
        folder.mkdir()
        exp = place.create("kills", policy=bl.policies.fixed({"A": 0.3, "B": 0.7}))
        nursery = Nursery(place.url, folder)
        try:
            for _ in range(2):
                nursery.start()
            for _ in range(2):
                time.sleep(max(SECONDS / 6, 0.6))
                server.stop()
                server.start()
            time.sleep(max(SECONDS / 6, 0.6))
        finally:
            nursery.close()
        said = _acknowledged(folder)
        counts = Counter(row[0] for row in said)
        with capsys.disabled():
            print(f"\n  postgres, 2 stops: {', '.join(f'{n} {what}' for what, n in sorted(counts.items()))}")  # noqa: T201
        with contextlib.suppress(bl.live.StorageError):
            exp.status()  # its connection is of the first server; the next one is new
        with contextlib.suppress(bl.live.StorageError):
            exp.tell("nobody", 1)
        _check(exp, said)
        assert counts["error"]
        place.close()
        server.stop()


# ---------------------------------------------------------------- a store that is served


class Service:
    """A file that a process of its own serves, at one port, however often it is killed."""

    def __init__(self, path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.command = [sys.executable, "-m", "belated", "live", "serve", str(path), "--port", str(self.port)]
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(self.command, **quiet)

    def wait(self) -> None:
        """Wait until it listens."""
        while True:
            assert self.process.poll() is None
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return
            time.sleep(0.02)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(30)


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_service_that_is_killed_loses_nothing(place, capsys, tmp_path):
    """Its clients send again what was not answered: they notice no failure, and nothing is stored twice."""
    exp = place.create("kills", policy=bl.policies.fixed({"A": 0.3, "B": 0.7}))
    token, _ = make_token(exp._store.storage, "kills", SCOPES, author="test")
    place.close()
    folder = tmp_path / "acks"
    folder.mkdir()
    rng, done = random.Random(11), Counter()  # noqa: S311
    service = Service(Path(place.url))
    nursery = Nursery(service.url, folder, token=token, timeout=120, retries=1000)
    try:
        for _ in range(WORKERS):
            nursery.start()
        end = time.monotonic() + 2 * SECONDS if SECONDS < 60 else time.monotonic() + SECONDS
        while time.monotonic() < end or done["killed servers"] < 3 or len(_acknowledged(folder)) <= 20:
            service.wait()
            time.sleep(rng.uniform(0.2, 1.0))
            _harm_service(service, nursery, rng, done)
    finally:
        nursery.close()
        service.kill()
    said = _acknowledged(folder)
    with capsys.disabled():
        counts = ", ".join(f"{n} {what}" for what, n in sorted((done + Counter(row[0] for row in said)).items()))
        print(f"\n  http: {counts}")  # noqa: T201
    assert len(said) > 20
    assert not any(row[0] == "error" for row in said)
    _check(place.again("kills", own_clock=False), said)


def _harm_service(service: Service, nursery: Nursery, rng: random.Random, done: Counter) -> None:
    """Kill the server, stop it for a while, or kill a client."""
    act = rng.random()
    if act < 0.7:
        service.kill()
        service.start()
        done["killed servers"] += 1
    elif act < 0.85:
        service.process.send_signal(signal.SIGSTOP)
        time.sleep(rng.uniform(0.05, 0.5))
        service.process.send_signal(signal.SIGCONT)
        done["stopped servers"] += 1
    else:
        nursery.kill(rng.randrange(len(nursery.workers)))
        nursery.start()
        done["killed clients"] += 1
