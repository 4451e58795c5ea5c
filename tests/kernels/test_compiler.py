from __future__ import annotations

import importlib.util
import pickle

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
"""


def run(folder):
    """Import the module as a new process does, and return whether its function came from the cache."""
    spec = importlib.util.spec_from_file_location("module", folder / "module.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.triple(7) == 21
    return len(module.triple.stats.cache_hits) == 1


def broken(*_):
    raise OSError(28, "No space left on device")


class Gone:
    """What another version had."""


def test_a_cache_that_cannot_be_read_is_made_anew(tmp_path, monkeypatch):
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path / "cache"))
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
