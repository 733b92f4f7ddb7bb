"""`plfl run`: trains one cell."""

import argparse
from pathlib import Path

from plfl.base.errors import PlflError, Problem
from plfl.cli.common import Commands, add_parser, progress_bar
from plfl.data import sources
from plfl.data.dataset import Dataset
from plfl.experiments.train import train
from plfl.experiments.training_setup import TrainingSetup
from plfl.forecast.contents import describe
from plfl.report import reporting
from plfl.results.records import CellResult, write_models, write_table
from plfl.study import Cell, Study

EXAMPLES = """
plfl run config/demo.yaml NY-P1-fedopt-adamw-fedavg-1
plfl run config/demo.yaml NY-P1-fedopt-adamw-fedavg-1 --records records.parquet
plfl run config/demo.yaml NY-P1-fedopt-adamw-fedavg-1 --models mine.safetensors
"""


def add(commands: Commands) -> None:
    parser = add_parser(commands, "run", EXAMPLES, run)
    parser.add_argument("config", type=Path, help="configuration of the study")
    parser.add_argument("cell", help="name of a cell, as `plfl cells --list` prints it")
    text = "also write the records to this Parquet file"
    parser.add_argument("--records", type=Path, metavar="FILE", help=text)
    text = "also write the models, for `plfl forecast`"
    parser.add_argument("--models", type=Path, metavar="FILE", help=text)


def run(options: argparse.Namespace) -> None:
    """Train a cell, with all its seeds if it is tuned, and print its test scores."""
    study, cell = Study.load(options.config).find(options.cell)
    if options.models and not study.task.forecasts:
        raise PlflError(
            Problem(
                "--models", f"the task {study.task.name} does not forecast loads", "leave it out"
            )
        )
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
    models = result.models
    if models is None:
        raise PlflError(Problem(str(cell), "has diverged, so it has no models"))
    widths = TrainingSetup.for_study(study, dataset).evaluator.widths(models)
    write_models(path, models, describe(study, cell, dataset, widths))
