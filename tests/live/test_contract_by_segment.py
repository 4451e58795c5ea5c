"""The contract of every storage, where segments touch it; `belated.live.storage.Storage` has it in words."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest

import belated as bl
from belated.live import postgres, schema
from belated.live.deciding import decide
from belated.live.design import snapshot, versions
from belated.live.draws import choose, cumulative, uniform
from belated.live.learning import Knowledge
from belated.live.tokens import make_token
from tests.live.conftest import in_storages, of_storages

SEGMENTS = ["FR", "DE", "ES"]  # not in alphabetical order, as logs have them
CHANCES = {
    "FR": {"A": 0.6, "B": 0.2, "C": 0.3},
    "DE": {"A": 0.2, "B": 0.6, "C": 0.3},
    "ES": {"A": 0.4, "B": 0.4, "C": 0.5},
}


def create(place, name="button", **options):
    given = {"arms": ["A", "B", "C"], "policy": bl.policies.thompson_beta(), "segments": SEGMENTS}
    return place.create(name, **given | options)


def learn(exp, batches=8, size=30, seed=1, clock=None, values=lambda chance, rng: float(rng.random() < chance)):
    """Ask, tell most outcomes, and tick."""
    rng = np.random.default_rng(seed)
    for batch in range(batches):
        segments = [SEGMENTS[k] for k in rng.choice(3, size, p=[0.5, 0.3, 0.2])]
        replies = exp.ask_many([f"{seed}-{batch}-{i}" for i in range(size)], segments)
        if clock is not None:
            clock.forward(60)
        exp.tell_many(
            (each.unit, values(CHANCES[each.segment].get(each.arm, 0.1), rng)) for each in replies if rng.random() < 0.8
        )
        exp.tick()


def stored(exp):
    with exp._store.storage.reading() as session:
        return versions(session, exp._id)


def rows(exp):
    with exp._store.storage.reading() as session:
        found = session.run(
            "select unit, arm, version, segment from decision where experiment = ? order by id", exp._id
        )
        return found, snapshot(session, exp.name)


# ---------------------------------------------------------------- asking


def test_a_unit_keeps_its_first_segment(place):
    exp = create(place)
    first = exp.ask("x", "DE")
    again = place.again().ask("x", segment="FR")
    assert (first.segment, first.repeated) == ("DE", False)
    assert again == first._replace(repeated=True)
    replies = exp.ask_many(["y", "y", "z"], ["ES", "DE", "DE"])
    assert [reply.segment for reply in replies] == ["ES", "ES", "DE"]
    assert replies[0].to_dict()["segment"] == "ES"


def test_the_same_unit_with_two_segments_at_once_makes_one_row(place):
    exp, other = create(place), place.again()
    units = [f"unit-{i:02}" for i in range(30)]
    with ThreadPoolExecutor(8) as pool:
        jobs = [
            pool.submit(one.ask, unit, segment)
            for unit in units
            for one, segment in ((exp, "DE"), (other, "FR"), (exp, "FR"), (other, "DE"))
        ]
        replies = [job.result() for job in jobs]
    found, _ = rows(exp)
    assert len(found) == len(units)
    assert len({(reply.unit, reply.segment, reply.arm) for reply in replies}) == len(units)
    assert exp._store.verify().clean


def test_segments_that_cannot_be_are_refused_in_a_sentence(place):
    exp, plain = create(place), place.create("plain")
    with pytest.raises(bl.OptionError, match="`segment` is given, but the experiment has no segments; leave it out"):
        plain.ask("x", "DE")
    with pytest.raises(bl.OptionError, match="`segment` is missing; this experiment needs the segment of every unit"):
        exp.ask("x")
    with pytest.raises(bl.OptionError, match="`segment` is 'IT'; it must be one of 'FR', 'DE', 'ES', or be added"):
        exp.ask("x", "IT")
    with pytest.raises(bl.OptionError, match="has 1 names, but there are 2 units"):
        exp.ask_many(["x", "y"], ["DE"])
    with pytest.raises(bl.OptionError, match="is of type int"):
        exp.ask("x", 3)
    with pytest.raises(bl.live.LiveError, match="has no segments; they are declared when"):
        plain.add_segment("IT")
    assert exp.ask_many([], []) == []
    assert rows(exp)[0] == rows(plain)[0] == []


@of_storages("it holds the storage's writer up")
def test_an_unknown_segment_harms_no_other_caller(place, monkeypatch):
    exp = create(place)
    go_on, storage = threading.Event(), exp._store.storage
    writing = storage.writing

    def slowly(*given):
        go_on.wait(30)
        return writing(*given)

    monkeypatch.setattr(storage, "writing", slowly)
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(exp.ask, f"u{i}", segment) for i, segment in enumerate(["DE", "IT", "FR", "DE"])]
        go_on.set()
        errors = [job.exception() for job in jobs]
    assert [type(error) for error in errors] == [type(None), bl.OptionError, type(None), type(None)]
    assert sorted(row[0] for row in rows(exp)[0]) == ["u0", "u2", "u3"]


def test_every_arm_recomputes_from_the_salt_and_the_segment(place):
    exp = create(place)
    learn(exp)
    found, about = rows(exp)
    made = {version.number: version for version in stored(exp)}
    assert [arm for _, arm, *_ in found] == [
        choose(uniform(about.salt, unit), cumulative(made[number].chances(segment)))
        for unit, _, number, segment in found
    ]
    assert exp._store.verify().clean
    place.sql("update decision set segment = 7 where unit = ?", found[0][0])
    place.sql("update decision set segment = null where unit = ?", found[1][0])
    first, second = exp._store.verify().findings
    assert "version 2 has seen a decision for an arm or a segment that is not there" in first
    assert "2 decisions of a segment that its version does not have" in second


@of_storages("a Python function is not sent over HTTP")
def test_draws_follow_the_probabilities_of_the_segment(place):
    rates = {"FR": [1.0, 0.0, 0.0], "DE": [0.0, 0.3, 0.7], "ES": [0.2, 0.2, 0.6]}
    calls = iter([[1 / 3] * 3] * 3 + [rates[segment] for segment in SEGMENTS] * 2)
    exp = create(place, policy=bl.policies.own(lambda count, total, t: next(calls)))
    exp.ask("first", "FR")
    exp.tick()
    for segment, p in rates.items():
        replies = exp.ask_many([f"{segment} {i}" for i in range(1000)], [segment] * 1000)
        drawn = Counter(reply.arm for reply in replies)
        assert list(replies[0].probabilities.values()) == p
        assert all(drawn[arm] == 0 for arm, each in zip("ABC", p, strict=True) if not each)
        chi2 = sum((drawn[arm] - 1000 * each) ** 2 / (1000 * each) for arm, each in zip("ABC", p, strict=True) if each)
        assert chi2 < 27.6  # the 1 - 1e-6 quantile with 2 degrees of freedom: the salt is a new one in every run


def test_asynchronous_asks_have_segments(place):
    exp = create(place)

    async def call():
        first = await exp.ask_async("x", "DE")
        both = await exp.ask_many_async(["x", "y"], ["FR", "ES"])
        with pytest.raises(bl.OptionError, match="must be one of"):
            await exp.ask_async("z", "IT")
        return first, both

    first, both = asyncio.run(call())
    assert [first.segment, *(reply.segment for reply in both)] == ["DE", "DE", "ES"]


def test_stopped_gives_the_final_arm_in_every_segment(place):
    exp = create(place)
    first = exp.ask("x", "DE")
    exp.stop(final="B")
    assert exp.ask("x", "FR") == first._replace(repeated=True)
    later = exp.ask("y", "ES")
    assert (later.arm, later.segment, later.logged) == ("B", "ES", False)
    with pytest.raises(bl.OptionError, match="must be one of"):
        exp.ask("y", "IT")


# ---------------------------------------------------------------- learning


def test_a_policy_learns_in_each_segment_on_its_own(place):
    policy = bl.policies.thompson_beta(burn_in=5)
    exp = create(place, policy=policy)
    learn(exp)
    version, log = stored(exp)[-1], exp.log()
    labels, code = log.segment_column
    for place_, segment in enumerate(SEGMENTS):
        mine = code == labels.index(segment)
        told = mine & log.arrived
        counts = np.bincount(log.code[told], minlength=3)
        totals = np.bincount(log.code[told], log.outcome[told], 3)
        assert version.counts[place_ * 3 : place_ * 3 + 3] == tuple(counts)
        assert version.totals[place_ * 3 : place_ * 3 + 3] == tuple(totals)
        assert version.steps[place_] == mine.sum() + 1
        alone = Knowledge(int(mine.sum()) + 1, tuple(counts.astype(float)), tuple(totals))
        assert version.chances(place_) == tuple(decide(policy, "ABC", (0, 1, 2), alone, 1000))
    assert version.step == len(log) + 1
    assert len(set(map(version.chances, range(3)))) == 3


def test_a_pooled_policy_does_not_look_at_segments(place):
    policy = bl.policies.thompson_beta().pooled()
    exp = create(place, policy=policy)
    learn(exp)
    version = stored(exp)[-1]
    assert len(set(map(version.chances, range(3)))) == 1
    counts, totals = (np.reshape(each, (3, 3)).sum(axis=0) for each in (version.counts, version.totals))
    together = Knowledge(version.step, tuple(counts), tuple(totals))
    assert version.chances(0) == tuple(decide(policy, "ABC", (0, 1, 2), together, 1000))
    exp.set_policy(bl.policies.thompson_beta())  # what each segment showed was kept
    version = stored(exp)[-1]
    assert len(set(map(version.chances, range(3)))) == 3
    assert exp._store.verify().clean


def test_a_burn_in_is_of_each_segment_or_a_share_of_all_units(place):
    even = (1 / 3,) * 3
    steps = create(place, policy=bl.policies.thompson_beta(burn_in=20))
    share = create(place, "share", policy=bl.policies.thompson_beta(burn_in=0.03), planned_rows=1000)
    for exp in (steps, share):
        units = [f"u{i}" for i in range(33)]
        exp.ask_many(units, ["FR"] * 25 + ["DE"] * 8)
        exp.tell_many((unit, 1) for unit in units)
        exp.tick()
    first, second = (stored(exp)[-1] for exp in (steps, share))
    assert first.chances(0) != even
    assert first.chances(1) == first.chances(2) == even
    assert second.chances(1) != even  # 33 units are more than 3 % of 1,000


def test_replay_gives_the_same_versions_bit_for_bit(place):
    exp = create(place, outcome=bl.live.real(), policy=bl.policies.thompson_normal())
    learn(exp, 4, values=lambda chance, rng: rng.normal(chance))
    exp.add_segment("IT")
    exp.ask_many(["i1", "i2"], ["IT", "IT"])
    exp.tell("i1", 0.1)
    exp.add_arm("D")
    exp.tick()
    exp.pause_arm("A")
    learn(exp, 2, seed=2, values=lambda chance, rng: rng.normal(chance))
    exp.set_policy(bl.policies.epsilon_greedy().pooled())
    learn(exp, 2, seed=3, values=lambda chance, rng: rng.normal(chance))
    assert place.again().replay() == stored(exp)
    assert exp._store.verify().clean


def test_segments_and_arms_are_added_in_flight(place):
    exp, other = create(place), place.again()
    learn(exp, 3)
    before = stored(exp)[-1]
    exp.add_segment("IT", reason="a new shop")
    with pytest.raises(bl.OptionError, match="'IT', which the experiment has already"):
        exp.add_segment("IT")
    with pytest.raises(bl.OptionError, match="'all', a word of the answers"):
        exp.add_segment("all")
    assert other.ask("i1", "IT").probabilities == pytest.approx({"A": 1 / 3, "B": 1 / 3, "C": 1 / 3})
    after = stored(exp)[-1]
    assert after.cause == "segment added: IT"
    assert after.probabilities[:9] == before.probabilities
    assert after.steps == (*before.steps, 1)
    exp.add_arm("D")
    exp.drop_arm("A")
    last = stored(exp)[-1]
    assert (last.arms, len(last.probabilities)) == (4, 16)
    assert [last.chances(s)[0] for s in range(4)] == [0.0] * 4
    assert all(last.chances(s)[3] > 0 for s in range(4))
    assert np.reshape(last.counts, (4, 4))[:3, :3].ravel().tolist() == list(before.counts)
    assert set(exp.ask("i2", "IT").probabilities) == {"A", "B", "C", "D"}
    status = exp.status()
    assert [label for label, *_ in status.segments] == ["FR", "DE", "ES", "IT"]
    assert sum(p for *_, p in status.arms) == pytest.approx(1)
    assert [change.what for change in exp.changes()] == ["create", "start", "add segment", "add arm", "drop arm"]
    assert json.loads(exp.changes()[0].detail)["segments"] == SEGMENTS
    assert exp._store.verify().clean


@of_storages("a Python function is not sent over HTTP")
def test_a_policy_that_fails_in_a_segment_keeps_the_last_good_version(place):
    def choose_best(count, total, t):
        return [0.5, 0.5] if sum(count) < 3 else [float("nan"), 1.0]

    exp = create(place, arms=["A", "B"], policy=bl.policies.own(choose_best))
    exp.ask_many([f"u{i}" for i in range(6)], ["FR", "DE", "DE", "DE", "ES", "ES"])
    exp.tick()
    exp.tell_many((f"u{i}", 1) for i in range(6))
    good = exp.tick()
    assert good.number == 2
    assert exp.status().problem.startswith("In segment 'DE': The policy returned")
    exp.pause_arm("B")  # the last probabilities of the arms that are left, in every segment
    assert exp.status().segments[1] == ("DE", 3, (1.0, 0.0))
    assert exp._store.verify().clean


@of_storages("a Python function is not sent over HTTP")
def test_an_own_policy_is_asked_for_each_segment(place):
    seen = []

    def policy(count, total, t):
        seen.append((count.tolist(), total.tolist(), t))
        return [0.25, 0.75]

    exp = create(place, arms=["A", "B"], policy=bl.policies.own(policy))
    exp.ask_many(["a", "b", "c"], ["FR", "FR", "ES"])
    exp.tell("c", 1)
    seen.clear()
    exp.tick()
    (fr, de, es) = seen
    assert fr == ([0.0, 0.0], [0.0, 0.0], 3)
    assert de == ([0.0, 0.0], [0.0, 0.0], 1)
    assert (sum(es[0]), sum(es[1]), es[2]) == (1.0, 1.0, 2)
    exp.set_policy(bl.policies.own(policy).pooled())
    assert sum(seen[-1][0]) == 1.0
    assert seen[-1][2] == 4


# ---------------------------------------------------------------- answers


def agree(place, exp, **options):
    """Check that answers from memory are those from the storage, to the last digit; return the answer."""
    answer, read = exp.answer(), bl.read(place.home, table=exp.name, **options)
    assert bl.estimate(read).to_json() == answer.estimate.to_json() == bl.estimate(exp.log()).to_json()
    assert bl.sequence(read, **exp.setup.sequence_options).to_json() == answer.sequence.to_json()
    assert bl.diagnose(read).to_json() == answer.diagnosis.to_json()
    for label, own in answer.segments.items():
        assert own.estimate.to_json() == bl.estimate(read).segment(label).to_json()
        several = len(answer.estimate.segments)
        followed = bl.sequence(read, segment=label, **exp.setup.segment_options(several))
        assert followed.to_json() == own.sequence.to_json()
    return answer


def test_the_log_read_and_answer_agree(place):
    exp = create(place, policy=bl.policies.thompson_beta(burn_in=100))
    learn(exp, 12, 60, clock=place.clock)
    answer = agree(place, exp)
    assert answer.estimate.segments == ("DE", "ES", "FR")
    assert (answer.sequence.kind, answer.segments["DE"].sequence.kind) == ("beta_binomial", "beta_binomial")
    names = [fixed.name for fixed, _ in answer.contrasts]
    assert names[:3] == ["B - A", "C - A", "B - A in DE"]
    assert len(names) == 8
    assert all(name in str(answer) for name in names)
    assert [row["segment"] for row in answer.to_dict()["contrasts"]][::2] == [None, "DE", "ES", "FR"]
    found = {fixed.name: each for fixed, each in answer.contrasts}
    assert found["B - A in DE"].estimate > 0 > found["B - A in FR"].estimate
    assert set(answer.exclusions) == {name for name, each in found.items() if each.excluded_at is not None}
    assert exp.answer() is answer


def test_outcomes_of_any_size_agree(place):
    exp = create(place, outcome=bl.live.bounded(-9, 9), policy=bl.policies.thompson_normal(burn_in=100))
    learn(exp, 10, 60, values=lambda chance, rng: float(np.clip(rng.normal(chance), -9, 9)), clock=place.clock)
    answer = agree(place, exp)
    assert (answer.sequence.kind, answer.segments["DE"].sequence.kind) == ("asymptotic", "asymptotic")


@in_storages("measure", ["indicator", "sum"])
def test_events_have_segments(place, measure):
    exp = create(place, outcome=bl.live.events("10min", measure), policy=bl.policies.uniform(), arms=["A", "B"])
    for batch in range(12):
        units = [f"{batch}-{i}" for i in range(60)]
        exp.ask_many(units, [SEGMENTS[i % 3] for i in range(60)])
        place.clock.forward(120)
        exp.tell_many((unit, k + 0.5, f"order {k}") for unit in units[::4] for k in range(2))
        if batch == 5:
            exp.tick()
    answer = exp.answer()
    read = bl.read(place.home, table="button", as_of=answer.as_of)
    assert answer.counts.told == len(read.closed())
    assert agree(place, exp, as_of=answer.as_of) is answer
    made, closed = exp.tick(), answer.log.closed().log()
    labels, code = closed.segment_column
    for segment in SEGMENTS:
        mine = code == labels.index(segment)
        own = slice(2 * SEGMENTS.index(segment), 2 * SEGMENTS.index(segment) + 2)
        assert made.counts[own] == tuple(np.bincount(closed.code[mine], minlength=2))
        assert made.totals[own] == tuple(np.bincount(closed.code[mine], closed.outcome[mine], 2))
    assert exp._store.verify().clean


def test_an_answer_of_few_outcomes_merges_segments(place):
    exp = create(place, policy=bl.policies.uniform())
    assert exp.answer().segments == {}
    exp.ask_many([f"u{i}" for i in range(60)], ["FR"] * 40 + ["DE"] * 12 + ["ES"] * 8)
    exp.tell_many((f"u{i}", i % 2) for i in range(60))
    answer = exp.answer()
    merged = [label for label, own in answer.segments.items() if own.sequence is None]
    assert merged in ([], ["other"])
    assert "B - A" in str(answer)
    assert json.loads(answer.to_json())["contrasts"][0]["segment"] is None
    assert bl.estimate(bl.read(place.home, table="button")).to_json() == answer.estimate.to_json()


# ---------------------------------------------------------------- erasing and keeping


def test_an_erased_unit_keeps_its_segment_and_answers_are_unchanged(place):
    exp = create(place, policy=bl.policies.uniform())
    learn(exp, 6, 60)
    before = exp.answer()
    assert exp.erase("1-0-3")
    after = place.again().answer()
    assert after.estimate.to_json() == before.estimate.to_json()
    assert after.sequence.to_json() == before.sequence.to_json()
    assert exp._store.verify().clean
    assert not exp.ask("1-0-3", "ES").repeated  # a new unit


def test_a_backup_has_the_segments(place):
    exp = create(place)
    learn(exp, 6, 60)
    exp.add_segment("IT")
    before, made = exp.answer(), stored(exp)
    path = exp._store.backup(place.folder / "copy.belated")
    place.close()
    home = place.url if place.kind == "postgres" else str(place.folder / "restored.belated")
    bl.live.restore(path, home, replace=place.kind == "postgres")
    with bl.live.open(home, ticking=False) as store:
        again = store.experiment("button")
        assert stored(again) == made
        assert again.answer().estimate.to_json() == before.estimate.to_json()
        assert again.ask("new", "IT").segment == "IT"
        assert store.verify().clean


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
        patch.setattr(postgres, "TABLES", ("experiment", "decision", "outcome", "change"))
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


@of_storages("a table is not imported over HTTP")
def test_a_running_experiment_is_imported_with_its_segments(place):
    bandit = bl.ContextualBandit(
        {
            segment: bl.Bandit({arm: bl.arms.bernoulli(p) for arm, p in rates.items()}, bl.delays.geometric(20))
            for segment, rates in CHANCES.items()
        }
    )
    log = bl.simulate(bandit, bl.policies.thompson_beta(burn_in=60).batched(20), 300, seed=1)
    labels, code = log.segment_column
    countries = [labels[s] for s in code]
    frame = pa.table(
        {"who": [f"c{i}" for i in range(300)], "country": countries, "arm": [log.arms[k] for k in log.code]}
        | {f"p_{arm}": log.propensity_matrix[:, k] for k, arm in enumerate(log.arms)}
        | {"outcome": [y if there else None for y, there in zip(log.outcome, log.arrived, strict=True)]}
    )
    given = {"policy": bl.policies.thompson_beta(), "outcome": bl.live.binary(), "unit": "who", "baseline": "A"}
    store = place.open()
    exp = store.import_table("mail", frame, segment="country", **given)
    assert exp.status().segments[0][0] == "DE"
    answer = agree(place, exp)
    reference = bl.estimate(bl.read(frame, segment="country"))
    assert answer.estimate.values == pytest.approx(reference.values, rel=1e-12)
    made = stored(exp)
    assert sum(version.cause == "import" for version in made) < 30  # a version holds a batch of every segment
    assert made[-1].steps == tuple(1 + countries.count(segment) for segment in sorted(CHANCES))
    assert sum(made[-1].counts) == log.arrived.sum()
    again = exp.ask("c17", "DE")
    assert (again.repeated, again.segment) == (True, countries[17])
    assert place.again("mail").replay() == made
    assert store.verify().clean
    holed = frame.set_column(1, "country", pa.array([None, *countries[1:]]))
    with pytest.raises(bl.LogError, match="The segment of row 0 is missing"):
        store.import_table("other", holed, segment="country", **given)
