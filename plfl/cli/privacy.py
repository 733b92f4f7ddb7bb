"""`plfl privacy`: what the messages of a study reveal."""

import argparse

from plfl.base.lazy import pandas as pd
from plfl.base.text import print_table
from plfl.cli.common import Commands, add_parser
from plfl.federated.privacy import statement
from plfl.study import Study

EXAMPLES = "plfl privacy my.yaml"


def add(commands: Commands) -> None:
    parser = add_parser(commands, "privacy", EXAMPLES, run)
    parser.add_argument("config", help="configuration of the study, or FILE.yaml:VARIANT")


def run(options: argparse.Namespace) -> None:
    """Print ε per cell, and what it does not cover."""
    study = Study.load(options.config)
    tables: list[pd.DataFrame] = []
    notes: dict[str, None] = {}
    threats: dict[str, None] = {}
    for label, variant in study.variants.items():
        table = statement.statements(variant)
        table["cell"] = [f"{label}/{cell}" if label else cell for cell in table["cell"]]
        tables.append(table)
        notes |= dict.fromkeys(statement.remarks_outside(variant))
        threats[statement.threat(variant)] = None
    all_rows = pd.concat(tables, ignore_index=True)
    all_rows["cell"] = all_rows["cell"].str.rpartition("-")[0]  # ε is the same for all seeds
    headings = {"cell": "cell without its seed", "noise": "noise/C"}
    print(
        print_table(all_rows.drop_duplicates().rename(columns=headings).dropna(axis=1, how="all"))
    )
    if notes:
        note_lines = "".join(f"\n- {note}" for note in notes)
        threat_lines = "\n".join(threats)
        print(f"\n{threat_lines}\n\nOutside of ε:{note_lines}")
