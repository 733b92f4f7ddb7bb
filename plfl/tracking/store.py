"""From the tables of a results folder to its MLflow database, again and again with one outcome.

Artifacts are addressed as `mlflow-artifacts:/<run>/…`, a path below whatever folder the server is
started on, and written straight into that folder. So a results folder can be moved or copied, and
`mlflow server`, called inside it without any option, finds both the database and the artifacts
under their default names.
"""

import json
import logging
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path

from filelock import FileLock
from tqdm import tqdm

from plfl import __version__
from plfl.errors import ResultsError
from plfl.files import atomic
from plfl.study import digest
from plfl.tracking.content import Run, Tables, runs
from plfl.tracking.views import HIDDEN_RUN, OWN, TAG, presets

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")

import mlflow
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from mlflow.entities import (
    Dataset,
    DatasetInput,
    Experiment,
    InputTag,
    Metric,
    Param,
    ViewType,
)
from mlflow.entities import Run as LoggedRun
from mlflow.tracking import MlflowClient

DATABASE = "mlflow.db"
ARTIFACTS = "mlartifacts"
PER_CLIENT = "per_client.json"
MOST_METRICS = 1000
"""How many metrics MLflow takes in one call."""

_STUDY, _CELL, _HASH, _CONTENT = "plfl.study", "plfl.name", "plfl.cell", "plfl.content"
_DONE = ("FINISHED", "FAILED")


def track(results: Path, figures: Path | None = None, *, progress: bool = True) -> Path:
    """Log the tables in `results`, and the pictures in `figures`, and return the database's path.

    Each cell becomes one run of the study's experiment; a further run, `overview`, holds the
    figures and tables of the whole study, which belong to no single cell. Whatever is there is
    logged, a study need not be finished. Calling it again brings the experiment up to date: cells
    that are the same are left alone, changed ones and ones whose logging was interrupted are logged
    anew, and runs of cells that left the study are deleted. Runs of other origin are not touched.

    Raises:
        ResultsError: a table is missing, or `mlflow.db` is not a database of this MLflow.
    """
    tables = Tables.read(results)
    with FileLock(results / ".mlflow.lock"):
        client = _open(results)
        experiment = _experiment(client, tables)
        logged = _logged(client, experiment)
        wanted = list(runs(tables))
        names = {str(run.cell) for run in wanted}
        for name in logged.keys() - names - {HIDDEN_RUN}:
            _delete(client, logged[name])
        # None: tqdm stays silent unless a person watches.
        silent = None if progress else True
        for run in tqdm(wanted, desc="mlflow", unit="run", disable=silent, leave=False):
            log = _RunLog(client, experiment, results, str(run.cell), run.name, run.fingerprint)
            if log.is_new(logged):
                _log_cell(log, run, tables)
        overview = _log_overview(client, experiment, results, figures, tables, logged)
        _decorate(client, experiment, tables, wanted, overview)
    return results / DATABASE


def check(results: Path) -> Path:
    """The path of the database in `results`, which is known to be one of this MLflow's.

    Raises:
        ResultsError: it is missing, is no MLflow database, or is one of another schema version.
    """
    database = results / DATABASE
    remedy = "remove it and log the study again; nothing is lost, it is made from the tables"
    if not database.exists():
        raise ResultsError(f"{database}: is missing; log the study first")
    try:
        with closing(sqlite3.connect(f"{database.resolve().as_uri()}?mode=rw", uri=True)) as link:
            revisions = [row[0] for row in link.execute("SELECT version_num FROM alembic_version")]
    except sqlite3.Error as error:
        raise ResultsError(f"{database}: is not an MLflow database ({error}); {remedy}") from None
    schemas = ScriptDirectory(str(Path(mlflow.__file__).parent / "store" / "db_migrations"))
    if revisions == schemas.get_heads():
        return database
    try:
        known = schemas.get_revisions(revisions)
    except CommandError:
        known = None
    if known is not None and not known:
        raise ResultsError(f"{database}: is not a complete MLflow database; {remedy}")
    raise ResultsError(
        f"{database}: was written by {'a newer' if known is None else 'an older'} MLflow than "
        f"{mlflow.__version__}, which is installed; install the one that wrote it, or {remedy}"
    )


