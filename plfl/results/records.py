"""The tables of a study: what the files of a results folder hold, and how they are made.

`records.parquet` is the long table everything else is made from. One row is one client in one
round, split and model:

- `state, personalization, method, client_opt, server_opt, seed`: the cell
- `lr, server_lr, mu`: the rates it was trained with, chosen on validation from `tried` candidates
- `round, client, split` (`train`, `validation`, `test`), `model` (`local`: as the client holds it
  after its steps; `global`: shared part from the server, own personal part)
- `loss`: mean minibatch loss in scaled units, in the `train` rows that every participant has in
  every round; infinite where it diverged, missing where a client exchanged something but no loss is
  known
- `mae, rmse` (kWh per interval) and `mase`, in the rows of evaluated rounds
- `cluster`, in the rows of evaluated rounds of methods with clusters: the client's, −1 for none
- `bytes_down, bytes_up`: what crossed the channel for this client in this round, and of it
  `extras_down, extras_up` beside parameters. They are the same in each row of a client and round,
  so sum them over the `train` rows
- `seconds, round_seconds`: how long this client was at work and how long the round took, both
  simulated, in the `train` rows of a study that simulates time; the client waited for the rest
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from plfl import __version__
from plfl.errors import ResultsError
from plfl.files import atomic
from plfl.study import FORMAT

CELL = ["state", "personalization", "method", "client_opt", "server_opt", "seed"]
"""Columns that name a cell."""
DAMAGE = (OSError, ValueError, KeyError, TypeError, AttributeError, pa.ArrowException)
"""What reading a damaged table can raise."""
_DIGEST = b"plfl.cell"
GROUP = 1 << 17
"""Rows that a row group of a joined table has at least: whoever wants few cells reads few groups,
and a small table is not cut into splinters."""


@dataclass(frozen=True)
class CellResult:
    """What one cell leaves behind."""

    records: pd.DataFrame
    """Long table over round, client, split and model, as above."""
    forecasts: pd.DataFrame
    """First week of the test part as the models of the last round forecast it, in kWh."""


def write_table(table: pd.DataFrame, path: Path, digest: str = "") -> None:
    """Write a table as Parquet, marked with the digest of the cell it belongs to."""
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    marked = arrow.replace_schema_metadata(
        {**(arrow.schema.metadata or {}), _DIGEST: digest.encode()}
    )
    with atomic(path) as temporary:
        pq.write_table(marked, temporary, compression="zstd", write_page_checksum=True)


def write_csv(table: pd.DataFrame, path: Path) -> None:
    """Write a table for people and spreadsheets, of six digits.

    Raises:
        PlflError: the disk is full or the folder cannot be written.
    """
    with atomic(path) as temporary:
        table.to_csv(temporary, index=False, float_format="%.6g", lineterminator="\n")


def read_table(path: Path) -> pd.DataFrame:
    """Read what `write_table` wrote, and make sure that it is still that.

    Raises:
        ResultsError: it is missing or damaged.
    """
    try:
        return pd.read_parquet(path, page_checksum_verification=True)
    except DAMAGE as error:
        raise _unreadable(path, error) from None


def join_tables(
    paths: Sequence[Path], out: Path, show: Callable[[pd.DataFrame], object] = lambda table: None
) -> None:
    """Write the tables at `paths`, one below the other, into one.

    It is written in row groups of whole tables, and never more of it is in memory; `show` is given
    each. A column that some tables do not have is null there.

    Raises:
        ResultsError: one is missing or damaged.
    """
    schema = pa.unify_schemas([_schema(path) for path in paths], promote_options="permissive")
    options = {"compression": "zstd", "write_page_checksum": True}
    with atomic(out) as temporary, pq.ParquetWriter(temporary, schema, **options) as writer:
        for group in _groups(paths):
            show(group)
            whole = group.reindex(columns=schema.names)
            writer.write_table(
                pa.Table.from_pandas(whole, schema, preserve_index=False),
                row_group_size=max(1, len(group)),
            )


def _groups(paths: Sequence[Path]) -> Iterator[pd.DataFrame]:
    waiting: list[pd.DataFrame] = []
    for path in paths:
        waiting.append(read_table(path))
        if sum(map(len, waiting)) >= GROUP:
            yield pd.concat(waiting, ignore_index=True)
            waiting = []
    if waiting:
        yield pd.concat(waiting, ignore_index=True)


def _schema(path: Path) -> pa.Schema:
    try:
        return pq.read_schema(path).remove_metadata()
    except DAMAGE as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> ResultsError:
    return ResultsError(f"{path}: cannot be read ({error}); delete it and run the study again")


def cell_digest(path: Path) -> str | None:
    """Digest of the cell whose table lies at `path`; None if there is none or it is damaged."""
    try:
        metadata: dict[bytes, bytes] = pq.read_schema(path).metadata or {}
    except DAMAGE:
        return None
    return metadata.get(_DIGEST, b"").decode()


def read_about(folder: Path) -> dict[str, Any]:
    """What `study.json` of a results folder says.

    Raises:
        ResultsError: there is none, it is damaged, or another version of the configuration made it.
    """
    path = folder / "study.json"
    try:
        about: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        made_by = about["format"]
        if made_by == FORMAT and not isinstance(about["study"], dict):
            raise TypeError("no study in it")
    except (FileNotFoundError, NotADirectoryError):
        raise ResultsError(
            f"{folder}: holds no study (no study.json); run the study first, or name the folder "
            "below results/ that has one"
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise ResultsError(
            f"{path}: is damaged ({error}); run the study again to write it anew"
        ) from None
    if made_by != FORMAT:
        raise ResultsError(
            f"{path}: was made by version {made_by} of the configuration, this plfl "
            f"({__version__}) reads version {FORMAT}; move the folder away and run the study "
            "again, or use the plfl that made it"
        )
    return about
