"""The command `belated`, also as `python -m belated`."""

import sys


def main() -> None:
    """Run the command line; Ctrl-C while it is being loaded is not an error either."""
    try:
        from belated.cli.app import run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
