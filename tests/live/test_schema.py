from __future__ import annotations

import subprocess
import sys

import pytest
from live_experiments import UNITS, learn

import belated as bl
from belated.live import schema
from belated.live.draws import choose, uniform
from belated.live.tokens import make_token
from tests.live.conftest import of_storages

NEXT = "alter table experiment add column note text"


@of_storages("a store is upgraded where it is, while nobody serves it")
def test_every_older_schema_upgrades(place, monkeypatch):
    exp = place.create()
    learn(exp)
    place.close()
    before = len(schema.MIGRATIONS)
    monkeypatch.setattr(schema, "MIGRATIONS", [*schema.MIGRATIONS, [NEXT]])
    words = f"has schema {before}, older than {before + 1}; upgrade it with `belated live migrate`"
    with pytest.raises(bl.live.SchemaError, match=words):
        place.open()
    assert bl.live.migrate(place.url) == before + 1
    assert bl.live.migrate(place.url) == before + 1
    exp = place.again()
    assert exp.ask(UNITS[0]).repeated
    assert exp._store.verify().clean
    assert place.sql("select note from experiment") == [(None,)]


@of_storages("a store is upgraded where it is, while nobody serves it")
def test_a_newer_schema_is_refused_in_a_sentence(place):
    place.create()
    place.sql("update meta set value = '700' where key = 'schema'")
    place.close()
    for act in (place.open, lambda: bl.live.migrate(place.url)):
        with pytest.raises(bl.live.SchemaError, match=r"has schema 700, and this version .* install the newer belated"):
            act()


MIGRATES = f"""
import sys, belated as bl
from belated.live import keeping, schema
schema.MIGRATIONS.append([{NEXT!r}])
sys.stdin.read()
print(bl.live.migrate(sys.argv[1]))
"""


@of_storages("a store is upgraded where it is, while nobody serves it")
def test_two_processes_migrating_at_once(place):
    exp = place.create()
    learn(exp)
    place.close()
    start = [sys.executable, "-c", MIGRATES, place.url]
    both = [subprocess.Popen(start, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for process in both:
        process.stdin.close()
    for process in both:
        with process:
            process.stdin = None
            assert process.stdout.read() == f"{len(schema.MIGRATIONS) + 1}\n"
    with pytest.raises(bl.live.SchemaError, match="install the newer"):
        place.open()


@of_storages("a store is upgraded where it is, while nobody serves it")
@pytest.mark.parametrize("number", [1, 2], ids=["before tokens", "before segments"])
def test_a_store_of_every_older_schema_is_read_and_upgraded(place, monkeypatch, number):
    old = {**schema.COLUMNS}
    old["version"] = [name for name in old["version"] if name != "steps"]
    old["decision"] = [name for name in old["decision"] if name != "segment"]
    about = place.create("plain", start=False).setup.to_json().replace(', "segmented": false', "")
    place.close()
    url = place.url if place.kind == "postgres" else str(place.folder / "old.belated")
    if place.kind == "postgres":
        place.sql("drop schema belated_live cascade")
        place.close()
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:number])
        patch.setattr(schema, "TABLES", ("experiment", "decision", "outcome", "change"))
        with bl.live.open(url, ticking=False) as store, store.storage.writing() as session:
            now = session.now
            _insert(session, "experiment", old, (1, "plain", "running", b"\x01" * 32, about, None, None, now))
            for number, label in enumerate("AB"):
                _insert(session, "arm", old, (1, number, label, "offered"))
            _insert(session, "rule", old, (1, 1, '{"name": "uniform"}', now))
            created = '{"arms": ["A", "B"], "policy": {"name": "uniform"}}'
            for number, (what, detail) in enumerate((("create", created), ("start", "{}"))):
                _insert(session, "change", old, (number, 1, what, detail, "Ada", "", now))
            made = (1, 1, 1, 1, 0, now, "[0, 1]", "[0.5, 0.5]", "[0.0, 0.0]", "[0.0, 0.0]", "start")
            _insert(session, "version", old, made)
            for key in range(30):
                arm = choose(uniform(b"\x01" * 32, f"u{key}"), [0.5, 1.0])
                _insert(session, "decision", old, (key, 1, f"u{key}", arm, 1, now))
                _insert(session, "outcome", old, (key, 1, key, "", 0, float(key % 2), None, now))
    read = bl.estimate(bl.read(url, table="plain")).to_json()
    with pytest.raises(bl.live.SchemaError, match="upgrade it"):
        bl.live.open(url)
    assert bl.live.migrate(url) == len(schema.MIGRATIONS)
    with bl.live.open(url, ticking=False) as store:
        exp = store.experiment("plain")
        assert exp.ask("u0").repeated
        assert exp.answer().estimate.to_json() == read
        assert exp.tick().step == 31
        assert store.create(
            "by segment", arms=["A"], policy=bl.policies.uniform(), outcome=bl.live.real(), segments=["DE"]
        ).start()
        assert store.experiment("by segment").ask("u0", "DE").segment == "DE"
        assert make_token(store.storage, "shop", ["ask"], author="Ada")
        assert store.verify().clean


def _insert(session, table, columns, row):
    names = ", ".join(columns[table])
    session.run(f"insert into {table} ({names}) values ({', '.join('?' * len(row))})", *row)  # noqa: S608
