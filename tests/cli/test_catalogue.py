"""`plfl methods` says what there is."""

import json
from typing import Any

import pytest
import yaml

from plfl import methods
from plfl.base.errors import PlflError
from plfl.config.federation import Calibration
from plfl.optimizers import client, server
from plfl.plugins import registry
from tests.helpers.refusals import naming


def test_every_algorithm_is_listed_once_with_what_it_is(invoke: Any) -> None:
    printed = invoke("methods").out
    listed = json.loads(invoke("methods", "--json").out)
    assert yaml.safe_load(printed) == listed
    del listed["plug-ins"]  # those of installed packages
    rooms = {"method": methods, "client_opt": client, "server_opt": server}
    every: dict[str, Any] = {key: room.available() for key, room in rooms.items()}
    every["federation"] = {"calibration": Calibration}
    assert {key: {*entries} for key, entries in listed.items()} == {
        key: {*classes} for key, classes in every.items()
    }
    for key, entries in listed.items():
        for name, entry in entries.items():
            assert entry["citation"].endswith("."), name
            assert entry["parameters"] == every[key][name]().model_dump(mode="json")
    assert "Ozfatura" in listed["federation"]["calibration"]["citation"]
    entries = listed["method"]
    assert entries["ditto"]["origin"] == "plfl"
    assert entries["fafed"]["floats"] == {"down": "3 d_s", "up": "3 d_s", "before_up": "2 d_s"}
    unsaid = {name for name, entry in entries.items() if "floats" not in entry}
    assert unsaid == {"boosting"}  # sums, of which nobody knows the size in advance


def test_an_algorithm_has_the_name_of_its_file(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
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
