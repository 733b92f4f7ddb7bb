"""`plfl privacy`: what the cells of a study reveal of their clients."""

import argparse

from plfl.base.errors import PlflError
from plfl.base.text import printed
from plfl.cli.common import Commands, add_parser, progress_bar
from plfl.config.study import Study

EXAMPLES = """
plfl privacy my.yaml
plfl privacy my.yaml --audit CA-P2-fedopt-adam-fedavg-10
"""


def add(commands: Commands) -> None:
    about = "state ε of each cell of a study, and what is outside of it"
    parser = add_parser(commands, "privacy", about, EXAMPLES, run)
    parser.add_argument("config", help="configuration of the study, or FILE.yaml:VARIANT")
    parser.add_argument(
        "--audit", metavar="CELL", help="train a cell with canary clients, and test its ε"
    )
    parser.add_argument(
        "--canaries", type=int, default=1000, metavar="N", help="default: %(default)s"
    )


def run(options: argparse.Namespace) -> None:
    """Print ε per cell, and what it does not cover."""
    import pandas as pd

    from plfl.federated.privacy import statement

    study = Study.load(options.config)
    if options.audit:
        _audit(study, options.audit, options.canaries)
        return
    tables: list[pd.DataFrame] = []
    notes: dict[str, None] = {}
    for label, variant in study.variants.items():
        table = statement.statements(variant)
        table["cell"] = [f"{label}/{cell}" if label else cell for cell in table["cell"]]
        tables.append(table)
        notes |= dict.fromkeys(statement.outside(variant))
    found = pd.concat(tables, ignore_index=True)
    found["cell"] = found["cell"].str.rpartition("-")[0]  # ε is the same for all seeds
    named = {"cell": "cell without its seed", "noise": "noise/C"}
    print(printed(found.drop_duplicates().rename(columns=named).dropna(axis=1, how="all")))
    if notes:
        listed = "".join(f"\n- {note}" for note in notes)
        print(f"\n{statement.THREAT}\n\nOutside of ε:{listed}")


def _audit(study: Study, name: str, canaries: int) -> None:
    from plfl.data import sources
    from plfl.experiments.audit import audit

    variant, cell = study.find(name)
    total = variant.federation.rounds
    with progress_bar(name) as advance:
        examples = sources.of(variant.data).examples_of(variant, cell.state)
        found = audit(variant, cell, examples, canaries, lambda t: advance("audit", t, total))
    print(
        f"{name}: {found.right} of {found.guesses} guesses about {found.canaries} canaries are "
        f"right.\nThe true ε is at least {found.bound:.3g} (95 % confidence); estimate "
        f"{found.estimate:.3g}; accounted {found.epsilon:.3g}, each at δ = {found.delta:g}."
    )
    if found.holds:
        print("verdict: the audited lower bound is below the accounted ε")
        return
    raise PlflError(
        f"{name}: the audited lower bound {found.bound:.3g} is above the accounted ε "
        f"{found.epsilon:.3g}: clipping, noise or accounting is wrong; do not rely on this ε"
    )
