"""`plfl export`: a trained model as a program that needs no plfl."""

import argparse
from pathlib import Path

from plfl.cli.common import Commands, add_model, add_parser

EXAMPLES = """
plfl export results/own/models/all-P2.safetensors --client school --to school.pt2
plfl export results/own/models/all-P2.safetensors --client school --to school.onnx
"""


def add(commands: Commands) -> None:
    about = "write a trained model as a program for PyTorch or as ONNX"
    parser = add_parser(commands, "export", about, EXAMPLES, run)
    add_model(parser)
    parser.add_argument(
        "--to", type=Path, required=True, metavar="FILE", help="file to write: .pt2 or .onnx"
    )
    parser.add_argument("--client", help="name of the meter; not needed if there is only one")


def run(options: argparse.Namespace) -> None:
    """Write the file."""
    from plfl.forecast.model import load

    load(options.file).export(options.to, options.client, options.model)
    reader = "an ONNX runtime" if options.to.suffix == ".onnx" else "torch.export.load"
    print(f"wrote {options.to}; read it with {reader}")
