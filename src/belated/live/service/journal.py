"""The journal of the service: one line of JSON for each thing that happens, without units, values, tokens or bodies."""

from __future__ import annotations

import datetime as dt
import json
import logging
import sys
import traceback

LOGGER = logging.getLogger("belated.service")


def note(event: str, level: int = logging.INFO, **detail: object) -> None:
    """Log that something happened."""
    if LOGGER.isEnabledFor(level):
        LOGGER.log(level, event, extra={"detail": detail})


def failed(route: str, error: Exception) -> None:
    """Log where an error came from, but not its message, which may contain what a client sent."""
    frames = traceback.extract_tb(error.__traceback__)[-5:]
    where = [f"{frame.name} in {frame.filename.rpartition('/')[2]}, line {frame.lineno}" for frame in frames]
    note("failed", logging.ERROR, route=route, error=type(error).__name__, where=where)


class JsonLines(logging.Formatter):
    """Writes a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        at = dt.datetime.fromtimestamp(record.created, dt.UTC).isoformat(timespec="milliseconds")
        detail, event = getattr(record, "detail", {}), record.getMessage()
        if record.name == "asyncio":  # further lines show what a task was given
            event = event.partition("\n")[0]
            detail = {"error": record.exc_info[0].__name__} if record.exc_info and record.exc_info[0] else {}
        return json.dumps({"at": at, "level": record.levelname.lower(), "event": event, **detail})


def configure(level: int = logging.INFO) -> None:
    """Write the journal to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("belated.service", "uvicorn.error", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level if name == "belated.service" else logging.WARNING)
