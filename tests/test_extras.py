"""The package without its extras: trains, forecasts, backtests and scores; says what is missing."""

import json
import tomllib
from contextlib import chdir
from pathlib import Path

import pandas as pd
import pytest
import yaml
from packaging.requirements import Requirement

import plfl
from plfl.base.extras import EXTRAS
from tests.helpers.extras import run_without
from tests.helpers.projects import write_meters
from tests.helpers.repository import ROOT

ABSENT = {name for packages in EXTRAS.values() for name in packages} | {
    *("botocore", "s3transfer", "pygments", "dp_accounting", "PLD_accounting", "threadpoolctl"),
}
"""The packages that no part of the core may need."""
IMPORTED_AS = {"scikit-posthocs": "scikit_posthocs", "vl-convert-python": "vl_convert"}
ONLY_USED_BY_OTHERS = {"pygments"}
"""Packages of extras that plfl does not import itself."""


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study of own meters."""
    folder = tmp_path_factory.mktemp("core")
    write_meters(folder / "meters", days=21)
    raw = {
        "name": "own",
        "data": {"source": "meters", "states": ["all"], "clients": 3, "features": ["load"]},
        "model": {"name": "mlp"},
        "grid": {"client_opt": ["adam"], "server_opt": ["fedavg"], "sharing": ["P2"]},
        "federation": {"rounds": 1, "local_steps": 3},
        "baselines": {"trees": 5},
    }
    (folder / "own.yaml").write_text(yaml.safe_dump(raw))
    return folder


def run_commands(folder: Path, commands: list[list[str]]) -> list[tuple[int, str]]:
    """The exit status and all output of commands, one after the other, where no extra is
    installed."""
    code = f"""
import contextlib, io, json
from plfl.cli.main import main
found = []
for command in {commands!r}:
    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(said):
        status = main(command)
    found.append((status, said.getvalue()))
print(json.dumps(found))
"""
    done = run_without(ABSENT, code, folder)
    assert done.returncode == 0, done.stderr
    return [(status, said) for status, said in json.loads(done.stdout)]


def test_every_package_of_an_extra_is_looked_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for extra, packages in EXTRAS.items():
        requirements = project["optional-dependencies"][extra]
        named = map(Requirement, requirements)
        names = {IMPORTED_AS.get(one.name, one.name) for one in named} - ONLY_USED_BY_OTHERS
        if "plfl" in names:  # another extra
            (others,) = (one.extras for one in map(Requirement, requirements) if one.extras)
            names = names - {"plfl"} | {name for other in others for name in EXTRAS[other]}
        assert names == {*packages}, extra


def test_all_is_every_extra_of_users() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    (everything,) = map(Requirement, extras["all"])
    assert everything.extras == extras.keys() - {"all", "docs", "dev"}


def test_the_api_trains_and_makes_clients(core: Path) -> None:
    code = """
import plfl
study = plfl.Study.load("own.yaml")
results = plfl.train(study, study.cells, plfl.load_dataset(study, "all"))
assert set(results) == set(study.cells)
assert {client.name for client in plfl.clients(study)} == set("abc")
"""
    done = run_without(ABSENT, code, core)
    assert done.returncode == 0, done.stderr


def test_every_module_but_those_of_extras_can_be_imported(tmp_path: Path) -> None:
    code = """
import importlib, pkgutil, plfl, plfl_images, plfl_reproductions
for package in (plfl, plfl_images, plfl_reproductions):
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if info.name.partition(".")[2] == "__main__":
            continue
        try:
            importlib.import_module(info.name)
        except ModuleNotFoundError as error:
            print(info.name, error.name)
"""
    done = run_without(ABSENT, code, tmp_path)
    assert done.returncode == 0, done.stderr
    needing = {tuple(line.split()) for line in done.stdout.splitlines()}
    rooms = {
        "plfl.report": {*EXTRAS["study"]},
        "plfl_images.report": {*EXTRAS["study"]},
        "plfl.publish": {*EXTRAS["study"]},
        "plfl.data.comstock.download": {"boto3"},
        "plfl.deploy": {"flwr", "cryptography"},
    }
    for module, package in needing:
        allowed = [room for room in rooms if module.startswith(room) and package in rooms[room]]
        assert allowed, f"{module} needs {package}"


def test_the_core_trains_forecasts_backtests_and_scores(core: Path) -> None:
    write_predictions(core / "p.parquet", core)
    commands = [
        ["cells", "own.yaml"],
        ["data", "check", "own.yaml"],
        ["run", "own.yaml", "all-P2-fedopt-adam-fedavg-10", "--models", "m.safetensors"],
        ["forecast", "m.safetensors", "meters/a.csv"],
        [
            "backtest",
            "meters",
            "--kind",
            "buildings",
            "--timezone",
            "Europe/Berlin",
            "--read-as",
            "kWh",
        ],
        ["score", "own.yaml", "p.parquet", "--submit", "board.csv", "--method", "truth"],
        ["methods"],
        ["privacy", "own.yaml"],
    ]
    for command, (status, said) in zip(commands, run_commands(core, commands), strict=True):
        assert status == 0, (command, said)


def write_predictions(path: Path, folder: Path) -> None:
    """Predictions without an error of the study in a folder."""
    with chdir(folder):
        clients = plfl.clients("own.yaml")
        pd.concat([client.predictions(client.y_test) for client in clients]).to_parquet(path)


NEEDING = {
    "plfl study own.yaml": "study",
    "plfl report results/own": "study",
    "plfl backtest results/own meters --plot x.svg": "study",
    "plfl publish results/own --to crate": "publish",
    "plfl ui": "mlflow",
    "plfl deploy check": "deploy",
    "plfl run far.yaml NY-P2-fedopt-adam-fedavg-10": "comstock",
}
"""Commands, and the extra that each needs."""


def test_a_command_without_its_extra_says_how_to_install_it(core: Path) -> None:
    far = {"data": {"states": ["NY"], "clients": 1}}
    (core / "far.yaml").write_text(yaml.safe_dump(far))
    found = run_commands(core, [command.split()[1:] for command in NEEDING])
    for (command, extra), (status, said) in zip(NEEDING.items(), found, strict=True):
        (line,) = said.splitlines()
        assert (status, line[:6]) == (2, "plfl: "), command
        assert line.endswith(f"run pip install 'plfl[{extra}]'"), command
