"""The service: asks over HTTP against the same route without storage, and against calls in process, in one run.

`python benchmarks/service.py` writes SERVICE.md. Everything is on this machine: a server process, and wrk, which sends
requests over connections that stay open and takes little of the processors itself. PostgreSQL is a server of its own
that flushes every commit, if there is one.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from live import SLOWER, experiment, insert, missed, postgres, slow_down, timed

import belated as bl
from belated.live.tokens import SCOPES, make_token

TURNS, SECONDS, BATCH = 5, 2, 100

#: Under overload: requests that may wait, clients with and without it, and connections whose asks are timed.
QUEUE, FEW, MANY, PROBES = 64, 48, 512, 8

Line = tuple[str, str, str, float | None, str]

#: The servers' processes, by their ports.
PROCESSES: dict[int, int] = {}

#: Serves a store; "stub" serves the same route with a reply that is not stored.
SERVER = """
import sys
import uvicorn
import belated as bl
from live import slow_down
from belated.live.records import Decision
from belated.live.service import Settings, make_app
from belated.live.serving import configured

place, kind, slower, waiting = sys.argv[1:]
store = bl.live.open(place, ticking=kind != "stub")
if float(slower):
    slow_down(store, float(slower))
app = make_app(store, Settings(waiting=int(waiting)), alone=True)
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
def served(place: str, kind: str = "store", slower: float = 0.0, waiting: int = 10_000) -> Iterator[int]:
    """Serve a store from a process of its own; give its port once it is ready."""
    command, folder = [sys.executable, "-c", SERVER, place, kind, str(slower), str(waiting)], Path(__file__).parent
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder) as process:  # noqa: S603
        assert process.stdout is not None  # noqa: S101
        port = int(process.stdout.readline())
        PROCESSES[port] = process.pid
        try:
            while True:
                with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/ready"):
                    break
                time.sleep(0.1)
            yield port
        finally:
            process.terminate()


# ---------------------------------------------------------------- what sends


def sending(port: int, token: str, clients: int, batch: int = 0, seconds: int = SECONDS) -> subprocess.Popen[str]:
    """Begin to send for some seconds, over connections that stay open."""
    act = "ask-many" if batch else "ask"
    url = f"http://127.0.0.1:{port}/v1/experiments/bench/{act}"
    about = {"FIRST": f"{time.time_ns()}-", "TOKEN": token, "BATCH": str(batch)}
    script = str(Path(__file__).with_name("service.lua"))
    command = ["wrk", "-t1", f"-c{clients}", f"-d{seconds}s", "-s", script, "--timeout", "30s", url]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | about)  # noqa: S603


def sent(process: subprocess.Popen[str]) -> tuple[float, float]:
    """Return the requests a second, and the seconds below which 99 of 100 took."""
    requests, micros, failed, late = map(int, process.communicate()[0].splitlines()[-1].split())
    if failed:
        raise SystemExit(f"{failed:,} of {requests:,} requests failed.")
    return requests / micros * 1e6, late / 1e6


def sends(port: int, token: str, clients: int, batch: int = 0) -> tuple[float, float]:
    """Send for some seconds; return the requests a second, and the seconds below which 99 of 100 took."""
    return sent(sending(port, token, clients, batch))


