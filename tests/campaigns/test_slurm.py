"""The smoke study on the SLURM cluster of this machine gives the records of a local run."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from shutil import which

import pytest

from tests.helpers.repository import ROOT

SMOKE = ROOT / "config" / "smoke.yaml"
HAS_EXTRA = find_spec("snakemake_executor_plugin_slurm") is not None
pytestmark = [
    pytest.mark.skipif(which("sbatch") is None, reason="this machine belongs to no SLURM cluster"),
    pytest.mark.skipif(not HAS_EXTRA, reason="needs the extra slurm: pip install -e '.[slurm]'"),
]


def records(folder: Path, *options: str) -> tuple[bytes, str]:
    """What the study writes in a folder, and what Snakemake prints."""
    command = [
        *(sys.executable, "-m", "snakemake", "--nocolor", "--directory", str(folder)),
        *("--snakefile", str(ROOT / "Snakefile"), "--configfile", str(SMOKE), *options),
    ]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    run = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=2400)
    assert run.returncode == 0, run.stdout + run.stderr
    return (folder / "results/smoke/records.parquet").read_bytes(), run.stdout + run.stderr


def test_the_smoke_study(tmp_path: Path) -> None:
    profile = str(ROOT / "profiles" / "slurm")
    brisk = ["--slurm-status-command=squeue", "--latency-wait=5"]
    found, text = records(tmp_path / "slurm", "--workflow-profile", profile, *brisk)
    # The training and the baselines; all else runs here.
    assert text.count("has been submitted with SLURM jobid") == 2, text
    assert found == records(tmp_path / "local", "--workflow-profile=none", "--cores=2")[0]
