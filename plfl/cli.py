"""The `plfl` command: what stands beside the workflow."""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from plfl import __version__
from plfl.deploy import commands as deploy
from plfl.errors import ConfigError, PlflError
from plfl.study import Cell, Study

if TYPE_CHECKING:
    import pandas as pd

    from plfl.audit import Progress
    from plfl.data.windows import Dataset


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status: 0, or 2 with a message on what to mend."""
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except PlflError as error:
        print(f"plfl: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("plfl: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader, such as `head`, has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="plfl", description="Personalised federated load forecasting: study, data, results."
    )
    parser.add_argument("--version", action="version", version=f"plfl {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    cells = commands.add_parser("cells", help="what a configuration will run, and for how long")
    cells.add_argument("config", type=Path, nargs="?", default=Path("config.yaml"))
    cells.add_argument("--list", action="store_true", help="print the names of the cells only")
    cells.set_defaults(run=_cells)

    run = commands.add_parser("run", help="train one cell and print its scores")
    run.add_argument("config", type=Path)
    run.add_argument("cell", help="name of a cell as `plfl cells --list` prints it")
    run.add_argument("--records", type=Path, help="write its records to this Parquet file")
    run.set_defaults(run=_run)

    data = commands.add_parser("data", help="the clients' series")
    checks = data.add_subparsers(required=True, metavar="COMMAND")
    check = checks.add_parser("check", help="describe and judge the series of a study or folder")
    check.add_argument(
        "what", type=Path, help="a configuration, or a folder of meters with the default settings"
    )
    check.set_defaults(run=_check)

    track = commands.add_parser("track", help="log what a results folder holds into MLflow")
    track.add_argument("results", type=Path, help="such as results/demo")
    track.set_defaults(run=_track)

    ui = commands.add_parser("ui", help="open a study in the MLflow UI, on this machine only")
    ui.add_argument("results", type=Path, nargs="?", help="such as results/demo; default: latest")
    ui.add_argument("--port", type=int, help="default: that of the study")
    ui.set_defaults(run=_ui)

    claims = commands.add_parser("claims", help="what a study says about the paper's claims")
    claims.add_argument("results", type=Path, help="such as results/demo")
    claims.add_argument("--json", action="store_true", help="print them for machines")
    claims.set_defaults(run=_claims)

    compare = commands.add_parser("compare", help="two studies or two cells, client by client")
    for side in ("a", "b"):
        compare.add_argument(
            side, help="a results folder, or FOLDER:CELL; without its seed a cell means all seeds"
        )
    compare.set_defaults(run=_compare)
    for command in (claims, compare):
        command.add_argument(
            "--round",
            choices=["last", "best_validation"],
            default="last",
            help="the round that is scored (default: last)",
        )

    audit = commands.add_parser("audit", help="what each departure of the authors' code does")
    audit.add_argument("config", type=Path, help="whose data, seeds and rounds are taken")
    audit.set_defaults(run=_audit)

    scarcity = commands.add_parser("scarcity", help="when sharing pays: from weeks to months")
    scarcity.add_argument("config", type=Path, help="such as config/scarcity.yaml")
    scarcity.set_defaults(run=_scarcity)

    deploy.add(commands)

    listed = commands.add_parser("methods", help="the algorithms: citation, parameters, bytes")
    listed.add_argument("--json", action="store_true", help="for machines")
    listed.set_defaults(run=_methods)

    schema = commands.add_parser("schema", help="write config.yaml, its schema and its reference")
    schema.set_defaults(run=_schema)
    return parser


def _cells(options: argparse.Namespace) -> None:
    study = Study.load(options.config)
    if options.list:
        print("\n".join(map(str, study.cells)))
        return
    from plfl.training import choose
    from plfl.workflow import duration
    from plfl.workload import measure, workload

    work = workload(study)
    total = work.drop(columns=["state", "personalization"]).sum()
    print(_table(work.drop(columns="evaluations")))
    speed = measure(study)
    seconds = speed.seconds(work)
    cores = max(1, (os.cpu_count() or 1) // study.compute.threads)
    engine, device = choose(study.compute)
    print(
        f"\n{study.name}: {total['cells']:.0f} cells, {total['trainings']:.0f} trainings, "
        f"{total['client_steps']:,.0f} client-steps, at least {total['megabytes']:,.0f} MB between "
        f"clients and servers\ntraining alone takes about {duration(seconds)} in one job, "
        f"{duration(seconds / cores)} on {cores} cores ({engine} engine on {device}, "
        f"{speed.client_steps:,.0f} client-steps/s measured now; a year of data per client)"
    )


def _run(options: argparse.Namespace) -> None:
    study = Study.load(options.config)
    cells = {str(cell): cell for cell in study.cells}
    if options.cell not in cells:
        from plfl.data.releases import nearest

        problem = f"it has no cell {options.cell!r}{nearest(options.cell, cells)}"
        raise ConfigError(str(options.config), [f"{problem}; see `plfl cells --list`"])
    cell = cells[options.cell]
    if options.records and not options.records.parent.is_dir():
        raise PlflError(f"{options.records}: there is no folder {options.records.parent}; make it")

    from tqdm import tqdm

    from plfl.experiment import train
    from plfl.results.records import write_table

    dataset = _dataset(study, cell.state)
    with tqdm(total=study.federation.rounds, desc=str(cell), unit="round", leave=False) as bar:

        def tell(t: int) -> None:
            bar.update(t - bar.n)

        result = train(study, [cell], dataset, tell)[cell]
    if options.records:
        write_table(result.records, options.records)
    print(_scores(study, cell, result.records))


def _dataset(study: Study, state: str) -> "Dataset":
    from plfl.data import source, windows

    source.fetch(study.data, state)
    return windows.build(source.load(study.data, state), study.windows)


def _scores(study: Study, cell: Cell, records: "pd.DataFrame") -> str:
    from plfl.results.collect import summarise

    summary = summarise(records, study.data.source)
    last = summary[summary["chosen"] == "last"].set_index("model")
    crossed = (last["bytes_down"] + last["bytes_up"]).iloc[0] / 1e6
    sample = " (sample data)" if study.is_sample else ""
    return (
        f"{cell}{sample}: test MASE {last['mase_mean']['local']:.3f} local, "
        f"{last['mase_mean']['global']:.3f} global (mean of {last['mase_clients']['local']} "
        f"clients, round {last['round']['local']}); {crossed:.1f} MB"
    )


def _check(options: argparse.Namespace) -> None:
    study = _folder_study(options.what) if options.what.is_dir() else Study.load(options.what)
    from plfl.data import source
    from plfl.data.describe import describe, judge

    columns = ["rows", "first", "last", "mean", "std", "min", "max", "load_factor"]
    columns += ["persistence_ratio", "gaps", "filled", "features"]
    for state in study.data.states:
        source.fetch(study.data, state)
        tables = source.load(study.data, state)
        interval = study.data.interval
        description = describe(tables, interval, study.windows)
        sample = " (sample data)" if study.is_sample else ""
        print(f"{state}{sample}: {len(tables)} clients, load in kWh per {interval} min")
        print(_table(description[columns].reset_index()))
        worries = judge(description, study.windows)
        print("\n".join(f"- {worry}" for worry in worries) or "nothing to worry about", end="\n\n")


def _folder_study(folder: Path) -> Study:
    from plfl.data.meters import is_series

    found = [path for path in folder.iterdir() if is_series(path)]
    meters = {"folder": str(folder)}
    data = {"source": "meters", "states": ["all"], "clients": max(1, len(found)), "meters": meters}
    return Study.parse({"data": data}, str(folder))


def _track(options: argparse.Namespace) -> None:
    from plfl.results.tables import Tables
    from plfl.tracking import track

    print(track(options.results, Tables(options.results).study.figures))


def _ui(options: argparse.Namespace) -> None:
    from plfl.results.tables import Tables
    from plfl.tracking import serve

    results = options.results or _latest()
    serve(results, options.port or Tables(results).study.tracking.port)


def _latest() -> Path:
    databases = sorted(Path("results").glob("*/mlflow.db"), key=lambda path: path.stat().st_mtime)
    if not databases:
        raise PlflError("results: holds no study with an MLflow database; run `make demo` first")
    return databases[-1].parent


def _claims(options: argparse.Namespace) -> None:
    from plfl.results import claims
    from plfl.results.tables import Tables

    tables = Tables(options.results)
    found = claims.verdicts(tables, options.round)
    if options.json:
        print(json.dumps(claims.as_json(tables, found, options.round), indent=1))
    else:
        print(claims.as_text(tables, found, options.round))


def _compare(options: argparse.Namespace) -> None:
    from plfl.results.compare import as_text, compare

    print(as_text(compare(options.a, options.b, options.round)))


def _audit(options: argparse.Namespace) -> None:
    from plfl import audit

    study = Study.load(options.config)
    with _progress(study.name) as tell:
        table = audit.audit(study, _dataset, tell)
    audit.write(study, table)
    print(audit.as_markdown(study, table), end="")
    _renew_page(study)


def _scarcity(options: argparse.Namespace) -> None:
    from plfl import scarcity

    study = Study.load(options.config)
    with _progress(study.name) as tell:
        table = scarcity.measure(study, _dataset, tell)
    scarcity.write(study, table)
    print(scarcity.as_text(study, table))
    _renew_page(study)


def _renew_page(study: Study) -> None:
    """Have the study's page, if it has one, show what was added to its results."""
    page_path = study.results / "index.html"
    if page_path.exists():
        from plfl import page

        page.write(study.results, study.figures, page_path)
        print(f"{page_path} shows it", file=sys.stderr)


@contextmanager
def _progress(name: str) -> "Iterator[Progress]":
    from tqdm import tqdm

    with tqdm(desc=name, unit="round", leave=False) as bar:

        def tell(what: str, done: int, total: int) -> None:
            bar.total = total
            bar.set_postfix_str(what, refresh=False)
            bar.update(done - bar.n)

        yield tell


def _methods(options: argparse.Namespace) -> None:
    from plfl import catalogue

    print(catalogue.as_json() if options.json else catalogue.as_text())


def _schema(options: argparse.Namespace) -> None:
    from plfl.schema import write

    print("\n".join(map(str, write(Path()))))


def _table(table: "pd.DataFrame") -> str:
    return table.to_string(index=False, float_format="{:,.3g}".format, na_rep="–")
