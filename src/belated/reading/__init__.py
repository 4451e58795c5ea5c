"""Logs in files, dataframes and databases."""
