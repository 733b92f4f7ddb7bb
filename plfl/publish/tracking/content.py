"""Computes what is logged for each cell and baseline from the tables, without using MLflow.

Metrics are named `section/score`. MLflow sorts sections by name; the names are chosen so that the
curves of the test MASE come first.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from plfl.base.files import digest
from plfl.baselines import BASELINE, find
from plfl.config.study import Cell, Study
from plfl.publish.tracking.duration import Span, of_baselines, of_cell
from plfl.results.records import CELL, MODELS
from plfl.results.tables import Tables, fitting

LAYOUT = 6
"""Version of the names below; runs logged under another version are logged again."""

CURVES = {"validation": "val", "test": "test"}
CHOSEN = {"last": "test_last", "best_validation": "test_best"}
SCORES = {
    "mase_mean": "mase",
    "mase_median": "mase_median",
    "mae_mean": "mae",
    "rmse_mean": "rmse",
    "round": "round",
}
COSTS = {
    "staleness": "traffic/staleness",
    "seconds": "time/seconds",
    "waiting": "time/waiting",
    "epochs": "train/epochs",
    "trials": "tuning/trials",
    "trial_steps": "tuning/client_steps",
}
PRICES = {"rounds": "rounds", "bytes": "mb", "seconds": "seconds"}
"""Costs until the target MASE is reached; `seconds` only if time is simulated."""
SENT = {"bytes_down": "mb_down", "bytes_up": "mb_up"}
WIRE = {"wire_down": "wire_mb_down", "wire_up": "wire_mb_up"}
"""Bytes of complete messages, which only a deployed study measures."""
GIVEN = ["lr", "server_lr", "hyperparameters", "trials"]
"""Hyperparameters of the local model of a cell, and the number of candidates that they were chosen
from."""
MEGABYTE = 1e6
_RECORDS = ["round", "client", "split", "model", "loss", "mae", "rmse", "mase"]
_POINT = ["cell", "key", "round", "value"]


@dataclass(frozen=True)
class Run:
    """Everything that is logged for one cell or baseline."""

    subject: str
    """The cell's name, or the baseline's: `CA-baseline-ridge`."""
    state: str
    scheme: str
    """`baseline` for a baseline."""
    name: str
    """Short name for MLflow's narrow column: `CA-P2 adam+yogi`, `CA baseline ridge`."""
    hash: str | None
    """Digest of the cell's definition, data and code."""
    params: dict[str, str]
    points: list[tuple[str, int, float]]
    """Metrics as (key, round, value), finite and rounded."""
    clients: pd.DataFrame
    """Test scores of each client at the last round in which all of them are finite, and its bytes
    over all rounds."""
    diverged_round: int | None
    """First round with a loss or an error that is not finite; None without one."""
    note: str
    """Description, in Markdown."""
    trained: Span | None
    """When its job ran, if known."""

    @property
    def fingerprint(self) -> str:
        """Digest of everything that is logged."""
        logged = (self.name, self.params, self.points, self.clients.to_json(), self.note)
        return digest(LAYOUT, self.hash, *logged)


def title(tables: Tables) -> str:
    """Name of the study; says if the data are sample data."""
    return f"{tables.study.name}{tables.study.data.sample_suffix}"


def engine(tables: Tables) -> str:
    """The engine of the rounds: `simulator` or `flower`."""
    return str(tables.about.get("engine", "simulator"))


def runs(tables: Tables) -> Iterator[Run]:
    """The runs of all trainings that have records; in each state, those of the baselines follow.

    Cells that repeat another cell's training, for example with other ServerOpts if nothing is
    shared, have no run.
    """
    with fitting(tables.folder):
        states, summary = tables.study.data.states, _with_names(tables.summary)
        # One state at a time, because the records of all states may not fit into memory.
        for state in states:
            yield from _of_state(tables, state, summary[summary["state"] == state])
            yield from _baselines_of(tables, state)


def _of_state(tables: Tables, state: str, summary: pd.DataFrame) -> Iterator[Run]:
    study, hashes = tables.study, tables.about["cells"]
    sent = SENT if engine(tables) == "simulator" else SENT | WIRE
    records = _with_names(tables.records([*CELL, *_RECORDS, *sent], state=state))
    points = _by_cell(_points(records, summary))
    diverged = _broken(records).groupby("cell")["round"].min().to_dict()
    sound = _last_sound_round(records)
    clients = _by_cell(_clients(records, sound))
    given = _given(summary)
    for cell in study.cells:
        name = str(cell)
        axes = (cell.sharing, cell.method, cell.client_opt, cell.server_opt)
        if cell.state != state or name not in clients or study.combinations.repeats(*axes):
            continue
        note = f"{title(tables)}: cell {name}."
        if name in diverged:
            note += f" **Diverged in round {diverged[name]}**: curves end at the last finite value."
        if name in sound:
            note += f" Test scores of each client after round {sound[name]}: Artifacts, per_client."
        finite = points[name]
        yield Run(
            subject=name,
            state=state,
            scheme=cell.sharing,
            name=_short(cell, len(study.grid.seeds) > 1, study.is_alone(cell)),
            hash=hashes[name],
            params=_params(cell, study, given[name]),
            points=list(zip(finite["key"], finite["round"], finite["value"], strict=True)),
            clients=clients[name].drop(columns="cell"),
            diverged_round=diverged.get(name),
            note=note,
            trained=of_cell(tables.folder, cell),
        )


