from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from belated.kernels import compiler
from belated.kernels.compiler import OnlyACache, compiled


def double(x):
    return 2 * x


def test_with_and_without_options():
    for function in (compiled(double), compiled(nogil=True)(double), compiled(double, cache=False)):
        assert function(21) == 42
        assert function.py_func is double


@pytest.mark.parametrize("error", [RuntimeError("no locator available"), PermissionError("not here")])
def test_where_no_folder_can_hold_the_cache_it_is_compiled_all_the_same(monkeypatch, error):
    def nowhere(function):
        raise error

    monkeypatch.setattr(compiler, "OnlyACache", nowhere)
    assert compiled(double)(4) == 8


MODULE = """
from belated.kernels.compiler import compiled

@compiled
def triple(x):
    return 3 * x

print(triple(7), len(triple.stats.cache_hits))
"""


def run(folder):
    """Run the module in a process of its own, and return what it says, and whether it read the cache."""
    source = Path(compiler.__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(source), "NUMBA_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, "-W", "error", str(folder / "module.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    answer, hits = done.stdout.split()
    assert answer == "21"
    return hits == "1"


def broken(*_):
    raise OSError(28, "No space left on device")


class Gone:
    """What another version had."""


def test_a_cache_that_cannot_be_read_is_made_anew(tmp_path):
    (tmp_path / "module.py").write_text(MODULE)
    assert not run(tmp_path)
    assert run(tmp_path)
    lost = pickle.dumps(Gone()).replace(b"Gone", b"Lost")
    for suffix, content in (("nbi", b""), ("nbi", b"\x80\x05junk"), ("nbc", b""), ("nbc", None), ("nbc", lost)):
        (path,) = (tmp_path / "cache").rglob(f"*.{suffix}")
        path.write_bytes(path.read_bytes()[:100] if content is None else content)
        assert not run(tmp_path)
        assert run(tmp_path)


def test_a_cache_that_cannot_be_written_is_done_without(monkeypatch):
    monkeypatch.setattr("numba.core.caching.FunctionCache.load_overload", broken)
    monkeypatch.setattr("numba.core.caching.FunctionCache.save_overload", broken)
    monkeypatch.setattr("numba.core.caching.FunctionCache.flush", broken)
    function = compiled(double)
    assert isinstance(function._cache, OnlyACache)
    assert function(21.5) == 43
