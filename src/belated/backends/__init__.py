"""Tables in files and engines, to `Log` or `Sums`."""
