"""The benchmarks of speed, as far as they run in a moment and without a GPU."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import speed
    import speed_gpu

    monkeypatch.setattr(speed, "ROUNDS", 1)
    monkeypatch.setattr(speed_gpu, "REPEATS", 1)
    return speed_gpu


@pytest.mark.parametrize("file", ["recipe", "day-ahead"])
def test_loop_and_engines_train_the_same_model(load: ModuleType, file: str) -> None:
    from speed import CONFIG, Setting, Study, rates

    measured = rates(Setting(Study.load(CONFIG / f"{file}.yaml")))  # compares their losses
    assert list(measured) == ["plain loop", "stacked", "fused"]


def test_every_way_trains_on_a_cpu(load, monkeypatch, capsys):
    options = ["--device", "cpu", "--models", "1", "--steps", "1"]
    monkeypatch.setattr(sys, "argv", ["speed_gpu.py", *options])
    load.main()
    head, _, row = capsys.readouterr().out.splitlines()[-3:]
    assert head.count("|") == row.count("|") == 7
    assert all(float(rate) > 0 for rate in re.findall(r"\d+", row.replace(",", ""))[:-2])
