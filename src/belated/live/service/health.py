"""Health, readiness and metrics."""

from __future__ import annotations

from belated.live.service.calls import Call, Reply, json_reply


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
