from __future__ import annotations

import pytest
import typer

import belated as bl
from belated.cli.errors import sentences


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (bl.OptionError("This cannot be."), 2, "Error: This cannot be.\n"),
        (FileNotFoundError(2, "No such file or directory", "x.csv"), 2, "Error: `x.csv`: No such file or directory.\n"),
        (OSError(28, "No space left on device"), 2, "Error: No space left on device.\n"),
        (MemoryError(), 2, "Error: there is not enough memory for this.\n"),
        (KeyboardInterrupt(), 130, "Stopped; nothing was written.\n"),
        (BrokenPipeError(), 0, ""),
    ],
)
def test_what_goes_wrong_is_one_sentence_and_a_code(error, code, words, capsys):
    with pytest.raises(typer.Exit) as left, sentences():
        raise error
    assert left.value.exit_code == code
    assert capsys.readouterr() == ("", words)


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
