"""Live experiments: what durable asks, ticks and answers cost, against the storage's own ceiling, in one run.

`python benchmarks/live.py` writes LIVE.md; `--parts asks` measures a part of it, `--rows 100000` a smaller file.
PostgreSQL is a server of its own that flushes every commit, if there is one.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import belated as bl
from belated.base.errors import without_warnings
from belated.live import writer
from belated.live.schema import COLUMNS
from belated.live.sqlite import SQLiteSession

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

CALLERS, EACH, BATCH, TURNS = 256, 20, 1000, 7

#: Seconds that a commit takes longer on a disk that is made slow: a flush of 5 ms is that of many servers.
SLOWER = 0.005

#: What is measured, its value, the floor or ceiling, the ratio, and what it must be.
Line = tuple[str, str, str, float | None, str]

_NUMBERS = count()

_EXECUTEMANY = f"insert into decision values ({', '.join('?' * len(COLUMNS['decision']))})"  # noqa: S608

_ARRAYS = (
    f"insert into decision ({', '.join(COLUMNS['decision'])}) select * from unnest("  # noqa: S608
    + ", ".join(f"%b::{'text' if column == 'unit' else 'bigint'}[]" for column in COLUMNS["decision"])
    + ")"
)


def units(number: int) -> list[str]:
    """Return so many units that nobody has asked for."""
    return [f"unit-{next(_NUMBERS)}" for _ in range(number)]


def timed(act: Callable[[], Any]) -> float:
    """Return the seconds that something takes."""
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


@contextlib.contextmanager
def postgres() -> Iterator[str | None]:
    """Serve a new cluster that flushes every commit; give its URL, None if there is no PostgreSQL."""
    from engines import _postgres_binaries, _unprivileged  # the tests' own

    binaries, user = _postgres_binaries(), _unprivileged()
    if binaries is None:
        yield None
        return
    run_as: dict[str, Any] = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
    with tempfile.TemporaryDirectory(prefix="belated-", ignore_cleanup_errors=True) as folder:
        if user:
            os.chown(folder, user.pw_uid, user.pw_gid)
        make = [binaries / "initdb", "-D", f"{folder}/data", "-U", "postgres", "-A", "trust", "-E", "UTF8"]
        subprocess.run(make, cwd=folder, check=True, capture_output=True, **run_as)  # noqa: S603
        serve = [binaries / "postgres", "-D", f"{folder}/data", "-k", folder, "-c", "listen_addresses="]
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(serve, cwd=folder, **quiet, **run_as) as server:  # noqa: S603
            ready = Path(folder, "data", "postmaster.pid")
            while not (ready.exists() and "ready" in ready.read_text()):
                time.sleep(0.05)
            try:
                yield f"postgresql://postgres@/postgres?host={folder}"
            finally:
                server.send_signal(signal.SIGINT)


def experiment(place: str, name: str, policy: Any = None) -> bl.live.Experiment:
    """Create an experiment in a store that makes no versions by itself."""
    store = bl.live.open(place, ticking=False)
    given: dict[str, Any] = {"arms": ["A", "B", "C"], "outcome": bl.live.binary(), "baseline": "A"}
    return store.create(name, policy=policy or bl.policies.uniform(), planned_rows=1_000_000, **given).start()


# ---------------------------------------------------------------- asks and tells


def insert(exp: bl.live.Experiment, number: int, *, copied: bool = False) -> None:
    """Insert decisions in one commit, with nothing else done: what the storage's own driver can do."""
    rest = (None,) * (len(COLUMNS["decision"]) - 6)
    with exp._store.storage.writing() as session:
        pairs = zip(session.new_ids(number), units(number), strict=True)
        rows = [(key, exp._id, unit, 0, 1, session.now, *rest) for key, unit in pairs]
        if isinstance(session, SQLiteSession):
            session._run.executemany(_EXECUTEMANY, rows)
        elif copied:
            columns = ", ".join(COLUMNS["decision"])
            with session._connection.cursor().copy(f"copy decision ({columns}) from stdin") as copy:
                for row in rows:
                    copy.write_row(row)
        elif number == 1:
            session.add("decision", rows)
        else:  # executemany of psycopg takes four times as long
            session._connection.execute(_ARRAYS, [list(column) for column in zip(*rows, strict=True)])


