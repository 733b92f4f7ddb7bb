"""The `plfl` command: one file for each subcommand, which `plfl.cli.main` finds by its name.

`add` adds a subcommand's options to those of `plfl`, and `run` runs it with them. The file of a
subcommand is imported only if it is chosen, so what it needs is imported at its top; `plfl --help`
loads neither pandas nor torch.
"""
