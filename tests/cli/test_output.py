from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import typer

import belated as bl
from belated.base.tables import Column, Table
from belated.cli.output import FORMATS, check_format, check_plot, sentences, show, write_plot


class Numbers(Table):
    def __init__(self, size):
        self.size = size

    def _title(self):
        return f"{self.size} numbers"

    def _columns(self):
        return [Column("number", list(range(self.size)), "count")]


def test_formats():
    assert [check_format(form) for form in FORMATS] == ["table", "markdown", "csv", "json"]
    with pytest.raises(bl.OptionError, match=r"`format` is 'tables'; .* Did you mean 'table'"):
        check_format("tables")


@pytest.mark.parametrize("form", FORMATS)
def test_a_result_ends_with_one_end_of_line(form, capsys):
    show(Numbers(3), form)
    written = capsys.readouterr().out
    assert written.endswith("\n")
    assert not written.endswith("\n\n")


def test_people_see_every_row_of_every_table(capsys):
    show(Numbers(100), "table", Numbers(2))
    text = capsys.readouterr().out
    assert text == f"{Numbers(100).to_text(every=True)}\n\n{Numbers(2)}\n"
    assert len(text.splitlines()) == 102 + 1 + 4
    show(Numbers(1), "markdown", Numbers(2))
    assert capsys.readouterr().out == f"{Numbers(1).to_markdown()}\n\n{Numbers(2).to_markdown()}\n"


@pytest.mark.parametrize("form", ["csv", "json"])
def test_programs_get_the_result_alone(form, capsys):
    show(Numbers(3), form, Numbers(7))
    with_others = capsys.readouterr().out
    show(Numbers(3), form)
    assert capsys.readouterr().out == with_others


def test_a_figure_is_drawn_only_if_it_was_asked_for(tmp_path):
    from belated.base.figures import new_figure

    write_plot(None, pytest.fail, "")
    write_plot(tmp_path / "x", lambda: new_figure(["a"])[0], "title")
    assert {path.name for path in tmp_path.iterdir()} == {"x.png", "x.svg"}


def test_a_figure_that_cannot_be_is_refused_at_once(tmp_path, monkeypatch):
    check_plot(None)
    check_plot(tmp_path / "x")
    with pytest.raises(bl.OptionError, match="there is no folder"):
        check_plot(Path("/nowhere/x"))
    monkeypatch.setattr("belated.base.figures.find_spec", lambda name: None)
    check_plot(None)
    with pytest.raises(bl.MissingLibraryError, match="pip install matplotlib"):
        check_plot(tmp_path / "x")


@pytest.mark.parametrize(
    "arguments",
    [
        ["analyze", "log.csv", "--report", "log.csv"],
        ["analyze", "log.csv", "--report", "hard"],
        ["analyze", "folder/../log.csv", "--report", "link"],
        ["analyze", "link.csv", "--report", "log.csv"],
        ["analyze", "log.cs[v]", "--report", "log.csv"],
        ["analyze", "folder", "--report", "folder/part.parquet"],
        ["analyze", "folder", "--outcomes", "log.csv", "--report", "log.csv"],
        ["sensitivity", "log.csv", "--contrast", "A-B", "--plot", "drawn"],
        ["plan", "log.csv", "--half-width", "0.1", "--plot", "drawn"],
        ["plan", "e.toml", "--half-width", "0.1", "--policy", "log.csv", "--plot", "drawn"],
        ["plan", "e.toml", "--half-width", "0.1", "--plot", "e"],
        ["study", "e.toml", "--save", "e.toml"],
        ["study", "e.toml", "--plot", "e"],
        ["simulate", "e.csv", "-o", "e.csv"],
    ],
)
def test_no_command_writes_over_what_it_reads(arguments, tmp_path, monkeypatch, refused):
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    files = [Path(name) for name in ("log.csv", "e.toml", "folder/part.parquet")]
    for file in files:
        file.write_text("of great value")
    for link, file in {"hard": files[0], "drawn.svg": files[0], "e.csv": files[1], "e.png": files[1]}.items():
        Path(link).hardlink_to(file)
    for link in ("link", "link.csv"):
        Path(link).symlink_to("log.csv")
    assert "it is an input file, which would be lost" in refused(*arguments)
    assert {file.read_text() for file in files} == {"of great value"}


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (bl.OptionError("This cannot be."), 2, "Error: This cannot be.\n"),
        (FileNotFoundError(2, "No such file or directory", "x.csv"), 2, "Error: `x.csv`: No such file or directory.\n"),
        (OSError(28, "No space left on device"), 2, "Error: No space left on device.\n"),
        (MemoryError(), 2, "Error: there is not enough memory for this.\n"),
        (KeyboardInterrupt(), 130, "Stopped. No incomplete file was written.\n"),
        (BrokenPipeError(), 0, ""),
    ],
)
def test_what_goes_wrong_is_one_sentence_and_a_code(error, code, words, capsys):
    with pytest.raises(typer.Exit) as left, sentences():
        raise error
    assert left.value.exit_code == code
    assert capsys.readouterr() == ("", words)


@pytest.mark.filterwarnings("always")
def test_warnings_are_sentences_without_the_line_of_code_that_gave_them(capsys):
    shown = warnings.showwarning
    with sentences():
        warnings.warn("One arm is alone.", bl.BelatedWarning, stacklevel=1)
    assert capsys.readouterr() == ("", "Warning: One arm is alone.\n")
    with pytest.warns(RuntimeWarning, match="of another library"), sentences():
        warnings.warn("of another library", RuntimeWarning, stacklevel=1)
    assert warnings.showwarning is shown


def test_a_mistake_of_ours_is_not_hidden():
    with pytest.raises(ZeroDivisionError), sentences():
        raise ZeroDivisionError


def test_a_command_can_be_run_again():
    @sentences()
    def command(wrong):
        if wrong:
            raise bl.OptionError("No.")
        return 1

    with pytest.raises(typer.Exit):
        command(True)
    assert command(False) == 1
