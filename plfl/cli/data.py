"""`plfl data`: describes and checks the clients' series before training."""

import argparse
from pathlib import Path

from plfl.cli.common import Commands, add_parser, as_text
from plfl.config.study import Study

EXAMPLES = """
plfl data check config/meters.yaml
plfl data check meters              # a folder of meters, with the default settings
"""
COLUMNS = (
    *("rows", "first", "last", "mean", "std", "min", "max", "load_factor"),
    *("persistence_ratio", "gaps", "filled", "features"),
)
"""Columns of `plfl.data.describe.describe` that are printed."""


def add(commands: Commands) -> None:
    """Add `data` to the commands of `plfl`."""
    parser = commands.add_parser("data", help="check the clients' series before training")
    checks = parser.add_subparsers(required=True, metavar="COMMAND")
    about = "describe the series of a study or folder and list possible problems"
    check = add_parser(checks, "check", about, EXAMPLES, run)
    check.add_argument(
        "what",
        type=Path,
        metavar="CONFIG_OR_FOLDER",
        help="a configuration, or a folder of meters that needs only the default settings",
    )


def run(options: argparse.Namespace) -> None:
    """Print one row per client, and what may spoil a study of them."""
    study = _folder_study(options.what) if options.what.is_dir() else Study.load(options.what)
    from plfl.data import source
    from plfl.data.describe import describe, judge

    for state in study.data.states:
        source.fetch(study.data, state)
        tables = source.load(study.data, state)
        interval = study.data.interval
        description = describe(tables, interval, study.windows)
        clients = f"{state}{study.sample_suffix}: {len(tables)} clients"
        print(f"{clients}, load in kWh per {interval} min")
        print(as_text(description[list(COLUMNS)].reset_index()))
        warnings = judge(description, study.windows)
        print("\n".join(f"- {warning}" for warning in warnings) or "no problems found", end="\n\n")


def _folder_study(folder: Path) -> Study:
    from plfl.data.meters import is_series

    found = [path for path in folder.iterdir() if is_series(path)]
    meters = {"folder": str(folder)}
    data = {"source": "meters", "states": ["all"], "clients": max(1, len(found)), "meters": meters}
    return Study.parse({"data": data}, str(folder))
