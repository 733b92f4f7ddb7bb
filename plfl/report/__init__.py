"""The report of a study: its page and its figures."""
