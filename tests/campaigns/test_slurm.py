"""The workflow on a real SLURM cluster of this machine; needs root, SLURM and the extra `slurm`."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest
import yaml

from tests.helpers.repository import ROOT

SLURM = os.environ.get("PLFL_SLURM")
HAS_EXTRA = find_spec("snakemake_executor_plugin_slurm") is not None
# Marks, as a module that is skipped as a whole counts as no tests at all, which is an error.
pytestmark = [
    pytest.mark.skipif(SLURM is None, reason="needs SLURM: make campaign NAME=slurm"),
    pytest.mark.skipif(not HAS_EXTRA, reason="needs the extra slurm: pip install -e '.[slurm]'"),
]

SMOKE = ROOT / "config" / "smoke.yaml"
# The test cluster keeps no accounts, and need not be treated gently.
BRISK = [
    "--slurm-status-command=squeue",
    "--slurm-init-seconds-before-status-checks=2",
    "--latency-wait=5",
]
PATIENCE = 2400
"""Seconds after which a run is taken to hang; a busy machine may be slow."""
UP_TO_RECORDS = ["--until", "collect"]


def snakemake(folder: Path, study: Path, *options: str) -> subprocess.Popen[str]:
    """The workflow of this checkout, begun in a folder of its own."""
    command = [
        *(sys.executable, "-m", "snakemake", "--nocolor"),
        *("--snakefile", str(ROOT / "Snakefile"), "--directory", str(folder)),
        *("--configfile", str(study), *options),
    ]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )


def on_slurm(folder: Path, study: Path, *options: str) -> subprocess.Popen[str]:
    profile = str(ROOT / "profiles" / "slurm")
    return snakemake(folder, study, "--workflow-profile", profile, *BRISK, *options)


def output(process: subprocess.Popen[str]) -> str:
    """What a run printed; it must have succeeded."""
    text, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, text
    return text


def records(folder: Path, study: Path) -> bytes:
    name: str = yaml.safe_load(study.read_text(encoding="utf-8"))["name"]
    return (folder / "results" / name / "records.parquet").read_bytes()


def local_records(folder: Path, study: Path) -> bytes:
    """The same study on this machine alone."""
    output(snakemake(folder, study, "--workflow-profile=none", "--cores=2", *UP_TO_RECORDS))
    return records(folder, study)


@pytest.fixture(scope="module")
def smoke_records(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return local_records(tmp_path_factory.mktemp("local"), SMOKE)


def submitted(text: str) -> int:
    return text.count("has been submitted with SLURM jobid")


def test_the_smoke_study(tmp_path: Path, smoke_records: bytes) -> None:
    text = output(on_slurm(tmp_path, SMOKE))
    assert submitted(text) == 2, text  # the training and the baselines; all else is local
    assert "Trying to restart" not in text
    assert records(tmp_path, SMOKE) == smoke_records
    for file in ("index.html", "tracked.json", "summary.csv"):
        assert (tmp_path / "results" / "smoke" / file).is_file()


def test_a_job_that_takes_more_memory_than_it_asked_for_is_retried_with_more(
    tmp_path: Path, smoke_records: bytes
) -> None:
    """The training asks for far too little; what SLURM kills comes back asking for more."""
    too_little = "train:mem_mb=300+3000*(attempt-1)"
    text = output(on_slurm(tmp_path, SMOKE, *UP_TO_RECORDS, "--set-resources", too_little))
    assert text.count("Trying to restart job") == 1, text
    assert submitted(text) == 3
    jobs = squeue("%T %m")
    assert (jobs.count("FAILED 300M"), jobs.count("COMPLETED 3300M")) == (1, 1), jobs
    assert records(tmp_path, SMOKE) == smoke_records


def test_a_node_that_goes_down_in_the_middle(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    study = tmp_path / "longer.yaml"
    settings = yaml.safe_load(SMOKE.read_text(encoding="utf-8")) | {"name": "longer"}
    settings["federation"] = {"rounds": 60, "local_steps": 150, "evaluate_every": 20}
    settings["tracking"] = {"enabled": False}
    study.write_text(yaml.safe_dump(settings), encoding="utf-8")

    run = on_slurm(tmp_path, study, *UP_TO_RECORDS)
    try:
        dead = wait_for_training(run)
        end_node(dead)
        text = output(run)
    finally:
        run.kill()
    assert "Error in rule" not in text, text
    jobs = subprocess.run(["scontrol", "show", "jobs"], capture_output=True, text=True).stdout
    assert "Restarts=1" in jobs, jobs  # by SLURM itself; Snakemake noticed nothing
    assert records(tmp_path, study) == local_records(tmp_path_factory.mktemp("local"), study)


def squeue(form: str, *options: str) -> list[str]:
    command = ["squeue", "--noheader", "--format", form, "--states=all", *options]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def wait_for_training(run: subprocess.Popen[str]) -> str:
    """The node on which a training is under way."""
    while run.poll() is None:
        for line in squeue("%T|%N|%k"):
            state, node, comment = line.split("|")
            if state == "RUNNING" and "train" in comment and workers(node):
                return node
        time.sleep(0.2)
    raise AssertionError(f"no training was seen: {run.communicate()[0]}")


def processes(node: str) -> list[psutil.Process]:
    """All processes of a node's jobs, and the daemons that lead them."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        try:
            if process.environ().get("SLURMD_NODENAME") == node:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


def workers(node: str) -> Sequence[psutil.Process]:
    """The processes of a node that train."""
    return [p for p in processes(node) if any("train.py" in a for a in p.info["cmdline"] or ())]


def end_node(node: str) -> None:
    """What a power cut does: the node's daemon and all its jobs are gone, without a farewell."""
    assert SLURM is not None
    daemon = psutil.Process(int((Path(SLURM) / f"{node}.pid").read_text()))
    stepds = [
        p
        for p in psutil.process_iter(["cmdline"])
        if "slurmstepd" in "".join(p.info["cmdline"] or ())
    ]
    of_node = {job.split()[0] for job in squeue("%A %N", "--nodelist", node)}
    daemon.kill()
    for process in [
        *(p for p in stepds if any(f"[{job}." in "".join(p.info["cmdline"]) for job in of_node)),
        *processes(node),
    ]:
        if process.is_running():
            process.kill()
