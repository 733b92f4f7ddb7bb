"""The last readings that forecasts were made from, which a results folder keeps on request: later
files then need only what came after them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from plfl.base.errors import Problem, ResultsError
from plfl.base.files import hold
from plfl.base.lazy import pandas as pd
from plfl.results.records import cell_digest, read_table, write_table

RECENT_FILE = Path("data", "recent.parquet")
"""The file with these readings in a results folder, beside the study's own, which are not published
either."""
LENGTH_COLUMN = "_minutes"
"""The column with the length of each reading; older files have none."""
LEAST_SPAN = pd.Timedelta(days=35)
"""Time before the last reading of a meter of which readings are kept, unless a forecaster reads
more."""


def read_recent(results: Path, form: str = "") -> dict[str, pd.DataFrame]:
    """The readings that a results folder keeps, by client, not resampled, with the length of each
    (`LENGTH_COLUMN`); none if it keeps none.
    `form`: see `MeterFiles.form_of_readings`; empty: any. ResultsError: the file is damaged, or
    its readings have another form."""
    path = results / RECENT_FILE
    if not path.is_file():
        return {}
    if form and cell_digest(path) not in (form, "", None):
        raise ResultsError(
            Problem(
                path,
                "keeps readings with another interval, time zone or columns than the study has now",
                "remove it, and forecast once from the last five weeks",
            )
        )
    try:
        table = read_table(path, is_sealed=True)
        by_client = table.set_index("timestamp").groupby("client", sort=False)
        return {str(client): part.drop(columns="client") for client, part in by_client}
    except (ResultsError, KeyError):
        raise ResultsError(
            Problem(path, "is damaged", "remove it, and forecast once from the last five weeks")
        ) from None


def keep_recent(
    results: Path,
    new: Mapping[str, pd.DataFrame],
    reach: pd.Timedelta = LEAST_SPAN,
    form: str = "",
) -> Path:
    """Add new readings of clients, every `attrs["minutes"]`, to those that a results folder keeps,
    in place of earlier ones of the same time and length, and return the file. Readings that are
    older than `LEAST_SPAN` and than `reach`, the time that forecasters read, are left out. Without
    new ones nothing is written. `form` as in `read_recent`, which see for errors. Calls at the same
    time wait for each other."""
    path = results / RECENT_FILE
    if not new:
        return path
    lock = hold(path.with_name(f".{path.name}.lock"))
    try:
        _add(path, read_recent(results, form), new, max(reach, LEAST_SPAN), form)
    finally:
        lock.release()
    return path


def _add(
    path: Path,
    client_readings: dict[str, pd.DataFrame],
    new: Mapping[str, pd.DataFrame],
    span: pd.Timedelta,
    form: str,
) -> None:
    """Write `client_readings` with the new readings, of this span of time and form."""
    for client, readings in new.items():
        rows_known = readings.dropna(subset=["load"])
        rows_known = rows_known.assign(**{LENGTH_COLUMN: readings.attrs["minutes"]})
        parts = [client_readings[client], rows_known] if client in client_readings else [rows_known]
        table = pd.concat(parts)
        is_replaced = table.set_index(LENGTH_COLUMN, append=True).index.duplicated(keep="last")
        table = table[~is_replaced].sort_index(kind="stable")
        client_readings[client] = table[table.index > table.index[-1] - span]
    rows = [
        table.rename_axis("timestamp").reset_index().assign(client=client)
        for client, table in client_readings.items()
    ]
    write_table(pd.concat(rows, ignore_index=True), path, form)
