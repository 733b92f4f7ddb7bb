"""Errors a user can mend: what was wrong, where, and what to do."""


class PlflError(Exception):
    """Base of every error that `plfl` raises for the user's input or surroundings.

    The command line and the workflow scripts print its message without a traceback and exit with
    status 2.
    """


class ConfigError(PlflError):
    """All that is wrong with a configuration, gathered into one message."""

    def __init__(self, source: str, problems: list[str]):
        self.problems = problems
        lines = "\n".join(f"  - {problem}" for problem in problems)
        count = f"{len(problems)} error" + ("s" if len(problems) > 1 else "")
        super().__init__(f"{source}: {count} in the configuration\n{lines}")


class DataError(PlflError):
    """A file, column or value of the input data that cannot be used."""


class ResultsError(PlflError):
    """A results folder or tracking database that does not fit this study or this version."""
