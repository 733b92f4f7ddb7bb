"""`plfl study` and `plfl run`: run the workflow on a study with Snakemake, or train one cell."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from plfl.base.errors import PlflError
from plfl.base.extras import require
from plfl.base.files import hold
from plfl.cli.annotations import CellResult
from plfl.cli.common import Commands, add_parser, progress_bar
from plfl.data import sources
from plfl.data.dataset import Dataset
from plfl.pipeline import shipped
from plfl.report import reporting
from plfl.study import Cell, Study

EXAMPLES = """
plfl study demo.yaml
plfl study demo.yaml --dry-run   # all that follows the file is for Snakemake
plfl study demo.yaml --cores 4 --forcerun page
"""

CELL = """
plfl run config/demo.yaml NY-P2-fine_tuning-adam-fedavg-1
plfl run config/demo.yaml NY-P2-fine_tuning-adam-fedavg-1 --records records.parquet
plfl run config/demo.yaml NY-P2-fine_tuning-adam-fedavg-1 --models mine.safetensors
"""


def add(commands: Commands) -> None:
    """Add `study` and `run` to the commands of `plfl`."""
    about = "run a study in this folder, from data to report"
    parser = add_parser(commands, "study", about, EXAMPLES, run)
    parser.add_argument("config", type=Path, help="configuration of the study")
    text = "targets and options of Snakemake; see `snakemake --help`"
    parser.add_argument("snakemake", nargs=argparse.REMAINDER, help=text).required = False
    parser = add_parser(commands, "run", "train one cell and print its scores", CELL, train_cell)
    parser.add_argument("config", type=Path, help="configuration of the study")
    parser.add_argument("cell", help="name of a cell, as `plfl cells --list` prints it")
    text = "also write the records to this Parquet file"
    parser.add_argument("--records", type=Path, metavar="FILE", help=text)
    text = "also write the models, for `plfl forecast`"
    parser.add_argument("--models", type=Path, metavar="FILE", help=text)


def run(options: argparse.Namespace) -> None:
    """Replace this process by Snakemake, so that signals and the exit status are Snakemake's."""
    require("study", "plfl study")
    from plfl.results.statistics import undecidable

    snakemake_options = options.snakemake
    snakemake_options = (
        snakemake_options[1:] if snakemake_options[:1] == ["--"] else snakemake_options
    )
    # All errors of the user are reported before Snakemake starts.
    study = Study.load(options.config)
    elsewhere = any(option.startswith(("-d", "--directory")) for option in snakemake_options)
    if not (elsewhere or os.access(Path.cwd(), os.W_OK)):
        raise PlflError(
            f"{Path.cwd()}: cannot be written, but the results go there; change to a folder of "
            "your own"
        )
    with_data = {
        study.plan.inputs[label]: variant.data for label, variant in study.variants.items()
    }
    for data in with_data.values() if not elsewhere else ():
        for state in data.states:
            sources.source_of(data).own_files(data, state)
    if not (elsewhere or {"-n", "--dry-run", "--dryrun"} & set(snakemake_options)):
        busy = "another process is running this study; wait until it has finished, or stop it"
        hold(study.paths.results / ".lock", busy=busy).release()
    if note := undecidable(study):
        print(f"{study.name}: {note}", file=sys.stderr)
    # -P: a file in the current folder must not replace a module that Snakemake imports.
    # While Snakemake itself is imported, Ctrl-C would end in a traceback.
    start = "from plfl.base.interrupts import exit_on_ctrl_c; exit_on_ctrl_c()\n"
    start += "from plfl.pipeline.screen import main; main()"
    command = [sys.executable, "-P", "-c", start, "--configfile", str(options.config)]
    # Not after --configfile, which takes several files: a target would count as another file.
    command += ["--snakefile", str(shipped.snakefile()), *snakemake_options]
    sys.stdout.flush()
    os.execve(sys.executable, command, os.environ | _writable_cache())


def _writable_cache() -> dict[str, str]:
    """A variable that keeps Snakemake's cache in the current folder if that of the user, where it
    would be by default, cannot be written."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    try:
        cache.mkdir(parents=True, exist_ok=True)
        if os.access(cache, os.W_OK):
            return {}
    except OSError:
        pass
    return {"XDG_CACHE_HOME": str(Path(".snakemake/cache").resolve())}


def train_cell(options: argparse.Namespace) -> None:
    """Train a cell, with all its seeds if it is tuned, and print its test scores."""
    study, cell = Study.load(options.config).find(options.cell)
    if options.models and not study.task.forecasts:
        raise PlflError(
            f"--models: the task {study.task.name} does not forecast loads; leave it out"
        )
    from plfl.experiments.train import train
    from plfl.results.records import write_table

    dataset = sources.source_of(study.data).examples_of(study, cell.state)
    cells, total = study.plan.with_all_seeds([cell]), study.federation.rounds
    with progress_bar(str(cell)) as advance:
        result = train(study, cells, dataset, lambda t: advance("", t, total))[cell]
    if options.records:
        write_table(result.records, options.records)
    if options.models:
        assert isinstance(dataset, Dataset)
        _write_models(options.models, study, cell, result, dataset)
    print(reporting.reporting_of(study).sentence(study, cell, result.records))


def _write_models(
    path: Path, study: Study, cell: Cell, result: CellResult, dataset: Dataset
) -> None:
    from plfl.experiments.trainer import Trainer
    from plfl.forecast.contents import describe
    from plfl.results.records import write_models

    models = result.models
    if models is None:
        raise PlflError(f"{cell}: has diverged, so it has no models")
    widths = Trainer.for_study(study, dataset).evaluator.widths(models)
    write_models(path, models, describe(study, cell, dataset, widths))
