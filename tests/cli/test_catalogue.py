"""`plfl methods` says what there is."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from plfl.base.errors import PlflError
from plfl.cli import catalogue
from plfl.cli import main as cli
from plfl.cli.catalogue import entries
from plfl.config.sections import Calibration
from plfl.experiments.message_sizes import _as_terms, sizes
from plfl.experiments.train import train
from plfl.optimizers import client as clients
from plfl.optimizers import server as servers
from plfl.plugins import registry
from tests.helpers import tiny
from tests.helpers.refusals import naming


@pytest.fixture(scope="module")
def of() -> dict[tuple[str, str], dict[str, Any]]:
    """The entries, by axis and name."""
    return {(entry["axis"], entry["name"]): entry for entry in entries()}


def test_every_algorithm_is_listed_once_with_what_it_is(
    of: dict[tuple[str, str], dict[str, Any]],
) -> None:
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


def test_what_is_counted_is_what_a_study_sends() -> None:
    """Bytes of the tiny study's last round with P2, which shares an LSTM of 3 units."""
    study = tiny.study(
        grid={
            "method": ["scaffold", "fedeff", "fedac"],
            "client_opt": ["sgd"],
            "server_opt": ["fedavg"],
            "sharing": ["P2"],
        },
        method={"fedeff": {"epoch_steps": 1}},
    )
    dataset = tiny.dataset()
    shared = 4 * 3 * (len(dataset.columns) + 3) + 2 * 4 * 3
    for cell, result in train(study, study.cells, dataset).items():
        last = result.records.query("split == 'train' and round == 3")
        found = sizes(cell.method)
        assert found is not None
        for sent, column in ((found.down, "bytes_down"), (found.up, "bytes_up")):
            assert set(last[column]) == {4 * floats(sent, shared)}, (cell, sent)


def floats(sent: str, shared: int) -> int:
    """What the terms come to where the LSTM is all that is shared."""
    total = 0
    for term in sent.split(" + "):
        number, symbol, _ = term.partition("d_")
        total += int(number or 1) * (shared if symbol else 1)
    return total


def test_what_fits_no_multiple_is_told_as_a_number() -> None:
    terms = np.array([[10, 4, 1], [12, 4, 1], [20, 9, 1]])
    assert _as_terms(terms, np.array([10.0, 12.0, 20.0])) == "d_s"
    assert _as_terms(terms, np.array([24.0, 28.0, 49.0])) == "2 d_s + d_φ"
    assert _as_terms(terms, np.array([0.0, 0.0, 0.0])) == "0"
    assert _as_terms(terms, np.array([3.0, 4.0, 6.0])) == "6 with d_s = 20"


def test_the_command_prints_both_forms(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["methods", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(entries()))
    assert cli.main(["methods"]) == 0
    said = capsys.readouterr().out
    for entry in entries():
        own = said.partition(f"{entry['name']} ({entry['axis']})\n")[2].partition("\n\n")[0]
        assert entry["citation"] in own and entry["about"] in own
        for name, parameter in entry["parameters"].items():
            (value,) = re.findall(rf"  {name} = (.*): {re.escape(parameter['meaning'])}", own)
            assert yaml.safe_load(value) == json.loads(json.dumps(parameter["default"]))


def test_an_algorithm_has_the_name_of_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
        registry.algorithms("room")
