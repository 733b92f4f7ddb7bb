"""The benchmark of a GPU, as far as it runs without one."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[1]


def bench(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "benchmarks/bench_gpu.py", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_every_way_trains_on_a_cpu() -> None:
    run = bench("--device", "cpu", "--models", "2", "--steps", "2", "--studies")
    assert run.returncode == 0, run.stderr
    head, _, row = run.stdout.splitlines()[-3:]
    assert head.count("|") == row.count("|") == 8
    assert all(float(rate) > 0 for rate in re.findall(r"[\d,]+", row.replace(",", "")))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so() -> None:
    run = bench()
    assert run.returncode == 1
    assert run.stderr == "torch finds no GPU; this benchmark needs one, or --device cpu\n"


@pytest.mark.parametrize(
    ("file", "source"), [("config.yaml", "sample"), ("config/lab.yaml", "digits")]
)
def test_studies_need_no_download(monkeypatch: pytest.MonkeyPatch, file: str, source: str) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import bench_gpu

    study = bench_gpu.study_on(ROOT / file, "cpu", 2)
    assert study["data"]["source"] == source
    assert study["grid"]["seeds"] == [1, 2]
    assert study["compute"]["device"] == "cpu"
