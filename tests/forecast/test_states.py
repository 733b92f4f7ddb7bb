"""Forecasters of a study with several states, each of which has models of its own."""

from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from plfl.forecast import known_readings
from plfl.forecast.choice import Forecasters

FILES = {"a": "a/P1.safetensors", "b": "b/P1.safetensors"}


@pytest.mark.parametrize("state", FILES)
def test_new_readings_are_checked_by_a_model_of_the_clients_state(
    state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check_unit(client: str, load: pd.Series, loads_of: Path, _: int) -> None:
        assert loads_of == tmp_path / "models" / FILES[state]
        checked.append((load.tolist(), client))

    def model(_: Forecasters, file: Path) -> SimpleNamespace:
        files = SimpleNamespace(bridge=lambda rows, _: rows)
        return SimpleNamespace(interval=60, load_range=lambda _: file, meter_files=files)

    def readings(start: str, load: float) -> pd.DataFrame:
        return pd.DataFrame({"load": load}, pd.date_range(start, periods=3, freq="h"))

    checked: list[tuple[list[float], str]] = []
    monkeypatch.setattr(Forecasters, "model", model)
    monkeypatch.setattr(known_readings, "check_unit", check_unit)
    forecasters = Forecasters(tmp_path, accepts_misfits=True)
    vars(forecasters).update(
        tables_folder=tmp_path,
        index=pd.DataFrame({"state": [*FILES], "file": [*FILES.values()]}),
        clients={f"{name}0": name for name in FILES},
    )
    vars(forecasters.known_readings).update(
        study_readings={f"{name}0": readings("2024-01-01 01:00", 1.0) for name in FILES},
        recent_readings={},
    )
    joined = forecasters.known_readings.with_earlier(f"{state}0", readings("2024-01-01 04:00", 2.0))
    assert checked == [([2.0] * 3, f"{state}0")]
    assert joined["load"].tolist() == [1.0] * 3 + [2.0] * 3
