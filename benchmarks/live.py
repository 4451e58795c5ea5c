"""Live experiments: what durable asks, ticks and answers cost, against the storage's own ceiling, in one run.

`python benchmarks/live.py` writes LIVE.md; `--rows 100000` measures a smaller file. PostgreSQL is a server of its own
that flushes every commit, if there is one.
"""

from __future__ import annotations

import argparse
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
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

import belated as bl
from belated.base.errors import without_warnings

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

CALLERS, EACH, BATCH, TURNS = 256, 20, 1000, 5

#: What is measured, its value, the floor or ceiling, the ratio, and what it must be.
Line = tuple[str, str, str, float | None, str]

_NUMBERS = count()


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
            yield f"postgresql://postgres@/postgres?host={folder}"
            server.send_signal(signal.SIGINT)


def experiment(place: str, name: str, policy: Any = None) -> bl.live.Experiment:
    """Create an experiment in a store that makes no versions by itself."""
    store = bl.live.open(place, ticking=False)
    given: dict[str, Any] = {"arms": ["A", "B", "C"], "outcome": bl.live.binary(), "baseline": "A"}
    return store.create(name, policy=policy or bl.policies.uniform(), planned_rows=1_000_000, **given).start()


# ---------------------------------------------------------------- asks and tells


def insert(exp: bl.live.Experiment, number: int) -> None:
    """Insert decisions in one commit, with nothing else done: what the storage itself can do."""
    with exp._store.storage.writing() as session:
        keys = session.new_ids(number)
        rows = zip(keys, units(number), strict=True)
        session.add("decision", [(key, exp._id, unit, 0, 1, session.now) for key, unit in rows])


def grouped(exp: bl.live.Experiment) -> float:
    """Return the asks a second of many threads, each waiting for its own replies."""
    together = threading.Barrier(CALLERS + 1)

    def call(own: list[str]) -> None:
        together.wait()
        for unit in own:
            exp.ask(unit)

    threads = [threading.Thread(target=call, args=(units(EACH),)) for _ in range(CALLERS)]
    for thread in threads:
        thread.start()
    together.wait()
    return CALLERS * EACH / timed(lambda: [thread.join() for thread in threads])


def asks(place: str, kind: str, share: float) -> list[Line]:
    """Measure asks and tells of one storage; the parts take turns, so that a busy machine slows all of them."""
    exp = experiment(place, "asks")
    insert(exp, BATCH)
    seen: dict[str, list[float]] = {name: [] for name in ("top", "single", "group", "alone", "ask", "tell")}
    for _ in range(TURNS):
        seen["top"].append(10 * BATCH / timed(lambda: [insert(exp, BATCH) for _ in range(10)]))
        seen["single"] += [timed(lambda: insert(exp, 1)) for _ in range(60)]
        seen["group"].append(grouped(exp))
        seen["alone"] += [timed(lambda unit=unit: exp.ask(unit)) for unit in units(60)]
        parts = [units(BATCH) for _ in range(10)]
        seen["ask"].append(10 * BATCH / timed(lambda parts=parts: [exp.ask_many(part) for part in parts]))
        pairs = [[(unit, 1) for unit in part] for part in parts]
        seen["tell"].append(10 * BATCH / timed(lambda pairs=pairs: [exp.tell_many(part) for part in pairs]))
    exp._store.close()
    top, single, group, alone, ask, tell = (statistics.median(values) for values in seen.values())
    ceiling, commit = f"{top:,.0f} rows/s, 1,000 a commit", f"{1000 * single:.2f} ms, one commit"
    return [
        (f"{kind}: {CALLERS} callers", f"{group:,.0f} asks/s", ceiling, group / top, f"at least {share}"),
        ("the same", f"{group:,.0f} asks/s", f"{1 / single:,.0f}/s, a commit each", group * single, "at least 40"),
        (f"{kind}: one caller, p50", f"{1000 * alone:.2f} ms", commit, alone / single, "at most 1.5"),
        (f"{kind}: ask_many by 1,000", f"{ask:,.0f}/s", ceiling, ask / top, "at least 0.6"),
        (f"{kind}: tell_many by 1,000", f"{tell:,.0f}/s", ceiling, tell / top, "at least 0.6"),
    ]


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

    arms = {"A": bl.arms.bernoulli(0.3), "B": bl.arms.bernoulli(0.45)}
    bandit, held = bl.Bandit(arms, bl.delays.geometric(20).censored(0.1)), []
    policy = bl.policies.thompson_beta(burn_in=20)
    for seed in range(runs):
        with rehearsal(bandit, policy, 400, seed=seed, every=20, baseline="A") as exp:
            held.append(covers(exp.answer(), bandit))
    end, always = np.mean(held, axis=0)
    shares = f"{runs:,} rehearsals of 400 units"
    return [
        (f"answer() holds the difference at the end, {shares}", f"{end:.1%}", "95 %", None, "at least 94 %"),
        ("its sequence misses it at any look", f"{1 - always:.1%}", "5 %", None, "at most 5 %"),
    ]


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


def main() -> None:
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=1000)
    rows, runs = parser.parse_args().rows, parser.parse_args().runs
    with tempfile.TemporaryDirectory(prefix="belated-") as folder:
        lines = asks(f"{folder}/asks.belated", "SQLite", 0.3)
        with postgres() as url:
            lines += [] if url is None else asks(url, "PostgreSQL", 0.25)
        lines += [ticks(folder, rows // 5), *answers(folder, rows)]
    lines += coverage(runs)
    table = [f"| {a} | {b} | {c} | {'-' if d is None else f'{d:.2f}'} | {e} |" for a, b, c, d, e in lines]
    machine = _MACHINE.format(cores=os.cpu_count(), python=platform.python_version(), load=os.getloadavg()[2])
    text = "\n".join([_HEAD, *table, "", *missed(lines), machine, ""])
    (Path(__file__).parent / "LIVE.md").write_text(text)
    print(text)


_HEAD = """# Speed of live experiments

Everything that is answered is on the disk: SQLite with a write-ahead log and `synchronous=FULL`, PostgreSQL with
`synchronous_commit=on`. Parts of a comparison take turns in one run; values are medians. The ceiling inserts 1,000 rows
of the same table in a commit and does nothing else: no lookup, no draw, no reply.

| what | value | compared with | ratio | target |
|:--|--:|:--|--:|--:|"""

_MACHINE = (
    "{cores} cores, shared with others (load {load:.1f}); Python {python}. Seconds do not travel, ratios do. "
    "Run again: `python benchmarks/live.py`."
)


if __name__ == "__main__":
    main()
