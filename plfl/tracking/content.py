"""What is logged of a cell, computed from the results tables; nothing here knows MLflow.

Metrics are named `section/score`; MLflow orders sections by their names, and these are chosen so
that the curves of the test MASE come first.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from plfl.results.records import CELL
from plfl.results.tables import Tables, fitting
from plfl.study import Cell, Study, digest

LAYOUT = 3
"""Version of the names below; runs that were logged under another one are logged anew."""

CURVES = {"validation": "val", "test": "test"}
CHOSEN = {"last": "test_last", "best_validation": "test_best"}
SCORES = {
    "mase_mean": "mase",
    "mase_median": "mase_median",
    "mae_mean": "mae",
    "rmse_mean": "rmse",
    "round": "round",
}
COSTS = {"staleness": "traffic/staleness", "seconds": "time/seconds", "waiting": "time/waiting"}
PRICES = {"rounds": "rounds", "bytes": "mb", "seconds": "seconds"}
"""What it took until the target MASE was reached; the last is there if time was simulated."""
SENT = {"bytes_down": "mb_down", "bytes_up": "mb_up"}
WIRE = {"wire_down": "wire_mb_down", "wire_up": "wire_mb_up"}
"""Whole messages, which a deployed study has measured besides."""
RATES = ["lr", "server_lr", "mu", "tried"]
"""What a cell was trained with, and among how many candidates that was chosen."""
MEGABYTE = 1e6
_RECORDS = ["round", "client", "split", "model", "loss", "mae", "rmse", "mase"]
_POINT = ["cell", "key", "round", "value"]


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
    """Test scores of each client in the last round in which all of them are finite, and its traffic
    in all rounds."""
    diverged_round: int | None
    """First round with a loss or an error that is not finite, if there is one."""
    note: str
    """Description, in Markdown."""

    @property
    def fingerprint(self) -> str:
        """Changes with whatever is logged."""
        logged = (self.name, self.params, self.points, self.clients.to_json(), self.note)
        return digest(LAYOUT, self.hash, *logged)


def title(tables: Tables) -> str:
    """Name of the study, which says so if its data are generated."""
    return f"{tables.study.name} (sample data)" if tables.is_sample else tables.study.name


def engine(tables: Tables) -> str:
    """What ran the rounds: `simulator` or `flower`."""
    return str(tables.about.get("engine", "simulator"))


def runs(tables: Tables) -> Iterator[Run]:
    """Every cell of the study that has records, in the study's order.

    Raises:
        ResultsError: a table is missing, damaged or of another version.
    """
    with fitting(tables.folder):
        states, summary = tables.study.data.states, _named(tables.summary)
        # One state at a time: the records of all may be more than fit into memory.
        for state in states:
            yield from _of_state(tables, state, summary[summary["state"] == state])


def _of_state(tables: Tables, state: str, summary: pd.DataFrame) -> Iterator[Run]:
    study, hashes = tables.study, tables.about["cells"]
    sent = SENT if engine(tables) == "simulator" else SENT | WIRE
    records = _named(tables.records([*CELL, *_RECORDS, *sent], state=state))
    points = _by_cell(_points(records, summary))
    diverged = _broken(records).groupby("cell")["round"].min().to_dict()
    sound = _last_sound_round(records)
    clients = _by_cell(_clients(records, sound))
    rates = summary.drop_duplicates("cell").set_index("cell")[RATES].to_dict("index")
    for cell in study.cells:
        name = str(cell)
        if cell.state != state or name not in clients:
            continue
        note = f"{title(tables)}: cell {name}."
        if name in diverged:
            note += f" **Diverged in round {diverged[name]}**: curves end at the last finite value."
        if name in sound:
            note += f" Test scores of each client after round {sound[name]}: Artifacts, per_client."
        finite = points[name]
        yield Run(
            cell=cell,
            name=_short(cell, len(study.grid.seeds) > 1),
            hash=hashes[name],
            params=_params(cell, study, rates[name]),
            points=list(zip(finite["key"], finite["round"], finite["value"], strict=True)),
            clients=clients[name].drop(columns="cell"),
            diverged_round=diverged.get(name),
            note=note,
        )


def _named(table: pd.DataFrame) -> pd.DataFrame:
    """`table` with the names of its cells instead of their axes."""
    axes = table[CELL].drop_duplicates()
    names = [str(Cell(*axis)) for axis in axes.itertuples(index=False)]
    named: pd.DataFrame = table.merge(axes.assign(cell=names), on=CELL).drop(columns=CELL[1:])
    return named


def _by_cell(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    return {str(name): rows for name, rows in table.groupby("cell")}


def _short(cell: Cell, several_seeds: bool) -> str:
    """MLflow's column of names shows about 20 characters; most names have no more."""
    server = cell.server_opt.removeprefix("fed").replace("adaptive", "ada")
    method = "" if cell.method == "fedopt" else f"{cell.method} "
    name = f"{cell.state}-{cell.personalization} {method}{cell.client_opt}+{server}"
    return f"{name} s{cell.seed}" if several_seeds else name


