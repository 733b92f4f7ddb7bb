"""The files of a results folder: tables, their columns, models, and how they are read and written.

All other tables derive from `records.parquet`, a long table. It has one row per client, round,
split and model:

- `state, sharing, method, client_opt, server_opt, seed`: the cell
- `model`: `local`, the client's own model after its local steps (its average over them with
  `federation.ema`; in the last round its best one with `federation.keep: best`), or `global`, the
  shared parameters of the server with the client's own personal parameters. If hyperparameters are
  tuned, each model has the candidate of its own lowest validation MASE, so the two may come from
  different trainings; both have `train` rows
- `lr, server_lr`: the learning rates of that training; `hyperparameters`: all tuned values,
  selected on validation among `trials` candidates, which took `trial_steps` local steps in all
- `round, client, split` (`train`, `validation`, `test`)
- `loss`: mean minibatch loss in scaled units, in the `train` rows, one per participant and round;
  infinite if it diverged, missing if a client exchanged data but has no known loss
- `steps, epochs`: local steps of the participant in this round, and the same as passes over its
  training windows, in the `train` rows
- `mae, rmse` (kWh per interval), `mase`, `nrmse`, `wape` and `seasonal_mase`, in the rows of
  evaluated rounds; scores of quantiles and of single targets if there are any: see
  `plfl.tasks.metrics.score_split` and `plfl.tasks.quantiles`
- `cluster`: cluster of the client, −1 for none, in the rows of evaluated rounds of methods with
  clusters
- `bytes_down, bytes_up`: bytes that this client receives and sends in this round: the shared
  parameters and the further arrays of the method (`extras_down, extras_up`). Messages of masked
  sums and of trees, which are no rows of parameters, are extras as a whole. They do not count the
  limits of `windows.scaling: pooled`, nor what an evaluation sends. A deployment counts the same.
  They are the same in all rows of a model, client and round, so sum them over the `train` rows of
  one model
- `message_down, message_up`: in the `train` rows of a deployment, the measured bytes of the
  complete messages of this client and round. In its first round they also count its joining, and
  so the limits of `windows.scaling: pooled`
- `seconds, round_seconds`: simulated working time of this client and simulated duration of the
  round, in the `train` rows of a study that simulates time; the difference is waiting time
"""

import hashlib
import itertools
import json
import platform
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import safetensors
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from plfl import __version__
from plfl.base.array_types import Arrays as Arrays
from plfl.base.errors import Problem, ResultsError
from plfl.base.files import atomic, write_text
from plfl.results import checksums
from plfl.results.totals import Totals
from plfl.study import FORMAT
from plfl.study.plan import CELL_AXES

ModelKind = Literal["local", "global"]
MODELS: tuple[ModelKind, ModelKind] = ("local", "global")
"""The two models that are scored; see `model` above."""
Models = dict[ModelKind, NDArray[np.float32]]
"""Parameters (N, P) of the clients' models, by model; `global` only if something is shared."""
ConformalWidths = dict[ModelKind, NDArray[np.float64]]
"""Conformal widths (N, ...) of the clients' intervals, by model; see `plfl.tasks.conformal`."""
CELL = [*CELL_AXES]
"""Columns that name a cell."""
TABLE_DAMAGE = (
    *(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError),
    pa.ArrowException,
)
"""Exceptions that reading a damaged table can raise."""
TRAINED_FOLDER = "trained"
"""Folder of the finished cells, in a results folder."""
RERUN_REMEDY = "delete it and run the study again"
"""The remedy for a damaged file of the results: delete it. Otherwise it is not made again, because
it is newer than the files that it is made from."""
_DIGEST = b"plfl.cell"
_VERSIONS = b"plfl.versions"
LIBRARIES = ("numpy", "pandas", "torch", "lightgbm")
"""The libraries that compute, whose versions are noted."""
_OPTIONS = {"compression": "zstd", "write_page_checksum": True}
"""How Parquet files are written. Pages have a checksum, too, for readers of a part."""
ROWS_PER_GROUP = 1 << 17
"""Minimum number of rows per row group of a joined table. Readers of a few cells read only a few
groups; a small table is one group."""


_Part = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+=,-]*$")]
"""The label of a variant, or a state, as a part of a path."""


class _StoredReceipt(BaseModel):
    """The parts of a `plfl.data.sources.Receipt` that its readers need."""

    files: dict[str, str]
    clients: dict[str, dict[str, str]] = {}


class _About(BaseModel):
    """The parts of study.json that its readers need."""

    study: Annotated[dict[str, Any], Field(min_length=1)]
    variants: dict[_Part, dict[str, str]] = {}
    sources: dict[_Part, _StoredReceipt] = {}
    versions: dict[str, str] = {}


