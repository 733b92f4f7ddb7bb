"""The benchmark of speed, as far as it runs in a moment."""

import pytest

from benchmarks import speed
from plfl.study import Study


@pytest.mark.parametrize("file", ["recipe", "day-ahead"])
def test_loop_and_engines_train_the_same_model(monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    monkeypatch.setattr(speed, "ROUNDS", 1)
    study = Study.load(speed.CONFIG / f"{file}.yaml")
    measured = speed.rates(speed.Setting(study))  # compares their losses
    assert list(measured) == ["plain loop", "stacked", "fused"]
