"""Text for terminals, made safe if others wrote it."""

import math
import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TextIO

Progress = Callable[[str, int, int], None]
"""Is called with what is being read, the number of finished steps, and the number of all steps."""
MOST_NAMES = 3
"""Names in a line that is about many things."""
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Characters that a terminal obeys instead of showing: control characters except tabs and line
ends, and marks that change the direction of writing."""


def escape_control_characters(text: str) -> str:
    r"""The text with its control characters escaped.

    >>> escape_control_characters("meter\x1b[2J")
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


def count_in_words(number: int, noun: str) -> str:
    """A number of things in words: `1 value`, `2 values`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def counted_names(names: Sequence[str], noun: str = "meter") -> str:
    """The number of meters and the first names: `56 meters (a, b, c …)`; of one, its name."""
    if len(names) == 1:
        return names[0]
    end = " …" if len(names) > MOST_NAMES else ""
    return f"{count_in_words(len(names), noun)} ({', '.join(names[:MOST_NAMES])}{end})"


def short_number(number: float) -> str:
    """A number with three significant digits, or all of its whole part.

    >>> short_number(0.12345), short_number(999.6), short_number(41_726.4)
    ('0.123', '1,000', '41,726')
    """
    return f"{number:,.0f}" if abs(number) >= 999.5 else f"{number:.3g}"


def format_span(span: timedelta) -> str:
    """A span of time in words.

    >>> format_span(timedelta(minutes=30)), format_span(timedelta(hours=1))
    ('30 minutes', '1 hour')
    >>> format_span(timedelta(hours=30)), format_span(timedelta(days=12.4))
    ('30 hours', '12.4 days')
    """
    if span >= timedelta(days=2):
        return f"{short_number(span / timedelta(days=1))} days"
    if span < timedelta(hours=1):
        return count_in_words(round(span / timedelta(minutes=1)), "minute")
    hours = short_number(span / timedelta(hours=1))
    return "1 hour" if hours == "1" else f"{hours} hours"


def capitalise(text: str) -> str:
    """A text with a capital first letter; unlike `str.capitalize`, it changes no other one, and
    leaves names such as pFedMe as they are.

    >>> capitalise("lower MASE"), capitalise("pFedMe")
    ('Lower MASE', 'pFedMe')
    """
    return text if text[1:2].isupper() else text[:1].upper() + text[1:]


def format_percent(percent: float, digits: int = 1) -> str:
    """A number of per cent in print, with these decimal places; `n/a` if it is not finite."""
    return f"{percent:.{digits}f}\N{NO-BREAK SPACE}%" if math.isfinite(percent) else "n/a"


def readable_size(size: float) -> str:
    """A number of bytes with its unit.

    >>> readable_size(0), readable_size(999), readable_size(41_726_400_000)
    ('0 B', '999 B', '41.7 GB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{short_number(size)} {unit}"
        size /= 1000
    return f"{short_number(size)} TB"


def print_table(table: Any, index: bool = False) -> str:
    """A table of pandas to print, with numbers as by `short_number`."""
    whole = table.select_dtypes("Int64")  # pandas writes its missing values in a way of its own
    table = table.assign(**{name: whole[name].astype(object).fillna("–") for name in whole})
    text: str = table.to_string(index=index, float_format=short_number, na_rep="–")
    return text


class EscapingStream:
    """Wraps a stream and escapes what is written to it: control characters, see
    `escape_control_characters`, and characters that its encoding does not have."""

    def __init__(self, stream: TextIO):
        self._stream = stream

    def write(self, text: str) -> int:
        """Write the text to the stream, and return its length."""
        code = self._stream.encoding or "utf-8"
        self._stream.write(
            escape_control_characters(text).encode(code, "backslashreplace").decode(code)
        )
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