def _params(cell: Cell, study: Study, rates: Mapping[Any, float]) -> dict[str, str]:
    """What one compares cells by; of the `rates` those that mean something in this one."""
    widths = "-".join(map(str, study.model.mlp))
    params = {
        "state": cell.state,
        "P": cell.personalization,
        "method": cell.method,
        "client_opt": cell.client_opt,
        "server_opt": cell.server_opt,
        "seed": cell.seed,
        **{name: rate for name, rate in rates.items() if rate > 0},
        "rounds": study.federation.rounds,
        "local_steps": study.federation.local_steps,
        "batch_size": study.federation.batch_size,
        "model": f"lstm{study.model.hidden}-mlp{widths}",
    }
    return {key: str(value) for key, value in params.items()}


def _points(records: pd.DataFrame, summary: pd.DataFrame) -> pd.DataFrame:
    """All finite metrics of all cells, a row each."""
    parts = [part[_POINT] for part in [*_curves(records), *_scores(summary)]]
    table: pd.DataFrame = pd.concat(parts, ignore_index=True).astype({"value": float})
    table = table[np.isfinite(table["value"])].astype({"round": int})
    return table.assign(value=table["value"].map(_rounded)).sort_values(_POINT[:3])


def _rounded(value: float) -> float:
    """Four decimals, or four significant digits below one (a loss in scaled units is small)."""
    return round(value, 4) if abs(value) >= 1 else float(f"{value:.4g}")


def _curves(records: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Means and sums over the clients of each round; infinite where a client has diverged."""
    rounds = ["cell", "round"]
    train = records[records["split"] == "train"]
    yield _over_clients(train.assign(value=train["loss"]), rounds, "mean").assign(key="train/loss")
    for column, name in _sent(train).items():
        sent = train.assign(value=train[column] / MEGABYTE)
        yield _over_clients(sent, rounds, "sum").assign(key=f"traffic/{name}")
    scored = records[records["split"] != "train"]
    # A client without persistence error has no MASE and drops out of the mean; one whose error is
    # not a number has diverged and must not.
    scored = scored.assign(value=scored["mase"].where(np.isfinite(scored["mae"]), np.inf))
    means = _over_clients(scored, [*rounds, "split", "model"], "mean")
    yield means.assign(key=means["split"].map(CURVES) + "/mase_" + means["model"])


def _sent(records: pd.DataFrame) -> dict[str, str]:
    """The columns of bytes that there are, and what each is called in megabytes."""
    return {column: name for column, name in (SENT | WIRE).items() if column in records}


def _over_clients(table: pd.DataFrame, by: list[str], how: str) -> pd.DataFrame:
    return table.groupby(by)["value"].agg(how).reset_index()


def _scores(summary: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """The summary's scores, each at the round it belongs to, and what the cell cost."""
    prefix, suffix = summary["chosen"].map(CHOSEN) + "/", "_" + summary["model"]
    for column, score in SCORES.items():
        yield summary.assign(key=prefix + score + suffix, value=summary[column])
    last = summary[summary["chosen"] == "last"]
    for column, unit in PRICES.items():
        if f"{column}_to_target" in last:
            price = last[f"{column}_to_target"] / (MEGABYTE if column == "bytes" else 1)
            yield last.assign(key=f"target/{unit}_" + last["model"], value=price)
    last = last.drop_duplicates("cell")
    for column, key in COSTS.items():
        if column in last:
            yield last.assign(key=key, value=last[column])
    sent = (last["bytes_down"] + last["bytes_up"]) / MEGABYTE
    yield last.assign(key="traffic/total_mb", value=sent)


def _broken(records: pd.DataFrame) -> pd.DataFrame:
    """Rows with an infinite loss or with an error that is not finite."""
    trained = records["split"] == "train"
    broken: pd.DataFrame = records[
        ~np.isfinite(records["mae"]) & ~trained | np.isinf(records["loss"])
    ]
    return broken


def _last_sound_round(records: pd.DataFrame) -> dict[str, int]:
    """By cell, the last round in which every client's test error is finite, if any."""
    test = records[records["split"] == "test"]
    sound = np.isfinite(test["mae"]).groupby([test["cell"], test["round"]]).all()
    rounds = sound[sound].index.to_frame(index=False)
    return {str(cell): int(t) for cell, t in rounds.groupby("cell")["round"].max().items()}


def _clients(records: pd.DataFrame, at: dict[str, int]) -> pd.DataFrame:
    """A row for each cell and client: its test scores at the cell's round and its traffic."""
    keys = ["cell", "client"]
    ways = _sent(records)
    sent = records[records["split"] == "train"].groupby(keys)[list(ways)].sum() / MEGABYTE
    sent = sent.rename(columns=ways)
    test = records[(records["split"] == "test") & (records["round"] == records["cell"].map(at))]
    scores = test.pivot(index=keys, columns="model", values=["mase", "mae", "rmse"])
    scores.columns = scores.columns.map("_".join)
    order = [f"{s}_{m}" for m in ("local", "global") for s in ("mase", "mae", "rmse")]
    table = scores.reindex(columns=order).join(sent, how="outer")
    table = table.fillna(dict.fromkeys(ways.values(), 0))
    return table.map(_rounded).reset_index()
