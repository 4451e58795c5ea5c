"""Planning: how long an experiment must run, and how long to wait after its last assignment."""
