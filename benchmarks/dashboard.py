"""The dashboard with many decisions: how soon pages begin to come, against the cached answer, and how large they are.

`python benchmarks/dashboard.py` writes DASHBOARD.md; `--rows 100000` measures a smaller store.
"""

from __future__ import annotations

import argparse
import http.client
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from made_by import made_by

import belated as bl
from belated.live.dashboard.pages import routes
from belated.live.tokens import make_token

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

ARMS = {"Plain": 0.10, "Emoji": 0.11, "Question": 0.12, "Your name": 0.13}
PAGES = ("/answer", "/over-time", "/arrivals", "/soundness", "/changes")
ANSWER = "/v1/experiments/subject%20line/answer"
BATCH, TURNS = 10_000, 15


def fill(store: bl.live.Store, rows: int) -> bl.live.Experiment:
    """Make an experiment with so many decisions, most of whose outcomes are told, in a hundred policy versions."""
    store.storage.relax()
    policy = bl.policies.thompson_beta(decay=0.3, burn_in=0.01)
    exp = store.create(
        "subject line", arms=list(ARMS), policy=policy, outcome=bl.live.binary(), baseline="Plain", planned_rows=rows
    ).start()
    rng = np.random.default_rng(0)
    for first in range(0, rows, BATCH):
        replies = exp.ask_many([f"unit-{i}" for i in range(first, min(first + BATCH, rows))])
        arrives = rng.random(len(replies)) < 0.9
        exp.tell_many(
            [
                (each.unit, float(rng.random() < ARMS[each.arm]))
                for each, known in zip(replies, arrives, strict=True)
                if known
            ]
        )
        exp.tick()
    return exp


def first_byte(port: int, path: str, secret: str) -> tuple[float, int]:
    """Return the seconds until the first byte of a page is there, and its size."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    began = time.perf_counter()
    connection.request("GET", path, headers={"cookie": f"belated_browser={secret}"})
    reply = connection.getresponse()
    first = reply.read(1)
    seconds = time.perf_counter() - began
    body = first + reply.read()
    connection.close()
    if reply.status != 200:
        raise SystemExit(f"{path}: {reply.status} {body[:500]!r}")
    return seconds, 0 if b"data-soon" in body else len(body)


def measured(rows: int) -> list[str]:
    """Return the lines of the page."""
    from served import serving  # the tests' own

    with (
        tempfile.TemporaryDirectory(prefix="belated-") as folder,
        bl.live.open(f"{folder}/shop.belated", ticking=False) as store,
    ):
        fill(store, rows)
        with serving(store, routes=routes()) as served:
            secret, _ = make_token(store.storage, "bench", ["read", "admin"], author="bench", kind="browser")
            began = time.perf_counter()
            while not first_byte(served.port, "/answer?experiment=subject+line&part=content", secret)[1]:
                time.sleep(0.2)
            drawn = time.perf_counter() - began
            exp: Any = served.app.service._experiments["subject line"]
            within = statistics.median(_timed(exp.answer) for _ in range(TURNS))
            own = statistics.median(first_byte(served.port, ANSWER, secret)[0] for _ in range(TURNS))
            lines = [f"| the cached answer, in the process | {within * 1e3:.1f} ms | {within / own:.1f} | | |"]
            lines.append(f"| the cached answer, over HTTP | {own * 1e3:.1f} ms | 1.0 | | |")
            for path in PAGES:
                whole, part = (f"{path}?experiment=subject+line{more}" for more in ("", "&part=content"))
                loads = [first_byte(served.port, whole, secret) for _ in range(TURNS)]
                seconds = statistics.median(each for each, _ in loads)
                size = first_byte(served.port, part, secret)[1] if path != "/changes" else 0
                ratio = seconds / own
                limit = "" if ratio <= 3 and size <= 50_000 else " **missed**"
                shown = f"{size / 1000:.1f} kB" if size else "–"
                lines.append(
                    f"| {path} | {seconds * 1e3:.1f} ms | {ratio:.1f}{limit} | {loads[0][1] / 1000:.1f} kB | {shown} |"
                )
            lines.append(f"| the first answer with all its charts | {drawn:.1f} s | | | |")
            return lines


def _timed(act: Any) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--print", action="store_true", help="print, and write nothing")
    given = parser.parse_args()
    text = "\n".join([
        "# The dashboard with many decisions", "",
        f"{given.rows:,} decisions of 4 arms, 90 % told, SQLite. {made_by()} A page shows the "
        "answer that is cached, so that it begins to come at most 3 times as late as that answer over HTTP; a part "
        "that is swapped has at most 50 kB. Only ratios travel.", "",
        "| | first byte | of the cached answer | page | part |", "|---|--:|--:|--:|--:|", *measured(given.rows), "",
    ])  # fmt: skip
    print(text)
    if not given.print:
        Path(__file__).with_name("DASHBOARD.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
