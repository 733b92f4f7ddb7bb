"""What is logged of a cell, computed from the results tables; nothing here knows MLflow."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from plfl.errors import ResultsError
from plfl.results.records import CELL, read_about
from plfl.study import Cell, digest

LAYOUT = 1
"""Version of the names below; runs that were logged under another one are logged anew."""

SPLITS = {"validation": "val", "test": "test"}
CHOSEN = {"last": "last", "best_validation": "best"}
SCORES = {
    "mase_mean": "mase",
    "mase_median": "mase_median",
    "mae_mean": "mae",
    "rmse_mean": "rmse",
    "validation_mase": "val_mase",
    "round": "round",
}
POINT = ["cell", "key", "round", "value"]
MEGABYTE = 1e6


@dataclass(frozen=True)
class Tables:
    """The tables of a results folder."""

    study: dict[str, Any]
    """Content of `study.json`."""
    records: pd.DataFrame
    """`records.parquet` and a column `cell`, the cell's name."""
    summary: pd.DataFrame
    """`summary.csv` and a column `cell`."""

    @classmethod
    def read(cls, results: Path) -> "Tables":
        """Read `study.json`, `records.parquet` and `summary.csv`.

        Raises:
            ResultsError: one of them is missing, damaged or of another version.
        """
        try:
            return cls(
                read_about(results),
                _named(pd.read_parquet(results / "records.parquet")),
                # A state may be called NA.
                _named(pd.read_csv(results / "summary.csv", keep_default_na=False, na_values=[""])),
            )
        except FileNotFoundError as error:
            raise ResultsError(f"{error.filename}: is missing; run the study first") from None
        except (ValueError, OSError) as error:
            raise ResultsError(
                f"{results}: its tables cannot be read ({error}); run the study again"
            ) from None

    @property
    def source(self) -> str:
        """Where the data come from: 'sample', 'comstock' or 'meters'."""
        return str(self.study["study"]["data"]["source"])

    @property
    def title(self) -> str:
        """Name of the study, which says so if its data are generated."""
        name = str(self.study["study"]["name"])
        return f"{name} (sample data)" if self.source == "sample" else name


@dataclass(frozen=True)
class Run:
    """All that is logged of one cell."""

    cell: Cell
    name: str
    """Short name for MLflow's narrow column: `CA-P2 adam+yogi`."""
    hash: str
    """Digest of the cell's definition, data and code."""
    params: dict[str, str]
    points: list[tuple[str, int, float]]
    """Metrics as (key, round, value), finite and rounded."""
    clients: pd.DataFrame
    """Test scores of each client in the last round in which they are finite."""
    diverged_round: int | None
    """First round with a loss or an error that is not finite, if there is one."""
    note: str

    @property
    def fingerprint(self) -> str:
        """Changes with whatever is logged, also while a cell of the same hash still grows."""
        return digest(LAYOUT, self.hash, self.params, self.points, self.clients.to_json())


def runs(tables: Tables) -> Iterator[Run]:
    """Every cell of the study that has records, in the study's order."""
    config = tables.study["study"]
    several_seeds = len(config["grid"]["seeds"]) > 1
    records = {str(name): rows for name, rows in tables.records.groupby("cell")}
    points = {str(name): rows for name, rows in _points(tables).groupby("cell")}
    for name, content in tables.study["cells"].items():
        if name not in records:
            continue
        rows = records[name]
        cell = Cell(*rows[CELL].iloc[0])
        broken = _broken_rounds(rows)
        finite = points.get(name, pd.DataFrame(columns=POINT))
        clients, scored = _clients(rows)
        note = f"{tables.title}: cell {name}."
        if broken:
            note += f" **Diverged in round {broken[0]}**: curves end at the last finite values."
        if scored is not None:
            note += f" Test scores of each client after round {scored}: Artifacts, per_client.json."
        yield Run(
            cell=cell,
            name=_short(cell, several_seeds),
            hash=content,
            params=_params(cell, config),
            points=list(zip(finite["key"], finite["round"], finite["value"], strict=True)),
            clients=clients,
            diverged_round=broken[0] if broken else None,
            note=note,
        )


def _named(table: pd.DataFrame) -> pd.DataFrame:
    name = table[CELL[0]].astype(str)
    for axis in CELL[1:]:
        name = name + "-" + table[axis].astype(str)
    return table.assign(cell=name)


