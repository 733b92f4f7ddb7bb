"""`plfl data`: what the files of a study hold, before training, and the formats of exports."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

from plfl.base.errors import DataError, PlflError, Problem, as_problem, collect_problems
from plfl.base.files import digest
from plfl.base.lazy import pandas as pd
from plfl.base.text import capitalise, count_in_words, print_table
from plfl.baselines.public import Public
from plfl.cli.commands import COMMANDS
from plfl.cli.common import Commands, add_parser
from plfl.config.data import Data
from plfl.data import sources
from plfl.data.describe import describe, list_warnings
from plfl.data.examples import check_batches
from plfl.data.meters import note_logger
from plfl.data.meters.exports import describe_times
from plfl.data.meters.formats.schema import shipped_formats
from plfl.data.meters.stamps import zone_named
from plfl.data.sources import build_dataset, check_loads
from plfl.first_study.format_samples import read_samples
from plfl.forecast.output import localise_stamps
from plfl.outside.clients import datasets
from plfl.outside.frozen import open_task
from plfl.outside.originals import fetch, original_of
from plfl.study import Study

EXAMPLES = """
plfl data check config/meters.yaml
"""
FORMAT_EXAMPLES = """
plfl data formats              # list them
plfl data formats octopus      # read its samples
plfl data formats mine.toml    # read those of a format of your own
"""
FETCH_EXAMPLES = """
plfl data fetch campus-1-week
plfl data fetch building-1-week --from https://mirror.example/bdg2/
"""
REPORT_COLUMNS = (
    *("rows", "first", "last", "kwh", "mean", "min", "max", "gaps", "filled", "windows"),
    *("skipped", "features"),
)
"""Columns of `plfl.data.describe.describe` that are printed, before the remarks."""


def add(commands: Commands) -> None:
    about = COMMANDS["data"]
    parser = commands.add_parser("data", help=about, description=f"{capitalise(about)}.")
    commands_of_data = parser.add_subparsers(required=True, metavar="COMMAND")
    about = "describe the series of a study and list possible problems"
    check = add_parser(commands_of_data, "check", EXAMPLES, run, about=about)
    check.add_argument("config", type=Path, help="configuration of the study")
    about = "download the originals of a frozen task, and make the tables that it reads"
    fetching = add_parser(commands_of_data, "fetch", FETCH_EXAMPLES, run_fetch, about=about)
    fetching.add_argument("task", metavar="TASK", help="name of a task that comes with plfl")
    text = "address of another copy of the same files, such as that of a mirror"
    fetching.add_argument("--from", dest="base", default="", metavar="URL", help=text)
    about = "list the known formats of exports, or read the samples of one"
    formats = add_parser(commands_of_data, "formats", FORMAT_EXAMPLES, run_formats, about=about)
    text = "name of a format, or file of your own, whose samples are read and compared"
    formats.add_argument("format", nargs="?", metavar="FORMAT", help=text)


class _PrintingHandler(logging.Handler):
    """Prints messages, but for those about single meters, which the table has. Unlike the handlers
    of Python, it stops if their reader has gone."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print the message."""
        if record.name != note_logger.name:
            print(self.format(record), flush=True)


def run(options: argparse.Namespace) -> None:
    """Print one row per client, with the windows of the first variant of the study, and properties
    that may spoil a study of them."""
    study = Study.load(options.config)
    check_loads(study)
    logging.basicConfig(format="%(message)s", handlers=[_PrintingHandler()])
    logging.getLogger("plfl.data.meters").setLevel(logging.INFO)  # what the files hold

    first = next(iter(study.variants.values()))
    problems: list[Problem] = []
    for state in study.data.states:
        try:
            series = _series_of_variants(study, state)
        except DataError as error:
            problems += error.problems
            continue
        interval, (_, tables) = first.data.interval, series[0]
        description = describe(tables, interval, first.windows, first.data.origin_date)
        clients = (
            f"{state}{study.data.sample_suffix}: {count_in_words(len(tables), study.client_word)}"
        )
        print(f"{clients}, load in kWh per {interval} min")
        print(_use_local_starts(description, first.data))
        print(first.windows.describe_times(interval))
        remarks = ["", *description["remarks"]]  # below the names of the columns
        lines = print_table(description[list(REPORT_COLUMNS)].reset_index()).splitlines()
        print("\n".join(map("  ".join, zip(lines, remarks, strict=True))))
        warnings = list_warnings(
            description, first.windows, first.data.origin_date, study.client_word
        )
        refusals = list(dict.fromkeys(chain(*(_refusals_of(*part) for part in series))))
        problems += [problem.locate_in(state) for problem in refusals]
        lines = [f"- {warning}" for warning in warnings] or (
            [] if refusals else ["no problems found"]
        )
        print("\n".join([*lines, ""]))
    if problems:
        raise DataError(*problems)
    print(f"next: plfl cells {options.config}, then plfl study {options.config}")


