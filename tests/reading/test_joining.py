from __future__ import annotations

import pyarrow as pa
import pytest

import belated as bl
from belated.reading.joining import listed

SENT = pa.table({"id": [1, 2, 3], "arm": ["A", "B", "A"], "p": [0.5, 0.5, 0.5], "assigned_at": [1, 2, 3]})


def delivered(ids, outcomes, times=None):
    return pa.table({"id": ids, "outcome": outcomes, "arrived_at": times or [9] * len(ids)})


def test_what_joining_shows_is_noted():
    assert bl.read(SENT, delivered([1, 2], [1.0, 2.0])).notes == ()
    assert bl.read(SENT, delivered([1, 7], [1.0, 2.0])).notes == (
        "1 outcome belongs to no assignment and was left out.",
    )
    assert bl.read(SENT, delivered([1, 1, 1], [1.0] * 3)).notes == ("2 repeated outcomes counted once.",)
    early = bl.read(SENT, delivered([1, 3], [1.0, 2.0], [2, 2]), events=True, window=2, as_of=9)
    assert early.notes == ("1 event happened before the assignment and did not count.",)


def test_keys_that_cannot_be_joined():
    with pytest.raises(bl.LogError, match="None of the 1 outcome belongs to an assignment"):
        bl.read(SENT, delivered([7], [1.0]))
    with pytest.raises(bl.LogError, match="Different outcomes were delivered for key 1; say which counts"):
        bl.read(SENT, delivered([1, 1], [1.0, 2.0]))
    with pytest.raises(bl.LogError, match="must name one assignment each; several have key 1"):
        bl.read(SENT.set_column(0, "id", pa.array([1, 1, 2])), delivered([1], [1.0]))
    with pytest.raises(bl.LogError, match="is missing in 1 assignment"):
        bl.read(SENT.set_column(0, "id", pa.array([1, None, 2])), delivered([1], [1.0]))


def test_many_keys_are_cut_short():
    assert listed(["a"]) == "'a'"
    assert listed(range(7)) == "0, 1, 2, 3, 4 and more"
