"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

from belated.base.errors import OptionError


def write_whole(path: str | Path, content: str | bytes) -> Path:
    """Write a file beside its place, then put it there, so that nobody ever sees half of it."""
    path = Path(path)
    beside = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        beside.write_bytes(content if isinstance(content, bytes) else content.encode())
        beside.replace(path)
    except OSError as error:
        raise OptionError(f"`{path}` cannot be written: {error.strerror}.") from None
    except UnicodeEncodeError:
        raise OptionError(f"`{path}` cannot be written: a label in it is not text.") from None
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
    return path


def check_place(path: str | Path) -> Path:
    """Return a path at which a file can appear: in a folder that exists, and not a folder itself."""
    path = Path(path)
    if not path.parent.is_dir():
        raise OptionError(f"`{path}` cannot be written: there is no folder `{path.parent}`.")
    if path.is_dir():
        raise OptionError(f"`{path}` cannot be written: it is a folder.")
    if path.exists() and not path.is_file():
        raise OptionError(f"`{path}` cannot be written: it is not a file.")
    return path
