from __future__ import annotations

import pytest
from engines import _parameter

from belated.live.packing import pack

VALUES = {
    "bigint": [0, -1, 2**63 - 1, -(2**63), 5],
    "double precision": [0.0, -0.0, 1e-310, -1.7976931348623157e308, 0.1],
    "text": ["", "unit", "日本語 🎲", "a'b\\{},\"NULL", "\x01"],
    "bytea": [b"", b"\x00\xff", b"salt"],
}


@pytest.mark.parametrize("engine", [_parameter("postgres")], indirect=True)
@pytest.mark.parametrize("kind", VALUES)
def test_postgres_reads_what_was_packed(place, kind):
    place.create()
    connection = place.open().storage._connections[True]
    for values in (VALUES[kind], [*VALUES[kind], None], [None, None], VALUES[kind][:1], []):
        ((found,),) = connection.execute(f"select %b::{kind}[]", [pack(kind, tuple(values))]).fetchall()
        assert repr(found) == repr(values)


def test_a_number_that_does_not_fit_is_refused():
    with pytest.raises(OverflowError):
        pack("bigint", [1, 2**63])


def test_half_a_character_is_refused():
    with pytest.raises(UnicodeEncodeError):
        pack("text", ["\ud800"])
