"""`plfl forecast`: forecasts of a trained model from a file of new readings."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from plfl.base.errors import DataError
from plfl.base.files import write_text
from plfl.cli.common import Commands, add_model, add_parser

if TYPE_CHECKING:
    import pandas as pd

EXAMPLES = """
plfl forecast results/own/models/all-P2.safetensors school.csv
plfl forecast results/own/models/all-P2.safetensors export.csv --client school --all --out next.csv
plfl forecast results/own/models/all-P1.safetensors museum.csv --new --save museum.safetensors
"""


def add(commands: Commands) -> None:
    about = "forecast the next hours of a meter, with the models of a study"
    parser = add_parser(commands, "forecast", about, EXAMPLES, run)
    add_model(parser)
    parser.add_argument(
        "new", type=Path, metavar="NEW", help="readings, in the layout of the study's meters"
    )
    parser.add_argument("--client", help="name of the meter; default: the name of the file")
    parser.add_argument(
        "--new",
        dest="newcomer",
        action="store_true",
        help="the meter did not take part: train a model for it on these readings first",
    )
    parser.add_argument(
        "--epochs",
        type=int,
        help="with --new: passes over its windows; default: chosen on the last fifth",
    )
    parser.add_argument(
        "--save", type=Path, metavar="FILE", help="with --new: keep its model (safetensors)"
    )
    parser.add_argument(
        "--all", action="store_true", help="also forecast the times of readings in the file"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="write the forecasts to this CSV file"
    )


def run(options: argparse.Namespace) -> None:
    """Print the forecasts as CSV; warnings about the readings go to the standard error."""
    from plfl.data.meters import client_name
    from plfl.forecast.model import load

    model = load(options.file)
    client = options.client
    if client is None:
        alone = len(model.clients) == 1 and not options.newcomer
        client = model.clients[0] if alone else client_name(options.new)
    readings = model.read(options.new, client)
    if options.newcomer:
        logging.basicConfig(format="%(message)s")
        logging.getLogger("plfl.forecast").setLevel(logging.INFO)
        model = model.adapt(readings, client, options.epochs)
        if options.save is not None:
            model.save(options.save)
            print(f"wrote {options.save}", file=sys.stderr)
    elif options.save is not None or options.epochs is not None:
        raise DataError("--save and --epochs: only with --new, for a meter that did not take part")
    forecasts = model.predict(readings, client, options.model)
    if not options.all:
        forecasts = model.upcoming(readings, forecasts)
    suffix = model.study.data.sample_suffix
    print(f"{model.cell}{suffix}: kWh per {model.interval} min", file=sys.stderr)
    forecasts = model.with_offsets(forecasts, client)
    text = as_csv(forecasts)
    if options.out is None:
        print(text, end="")
        return
    write_text(options.out, text)
    print(f"wrote {options.out}", file=sys.stderr)


def as_csv(forecasts: pd.DataFrame) -> str:
    """The CSV of `forecasts` by `timestamp`; the time is written even if all stamps are
    midnights."""
    written = forecasts.rename(index=str).assign(made_at=forecasts["made_at"].map(str))
    return written.to_csv(float_format="%.6g", lineterminator="\n")
