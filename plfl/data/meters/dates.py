"""The forms of dates in raw files and in their names."""

import re
from collections.abc import Sequence

from plfl.data.meters.vocabulary import WORDS

_MONTH = "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_DATE = (
    rf"(?:\d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}|\d{{1,2}}[-/.]\d{{1,2}}[-/.](?:\d{{4}}|\d{{2}})"
    rf"|\d{{1,2}}[-/ ]?{_MONTH}[-/ ]?\d{{2,4}}|{_MONTH} \d{{1,2}},? \d{{4}})(?!\d)"
)
WEEKDAY = rf"(?:{WORDS.weekdays.pattern})[.,]*\s+(?={_DATE})"
"""A day of the week before a date."""
DATE_AT_BEGINNING = re.compile(rf"\s*(?:{WEEKDAY})?{_DATE}", re.IGNORECASE)
"""The beginning of a field with a date."""
AFTER_DATE = re.compile(r"[T\d\s:.+-]*(?:[ap]\.?m\.?|Z)?\W*", re.IGNORECASE)
"""What is beside the date in a stamp."""
DATE_SPAN = re.compile(rf"\s*{_DATE}\s*(?:[-–]|to|bis|a)\s*{_DATE}\s*", re.IGNORECASE)
"""A span of days, such as a billing period."""
DATE_DIGITS = re.compile(
    r"\s*(?:\d{8}(?:[T ]?\d{4}(?:\d{2})?)?|\d{9,10}(?:\.\d+)?|\d{13}|\d{16}|\d{19})\s*"
)
"""A date without separators, or seconds to nanoseconds since 1970."""
DATE_IN_NAME = re.compile(
    r"(?<!\d)(?P<date>20\d\d(?P<mark>[-_.]?)(?:0[1-9]|1[0-2])(?:(?P=mark)[0-3]\d)?)"
    r"(?:[-_T ](?P<clock>[0-2]\d[-_.]?[0-5]\d)(?:[-_.]?[0-5]\d)?)?(?!\d)"
)
"""A month or a day in the name of a file, perhaps with a time of day."""


def is_date(field: str) -> bool:
    """Whether a field begins with a date or is a number that can be one."""
    return bool(DATE_AT_BEGINNING.match(field) or DATE_DIGITS.fullmatch(field))


def find_dates(row: Sequence[str]) -> set[int]:
    """The positions of the dates in a row."""
    return {position for position, field in enumerate(row) if is_date(field)}
