"""Errors that the user can fix: what is wrong, where, and what to do, and the words for it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from plfl.base.keys import Key
from plfl.base.text import MOST_NAMES, count_in_words, counted_names, escape_control_characters


@dataclass(frozen=True)
class Place:
    """A place in a file."""

    file: Path
    spot: str = ""
    """Where in the file, such as `line 3`."""
    meter: str = ""
    """The meter there, if the place names it."""

    @property
    def place_in_file(self) -> str:
        """Where in the file, in words."""
        return ": ".join(filter(None, (self.spot, self.meter)))

    def __str__(self) -> str:
        return f"{self.file}: {self.place_in_file}"


@dataclass(frozen=True)
class Problem:
    """Something that the user can fix. `str` is the only place that words it."""

    place: Path | Place | Key | str
    """Where it is: a file, a place in one, a key of the study, or in words; empty: nowhere in
    particular."""
    text: str
    """What is wrong."""
    remedy: str = ""
    """What to do about it; empty if the text says it."""
    meter: str = field(default="", compare=False)
    """The meter that it is about; empty if it is not about a single one."""
    kind: str = field(default="", compare=False)
    """Problems of a kind are told once for many meters, even if texts and remedies differ in names
    and numbers; empty: those with the same remedy, or without any with the same text, are."""
    note: str = ""
    """What else there is to say, at the end and in brackets."""
    excerpt: str = ""
    """What the file has there, for a line of its own."""
    answers: tuple[Key, ...] = field(default=(), compare=False)
    """If it is a question, the first of its answers: keys with their values."""
    place_words: str = field(default="", compare=False, repr=False)
    """The place in the words of its reader, which `word_keys` gives where the problem is found."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "place_words", self.place_words or str(self.place))

    def describe_at(self, place: str) -> str:
        """One line: the place in other words, if any, what is wrong and what to do; then the
        excerpt, if any."""
        sentence = f"{self.text}; {self.remedy}" if self.remedy else self.text
        note = f" ({self.note})" if self.note else ""
        excerpt = f"\n  {self.excerpt}" if self.excerpt else ""
        return f"{place}: {sentence}{note}{excerpt}" if place else f"{sentence}{note}{excerpt}"

    def locate_in(self, place: Path | Place | Key | str, meter: str = "") -> Self:
        """The problem of something that is in a larger `place`, or belongs to a `meter`."""
        inner = f": {self.place_words}" if self.place_words else ""
        meter = meter or self.meter
        return replace(self, place=f"{place}{inner}", place_words="", meter=meter)

    def __str__(self) -> str:
        return self.describe_at(self.place_words)


class PlflError(Exception):
    """Base class of every error that the user's input or environment causes.

    The command line and the scripts of the workflow print its message without a traceback and exit
    with status 2. Control characters in it, from names in the user's files, are escaped.
    """

    def __init__(self, *problems: Problem | str):
        """Keep the problems, which are one below the other in the message."""
        super().__init__(*problems)
        self.problems = list(map(as_problem, problems))

    def locate_in(self, place: Path | Place | Key | str, meter: str = "") -> Self:
        """The error with all problems in a larger place; see `Problem.locate_in`."""
        error = copy(self)
        error.problems = [problem.locate_in(place, meter) for problem in self.problems]
        return error

    def __str__(self) -> str:
        return escape_control_characters("\n".join(map(str, self.problems)))


class ConfigError(PlflError):
    """All errors in a configuration, in one message."""

    def __init__(self, source: str, problems: Iterable[Problem | str]):
        """Keep the problems of the configuration from `source`; empty: of a study that is already
        running, whose problems name their keys."""
        super().__init__(*problems)
        self.source = source

    def __reduce__(self) -> tuple[type[Self], tuple[str, list[Problem]]]:
        return type(self), (self.source, self.problems)

    @classmethod
    def at_key(cls, path: str, text: str, remedy: str) -> Self:
        """The error of a single key, such as `federation.selection`, that turns out to be wrong
        when a study runs; see `Problem`."""
        return cls("", [Problem(Key(path), text, remedy)])

    def __str__(self) -> str:
        if not self.source:
            return super().__str__()
        count = count_in_words(len(self.problems), "error")
        lines = [f"{self.source}: {count} in the configuration"]
        return escape_control_characters(
            "\n".join([*lines, *(f"  - {problem}" for problem in self.problems)])
        )


