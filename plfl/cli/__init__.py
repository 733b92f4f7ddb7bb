"""The `plfl` command: one file for each subcommand, assembled by `plfl.cli.main`.

A subcommand imports what it needs inside its function, not at the top of its file. Otherwise every
command, `plfl --help` included, would first load pandas and torch, which takes seconds.
"""
