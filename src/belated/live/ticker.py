"""`Ticker`: a thread that makes a version when enough is new, or some seconds after anything is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from belated.live.design import Setup

#: How long the thread rests after versions, in times that they took and in seconds at most: under load, enough is
#: always new, and asks and tells wait while a version is stored.
_REST, _LONGEST_REST = 3, 0.5


class Ticker:
    """Makes versions beside the writer, so that no ask waits for a policy.

    Parameters
    ----------
    tick : callable
        Makes a version of an experiment, given its name.
    """

    def __init__(self, tick: Callable[[str], object]) -> None:
        self._tick = tick
        self._lock, self._wake = threading.Lock(), threading.Event()
        self._setups: dict[str, Setup] = {}
        self._new: dict[str, int] = {}
        self._last: dict[str, float] = {}
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def follow(self, name: str, setup: Setup) -> None:
        """Make versions of an experiment from now on; rows that are there may not be in one yet."""
        with self._lock:
            if name not in self._setups:
                self._last[name], self._new[name] = time.monotonic(), 1
            self._setups[name] = setup
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="belated-ticker", daemon=True)
                self._thread.start()
        self._wake.set()

    def note(self, name: str, rows: int) -> None:
        """Take note of rows that were committed."""
        setup = self._setups.get(name)
        if setup is None:
            return
        with self._lock:
            before = self._new.get(name, 0)
            self._new[name] = before + rows
        if before == 0 or before + rows >= setup.every:
            self._wake.set()

    def close(self) -> None:
        """Stop; what is due is made by whoever opens the store next."""
        self._closed.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        while not self._closed.is_set():
            self._wake.wait(self._patience())
            self._wake.clear()
            if not self._closed.is_set():
                began = time.monotonic()
                self._serve()
                self._closed.wait(min(_REST * (time.monotonic() - began), _LONGEST_REST))

    def _patience(self) -> float | None:
        """Return the seconds until the next version is due; None if nothing is new."""
        now = time.monotonic()
        with self._lock:
            waits = [
                self._last[name] + setup.seconds - now
                for name, setup in self._setups.items()
                if self._new.get(name) or setup.outcome.is_events  # windows close in silence
            ]
        return max(min(waits), 0.001) if waits else None

    def _serve(self) -> None:
        for name, setup in list(self._setups.items()):
            now = time.monotonic()
            with self._lock:
                new = self._new.get(name, 0)
                late = now - self._last[name] >= setup.seconds and (new or setup.outcome.is_events)
                if new < setup.every and not late:
                    continue
                self._new[name], self._last[name] = 0, now
            with suppress(Exception):  # the storage is busy or gone: the next tick makes up for it
                self._tick(name)
