"""`plfl export`: a trained model as a program that needs no plfl, or clients as arrays."""

import argparse
from pathlib import Path

from plfl.base.errors import PlflError
from plfl.cli.common import Commands, add_model, add_parser

EXAMPLES = """
plfl export results/own/models/all-P2.safetensors --client school --to school.pt2
plfl export results/own/models/all-P2.safetensors --client school --to school.onnx
plfl export clients config/demo.yaml --to arrays
"""


def add(commands: Commands) -> None:
    about = (
        "write a trained model as a program for PyTorch or as ONNX; or, with the word `clients`, "
        "the clients of a study as arrays"
    )
    parser = add_parser(commands, "export", about, EXAMPLES, run)
    add_model(parser)
    text = "after `clients`: the configuration of a study, or a frozen task, as for `plfl score`"
    parser.add_argument("study", type=Path, nargs="?", metavar="STUDY", help=text)
    parser.add_argument(
        "--to",
        type=Path,
        required=True,
        metavar="PATH",
        help="file to write: .pt2 or .onnx; for clients, a folder",
    )
    parser.add_argument("--client", help="name of the meter; not needed if there is only one")
    parser.add_argument("--variant", default="", help="label of a variant of the study")
    text = "of clients: all readings before the test set, although `windows.history` is shorter"
    parser.add_argument("--whole", action="store_true", help=text)


def run(options: argparse.Namespace) -> None:
    """Write the file, or the folder."""
    if str(options.file) == "clients":
        if options.study is None:
            raise PlflError("export: `clients` needs a study, as in `plfl export clients STUDY`")
        _clients(options)
        return
    if options.study is not None:
        raise PlflError(
            f"export: {options.study} is one file too many; `plfl export clients` takes a study"
        )
    from plfl.forecast.model import load

    load(options.file).export(options.to, options.client, options.model)
    reader = "an ONNX runtime" if options.to.suffix == ".onnx" else "torch.export.load"
    print(f"wrote {options.to}; read it with {reader}")


def _clients(options: argparse.Namespace) -> None:
    from plfl.cli.score import opened
    from plfl.outside.clients import TABLE, export

    written = export(opened(options)[0], options.to, options.whole)
    print(
        f"wrote {len(written) - 1} files .npz and {TABLE} to {options.to}; docs/benchmark.md says "
        "what they hold"
    )
