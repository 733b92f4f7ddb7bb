"""Write the tables of a results folder to its MLflow database; repeating it changes nothing.

Artifacts have the address `mlflow-artifacts:/<run>/…`, relative to the folder that the server is
started on, and are written directly into that folder. So a results folder can be moved or copied,
and `mlflow server`, started inside it without options, finds the database and the artifacts under
their default names.
"""

import errno
import json
import logging
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock
from tqdm import tqdm

from plfl import __version__
from plfl.base.errors import ResultsError
from plfl.base.files import atomic, digest, sha256
from plfl.publish.tracking.content import Run, engine, runs, title
from plfl.publish.tracking.duration import Span
from plfl.publish.tracking.views import OVERVIEW, OWN, TAG, WORKFLOW, presets
from plfl.results.overview import is_overview
from plfl.results.records import read_about
from plfl.results.tables import Tables

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
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient
from sqlalchemy import event
from sqlalchemy.engine import Engine
from sqlalchemy.exc import SQLAlchemyError

DATABASE = "mlflow.db"
ARTIFACTS = "mlartifacts"
PER_CLIENT = "per_client.json"
MOST_METRICS = 1000
"""Number of metrics that MLflow accepts in one call."""
MOST_NOTE = 20_000
"""Number of characters that MLflow accepts in a tag of an experiment, such as its note."""
PATIENCE = 20.0
"""Seconds to wait for a database that another process has locked, as MLflow itself does."""

_REBUILD = "remove it and log the study again (plfl track); the tables contain everything"
_STUDY = "plfl.study"
_SUBJECT = "plfl.name"
"""The tag with the cell or baseline of a run. A hash would not identify it: cells that share a
training share a hash."""
_HASH = "plfl.cell"
_CONTENT = "plfl.content"
_DONE = ("FINISHED", "FAILED")


def track(results: Path, figures: Path | None = None, *, progress: bool = True) -> Path:
    """Log the tables in `results` and the figures in `figures`; return the path of the database.

    If the study has further axes, every variant is an experiment of its own in one database.
    """
    if not is_overview(results):
        return track_one(results, figures, results, progress=progress)
    for label in read_about(results)["variants"]:
        pictures = None if figures is None else figures / label
        track_one(results / label, pictures, results, progress=progress)
    return results / DATABASE


def track_one(results: Path, figures: Path | None, home: Path, *, progress: bool = True) -> Path:
    """Log a study without further axes into the database in the folder `home`; return its path.

    Each cell and each baseline is one run of the study's experiment. The run `overview` has the
    figures and tables of the whole study. The study need not be finished: all existing results are
    logged. Calling this again updates the experiment: unchanged cells are kept, changed ones and
    those whose logging was interrupted are logged again, and runs of cells that are no longer in
    the study are deleted. Runs of other programs are not touched.

    Raises:
        ResultsError: a table is missing, `mlflow.db` is not a database of this MLflow or damaged,
            another process has locked it, or the folder cannot be written.
    """
    tables = Tables(results)
    wanted = list(runs(tables))
    with _unlocked(home / DATABASE), FileLock(home / ".mlflow.lock"):
        client = _open(home)
        experiment = _experiment(client, tables)
        log = _Log(client, experiment, home / ARTIFACTS, _logged(client, experiment))
        log.forget_all_but({OVERVIEW, *(run.subject for run in wanted)})
        # None: tqdm shows its bar only on a terminal.
        silent = None if progress else True
        for run in tqdm(wanted, desc="mlflow", unit="run", disable=silent, leave=False):
            _log_run(log, run, tables)
        figures_link = _log_overview(log, figures, tables)
        _decorate(client, experiment, tables, wanted, figures_link)
    return home / DATABASE


