"""The `plfl` command: one file for each subcommand, assembled by `plfl.cli.main`.

`add` adds a subcommand to those of `plfl`, and `run` runs it with its options. A subcommand imports
what it needs inside its function, not at the top of its file. Otherwise every command, `plfl
--help` included, would first load pandas and torch, which takes seconds.
"""
