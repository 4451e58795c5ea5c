"""Inputs: tables that people have, each as an Ibis table with a name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from belated.reading.kinds import Kind

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from ibis.backends import BaseBackend


@dataclass(frozen=True)
class Input:
    """A table, and how to speak of it.

    Attributes
    ----------
    table : ibis table
    name : str
    ordered : bool
        Whether its rows have an order, as those of files and dataframes do.
    """

    table: ir.Table
    name: str
    ordered: bool

    @property
    def connection(self) -> BaseBackend:
        """The Ibis connection that the table is in."""
        return self.table.get_backend()

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """Columns of which more is known than their types tell."""
        return {}

    def loaded(self, types: Mapping[str, str], columns: Iterable[str], arm: str) -> Input:
        """Return the same table, its columns of the types that they must have, where types are only guessed."""
        return self