def threads(call: Callable[[str], object]) -> float:
    """Return the calls a second of many threads, each waiting for its own replies."""
    together = threading.Barrier(CALLERS + 1)

    def work(own: list[str]) -> None:
        together.wait()
        for unit in own:
            call(unit)

    crew = [threading.Thread(target=work, args=(units(EACH),)) for _ in range(CALLERS)]
    for thread in crew:
        thread.start()
    together.wait()
    return CALLERS * EACH / timed(lambda: [thread.join() for thread in crew])


def tasks(call: Callable[[str], Awaitable[object]]) -> float:
    """Return the calls a second of many tasks of an event loop, each waiting for its own replies."""

    async def work(own: list[str]) -> None:
        for unit in own:
            await call(unit)

    async def all_of_them() -> float:
        own = [units(EACH) for _ in range(CALLERS)]
        start = time.perf_counter()
        await asyncio.gather(*map(work, own))
        return CALLERS * EACH / (time.perf_counter() - start)

    return asyncio.run(all_of_them())


class Nothing:
    """A storage that stores nothing, so that only the waiting and the waking of callers is measured."""

    @contextlib.contextmanager
    def writing(self, experiments: Collection[str] = ()) -> Iterator[None]:
        """Give nothing to write to."""
        yield None


def waking() -> tuple[float, float]:
    """Return the calls a second of threads and of tasks that are only queued and woken."""
    with mock.patch.object(writer, "ask", lambda _session, _name, units: units):
        queue = writer.Writer(Nothing(), lambda *_: None)  # type: ignore[arg-type]
        pairs = [
            (threads(lambda u: queue.submit("ask", "", [u])), tasks(lambda u: queue.submit_async("ask", "", [u])))
            for _ in range(TURNS)
        ]
        queue.close()
    return statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs)


def flush(folder: str) -> float:
    """Return the seconds that the disk takes to keep 4 KiB."""
    with tempfile.TemporaryFile(dir=folder) as file:

        def once() -> None:
            os.write(file.fileno(), bytes(4096))
            os.fdatasync(file.fileno())

        return statistics.median(timed(once) for _ in range(100))


def slow_down(store: bl.live.Store, seconds: float) -> None:
    """Let every commit of a store take so much longer, as if the disk did."""
    storage: Any = store.storage
    own = storage.writing

    @contextlib.contextmanager
    def writing(experiments: Collection[str] = ()) -> Iterator[Any]:
        with own(experiments) as session:
            yield session
            time.sleep(seconds)

    storage.writing = writing


