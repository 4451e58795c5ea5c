"""Questions asked of a log, and their answers as text, JSON and an HTML page."""
