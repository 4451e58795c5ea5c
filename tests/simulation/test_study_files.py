from __future__ import annotations

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
        with pytest.raises(bl.OptionError, match="is not a study"):
            bl.Study.load(path)
    np.savez(path.with_suffix(".npz"), about=np.array([{"a": 1}], dtype=object))  # needs unpickling
    with pytest.raises(bl.OptionError, match="is not a study"):
        bl.Study.load(path.with_suffix(".npz"))
    with pytest.raises(FileNotFoundError):
        bl.Study.load(tmp_path / "nowhere")
