"""Speeds on the simulated clock: one for all clients, or one for each client, which may be a column
of a file."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from plfl.config.error_messages import list_allowed, refusal

CLIENT = "client"
"""The column of such a file that names the clients."""


def _read_speeds(raw: Any) -> Any:
    """A value as pydantic can check it: the column of a file as a block, by client."""
    if isinstance(raw, str):
        return read_column(raw)
    if isinstance(raw, Mapping):
        return {str(client): speed for client, speed in raw.items()}
    return raw


def read_column(reference: str) -> dict[str, float]:
    """The numbers of a column by client, given `FILE:COLUMN`: a CSV file, which has a column
    `client`. A refusal (`plfl.config.error_messages`) says what is wrong with the file."""
    file, _, column = reference.rpartition(":")
    if not file:
        raise refusal(
            f"{reference!r} is no speed; write a number, a list of numbers, or a column of a CSV "
            "file, such as speeds.csv:step_seconds"
        )
    try:
        with Path(file).open(encoding="utf-8-sig", newline="") as text:
            rows = csv.DictReader(text)
            columns = [*(rows.fieldnames or ())]
            row_list = list(rows)
    except (OSError, UnicodeError, csv.Error) as error:
        raise refusal(f"{file} cannot be read ({error}); correct the path or the file") from None
    for name in (CLIENT, column):
        if name not in columns:
            raise refusal(f"{file} has no column {name!r}; {list_allowed(name, columns)}")
    speeds: dict[str, float] = {}
    for line, row in enumerate(row_list, 2):
        client, text_of = (row[CLIENT] or "").strip(), row[column] or ""
        if client in speeds:
            raise refusal(f"{file}, row {line}: {client!r} has two rows; remove one")
        try:
            speeds[client] = float(text_of)
        except ValueError:
            raise refusal(f"{file}, row {line}: {text_of!r} is no number; correct it") from None
    return speeds


Speed = Annotated[float, Field(gt=0)]
SpeedsByClient = Speed | Annotated[list[Speed], Field(min_length=1)] | dict[str, Speed]
Speeds = Annotated[
    SpeedsByClient, BeforeValidator(_read_speeds, json_schema_input_type=SpeedsByClient | str)
]
"""A key that is a speed of all clients, those of single ones in their order, or by their names. For
`FILE:COLUMN` it has those by name."""
