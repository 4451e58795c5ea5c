from __future__ import annotations

import inspect
import json
from typing import get_args, get_type_hints

import msgspec
import pytest

import belated as bl
from belated.live.service.messages import ChangeRequest, Create
from tests.live.service.conftest import CHANGES, nothing_stored


@pytest.mark.parametrize(
    "content", [[], "text", 1, None, {}, {"unit": None}, {"unit": 1.5}, {"unit": []}, {"unit": True}, {"other": 1}]
)
def test_json_of_another_form(shared, content):
    with nothing_stored(shared):
        for method, path, usual in CHANGES:
            if usual is not None:
                reply = shared.send(method, path, json.dumps(content).encode())
                assert (reply.status, reply.kind) == (422, "invalid"), path


def test_unknown_fields(shared):
    with nothing_stored(shared):
        for method, path, usual in CHANGES:
            if usual is not None:
                reply = shared.send(method, path, usual | {"surprise": 1})
                assert (reply.status, reply.kind) == (422, "invalid"), path


def test_what_is_left_out_has_the_default_of_the_library():
    arguments = inspect.signature(bl.live.Store.create).parameters
    fields = {field.name: field.default for field in msgspec.structs.fields(Create)}
    same = fields.keys() & arguments.keys() - {"author"}  # whose token it is, and who runs the program
    assert same > {"baseline", "planned_rows", "level", "seconds"}
    for name in same:
        default = arguments[name].default
        assert fields[name] == (msgspec.NODEFAULT if default is inspect.Parameter.empty else default), name


def test_every_change_that_can_be_asked_for_is_one_of_an_experiment():
    for word in get_args(get_type_hints(ChangeRequest)["what"]):
        assert "reason" in inspect.signature(getattr(bl.live.Experiment, word)).parameters
