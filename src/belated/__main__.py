"""The command `belated`, also as `python -m belated`."""

import signal
import sys
from threading import Timer


def main() -> None:
    """Run the command line; Ctrl-C is heard also while its modules are being loaded."""
    sys.unraisablehook = _heard
    try:
        from belated.cli.app import run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


def _heard(lost: "sys.UnraisableHookArgs") -> None:
    """Interrupt again, a moment later, if Ctrl-C came where nothing can be raised, as in the callbacks of an import."""
    if issubclass(lost.exc_type, KeyboardInterrupt):
        Timer(0.01, signal.raise_signal, [signal.SIGINT]).start()
    else:
        sys.__unraisablehook__(lost)


if __name__ == "__main__":
    main()
