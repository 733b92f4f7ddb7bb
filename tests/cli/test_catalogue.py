"""`plfl methods` says what there is."""

import json
import re
from typing import Any

import pytest
import yaml

from plfl.base.errors import PlflError
from plfl.cli import catalogue
from plfl.cli.catalogue import entries
from plfl.config.sections import Calibration
from plfl.optimizers import client as clients
from plfl.optimizers import server as servers
from plfl.plugins import registry
from tests.helpers.refusals import naming


@pytest.fixture(scope="module")
def of() -> dict[tuple[str, str], dict[str, Any]]:
    """The entries, by axis and name."""
    return {(entry["axis"], entry["name"]): entry for entry in entries()}


def test_every_algorithm_is_listed_once_with_what_it_is(of):
    every = {
        (axis, name): cls
        for axis, package in catalogue.ROOMS.items()
        for name, cls in package.available().items()
    } | {("calibration", "calibration"): Calibration}
    assert sorted(of) == sorted(every) and len(entries()) == len(every)
    for key, entry in of.items():
        assert entry["citation"].endswith(".") and entry["about"]
        parameters = entry["parameters"]
        assert all(parameter["meaning"].endswith(".") for parameter in parameters.values()), key
        assert {name: p["default"] for name, p in parameters.items()} == every[key]().model_dump()
        assert (entry["accepts"] is not None) == (key[0] == "method")
    accepts = of["method", "fedopt"]["accepts"]
    assert accepts["client_opt"] == list(clients.available())
    assert accepts["server_opt"] == list(servers.available())
    assert of["method", "cc_fedadam"]["accepts"]["server_opt"] == ["fedavg"]
    assert "Ozfatura" in of["calibration", "calibration"]["citation"]
    assert set(of["calibration", "calibration"]["floats"].values()) == {"0"}
    unsaid = {
        name for (axis, name), entry in of.items() if axis == "method" and not entry["floats"]
    }
    assert unsaid == {"boosting"}  # sums, of which nobody knows the size in advance


def test_the_command_prints_both_forms(invoke) -> None:
    assert json.loads(invoke("methods", "--json").out) == json.loads(json.dumps(entries()))
    said = invoke("methods").out
    for entry in entries():
        own = said.partition(f"{entry['name']} ({entry['axis']})\n")[2].partition("\n\n")[0]
        assert entry["citation"] in own and entry["about"] in own
        for name, parameter in entry["parameters"].items():
            (value,) = re.findall(rf"  {name} = (.*): {re.escape(parameter['meaning'])}", own)
            assert yaml.safe_load(value) == json.loads(json.dumps(parameter["default"]))


def test_an_algorithm_has_the_name_of_its_file(tmp_path, monkeypatch):
    room = tmp_path / "room"
    room.mkdir()
    (room / "__init__.py").touch()
    (room / "mine.py").write_text(
        "from plfl.plugins.registry import Algorithm\n\n\n"
        'class Mine(Algorithm):\n    name = "fedavg"\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    with naming(PlflError, "mine.py", "'fedavg'"):
        registry.available("room", registry.Algorithm)