class RecordFiles(NamedTuple):
    """The files of a cell, or of the baselines of a state."""

    records: Path
    """Scores."""
    forecasts: Path
    errors: Path

    @classmethod
    def in_folder(cls, folder: Path, name: str) -> Self:
        """The files of a folder whose names begin with `name`."""
        return cls(*(folder / f"{name}{end}.parquet" for end in ("", ".forecasts", ".errors")))


@dataclass(frozen=True)
class CellResult:
    """The results of one cell."""

    records: pd.DataFrame
    """Long table with a row per round, client, split and model, as above."""
    forecasts: pd.DataFrame
    """Forecasts of the first week of the test set by the models of the last round, in kWh."""
    errors: pd.DataFrame
    """Their errors on the test set by model, client and day: `plfl.tasks.metrics.daily_errors`."""
    models: Models | None = None
    """The models of the last round. Cells that train together keep those of the best cell of each
    sharing scheme only, with all its seeds: see `plfl.experiments.train.train`."""
    totals: Totals | None = None
    """What the forecasts of the test set by the clients' own models come to, if models are kept
    that forecast the clients they were trained with."""

    def write(self, files: RecordFiles, digest: str = "") -> None:
        """Write the tables, with the digest of the cell in their metadata."""
        for table, path in zip((self.records, self.forecasts, self.errors), files, strict=True):
            write_table(table, path, digest)


class BaselineFiles(NamedTuple):
    """The files of the baselines of clients."""

    scores: Path
    forecasts: Path
    errors: Path
    models: Path


@dataclass(frozen=True)
class BaselineTables:
    """The results of the baselines of a state, or of a group of its clients."""

    scores: pd.DataFrame
    """One row per baseline, evaluated split and client: `state`, `baseline`, `split`, `client`, the
    scores of the task, the `bytes` that the client would have to send, and
    `trained_on_this_dataset`: whether its pre-training included these series, even the test set;
    `failed`: the error that left it without scores, or empty."""
    forecasts: pd.DataFrame
    """First week of the test set: `state`, `baseline`, `client`, `stamp`, `forecast`, quantiles."""
    errors: pd.DataFrame
    """One row per baseline, client and day of the test set, with the labels of `summary.csv`:
    `state`, `sharing` and `model` ("baseline"), `method` (its name), `client_opt` and `server_opt`
    ("none"); see `Task.errors`."""
    packed: Arrays = field(default_factory=dict)
    """What is saved of those that can be stored: `plfl.baselines.storage.pack`."""
    totals: Totals | None = None
    """What their forecasts of the test set come to over the clients; None if they have none."""

    def write(self, files: BaselineFiles) -> None:
        """Write the tables, and what is saved with the totals."""
        write_table(self.scores, files.scores)
        write_table(self.forecasts, files.forecasts)
        write_table(self.errors, files.errors)
        totals = {} if self.totals is None else self.totals.arrays()
        write_models(files.models, {**self.packed, **totals})

    @classmethod
    def read(cls, files: BaselineFiles) -> Self:
        """The inverse of `write`, of baselines that forecast loads."""
        saved, _ = read_arrays(files.models)
        return cls(
            read_table(files.scores),
            # Parquet has no stamps in seconds.
            read_table(files.forecasts).astype({"stamp": "datetime64[s]"}),
            read_table(files.errors),
            Totals.other_arrays(saved),
            Totals.from_arrays(saved),
        )


@cache
def installed_versions() -> Mapping[str, str]:
    """The versions of `LIBRARIES` and of Python that compute now."""
    return {**{name: version(name) for name in LIBRARIES}, "python": platform.python_version()}


def versions_of(paths: Sequence[Path]) -> dict[str, str]:
    """The versions of the software that made tables of `write_table`, by name: of one that differs
    between them all, as in "2.3.0, 2.4.1". The installed ones if no table says it, as in those of
    earlier versions of plfl."""
    versions: dict[str, set[str]] = {}
    for path in paths:
        stated_versions = (schema(path).metadata or {}).get(_VERSIONS, b"{}")
        for name, number in json.loads(stated_versions).items():
            versions.setdefault(name, set()).add(number)
    joined_versions = {name: ", ".join(sorted(versions[name], key=_order)) for name in versions}
    return {**installed_versions(), **joined_versions}


def _order(version_text: str) -> tuple[list[int], str]:
    """What puts versions in order: their numbers, then the text."""
    return [int(number) for number in re.findall(r"\d+", version_text)], version_text


