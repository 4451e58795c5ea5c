"""Changing over HTTP: new experiments, changes of their states, arms and policies, erasure, tokens and backups."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from belated.base.documents import JsonObject
from belated.base.errors import OptionError, argument
from belated.live.experiment import Experiment
from belated.live.outcomes import Outcome, outcome_of
from belated.live.service.calls import Call, Reply, json_reply
from belated.live.service.messages import ChangeRequest, Create, OutcomeKind
from belated.live.service.problems import Problem
from belated.live.service.reading import status_document, version_document
from belated.live.tokens import make_token, revoke, tokens
from belated.simulation.description import policy_from
from belated.simulation.policies import Policy

#: Bytes of a part of a file that is sent.
_PART_BYTES = 1 << 18


def read_policy(table: JsonObject) -> Policy:
    """Return the policy of a table; a function of one's own cannot be sent."""
    if table.get("name") == "own":
        raise OptionError(f"{argument('policy')} is a function of your own, which cannot be sent; use a named policy.")
    return policy_from(table)


def read_outcome(given: OutcomeKind) -> Outcome:
    """Return the outcome that a request declares."""
    return outcome_of(given.kind, low=given.low, high=given.high, window=given.window, measure=given.measure)


async def create(call: Call) -> Reply:
    """Create an experiment."""
    given: Create = call.content
    author = call.service.author(call.owner, given.author)

    def act() -> JsonObject:
        exp = call.service.store.create(
            given.name, arms=given.arms, policy=read_policy(given.policy), outcome=read_outcome(given.outcome),
            segments=given.segments, baseline=given.baseline, planned_rows=given.planned_rows, level=given.level,
            kind=given.kind, target=given.target, every=given.every, seconds=given.seconds, author=author,
            reason=given.reason,
        )  # fmt: skip
        if given.start:
            exp.start(author=author)
        return status_document(exp)

    return json_reply(await call.thread(act), 201)


async def change(call: Call) -> Reply:
    """Change an experiment's state, arms or policy."""
    exp, given = await call.experiment(), call.content
    act = _change_of(exp, given)
    who = {"author": call.service.author(call.owner, given.author), "reason": given.reason}

    def act_and_show() -> JsonObject:
        act(**who)
        return status_document(exp)

    return json_reply(await call.thread(act_and_show))


def _change_of(exp: Experiment, given: ChangeRequest) -> Callable[..., object]:
    """Return the change that a request asks for; raise unless it has exactly the fields that the change needs."""
    needs = {"stop": "final", "set_policy": "policy", "add_segment": "segment"}.get(
        given.what, "arm" if given.what.endswith("_arm") else None
    )
    for name in ("arm", "segment", "final", "policy"):
        if name != needs and getattr(given, name) is not None:
            raise OptionError(f"{argument(name)} does not belong to {given.what}; leave it out.")
    if needs in ("arm", "segment", "policy") and getattr(given, needs) is None:
        raise OptionError(f"{argument(needs)} is missing; {given.what} needs it.")
    if given.what == "stop":
        return lambda **who: exp.stop(given.final, **who)
    if given.what == "set_policy":
        policy = read_policy(given.policy or {})
        return lambda **who: exp.set_policy(policy, **who)
    method: Callable[..., object] = getattr(exp, given.what)
    return method if needs is None else lambda **who: method(getattr(given, needs), **who)


async def tick(call: Call) -> Reply:
    """Make the next policy version now if there is anything new."""
    exp = await call.experiment()
    version = await call.thread(exp.tick)
    return json_reply({"version": None if version is None else version_document(version)})


async def erase(call: Call) -> Reply:
    """Forget a unit."""
    exp, given = await call.experiment(), call.content
    author = call.service.author(call.owner, given.author)
    erased = await call.thread(lambda: exp.erase(given.unit, author=author, reason=given.reason))
    return json_reply({"erased": erased})


async def verify(call: Call) -> Reply:
    """Check every rule of the store."""
    verification = await call.thread(call.service.store.verify)
    return json_reply({
        "clean": verification.clean, "findings": list(verification.findings), "decisions": verification.decisions,
        "outcomes": verification.outcomes, "versions": verification.versions,
    })  # fmt: skip


async def backup(call: Call) -> Reply:
    """Send a copy of the store."""
    folder = tempfile.TemporaryDirectory(prefix="belated-")
    path = Path(folder.name, "copy.belated")
    try:
        await call.thread(call.service.store.backup, path)
    except BaseException:
        folder.cleanup()
        raise

    async def parts() -> AsyncIterator[bytes]:
        with folder, path.open("rb") as file:
            while part := await call.thread(file.read, _PART_BYTES):
                yield part

    headers = (("content-disposition", 'attachment; filename="copy.belated"'),)
    return Reply(parts(), media="application/vnd.sqlite3", headers=headers)


# ---------------------------------------------------------------- tokens


async def list_tokens(call: Call) -> Reply:
    """List the tokens of the store."""
    listed = await call.thread(tokens, call.service.store.storage)
    return json_reply({"tokens": [each.to_dict() for each in listed]})


async def make(call: Call) -> Reply:
    """Make a token, which is shown once; only one that shows units can make another that does."""
    given, owner = call.content, call.owner
    if "units" in given.scopes and "units" not in owner.scopes:
        raise Problem("scope", "The token lacks the scope units, so that it cannot give it to another.")
    secret, token = await call.thread(
        lambda: make_token(
            call.service.store.storage, given.label, given.scopes, author=owner.label, experiment=given.experiment,
            lasting=given.expires,
        )
    )  # fmt: skip
    call.service.keyring.forget()
    return json_reply({"token": secret, "about": token.to_dict()}, 201)


async def end_token(call: Call) -> Reply:
    """Revoke a token."""
    if not call.name.isascii() or not call.name.isdigit() or len(call.name) > 18:
        raise Problem("unknown-token", "A token's number is a whole number; list the tokens to see them.")
    known = {each.id for each in await call.thread(tokens, call.service.store.storage)}
    if int(call.name) not in known:
        raise Problem("unknown-token", f"There is no token {call.name}; list the tokens to see them.")
    await call.thread(revoke, call.service.store.storage, int(call.name))
    call.service.keyring.forget()
    return Reply(b"", 204)
