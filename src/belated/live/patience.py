"""Patience: a user's own policy function is waited for, but not for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import TypeVar, TypeVarTuple

from belated.base.errors import PolicyError

_Values = TypeVarTuple("_Values")
_Result = TypeVar("_Result")

#: Seconds that a function may take: less than other processes wait for one that writes, and enough to compile one.
SECONDS = 30.0

#: The threads whose functions have not answered, by the function, which its thread keeps alive.
_stuck: dict[int, threading.Thread] = {}


def answer_of(function: Callable[[*_Values], _Result], *values: *_Values) -> _Result:
    """Return what a function returns, and raise what it raises.

    Raises
    ------
    PolicyError
        If it does not answer in time. Its thread goes on; until that ends, the function is not called again.
    """
    before = _stuck.get(id(function))
    if before is not None and before.is_alive():
        raise PolicyError("The policy has not answered when it was last called, and is still running.")
    _stuck.pop(id(function), None)
    said: list[_Result] = []
    raised: list[BaseException] = []

    def work() -> None:
        try:
            said.append(function(*values))
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=copy_context().run, args=(work,), name="belated-policy", daemon=True)
    thread.start()
    thread.join(SECONDS)
    if thread.is_alive():
        _stuck[id(function)] = thread
        raise PolicyError(f"The policy has not answered for {SECONDS:g} seconds.")
    if raised:
        raise raised[0]
    return said[0]
