"""The configuration of a study: typed keys, what they can name, reading, error messages."""