def asks(place: str, kind: str, share: float, woken: tuple[float, float], slower: float) -> list[Line]:
    """Measure asks and tells of one storage; the parts take turns, so that a busy machine slows all of them."""
    exp = experiment(place, "asks")
    if slower:
        slow_down(exp._store, slower)
    insert(exp, BATCH)
    names = ("top", "few", "single", "tasks", "threads", "alone", "ask", "tell", "copy")
    figures: dict[str, list[float]] = {name: [] for name in names}
    used: dict[str, list[float]] = {"top": [], "tasks": [], "ask": [], "tell": []}

    def turn(name: str, rows: int, act: Callable[[], Any]) -> None:
        before = time.process_time()
        figures[name].append(rows / timed(act))
        used.get(name, []).append((time.process_time() - before) / rows)

    for _ in range(TURNS):
        parts = [units(BATCH) for _ in range(4)]
        pairs = [[(unit, 1) for unit in part] for part in parts]
        turn("top", 4 * BATCH, lambda: [insert(exp, BATCH) for _ in range(4)])
        turn("copy", 4 * BATCH, lambda: [insert(exp, BATCH, copied=True) for _ in range(4)])
        turn("few", 4 * CALLERS, lambda: [insert(exp, CALLERS) for _ in range(4)])
        before = time.process_time()
        figures["tasks"].append(tasks(exp.ask_async))
        used["tasks"].append((time.process_time() - before) / (CALLERS * EACH))
        figures["threads"].append(threads(exp.ask))
        turn("ask", 4 * BATCH, lambda parts=parts: [exp.ask_many(part) for part in parts])
        turn("tell", 4 * BATCH, lambda pairs=pairs: [exp.tell_many(part) for part in pairs])
        figures["single"] += [timed(lambda: insert(exp, 1)) for _ in range(20)]
        with ThreadPoolExecutor(1) as thread:  # as in a server
            figures["alone"] += thread.submit(
                lambda: [timed(lambda unit=unit: exp.ask(unit)) for unit in units(20)]
            ).result()
    exp._store.close()
    top, few, single, task, thread, alone, ask, tell, copy = (statistics.median(values) for values in figures.values())
    ceiling, commit = f"{top:,.0f} rows/s, 1,000 a commit", f"{1000 * single:.2f} ms, one commit"
    lines: list[Line] = [
        (f"{kind}: {CALLERS} asyncio callers", f"{task:,.0f} asks/s", ceiling, task / top, f"at least {share}"),
        ("the same", f"{task:,.0f} asks/s", f"{1 / single:,.0f}/s, a commit each", task * single, "at least 40"),
        ("the most that such a ratio can be here", f"{top:,.0f} rows/s, 1,000 a commit",
         f"{1 / single:,.0f}/s, a commit each", top * single, "-"),
        (f"{kind}: {CALLERS} rows a commit, nothing else", f"{few:,.0f} rows/s", ceiling, few / top, "-"),
        (f"{kind}: {CALLERS} threads", f"{thread:,.0f} asks/s", ceiling, thread / top, "-"),
        ("the same", f"{thread:,.0f} asks/s", f"{woken[0]:,.0f}/s, threads that are only queued and woken",
         thread / woken[0], "-"),
        (f"{kind}: one caller, p50", f"{1000 * alone:.2f} ms", commit, alone / single, "at most 1.5"),
        (f"{kind}: ask_many by 1,000", f"{ask:,.0f}/s", ceiling, ask / top, "at least 0.6"),
        (f"{kind}: tell_many by 1,000", f"{tell:,.0f}/s", ceiling, tell / top, "at least 0.6"),
    ]  # fmt: skip
    if kind != "SQLite":  # a server has its own processes
        return [*lines, (f"{kind}: COPY of 1,000 rows a commit", f"{copy:,.0f} rows/s", ceiling, copy / top, "-")]
    floor, *costs = (statistics.median(values) for values in used.values())
    names = (f"{CALLERS} asyncio callers", "ask_many", "tell_many")
    return lines + [
        (f"{kind}: processor time of {name}", f"{1e6 * cost:.1f} microseconds a row",
         f"{1e6 * floor:.1f} microseconds, 1,000 a commit", floor / cost, "-")
        for name, cost in zip(names, costs, strict=True)
    ]  # fmt: skip


# ---------------------------------------------------------------- ticks and answers


def fill(exp: bl.live.Experiment, rows: int) -> None:
    """Ask so many units, and tell the outcomes of every other one."""
    rng = np.random.default_rng(rows)
    for first in range(0, rows, 10 * BATCH):
        asked = units(min(10 * BATCH, rows - first))
        exp.ask_many(asked)
        exp.tell_many((unit, float(rng.random() < 0.3)) for unit in asked[::2])


def tick(exp: bl.live.Experiment) -> float:
    """Return the seconds of a tick after 200 new units and 100 outcomes."""
    fill(exp, 200)
    return timed(exp.tick)


