"""The service: asks over HTTP against the same route without storage, and against calls in process, in one run.

`python benchmarks/service.py` writes SERVICE.md. Everything is on this machine: a server process, and a process that
sends requests over connections that stay open. PostgreSQL is a server of its own that flushes every commit, if there is
one.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from live import SLOWER, experiment, insert, missed, postgres, slow_down, timed

import belated as bl
from belated.live.tokens import SCOPES, make_token

TURNS, SECONDS, BATCH = 3, 1.0, 100

Line = tuple[str, str, str, float | None, str]

#: Serves a store; "stub" serves the same route with a reply that is not stored.
SERVER = """
import sys
import uvicorn
import belated as bl
from live import slow_down
from belated.live.records import Decision
from belated.live.service import make_app
from belated.live.service.serving import configured

place, kind, slower = sys.argv[1:]
store = bl.live.open(place, ticking=kind != "stub")
if float(slower):
    slow_down(store, float(slower))
app = make_app(store, closes_store=True)
if kind == "stub":
    reply = Decision("customer", "A", {"A": 1 / 3, "B": 1 / 3, "C": 1 / 3}, 1, None)

    async def ask_async(self, unit, segment=None):
        return reply._replace(unit=unit)

    bl.live.Experiment.ask_async = ask_async
server = uvicorn.Server(configured(app, host="127.0.0.1", port=0))

async def main():
    config = server.config
    config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    print(server.servers[0].sockets[0].getsockname()[1], flush=True)
    with server.capture_signals():
        await server.main_loop()
    await server.shutdown()

import asyncio
asyncio.run(main())
"""


#: Asks for answers without a pause, and prints the tag of each.
READER = """
import sys
import urllib.request
request = urllib.request.Request(sys.argv[1], headers={"Authorization": f"Bearer {sys.argv[2]}"})
while True:
    with urllib.request.urlopen(request) as reply:
        print(reply.headers["etag"], flush=True)
