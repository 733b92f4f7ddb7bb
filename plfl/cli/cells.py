"""`plfl cells`: what a study trains, and for how long."""

import argparse
import os
from pathlib import Path

from plfl.cli.common import Commands, add_parser, as_text
from plfl.config.study import Study

EXAMPLES = """
plfl cells                          # config.yaml, the study of the paper
plfl cells config/demo.yaml
plfl cells --list config/demo.yaml
"""


def add(commands: Commands) -> None:
    """Add `cells` to the commands of `plfl`."""
    about = "list the trainings of a study and estimate their time"
    parser = add_parser(commands, "cells", about, EXAMPLES, run)
    parser.add_argument(
        "config",
        type=Path,
        nargs="?",
        default=Path("config.yaml"),
        help="configuration of the study; default: %(default)s",
    )
    parser.add_argument("--list", action="store_true", help="only print the names of the cells")


def run(options: argparse.Namespace) -> None:
    """Print the workload of a study by state and sharing scheme, or the names of its cells."""
    study = Study.load(options.config)
    if options.list:
        print("\n".join(map(str, study.cells)))
        return
    from plfl.experiments.workload import measure, workload
    from plfl.pipeline.jobs import duration
    from plfl.training.engines import choose, unknown_to_fused

    work = workload(study)
    total = work.drop(columns=["state", "sharing"]).sum()
    print(as_text(work.drop(columns="evaluations")))
    speed = measure(study)
    seconds = speed.seconds(work)
    cores = max(1, (os.cpu_count() or 1) // study.compute.threads)
    unknown = unknown_to_fused(study.model.fused, study.windows.is_plain)
    engine, device = choose(study.compute, unknown)
    print(
        f"\n{study.name}: {total['cells']:.0f} cells, {total['trainings']:.0f} trainings, "
        f"{total['client_steps']:,.0f} client-steps, at least {total['megabytes']:,.0f} MB between "
        f"clients and servers\nthe training itself takes about {duration(seconds)} in one job, "
        f"{duration(seconds / cores)} on {cores} cores ({engine} engine on {device}, "
        f"{speed.client_steps:,.0f} client-steps/s measured now, for a year of data per client)"
    )
