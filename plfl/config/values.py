"""Types and checks of values that several sections of a configuration have."""

import re
from collections import Counter
from typing import Annotated, Any, Literal, TypeVar
from zoneinfo import ZoneInfo, available_timezones

from pydantic import AfterValidator, BeforeValidator

from plfl.base.errors import suggest_name
from plfl.config.error_messages import refusal

Item = TypeVar("Item")
LoadUnit = Literal["kWh", "Wh", "MWh", "kW", "W", "MW"]
DecimalMark = Literal[".", ","]
IntervalEdge = Literal["end", "start"]
"""Which edge of an interval its stamp is at."""


def refuse_repetitions(values: list[Item]) -> list[Item]:
    """A list, if it contains no value more than once."""
    texts = Counter(map(str, values))
    if twice := [text for text, count in texts.items() if count > 1]:
        repeated = ", ".join(map(repr, twice))
        raise refusal(f"duplicate {repeated}; list {'it' if len(twice) == 1 else 'each'} once")
    return values


def check_expression(text: str) -> str:
    """A regular expression, if it is one."""
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"write a regular expression ({error})") from None
    return text


def in_zone(name: str) -> str:
    """The name of a time zone, if it exists."""
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        hint = suggest_name(name, sorted(available_timezones()))
        raise ValueError(
            f"it is not an IANA time zone such as 'America/New_York' or 'Etc/GMT+5'{hint}"
        ) from None
    return name


Zone = Annotated[str, AfterValidator(in_zone)]


def as_list(patterns: Any) -> Any:
    """A single text as a list of one; everything else as it is."""
    return [patterns] if isinstance(patterns, str) else patterns


Patterns = Annotated[list[str], BeforeValidator(as_list, json_schema_input_type=str | list[str])]
"""Patterns of the names of parameters; a single one needs no list."""
