"""The command `belated`, also as `python -m belated`."""

import sys

from belated.base.interrupts import finish, leave_at_once


def main() -> None:
    """Run the command line; Ctrl-C is heard also while its modules are being loaded."""
    leave_at_once()
    sys.unraisablehook = _heard
    from belated.cli.app import run

    try:
        run()
    finally:
        finish()


def _heard(lost: "sys.UnraisableHookArgs") -> None:
    """Interrupt again, a moment later, if Ctrl-C came where nothing can be raised, as in the callbacks of an import."""
    if issubclass(lost.exc_type, KeyboardInterrupt):
        import signal
        from threading import Timer

        Timer(0.01, signal.raise_signal, [signal.SIGINT]).start()
    else:
        sys.__unraisablehook__(lost)


if __name__ == "__main__":
    main()
