"""`plfl privacy`: what the cells of a study reveal of their clients."""

import argparse

from plfl.base.text import printed
from plfl.cli.common import Commands, add_parser
from plfl.study import Study

EXAMPLES = """
plfl privacy my.yaml
"""


def add(commands: Commands) -> None:
    about = "state ε of each cell of a study, and what is outside of it"
    parser = add_parser(commands, "privacy", about, EXAMPLES, run)
    parser.add_argument("config", help="configuration of the study, or FILE.yaml:VARIANT")


def run(options: argparse.Namespace) -> None:
    """Print ε per cell, and what it does not cover."""
    import pandas as pd

    from plfl.federated.privacy import statement

    study = Study.load(options.config)
    tables: list[pd.DataFrame] = []
    notes: dict[str, None] = {}
    for label, variant in study.variants.items():
        table = statement.statements(variant)
        table["cell"] = [f"{label}/{cell}" if label else cell for cell in table["cell"]]
        tables.append(table)
        notes |= dict.fromkeys(statement.outside(variant))
    shown = pd.concat(tables, ignore_index=True)
    shown["cell"] = shown["cell"].str.rpartition("-")[0]  # ε is the same for all seeds
    named = {"cell": "cell without its seed", "noise": "noise/C"}
    print(printed(shown.drop_duplicates().rename(columns=named).dropna(axis=1, how="all")))
    if notes:
        listed = "".join(f"\n- {note}" for note in notes)
        print(f"\n{statement.THREAT}\n\nOutside of ε:{listed}")
