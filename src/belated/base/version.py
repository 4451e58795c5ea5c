"""The version, where everyone may read it."""

__version__ = "0.1.0"