def _given(summary: pd.DataFrame) -> dict[Any, dict[Any, Any]]:
    """`GIVEN` of each cell, and the hyperparameters of its global model if they differ."""
    by_model = {
        model: summary[summary["model"] == model].drop_duplicates("cell").set_index("cell")
        for model in MODELS
    }
    local = by_model["local"]
    other = by_model["global"]["hyperparameters"].reindex(local.index)
    own = other.where(other != local["hyperparameters"], "")
    return local[GIVEN].assign(hyperparameters_global=own).to_dict("index")


def _baselines_of(tables: Tables, state: str) -> Iterator[Run]:
    """The runs of the baselines of a state."""
    every, last = tables.baselines, tables.study.federation.rounds
    here = every[every["state"] == state]
    for name, table in here.groupby("baseline", sort=False):
        about = find(str(name))
        yield Run(
            subject=f"{state}-{BASELINE}-{name}",
            state=state,
            scheme=BASELINE,
            name=f"{state} {BASELINE} {name}",
            hash=None,
            params={
                "state": state,
                "sharing": BASELINE,
                "method": str(name),
                "client_opt": "none",
                "server_opt": "none",
                "model": about.label,
            },
            points=_baseline_points(table, last),
            clients=_baseline_clients(table),
            diverged_round=None,
            note=f"{title(tables)}: baseline {about.label}. {about.about} "
            "Test scores of each client: Artifacts, per_client.",
            trained=of_baselines(tables.folder, state),
        )


def _baseline_points(table: pd.DataFrame, last: int) -> list[tuple[str, int, float]]:
    """Scores of the single model of a baseline, under the names of both models of a cell.

    This puts them into the same columns, so that baselines and cells are sorted together. In charts
    by round they are a horizontal line from the first round to the last.
    """
    parts = {str(split): rows for split, rows in table.groupby("split")}
    test = parts["test"]
    scores = {
        f"{section}/{score}": value
        for score, value in _means(test).items()
        for section in CHOSEN.values()
    }
    points = [(f"{key}_{model}", last, value) for key, value in scores.items() for model in MODELS]
    for split, section in CURVES.items():
        mase = _means(parts[split])["mase"]
        points += [(f"{section}/mase_{m}", t, mase) for m in MODELS for t in sorted({1, last})]
    points.append(("traffic/total_mb", last, float(test["bytes"].sum() / MEGABYTE)))
    return sorted((key, t, _rounded(value)) for key, t, value in points if np.isfinite(value))


def _means(scored: pd.DataFrame) -> dict[str, float]:
    """Scores over clients; NaN if a client has no forecast."""
    if scored["mae"].isna().any():
        return dict.fromkeys(("mase", "mase_median", "mae", "rmse"), np.nan)
    means = {name: float(scored[name].mean()) for name in ("mase", "mae", "rmse")}
    return means | {"mase_median": float(scored["mase"].median())}


def _baseline_clients(table: pd.DataFrame) -> pd.DataFrame:
    """One row per client, with the same columns as the table of a cell."""
    test = table[table["split"] == "test"]
    scores = {f"{s}_{m}": test[s] for m in MODELS for s in ("mase", "mae", "rmse")}
    rows = test[["client"]].assign(**scores, mb_down=0.0, mb_up=test["bytes"] / MEGABYTE)
    numbers = rows.columns.drop("client")
    return rows.assign(**rows[numbers].map(_rounded)).reset_index(drop=True)


def _with_names(table: pd.DataFrame) -> pd.DataFrame:
    """`table` with the names of the cells instead of their axes, except `state`."""
    axes = table[CELL].drop_duplicates()
    names = [str(Cell(*axis)) for axis in axes.itertuples(index=False)]
    named: pd.DataFrame = table.merge(axes.assign(cell=names), on=CELL).drop(columns=CELL[1:])
    return named


