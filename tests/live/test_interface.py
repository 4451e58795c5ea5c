from __future__ import annotations

import inspect

import pytest

import belated as bl
from belated.live.interface import LiveExperiment, LiveStore

KINDS = [
    (LiveStore, bl.live.Store),
    (LiveStore, bl.live.RemoteStore),
    (LiveExperiment, bl.live.Experiment),
    (LiveExperiment, bl.live.RemoteExperiment),
]

#: What only one of them has, by name: parts that are not for users, or make no sense elsewhere.
OWN = {
    bl.live.Store: {"storage", "find_policy", "learn_function", "submit", "submit_async", "submit_one_async", "load"},
    bl.live.RemoteStore: {"ask", "fallback", "get", "patience"},
    bl.live.Experiment: {"state"},
    bl.live.RemoteExperiment: set(),
}


def members(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


def parameters(kind: type, name: str) -> list[inspect.Parameter]:
    """The parameters of a method, without the fallback arm, which only a service needs."""
    found = inspect.signature(getattr(kind, name)).parameters
    return [each for each in found.values() if each.name != "fallback"]


@pytest.mark.parametrize(("interface", "kind"), KINDS)
def test_signatures_agree(interface, kind):
    methods = [name for name in members(interface) if callable(getattr(interface, name))]
    assert len(methods) > 8
    for name in methods:
        assert parameters(kind, name) == parameters(interface, name), name
        is_async = inspect.iscoroutinefunction(getattr(interface, name))
        assert inspect.iscoroutinefunction(getattr(kind, name)) == is_async, name


@pytest.mark.parametrize(("interface", "kind"), KINDS)
def test_nothing_else_is_public(interface, kind):
    assert members(kind) - members(interface) - {"name", "setup"} == OWN[kind] & members(kind)


def test_a_fallback_has_a_name_and_a_default():
    for name in ("ask", "ask_many", "ask_async", "ask_many_async"):
        fallback = inspect.signature(getattr(bl.live.RemoteExperiment, name)).parameters["fallback"]
        assert (fallback.kind, fallback.default) == (inspect.Parameter.KEYWORD_ONLY, None)
