"""`plfl cells`: what a study will train, and how long that takes."""

import argparse
import os
from pathlib import Path

from plfl.base.errors import DataError, Problem, collect_problems
from plfl.base.lazy import pandas as pd
from plfl.base.minutes import MINUTES_PER_WEEK
from plfl.base.text import count_in_words, print_table, readable_size, short_number
from plfl.cli.common import Commands, add_parser
from plfl.config.data import TESTED_WEEKS
from plfl.data import sources
from plfl.experiments.training_setup import place_computation
from plfl.experiments.workload import measured_speed, seconds, workload
from plfl.pipeline.jobs import duration
from plfl.results.statistics import describe_power, undecidable
from plfl.results.words import describe_times
from plfl.study import Study, split_variant
from plfl.study.checks.claims import left_out_claims
from plfl.training.engines import choose_engine

EXAMPLES = """
plfl cells                          # config.yaml, the study of the paper
plfl cells config/demo.yaml
plfl cells --list config/demo.yaml
"""


def add(commands: Commands) -> None:
    parser = add_parser(commands, "cells", EXAMPLES, run)
    text = "configuration of the study; default: %(default)s"
    default = Path("config.yaml")
    parser.add_argument("config", type=Path, nargs="?", default=default, help=text)
    parser.add_argument("--list", action="store_true", help="only print the names of the cells")


def run(options: argparse.Namespace) -> None:
    """Print the workload of a study by state and sharing scheme, or the names of its cells."""
    study = Study.load(options.config)
    if options.list:
        for label, variant in study.variants.items():
            print("\n".join(f"{label}/{cell}" if label else str(cell) for cell in variant.cells))
        return
    _check_states(study)
    works = {label: workload(variant) for label, variant in study.variants.items()}
    parts = [
        work if not label else pd.concat({label: work}, names=["variant"]).reset_index(level=0)
        for label, work in works.items()
    ]
    work = pd.concat(parts, ignore_index=True)
    total = work.drop(columns=["variant", "state", "sharing"], errors="ignore").sum()
    exchanged_texts = work["megabytes"].mul(1e6).map(readable_size)
    print(
        print_table(
            work.drop(columns=["megabytes", "evaluations"]).assign(exchanged=exchanged_texts)
        )
    )
    speed = measured_speed(next(iter(study.variants.values())))
    span = seconds(study, works, speed)
    cores = max(1, (os.cpu_count() or 1) // study.compute.threads)
    devices = {
        choose_engine(place_computation(v), v.model.kernel_form)[1] for v in study.variants.values()
    }
    on_cores = f", {' to '.join(duration(s / cores) for s in span)} on {cores} cores"
    assumed = sources.source_of(study.data).assumption
    speed_text = f"{short_number(speed)} client-steps/s measured now"
    times = describe_times(study)
    public = ""
    if study.public_files:
        public = (
            f"{count_in_words(len(study.public_files), 'public model')} of {study.public.kind}, "
        )
    print(
        f"\n{study.name}: {count_in_words(int(total['cells']), 'cell')}, "
        f"{count_in_words(int(total['trainings']), 'training')}, {public}"
        f"{total['client_steps']:,.0f} client-steps, about "
        f"{readable_size(1e6 * total['megabytes'])} between clients and servers\n"
        f"the study takes {' to '.join(map(duration, span))}, one job after the other"
        + ("" if "cuda" in devices else on_cores)
        + f" ({speed_text}{f', for {assumed}' if assumed else ''})\n"
        + (times and f"{times}\n")
        + f"next: plfl study {split_variant(options.config)[0]}",
        flush=True,
    )
    notes = [
        undecidable(study),
        describe_power(study, _test_weeks(study)),
        *left_out_claims(study.claims, study.data.states),
    ]
    for note in filter(None, notes):
        print(f"note: {note}")


def _test_weeks(study: Study) -> int | None:
    """The whole weeks of the test sets of all origins or, without any, of the longest series; None
    if the readings are not there."""
    variants = [*study.variants.values()]
    if origins := {variant.data.origin_date for variant in variants if variant.data.origin_date}:
        return TESTED_WEEKS * len(origins)
    first, weeks = variants[0], 0.0
    source = sources.source_of(first.data)
    if first.data.source != "meters" or not study.task.forecasts:
        return None
    try:
        for state in first.data.states:
            for table in source.load(first.data, state).values():
                weeks = max(weeks, len(table) * first.data.interval / MINUTES_PER_WEEK)
    except DataError:  # which `plfl data check` and the study report
        return None
    return int(weeks * first.windows.split[-1])


def _check_states(study: Study) -> None:
    problems: list[Problem] = []
    for variant in study.variants.values():
        for state in variant.data.states:
            with collect_problems(problems):
                sources.source_of(variant.data).buildings(variant.data, state)
    if problems:
        raise DataError(*dict.fromkeys(problems))
