"""The package without its extras: trains, forecasts, backtests and scores; says what is missing."""

import json
import tomllib
from contextlib import chdir
from typing import Any

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


COMMANDS = [
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
"""Commands of the core."""
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
CODE = f"""
import contextlib, importlib, io, json, pkgutil, traceback
from plfl.cli.main import main

def run(command):
    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(said):
        status = main(command)
    return status, said.getvalue()

found = {{"needing": [run(command.split()[1:]) for command in {[*NEEDING]!r}]}}
found["core"] = [run(command) for command in {COMMANDS!r}]

import plfl, plfl_images, plfl_reproductions
try:
    study = plfl.Study.load("own.yaml")
    results = plfl.train(study, study.cells, plfl.load_dataset(study, "all"))
    assert set(results) == set(study.cells)
    assert {{client.name for client in plfl.clients(study)}} == set("abc")
    found["api"] = ""
except Exception:
    found["api"] = traceback.format_exc()

found["modules"] = []
for package in (plfl, plfl_images, plfl_reproductions):
    for info in pkgutil.walk_packages(package.__path__, f"{{package.__name__}}."):
        if info.name.partition(".")[2] == "__main__":
            continue
        try:
            importlib.import_module(info.name)
        except ModuleNotFoundError as error:
            found["modules"].append((info.name, error.name))
print(json.dumps(found))
"""
"""What these tests do where no extra is installed, in one process: to import PyTorch takes longer
than most of it."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `CODE` found in a folder with a study of own meters."""
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
    far = {"data": {"states": ["NY"], "clients": 1}}
    (folder / "far.yaml").write_text(yaml.safe_dump(far))
    with chdir(folder):  # predictions without an error
        clients = plfl.clients("own.yaml")
        pd.concat([client.predictions(client.y_test) for client in clients]).to_parquet("p.parquet")
    done = run_without(ABSENT, CODE, folder)
    assert done.returncode == 0, done.stderr
    answers: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answers


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


def test_the_api_trains_and_makes_clients(found: dict[str, Any]) -> None:
    assert found["api"] == ""


def test_every_module_but_those_of_extras_can_be_imported(found: dict[str, Any]) -> None:
    rooms = {
        "plfl.report": {*EXTRAS["study"]},
        "plfl_images.report": {*EXTRAS["study"]},
        "plfl.publish": {*EXTRAS["study"]},
        "plfl.data.comstock.download": {"boto3"},
        "plfl.deploy": {"flwr", "cryptography"},
    }
    for module, package in found["modules"]:
        allowed = [room for room in rooms if module.startswith(room) and package in rooms[room]]
        assert allowed, f"{module} needs {package}"


def test_the_core_trains_forecasts_backtests_and_scores(found: dict[str, Any]) -> None:
    for command, (status, said) in zip(COMMANDS, found["core"], strict=True):
        assert status == 0, (command, said)


def test_a_command_without_its_extra_says_how_to_install_it(found: dict[str, Any]) -> None:
    for (command, extra), (status, said) in zip(NEEDING.items(), found["needing"], strict=True):
        (line,) = said.splitlines()
        assert (status, line[:6]) == (2, "plfl: "), command
        assert line.endswith(f"run pip install 'plfl[{extra}]'"), command
