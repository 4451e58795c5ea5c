from __future__ import annotations


def test_paper_one_figure(call, tmp_path):
    done = call("paper", "--figure", "zero-margin", "--replications", 20, "-o", tmp_path / "out")
    assert done.exit_code == 0
    assert "within two Monte Carlo errors" in done.stdout
    assert (tmp_path / "out" / "index.html").exists()


def test_the_output_must_be_a_folder_and_the_figure_one_of_the_papers(refused, file, tmp_path):
    assert "is a file; the output must be a folder" in refused("paper", "-o", file)
    assert "zero-margin" in refused("paper", "--figure", "zero", "-o", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_without_matplotlib_nothing_runs(refused, tmp_path, monkeypatch):
    monkeypatch.setattr("belated.base.figures.find_spec", lambda name: None)
    assert "pip install matplotlib" in refused("paper", "-o", tmp_path / "out")


def test_two_replications_are_enough_for_an_answer(call, tmp_path):
    done = call("paper", "--figure", "no-delay", "--replications", 2, "-o", tmp_path / "out")
    assert done.exit_code == 0
    assert "within two Monte Carlo errors" in done.stdout


def test_a_figure_whose_numbers_the_authors_did_not_record_is_not_compared(call, tmp_path):
    done = call("paper", "--figure", "weak-margin", "--replications", 2, "-o", tmp_path / "out")
    assert done.stdout.startswith("There is nothing to compare: the authors recorded no quantity")
    page = (tmp_path / "out" / "index.html").read_text()
    assert "recorded no quantity of this figure" in page
    assert "1 cell of 2 replications" in page
    assert "Of 0 recorded" not in page