def _use_local_starts(description: pd.DataFrame, data: Data) -> str:
    """Make the times of `describe` those of the remarks about gaps, if their zones are known: local
    times at which intervals begin. Return a line that says what they are."""
    if data.source != "meters":
        return "first and last are ends of intervals in local standard time"
    step = pd.Timedelta(minutes=data.interval)
    zones = description.index.map(lambda client: data.meters.timezone_of(str(client)))
    for name in ("first", "last"):
        for zone, ends in description[name].groupby(zones):
            local_ends = localise_stamps(pd.DatetimeIndex(ends), zone_named(str(zone)))
            description.loc[ends.index, name] = (local_ends - step).tz_localize(None)
    return describe_times(map(str, zones))


def run_fetch(options: argparse.Namespace) -> None:
    """Print what is downloaded from where, and whether the data are those of the task."""
    study, task = open_task(options.task)
    if task is None:
        raise PlflError(Problem(options.task, "is no frozen task", "`plfl score --help` says more"))
    original = original_of(task)
    if original is None:
        print(f"{task.name}: needs no download of an original; {study.data.source_words}")
    else:
        print(original.describe(options.base), flush=True)
        for path, count in fetch(original, Path("data"), options.base).items():
            print(f"{path}: {count_in_words(count, 'meter')}")
        task.check(datasets(study))
        print(f"the data are those of {task.name}, version {task.version}")
    print(f"next: plfl leaderboard add {task.name} PREDICTIONS … (docs/benchmark.md)")


def run_formats(options: argparse.Namespace) -> None:
    """Print one line per known format, or per sample of a format. PlflError: a sample was read
    otherwise than its format expects."""
    if options.format is None:
        width = max(map(len, shipped_formats()))
        for name, form in shipped_formats().items():
            print(f"{name:{width}}  {form.about}")
        return
    problems = []
    for sample in read_samples(options.format):
        print(f"{sample.path}: {sample.words}")
        for meter, kwh in sample.kwh.items():
            print(f"  {meter}: {kwh:.6g} kWh")
        problems += [f"{sample.path}: {difference}" for difference in sample.differences]
    if problems:
        raise DataError(*problems)
    print("all samples are read as the format expects")


def _series_of_variants(
    study: Study, state: str
) -> list[tuple[list[Study], dict[str, pd.DataFrame]]]:
    """The variants of a study whose datasets of a state differ, those that read the same series
    together, with these; the first variant comes first."""
    by_inputs = {
        study.plan.data_labels[label]: variant for label, variant in study.variants.items()
    }
    by_series: dict[str, list[Study]] = {}
    for inputs in dict.fromkeys(study.plan.data_labels.values()):
        variant = by_inputs[inputs]
        settings = sources.source_of(variant.data).settings(variant.data, state)
        by_series.setdefault(digest(settings), []).append(variant)
    series = []
    for variants in by_series.values():
        data = variants[0].data
        source = sources.source_of(data)
        source.fetch(data, state)
        series.append((variants, dict(source.load(data, state))))
    return series


def _refusals_of(
    variants: Sequence[Study], client_series: Mapping[str, pd.DataFrame]
) -> list[Problem]:
    """Why variants of a study cannot make windows, minibatches or widths of these clients, or
    cannot be compared with the public model that comes with plfl."""
    problems: list[Problem] = []
    for variant in variants:
        try:
            dataset = build_dataset(variant, client_series)
        except DataError as error:
            problems += error.problems
        else:
            problems += map(as_problem, variant.task.find_uncalibrated(dataset))
            for baseline in variant.baselines.further:
                if isinstance(baseline, Public) and baseline.file is None:
                    with collect_problems(problems):
                        baseline.choose_unseen(dataset)
            has_minibatches = not variant.model.grows_trees
            for view in dataset.views if has_minibatches else ():
                role = " as a new client (`history` of a sharing scheme)" if view == "new" else ""
                with collect_problems(problems):
                    batch_size = variant.federation.batch_size
                    check_batches(dataset.with_view(view), batch_size, role)
    return problems
