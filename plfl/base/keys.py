"""Keys of a study in messages, in the words of whoever reads them.

A message that asks for another value names a `Key`. The file of a study has it as `KEY: VALUE`;
whoever has another way to set it, such as the command line, words it in that way.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True)
class Key:
    """A key of a study in a message; its text is in the words of the reader."""

    path: str
    """The dotted path, such as `data.meters.unit`."""
    value: str = ""
    """The value that the message asks for, as YAML; empty: none in particular."""

    def __str__(self) -> str:
        return _wording.get()(self)


Wording = Callable[[Key], str]
"""Turns a key into text."""


def write_as_in_study(key: Key) -> str:
    """The key as the file of a study has it.

    >>> write_as_in_study(Key("data.meters.unit", "kWh"))
    'data.meters.unit: kWh'
    """
    return f"{key.path}: {key.value}" if key.value else key.path


_wording: ContextVar[Wording] = ContextVar("_wording", default=write_as_in_study)


@contextmanager
def word_keys(wording: Callable[[Key, Wording], str]) -> Iterator[None]:
    """Have messages that are made in this context name keys in other words. `wording` receives
    each key, and the words that it would have outside."""
    outer = _wording.get()
    token = _wording.set(lambda key: wording(key, outer))
    try:
        yield
    finally:
        _wording.reset(token)