def check(results: Path) -> Path:
    """Check that the database in `results` fits the installed MLflow; return its path.

    Raises:
        ResultsError: the database is missing, is not an MLflow database, has another schema
            version, or is locked by another process.
    """
    database = results / DATABASE
    if not database.exists():
        raise ResultsError(f"{database}: is missing; log the study first (plfl track)")
    try:
        uri = f"{database.resolve().as_uri()}?mode=rw"
        with closing(sqlite3.connect(uri, uri=True, timeout=PATIENCE)) as link:
            revisions = [row[0] for row in link.execute("SELECT version_num FROM alembic_version")]
    except sqlite3.Error as error:
        if _is_busy(error):
            raise _locked(database) from None
        raise ResultsError(f"{database}: is not an MLflow database ({error}); {_REBUILD}") from None
    schemas = ScriptDirectory(str(Path(mlflow.__file__).parent / "store" / "db_migrations"))
    if revisions == schemas.get_heads():
        return database
    try:
        known = schemas.get_revisions(revisions)
    except CommandError:
        known = None
    if known is not None and not known:
        raise ResultsError(f"{database}: is not a complete MLflow database; {_REBUILD}")
    raise ResultsError(
        f"{database}: was written by {'a newer' if known is None else 'an older'} MLflow than "
        f"{mlflow.__version__}, which is installed; install the one that wrote it, or {_REBUILD}"
    )


@event.listens_for(Engine, "connect")
def _without_waiting(connection: object, record: object) -> None:
    """Do not wait for the disk after each of the hundreds of commits of a study.

    A database that is damaged by a power cut can be made again from the tables.
    """
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous = OFF")


def connect(database: Path) -> MlflowClient:
    """A client of the database file, without a server."""
    return MlflowClient(tracking_uri=f"sqlite:///{database.resolve()}")


def find_experiment(client: MlflowClient, variant: str | None = None) -> Experiment | None:
    """The experiment of the study, even if it is deleted; None if there is none.

    With the name of a `variant`, the experiment of this variant.
    """
    named = f"tags.`{_STUDY}` = '{variant}'" if variant else f"tags.`{_STUDY}` != ''"
    found = client.search_experiments(view_type=ViewType.ALL, filter_string=named, max_results=1)
    return found[0] if found else None


def _open(results: Path) -> MlflowClient:
    """Open the database. A new one is created under a temporary name, so it is always complete."""
    database = results / DATABASE
    if not database.exists():
        with atomic(database) as temporary, _quiet():
            client = connect(temporary)
            # MLflow creates an empty default experiment, which would only confuse readers.
            client.delete_experiment("0")
    if not os.access(database, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(database))
    check(results)
    # If the database is locked, MLflow would print a traceback for every call.
    with closing(sqlite3.connect(database, timeout=PATIENCE)) as link:
        link.execute("BEGIN IMMEDIATE")
    return connect(database)


@contextmanager
def _unlocked(database: Path) -> Iterator[None]:
    """Raise ResultsError if the database is locked by another process or damaged, or if it cannot
    be written."""
    try:
        yield
    except PermissionError as error:
        raise ResultsError(
            f"{error.filename or database}: cannot be written ({error.strerror}); check its "
            "permissions"
        ) from None
    except (sqlite3.Error, SQLAlchemyError, MlflowException) as error:
        if "database or disk is full" in str(error):
            raise ResultsError(
                f"{database}: the disk is full; free some space, then run again"
            ) from None
        if "malformed" in str(error):
            cause = str(error).splitlines()[0]  # MLflow's query follows
            raise ResultsError(f"{database}: is damaged ({cause}); {_REBUILD}") from None
        if not _is_busy(error) and "database is locked" not in str(error):
            raise
        raise _locked(database) from None


def _is_busy(error: Exception) -> bool:
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY


