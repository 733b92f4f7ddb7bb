"""`plfl methods` says what there is."""

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from plfl import catalogue, cli, clients, methods, registry, servers
from plfl.catalogue import entries
from plfl.errors import PlflError

EVERY = [
    (axis, name)
    for axis, package in (("method", methods), ("server_opt", servers), ("client_opt", clients))
    for name in package.available()
]


def test_every_algorithm_is_listed_once() -> None:
    assert [(entry["axis"], entry["name"]) for entry in entries()] == EVERY
    assert {("method", "scaffold"), ("server_opt", "slowmo"), ("client_opt", "sgdm")} < set(EVERY)


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry["name"])
def test_an_algorithm_says_what_it_is_and_what_its_parameters_mean(
    entry: dict[str, Any],
) -> None:
    assert entry["citation"].endswith(".")
    assert entry["about"]
    for name, parameter in entry["parameters"].items():
        assert parameter["meaning"].endswith("."), name


def test_parameters_are_those_of_the_code() -> None:
    of = {(entry["axis"], entry["name"]): entry for entry in entries()}
    for axis, package in catalogue.ROOMS.items():
        for name, cls in package.available().items():
            shown = of[axis, name]["parameters"]
            assert {key: p["default"] for key, p in shown.items()} == cls().model_dump(), name


def test_a_method_names_the_optimisers_that_it_takes() -> None:
    accepts = {e["name"]: e["accepts"] for e in entries() if e["axis"] == "method"}
    assert accepts["fedopt"] == {
        "client_opt": list(clients.available()),
        "server_opt": list(servers.available()),
    }
    assert accepts["cc_fedadam"]["server_opt"] == ["fedavg"]
    assert all(e["accepts"] is None for e in entries() if e["axis"] != "method")


def test_the_command_prints_both_forms(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["methods", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(entries()))
    assert cli.main(["methods"]) == 0
    said = capsys.readouterr().out
    for entry in entries():
        assert f"{entry['name']} ({entry['axis']})\n  {entry['citation']}\n" in said
        for name, parameter in entry["parameters"].items():
            assert f"  {name} = {parameter['default']}: {parameter['meaning']}" in said


def test_an_algorithm_has_the_name_of_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = tmp_path / "room"
    room.mkdir()
    (room / "__init__.py").touch()
    (room / "mine.py").write_text(
        'from plfl.registry import Method\n\n\nclass Mine(Method):\n    name = "fedavg"\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PlflError, match=r"mine.py: Mine has the name 'fedavg'; give the file"):
        registry.methods(importlib.import_module("room"))
