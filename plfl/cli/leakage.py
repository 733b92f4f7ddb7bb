"""`plfl leakage`: what single updates of a study's clients reveal."""

import argparse

from plfl.base.errors import PlflError
from plfl.base.text import printed
from plfl.cli.common import Commands, add_parser, progress_bar

EXAMPLES = """
plfl leakage my.yaml
plfl leakage my.yaml --cell CA-P2-fedopt-adam-fedavg-10 --codec q4+rc --clip 0.5 --noise 3
"""
CODECS = ("bf16", "ef21+q3")


def add(commands: Commands) -> None:
    """Add `leakage` to the commands of `plfl`."""
    about = "attack single updates of clients, and report what they reveal"
    parser = add_parser(commands, "leakage", about, EXAMPLES, run)
    parser.add_argument("config", help="configuration of the study, or FILE.yaml:VARIANT")
    parser.add_argument("--cell", help="default: the first that sends updates")
    parser.add_argument(
        "--codec",
        action="append",
        metavar="STAGES",
        help=f"a codec of updates beside none and that of the study; may be repeated; default: "
        f"{' and '.join(CODECS)}",
    )
    for key in ("clip", "noise"):
        parser.add_argument(
            f"--{key}", type=float, help=f"default: federation.privacy.{key} of the study"
        )
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="default: %(default)s")


def run(options: argparse.Namespace) -> None:
    """Print how often the attacks are right, and write `leakage.md` and `leakage.csv`."""
    from plfl.base.files import write_text
    from plfl.config.study import Study
    from plfl.data.prepare import load_dataset
    from plfl.experiments.leakage import attacked, leakage
    from plfl.report.leakage import THREAT, page, summary
    from plfl.results.records import write_csv

    if options.seeds < 1:
        raise PlflError(f"--seeds {options.seeds}: give a number of at least 1")
    study = Study.load(options.config)
    every = [(one, cell) for one in study.variants.values() for cell in one.cells]
    sending = [(one, cell) for one, cell in every if not one.is_alone(cell)]
    study, cell = study.find(options.cell) if options.cell else (sending or every)[0]
    given = {key: getattr(options, key) for key in ("clip", "noise")}
    privacy = {key: value for key, value in given.items() if value is not None}
    cells = attacked(study, cell, options.codec or CODECS, privacy, options.seeds)
    examples = load_dataset(study, cell.state)
    with progress_bar(str(cell), "cell") as advance:
        found = leakage(cells, examples, lambda done: advance("attacks", done, len(cells)))
    write_csv(found, study.results / "leakage.csv")
    write_text(path := study.results / "leakage.md", page(study, cell, found))
    print(f"{THREAT}\n\n{printed(summary(found))}\n\n{path}")
