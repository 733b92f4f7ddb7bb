"""Ctrl-C while a process of plfl's still imports: it ends at once, and the terminal stays empty."""

import os
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from plfl.base.interrupts import raising_on_ctrl_c
from tests.helpers.repository import ROOT

SCRIPTS = ROOT / "workflow" / "scripts"
COMMANDS = {
    "job": [str(SCRIPTS / "train.py")],
    "plfl": ["-m", "plfl", "methods"],
    "snakemake": [
        *("-m", "snakemake", "--dry-run", "--snakefile", str(ROOT / "Snakefile")),
        *("--configfile", str(ROOT / "config" / "smoke.yaml")),
    ],
}


@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*.py")), ids=lambda script: script.stem)
def test_every_job_is_silent_before_its_imports(script: Path) -> None:
    lines = [
        line
        for line in script.read_text().splitlines()
        if re.match(r"\w+.*plfl|exit_on_ctrl_c", line)
    ]
    assert lines[:2] == ["from plfl.base.interrupts import exit_on_ctrl_c", "exit_on_ctrl_c()"]


@pytest.mark.parametrize("name", COMMANDS)
def test_ctrl_c_during_the_imports_leaves_no_traceback(name: str, tmp_path: Path) -> None:
    # In place of a library that takes long to import; Python does not get past it. Snakemake itself
    # imports pydantic, before any line of the workflow.
    library = "filelock" if name == "snakemake" else "pydantic"
    (tmp_path / f"{library}.py").write_text(
        "import time\nprint('importing', flush=True)\ntime.sleep(60)\n"
    )
    process = subprocess.Popen(
        [sys.executable, *COMMANDS[name]],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "importing\n"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGINT
    assert "Traceback" not in said


def test_a_running_job_hears_ctrl_c() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        with pytest.raises(KeyboardInterrupt), raising_on_ctrl_c():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGINT, before)
