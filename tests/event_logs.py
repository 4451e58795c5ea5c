"""Experiments with events: those of benchmarks/event_logs.py."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

_SPEC = spec_from_file_location("benchmark_event_logs", Path(__file__).parent.parent / "benchmarks" / "event_logs.py")
_MODULE = module_from_spec(_SPEC)
sys.modules[_SPEC.name] = _MODULE
_SPEC.loader.exec_module(_MODULE)

Change, experiment = _MODULE.Change, _MODULE.experiment
