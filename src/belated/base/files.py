"""Files that appear whole or not at all, readable by those who could read what was there before."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

from belated.base.errors import OptionError
from belated.base.text import one_line


def write_whole(path: str | Path, content: str | bytes, *, private: bool = True) -> Path:
    """Write a file beside its place, then put it there, so that nobody ever sees half of it.

    It has the mode of the file that it replaces, also one that a link leads to. A new one is for its owner alone,
    unless what is in it is not `private`.
    """
    path = Path(path)
    place = Path(os.path.realpath(path))
    beside = place.with_name(f".belated-{token_hex(8)}")
    try:
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666), "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        with suppress(FileNotFoundError):
            beside.chmod(stat.S_IMODE(place.stat().st_mode))
        beside.replace(place)
    except OSError as error:
        raise OptionError(f"`{path}` cannot be written: {error.strerror}.") from None
    except UnicodeEncodeError:
        raise OptionError(f"`{path}` cannot be written: a label in it is not text.") from None
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
    return path


def check_file(path: str | os.PathLike[str]) -> None:
    """Refuse a path that leads to a pipe or a device: those may have no end, or nobody who writes into them."""
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        raise OptionError(f"`{one_line(path, 200)}` is not a file but a pipe or a device; write it to a file first.")


def check_place(path: str | Path, inputs: Iterable[str | Path] = ()) -> Path:
    """Return a path at which a file can appear: in a folder that exists, no folder itself, none of the inputs."""
    path = Path(path)
    if not path.parent.is_dir():
        raise OptionError(f"`{path}` cannot be written: there is no folder `{path.parent}`.")
    if path.is_dir():
        raise OptionError(f"`{path}` cannot be written: it is a folder.")
    if path.exists() and not path.is_file():
        raise OptionError(f"`{path}` cannot be written: it is not a file.")
    if path.exists() and any(_is_same(path, given) for given in inputs):
        raise OptionError(f"`{path}` cannot be written: it is what is read, and would be lost; choose another name.")
    return path


def _is_same(path: Path, other: str | Path) -> bool:
    """Whether two paths lead to one file, be it by links, other cases or other folders' names."""
    try:
        return path.samefile(other)
    except (OSError, ValueError):  # there is no other
        return False
