from __future__ import annotations

import pytest
from engines import _parameter

FETCHED = "select idx_tup_fetch + seq_tup_read from pg_stat_xact_user_tables where relname = 'decision'"


@pytest.mark.parametrize("engine", [_parameter("postgres")], indirect=True)
def test_units_are_looked_up_however_small_the_engine_believes_the_experiment_to_be(place):
    exp = place.create()
    exp.ask_many(f"unit-{i}" for i in range(3000))
    with exp._store.storage.writing() as session:
        ((before,),) = session.run(FETCHED)
        found = session.find_decisions(exp._id, ["unit-7", "nobody", "unit-8"], "d.unit")
        ((after,),) = session.run(FETCHED)
    assert sorted(found) == [(0, "unit-7"), (2, "unit-8")]
    assert after - before <= 3
