"""The assumptions of estimates: diagnosis of a log, and sensitivity to outcomes that never arrive."""