def used(port: int) -> float:
    """Return the seconds of processor time that a server has used; a busy machine changes it less than the clock."""
    fields = Path(f"/proc/{PROCESSES[port]}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# ---------------------------------------------------------------- what is measured


def prepared(place: str) -> tuple[bl.live.Experiment, str]:
    """Make a store with an experiment; return it with a token."""
    exp = experiment(place, "bench")
    return exp, make_token(exp._store.storage, "bench", SCOPES, author="bench")[0]


def in_process(exp: bl.live.Experiment) -> float:
    """Return the units a second of batches in process; for as long as a server is asked, so that files are as large."""
    seconds, number = 0.0, 0
    while seconds < SECONDS:
        parts = [[f"{time.time_ns()}-{i}" for i in range(BATCH)] for _ in range(100)]
        seconds += timed(lambda parts=parts: [exp.ask_many(part) for part in parts])
        number += 100 * BATCH
    return number / seconds


def asks(folder: str, slower: float = 0.0) -> list[Line]:
    """Compare asks with the same route without storage, and with calls in process; all take turns."""
    place, stub_place, own_place = (f"{folder}/{name}-{slower}.belated" for name in ("served", "stub", "own"))
    exp, token = prepared(place)
    stub, stub_token = prepared(stub_place)
    own, _ = prepared(own_place)
    slow_down(own._store, slower)
    names: dict[str, list[float]] = {}

    def note(name: str, value: float) -> None:
        names.setdefault(name, []).append(value)

    with served(place, slower=slower) as port, served(stub_place, "stub") as bare:
        for _ in range(TURNS):
            for clients in (16, 64):
                for name, whose in (("ask", (port, token)), ("stub", (bare, stub_token))):
                    before = used(whose[0])
                    rate, wait = sends(*whose, clients)
                    note(f"{name} {clients}", rate)
                    note(f"{name} {clients} p99", wait)
                    note(f"{name} {clients} used", (used(whose[0]) - before) / (rate * SECONDS))
            note("commit", statistics.median(timed(lambda: insert(own, 1)) for _ in range(100)))
            before = used(port)
            note("many", sends(port, token, 1, BATCH)[0] * BATCH)
            note("many used", (used(port) - before) / (names["many"][-1] * SECONDS))
            note("in process", in_process(own))
    for each in (exp, stub, own):
        each._store.close()
    medians = {name: statistics.median(values) for name, values in names.items()}
    disk = ", slow disk" if slower else ""
    lines: list[Line] = [
        (f"/ask, {n} clients{disk}", f"{medians[f'ask {n}']:,.0f}/s", f"{medians[f'stub {n}']:,.0f}/s, not stored",
         medians[f"ask {n}"] / medians[f"stub {n}"], "at least 0.6")
        for n in (16, 64)
    ]  # fmt: skip
    wait, bare_wait = medians["ask 64 p99"], medians["stub 64 p99"]
    return [
        *lines,
        (f"/ask-many by 100, one client{disk}", f"{medians['many']:,.0f} units/s",
         f"{medians['in process']:,.0f}/s, in process", medians["many"] / medians["in process"], "at least 0.8"),
        (f"/ask, 64 clients, p99{disk}", f"{1000 * wait:.1f} ms", f"{1000 * medians['commit']:.2f} ms, one commit",
         wait / medians["commit"], "at most 6"),
        ("the same", f"{1000 * wait:.1f} ms", f"{1000 * bare_wait:.1f} ms, not stored", wait / bare_wait, "-"),
        (f"/ask, 64 clients, the server's processor time{disk}", f"{1e6 * medians['ask 64 used']:.0f} microseconds",
         f"{1e6 * medians['stub 64 used']:.0f} microseconds, not stored",
         medians["ask 64 used"] / medians["stub 64 used"], "-"),
        (f"/ask-many by 100, the server's processor time{disk}",
         f"{1e6 * medians['many used']:.1f} microseconds a unit", "-", None, "-"),
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
            quiet.append(sends(port, token, 16)[1])
            command = [sys.executable, "-c", READER, request.full_url, token]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reader:  # noqa: S603
                assert reader.stdout is not None  # noqa: S101
                reader.stdout.readline()  # it has begun
                busy.append(sends(port, token, 16)[1])
                reader.terminate()
                tags |= {*reader.stdout.read().splitlines()}
    what = f"/ask, 16 clients, p99 while {len(tags)} answers of {rows:,} units are computed"
    late, usual = statistics.median(busy), statistics.median(quiet)
    return what, f"{1000 * late:.1f} ms", f"{1000 * usual:.1f} ms, none", late / usual, "at most 2"


def asked(port: int, token: str, unit: str, seconds: float) -> tuple[list[float], int]:
    """Ask one after another for some seconds; return the time of each that was accepted, and how many were not."""
    head = {"Authorization": f"Bearer {token}", "Host": "localhost"}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    times, refused, end = [], 0, time.monotonic() + seconds
    while (began := time.monotonic()) < end:
        connection.request("POST", "/v1/experiments/bench/ask", f'{{"unit": "{unit}-{len(times)}-{refused}"}}', head)
        reply = connection.getresponse()
        reply.read()
        if reply.status == 200:
            times.append(time.monotonic() - began)
            continue
        if reply.status != 503 or "retry-after" not in reply.headers:
            raise SystemExit(f"A request was refused with {reply.status}, and without a time to come again.")
        refused += 1
        time.sleep(0.02)  # less than it was asked to wait
    connection.close()
    return times, refused


def overloaded(folder: str) -> Line:
    """Compare the times of asks that are accepted while many more clients come than may wait, and while few do."""
    exp, token = prepared(f"{folder}/overload.belated")
    exp._store.close()
    late: dict[int, list[float]] = {FEW: [], MANY: []}
    refused = 0
    with served(f"{folder}/overload.belated", waiting=QUEUE) as port, ThreadPoolExecutor(PROBES) as probes:
        for turn in range(TURNS):
            for clients, waits in late.items():
                others = sending(port, token, clients, seconds=2 * SECONDS)
                units = [f"{turn}-{clients}-{probe}" for probe in range(PROBES)]
                probed = [*probes.map(lambda unit: asked(port, token, unit, 1.5 * SECONDS), units)]
                others.communicate()
                times = [each for accepted, _ in probed for each in accepted]
                waits.append(statistics.quantiles(times, n=100)[-1] if len(times) > 1 else float("inf"))
                refused += sum(number for _, number in probed) if clients == MANY else 0
    if not refused:
        raise SystemExit("Nobody was refused, so that this was no overload.")
    busy, usual = (statistics.median(late[clients]) for clients in (MANY, FEW))
    return (
        f"/ask, p99 of what is accepted, {MANY} clients where {QUEUE} may wait",
        f"{1000 * busy:.1f} ms",
        f"{1000 * usual:.1f} ms, {FEW} clients",
        busy / usual,
        "-",
    )


def servers(url: str) -> Line:
    """Compare two servers on one database with one."""
    exp, token = prepared(url)
    rates: dict[int, list[float]] = {1: [], 2: []}
    with served(url) as first, served(url) as second:
        for _ in range(TURNS):
            rates[1].append(sends(first, token, 64)[0])
            both = [sending(port, token, 32) for port in (first, second)]
            rates[2].append(sum(sent(each)[0] for each in both))
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
    parser.add_argument("--rows", type=int, default=100_000)
    given = parser.parse_args()
    if shutil.which("wrk") is None:
        raise SystemExit("wrk, which sends the requests, is missing; run `apt-get install wrk`.")
    with tempfile.TemporaryDirectory(prefix="belated-") as folder:
        lines = [*asks(folder), *asks(folder, SLOWER), answering(folder, given.rows), overloaded(folder)]
        with postgres() as url:
            lines += [] if url is None else [servers(url)]
    table = [f"| {a} | {b} | {c} | {'-' if d is None else f'{d:.2f}'} | {e} |" for a, b, c, d, e in lines]
    machine = _MACHINE.format(cores=os.cpu_count(), python=platform.python_version(), load=os.getloadavg()[0])
    text = "\n".join([_HEAD, *table, "", *missed(lines), machine, ""])
    (Path(__file__).parent / "SERVICE.md").write_text(text)
    print(text)


_HEAD = """# Speed of the service

A server, and wrk, which sends requests over connections that stay open, on one machine; everything that is answered
is on the disk. "Not stored" is the same application with the same checks of host, token and body, and a reply that is
made up. Parts of a comparison take turns in one run; values are medians. On the
slow disk every commit takes 5 ms longer, as LIVE.md explains.

Python serves 64 clients that wait one after the other: the last of them waits for the HTTP of 63 others, whatever the
storage does. The line "not stored" says how long that is.

Under overload, whoever comes while the queue is full is told to come again (503 with Retry-After); clients that come
again at once, as here, take processor time from those that are accepted.

A batch wakes the thread that reads, the one that writes and the client one after another. On a shared machine this
makes the ratio of /ask-many to calls in process swing from run to run; one run does not settle it.

| what | value | compared with | ratio | target |
|:--|--:|:--|--:|--:|"""

_MACHINE = (
    "{cores} cores, shared by the server, the process that sends, the storage and others (load {load:.1f}); "
    "Python {python}. Seconds do not travel, ratios do. Run again: `python benchmarks/service.py`."
)


if __name__ == "__main__":
    main()
