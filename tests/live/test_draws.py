from __future__ import annotations

from hashlib import blake2b

import pytest

from belated.live.draws import choose, cumulative, uniform, uniforms

SALT = bytes(range(32))
UNITS = ["a", "customer-17", "käse 🧀", *(f"unit-{i}" for i in range(500))]


def test_a_number_is_the_first_53_bits_of_a_keyed_hash():
    numbers = uniforms(SALT, UNITS)
    for unit, number in zip(UNITS, numbers, strict=True):
        digest = blake2b(unit.encode(), digest_size=8, key=SALT).digest()
        assert number == uniform(SALT, unit) == (int.from_bytes(digest, "big") >> 11) / 2**53
    assert uniforms(SALT, []) == []


@pytest.mark.parametrize("chances", [(0.3, 0.7, 0.0), (0.0, 1.0), (1 / 3,) * 3, (0.25, 0.0, 0.75), (*(0.1,) * 10, 0.0)])
def test_the_arm_is_the_first_whose_cumulative_probability_exceeds_the_number(chances):
    sums = cumulative(chances)
    for number in [0.0, 0.25, 0.3, 1 / 3, 2 / 3, 1 - 2**-53, *uniforms(SALT, UNITS)]:
        arm = choose(number, sums)
        assert chances[arm] > 0
        assert sum(chances[:arm]) <= number
        assert number < sum(chances[: arm + 1]) or not any(chances[arm + 1 :])
