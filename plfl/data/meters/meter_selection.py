"""Which meters `only` and `leave_out` select."""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from plfl.base.errors import data_error, suggest_name
from plfl.base.keys import Key
from plfl.config.meters import Meters


def is_chosen(name: str, meters: Meters) -> bool:
    """Whether `only` and `leave_out` select a meter."""
    is_wanted = not meters.only or _is_among(name, meters.only)
    return is_wanted and not is_left_out(name, meters)


def is_left_out(name: str, meters: Meters) -> bool:
    """Whether a pattern of `leave_out` fits a meter."""
    return _is_among(name, meters.leave_out)


def _is_among(name: str, patterns: Sequence[str]) -> bool:
    """Whether a name is one of the patterns as it stands, such as `Total [KWH]`, or fits one."""
    return name in patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def meter_of(register: str, add: str | None) -> str:
    """The name of the meter of a register: what is left without the match of `data.meters.add`."""
    return register if add is None else re.sub(add, "", register).strip(" _-")


def check_chosen(
    names: Sequence[str],
    meters: Meters,
    registers: Sequence[str],
    has_other_states: bool = False,
) -> None:
    """Refuse patterns that fit none of the names, or, of `add`, none of the `registers`, and those
    that leave no meter. If the study `has_other_states`, `timezones` and `add` may be for their
    meters. Without names, no file could be read, and nothing is refused here."""
    if not names:
        return
    for key in ("only", "leave_out", *(["timezones"] if not has_other_states else [])):
        for pattern in getattr(meters, key):
            if not any(_is_among(name, [pattern]) for name in names):
                raise data_error(
                    Key(f"data.meters.{key}"),
                    f"there is no meter {pattern!r}",
                    f"there are {name_list(names)}{suggest_name(pattern, names)}",
                )
    parts = list(dict.fromkeys(registers or names))
    add = None if has_other_states else meters.add
    if add is not None and not any(re.search(add, part) for part in parts):
        raise data_error(
            Key("data.meters.add"),
            f"{add!r} fits no name",
            f"there are {name_list(parts)}",
        )
    if not any(is_chosen(name, meters) for name in names):
        raise data_error(
            "",
            f"{Key('data.meters.only')} and {Key('data.meters.leave_out')} leave no meter",
            "choose others",
        )


def name_list(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:20])) + (" …" if len(names) > 20 else "")
