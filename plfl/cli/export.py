"""`plfl export`: a forecaster as a program that needs no plfl, or clients as arrays."""

import argparse
from pathlib import Path
from urllib.parse import quote

from plfl.base.errors import DataError, PlflError, Problem
from plfl.cli.common import Commands, add_parser
from plfl.cli.forecast import add_with, check_with
from plfl.cli.meters import INCOMPLETE_STATUS, for_each_meter, share_messages
from plfl.cli.results import add_model
from plfl.cli.score import open_study
from plfl.forecast.choice import Forecasters
from plfl.forecast.kept_models import is_results_folder
from plfl.forecast.model import load
from plfl.outside import clients as outside

EXAMPLES = """
plfl export results/own --client school --to school.onnx
plfl export results/own --with lightgbm_lags --to programs
plfl export results/own/models/all-P2.safetensors --client school --to school.onnx
plfl export clients config/demo.yaml --to arrays
"""


def add(commands: Commands) -> None:
    parser = add_parser(commands, "export", EXAMPLES, run)
    add_model(parser)
    add_with(parser)
    text = "after `clients`: the configuration of a study, or a frozen task, as for `plfl score`"
    parser.add_argument("study", type=Path, nargs="?", metavar="STUDY", help=text)
    text = "file to write: .onnx; or a folder, for all meters; for clients, a folder"
    parser.add_argument("--to", type=Path, required=True, metavar="PATH", help=text)
    parser.add_argument("--client", help="name of the meter; default: all")
    parser.add_argument("--variant", default="", help="label of a variant of the study")


def run(options: argparse.Namespace) -> int:
    """Write the file, or the folder; return the exit status."""
    if str(options.file) == "clients":
        if options.study is None:
            raise PlflError(
                Problem("export", "`clients` needs a study", "write `plfl export clients STUDY`")
            )
        paths = outside.export(open_study(options)[0], options.to)
        print(
            f"wrote {len(paths) - 1} files .npz and {outside.CLIENTS_FILE} to {options.to}; "
            "docs/benchmark.md says what they hold"
        )
        return 0
    if options.study is not None:
        raise PlflError(
            Problem(
                "export",
                f"{options.study} is one file too many",
                "leave it out, or write `plfl export clients STUDY`",
            )
        )
    kept_forecasters = Forecasters(options.file) if is_results_folder(options.file) else None
    check_with(options, kept_forecasters is not None)
    model = kept_forecasters.any_model if kept_forecasters else load(options.file)
    known_clients = [*kept_forecasters.clients] if kept_forecasters else model.clients
    clients = [options.client] if options.client else known_clients
    if options.to.suffix and len(clients) > 1:
        raise DataError(
            Problem(
                "--to",
                f"one file cannot hold the programs of {len(clients)} meters",
                "name a folder, or a meter with --client",
            )
        )
    programs = {
        client: options.to if options.to.suffix else options.to / f"{quote(client, safe=' ')}.onnx"
        for client in clients
    }
    problems: list[Problem] = []
    with share_messages() as say:

        def write(client: str, path: Path) -> None:
            try:
                client_model = model
                if kept_forecasters:
                    choice = kept_forecasters.choose(client, options.wanted)
                    say(client, choice.sentence)
                    client_model = kept_forecasters.model(choice.file)
                path.parent.mkdir(parents=True, exist_ok=True)
                client_model.export(path, client, options.model)
            except PlflError as error:
                raise (error if len(clients) == 1 else error.locate_in(client, client)) from None
            print(f"wrote {path}")

        for_each_meter(programs, problems, write)
    return INCOMPLETE_STATUS if problems else 0