def write_table(table: pd.DataFrame, path: Path, digest: str = "") -> None:
    """Write a table as Parquet, with its checksum, the digest of its cell, or of what else it is
    for, and the versions of the software that made it in the metadata."""
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    versions = json.dumps(installed_versions()).encode()
    write_arrow(arrow, path, {_DIGEST: digest.encode(), _VERSIONS: versions})


def write_arrow(table: pa.Table, path: Path, metadata: Mapping[bytes, bytes] | None = None) -> None:
    """Write a table of Arrow as Parquet, with its checksum and further metadata."""
    marks = {**(table.schema.metadata or {}), **(metadata or {}), checksums.KEY: checksums.BLANK}
    with atomic(path) as temporary:
        pq.write_table(table.replace_schema_metadata(marks), temporary, **_OPTIONS)
        checksums.seal(temporary)


def read_table(path: Path, *, is_sealed: bool = False) -> pd.DataFrame:
    """Read a table that `write_table` wrote, and verify its checksum, if it has one or, because it
    `is_sealed`, must have one; ResultsError if it is missing or damaged."""
    with refuse_damage(path):
        checksums.verify(path, is_required=is_sealed)
        return pd.read_parquet(path, page_checksum_verification=True)


def read_csv(
    path: Path, types: Mapping[str, Any] | None = None, remedy: str = RERUN_REMEDY
) -> pd.DataFrame:
    """Read a table that `write_csv` wrote: columns of these `types`, and NaN in empty fields; None:
    all fields as text. ResultsError if it is missing or damaged."""
    missing = None if types is None else [""]
    with refuse_damage(path, remedy):
        # Only what is empty is missing: a state may be called "NA".
        return pd.read_csv(path, keep_default_na=False, na_values=missing, dtype=types or str)


def join_tables(
    paths: Sequence[Path],
    target: Path,
    show: Callable[[pd.DataFrame], object] = lambda table: None,
    marks: Sequence[Mapping[str, str]] = (),
) -> None:
    """Concatenate the tables at `paths` into the table `target`, in groups of whole tables, of
    which only one is in memory at a time; `show` is called with each group. Columns that a table
    lacks are null in its rows. The `marks` of each table, if any, become its first columns.
    ResultsError if a table has changed since it was written."""
    schemas = [schema(path).remove_metadata() for path in paths]
    columns = [pa.field(name, pa.string()) for name in (marks[0] if marks else ())]
    fields = [*columns, *pa.unify_schemas(schemas, promote_options="permissive")]
    joined_schema = pa.schema(fields, {checksums.KEY: checksums.BLANK})
    with atomic(target) as temporary:
        with pq.ParquetWriter(temporary, joined_schema, **_OPTIONS) as writer:
            for group in _groups(paths, marks or [{}] * len(paths)):
                show(group)
                complete_group = group.reindex(columns=joined_schema.names)
                writer.write_table(
                    pa.Table.from_pandas(complete_group, joined_schema, preserve_index=False),
                    row_group_size=max(1, len(group)),
                )
        checksums.seal(temporary)


def _groups(paths: Sequence[Path], marks: Sequence[Mapping[str, str]]) -> Iterator[pd.DataFrame]:
    waiting: list[pd.DataFrame] = []
    for path, columns in zip(paths, marks, strict=True):
        waiting.append(read_table(path, is_sealed=True).assign(**columns))
        if sum(map(len, waiting)) >= ROWS_PER_GROUP:
            yield pd.concat(waiting, ignore_index=True)
            waiting = []
    if waiting:
        yield pd.concat(waiting, ignore_index=True)


def schema(path: Path) -> pa.Schema:
    """The columns of a table of `write_table`; ResultsError if it is missing or damaged."""
    with refuse_damage(path):
        return pq.read_schema(path)


@contextmanager
def refuse_damage(path: Path, remedy: str = RERUN_REMEDY) -> Iterator[None]:
    """Raise ResultsError if `path` is damaged or lacks a required column."""
    try:
        yield
    except MemoryError:
        raise ResultsError(
            Problem(path, "there is too little memory to read it", "close other programs")
        ) from None
    except TABLE_DAMAGE as error:
        raise ResultsError(Problem(path, f"cannot be read ({error})", remedy)) from None


def cell_digest(path: Path) -> str | None:
    """Digest of the cell, or of what else the table at `path` is for; None if it is missing or
    damaged."""
    try:
        metadata: dict[bytes, bytes] = pq.read_schema(path).metadata or {}
    except TABLE_DAMAGE:
        return None
    return metadata.get(_DIGEST, b"").decode()


