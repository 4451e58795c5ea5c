"""Writing files atomically, with the permissions of the file they replace; files that change while they are read."""

from __future__ import annotations

import errno
import os
import re
import stat
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from belated.base.errors import LogError, OptionError, argument
from belated.base.text import one_line

#: How databases begin: those of SQLite, and those of DuckDB after a checksum of 8 bytes.
_DATABASES = re.compile(rb"SQLite format 3\x00|.{8}DUCK", re.DOTALL)


#: How names of pages end; a viewer of another kind of file could not open one.
_PAGES = ("", ".html", ".htm")

#: Held while a file is written.
WRITING = threading.Lock()


def write_whole(path: str | Path, content: str | bytes, *, private: bool = True) -> Path:
    """Write a file under a temporary name and rename it, so that nobody sees a partial file.

    It keeps the mode of the file that it replaces, also through links. A new file is readable by its owner only, unless
    `private` is False.
    """
    path = Path(path)
    _check_name(path)
    place = Path(os.path.realpath(path))
    _check_permission(path, place)
    beside = place.with_name(f".belated-{os.urandom(8).hex()}")
    with WRITING:
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
    """Raise if a path is a pipe or a device, which may have no end or no writer."""
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        raise OptionError(f"`{one_line(path, 200)}` is a pipe or a device; write its content to a file first.")


class FileVersion(NamedTuple):
    """A file as it was when it was found: its size in bytes, and when it was changed, in nanoseconds."""

    path: str
    size: int
    changed: int


def versions_of(paths: Iterable[str]) -> tuple[FileVersion, ...]:
    """Return files as they are now; raise if one is not there, or if one is there twice."""
    paths_by_inode: dict[tuple[int, int], str] = {}
    versions = []
    for path in paths:
        check_file(path)
        try:
            state = os.stat(path)
        except OSError as error:
            why = "it is a link to a file that is not there" if os.path.islink(path) else error.strerror
            raise OptionError(f"`{one_line(path, 200)}` cannot be read: {why}.") from None
        same = paths_by_inode.setdefault((state.st_dev, state.st_ino), path)
        if same != path:
            raise OptionError(
                f"`{one_line(same, 200)}` and `{one_line(path, 200)}` are the same file, whose rows would count twice; "
                "keep one of the two."
            )
        versions.append(FileVersion(os.path.abspath(path), state.st_size, state.st_mtime_ns))
    return tuple(versions)


def check_unchanged(versions: Iterable[FileVersion]) -> None:
    """Raise if a file is no longer as it was when it was found."""
    for version in versions:
        try:
            state = os.stat(version.path)
        except OSError:
            state = None
        if state is None or (state.st_size, state.st_mtime_ns) != version[1:]:
            name = one_line(Path(version.path).name)
            raise LogError(f"`{name}` has changed since it was first read; read it again.")


def check_place(path: str | Path, inputs: Iterable[str | Path] = ()) -> Path:
    """Return the path if a file can be written there; raise if it would be a folder, an input or a database."""
    if not isinstance(path, (str, os.PathLike)):
        raise OptionError(f"{argument('path')} is of type {type(path).__name__}; it must be the name of a file.")
    path = Path(path)
    _check_name(path)
    if not path.parent.is_dir():
        raise OptionError(f"`{path}` cannot be written: there is no folder `{path.parent}`.")
    if path.is_dir():
        raise OptionError(f"`{path}` cannot be written: it is a folder.")
    if path.exists() and not path.is_file():
        raise OptionError(f"`{path}` cannot be written: it is not a file.")
    if path.is_file() and _DATABASES.match(_start(path, 16)):
        raise OptionError(f"`{path}` cannot be written: it is a database, which would be lost; choose another name.")
    if path.exists() and any(_is_same(path, given) for given in inputs):
        raise OptionError(f"`{path}` cannot be written: it is an input file, which would be lost; choose another name.")
    _check_permission(path, Path(os.path.realpath(path)))
    return path


def check_page(path: str | Path, inputs: Iterable[str | Path] = ()) -> Path:
    """Return the path if a page can be written there: under a name of a page, and in place of no other kind of file."""
    place = check_place(path, inputs)
    if _start(place, 64).lstrip()[:9].lower() not in (b"", b"<!doctype"):
        lost = "it holds something other than a report, which would be lost"
        raise OptionError(f"`{place}` cannot be written: {lost}; choose another name.")
    if place.suffix.lower() not in _PAGES:
        right = place.with_suffix(".html").name
        raise OptionError(f"`{place}` cannot be written: a report is an HTML page; name it {one_line(right)}.")
    return place


def _check_name(path: Path) -> None:
    """Raise if no file can have this name, or if its folder must not be looked into."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        raise OptionError(f"`{one_line(path, 200)}` cannot be written: {error.strerror}.") from None
    except ValueError:
        raise OptionError(f"`{one_line(path, 200)}` cannot be written: there is a null character in it.") from None


def _check_permission(path: Path, place: Path) -> None:
    """Raise if a file must not be written, or a folder; renaming would replace a file that is read-only."""
    if any(each.exists() and not os.access(each, os.W_OK) for each in (place, place.parent)):
        raise OptionError(f"`{path}` cannot be written: {os.strerror(errno.EACCES)}.")


def _start(path: Path, size: int) -> bytes:
    """Return how a file begins; nothing if there is none, or if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(size)
    except OSError:  # said when it is written
        return b""


def _is_same(path: Path, other: str | Path) -> bool:
    """Whether two paths are the same file, also through links and different spellings."""
    try:
        return path.samefile(other)
    except (OSError, ValueError):  # the other file does not exist
        return False
