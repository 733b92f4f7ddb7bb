"""MLflow: the results of studies as runs to sort, filter, plot and compare in a browser.

Training never calls MLflow. `track` reads the tables of a results folder and logs them through
MLflow's public client into `mlruns.db` of the current folder, or where `MLFLOW_TRACKING_URI` says.
A study is one experiment, and each of its cells and baselines is one run. The database can be
deleted at any time: `track` writes it again from the tables.

MLflow is an extra (`pip install 'plfl[mlflow]'`) and takes seconds to import, so only the functions
that need it import it.
"""

from __future__ import annotations

import logging
import os
import re
import sqlite3
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from plfl.base.errors import PlflError, Problem
from plfl.base.extras import require
from plfl.base.files import atomic, digest, hold, sha256
from plfl.base.spreadsheets import as_csv
from plfl.baselines import find
from plfl.config.baselines import BASELINE
from plfl.results.in_use import read_use
from plfl.results.records import CELL, MODELS, read_facts
from plfl.results.tables import Tables, is_complete, refuse_contradictions
from plfl.study import Cell, Study

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

log = logging.getLogger(__name__)

DATABASE = Path("mlruns.db")
OVERVIEW = "overview"
"""Name of the run with the figures and tables of the whole study."""
FIRST = "fig3_mase_local"
"""The figure that the link in the description of an experiment opens."""
METRICS_PER_REQUEST = 1000
"""Largest number of metrics in one call."""
CURVE_NAMES = {"validation": "val", "test": "test"}
BYTE_COLUMNS = ["bytes_down", "bytes_up", "message_down", "message_up"]
"""Columns of bytes; those of complete messages (`message_*`) exist for deployed studies only."""
TRAFFIC = "bytes/per_round_and_client"
"""The number of Figure 2: mean bytes of a participant and round, in both directions."""
TOTAL_COLUMNS = [*BYTE_COLUMNS[:2], "epochs", "seconds", "waiting", "trials", "trial_steps"]
"""Columns of summary.csv with the cost of a whole training."""
SERVER_PATIENCE = 30.0
"""Seconds after which a server that does not answer is given up."""
ANSWER_SECONDS = 10.0
"""Seconds in which a server must answer a request that only asks whether it is there."""
RETRIES = "4"
"""How often MLflow repeats a request, within half a minute; its own 7 take four minutes."""
QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    # Jobs evaluate language models; here they would waste eight processes and 2 GB.
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    # A `yaml.py` in the current folder is the user's and must not replace a module of MLflow's.
    "PYTHONSAFEPATH": "true",
}

Point = tuple[str, int, float]
"""Name, step and value of a metric."""


@dataclass(frozen=True)
class Run:
    """What is logged for one cell or baseline."""

    subject: str
    """The cell or the baseline, with its variant of the study: unique in the experiment."""
    name: str
    """A short name with state, scheme, method and optimisers."""
    params: dict[str, str]
    points: list[Point]
    """Finite metrics."""
    tables: Mapping[str, str] = field(default_factory=dict)
    """Tables as CSV, by the names of their artifacts."""
    files: Sequence[Path] = ()
    """Further artifacts."""
    diverged_round: int | None = None
    """First round with a loss or an error that is not finite; None without one."""


def location() -> str:
    """The address of the tracking server or database; PlflError, with a remedy, without MLflow."""
    require("mlflow", "MLflow")
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{DATABASE.resolve()}"


