"""The log: what was assigned, what has arrived, what is still out."""