def _short(cell: Cell, several_seeds: bool) -> str:
    server = cell.server_opt.removeprefix("fed")
    name = f"{cell.state}-{cell.personalization} {cell.client_opt}+{server}"
    return f"{name} s{cell.seed}" if several_seeds else name


def _params(cell: Cell, config: dict[str, Any]) -> dict[str, str]:
    """What one compares cells by; MLflow's pages show the first of them, so there are few."""
    model, federation = config["model"], config["federation"]
    return {
        "state": cell.state,
        "P": cell.personalization,
        "client_opt": cell.client_opt,
        "server_opt": cell.server_opt,
        "seed": str(cell.seed),
        "rounds": str(federation["rounds"]),
        "model": f"lstm{model['hidden']}-mlp{'-'.join(map(str, model['mlp']))}",
    }


def _points(tables: Tables) -> pd.DataFrame:
    """All finite metrics of all cells, a row each."""
    parts = [part[POINT] for part in [*_curves(tables.records), *_scores(tables.summary)]]
    table: pd.DataFrame = pd.concat(parts, ignore_index=True).astype({"value": float})
    table = table[np.isfinite(table["value"])].astype({"round": int})
    table["value"] = table["value"].map(_rounded)
    return table.sort_values(POINT[:3])


def _rounded(value: float) -> float:
    """Four decimals, or four significant digits below one (a loss in scaled units is small)."""
    return round(value, 4) if abs(value) >= 1 else float(f"{value:.4g}")


def _curves(records: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Means and sums over the clients of each round; infinite where a client has diverged."""
    rounds = ["cell", "round"]
    train = records[records["split"] == "train"]
    loss = train.assign(value=train["loss"].fillna(np.inf))
    yield _over_clients(loss, rounds, "mean").assign(key="train/loss")
    for way in ("down", "up"):
        sent = train.assign(value=train[f"bytes_{way}"] / MEGABYTE)
        yield _over_clients(sent, rounds, "sum").assign(key=f"comm/mb_{way}")
    scored = records[records["split"] != "train"]
    # A client without persistence error has no MASE and drops out of the mean; one whose error is
    # not a number has diverged and must not.
    scored = scored.assign(value=scored["mase"].where(np.isfinite(scored["mae"]), np.inf))
    means = _over_clients(scored, [*rounds, "split", "model"], "mean")
    yield means.assign(key=means["split"].map(SPLITS) + "/mase_" + means["model"])


def _over_clients(table: pd.DataFrame, by: list[str], how: str) -> pd.DataFrame:
    return table.groupby(by)["value"].agg(how).reset_index()


def _scores(summary: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """The summary's scores, each at the round it belongs to, and the traffic in all."""
    prefix, suffix = summary["chosen"].map(CHOSEN) + "/", "_" + summary["model"]
    for column, score in SCORES.items():
        yield summary.assign(key=prefix + score + suffix, value=summary[column])
    last = summary[summary["chosen"] == "last"].drop_duplicates("cell")
    down, up = last["bytes_down"] / MEGABYTE, last["bytes_up"] / MEGABYTE
    for key, sent in {"total_mb": down + up, "total_mb_down": down, "total_mb_up": up}.items():
        yield last.assign(key=f"comm/{key}", value=sent)


def _broken_rounds(rows: pd.DataFrame) -> list[int]:
    """Rounds of a cell with a loss or an error that is not finite, ascending."""
    value = rows["loss"].where(rows["split"] == "train", rows["mae"])
    return sorted(int(t) for t in rows["round"][~np.isfinite(value)].unique())


def _clients(rows: pd.DataFrame) -> tuple[pd.DataFrame, int | None]:
    """A row for each client, and the round its scores are of: the last with finite errors."""
    train = rows[rows["split"] == "train"]
    sent = train.groupby("client")[["bytes_down", "bytes_up"]].sum() / MEGABYTE
    table = sent.rename(columns={"bytes_down": "mb_down", "bytes_up": "mb_up"})
    test = rows[rows["split"] == "test"]
    broken = test["round"][~np.isfinite(test["mae"])]
    last = max((int(t) for t in set(test["round"]) - set(broken)), default=None)
    for model in ("global", "local"):
        scores = test[(test["round"] == last) & (test["model"] == model)].set_index("client")
        scores = scores[["mase", "mae", "rmse"]].add_suffix(f"_{model}")
        table = scores.join(table, how="outer")
    return table.map(_rounded).rename_axis("client").reset_index(), last
