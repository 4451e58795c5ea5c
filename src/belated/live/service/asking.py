"""Asks and tells over HTTP."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from belated.base.documents import JsonObject
from belated.base.errors import BelatedError
from belated.live.asking import UnitAsked
from belated.live.calls import read_asks, taken
from belated.live.records import Decision, Tell, Told
from belated.live.service.calls import Call, Reply, encode, json_reply
from belated.live.service.problems import PROBLEM_JSON, Problem, problem_of


async def ask(call: Call) -> Reply:
    """Decide for a unit."""
    exp = await call.experiment()
    decision = await exp.ask_async(call.content.unit, call.content.segment)
    if not decision.logged:
        return _final(decision)
    call.service.metrics.stored("ask", call.name, 1)
    return json_reply(decision.to_dict())


def _final(decision: Decision) -> Reply:
    """Refuse a new unit of an experiment that has stopped, with the final arm, so that a product can go on."""
    problem = Problem("not-running", "The experiment has stopped and takes no new units; its final arm is `arm`.")
    body = msgspec.json.encode(msgspec.to_builtins(problem.document()) | decision.to_dict())
    return Reply(body, problem.status, PROBLEM_JSON.decode())


async def ask_many(call: Call) -> Reply:
    """Decide for several units; one that has no decision has a problem in its place."""
    exp = await call.experiment()
    _check_batch(call, len(call.content.units))
    asks = read_asks(exp.setup, call.content.units, call.content.segments)
    replies = await call.service.store.submit_async("ask", exp.name, asks)
    call.service.metrics.stored("ask", call.name, sum([type(each) is Decision and each.logged for each in replies]))
    return Reply(b'{"decisions":[%b]}' % b",".join(_written(asks, replies)))


def _written(asks: Sequence[UnitAsked], replies: list[Decision | BelatedError]) -> list[bytes]:
    """Return each reply of a batch as JSON; what decisions share, all but the unit, is written once."""
    shared: dict[tuple[object, ...], bytes] = {}
    written = []
    for ask, reply in zip(asks, replies, strict=True):
        if isinstance(reply, BelatedError):
            unit = ask if isinstance(ask, str) else ask[0]
            written.append(encode({"unit": unit, "problem": problem_of(reply).document()}))
            continue
        unit, arm, _, version, at, repeated, logged, segment = reply
        about = arm, version, at, repeated, logged, segment  # which determine the probabilities
        rest = shared.get(about)
        if rest is None:
            table = reply.to_dict()
            del table["unit"]
            rest = shared[about] = encode(table)[1:]
        written.append(b'{"unit":%b,%b' % (encode(unit), rest))
    return written


async def tell(call: Call) -> Reply:
    """Store an outcome; that of a unit that was never asked is parked."""
    exp, given = await call.experiment(), call.content
    outcome = Tell(given.unit, given.value, given.key, given.happened_at, given.correct)
    (said,) = await exp.tell_many_async([outcome])
    _count(call, [said])
    taken(said)
    return json_reply(_told(said), 202 if said.status == "parked" else 200)


async def tell_many(call: Call) -> Reply:
    """Store several outcomes; each has its own acknowledgement."""
    exp = await call.experiment()
    _check_batch(call, len(call.content.outcomes))
    tells = [
        Tell(each.unit, each.value, each.key, each.happened_at, each.correct) for each in call.content.outcomes
    ]  # fmt: skip
    said = await exp.tell_many_async(tells)
    _count(call, said)
    return json_reply({"told": [_told(each) for each in said]})


def _count(call: Call, said: list[Told]) -> None:
    call.service.metrics.stored("tell", call.name, sum(each.taken for each in said))
    refused = sum(each.status == "contradiction" for each in said)
    if refused:
        call.service.metrics.stored("contradiction", call.name, refused)


def _told(said: Told) -> JsonObject:
    return {"unit": said.unit, "status": said.status, "why": said.why}


def _check_batch(call: Call, size: int) -> None:
    most = call.service.settings.batch
    if size > most:
        raise Problem("too-large", f"The request has {size:,} units; send at most {most:,} at a time.")
