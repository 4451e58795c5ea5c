from __future__ import annotations

import threading
from contextvars import ContextVar

import pytest

from belated.base.errors import PolicyError
from belated.live import patience
from belated.live.patience import answer_of


def test_what_a_function_returns_is_returned_and_what_it_raises_is_raised():
    assert answer_of(lambda a, b: [a, b], 1, 2) == [1, 2]
    for error in (ValueError("no"), SystemExit(3), KeyboardInterrupt()):

        def fail(error=error):
            raise error

        with pytest.raises(type(error)) as caught:
            answer_of(fail)
        assert caught.value is error


def test_a_function_sees_the_context_of_its_caller():
    word = ContextVar("word", default="none")
    word.set("mine")
    assert answer_of(word.get) == "mine"


def test_a_function_that_does_not_answer_is_called_again_only_after_it_has_ended(monkeypatch):
    monkeypatch.setattr(patience, "SECONDS", 0.01)
    go_on, called = threading.Event(), []

    def stuck():
        called.append(1)
        go_on.wait(30)
        return "late"

    with pytest.raises(PolicyError, match=r"has not answered for 0\.01 seconds"):
        answer_of(stuck)
    with pytest.raises(PolicyError, match="is still running"):
        answer_of(stuck)
    monkeypatch.setattr(patience, "SECONDS", 30)
    assert answer_of(lambda: "another") == "another"  # others are not held up
    go_on.set()
    patience._stuck[id(stuck)].join()
    assert len(called) == 1
    assert answer_of(stuck) == "late"
    assert id(stuck) not in patience._stuck
