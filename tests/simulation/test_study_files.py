from __future__ import annotations

import copy
import json
import math

import numpy as np
import pytest

import belated as bl

PAPERS = bl.Bandit(
    {"A": bl.arms.normal(1.0), "B": bl.arms.normal(0.5)},
    {"A": bl.delays.pareto(0.75).censored(0.5), "B": bl.delays.pareto(1.25)},
)


def same(a, b):
    return a.keys() == b.keys() and all(np.array_equal(a[h], b[h]) for h in a)


@pytest.mark.parametrize(
    "labels", [("A", "B"), (1, 2), (True, 0.5), ("x y", "<b>")], ids=["text", "whole", "odd", "hostile"]
)
def test_saved_and_loaded_it_is_the_same(tmp_path, labels):
    bandit = bl.Bandit(dict(zip(labels, PAPERS.arms.values(), strict=True)), bl.delays.poisson(3).censored(0.1))
    study = bl.study(bandit, bl.policies.thompson_normal(decay=0.3).batched(5), [50, 80], 20, intervals=["normal", "t"])
    study.save(tmp_path / "a.study")
    again = bl.Study.load(tmp_path / "a.study")
    assert same(study.moments, again.moments)
    assert str(again) == str(study)
    assert again.arms == labels
    assert (again.bandit, again.policy) == (study.bandit, study.policy)
    assert [p.name for p in tmp_path.iterdir()] == ["a.study"]


def test_what_is_not_a_study_is_refused(tmp_path):
    path = tmp_path / "not.study"
    for content in (b"", b"not", b"PK\x03\x04 broken"):
        path.write_bytes(content)
        with pytest.raises(bl.OptionError, match="is not a saved study"):
            bl.Study.load(path)
    np.savez(path.with_suffix(".npz"), about=np.array([{"a": 1}], dtype=object))  # needs unpickling
    with pytest.raises(bl.OptionError, match="is not a saved study"):
        bl.Study.load(path.with_suffix(".npz"))
    with pytest.raises(FileNotFoundError):
        bl.Study.load(tmp_path / "nowhere")


#: What somebody may have made of a value.
ODD = (None, 5, -1, 0.5, 2.5, "x", "", True, [], [1], {}, {"a": 1}, [[]], 10**400, "inf", [None], math.nan, math.inf)


def alterations(value, path=()):
    """Yield the places of a document, from the whole to its leaves."""
    yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in entries:
        yield from alterations(entry, (*path, key))


def altered(document, path, change):
    """Return a copy of a document with something else at one place; ... takes it out."""
    if not path:
        return change
    other = copy.copy(document)
    if len(path) == 1 and change is ...:
        del other[path[0]]
    else:
        other[path[0]] = altered(document[path[0]], path[1:], change)
    return other


def used(path):
    """Load a study and do what can be done with it."""
    study = bl.Study.load(path)
    assert 0 < study.level < 1
    assert str(study)
    assert str(study.policy_table)
    study.to_json()


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Save a study; give its file's path, and what is in it."""
    path = tmp_path_factory.mktemp("study") / "a.study"
    policy = bl.policies.fixed({"A": 0.5, "B": 0.5}).batched(3)
    bl.study(PAPERS, policy, [30, 40], 10, targets=["A", ("B", "A")], estimators=["daipw", "nh"]).save(path)
    with np.load(path) as file:
        return path, {name: file[name] for name in file.files}


def test_whatever_is_altered_in_a_study_is_told_or_does_no_harm(saved, tmp_path):
    path, content = saved
    used(path)
    about, rng, refusals = json.loads(str(content["about"])), np.random.default_rng(2), 0
    places = list(alterations(about))
    cases = [(place, ...) for place in places if place]
    cases += [(places[int(rng.integers(len(places)))], ODD[int(rng.integers(len(ODD)))]) for _ in range(150)]
    for place, change in cases:
        document = altered(about, place, change)
        other = tmp_path / "b.study"
        with other.open("wb") as file:
            np.savez(file, **(content | {"about": np.array(json.dumps(document))}))
        try:
            used(other)
        except bl.OptionError as error:
            refusals += 1
            sentence = str(error)
        else:
            sentence = ""
        assert "\n" not in sentence
    assert refusals > len(cases) / 2


@pytest.mark.parametrize("level", [5, 0, 1, -0.5, "0.95", None, True, math.nan])
def test_a_level_that_cannot_be(saved, tmp_path, level):
    about = json.loads(str(saved[1]["about"])) | {"level": level}
    np.savez(tmp_path / "b.npz", **(saved[1] | {"about": np.array(json.dumps(about))}))
    with pytest.raises(bl.OptionError, match="is not a saved study: `level` is"):
        bl.Study.load(tmp_path / "b.npz")


def test_a_study_of_another_version_is_told(saved, tmp_path):
    about = json.loads(str(saved[1]["about"])) | {"format": "belated study 2"}
    np.savez(tmp_path / "b.npz", **(saved[1] | {"about": np.array(json.dumps(about))}))
    with pytest.raises(bl.OptionError, match="saved by another version of belated; run the study again"):
        bl.Study.load(tmp_path / "b.npz")


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m[:1], lambda m: m[:, :1], lambda m: m[:, :, :-1], lambda m: m[0], lambda m: m * np.nan, lambda m: -m,
        lambda m: np.where(m % 1 == 0, m, np.inf),
        lambda m: m.astype("float32"), lambda m: m.astype(str), lambda m: m + 0.5, lambda m: 2 * m, np.zeros_like,
    ],
)  # fmt: skip
def test_runs_that_cannot_be(saved, tmp_path, change):
    np.savez(tmp_path / "b.npz", **(saved[1] | {"moments_30": change(saved[1]["moments_30"])}))
    with pytest.raises(bl.OptionError, match="is not a saved study: its runs at horizon 30"):
        bl.Study.load(tmp_path / "b.npz")


def test_a_damaged_study_is_told(saved, tmp_path):
    whole, rng = saved[0].read_bytes(), np.random.default_rng(3)
    for _ in range(100):
        damaged, bit = bytearray(whole), int(rng.integers(8 * len(whole)))
        damaged[bit // 8] ^= 1 << (bit % 8)
        (tmp_path / "b.study").write_bytes(bytes(damaged))
        try:
            again = bl.Study.load(tmp_path / "b.study")
        except bl.OptionError:
            continue
        assert same(again.moments, bl.Study.load(saved[0]).moments)
