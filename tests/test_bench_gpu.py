"""The benchmark of a GPU, as far as it runs without one."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def bench_gpu(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import bench_gpu

    return bench_gpu


def test_every_way_trains_on_a_cpu(
    bench_gpu: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--device", "cpu", "--models", "1", "--steps", "1", "--studies"]
    monkeypatch.setattr(sys, "argv", ["bench_gpu.py", *options])
    monkeypatch.setattr(bench_gpu, "REPEATS", 1)
    bench_gpu.main()
    head, _, row, _, constants = capsys.readouterr().out.splitlines()[-5:]
    assert head.count("|") == row.count("|") == 8
    assert all(float(rate) > 0 for rate in re.findall(r"\d+", row.replace(",", ""))[:-2])
    gpu, launches = map(float, re.findall(r"[\d.]+e-\d+|0\.\d+", constants))
    assert gpu == launches > 0, "one row has a single model"