def connect(database: Path) -> MlflowClient:
    """A client of the database file, without any server."""
    return MlflowClient(tracking_uri=f"sqlite:///{database.resolve()}")


def find_experiment(client: MlflowClient) -> Experiment | None:
    """The study's experiment, deleted or not."""
    found = client.search_experiments(
        view_type=ViewType.ALL, filter_string=f"tags.`{_STUDY}` != ''", max_results=1
    )
    return found[0] if found else None


def _open(results: Path) -> MlflowClient:
    """Open the database, made first if there is none: no one ever sees a half-made one."""
    database = results / DATABASE
    if not database.exists():
        with atomic(database) as temporary, _quiet():
            client = connect(temporary)
            # MLflow makes an empty experiment of its own, which would only puzzle the visitor.
            client.delete_experiment("0")
    check(results)
    return connect(database)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the forty lines in which MLflow tells of its migrations."""
    logging.disable(logging.INFO)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def _experiment(client: MlflowClient, tables: Tables) -> str:
    study = tables.study["study"]["name"]
    experiment = find_experiment(client)
    if experiment is None:
        return str(
            client.create_experiment(
                tables.title, artifact_location="mlflow-artifacts:/", tags={_STUDY: study}
            )
        )
    if experiment.lifecycle_stage == "deleted":
        client.restore_experiment(experiment.experiment_id)
    if experiment.name != tables.title:
        client.rename_experiment(experiment.experiment_id, tables.title)
    return str(experiment.experiment_id)


def _logged(client: MlflowClient, experiment: str) -> dict[str, list[LoggedRun]]:
    """Our own runs by cell; there is more than one only if something was interrupted."""
    found: dict[str, list[LoggedRun]] = {}
    token = None
    while True:
        page = client.search_runs([experiment], max_results=1000, page_token=token)
        for run in page:
            if _CELL in run.data.tags:
                found.setdefault(run.data.tags[_CELL], []).append(run)
        token = page.token
        if not token:
            return found


def _delete(client: MlflowClient, found: list[LoggedRun]) -> None:
    for run in found:
        client.delete_run(run.info.run_id)


class _RunLog:
    """One run being logged; until `close` it counts as interrupted."""

    def __init__(
        self,
        client: MlflowClient,
        experiment: str,
        results: Path,
        cell: str,
        name: str,
        fingerprint: str,
    ):
        self.client = client
        self._experiment = experiment
        self._artifacts = results / ARTIFACTS
        self._cell = cell
        self._name = name
        self._fingerprint = fingerprint
        self.id = ""

    def is_new(self, logged: dict[str, list[LoggedRun]]) -> bool:
        """Whether the run has to be logged; whatever there was of it is deleted then."""
        found = logged.get(self._cell, [])
        same = [
            run
            for run in found
            if run.info.status in _DONE and run.data.tags.get(_CONTENT) == self._fingerprint
        ]
        _delete(self.client, [run for run in found if run not in same[:1]])
        self.id = same[0].info.run_id if same else ""
        return not same

    def open(self, tags: dict[str, str]) -> Path:
        """Create the run and return the folder of its artifacts."""
        own = {_CELL: self._cell, _CONTENT: self._fingerprint}
        run = self.client.create_run(self._experiment, tags=own | tags, run_name=self._name)
        self.id = run.info.run_id
        folder = self._artifacts / self.id / "artifacts"
        folder.mkdir(parents=True)
        return folder

    def close(self, status: str) -> None:
        self.client.set_terminated(self.id, status, end_time=int(time.time() * 1000))


def _common_tags(tables: Tables, note: str) -> dict[str, str]:
    tags = {
        "plfl.data": "sample data" if tables.source == "sample" else tables.source,
        "plfl.version": tables.study["version"],
        "plfl.config": digest(tables.study["study"]),
        "mlflow.source.name": "plfl",
        "mlflow.note.content": note,
    }
    if commit := tables.study.get("git"):
        tags |= {"plfl.git": commit, "mlflow.source.git.commit": commit}
    return tags


def _log_cell(log: _RunLog, run: Run, tables: Tables) -> None:
    tags = _common_tags(tables, run.note) | {
        _HASH: run.hash,
        "diverged": str(run.diverged_round is not None).lower(),
        "mlflow.loggedArtifacts": json.dumps([{"path": PER_CLIENT, "type": "table"}]),
    }
    if run.diverged_round is not None:
        tags["diverged_round"] = str(run.diverged_round)
    folder = log.open(tags)
    log.client.log_batch(log.id, params=[Param(key, value) for key, value in run.params.items()])
    # The time of a point is its round, in seconds: the same point logged twice is one point.
    metrics = [Metric(key, value, 1000 * step, step) for key, step, value in run.points]
    for start in range(0, len(metrics), MOST_METRICS):
        log.client.log_batch(log.id, metrics=metrics[start : start + MOST_METRICS])
    # What MlflowClient.log_table writes; that would need a running server for our artifact paths.
    run.clients.to_json(folder / PER_CLIENT, orient="split", index=False)
    log.client.log_inputs(log.id, [_dataset(run, tables)])
    log.close("FINISHED" if run.diverged_round is None else "FAILED")


def _dataset(run: Run, tables: Tables) -> DatasetInput:
    study = tables.study["study"]
    source = tables.source
    details = {key: study["data"][key] for key in (source, "features")}
    columns = [{"type": "double", "name": name} for name in study["data"]["features"]]
    dataset = Dataset(
        name=f"{'sample data' if source == 'sample' else source} {run.cell.state}",
        digest=digest(study["data"], study["windows"], run.cell.state)[:8],
        source_type=source,
        source=json.dumps(details),
        schema=json.dumps({"mlflow_colspec": columns}),
        profile=json.dumps({"clients": len(run.clients)}),
    )
    return DatasetInput(dataset, [InputTag("mlflow.data.context", "train, validation, test")])


def _log_overview(
    client: MlflowClient,
    experiment: str,
    results: Path,
    figures: Path | None,
    tables: Tables,
    logged: dict[str, list[LoggedRun]],
) -> str:
    """Log figures and tables of the whole study; returns the id of their run."""
    files = [results / "summary.csv", results / "study.json"]
    if figures is not None and figures.is_dir():
        # MLflow shows no PDF as quickly as a PNG; one of each figure is enough to look at.
        files += sorted(figures.glob("*.png"))
    content = digest(*[[file.name, sha256(file.read_bytes()).hexdigest()] for file in files])
    log = _RunLog(client, experiment, results, HIDDEN_RUN, HIDDEN_RUN, content)
    if log.is_new(logged):
        note = f"{tables.title}: figures and tables of the whole study, under Artifacts."
        folder = log.open(_common_tags(tables, note))
        for file in files:
            shutil.copyfile(file, folder / file.name)
        log.close("FINISHED")
    return log.id


def _decorate(
    client: MlflowClient, experiment: str, tables: Tables, wanted: list[Run], overview: str
) -> None:
    """Write the views and, as the one line of the note that MLflow shows, the links to them."""
    seeds = len(tables.study["study"]["grid"]["seeds"])
    views = list(presets([(run.cell.state, run.cell.personalization) for run in wanted], seeds))
    links = [f"[{view.name}]({view.path(experiment)})" for view in views]
    figures = f"/#/experiments/{experiment}/runs/{overview}/artifacts"
    links.insert(1, f"[Figures and tables]({figures})")
    sample = "**sample data**, generated buildings · " if tables.source == "sample" else ""
    tags = dict(view.tag() for view in views) | {
        _STUDY: tables.study["study"]["name"],
        "plfl.data": "sample data" if tables.source == "sample" else tables.source,
        "plfl.version": __version__,
        "mlflow.note.content": sample + " · ".join(links),
    }
    present = client.get_experiment(experiment).tags
    for key in present:
        if key.startswith(TAG + OWN) and key not in tags:
            client.delete_experiment_tag(experiment, key)
    for key, value in tags.items():
        if present.get(key) != value:
            client.set_experiment_tag(experiment, key, value)