def _locked(database: Path) -> ResultsError:
    return ResultsError(
        f"{database}: is locked by another process; wait until it ends, or end it, then run again; "
        "runs that are already logged are kept"
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the forty lines that MLflow logs about its migrations."""
    logging.disable(logging.INFO)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def _experiment(client: MlflowClient, tables: Tables) -> str:
    name = tables.study.name
    experiment = find_experiment(client, name if "/" in name else None)
    if experiment is None:
        return str(
            client.create_experiment(
                title(tables),
                artifact_location="mlflow-artifacts:/",
                tags={_STUDY: name},
            )
        )
    if experiment.lifecycle_stage == "deleted":
        client.restore_experiment(experiment.experiment_id)
    if experiment.name != title(tables):
        client.rename_experiment(experiment.experiment_id, title(tables))
    return str(experiment.experiment_id)


def _logged(client: MlflowClient, experiment: str) -> dict[str, list[LoggedRun]]:
    """The study's runs by subject; several for one subject only after an interruption."""
    found: dict[str, list[LoggedRun]] = {}
    token = None
    while True:
        page = client.search_runs([experiment], max_results=1000, page_token=token)
        for run in page:
            if _SUBJECT in run.data.tags:
                found.setdefault(run.data.tags[_SUBJECT], []).append(run)
        token = page.token
        if not token:
            return found


@dataclass(frozen=True)
class _Log:
    """The study's existing experiment, with functions that add runs to it."""

    client: MlflowClient
    experiment: str
    artifacts: Path
    found: dict[str, list[LoggedRun]]

    def forget_all_but(self, subjects: set[str]) -> None:
        """Delete the runs of all other subjects."""
        for subject in self.found.keys() - subjects:
            self._delete(self.found[subject])

    def up_to_date(self, subject: str, content: str) -> str | None:
        """Id of the finished run with this content; all other runs of the subject are deleted."""
        found = self.found.get(subject, [])
        same = [
            run
            for run in found
            if run.info.status in _DONE and run.data.tags.get(_CONTENT) == content
        ]
        self._delete([run for run in found if run not in same[:1]])
        return str(same[0].info.run_id) if same else None

    def start(
        self, subject: str, content: str, name: str, tags: dict[str, str], begun: int
    ) -> tuple[str, Path]:
        """Create a run, unfinished until `finish`; return its id and its folder of artifacts.

        `begun` is the start of its training, in milliseconds since 1970.
        """
        tags = {_SUBJECT: subject, _CONTENT: content} | tags
        run = self.client.create_run(self.experiment, begun, tags=tags, run_name=name)
        folder = self.artifacts / run.info.run_id / "artifacts"
        folder.mkdir(parents=True)
        return run.info.run_id, folder

    def finish(self, run: str, ended: int, status: str = "FINISHED") -> None:
        self.client.set_terminated(run, status, end_time=ended)

    def _delete(self, runs: list[LoggedRun]) -> None:
        for run in runs:
            self.client.delete_run(run.info.run_id)
            shutil.rmtree(self.artifacts / run.info.run_id, ignore_errors=True)


def _tags(tables: Tables, note: str) -> dict[str, str]:
    tags = {
        "engine": engine(tables),
        "plfl.data": tables.study.data.origin,
        "plfl.version": tables.about["version"],
        "mlflow.source.name": "plfl",
        "mlflow.note.content": note,
    }
    if commit := tables.about.get("git"):
        tags |= {"plfl.git": commit, "mlflow.source.git.commit": commit}
    return tags


def _log_run(log: _Log, run: Run, tables: Tables) -> None:
    subject, content = run.subject, run.fingerprint
    if log.up_to_date(subject, content):
        return
    tags = _tags(tables, run.note) | {
        "mlflow.loggedArtifacts": json.dumps([{"path": PER_CLIENT, "type": "table"}]),
    }
    if run.hash is not None:
        tags[_HASH] = run.hash
    if run.diverged_round is not None:
        tags["diverged_round"] = str(run.diverged_round)
    span = run.trained or _now()
    id, folder = log.start(subject, content, run.name, tags, span.start)
    params = [Param(key, value) for key, value in run.params.items()]
    # The time of a point is its round in seconds, so that logging it twice gives one point.
    metrics = [Metric(key, value, 1000 * step, step) for key, step, value in run.points]
    log.client.log_batch(id, params=params, metrics=metrics[: MOST_METRICS - len(params)])
    for start in range(MOST_METRICS - len(params), len(metrics), MOST_METRICS):
        log.client.log_batch(id, metrics=metrics[start : start + MOST_METRICS])
    # In the form of MlflowClient.log_table, which would need a running server for these addresses.
    run.clients.to_json(folder / PER_CLIENT, orient="split", index=False)
    log.client.log_inputs(id, [_dataset(run, tables)])
    log.finish(id, span.end, "FINISHED" if run.diverged_round is None else "FAILED")


def _now() -> Span:
    """Start and end at the same moment: the duration of the training is unknown."""
    now = int(time.time() * 1000)
    return Span(now, now)


def _dataset(run: Run, tables: Tables) -> DatasetInput:
    data, windows = tables.study.data, tables.study.windows
    settings = [part.model_dump(mode="json", exclude={"folder"}) for part in (data, windows)]
    columns = [{"type": "double", "name": name} for name in data.features]
    dataset = Dataset(
        name=f"{data.origin} {run.state}",
        digest=digest(settings, run.state)[:8],
        source_type=data.source,
        source=getattr(data, data.source).model_dump_json(),
        schema=json.dumps({"mlflow_colspec": columns}),
        profile=json.dumps({"clients": len(run.clients)}),
    )
    return DatasetInput(dataset, [InputTag("mlflow.data.context", "train, validation, test")])


def _log_overview(log: _Log, figures: Path | None, tables: Tables) -> str:
    """Log the figures and tables of the whole study; return the link to the first of them."""
    # Only PNGs: MLflow shows them faster than PDFs.
    pictures = sorted(figures.glob("*.png")) if figures is not None else []
    files = [*pictures, tables.folder / "summary.csv", tables.folder / "study.json"]
    content = digest([[file.name, sha256(file)] for file in files])
    run = log.up_to_date(OVERVIEW, content)
    if run is None:
        note = f"{title(tables)}: figures and tables of the whole study, under Artifacts."
        now = _now()
        run, folder = log.start(OVERVIEW, content, OVERVIEW, _tags(tables, note), now.start)
        for file in files:
            shutil.copyfile(file, folder / file.name)
        log.finish(run, now.end)
    return f"/#/experiments/{log.experiment}/runs/{run}/artifacts/{files[0].name}?{WORKFLOW}"


def _decorate(
    client: MlflowClient, experiment: str, tables: Tables, wanted: list[Run], figures_link: str
) -> None:
    """Write the views, and a note with links to them in one line, because MLflow shows only one."""
    places = [(run.state, run.scheme) for run in wanted]
    grid = tables.study.grid
    views = list(presets(places, len(grid.seeds), len(grid.method)))
    links = [f"[{view.name}]({view.path(experiment)})" for view in views]
    links.insert(1, f"[Figures and tables]({figures_link})")
    tags = dict(view.tag() for view in views) | {
        _STUDY: tables.study.name,
        "plfl.data": tables.study.data.origin,
        "plfl.version": __version__,
        "mlflow.note.content": _in_one_line(links),
    }
    present = client.get_experiment(experiment).tags
    for key in present:
        if key.startswith(TAG + OWN) and key not in tags:
            client.delete_experiment_tag(experiment, key)
    for key, value in tags.items():
        if present.get(key) != value:
            client.set_experiment_tag(experiment, key, value)


def _in_one_line(links: list[str]) -> str:
    """The links in one line, or as many of the first as fit into a note."""
    line = " · ".join(links)
    while len(line) > MOST_NOTE:
        links = links[:-1]
        line = " · ".join([*links, "more in the Views menu"])
    return line
