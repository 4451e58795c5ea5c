from __future__ import annotations

import os
import threading

import pytest

from belated.base.threads import Threads, leave


def test_nobody_waits_for_threads_after_an_interrupt(monkeypatch):
    codes = []
    monkeypatch.setattr(os, "_exit", codes.append)
    leave(130)
    assert not codes
    begun, end = threading.Event(), threading.Event()

    def task():
        begun.set()
        end.wait(60)

    def work():
        with Threads(1) as threads:
            futures.extend(threads.submit(task) for _ in range(2))
            begun.wait(60)
            raise KeyboardInterrupt

    futures = []
    try:
        with pytest.raises(KeyboardInterrupt):
            work()
        assert not futures[0].done()
        assert futures[1].cancelled()
        leave(130)
        assert codes == [130]
    finally:
        end.set()
    assert futures[0].result(60) is None


def test_threads_are_waited_for_otherwise():
    with Threads(1) as threads:
        future = threads.submit(sum, [1, 2])
    assert future.done()