"""


@contextlib.contextmanager
def served(place: str, kind: str = "store", slower: float = 0.0) -> Iterator[int]:
    """Serve a store from a process of its own; give its port once it is ready."""
    command, here = [sys.executable, "-c", SERVER, place, kind, str(slower)], Path(__file__).parent
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=here) as process:  # noqa: S603
        assert process.stdout is not None  # noqa: S101
        port = int(process.stdout.readline())
        try:
            while True:
                with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/ready"):
                    break
                time.sleep(0.1)
            yield port
        finally:
            process.terminate()


# ---------------------------------------------------------------- the process that sends


async def client(port: int, head: bytes, number: int, end: float, batch: int, times: list[float]) -> None:
    """Send one request after another over one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    sent = 0
    while time.perf_counter() < end:
        names = [f"{os.getpid()}-{number}-{sent}-{i}-{time.time_ns()}" for i in range(batch or 1)]
        body = json.dumps({"units": names} if batch else {"unit": names[0]}).encode()
        start = time.perf_counter()
        writer.write(head % len(body) + body)
        found = await reader.readuntil(b"\r\n\r\n")
        length = int(found.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        await reader.readexactly(length)
        if not found.startswith(b"HTTP/1.1 200"):
            raise SystemExit(found.decode())
        times.append(time.perf_counter() - start)
        sent += 1
    writer.close()


async def load(port: int, token: str, clients: int, seconds: float, batch: int) -> None:
    """Send for some seconds; print each request's time."""
    act = "ask-many" if batch else "ask"
    head = (
        f"POST /v1/experiments/bench/{act} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    ).encode()
    times: list[float] = []
    end = time.perf_counter() + seconds
    await asyncio.gather(*(client(port, head, number, end, batch, times) for number in range(clients)))
    print(json.dumps(times))


def sends(
    port: int, token: str, clients: int, *, batch: int = 0, seconds: float = SECONDS
) -> tuple[float, list[float]]:
    """Have a process send for some seconds; return the requests a second and the time of each."""
    command = [sys.executable, __file__, "--load", str(port), token, str(clients), str(seconds), str(batch)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)  # noqa: S603
    times = json.loads(done.stdout)
    return len(times) / seconds, times


def p99(times: list[float]) -> float:
    """Return the time below which 99 of 100 are."""
    return statistics.quantiles(times, n=100)[98]


# ---------------------------------------------------------------- what is measured


def prepared(place: str) -> tuple[bl.live.Experiment, str]:
    """Make a store with an experiment; return it with a token."""
    exp = experiment(place, "bench")
    return exp, make_token(exp._store.storage, "bench", SCOPES, author="bench")[0]


def asks(folder: str, slower: float = 0.0) -> list[Line]:
    """Compare asks with the same route without storage, and with calls in process; all take turns."""
    place, stub_place, own_place = (f"{folder}/{name}-{slower}.belated" for name in ("served", "stub", "own"))
    exp, token = prepared(place)
    stub, stub_token = prepared(stub_place)
    own, _ = prepared(own_place)
    slow_down(own._store, slower)
    names: dict[str, list[float]] = {}
    waits: list[float] = []
    bare_waits: list[float] = []

    def note(name: str, value: float) -> None:
        names.setdefault(name, []).append(value)

    with served(place, slower=slower) as port, served(stub_place, "stub") as bare:
        for _ in range(TURNS):
            for clients in (16, 64):
                rate, times = sends(port, token, clients)
                bare_rate, bare_times = sends(bare, stub_token, clients)
                note(f"ask {clients}", rate)
                note(f"stub {clients}", bare_rate)
            waits, bare_waits = waits + times, bare_waits + bare_times
            note("commit", statistics.median(timed(lambda: insert(own, 1)) for _ in range(100)))
            note("many", sends(port, token, 1, batch=BATCH)[0] * BATCH)
            parts = [[f"{time.time_ns()}-{i}" for i in range(BATCH)] for _ in range(100)]
            note("in process", 100 * BATCH / timed(lambda parts=parts: [own.ask_many(part) for part in parts]))
    for each in (exp, stub, own):
        each._store.close()
    found = {name: statistics.median(values) for name, values in names.items()}
    disk = ", slow disk" if slower else ""
    lines: list[Line] = [
        (f"/ask, {n} clients{disk}", f"{found[f'ask {n}']:,.0f}/s", f"{found[f'stub {n}']:,.0f}/s, not stored",
         found[f"ask {n}"] / found[f"stub {n}"], "at least 0.6")
        for n in (16, 64)
    ]  # fmt: skip
    wait, bare_wait = p99(waits), p99(bare_waits)
    return [
        *lines,
        (f"/ask-many by 100, one client{disk}", f"{found['many']:,.0f} units/s",
         f"{found['in process']:,.0f}/s, in process", found["many"] / found["in process"], "at least 0.8"),
        (f"/ask, 64 clients, p99{disk}", f"{1000 * wait:.1f} ms", f"{1000 * found['commit']:.2f} ms, one commit",
         wait / found["commit"], "at most 6"),
        ("the same", f"{1000 * wait:.1f} ms", f"{1000 * bare_wait:.1f} ms, not stored", wait / bare_wait, "-"),
    ]  # fmt: skip


def answering(folder: str, rows: int) -> Line:
    """Compare the times of asks while answers are computed with those while none is."""
    place = f"{folder}/answers.belated"
    exp, token = prepared(place)
    for first in range(0, rows, 10_000):
        units = [f"unit-{first + i}" for i in range(10_000)]
        exp.ask_many(units)
        exp.tell_many((unit, float(i % 3 == 0)) for i, unit in enumerate(units[::2]))
    exp._store.close()
    with served(place) as port:
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/v1/experiments/bench/answer", headers={"Authorization": f"Bearer {token}"}
        )
        urllib.request.urlopen(request).read()  # noqa: S310
        quiet, busy, tags = [], [], set()
        for _ in range(TURNS):
            quiet += sends(port, token, 16)[1]
            command = [sys.executable, "-c", READER, request.full_url, token]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reader:  # noqa: S603
                assert reader.stdout is not None  # noqa: S101
                reader.stdout.readline()  # it has begun
                busy += sends(port, token, 16)[1]
                reader.terminate()
                tags |= {*reader.stdout.read().splitlines()}
    made = len(tags)
    what = f"/ask, 16 clients, p99 while {made} answers of {rows:,} units are computed"
    return what, f"{1000 * p99(busy):.1f} ms", f"{1000 * p99(quiet):.1f} ms, none", p99(busy) / p99(quiet), "at most 2"


def servers(url: str) -> Line:
    """Compare two servers on one database with one."""
    exp, token = prepared(url)
    rates: dict[int, list[float]] = {1: [], 2: []}
    with served(url) as first, served(url) as second:
        for _ in range(TURNS):
            rates[1].append(sends(first, token, 64)[0])
            command = [sys.executable, __file__, "--load", str(second), token, "32", str(SECONDS), "0"]
            with subprocess.Popen(command, stdout=subprocess.PIPE) as other:  # noqa: S603
                rate, _ = sends(first, token, 32)
                rates[2].append(rate + len(json.loads(other.communicate()[0])) / SECONDS)
    exp._store.close()
    one, two = statistics.median(rates[1]), statistics.median(rates[2])
    return (
        "PostgreSQL: /ask, 64 clients, two servers",
        f"{two:,.0f}/s",
        f"{one:,.0f}/s, one server",
        two / one,
        "at least 1.5",
    )


def main() -> None:
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--load", nargs=5, metavar=("PORT", "TOKEN", "CLIENTS", "SECONDS", "BATCH"))
    parser.add_argument("--rows", type=int, default=100_000)
    given = parser.parse_args()
    if given.load:
        port, token, clients, seconds, batch = given.load
        asyncio.run(load(int(port), token, int(clients), float(seconds), int(batch)))
        return
    with tempfile.TemporaryDirectory(prefix="belated-") as folder:
        lines = [*asks(folder), *asks(folder, SLOWER), answering(folder, given.rows)]
        with postgres() as url:
            lines += [] if url is None else [servers(url)]
    table = [f"| {a} | {b} | {c} | {'-' if d is None else f'{d:.2f}'} | {e} |" for a, b, c, d, e in lines]
    machine = _MACHINE.format(cores=os.cpu_count(), python=platform.python_version(), load=os.getloadavg()[0])
    text = "\n".join([_HEAD, *table, "", *missed(lines), machine, ""])
    (Path(__file__).parent / "SERVICE.md").write_text(text)
    print(text)


_HEAD = """# Speed of the service

A server, and a process that sends requests over connections that stay open, on one machine; everything that is answered
is on the disk. "Not stored" is the same application with the same checks of host, token and body, and a reply that is
made up. Parts of a comparison take turns in one run; values are medians, and times at p99 are of all requests. On the
slow disk every commit takes 5 ms longer, as LIVE.md explains.

Python serves 64 clients that wait one after the other: the last of them waits for the HTTP of 63 others, whatever the
storage does. The line "not stored" says how long that is.

| what | value | compared with | ratio | target |
|:--|--:|:--|--:|--:|"""

_MACHINE = (
    "{cores} cores, shared by the server, the process that sends, the storage and others (load {load:.1f}); "
    "Python {python}. Seconds do not travel, ratios do. Run again: `python benchmarks/service.py`."
)


if __name__ == "__main__":
    main()
