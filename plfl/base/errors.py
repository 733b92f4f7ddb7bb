"""Errors that the user can fix. Each message says what is wrong, where, and what to do."""

import difflib
from collections.abc import Iterable

from plfl.base.text import visible


class PlflError(Exception):
    """Base class of every error that the user's input or environment causes.

    The command line and the scripts of the workflow print its message without a traceback and exit
    with status 2. Control characters in it, from names in the user's files, are escaped.
    """

    def __init__(self, *problems: str):
        """Keep the problems, which are one below the other in the message."""
        super().__init__(*problems)
        self.problems = list(problems)

    def __str__(self) -> str:
        return visible("\n".join(map(str, self.args)))


class ConfigError(PlflError):
    """All errors in a configuration, in one message."""

    def __init__(self, source: str, problems: list[str]):
        """Join the problems of the configuration from `source`, one line each."""
        lines = "\n".join(f"  - {problem}" for problem in problems)
        count = f"{len(problems)} error" + ("s" if len(problems) > 1 else "")
        super().__init__(f"{source}: {count} in the configuration\n{lines}")
        self.problems = problems


class DataError(PlflError):
    """Input data that cannot be used: a missing or damaged file, column or value."""


class ResultsError(PlflError):
    """A results folder or tracking database that does not match the study or this version.

    Whatever reads a results folder raises it if a file is missing, damaged or of another format.
    """


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The end of a message about an unknown name: the most similar of the `names` names.

    Upper and lower case are not distinguished. The result is empty if no name is similar.
    """
    by_lower_case = {known_name.lower(): known_name for known_name in names}
    similar = difflib.get_close_matches(name.lower(), by_lower_case, n=1)
    return f"; did you mean {by_lower_case[similar[0]]!r}?" if similar else ""