def ticks(folder: str, rows: int) -> Line:
    """Compare ticks with little and with 10 times the history."""
    policy = bl.policies.thompson_beta()
    small, large = (experiment(f"{folder}/{name}.belated", name, policy) for name in ("small", "large"))
    fill(small, rows // 10)
    fill(large, rows)
    for exp in (small, large):
        exp.tick()
        tick(exp)
    pairs = [(tick(small), tick(large)) for _ in range(40)]
    few, many = (1000 * statistics.median(column) for column in zip(*pairs, strict=True))
    for exp in (small, large):
        exp._store.close()
    what = f"a tick with {rows:,} units of history"
    return what, f"{many:.2f} ms", f"{few:.2f} ms with a tenth", many / few, "at most 1.2"


def answers(folder: str, rows: int) -> list[Line]:
    """Measure answers of a large file, its size, and how long it takes to open."""
    path = f"{folder}/answers.belated"
    exp = experiment(path, "answers", bl.policies.thompson_beta())
    for _ in range(10):
        fill(exp, rows // 10)
        exp.tick()
    exp._store.close()
    size = Path(path).stat().st_size / rows
    opened: list[bl.live.Store] = []
    reopened = timed(lambda: opened.append(bl.live.open(path, ticking=False)))
    exp = opened[0].experiment("answers")
    first = timed(lambda: exp.ask("somebody"))
    cold, pairs = timed(exp.answer), []
    for _ in range(5):
        fill(exp, 20)
        warm = timed(exp.answer)
        log, options = exp.log(), exp.setup.sequence_options
        with without_warnings():
            floor = timed(lambda log=log, options=options: (bl.estimate(log), bl.sequence(log, **options)))
        pairs.append((warm, floor))
    again = timed(exp.answer)
    exp._store.close()
    warm, floor = (statistics.median(column) for column in zip(*pairs, strict=True))
    what = f"{rows:,} units, half with outcomes"
    return [
        (f"answer(), {what}, warm", f"{warm:.2f} s", f"{floor:.2f} s, estimate and sequence in memory", warm / floor,
         "at most 3"),
        ("the same with nothing new", f"{1000 * again:.1f} ms", f"{1000 * warm:.0f} ms", again / warm, "immediate"),
        ("the first answer after opening", f"{cold:.2f} s", f"{warm:.2f} s", cold / warm, "-"),
        (f"the file of {what}", f"{size:.0f} bytes a unit", "-", None, "-"),
        ("opening it, and the first ask", f"{1000 * (reopened + first):.0f} ms", "-", None, "-"),
    ]  # fmt: skip


# ---------------------------------------------------------------- coverage


def coverage(runs: int) -> list[Line]:
    """Rehearse an experiment many times: how often its intervals hold the truth, at the end and at every look."""
    from belated.live.rehearsal import covers, rehearsal

    def one(a: float, b: float, never: float = 0.1) -> bl.Bandit:
        arms = {"A": bl.arms.bernoulli(a), "B": bl.arms.bernoulli(b)}
        return bl.Bandit(arms, bl.delays.geometric(20).censored(never))

    countries = bl.ContextualBandit({"DE": one(0.3, 0.5), "FR": one(0.4, 0.25, 0.3)}, shares={"DE": 0.6, "FR": 0.4})
    policy, lines = bl.policies.thompson_beta(burn_in=20), []
    for what, bandit, rows in (("units", one(0.3, 0.45), 400), ("units of two segments", countries, 600)):
        held = []
        for seed in range(runs):
            with rehearsal(bandit, policy, rows, seed=seed, every=20, baseline="A") as exp:
                held.append(covers(exp.answer(), bandit))
        end, always = np.mean(held, axis=0)
        shares = f"{runs:,} rehearsals of {rows} {what}"
        lines += [
            (f"answer() holds the difference at the end, {shares}", f"{end:.1%}", "95 %", None, "at least 94 %"),
            ("its sequence misses it at any look", f"{1 - always:.1%}", "5 %", None, "at most 5 %"),
        ]
    return lines


# ---------------------------------------------------------------- the table


def missed(lines: list[Line]) -> list[str]:
    """Return a sentence on the targets that this run does not meet."""
    names, before = [], ""
    for what, _, compared, ratio, target in lines:
        before = before if what == "the same" else what
        word, _, number = target.rpartition(" ")
        if ratio is not None and word in ("at least", "at most"):
            met = ratio >= float(number) if word == "at least" else ratio <= float(number)
            names += [] if met else [f"{before} against {compared.partition(', ')[2] or compared}"]
    return [f"Not met in this run: {'; '.join(names)}.", ""] if names else []


def asks_of_all(folder: str, slower: float = 0.0) -> list[Line]:
    """Measure asks and tells of both storages, and what waking callers and flushing the disk cost alone."""
    woken = waking()
    what, beside = "threads that are only queued and woken, no storage", f"{woken[1]:,.0f}/s, asyncio tasks"
    lines: list[Line] = [(what, f"{woken[0]:,.0f}/s", beside, woken[0] / woken[1], "-")]
    lines += asks(f"{folder}/asks-{slower}.belated", "SQLite", 0.3, woken, slower)
    with postgres() as url:
        lines += [] if url is None else asks(url, "PostgreSQL", 0.25, woken, slower)
    return [*lines, ("the disk keeps 4 KiB (fdatasync)", f"{1000 * flush(folder):.2f} ms", "-", None, "-")]


def section(title: str, lines: list[Line]) -> str:
    """Return a part of the page: a table, what it misses, and how busy the machine was."""
    table = [f"| {a} | {b} | {c} | {'-' if d is None else f'{d:.2f}'} | {e} |" for a, b, c, d, e in lines]
    machine = _MACHINE.format(cores=os.cpu_count(), python=platform.python_version(), load=os.getloadavg()[2])
    return "\n".join([f"## {title}", "", _COLUMNS, *table, "", *missed(lines), machine, ""])


def main() -> None:
    """Measure the parts that are asked for, and write their tables; those of other parts stay."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--parts", default=",".join(_TITLES), help="such as asks,history")
    given = parser.parse_args()
    page = Path(__file__).parent / "LIVE.md"
    kept = {part.partition("\n")[0]: f"## {part}" for part in page.read_text().split("\n## ")[1:]}
    with tempfile.TemporaryDirectory(prefix="belated-") as folder:
        measures: dict[str, Callable[[], list[Line]]] = {
            "asks": lambda: asks_of_all(folder),
            "slow": lambda: asks_of_all(folder, SLOWER),
            "history": lambda: [ticks(folder, given.rows // 5), *answers(folder, given.rows)],
            "coverage": lambda: coverage(given.runs),
        }
        for name in given.parts.split(","):
            kept[_TITLES[name]] = section(_TITLES[name], measures[name]())
            print(kept[_TITLES[name]])
    page.write_text("\n".join([_HEAD, *(kept[title].rstrip() + "\n" for title in _TITLES.values() if title in kept)]))


_TITLES = {
    "asks": "Asks and tells",
    "slow": "Asks and tells, slow disk",
    "history": "Ticks and answers",
    "coverage": "Coverage",
}

_HEAD = """# Speed of live experiments

Everything that is answered is on the disk: SQLite with a write-ahead log and `synchronous=FULL`, PostgreSQL with
`synchronous_commit=on`. Parts of a comparison take turns in one run; values are medians. The ceiling inserts 1,000 rows
of the same table in a commit and does nothing else, no lookup, no draw, no reply: by `executemany` of `sqlite3`, and by
one statement of arrays that psycopg makes of lists. Run again: `python benchmarks/live.py`.

Callers that each wait for their reply are tasks of an event loop (`ask_async`). Threads cannot be as many a second,
whatever the storage does: Python wakes them one after the other, and the first line says how often.

How close callers that wait can come to the ceiling depends on the disk. If a flush is most of a commit, 256 callers
have 256 rows in a commit, and reach at most 256/1,000 = 0.26 of a ceiling with 1,000 rows a commit; the line with 256
rows a commit says what is left to reach. If a flush takes next to nothing, the ceiling is what SQLite inserts without
Python, and Python's own time for a caller that waits is compared with it. No number of callers is more times as quick
as one commit each than the ceiling is. So asks and tells are measured twice: as this disk is, and with every commit,
that of the ceiling included, 5 ms longer, as on a disk that takes as long for a flush.
"""

_COLUMNS = """| what | value | compared with | ratio | target |
|:--|--:|:--|--:|--:|"""

_MACHINE = "{cores} cores, shared with others (load {load:.1f}); Python {python}. Seconds do not travel, ratios do."


if __name__ == "__main__":
    main()
