"""What the answers assume: diagnosis of a log, and sensitivity to what it cannot show."""
