"""`plfl cells`, `plfl privacy`, `plfl methods` and `plfl schema`: what a study will train and
reveal, and what it can name."""

import argparse
import inspect
import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

from plfl import methods as of_methods
from plfl import plugins
from plfl.base.errors import DataError
from plfl.base.lazy import pandas as pd
from plfl.base.text import print_table, readable_size, short_number
from plfl.cli.common import Commands, add_parser
from plfl.config.sections import Calibration
from plfl.data.checks import collect_problems, counted
from plfl.interfaces.method import Method
from plfl.optimizers import client, server
from plfl.pipeline.jobs import duration
from plfl.plugins.registry import Algorithm, Section
from plfl.study import Study
from plfl.study.checks import left_out_claims
from plfl.study.generated import write

CELLS = """
plfl cells                          # config.yaml, the study of the paper
plfl cells config/demo.yaml
plfl cells --list config/demo.yaml
"""
PRIVACY = "plfl privacy my.yaml"
METHODS = """
plfl methods
plfl methods --json
plfl methods my.yaml                # those of its plug-ins, too
"""
FLOATS = """\
# floats: numbers of 4 bytes per client and round, and before round 1, with the default parameters.
# d_s: number of shared parameters; d_φ: how many of them are the embedding's.
"""
SCHEMA = "plfl schema   # in the root of the repository"


def add(commands: Commands) -> None:
    """Add the four commands to those of `plfl`."""
    about = "list the trainings of a study and estimate their time"
    parser = add_parser(commands, "cells", about, CELLS, run)
    text = "configuration of the study; default: %(default)s"
    default = Path("config.yaml")
    parser.add_argument("config", type=Path, nargs="?", default=default, help=text)
    parser.add_argument("--list", action="store_true", help="only print the names of the cells")
    about = "state ε of each cell of a study, and what is outside of it"
    parser = add_parser(commands, "privacy", about, PRIVACY, privacy)
    parser.add_argument("config", help="configuration of the study, or FILE.yaml:VARIANT")
    about = "list the algorithms: sources, hyperparameters, message sizes"
    parser = add_parser(commands, "methods", about, METHODS, methods)
    text = "a study, whose plug-ins are listed, too"
    parser.add_argument("config", type=Path, nargs="?", help=text)
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    about = "write the JSON schema and the generated pages"
    add_parser(commands, "schema", about, SCHEMA, schema)


