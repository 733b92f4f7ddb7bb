"""`plfl init`: writes a ready-made study into the current folder."""

import argparse
from pathlib import Path

from plfl.base.errors import PlflError
from plfl.cli.common import Commands, add_parser
from plfl.config.study import Study

EXAMPLES = """
plfl init                           # list the ready-made studies
plfl init demo                      # write demo.yaml
plfl init meters                    # write meters.yaml, a template for your own meters
plfl init meters --from campus/data.yaml   # write campus.yaml, which fits an import into campus/
"""


def add(commands: Commands) -> None:
    about = "list the ready-made studies, or write one into this folder"
    parser = add_parser(commands, "init", about, EXAMPLES, run)
    parser.add_argument("study", nargs="?", help="name of a ready-made study; default: list them")
    text = "with `meters`: a study of the meters that this file of `plfl data import` describes"
    parser.add_argument("--from", dest="block", type=Path, metavar="DATA.YAML", help=text)


def run(options: argparse.Namespace) -> None:
    """Write the file of a study and print what to do with it, or list the studies."""
    from plfl.pipeline import shipped, starter

    if options.block is not None:
        if options.study != "meters":
            raise PlflError("--from: needs the study `meters`: plfl init meters --from DATA.YAML")
        _next(starter.write(options.block, Path()))
        return
    if options.study is None:
        width = max(map(len, shipped.studies()))
        for name in shipped.studies():
            print(f"{name:{width}}  {shipped.about(name)}")
        print("\n`plfl init NAME` writes NAME.yaml into the current folder.")
        return
    path = shipped.write_study(options.study, Path())
    print(f"{path}: {shipped.about(options.study)}")
    _next(path)


def _next(path: Path) -> None:
    print(f"next, with {path}:")
    own = Study.load(path).data.source == "meters"
    for command in (*(["data check"] if own else []), "cells", "study"):
        print(f"  plfl {command} {path}")
