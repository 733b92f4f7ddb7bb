"""A project of a user: own meters, small models, the Snakemake workflow."""

import json
import multiprocessing
import os
import re
import runpy
import sys
import traceback
from collections.abc import Sequence
from functools import cache, partial
from multiprocessing.connection import Client, Listener
from pathlib import Path
from subprocess import CalledProcessError
from typing import Any, Protocol

import numpy as np
import pandas as pd
import yaml

from plfl.pipeline.fingerprint import code_digest
from tests.helpers.forks import Fork
from tests.helpers.repository import ROOT


def write_meters(folder: Path, names: str = "abc", days: int = 14) -> None:
    """Write a CSV file of a quarter-hourly load for each letter of `names`."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(1)
    stamps = pd.date_range("2024-01-01 00:15", periods=96 * days, freq="15min", name="timestamp")
    for name in names:
        load = (
            2 + np.sin(np.arange(len(stamps)) / 96 * 2 * np.pi) + 0.2 * random.random(len(stamps))
        )
        pd.DataFrame({"load": load.round(4)}, stamps).to_csv(folder / f"{name}.csv")


CELL = "all-P2-fedopt-adam-fedavg-10"
"""A cell of the study that `write_project` writes."""


def write_project(folder: Path) -> None:
    """Write three meters and the study `my.yaml`, which trains them in a blink."""
    write_meters(folder / "meters")
    config = {
        "name": "own",
        "data": {"source": "meters", "states": ["all"], "clients": 3},
        "model": {"hidden": 3, "mlp": [4]},
        "grid": {"client_opt": ["adam"], "server_opt": ["fedavg", "fedyogi"]},
        "federation": {"rounds": 2, "local_steps": 3, "batch_size": 8},
    }
    (folder / "my.yaml").write_text(yaml.safe_dump(config))


OWN_DATA = {"source": "meters", "states": ["all"], "clients": 3, "features": ["load"]}
"""The block `data` of the study that `WriteStudy` writes."""


class WriteStudy(Protocol):
    """Writes the study `own.yaml` of three meters into the current folder; returns its path."""

    def __call__(self, days: int = 21, **blocks: Any) -> Path:
        """`days`: of readings, from 1 January 2024; `blocks` replace those of the study."""


def write_own_study(days: int = 21, **blocks: Any) -> Path:
    """See `WriteStudy`."""
    write_meters(Path("meters"), days=days)
    config: dict[str, Any] = {
        "name": "own",
        "data": OWN_DATA,
        "model": {"name": "mlp"},
        "grid": {"client_opt": ["adam"], "server_opt": ["fedavg"], "sharing": ["P1", "P3"]},
        "federation": {"rounds": 2, "local_steps": 3},
        "baselines": {"trees": 3},
    }
    Path("own.yaml").write_text(json.dumps(config | blocks), encoding="utf-8")
    return Path("own.yaml")


@cache
def prepare_forks() -> None:
    """Import what every Snakemake and its jobs import, and read the code that its rules name, so
    that no fork has to; both take longer than what most of them do."""
    import nbformat  # noqa: F401 (of the extra `study`, like those below)
    import smart_open  # noqa: F401
    import snakemake.cli  # noqa: F401

    import plfl.experiments.baseline_jobs
    import plfl.pipeline.job_parameters
    import plfl.pipeline.models
    import plfl.pipeline.screen
    import plfl.pipeline.startup
    import plfl.pipeline.training
    import plfl.pipeline.training_jobs
    import plfl.results.comparisons  # noqa: F401

    shell: Any = sys.modules["snakemake.shell"]
    shell.STDOUT = None  # that of the fork, in place of pytest's
    code_digest("plfl.cli.main", "plfl.pipeline.training", "plfl.report.page")


def run_snakemake(folder: Path, *arguments: str, **environment: str) -> tuple[int, str]:
    """The exit status of Snakemake in a folder and what it says.

    It and its jobs run in forks of this process, which has imported most that they need. (As the
    processes that they are elsewhere they run in `tests/faults/test_kill.py`.)
    """
    prepare_forks()
    log = folder / "said.txt"
    log.unlink(missing_ok=True)
    main = partial(_main_of_snakemake, arguments)
    return Fork(main, folder, log, environment=environment).wait(), log.read_text()


def _main_of_snakemake(arguments: Sequence[str]) -> None:
    from snakemake.benchmark import benchmarked
    from snakemake.cli import main
    from snakemake.script import PythonScript

    with Listener(family="AF_UNIX") as listener:
        # Not of Snakemake itself: it has threads.
        fork = multiprocessing.get_context("fork")
        fork.Process(target=_run_scripts, args=(listener,), daemon=True).start()

        def execute(script: PythonScript, name: str, edit: bool = False) -> None:
            measuring = benchmarked(None, script.bench_record)
            with measuring, Client(listener.address) as connection:
                connection.send(name)
                if status := connection.recv():
                    raise CalledProcessError(status, name)

        PythonScript.execute_script = execute
        main([*arguments])


def _run_scripts(listener: Listener) -> None:
    """Run each script that is asked for in a fork, and answer with its exit status."""
    while True:
        with listener.accept() as connection:
            if os.fork():
                continue
            status = 1
            try:
                runpy.run_path(connection.recv(), run_name="__main__")
                status = 0
            except SystemExit as ended:
                status = int(ended.code or 0)
            except BaseException:
                traceback.print_exc()
            finally:
                connection.send(status)
                sys.stdout.flush()
                os._exit(0)


class Project:
    """A working directory with meters and a configuration."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.results = folder / "results" / "own"
        self.config: dict[str, Any] = {
            "name": "own",
            "data": {"source": "meters", "states": ["North"], "clients": 3},
            "model": {"hidden": 3, "mlp": [4]},
            "grid": {"client_opt": ["adam"], "server_opt": ["fedavg", "fedyogi"]},
            "federation": {"rounds": 2, "local_steps": 3, "evaluate_every": 1},
            "compute": {"stack": "sharing"},
            "baselines": {"trees": 20},
        }
        for state in ("North", "South"):
            write_meters(folder / "meters" / state)

    def snakemake(self, *arguments: str) -> tuple[int, str]:
        """The exit status of Snakemake and what it says."""
        (self.folder / "my.yaml").write_text(yaml.safe_dump(self.config))
        command = ["--snakefile", str(ROOT / "Snakefile"), "--cores", "2", "--nocolor", *arguments]
        command += [] if "--configfile" in arguments else ["--configfile", "my.yaml"]
        return run_snakemake(self.folder, *command)

    def make(self, *arguments: str) -> None:
        """Have Snakemake make what is asked for."""
        status, log = self.snakemake(*arguments)
        assert status == 0, log

    def jobs(self) -> dict[str, int]:
        """The jobs that would run now, by rule."""
        status, log = self.snakemake("--dry-run")
        assert status == 0, log
        stats = re.findall(r"^([a-z_0-9]+) +(\d+)$", log, re.MULTILINE)
        return {rule: int(count) for rule, count in stats if rule not in ("total", "all")}
