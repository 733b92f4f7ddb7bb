"""Turns a clean meter into the series that windows are made of."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd

from plfl.base.errors import DataError
from plfl.config.features import FEATURES
from plfl.config.sections import Meters
from plfl.data.checks import check_finite, check_load
from plfl.data.meters.cleaning import STATIC, Meter
from plfl.data.meters.gaps import fill_gaps
from plfl.data.meters.stamps import standard_offset


def finished(where: Path | str, meter: Meter, meters: Meters) -> pd.DataFrame:
    """The load and the inputs of a meter in local standard time, with short gaps filled.

    Args:
        where: the file, for messages.
        meter: the meter.
        meters: how gaps and negative loads are treated.

    Raises:
        DataError: values cannot be used; the message has a line for each column.
    """
    table = meter.load.to_frame().join(meter.inputs)
    utc = pd.DatetimeIndex(table.index).tz_localize(None).as_unit("us")
    table.index = (utc + standard_offset(meter.zone)).rename("timestamp")
    # Known features first, in their order.
    roles = [role for role in dict.fromkeys([*FEATURES, *map(str, table)]) if role in table]
    constants = {role: float(table[role].iloc[0]) for role in roles if role in STATIC}
    table = fill_gaps(where, table[[role for role in roles if role not in STATIC]], meters)
    table = table.assign(**constants)
    problems: list[str] = []
    for role in roles:
        with collected(problems):
            values = table[role].rename(meters.columns.get(role, role))
            check_finite(str(where), values, gaps=True)
            if role == "load":
                check_load(str(where), values, allow_negative=meters.allow_negative, gaps=True)
    if problems:
        raise DataError("\n".join(problems))
    return table


@contextmanager
def collected(problems: list[str]) -> Iterator[None]:
    """Add an error to the problems of a file, so that one message can list all of them."""
    try:
        yield
    except DataError as error:
        problems.append(str(error))
