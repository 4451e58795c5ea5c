"""Loops over rows: arrays in, arrays out, no objects, no input or output."""
