"""What every package uses: errors, checks of options, files, tables, text."""
