from __future__ import annotations

import datetime as dt
import gc
import json
import logging

import pytest

import belated as bl
from belated.live.service import access, journal
from tests.live.service.conftest import BUTTON


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_failure_is_logged_without_what_was_sent(served, monkeypatch, caplog):
    def fail(self, unit, segment):
        raise KeyError(f"a secret person {unit}")

    monkeypatch.setattr(bl.live.Experiment, "ask_async", fail)
    with caplog.at_level(logging.INFO, "belated.service"):
        reply = served.post(f"{BUTTON}/ask", {"unit": "ada"})
    assert (reply.status, reply.kind) == (500, "internal")
    (record,) = [each for each in caplog.records if each.name == "belated.service"]
    line = json.loads(journal.JsonLines().format(record))
    assert (line["event"], line["error"], line["route"]) == ("failed", "KeyError", "/v1/experiments/{name}/ask")
    assert any("fail in test_journal.py" in place for place in line["where"])
    assert "secret" not in str(line)
    assert "secret" not in str(reply.body)


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_changes_are_logged_with_the_number_of_their_token(served, caplog):
    with caplog.at_level(logging.INFO, "belated.service"):
        served.post(f"{BUTTON}/ask", {"unit": "a secret person"})
        served.post(f"{BUTTON}/erase", {"unit": "a secret person", "reason": "a secret reason"})
    (line,) = [journal.JsonLines().format(each) for each in caplog.records if each.name == "belated.service"]
    found = json.loads(line)
    assert (found["event"], found["route"]) == ("changed", "POST /v1/experiments/{name}/erase")
    assert isinstance(found["token"], int)
    assert "secret" not in line


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_tokens_that_cannot_be_read_again_are_one_line(served, monkeypatch, caplog):
    """Nobody waits for them: the tokens that are known still count."""

    def fail(*_):
        raise bl.live.StorageError("the database is away.")

    served.post(f"{BUTTON}/ask", {"unit": "ada"})
    with caplog.at_level(logging.INFO), monkeypatch.context() as patched:
        patched.setattr(access, "_FRESH", 0.0)
        patched.setattr(access.Keyring, "_stored_tokens", fail)
        for _ in range(5):
            assert served.post(f"{BUTTON}/ask", {"unit": "ada"}).status == 200
    gc.collect()
    lines = [journal.JsonLines().format(each) for each in caplog.records if each.name in ("belated.service", "asyncio")]
    assert [json.loads(line)["route"] for line in lines] == ["(tokens)"]


@pytest.fixture
def loggers():
    """Loggers that are as they were after the test."""
    loggers = [logging.getLogger(name) for name in ("belated.service", "uvicorn.error", "asyncio")]
    kept = [(each.handlers, each.propagate, each.level) for each in loggers]
    yield
    for logger, (handlers, propagate, level) in zip(loggers, kept, strict=True):
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


def test_the_log_is_lines_of_json(loggers, capsys):
    journal.configure()
    journal.note("changed", route="POST /x", token=3)
    journal.note("of no interest", logging.DEBUG)
    logging.getLogger("uvicorn.error").info("Started")
    logging.getLogger("uvicorn.error").warning("two\nlines")
    try:
        raise KeyError("a secret person")
    except KeyError as error:
        message = f"Task exception was never retrieved\nfuture: {error!r}"
        logging.getLogger("asyncio").error(message, exc_info=error)
    first, second, third = map(json.loads, capsys.readouterr().err.splitlines())
    assert dt.datetime.fromisoformat(first.pop("at")).utcoffset() == dt.timedelta(0)
    assert first == {"level": "info", "event": "changed", "route": "POST /x", "token": 3}
    assert (second["level"], second["event"]) == ("warning", "two\nlines")
    assert (third["event"], third["error"]) == ("Task exception was never retrieved", "KeyError")
    assert "secret" not in str(third)
