"""The `plfl` command."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import yaml

from plfl.cli import main as cli
from plfl.cli.commands import COMMANDS
from plfl.results.words import describe_times
from plfl.study import Study
from tests.helpers.projects import CELL, write_meters
from tests.helpers.repository import ROOT

NAMES = [*COMMANDS]


def test_only_studies_of_loads_say_what_a_forecast_reads(project: Path) -> None:
    assert "a forecast reads the last" in describe_times(Study.load("my.yaml"))
    assert describe_times(Study.load(ROOT / "config" / "label-skew.yaml")) == ""


def test_cells_says_what_will_run(project: Path, invoke) -> None:
    said = invoke("cells", "my.yaml").out
    # P1 and P2 are trained under both servers, P3 once: 5 trainings of 3 clients.
    assert "6 cells, 5 trainings, 90 client-steps" in said
    # P1 under both servers: 2 trainings of 3 clients and 2 rounds, both ways, 4 bytes a number.
    numbers = Study.load("my.yaml").plan.layout.width
    assert re.search(rf"P1 .* {2 * 3 * 2 * 2 * 4 * numbers / 1000:.3g} kB$", said, re.MULTILINE)
    assert CELL in invoke("cells", "--list", "my.yaml").out.split()


def test_cells_counts_the_public_models_of_a_study(project: Path, invoke: Callable) -> None:
    config = yaml.safe_load((project / "my.yaml").read_text())
    (project / "my.yaml").write_text(yaml.safe_dump(config | {"public": {"kind": "homes"}}))
    assert "5 trainings, 1 public model of homes, 90 client" in invoke("cells", "my.yaml").out


def test_a_variant_has_cells_but_no_workflow(project: Path, invoke: Callable) -> None:
    config = yaml.safe_load((project / "my.yaml").read_text())
    config["grid"] |= {"federation.participation": [0.5, 1.0]}
    (project / "my.yaml").write_text(yaml.safe_dump(config))
    variant = "my.yaml:participation=0.5"
    assert "next: plfl study my.yaml\n" in invoke("cells", variant).out
    refusal = invoke("study", variant, status=2).err
    assert f"{variant}: is a variant" in refusal
    assert "write plfl study my.yaml" in refusal


def test_cells_names_the_claims_that_are_left_out(project: Path, invoke) -> None:
    config = yaml.safe_load((project / "my.yaml").read_text())
    named = {"better": "P1", "than": "P3", "where": {"data.states": "al"}}
    config["claims"] = [{"better": "P2", "than": "P1"}, named]
    (project / "my.yaml").write_text(yaml.safe_dump(config))
    (note,) = re.findall("^note: (claims.*)$", invoke("cells", "my.yaml").out, re.MULTILINE)
    assert note.startswith("claims.1 is left out, because it is about al,")
    assert note.endswith("did you mean 'all'?")


def test_run_trains_a_cell(project: Path, invoke) -> None:
    said = invoke("run", "my.yaml", CELL, "--records", "r.parquet").out.strip()
    records = pd.read_parquet("r.parquet")
    test = records.query("split == 'test' and model == 'local' and round == 2")
    assert said.startswith(f"{CELL}: test MASE {test['mase'].mean():.3f} local, ")
    assert "mean of 3 clients, round 2" in said


def test_data_check_lists_the_errors_of_all_states(project, invoke):
    config = yaml.safe_load((project / "my.yaml").read_text())
    config["data"] |= {"states": ["north", "west", "south"], "clients": 1}
    (project / "my.yaml").write_text(yaml.safe_dump(config))
    write_meters(project / "meters" / "west")
    for state in ("north", "south"):
        (project / "meters" / state).mkdir()
        (project / "meters" / state / "a.csv").write_text("timestamp,load\n2018-01-01,much\n,\n")
    said = invoke("data", "check", "my.yaml", status=2)
    assert "west: 1 meter," in said.out
    for state in ("north", "south"):
        assert f"meters/{state}/a.csv" in said.err


def test_data_check_describes_and_judges(project: Path, invoke) -> None:
    (project / "meters" / "._a.csv").write_bytes(b"what some systems leave behind")
    study_lines, _, then = invoke("data", "check", "my.yaml").out.partition("next: ")
    assert then == "plfl cells my.yaml, then plfl study my.yaml\n"
    assert "only 2.0 weeks of data" in study_lines
    assert [line.split()[0] for line in study_lines.splitlines() if " 1344 " in line] == [*"abc"]
    assert {path.name for path in project.iterdir()} == {"meters", "my.yaml"}


def test_data_check_has_one_line_for_each_meter_with_what_was_changed(
    project: Path, invoke
) -> None:
    table = pd.read_csv(project / "meters/b.csv")
    table.drop([*range(50, 60), 700]).to_csv(project / "meters/b.csv", index=False)
    printed = invoke("data", "check", "my.yaml").out.splitlines()
    (line,) = [line for line in printed if "b" in line.split()[:1]]
    assert "missing: 11, gaps: 2, longest gap: 2.5 hours" in line
    assert "1 missing reading in 1 gap" in line and "filled with the reading before" in line
    kwh = float(line.split()[5].replace(",", ""))
    assert 0.98 < kwh / table["load"].sum() < 1
    assert sum("2.5 hours" in line for line in printed) == 1


def test_data_check_has_one_clock_for_first_last_and_gaps(project: Path, invoke: Callable) -> None:
    starts = pd.date_range("2024-07-01", "2024-07-28 23:00", freq="h")
    table = pd.DataFrame({"timestamp": starts, "load": 1 + starts.hour / 24})
    Path("summer").mkdir()
    for name in "abc":
        table.drop([*range(100, 110)]).to_csv(f"summer/{name}.csv", index=False)
    meters = {"exports": ["summer"], "timezone": "Europe/Berlin", "stamp": "start", "interval": 60}
    config = yaml.safe_load(Path("my.yaml").read_text())
    config["data"]["meters"] = {**meters, "timezones": {"c": "Asia/Kolkata"}}
    Path("my.yaml").write_text(yaml.safe_dump(config))
    printed = invoke("data", "check", "my.yaml").out.splitlines()
    assert "times below are local, with daylight saving time, and starts of intervals" in printed
    for name in "bc":
        (line,) = [line for line in printed if name in line.split()[:1]]
        assert line.split()[2:5] == ["2024-07-01", "2024-07-28", "23:00:00"]
        assert "longest gap: 10 hours from 2024-07-05 04:00" in line


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ({"windows": {"horizons": 1000}}, "rows, but one window needs 1015"),
        ({"grid": {"windows.horizons": [1, 1000]}}, "rows, but one window needs 1015"),
        (
            {"grid": {"data.resample": [30, 60]}, "windows": {"look_back": 50}},
            "has 33 rows, but one window needs 54",
        ),
        ({"federation": {"batch_size": 2000}}, "training windows are fewer than federation.batch"),
        (
            {
                "sharing": {"P1": ["*"], "new": {"join": "unseen", "history": 1}},
                "grid": {
                    "client_opt": ["adam"],
                    "server_opt": ["fedavg"],
                    "sharing": ["P1", "new"],
                },
                "windows": {"scaling": "per_client"},
                "federation": {"batch_size": 600},
            },
            "training windows as a new client (`history` of a sharing scheme) are fewer than",
        ),
        ({"task": {"conformal": "personal", "level": 0.999}}, "task.conformal needs 999 for the w"),
        ({"data": {"source": "digits", "states": ["d"], "clients": 10}}, "digits has images"),
    ],
)
def test_data_check_finds_what_a_study_would_refuse(project, blocks, message, invoke):
    config = yaml.safe_load((project / "my.yaml").read_text())
    if "data" in blocks:
        config = {"name": "own", "model": {"name": "cnn"}, "task": {"name": "classify"}}
    (project / "my.yaml").write_text(yaml.safe_dump(config | blocks))
    said = invoke("data", "check", "my.yaml", status=2)
    assert message in said.err and "no problems" not in said.out


def test_data_check_says_that_the_meters_trained_the_public_model(
    project: Path, invoke: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("plfl.baselines.public.is_seen", lambda *_: True)
    config = yaml.safe_load((project / "my.yaml").read_text())
    public = {"name": "public", "kind": "homes"}
    further = [public, public | {"name": "lightgbm_on_public"}]
    (project / "my.yaml").write_text(yaml.safe_dump(config | {"baselines": {"further": further}}))
    said = invoke("data", "check", "my.yaml", status=2)
    assert said.err.count("the public model of homes was trained on readings of a") == 1
    assert "set `trained_on_this_dataset: true`" in said.err and "no problems" not in said.out
    public["trained_on_this_dataset"] = True
    (project / "my.yaml").write_text(yaml.safe_dump(config | {"baselines": {"further": [public]}}))
    assert "next: plfl cells" in invoke("data", "check", "my.yaml").out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["cells", "none.yaml"], "the file does not exist"),
        (["cells", "far.yaml"], "list ids in data.buildings.WA"),
        (["run", "my.yaml", "all-P2-fedopt-adam-fedavg-11"], f"did you mean {CELL!r}?"),
        (["study", "empty.yaml"], "empty: holds no meter files"),
        (["ui"], "mlruns.db: there is no such database"),
        (["track", "my.yaml"], "results/own: holds no study"),
        (["init", "dem"], "did you mean 'demo'?"),
    ],
)
def test_mistakes_end_with_a_message(project, arguments, message, invoke):
    (project / "empty").mkdir()
    keys = "source: meters, states: [all], clients: 3, meters: {folder: empty}"
    (project / "empty.yaml").write_text(f"data: {{{keys}}}")
    (project / "far.yaml").write_text("data: {states: [CA, WA]}")
    said = invoke(*arguments, status=2).err
    assert said.startswith("plfl: ")
    assert message in said


@pytest.mark.parametrize("command", [["init"], ["data", "check", "my.yaml"]])
def test_a_reader_that_has_gone_ends_the_command_in_silence(project: Path, command) -> None:
    ends = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-m", "plfl", *command], cwd=project, **ends) as child:
        child.stdout.close()
        errors = child.stderr.read()
    assert (child.returncode, errors) == (1, "")


Help = Callable[..., str]


@pytest.fixture
def help_of(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Help:
    """What `plfl COMMAND --help` prints on a terminal of usual width."""
    monkeypatch.setenv("COLUMNS", "80")

    def printed(*command: str) -> str:
        with pytest.raises(SystemExit) as end:
            cli.main([*command, "--help"])
        assert end.value.code == 0
        return capsys.readouterr().out

    return printed


LEAVES = sorted({*NAMES} - {"data", "deploy", "leaderboard"})
"""The commands without subcommands."""


@pytest.mark.parametrize(
    "name", [*LEAVES, "data check", "data formats", "data fetch", "leaderboard add"]
)
def test_the_help_of_a_command_ends_with_examples(name: str, help_of: Help) -> None:
    _, examples = help_of(*name.split()).split("\nexamples:\n")
    commands = [re.split("[#>]", line)[0].split() for line in examples.splitlines()]
    for program, *arguments in commands:
        assert program == "plfl"
        assert arguments[: len(name.split())] == name.split()
        cli.build_parser(arguments).parse_args(arguments)


def test_a_command_that_is_called_needs_no_other_one() -> None:
    assert "backtest" in cli.build_parser(["-h", "cells"]).format_help()
    assert "backtest" not in cli.build_parser(["cells"]).format_help()


@pytest.mark.parametrize("command", ["run", "compare"])
def test_the_cells_in_examples_are_those_of_the_demo(command: str, help_of: Help) -> None:
    demo = Study.load(ROOT / "config" / "demo.yaml")
    baselines = {f"NY-baseline-{name}" for name in demo.baselines.names}
    cells = {*map(str, demo.cells)}
    known = baselines | cells | {name.rpartition("-")[0] for name in cells}
    assert set(re.findall(r"NY-[\w-]+", help_of(command))) <= known


@pytest.mark.parametrize("command", ["server", "client"])
def test_options_of_deploy_may_stand_before_its_command(command: str) -> None:
    shared = ["--config", "mine.yaml", "--cell", "P2", "--rounds", "3"]
    shared += ["--minimum", "2", "--patience", "5", "--timeout", "6"] * (command == "server")
    words = ["--building", "a", "--keys", "a"] if command == "client" else []
    before = cli.build_parser(["deploy"]).parse_args(["deploy", *shared, command, *words])
    after = cli.build_parser(["deploy"]).parse_args(["deploy", command, *words, *shared])
    assert before == after and before.config == Path("mine.yaml")
    plain = cli.build_parser(["deploy"]).parse_args(["deploy", command, *words])
    assert plain.config == Path("config.yaml") and plain.rounds is None


@pytest.mark.parametrize("command", ["forecast", "backtest"])
def test_options_may_stand_between_files(command: str) -> None:
    words = [command, "model.safetensors", "--trust", "own.py", "new.csv", "--wide"]
    words = words if command == "forecast" else words[:-1]
    options = cli.build_parser(words).parse_args(words)
    assert [path.name for path in options.paths] == ["model.safetensors", "new.csv"]
    assert [path.name for path in options.trust] == ["own.py"]
