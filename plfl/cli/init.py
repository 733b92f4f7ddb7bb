"""`plfl init`: writes a ready-made study into the current folder."""

import argparse
from pathlib import Path

from plfl.cli.common import Commands, add_parser
from plfl.config.study import Study

EXAMPLES = """
plfl init                           # list the ready-made studies
plfl init demo                      # write demo.yaml
plfl init meters                    # write meters.yaml, a template for your own meters
"""


def add(commands: Commands) -> None:
    """Add `init` to the commands of `plfl`."""
    about = "list the ready-made studies, or write one into this folder"
    parser = add_parser(commands, "init", about, EXAMPLES, run)
    parser.add_argument("study", nargs="?", help="name of a ready-made study; default: list them")


def run(options: argparse.Namespace) -> None:
    """Write the file of a study and print what to do with it, or list the studies."""
    from plfl.pipeline import shipped

    if options.study is None:
        width = max(map(len, shipped.studies()))
        for name in shipped.studies():
            print(f"{name:{width}}  {shipped.about(name)}")
        print("\n`plfl init NAME` writes NAME.yaml into the current folder.")
        return
    path = shipped.write_study(options.study, Path())
    print(f"{path}: {shipped.about(options.study)}\nnext:")
    own = Study.load(path).data.source == "meters"
    for command in (*(["data check"] if own else []), "cells", "study"):
        print(f"  plfl {command} {path}")
