"""Text for terminals, made safe if others wrote it."""

import re
from collections.abc import Sequence
from typing import Any, TextIO

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Characters that a terminal obeys instead of showing: control characters except tabs and line
ends, and marks that change the direction of writing."""


def visible(text: str) -> str:
    r"""The text with its control characters escaped.

    >>> visible("meter\x1b[2J")
    'meter\\x1b[2J'
    """
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def list_names(names: Sequence[str], limit: int) -> str:
    """The first names, and how many more there are.

    >>> list_names(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    remainder = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + remainder


def print_table(table: Any, index: bool = False) -> str:
    """A table of pandas to print, with three significant digits."""
    text: str = table.to_string(index=index, float_format="{:,.3g}".format, na_rep="–")
    return text


class Visible:
    """Wraps a stream and escapes what is written to it: control characters, see `visible`, and
    characters that its encoding does not have."""

    def __init__(self, stream: TextIO):
        self._stream = stream

    def write(self, text: str) -> int:
        """Write the text to the stream, and return its length."""
        code = self._stream.encoding or "utf-8"
        self._stream.write(visible(text).encode(code, "backslashreplace").decode(code))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
