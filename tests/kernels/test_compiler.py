from __future__ import annotations

import numba

from belated.kernels.compiler import compiled


def double(x):
    return 2 * x


def test_with_and_without_options():
    for function in (compiled(double), compiled(nogil=True)(double), compiled(double, cache=False)):
        assert function(21) == 42
        assert function.py_func is double


def test_where_no_folder_can_hold_the_cache_it_is_compiled_all_the_same(monkeypatch):
    njit, asked = numba.njit, []

    def without_folder(**options):
        asked.append(options)
        if options.get("cache"):
            raise RuntimeError("no locator available")
        return njit(**options)

    monkeypatch.setattr(numba, "njit", without_folder)
    assert compiled(double)(4) == 8
    assert asked == [{"cache": True}, {}]