def write_facts(
    folder: Path, git: str | None, versions: Mapping[str, str], facts: Mapping[str, Any]
) -> None:
    """Write `study.json` in a results folder: versions of the software, `facts` about the study."""
    made_by = {"format": FORMAT, "version": __version__, "git": git, "versions": {**versions}}
    write_text(folder / "study.json", json.dumps({**made_by, **facts}, indent=1) + "\n")


def read_facts(folder: Path) -> dict[str, Any]:
    """The content of `study.json` in a results folder; ResultsError if it is missing, damaged, or
    has another format of the configuration."""
    path = folder / "study.json"
    try:
        facts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        format_version = facts["format"]
        if format_version == FORMAT:
            _About.model_validate(facts)
    except (FileNotFoundError, NotADirectoryError):
        raise ResultsError(
            Problem(
                folder,
                "holds no study (no study.json)",
                "run the study first, or name the folder below results/ that has one",
            )
        ) from None
    except TABLE_DAMAGE as error:
        raise ResultsError(Problem(path, f"is damaged ({error})", RERUN_REMEDY)) from None
    if format_version != FORMAT:
        raise ResultsError(
            Problem(
                path,
                f"has configuration format {format_version}, but this plfl ({__version__}) reads "
                f"format {FORMAT}",
                "move the folder away and run the study again, or use the version of plfl that "
                "made it",
            )
        )
    return facts


# -- models ----------------------------------------------------------------------------------------

_KEY = "plfl"
_TYPES = {"F32": np.float32, "F64": np.float64, "U8": np.uint8}


def write_models(path: Path, models: Models | Arrays, facts: dict[str, Any] | None = None) -> None:
    """Write models (N, P) and, as JSON in the header of the file, `facts` about them."""
    with atomic(path) as temporary:
        write_models_in_place(temporary, models, facts)


def write_models_in_place(
    path: Path, models: Models | Arrays, facts: dict[str, Any] | None = None
) -> None:
    """Write the file of `write_models` in place, without a copy of the models in memory."""
    description = json.dumps({"about": facts or {}, "sha256": _models_checksum(models)})
    header: dict[str, Any] = {"__metadata__": {_KEY: description}}
    ends = np.cumsum([0, *(rows.nbytes for rows in models.values())]).tolist()
    for (model, rows), span in zip(models.items(), itertools.pairwise(ends), strict=True):
        kind = next(name for name, kind in _TYPES.items() if rows.dtype == kind)
        header[model] = {"dtype": kind, "shape": rows.shape, "data_offsets": span}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for rows in models.values():
            file.write(np.ascontiguousarray(rows).data)


def read_models(path: Path) -> tuple[Models, dict[str, Any]]:
    """Read a file of `write_models` with the models of a cell; see `read_arrays`."""
    arrays, facts = read_arrays(path)
    return {model: arrays[model] for model in MODELS if model in arrays}, facts


def read_arrays(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read a file of `write_models`; ResultsError if it is missing, damaged, or not one of plfl."""
    try:
        with safetensors.safe_open(path, "numpy") as file:
            metadata = file.metadata() or {}
            if _KEY not in metadata:
                raise ValueError("it was not written by plfl")
            header = json.loads(metadata[_KEY])
            texts = _mapped_texts(path)
            arrays = {
                name: texts[name] if name in texts else file.get_tensor(name)
                for name in file.keys()  # noqa: SIM118
            }
        if header["sha256"] != _models_checksum(arrays):
            raise ValueError("its numbers have changed")
        return arrays, header["about"]
    except FileNotFoundError:
        raise ResultsError(Problem(path, "the file does not exist", "check the path")) from None
    except (*TABLE_DAMAGE, safetensors.SafetensorError) as error:
        raise ResultsError(
            Problem(
                path,
                f"is no model that can be read ({error})",
                "name a file of results/NAME/models, or train it again",
            )
        ) from None


def _mapped_texts(path: Path) -> dict[str, NDArray[np.uint8]]:
    """The arrays of bytes in a file, which stay there: trees of many meters take gigabytes."""
    content = np.memmap(path, np.uint8, "c").view(np.ndarray)
    start = 8 + int.from_bytes(content[:8].tobytes(), "little")
    header = json.loads(content[8:start].tobytes())
    return {
        name: content[start + field["data_offsets"][0] : start + field["data_offsets"][1]]
        for name, field in header.items()
        if field.get("dtype") == "U8" and len(field["shape"]) == 1
    }


def _models_checksum(models: Models | Arrays) -> str:
    digest = hashlib.sha256()
    for name, rows in sorted(models.items(), reverse=True):  # `local` before `global`
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(rows).data)
    return digest.hexdigest()
