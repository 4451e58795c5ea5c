"""What every room uses: errors, checks of options, files, tables, text."""
