from __future__ import annotations

import itertools
import threading
import time

import belated as bl
from belated.live.design import plan_setup
from belated.live.ticking import Ticker


def test_a_tick_that_fails_does_not_end_the_next_ones():
    ticks, made = [], threading.Event()

    def tick(name):
        ticks.append(name)
        if len(ticks) < 3:
            raise RuntimeError("what nobody expected")
        made.set()

    ticker = Ticker(tick)
    try:
        ticker.follow("x", plan_setup(["A"], bl.live.binary(), baseline=None, planned_rows=10, seconds=0.01))
        for _ in range(1000):
            ticker.note("x", 1)
            if made.wait(0.05):
                break
        assert made.is_set()
    finally:
        ticker.close()


def test_rows_from_before_it_was_opened_get_a_version():
    made = threading.Event()
    ticker = Ticker(lambda name: made.set())
    try:
        setup = plan_setup(["A"], bl.live.binary(), baseline=None, planned_rows=10, seconds=0.01)
        ticker.follow("x", setup)
        assert made.wait(30)  # nobody has noted a row
    finally:
        ticker.close()


def test_it_rests_between_versions_however_much_is_new():
    spans, enough = [], threading.Event()

    def tick(name):
        began = time.monotonic()
        time.sleep(0.01)
        spans.append((began, time.monotonic()))
        if len(spans) == 4:
            enough.set()

    ticker = Ticker(tick)
    try:
        ticker.follow("x", plan_setup(["A"], bl.live.binary(), baseline=None, planned_rows=10, seconds=60))
        while not enough.wait(0.001):
            ticker.note("x", 100)
    finally:
        ticker.close()
    for (began, ended), (next_began, _) in itertools.pairwise(spans):
        assert next_began - ended >= min(2.9 * (ended - began), 0.49)
