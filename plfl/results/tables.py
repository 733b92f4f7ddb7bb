"""The results folder as everything that shows it reads it."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from plfl import __version__, clients, methods, servers
from plfl.errors import ConfigError, ResultsError
from plfl.results.records import CELL, DAMAGE, read_about, read_table
from plfl.study import Cell, Study

log = logging.getLogger(__name__)

Model = Literal["local", "global"]
MODELS: tuple[Model, Model] = ("local", "global")
_SCORES = ["mase_mean", "mase_median", "mae_mean", "rmse_mean", "validation_mase"]
_SUMMARY: dict[str, type] = {
    **dict.fromkeys([*CELL[:-1], "model", "chosen"], str),
    **dict.fromkeys(_SCORES, float),
    **{"seed": int, "round": int, "diverged": bool},
}
"""What must be in the summary, and of which type."""
_CLIENTS: dict[str, type] = {"state": str, "client": str, "order": int, "interval": int}
"""What must be in the table of clients, and of which type."""


@dataclass(frozen=True)
class Tables:
    """The files of one results folder, read when they are first asked for.

    Every access raises ResultsError when its file is missing or of another format.
    """

    folder: Path

    def _file(self, name: str) -> Path:
        path = Path(self.folder) / name
        if not path.is_file():
            raise ResultsError(
                f"{path}: the file is missing, so the results are not complete; run the study"
            )
        return path

    @cached_property
    def about(self) -> dict[str, Any]:
        """Content of study.json: format, version, git, study and cells."""
        return read_about(Path(self.folder))

    @cached_property
    def study(self) -> Study:
        """The study that made the results."""
        path = Path(self.folder) / "study.json"
        try:
            return Study.parse(self.about.get("study"), str(path))
        except ConfigError as error:
            raise ResultsError(
                f"{error}\n{path}: was made by plfl {self.about.get('version')}, this is "
                f"{__version__}; run the study again, or use the plfl that made it"
            ) from None

    @property
    def is_sample(self) -> bool:
        """Whether the data are generated; whatever shows the results then says "sample data"."""
        return self.study.is_sample

    @cached_property
    def summary(self) -> pd.DataFrame:
        """One row per cell, model and choice of round."""
        path = self._file("summary.csv")
        with _readable(path):
            # Names are names: a state may be called "01" or "NA".
            table = pd.read_csv(path, keep_default_na=False, na_values=[""], dtype=_SUMMARY)
            if table.duplicated([*CELL, "model", "chosen"]).any():
                raise ValueError("a cell is there twice")
            return table.astype(_SUMMARY)

    @cached_property
    def clients(self) -> pd.DataFrame:
        """One row per client, states and clients in the order of the study."""
        path = self._file("clients.parquet")
        states = {state: i for i, state in enumerate(self.study.data.states)}
        with _readable(path):
            return (
                read_table(path)
                .astype(_CLIENTS)
                .sort_values(
                    ["state", "order"], key=lambda c: c.map(states) if c.name == "state" else c
                )
                .reset_index(drop=True)
            )

    def records(self, columns: list[str], **equal: object) -> pd.DataFrame:
        """`columns` of those rows of records.parquet that have the values of `equal`."""
        return self._rows("records.parquet", columns, equal)

    def test_scores(self, cell: Cell) -> "pd.Series[float]":
        """Test MASE of the local model of each client of `cell`, at the last round."""
        table = self.records(
            ["client", "mase"],
            split="test",
            model="local",
            round=self.study.federation.rounds,
            **asdict(cell),
        )
        return table.set_index("client")["mase"]

    def forecasts(self, columns: list[str], **equal: object) -> pd.DataFrame:
        """As `records`, of forecasts.parquet: a week of the test part, kWh per interval."""
        return self._rows("forecasts.parquet", columns, equal)

    def _rows(self, name: str, columns: list[str], equal: dict[str, object]) -> pd.DataFrame:
        filters = [(column, "==", value) for column, value in equal.items()] or None
        path = self._file(name)
        with _readable(path):
            return pd.read_parquet(
                path, columns=columns, filters=filters, page_checksum_verification=True
            )

    def scores(self, model: Model, chosen: Literal["last", "best_validation"]) -> pd.DataFrame:
        """Test and validation MASE, means over clients and seeds, by the other axes of the grid.

        Columns `mase_mean`, `validation_mase` and `diverged`. A combination of which any seed
        diverged has no score: the mean of the others would flatter it.
        """
        table = self.summary
        table = table[(table["model"] == model) & (table["chosen"] == chosen)]
        by_axes = table.groupby(CELL[:-1], sort=False)
        means = by_axes[["mase_mean", "validation_mase"]].mean()
        diverged = by_axes["diverged"].any()
        return means.mask(diverged).assign(diverged=diverged)

    @cached_property
    def traffic(self) -> pd.DataFrame:
        """Mean bytes of a participant in a round: `bytes_down` and `bytes_up` by split."""
        directions = ["bytes_down", "bytes_up"]
        ledger = self.records(["personalization", *directions], split="train")
        with _readable(self._file("records.parquet")):
            means = ledger.groupby("personalization")[directions].mean()
            return means.loc[self.study.grid.personalization]

    def best(self, model: Model, **equal: object) -> Cell | None:
        """The cell of least validation MASE at the last round; None when every one diverged.

        `equal` restricts the search: state="CA", personalization="P2", …
        """
        table = self.summary
        keep = (table["model"] == model) & (table["chosen"] == "last") & ~table["diverged"]
        for column, value in equal.items():
            keep &= table[column] == value
        table = table[keep & np.isfinite(table["validation_mase"])]
        if table.empty:
            return None
        row = table.loc[table["validation_mase"].idxmin()]
        axes = {axis: str(row[axis]) for axis in CELL[:-1]}
        return Cell(**axes, seed=int(row["seed"]))

    def optimisers(self, cell: Cell) -> str:
        """The optimisers of a cell in words; no ServerOpt where nothing is shared."""
        # Names that nobody knows can come from a summary that was changed.
        with _readable(self._file("summary.csv")):
            client = self.client_side(cell.method, cell.client_opt)
            if self.study.is_alone(cell):
                return client
            return f"{client} + {server_label(cell.server_opt)}"

    def client_side(self, method: str, client_opt: str) -> str:
        """A ClientOpt in print, with its method where the study has others than the plain round."""
        label = client_label(client_opt)
        plain = self.study.grid.method == ["fedopt"]
        return label if plain else f"{method_label(method)} · {label}"

    @cached_property
    def load_unit(self) -> str:
        """Unit of loads, such as "kWh per 15 min"."""
        with _readable(self._file("clients.parquet")):
            intervals = sorted({int(minutes) for minutes in self.clients["interval"]})
        return f"kWh per {' or '.join(map(str, intervals))} min"

    def split_label(self, personalization: str) -> str:
        """What a split shares, in a few words."""
        patterns = self.study.personalization[personalization]
        if not patterns:
            return "nothing shared"
        listed = ", ".join(patterns)
        if patterns == ["*"]:
            return "all shared"
        return f"{listed} shared" if len(listed) <= 24 else f"{listed[:22]}… shared"


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Explain why `path` cannot be read: it is damaged, or lacks a column that is asked for."""
    try:
        yield
    except DAMAGE as error:
        raise ResultsError(f"{path}: cannot be read ({error}); run the study again") from None


@contextmanager
def fitting(*folders: Path) -> Iterator[None]:
    """Explain why tables that can be read one by one do not fit together: one was changed.

    Whatever is made of the tables of some `folders` is made in this context.

    Raises:
        ResultsError: a table lacks what another one speaks of.
    """
    try:
        yield
    except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError) as error:
        log.info("How the tables do not fit together", exc_info=True)
        raise ResultsError(
            f"{' or '.join(map(str, folders))}: the tables do not fit together "
            f"({type(error).__name__}: {error}); make them anew with "
            "`snakemake --forcerun collect`; if nobody has changed them, please report it"
        ) from None


def client_label(name: str) -> str:
    """A ClientOpt as it is written in print, such as "SGD"."""
    return clients.available()[name].label


def server_label(name: str) -> str:
    """A ServerOpt as it is written in print, such as "FedYogi"."""
    return servers.available()[name].label


def method_label(name: str) -> str:
    """A method as it is written in print, such as "SCAFFOLD"."""
    return methods.available()[name].label
