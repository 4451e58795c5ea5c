"""Reading over HTTP: experiments, answers, logs, changes, policy versions, and how the service is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from belated.base.checks import one_of
from belated.base.documents import JsonObject, csv_text
from belated.live import records
from belated.live.design import snapshot
from belated.live.design import versions as stored_versions
from belated.live.experiment import Experiment
from belated.live.logs import ARROW, answer_stream, log_text
from belated.live.records import moment
from belated.live.service.access import check_scopes
from belated.live.service.calls import Call, Reply, has_tag, json_reply

CSV = "text/csv; charset=utf-8"

#: Every decision of an experiment, once for each outcome that it has.
_WITH_UNITS = (
    "select d.unit, d.arm, d.segment, d.version, d.assigned_at, o.key, o.revision, o.value, o.happened_at, "
    "o.arrived_at from decision d left join outcome o on o.decision = d.id where d.experiment = ? order by d.id, o.id"
)

#: Versions of one reply.
_VERSIONS = 10_000


async def experiments(call: Call) -> Reply:
    """List the experiments that the token may read."""
    experiments = await call.thread(call.service.store.experiments)
    states, arms, asked = experiments._values
    only = call.owner.experiment
    listed = [
        {"name": name, "state": state, "arms": number, "asked": rows}
        for name, state, number, rows in zip(experiments, states, arms, asked, strict=True)
        if only is None or only == name
    ]
    return json_reply({"experiments": listed})


async def experiment(call: Call) -> Reply:
    """Reply with the state of an experiment, and the settings that were fixed when it was created."""
    exp = await call.experiment()
    return json_reply(await call.thread(status_document, exp))


def status_document(exp: Experiment) -> JsonObject:
    """Return the status of an experiment as a document."""
    now = exp.status()
    return {
        "name": now.name, "state": now.state, "version": now.version,
        "made_at": None if now.made_at is None else now.made_at.isoformat(), "asked": now.asked, "told": now.told,
        "parked": now.parked, "problem": now.problem,
        "arms": [{"arm": arm, "state": state, "probability": p} for arm, state, p in now.arms],
        "segments": [{"segment": label, "units": n, "probabilities": list(p)} for label, n, p in now.segments],
        "setup": exp.setup.to_dict(),
    }  # fmt: skip


async def answer(call: Call) -> Reply:
    """Reply with the results so far: as JSON, or as an Arrow stream from which the same answer can be computed."""
    answer, body, digest = await call.service.written_answer(call.name)
    arrow = _wants_arrow(call)
    tag = f'"{digest}-{"arrow" if arrow else "json"}"'
    if has_tag(call.headers.get(b"if-none-match", b"").decode("latin-1"), tag):
        return Reply(b"", 304, headers=(("etag", tag),))
    if arrow:
        return Reply(_parts(call, answer_stream(answer)), media=ARROW, headers=(("etag", tag),))
    return Reply(body, headers=(("etag", tag),))


async def log(call: Call) -> Reply:
    """Reply with the log as CSV or an Arrow stream; with units only if the token allows it."""
    exp = await call.experiment()
    if one_of("units", call.option("units", "false"), ("true", "false")) == "true":
        check_scopes(call.owner, ["units"], call.name)
        return Reply(await call.service.compute(_log_with_units, exp), media=CSV)
    if _wants_arrow(call):
        state = await call.service.compute(exp.state)
        return Reply(_parts(call, state.stream()), media=ARROW)
    return Reply(await call.service.compute(_log_csv, exp), media=CSV)


def _wants_arrow(call: Call) -> bool:
    return ARROW.encode() in call.headers.get(b"accept", b"")


async def _parts(call: Call, stream: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Give the parts of a stream, each made in a thread."""
    while (part := await call.service.compute(next, stream, None)) is not None:
        if part:
            yield part


def _log_csv(exp: Experiment) -> bytes:
    log = exp.log()
    return log_text((log.closed() if exp.setup.outcome.is_events else log).log()).encode()


def _log_with_units(exp: Experiment) -> bytes:
    """Return every decision with its unit, and every outcome with its key, as CSV."""
    with exp._store.storage.reading() as session:
        about = snapshot(session, exp.name)
        rows = session.run(_WITH_UNITS, exp._id)
    names = (
        "unit", "arm", "segment", "version", "assigned_at", "key", "revision", "value", "happened_at", "arrived_at",
    )  # fmt: skip
    columns = (
        dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)) if rows else {name: [] for name in names}
    )
    columns["arm"] = [about.labels[arm] for arm in columns["arm"]]
    columns["segment"] = [None if place is None else about.segments[place] for place in columns["segment"]]
    if not about.segments:
        del columns["segment"]
    for name in ("assigned_at", "happened_at", "arrived_at"):
        columns[name] = [None if at is None else moment(at).isoformat() for at in columns[name]]
    return csv_text(columns).encode()


async def changes(call: Call) -> Reply:
    """Give the audit."""
    exp = await call.experiment()
    return json_reply({"changes": [each.to_dict() for each in await call.thread(exp.changes)]})


async def versions(call: Call) -> Reply:
    """Give policy versions after a number, in their order."""
    exp = await call.experiment()
    after = call.number("after", 0, (1 << 53) - 1)
    limit = call.number("limit", 1000, _VERSIONS)
    versions = await call.thread(_versions, exp, after, limit + 1)
    listed = [version_document(each) for each in versions[:limit]]
    return json_reply({"versions": listed, "more": len(versions) > limit})


def _versions(exp: Experiment, after: int, limit: int) -> list[records.Version]:
    with exp._store.storage.reading() as session:
        return stored_versions(session, exp._id, list(range(after + 1, after + 1 + limit)))


async def replay(call: Call) -> Reply:
    """Make every policy version again."""
    exp = await call.experiment()
    return json_reply({"versions": [version_document(each) for each in await call.thread(exp.replay)], "more": False})


def version_document(version: records.Version) -> JsonObject:
    """Return a version as a document."""
    return {
        "number": version.number, "rule": version.rule, "step": version.step, "watermark": version.watermark,
        "made_at": moment(version.made_at).isoformat(), "offered": list(version.offered),
        "probabilities": list(version.probabilities), "counts": list(version.counts), "totals": list(version.totals),
        "cause": version.cause, "steps": list(version.steps),
    }  # fmt: skip


# ---------------------------------------------------------------- the service itself


async def live(call: Call) -> Reply:
    """Say that the service lives."""
    return json_reply({"status": "ok"})


async def ready(call: Call) -> Reply:
    """Say whether it can serve."""
    await call.service.check_ready()
    return json_reply({"status": "ok"})


async def metrics(call: Call) -> Reply:
    """Give counters and times."""
    service = call.service
    load = service.store.load()
    gauges = (
        ("waiting_requests", "Requests that are being served.", float(service.waiting)),
        ("held_bytes", "Bytes of their bodies.", float(service.held)),
        ("commits", "Commits of asks and tells since the start.", float(load.commits)),
        ("commit_seconds", "The time that they took together.", load.seconds),
        ("commit_rows", "The rows that they stored.", float(load.rows)),
        ("failed_requests", "Requests that the storage failed to store.", float(load.failed)),
    )
    return Reply(service.metrics.text(gauges).encode(), media="text/plain; version=0.0.4; charset=utf-8")
