"""The time that `plfl cells` says of a small study, beside the processor time that it takes.

On a busy machine every step takes more processor time, so the campaign needs a quiet one.
"""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from plfl.experiments.workload import measured_speed, seconds, workload
from plfl.study import Study
from tests.helpers.repository import ROOT

SMOKE = ROOT / "config" / "smoke.yaml"
pytestmark = pytest.mark.skipif(
    os.getloadavg()[0] > (os.cpu_count() or 1), reason="other programs keep this machine busy"
)


def processor_time() -> float:
    """Seconds of all processes that this one has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_the_smoke_study_takes_what_was_said(tmp_path: Path) -> None:
    study = Study.load(SMOKE)
    works = {label: workload(variant) for label, variant in study.variants.items()}
    low, high = seconds(study, works, measured_speed(next(iter(study.variants.values()))))
    before = processor_time()
    command = [sys.executable, "-m", "plfl", "study", str(SMOKE), "--cores", "1"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    taken = processor_time() - before
    print(f"said {low:.0f} to {high:.0f} s, taken {taken:.0f} s")
    assert low <= taken <= high