def _by_cell(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    return {str(name): rows for name, rows in table.groupby("cell")}


def _short(cell: Cell, several_seeds: bool, alone: bool) -> str:
    """Short name of a cell: MLflow's column of names shows about 20 characters."""
    if alone:
        name = f"{cell.state}-{cell.sharing} {cell.client_opt}"
        return f"{name} s{cell.seed}" if several_seeds else name
    server = cell.server_opt.removeprefix("fed").replace("adaptive", "ada")
    method = "" if cell.method == "fedopt" else f"{cell.method} "
    name = f"{cell.state}-{cell.sharing} {method}{cell.client_opt}+{server}"
    return f"{name} s{cell.seed}" if several_seeds else name


def _params(cell: Cell, study: Study, given: Mapping[Any, Any]) -> dict[str, str]:
    """The parameters by which cells are compared, with the values in `given` that are not empty."""
    alone = study.is_alone(cell)
    params = {
        "state": cell.state,
        "sharing": cell.sharing,
        "method": "none" if alone else cell.method,
        "client_opt": cell.client_opt,
        "server_opt": "none" if alone else cell.server_opt,
        "seed": cell.seed,
        **{name: value for name, value in given.items() if value and value == value},
        "rounds": study.federation.rounds,
        **{
            key: value
            for key in ("local_steps", "local_epochs")
            if (value := getattr(study.federation, key)) is not None
        },
        "batch_size": study.federation.batch_size,
        "model": study.model.summary,
    }
    if variant := study.name.partition("/")[2]:
        params["variant"] = variant
    return {key: str(value) for key, value in params.items()}


def _points(records: pd.DataFrame, summary: pd.DataFrame) -> pd.DataFrame:
    """All finite metrics of all cells, one row each."""
    parts = [part[_POINT] for part in [*_curves(records), *_scores(summary)]]
    table: pd.DataFrame = pd.concat(parts, ignore_index=True).astype({"value": float})
    table = table[np.isfinite(table["value"])].astype({"round": int})
    return table.assign(value=table["value"].map(_rounded)).sort_values(_POINT[:3])


def _rounded(value: float) -> float:
    """Rounded to four decimals; below 1 to four significant digits, because losses are small."""
    return round(value, 4) if abs(value) >= 1 else float(f"{value:.4g}")


def _curves(records: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Means and sums over the clients in each round; infinite if a client diverged."""
    rounds = ["cell", "round"]
    train = records[(records["split"] == "train") & (records["model"] == "local")]
    yield _over_clients(train.assign(value=train["loss"]), rounds, "mean").assign(key="train/loss")
    for column, name in _sent(train).items():
        sent = train.assign(value=train[column] / MEGABYTE)
        yield _over_clients(sent, rounds, "sum").assign(key=f"traffic/{name}")
    scored = records[records["split"] != "train"]
    # The mean skips a client whose MASE is undefined because its persistence error is zero. It must
    # not skip a diverged client, whose error is not finite.
    scored = scored.assign(value=scored["mase"].where(np.isfinite(scored["mae"]), np.inf))
    means = _over_clients(scored, [*rounds, "split", "model"], "mean")
    yield means.assign(key=means["split"].map(CURVES) + "/mase_" + means["model"])


def _sent(records: pd.DataFrame) -> dict[str, str]:
    """The existing columns of bytes, and the names of their metrics in megabytes."""
    return {column: name for column, name in (SENT | WIRE).items() if column in records}


def _over_clients(table: pd.DataFrame, by: list[str], how: str) -> pd.DataFrame:
    return table.groupby(by)["value"].agg(how).reset_index()


def _scores(summary: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """The scores of the summary, each at its round, and the costs of the cell."""
    prefix, suffix = summary["chosen"].map(CHOSEN) + "/", "_" + summary["model"]
    means = [str(c) for c in summary if str(c).endswith("_mean")]
    further = {column: column.removesuffix("_mean") for column in means}
    if "mase_worst_tenth" in summary:
        further["mase_worst_tenth"] = "mase_worst_tenth"
    for column, score in (further | SCORES).items():
        yield summary.assign(key=prefix + score + suffix, value=summary[column])
    last = summary[summary["chosen"] == "last"]
    for column, unit in PRICES.items():
        if f"{column}_to_target" in last:
            price = last[f"{column}_to_target"] / (MEGABYTE if column == "bytes" else 1)
            yield last.assign(key=f"target/{unit}_" + last["model"], value=price)
    last = last[last["model"] == "local"]
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
    """For each cell, the last round in which the test errors of all clients are finite, if any."""
    test = records[records["split"] == "test"]
    sound = np.isfinite(test["mae"]).groupby([test["cell"], test["round"]]).all()
    rounds = sound[sound].index.to_frame(index=False)
    return {str(cell): int(t) for cell, t in rounds.groupby("cell")["round"].max().items()}


def _clients(records: pd.DataFrame, at: dict[str, int]) -> pd.DataFrame:
    """One row per cell and client: test scores at the round `at` of the cell, and bytes."""
    keys = ["cell", "client"]
    ways = _sent(records)
    trained = (records["split"] == "train") & (records["model"] == "local")
    sent = records[trained].groupby(keys)[list(ways)].sum() / MEGABYTE
    sent = sent.rename(columns=ways)
    test = records[(records["split"] == "test") & (records["round"] == records["cell"].map(at))]
    scores = test.pivot(index=keys, columns="model", values=["mase", "mae", "rmse"])
    scores.columns = scores.columns.map("_".join)
    order = [f"{s}_{m}" for m in ("local", "global") for s in ("mase", "mae", "rmse")]
    table = scores.reindex(columns=order).join(sent, how="outer")
    table = table.fillna(dict.fromkeys(ways.values(), 0))
    return table.map(_rounded).reset_index()
