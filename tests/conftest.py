import gc
import importlib
import os
import pkgutil
import secrets
import signal
import sys
import zlib
from contextlib import suppress

import numpy as np
import pytest
from browsers import chromium
from drawn import empty_folder
from engines import (
    _copying,
    duckdb_engine,
    engine,
    postgres_engine,
    pytest_runtest_setup,
    pytest_xdist_make_scheduler,
    spark_engine,
)
from hypothesis import HealthCheck, given, is_hypothesis_test, settings
from hypothesis import strategies as st

import belated

__all__ = [
    "_copying",
    "a_usual_screen",
    "chromium",
    "duckdb_engine",
    "empty_folder",
    "engine",
    "postgres_engine",
    "pytest_collection_finish",
    "pytest_runtest_setup",
    "pytest_sessionfinish",
    "pytest_xdist_make_scheduler",
    "same_secrets",
    "spark_engine",
]

# Commands that tests start share compiled modules with each other and with the next run, as they do for users.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A run in the background begins with Ctrl-C ignored, and so would the commands that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says more about the machine, and what it compiles, than about the code.
# The same examples are drawn in every run; `pytest --hypothesis-profile=explore` draws new ones.
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("belated", PATIENT, derandomize=True)
settings.register_profile("explore", PATIENT)
settings.load_profile("belated")


@pytest.fixture(autouse=True)
def a_usual_screen(monkeypatch):
    """Tables are as wide as if the width of the screen were unknown, wherever the tests run."""
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture(autouse=True)
def same_secrets(request, monkeypatch):
    """Salts of live experiments, and so the arms of their units, are those of the last run, other ones in each test."""
    rng = np.random.default_rng(zlib.crc32(request.node.nodeid.encode()))
    monkeypatch.setattr(secrets, "token_bytes", lambda size=None: rng.bytes(size or 32))


def pytest_collection_finish(session):
    """Have Hypothesis build its tables before any test is timed, and what is loaded by now never searched for garbage.

    At the first text that it draws it makes a table of all characters, which takes seconds where none is
    kept on disk yet, and at the first number it reads the constants of every module that is loaded, to draw them, too.
    So all modules are loaded first: examples are then the same, whichever tests a worker has run before.
    """
    if any(is_hypothesis_test(getattr(item, "obj", None)) for item in session.items):
        for module in pkgutil.walk_packages(belated.__path__, "belated."):
            if not module.name.endswith("__main__"):
                with suppress(ImportError, belated.BelatedError):  # of packages that are not installed
                    importlib.import_module(module.name)
        _draw_once()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


def pytest_sessionfinish():
    """Let everything be freed at the end: DuckDB lists what is not."""
    gc.unfreeze()


@settings(max_examples=20, database=None, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.text(), st.floats(), st.integers())
def _draw_once(text, number, whole):
    pass
