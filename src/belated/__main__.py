"""`python -m belated`: the command line."""

from belated.cli.app import run

run()
