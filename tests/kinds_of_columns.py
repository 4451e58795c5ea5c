"""Tables as names of columns and their kinds."""

from __future__ import annotations

KINDS = {"i": "integer", "n": "number", "b": "boolean", "s": "text", "t": "time", "d": "duration", "o": "other"}


def table(**groups: str) -> dict[str, str]:
    """Return kinds from one letter to names apart by blanks; a longer word is the kind itself."""
    return {name: KINDS.get(kind, kind) for kind, names in groups.items() for name in names.split()}
