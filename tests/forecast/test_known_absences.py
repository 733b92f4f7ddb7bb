"""The example of docs/inputs.md: a column of the user's own says when nobody is there."""

import re
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

import plfl
from tests.helpers.repository import ROOT


def test_absences_are_read_at_the_target_and_after_the_last_load(
    here: Path, invoke: Callable
) -> None:
    page = (ROOT / "docs" / "inputs.md").read_text(encoding="utf-8")
    _, section = page.split("### Vacations")
    table, keys = re.findall(r"^```(?:yaml)?\n(.*?)^```", section, re.M | re.S)[:2]
    (command,) = re.findall(r"`plfl (init meters home.csv [^`]*)`", section)
    # Weeks before the example, in its form; its own rows are the last ones.
    stamps = pd.date_range("2024-06-17 00:00", "2024-07-12 21:00", freq="h")
    load = (0.3 + 0.2 * np.sin(stamps.hour / 24 * 2 * np.pi)).round(3)
    away = (stamps.day == 25).astype(int)
    times = stamps.strftime("%Y-%m-%d %H:%M")
    header, *rows = table.splitlines()
    written = [f"{t},{kwh},{a}" for t, kwh, a in zip(times, load, away, strict=True)]
    Path("home.csv").write_text("\n".join([header, *written, *rows]) + "\n")
    invoke(*command.split())
    study, example = yaml.safe_load(Path("meters.yaml").read_text()), yaml.safe_load(keys)
    stated = example["data"].pop("meters")
    assert {**study["data"], **example["data"]} == study["data"]
    assert {**study["data"]["meters"], **stated} == study["data"]["meters"]
    # "without the last two lines"; and small.
    assert keys.splitlines()[-2:] == [
        "  covariates:",
        "    - {name: known_future, features: [away]}",
    ]
    study["windows"] |= {"look_back": 3, "horizons": 1, **example["windows"]}
    study["model"], study["federation"] = {"name": "linear"}, {"rounds": 1, "local_steps": 2}
    study["grid"] = {
        "sharing": ["P3"], "client_opt": ["adam"], "server_opt": ["fedavg"], "seeds": [1]
    }  # fmt: skip
    study = {key: study[key] for key in ("name", "data", "windows", "model", "federation", "grid")}
    Path("small.yaml").write_text(yaml.safe_dump(study))
    (client,) = plfl.clients("small.yaml")
    known = client.C_train[:, 0]
    assert sorted(set(known)) == [0, 1] and (known == 1).sum() == 24
    invoke("run", "small.yaml", "all-P3-fedopt-adam-fedavg-1", "--models", "m.safetensors")
    printed = invoke("forecast", "m.safetensors", "home.csv").out
    (made_at,) = pd.read_csv(StringIO(printed))["made_at"]
    assert made_at.startswith("2024-07-12 23:00")  # of the last row with a load
    Path("cut").mkdir()
    text = Path("home.csv").read_text().partition("2024-07-13")[0]
    Path("cut", "home.csv").write_text(text)
    said = invoke("forecast", "m.safetensors", "cut/home.csv", status=2).err
    assert "away must be known for 1 interval after it; add rows with it" in said
