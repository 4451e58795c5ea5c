"""What every page of benchmarks says about itself: the command that made it, and the machine."""

from __future__ import annotations

import os
import platform
import shlex
import sys
from pathlib import Path

import numpy as np

import belated as bl


def made_by() -> str:
    """Return the sentence for a page that this process makes."""
    command = shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])
    return (
        f"Made by `{command}` on {processor()}, {os.cpu_count()} cores; Python {platform.python_version()}, "
        f"NumPy {np.__version__}, belated {bl.__version__}."
    )


def processor() -> str:
    """Return the name of the processor."""
    about = Path("/proc/cpuinfo")
    lines = about.read_text().splitlines() if about.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
