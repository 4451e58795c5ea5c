from __future__ import annotations

import re

import pytest

from belated.reading.names import KINDS, LATER, NAMES, ONLY, ROLES, quoted, snake, some, text_of, unique


def test_every_role_has_names_and_kinds():
    assert set(NAMES) == set(KINDS) == set(ROLES)
    assert {role for role, _ in ONLY} <= set(ROLES)
    for pattern in (*(pattern for tiers in NAMES.values() for pattern in tiers), *LATER):
        re.compile(pattern)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("assignedAt", "assigned_at"), ("Assigned At", "assigned_at"), ("HTTPServer", "http_server"),
        ("p.A", "p_a"), ("__x__", "x"), ("order2Total", "order2_total"), ("é", "é"),
    ],
)  # fmt: skip
def test_snake_case(name, wanted):
    assert snake(name) == wanted


def test_names_in_sentences():
    assert quoted("a\nb") == "'a\\nb'"
    assert some(["a", "b"]) == "'a', 'b'"
    assert some(map(str, range(25)), quote="").endswith("18, 19 and 5 more")
    assert [text_of(label) for label in (1.0, 1.5, "x", True)] == ["1", "1.5", "x", "True"]


def test_what_comes_twice_is_left_out():
    assert unique([("a", "1"), ("b", "2"), ("a", "3"), ("b", "2")]) == {"b": "2"}
