"""`plfl run`: trains one cell."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from plfl.cli.common import Commands, add_parser
from plfl.config.study import Cell, Study
from plfl.errors import PlflError

if TYPE_CHECKING:  # the command line starts without pandas
    import pandas as pd

    from plfl.data.dataset import Dataset
    from plfl.results.records import CellResult, Models

EXAMPLES = """
plfl run config/demo.yaml CA-P2-fedopt-adam-fedyogi-10
plfl run config/demo.yaml CA-P2-fedopt-adam-fedyogi-10 --records records.parquet
plfl run config/demo.yaml CA-P2-fedopt-adam-fedyogi-10 --models mine.safetensors
"""


def add(commands: Commands) -> None:
    """Add `run` to the commands of `plfl`."""
    parser = add_parser(commands, "run", "train one cell and print its scores", EXAMPLES, run)
    parser.add_argument("config", type=Path, help="configuration of the study")
    parser.add_argument("cell", help="name of a cell, as `plfl cells --list` prints it")
    parser.add_argument(
        "--records", type=Path, metavar="FILE", help="also write the records to this Parquet file"
    )
    parser.add_argument(
        "--models", type=Path, metavar="FILE", help="also write the models, for `plfl forecast`"
    )
    parser.add_argument(
        "--forecasts",
        type=Path,
        metavar="FILE",
        help="also write all forecasts of these models for the test set (Parquet)",
    )


def run(options: argparse.Namespace) -> None:
    """Train a cell, with all its seeds if it is tuned, and print its test scores."""
    study, cell = Study.load(options.config).find(options.cell)
    if (options.models or options.forecasts) and study.data.is_images:
        raise PlflError("--models and --forecasts: of models that forecast; not for classifiers")
    for file in filter(None, (options.records, options.models, options.forecasts)):
        if not file.parent.is_dir():
            raise PlflError(f"{file}: the folder {file.parent} does not exist; create it")

    from tqdm import tqdm

    from plfl.data.dataset import Dataset
    from plfl.data.prepare import load_examples
    from plfl.experiments.train import train
    from plfl.results.records import write_table

    dataset = load_examples(study, cell.state)
    with tqdm(total=study.federation.rounds, desc=str(cell), unit="round", leave=False) as bar:

        def advance(t: int) -> None:
            bar.update(t - bar.n)

        result = train(study, study.with_all_seeds([cell]), dataset, advance)[cell]
    if options.records:
        write_table(result.records, options.records)
    if options.models and isinstance(dataset, Dataset):
        _write_models(options.models, study, cell, result, dataset)
    if options.forecasts:
        from plfl.experiments.trainer import Trainer

        evaluator = Trainer.of(study, dataset).evaluator
        write_table(evaluator.test_forecasts(_models(cell, result)), options.forecasts)
    print(_scores(study, cell, result.records))


def _write_models(
    path: Path, study: Study, cell: Cell, result: CellResult, dataset: Dataset
) -> None:
    from plfl.data import source
    from plfl.experiments.trainer import Trainer
    from plfl.forecast.contents import describe
    from plfl.results.models import write_models

    tables = source.load(study.data, cell.state)
    models = _models(cell, result)
    margins = Trainer.of(study, dataset).evaluator.margins(models)
    write_models(path, models, describe(study, cell, tables, dataset.interval, margins))


def _models(cell: Cell, result: CellResult) -> Models:
    if result.models is None:
        raise PlflError(f"{cell}: has diverged, so it has no models")
    return result.models


def _scores(study: Study, cell: Cell, records: pd.DataFrame) -> str:
    from plfl.results import classification
    from plfl.results.summary import summarise

    if study.data.is_images:
        target = classification.target_of(study)
        (found,) = (
            classification.summarise(records, study.data.source, target)
            .query("model == 'global'")
            .to_dict("records")
        )
        tuned = found["hyperparameters"] and f"; chosen on validation: {found['hyperparameters']}"
        return (
            f"{cell}: test accuracy {found['accuracy']:.3f} at round {found['round']}, "
            f"{found['accuracy_tail']:.3f} over the last {classification.TAIL} evaluated rounds"
            f"{tuned}"
        )
    summary = summarise(records, study.data.source)
    last = summary[summary["chosen"] == "last"].set_index("model")
    crossed = (last["bytes_down"] + last["bytes_up"]).iloc[0] / 1e6
    tuned = "".join(
        f"\n{row['model']} model, chosen on validation from {row['trials']} trials: "
        f"{row['hyperparameters']}"
        for row in last.reset_index().to_dict("records")
        if row["hyperparameters"]
    )
    return (
        f"{cell}{study.data.sample_suffix}: test MASE {last['mase_mean']['local']:.3f} local, "
        f"{last['mase_mean']['global']:.3f} global (mean of {last['mase_clients']['local']} "
        f"clients, round {last['round']['local']}); {crossed:.1f} MB{tuned}"
    )