def serve(port: int) -> None:
    """Replace this process by MLflow's server, on this machine only. PlflError: MLflow is not
    installed, nothing has been logged, or a server exists elsewhere."""
    uri = location()
    if uri.startswith("http"):
        raise PlflError(
            Problem("", "MLFLOW_TRACKING_URI names a server", f"open {uri} in a browser")
        )
    if uri.startswith("sqlite") and not Path(uri.removeprefix("sqlite:///")).is_file():
        raise PlflError(
            Problem(uri, "there is no such database", "run a study, or `plfl track` one")
        )
    address = f"http://127.0.0.1:{port}"
    print(f"MLflow starts; open {address} and stop it with Ctrl-C", flush=True)
    for name, number in _logged_studies(uri).items():
        runs_page = f"{address}/#/experiments/{number}/runs?workflowType=machine_learning"
        print(f"  {name}: {runs_page}", flush=True)
    command = [sys.executable, "-m", "mlflow", "ui", "--backend-store-uri", uri]
    command += ["--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    os.execve(sys.executable, command, os.environ | QUIET)


def _logged_studies(uri: str) -> dict[str, str]:
    """The numbers of the experiments in MLflow's database of this folder by name, read without
    MLflow, which takes seconds to load; none if it is another database or form."""
    if not uri.startswith("sqlite:///"):
        return {}
    query = "SELECT name, experiment_id FROM experiments WHERE lifecycle_stage = 'active'"
    try:
        with closing(sqlite3.connect(uri.removeprefix("sqlite:///"))) as database:
            rows = database.execute(query).fetchall()
    except sqlite3.Error:
        return {}
    return {str(name): str(number) for name, number in rows if name != "Default"}


def track(results: Path, figures: Path | None = None) -> str:
    """Log the tables in `results` and the figures in `figures`; return the address.

    Runs of the study whose content has not changed are kept, so an interrupted call is completed by
    the next one. All others are replaced, and those of cells that left the study are deleted. Runs
    of other programs are not touched. PlflError: MLflow is not installed, or cannot read or write
    its database or reach its server; ResultsError: a table is missing or damaged.
    """
    uri, facts = location(), read_facts(results)
    places: dict[str, dict[str, str]] = facts.get("variants", {"": {}})
    all_runs = (run for label in places for run in runs(Tables(results / label), places[label]))
    overview = overview_run(results, figures)
    if uri.startswith("http"):
        _await_server(uri)
    with _explain_errors(uri), hold(results / ".mlflow.lock", waiting=_tell_wait):
        log = _Log(_client(uri), facts)
        # None: the bar is shown only on a terminal.
        for run in tqdm(all_runs, desc="MLflow", unit="run", disable=None, leave=False):
            log.add(run)
        log.describe(log.add(overview), list(overview.files))
        for id in log.others:
            log.client.delete_run(id)
    return uri


@contextmanager
def _explain_errors(uri: str) -> Iterator[None]:
    """Turn errors of MLflow and its database into a message."""
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (MlflowException, SQLAlchemyError, OSError) as error:
        message = str(error).strip().partition("\n")[0]
        raise PlflError(
            Problem(
                uri,
                f"MLflow cannot use it ({message})",
                "correct that, or move it away and log the studies again with `plfl track`: "
                "their tables contain everything",
            )
        ) from error


def _tell_wait(holder: str) -> None:
    log.warning("waits until %s has logged its study", holder)


def _await_server(uri: str) -> None:
    """Return when a server answers, whatever it says; the log tells that it is waited for.
    PlflError if it has not answered for `SERVER_PATIENCE` seconds."""
    import requests  # comes with MLflow

    end = time.monotonic() + SERVER_PATIENCE
    has_told = False
    while True:
        try:
            requests.get(uri, timeout=ANSWER_SECONDS, stream=True).close()
            return
        except requests.RequestException as error:
            cause = type(error).__name__
        if not has_told:
            log.warning("%s does not answer (%s); trying for %.0f s", uri, cause, SERVER_PATIENCE)
            has_told = True
        if time.monotonic() >= end:
            raise PlflError(
                Problem(
                    uri,
                    f"the MLflow server does not answer ({cause})",
                    "start it, or correct or unset MLFLOW_TRACKING_URI, then run `plfl track` "
                    "again",
                )
            )
        time.sleep(min(5.0, SERVER_PATIENCE))


def _client(uri: str) -> MlflowClient:
    """A client. A new database is made under a temporary name, so it is always complete."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", RETRIES)
    logging.getLogger("mlflow.store.db").setLevel(logging.WARNING)
    from mlflow.tracking import MlflowClient

    if uri == f"sqlite:///{DATABASE.resolve()}":
        with hold(Path(f".{DATABASE}.lock"), waiting=_tell_wait):
            if not DATABASE.exists():
                with atomic(DATABASE) as temporary:
                    MlflowClient(f"sqlite:///{temporary.resolve()}").search_experiments()
    return MlflowClient(uri)


class _Log:
    """The experiment of a study, and the runs in it."""

    def __init__(self, client: MlflowClient, facts: dict[str, Any]) -> None:
        """Find the experiment by the name of the study, or create it."""
        from mlflow.entities import ViewType

        self.client, self.facts, self.name = client, facts, str(facts["study"]["name"])
        experiment = client.get_experiment_by_name(self.name)
        if experiment is not None and experiment.lifecycle_stage == "deleted":
            client.restore_experiment(experiment.experiment_id)
        self.id = experiment.experiment_id if experiment else client.create_experiment(self.name)
        self.others: set[str] = set()
        """Ids of the study's runs that are not wanted, as far as is known."""
        self.finished: dict[tuple[str, str], str] = {}
        """Ids of finished runs by subject and digest of the content."""
        token: str | None = ""
        while token is not None:
            page = client.search_runs([self.id], "", ViewType.ACTIVE_ONLY, 1000, page_token=token)
            for run in page:
                subject, content = map(run.data.tags.get, ("plfl.subject", "plfl.content"))
                if subject and content:
                    self.others.add(run.info.run_id)
                    if run.info.status in ("FINISHED", "FAILED"):
                        self.finished[subject, content] = run.info.run_id
            token = page.token or None

    def add(self, run: Run) -> str:
        """Log a run, unless a finished run has the same content; return its id."""
        from mlflow.entities import Metric, Param

        content = digest(self.facts["version"], run.name, run.params, run.points, run.tables)
        if run_id := self.finished.get((run.subject, content)):
            self.others.discard(run_id)
            return run_id
        tags = {
            "plfl.subject": run.subject,
            "plfl.content": content,
            "plfl.version": str(self.facts["version"]),
            "mlflow.source.name": "plfl",
            "mlflow.source.git.commit": self.facts.get("git") or "",
            "diverged_round": "" if run.diverged_round is None else str(run.diverged_round),
        }
        id = str(self.client.create_run(self.id, tags=tags, run_name=run.name).info.run_id)
        params = [Param(key, value) for key, value in run.params.items()]
        now = int(1000 * time.time())
        metrics = [Metric(key, value, now, step) for key, step, value in run.points]
        self.client.log_batch(id, params=params)
        for start in range(0, len(metrics), METRICS_PER_REQUEST):
            self.client.log_batch(id, metrics=metrics[start : start + METRICS_PER_REQUEST])
        for name, table in run.tables.items():
            self.client.log_text(id, table, name)
        for file in run.files:
            self.client.log_artifact(id, str(file))
        # Until now the run is unfinished, and the next call would replace it.
        self.client.set_terminated(id, "FINISHED" if run.diverged_round is None else "FAILED")
        return id

    def describe(self, overview: str, files: list[Path]) -> None:
        """Write the description of the experiment, with a link to a figure."""
        first_figure = next((file for file in files if file.stem == FIRST), files[0]).name
        link = f"#/experiments/{self.id}/runs/{overview}/artifacts/{first_figure}"
        text = f"Study {self.name}. [Figures and tables]({link}) are in the run {OVERVIEW}."
        self.client.set_experiment_tag(self.id, "mlflow.note.content", text)


def overview_run(results: Path, figures: Path | None) -> Run:
    """The run with the figures and tables of the whole study."""
    # Only PNGs: MLflow shows them faster than PDFs.
    pictures = sorted(figures.glob("*.png")) if figures is not None else []
    files = [*pictures, results / "summary.csv", results / "study.json"]
    contents = {file.name: sha256(file) for file in files}
    return Run(OVERVIEW, OVERVIEW, {"files": digest(contents)}, [], files=files)


def runs(tables: Tables, place: Mapping[str, str] | None = None) -> Iterator[Run]:
    """In each state, the runs of the baselines, of all trainings that have records, and of what is
    in use: MLflow lists the last ones first, and charts the first ten. Cells that repeat another
    cell's training, for example with other ServerOpts if nothing is shared, have no run. `place`:
    the values of a variant on the axes of its study."""
    study, federation = tables.study, tables.study.federation
    variant = study.name.partition("/")[2]
    prefix = f"{variant}/" if variant else ""
    common = {
        "data": study.data.source_words,
        "engine": tables.facts.get("engine", "simulator"),
        "look_back": study.windows.look_back,
        "look_ahead": study.windows.look_ahead,
        "participation": federation.participation,
        "rounds": federation.rounds,
        "local_steps": federation.local_steps,
        "local_epochs": federation.local_epochs,
        "batch_size": federation.batch_size,
        "model": study.model.summary,
        "variant": variant,
        **(place or {}),
    }
    columns = ["round", "client", "split", "model", "loss", "mae", "rmse", "mase"]
    columns += [column for column in BYTE_COLUMNS if column in tables.record_columns]
    seeds = len(study.grid.seeds) > 1
    with refuse_contradictions(tables.folder):
        summaries = dict(list(tables.summary.groupby(CELL)))
        rows_in_use = read_use(tables)
        # One state at a time, because the records of all states may not fit into memory.
        for state in study.data.states:
            clients = (tables.clients["state"] == state).sum()
            common_tags = {"state": state, "clients": clients, **common}
            baselines = tables.baselines[tables.baselines["state"] == state]
            for name, scores in baselines.groupby("baseline", sort=False):
                label = find(str(name)).label
                labels = {"sharing": BASELINE, "method": name, "model": label}
                yield Run(
                    subject=f"{prefix}{state}-{BASELINE}-{name}",
                    name=f"{prefix}{state}-{BASELINE} {name}",
                    params=_texts({**common_tags, **labels}),
                    points=list(_baseline_points(scores, federation.rounds)),
                    tables={"clients.csv": as_csv(scores[scores["split"] == "test"], digits=12)},
                )
            records = dict(list(tables.records([*CELL, *columns], state=state).groupby(CELL)))
            for cell in study.cells:
                key = astuple(cell)
                if key not in records or study.plan.combinations.repeats(cell.combination):
                    continue
                rows, summary = records[key], summaries[key]
                trains_alone = study.plan.trains_alone(cell)
                algorithm_text = cell.client_opt
                algorithm_text = (
                    algorithm_text
                    if trains_alone
                    else f"{cell.method} {algorithm_text}+{cell.server_opt}"
                )
                seed_text = f" s{cell.seed}" if seeds else ""
                broken = ~np.isfinite(rows["mae"]) & (rows["split"] != "train")
                broken |= np.isinf(rows["loss"])
                yield Run(
                    subject=f"{prefix}{cell}",
                    name=f"{prefix}{state}-{cell.sharing} {algorithm_text}{seed_text}",
                    params=_texts({**_params(cell, study, summary), **common_tags}),
                    points=[*_curves(rows), *_scores(summary)],
                    tables={"clients.csv": _clients(rows), "client_bytes.csv": _byte_table(rows)},
                    diverged_round=rows.loc[broken, "round"].min() if broken.any() else None,
                )
            own_rows = rows_in_use[rows_in_use["state"] == state]
            yield from _runs_in_use(own_rows, federation.rounds, prefix, common_tags)


def _runs_in_use(
    rows: pd.DataFrame, last: int, prefix: str, common_tags: Mapping[str, object]
) -> Iterator[Run]:
    """The runs of what is in use in a state, and of what would be without a federation, given
    their rows of summary.csv and the last round."""
    for row in rows.to_dict("records"):
        state, name = common_tags["state"], str(row["sharing"])
        labels = {"sharing": name, "method": row["method"]}
        test = {score: float(row[f"{score}_mean"]) for score in ("mase", "mae", "rmse")}
        means = {"test": test, "validation": {"mase": float(row["validation_mase"])}}
        yield Run(
            subject=f"{prefix}{state}-{name}",
            name=f"{prefix}{state}-{name}",
            params=_texts({**common_tags, **labels}),
            points=[
                *(point for split in means for point in _constant(split, means[split], last)),
                *(
                    (f"total/{direction}", last, float(row[direction]))
                    for direction in ("bytes_down", "bytes_up")
                ),
            ],
        )


def _params(cell: Cell, study: Study, summary: pd.DataFrame) -> dict[str, object]:
    """The axes of a cell and all hyperparameters of its algorithms, such as `client_opt.lr`; tuned
    ones have the value that was chosen for the local model."""
    params = {axis: getattr(cell, axis) for axis in CELL}
    algorithms: dict[str, Any] = {
        "client_opt": study.hyperparameters.find_client_opt(cell.client_opt)
    }
    if study.plan.trains_alone(cell):
        params |= {"method": "none", "server_opt": "none"}
    else:
        algorithms |= {
            "method": study.hyperparameters.find_method(cell.method),
            "server_opt": study.hyperparameters.find_server_opt(cell.server_opt),
        }
    for kind, algorithm in algorithms.items():
        values = algorithm.model_dump(mode="json")
        params |= {f"{kind}.{key}": value for key, value in values.items()}
    tuned = summary.loc[summary["model"] == "local", "hyperparameters"].iloc[0]
    for path, value in re.findall(r"([\w.]+)=([^,]+)", tuned):
        params[f"{path.partition('.')[0]}.{path.rpartition('.')[2]}"] = value
    return params


def _texts(params: Mapping[str, object]) -> dict[str, str]:
    """The parameters that have a value, as MLflow takes them."""
    return {key: str(value)[:500] for key, value in params.items() if value not in (None, "")}


def _curves(rows: pd.DataFrame) -> Iterator[Point]:
    """Metrics by round: loss, bytes of all clients, and MASE up to the round in which a client
    diverged; and, once, the number of Figure 2."""
    train = _rows_of_participants(rows)
    yield from _by_round("train/loss", train.groupby("round")["loss"].mean())
    for column in (column for column in BYTE_COLUMNS if column in train):
        yield from _by_round(column, train.groupby("round")[column].sum())
    mean_bytes = (train["bytes_down"] + train["bytes_up"]).mean()
    yield from _by_round(TRAFFIC, pd.Series({0: mean_bytes}))  # of no round: MLflow draws bars
    evaluated_rows = rows[rows["split"] != "train"]
    # The mean leaves out a client without a MASE, but must not leave out one that diverged.
    evaluated_rows = evaluated_rows.assign(
        mase=evaluated_rows["mase"].where(np.isfinite(evaluated_rows["mae"]), np.inf)
    )
    for (split, model), model_rows in evaluated_rows.groupby(["split", "model"]):
        means = model_rows.groupby("round")["mase"].mean()
        yield from _by_round(f"{CURVE_NAMES[str(split)]}/mase_{model}", means)


def _by_round(key: str, values: pd.Series[Any]) -> Iterator[Point]:
    for step, value in values.items():
        if np.isfinite(value):
            yield key, int(str(step)), float(value)


def _scores(summary: pd.DataFrame) -> Iterator[Point]:
    """The scores and costs of the summary, by the names of its columns."""
    for row in summary.to_dict("records"):
        scores = [column for column in map(str, row) if re.search("^mase_|_mean$|^valid", column)]
        values = {f"test_last/{c}_{row['model']}": row[c] for c in scores}
        if row["model"] == "local":
            values |= {f"total/{column}": row[column] for column in TOTAL_COLUMNS if column in row}
        for key, value in values.items():
            yield from _by_round(key, pd.Series({row["round"]: value}))


def _baseline_points(scores: pd.DataFrame, last: int) -> Iterator[Point]:
    """The scores of a baseline under the names of both models of a cell, so that they stand in the
    same columns; in charts by round they are a line from the first round to the last."""
    for split, rows in scores.groupby("split"):
        # A mean without the clients that have no forecast would be too good.
        means = rows[["mase", "mae", "rmse"]].mean() * (1 if is_complete(rows["mae"]) else np.nan)
        yield from _constant(str(split), means.to_dict(), last)
    yield "total/bytes_up", last, float(scores.loc[scores["split"] == "test", "bytes"].sum())


def _constant(split: str, means: Mapping[Any, float], last: int) -> Iterator[Point]:
    """The mean scores of a split of what has no rounds; see `_baseline_points`."""
    for model in MODELS:
        level = pd.Series({1: means["mase"], last: means["mase"]})
        yield from _by_round(f"{CURVE_NAMES[split]}/mase_{model}", level)
        if split == "test":
            for score, value in means.items():
                yield from _by_round(f"test_last/{score}_mean_{model}", pd.Series({last: value}))


def _clients(rows: pd.DataFrame) -> str:
    """Test scores of each client after the last round, and its bytes over all rounds, as CSV."""
    test = rows[(rows["split"] == "test") & (rows["round"] == rows["round"].max())]
    scores = test.pivot(index="client", columns="model", values=["mase", "mae", "rmse"])
    scores.columns = scores.columns.map("_".join)
    train = _rows_of_participants(rows)
    byte_sums = train.groupby("client")[
        [column for column in BYTE_COLUMNS if column in train]
    ].sum()
    return as_csv(scores.join(byte_sums, how="outer").reset_index(), digits=12)


def _byte_table(rows: pd.DataFrame) -> str:
    """The bytes of each client and round, as CSV."""
    train = _rows_of_participants(rows)
    return as_csv(
        train[["round", "client", *(column for column in BYTE_COLUMNS if column in train)]], 12
    )


def _rows_of_participants(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of participants; both models have the same bytes."""
    return rows[(rows["split"] == "train") & (rows["model"] == "local")]