def run(options: argparse.Namespace) -> None:
    """Print the workload of a study by state and sharing scheme, or the names of its cells."""
    study = Study.load(options.config)
    if options.list:
        for label, variant in study.variants.items():
            print("\n".join(f"{label}/{cell}" if label else str(cell) for cell in variant.cells))
        return
    _check_states(study)
    from plfl.data import sources
    from plfl.experiments.trainer import place_computation
    from plfl.experiments.workload import measured_speed, seconds, workload
    from plfl.results.statistics import describe_power, undecidable
    from plfl.training.engines import choose

    works = {label: workload(variant) for label, variant in study.variants.items()}
    parts = [
        work if not label else pd.concat({label: work}, names=["variant"]).reset_index(level=0)
        for label, work in works.items()
    ]
    work = pd.concat(parts, ignore_index=True)
    total = work.drop(columns=["variant", "state", "sharing"], errors="ignore").sum()
    exchanged = work["megabytes"].mul(1e6).map(readable_size)
    print(print_table(work.drop(columns=["megabytes", "evaluations"]).assign(exchanged=exchanged)))
    speed = measured_speed(next(iter(study.variants.values())))
    span = seconds(study, works, speed)
    cores = max(1, (os.cpu_count() or 1) // study.compute.threads)
    devices = {
        choose(place_computation(v), v.model.kernel_form)[1] for v in study.variants.values()
    }
    on_cores = f", {' to '.join(duration(s / cores) for s in span)} on {cores} cores"
    assumed = sources.source_of(study.data).assumed
    speed_text = f"{short_number(speed)} client-steps/s measured now"
    print(
        f"\n{study.name}: {counted(int(total['cells']), 'cell')}, "
        f"{counted(int(total['trainings']), 'training')}, "
        f"{total['client_steps']:,.0f} client-steps, about "
        f"{readable_size(1e6 * total['megabytes'])} between clients and servers\n"
        f"training and baselines take {' to '.join(map(duration, span))} in one job"
        + ("" if "cuda" in devices else on_cores)
        + ", besides the start of jobs, figures and pages "
        f"({speed_text}{f', for {assumed}' if assumed else ''})\n"
        f"{_describe_times(study)}\n"
        f"next: plfl study {options.config}"
    )
    notes = [
        undecidable(study),
        describe_power(study),
        *left_out_claims(study.claims, study.data.states),
    ]
    for note in filter(None, notes):
        print(f"note: {note}")


def _describe_times(study: Study) -> str:
    """What a forecast reads and is of, in a line for all variants or for each different one."""
    lines = (v.windows.describe_times(v.data.interval) for v in study.variants.values())
    return "\n".join(dict.fromkeys(lines))


def _check_states(study: Study) -> None:
    from plfl.data import sources

    problems: list[str] = []
    for variant in study.variants.values():
        for state in variant.data.states:
            with collect_problems(problems):
                sources.source_of(variant.data).buildings(variant.data, state)
    if problems:
        raise DataError("\n".join(dict.fromkeys(problems)))


def privacy(options: argparse.Namespace) -> None:
    """Print ε per cell, and what it does not cover."""
    from plfl.federated.privacy import statement

    study = Study.load(options.config)
    tables: list[pd.DataFrame] = []
    notes: dict[str, None] = {}
    for label, variant in study.variants.items():
        table = statement.statements(variant)
        table["cell"] = [f"{label}/{cell}" if label else cell for cell in table["cell"]]
        tables.append(table)
        notes |= dict.fromkeys(statement.remarks_outside(variant))
    all_rows = pd.concat(tables, ignore_index=True)
    all_rows["cell"] = all_rows["cell"].str.rpartition("-")[0]  # ε is the same for all seeds
    headings = {"cell": "cell without its seed", "noise": "noise/C"}
    print(
        print_table(all_rows.drop_duplicates().rename(columns=headings).dropna(axis=1, how="all"))
    )
    if notes:
        note_lines = "".join(f"\n- {note}" for note in notes)
        print(f"\n{statement.THREAT}\n\nOutside of ε:{note_lines}")


def methods(options: argparse.Namespace) -> None:
    """Print what a study can name: its own plug-ins and those of installed packages, too."""
    study = Study.load(options.config) if options.config else None
    algorithms = _algorithms()
    algorithms["plug-ins"] = {
        plugin.origin: plugin.contents for plugin in plugins.active(study.plugins if study else [])
    }
    if options.json:
        print(json.dumps(algorithms, indent=1, ensure_ascii=False))
    else:
        print(FLOATS + yaml.safe_dump(algorithms, sort_keys=False, allow_unicode=True, width=100))


def _algorithms() -> dict[str, dict[str, Any]]:
    """The algorithms by the key of a study that names them, and by name: their `origin`, a package
    or a plug-in; the `citation` of their file; the `floats` of methods that say them (see
    `plfl.interfaces.method.Sizes`); and the defaults of their `parameters`."""
    from plfl.federated import calibration

    def described(block: type[Section], module: ModuleType) -> dict[str, Any]:
        paragraphs = (inspect.getdoc(module) or "").split("\n\n")
        sources = [p.removeprefix("Source: ") for p in paragraphs if p.startswith("Source: ")]
        plugin = plugins.of(block) if issubclass(block, Algorithm) else None
        facts: dict[str, Any] = {
            "origin": plugin.origin if plugin else module.__name__.partition(".")[0],
            "citation": " ".join([*sources, paragraphs[0]][0].split()),
        }
        message_sizes = (
            block().sends if issubclass(block, Method) and "sends" in vars(block) else None
        )
        if message_sizes:
            facts["floats"] = {
                occasion: n for occasion, n in message_sizes._asdict().items() if n != "0"
            }
        facts["parameters"] = block().model_dump(mode="json")
        return facts

    rooms = {"method": of_methods, "server_opt": server, "client_opt": client}
    algorithms = {
        key: {name: described(cls, sys.modules[cls.__module__]) for name, cls in classes.items()}
        for key, classes in ((key, room.available()) for key, room in rooms.items())
    }
    return algorithms | {"federation": {"calibration": described(Calibration, calibration)}}


def schema(_options: argparse.Namespace) -> None:
    """Write the generated files below the working directory and print their paths."""
    print("\n".join(map(str, write(Path()))))