class DataError(PlflError):
    """Input data that cannot be used: a missing or damaged file, column or value."""


def data_error(
    place: Path | Place | Key | str,
    text: str,
    remedy: str = "",
    *answers: Key,
    excerpt: str = "",
) -> DataError:
    """The error about one problem with data; see `Problem`."""
    return DataError(Problem(place, text, remedy, excerpt=excerpt, answers=answers))


class ResultsError(PlflError):
    """A results folder or tracking database that does not match the study or this version.

    Whatever reads a results folder raises it if a file is missing, damaged or of another format.
    """


def as_problem(problem: Problem | str) -> Problem:
    """A problem, also one of which only the text is given."""
    return problem if isinstance(problem, Problem) else Problem("", problem)


def suggest_name(name: str, names: Iterable[str]) -> str:
    """The end of a message about an unknown name: the most similar of the `names` names.

    Upper and lower case are not distinguished. The result is empty if no name is similar.
    """
    by_lower_case = {known_name.lower(): known_name for known_name in names}
    similar = difflib.get_close_matches(name.lower(), by_lower_case, n=1)
    return f"; did you mean {by_lower_case[similar[0]]!r}?" if similar else ""


def _kind_of(problem: Problem) -> Hashable:
    return problem.kind or problem.remedy + problem.excerpt or problem.text


def _kind_of_equal(problem: Problem) -> Hashable:
    if problem.kind and problem.answers:
        return problem.kind, problem.answers
    return _place_in_file(problem), problem.text, problem.remedy, problem.note


def shared_lines(
    problems: Iterable[Problem],
    noun: str = "meter",
    kind_of: Callable[[Problem], Hashable] = _kind_of,
) -> list[str]:
    """A line for each problem, with a single one for those of a kind that more than `MOST_NAMES`
    meters have."""
    problems_by_kind: dict[Hashable, dict[Problem, None]] = {}
    for problem in problems:
        kind = kind_of(problem) if problem.meter else problem
        problems_by_kind.setdefault(kind, {}).setdefault(problem)
    lines: list[str] = []
    for problems_of_kind in problems_by_kind.values():
        names = [*dict.fromkeys(problem.meter for problem in problems_of_kind)]
        is_in_files = len(names) == 1 and bool(names[0])
        if is_in_files:
            names = [*dict.fromkeys(map(_file_of, problems_of_kind))]
        if len(names) <= MOST_NAMES:
            lines += map(str, problems_of_kind)
            continue
        texts = [problem.describe_at(_place_in_file(problem)) for problem in problems_of_kind]
        place = next(iter(problems_of_kind)).place
        is_told = (isinstance(place, Place) and place.meter == names[0]) or len({*texts}) == 1
        first = "" if is_told else f"; of {names[0]}"
        which = counted_names(names, "file" if is_in_files else noun)
        lines.append(f"{which}{first}: {texts[0]}")
    return lines


def equal_lines(problems: Iterable[Problem]) -> list[str]:
    """A line for each problem, with a single one for those of more than `MOST_NAMES` meters that
    differ in their files and excerpts only; or of questions of a kind that have the same
    answers."""
    return shared_lines(problems, kind_of=_kind_of_equal)


def _file_of(problem: Problem) -> str:
    return str(problem.place.file if isinstance(problem.place, Place) else problem.place)


def _place_in_file(problem: Problem) -> str:
    """Where in its file a problem is; empty if that is nowhere in particular."""
    return problem.place.place_in_file if isinstance(problem.place, Place) else ""


@contextmanager
def collect_problems(problems: list[Problem], meter: str = "") -> Iterator[None]:
    """Add those of an error to a list of problems, so that one message can have all of them.
    `meter`: the one that they are about, if they do not say it."""
    try:
        yield
    except PlflError as error:
        problems += [
            problem if problem.meter else replace(problem, meter=meter)
            for problem in error.problems
        ]
