from __future__ import annotations

import math

import numpy as np
import pytest

from belated.kernels import streams, ziggurat

#: A state of SFC64 whose next word is the one put first.
REST = (0, 0x9E3779B97F4A7C15, 0)


def numpys_normal(word):
    generator = np.random.Generator(np.random.SFC64())
    state = generator.bit_generator.state
    state["state"]["state"] = np.array([word, *REST], dtype=np.uint64)
    generator.bit_generator.state = state
    return generator.standard_normal()


def ours(word):
    return streams.normal(np.array([word, *REST], dtype=np.uint64))


def word_of(layer, sign, steps):
    return layer | sign << 8 | steps << 9


@pytest.mark.parametrize("layer", range(ziggurat.LAYERS))
def test_every_layer_is_numpys_to_the_last_bit(layer):
    limit = int(ziggurat.SURE[layer])
    for steps in {0, 1, limit // 3, limit - 2, limit - 1, limit, limit + 1, 2**52 - 1}:
        if 0 <= steps < 2**52:
            for sign in (0, 1):
                word = word_of(layer, sign, steps)
                assert ours(word) == numpys_normal(word)


def test_a_million_normals_are_numpys():
    state = streams.streams(11, np.array([0]))[0]
    theirs = np.random.Generator(np.random.SFC64(np.random.SeedSequence(11, spawn_key=(0,))))
    n = 3_000_000
    block = np.empty(n)
    streams.fill_normal(state, block, 0, n)
    np.testing.assert_array_equal(block, theirs.standard_normal(n))


def test_layers_have_the_same_area():
    edges = ziggurat.WIDTHS * 2.0**52
    areas = edges[1:] * (ziggurat.HEIGHTS[:-1] - ziggurat.HEIGHTS[1:])
    np.testing.assert_allclose(areas, ziggurat.AREA, rtol=1e-10)
    tail = math.sqrt(math.pi / 2) * math.erfc(ziggurat.EDGE / math.sqrt(2))
    assert ziggurat.EDGE * ziggurat.HEIGHTS[-1] + tail == pytest.approx(ziggurat.AREA, rel=1e-12)
