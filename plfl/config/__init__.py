"""The configuration of a study: its keys, reading, checking, and the files generated from it."""
