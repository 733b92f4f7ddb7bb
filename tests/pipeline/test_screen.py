"""What `plfl study` shows of a run, here of a small workflow: progress, errors, the log."""

import logging
import os
import pty
import re
import resource
import signal
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from types import SimpleNamespace

import pytest
import yaml

from plfl.base.errors import PlflError
from plfl.base.job_state import JobState
from plfl.pipeline import job_log, screen
from plfl.pipeline.jobs import job
from plfl.pipeline.training import log_round, log_wait
from tests.helpers.forks import Fork
from tests.helpers.job_logs import state_beside
from tests.helpers.projects import prepare_forks
from tests.helpers.repository import ROOT

WORKFLOW = """
from pathlib import Path
from plfl.base.errors import PlflError
from plfl.base.interrupts import raise_on_ctrl_c
from plfl.pipeline import screen

rule all:
    input: "a.txt", "b.txt"

rule scripted:
    output: "scripted.txt"
    log: "scripted.log"
    message: "Run a script"
    params: "x" * 100_000
    script: "scripted.py"

rule make:
    output: "{name}.txt"
    log: "{name}.log"
    message: "Make {wildcards.name}"
    shell: "echo noise; echo 'now ERROR what is wrong with {wildcards.name}' > {log}; {config[do]}"

screen.complete(lambda: "everything exists")

if "refusal" in config:
    raise screen.refusal_of(PlflError(config["refusal"])) from None

onstart:
    raise_on_ctrl_c()
    screen.begin("tiny", Path("logs/snakemake.log"))

onsuccess:
    screen.say("complete")
"""
MAIN = "from plfl.base.interrupts import exit_on_ctrl_c; exit_on_ctrl_c()\n"
MAIN += "from plfl.pipeline.screen import main; main()"


def write_workflow(folder: Path, do: str, *options: str) -> list[str]:
    """Write the workflow; the arguments of a Snakemake that runs it."""
    (folder / "Snakefile").write_text(WORKFLOW)
    # `--config` takes all that follows.
    return ["--cores", "1", *options, *["--config"] * ("--config" not in options), f"do={do}"]


def run(folder: Path, do: str, *options: str) -> CompletedProcess[str]:
    """Run the workflow to its end, in a fork."""
    arguments, said = write_workflow(folder, do, *options), (folder / "out", folder / "err")

    def main() -> None:
        sys.argv[1:] = arguments
        screen.main()

    prepare_forks()
    variables = {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(folder)}
    status = Fork(main, folder, *said, environment=variables).wait()
    return CompletedProcess(arguments, status, *(path.read_text() for path in said))


def test_a_run_shows_what_the_workflow_says_and_where_its_log_is(tmp_path: Path) -> None:
    done = run(tmp_path, "touch a.txt b.txt")
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert "complete" in lines
    assert lines[-1] == "log: logs/snakemake.log"
    assert "\r" not in done.stderr
    assert "\x1b" not in done.stderr
    log = (tmp_path / "logs" / "snakemake.log").read_text()
    for text in ("Job stats", "Make a", "noise", "100%"):
        assert text in log
        assert text not in done.stderr + done.stdout


def test_an_error_of_a_job_is_on_the_screen(tmp_path: Path) -> None:
    done = run(tmp_path, "false", "--keep-going")
    assert done.returncode != 0
    for name in "ab":
        assert f"what is wrong with {name}\n({name}.log)" in done.stderr
        assert f"failed: Make {name}\n" in done.stderr
    assert done.stderr.splitlines()[-1] == "log: logs/snakemake.log"
    assert "noise" not in done.stderr


def test_an_error_before_the_jobs_is_shown(tmp_path: Path) -> None:
    done = run(tmp_path, "true", "no-such-file")
    assert done.returncode != 0
    assert "no-such-file" in done.stderr
    assert "Snakemake version" not in done.stderr


def test_an_error_of_the_user_is_shown_without_the_words_of_snakemake(tmp_path: Path) -> None:
    done = run(tmp_path, "true", "--config", "refusal=the rounds are odd; add one")
    assert done.returncode == 2
    assert done.stderr == "plfl: the rounds are odd; add one\n"


@pytest.mark.parametrize("limit", [100, 50_000])
def test_why_a_job_that_could_not_be_started_failed_is_told(tmp_path: Path, limit: int) -> None:
    """The file of its script is larger than files may be, at last after the start."""
    (tmp_path / "scripted.py").touch()
    done = subprocess.run(
        [sys.executable, "-P", "-c", MAIN, *write_workflow(tmp_path, "true", "scripted.txt")],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert done.returncode == 1
    assert "File too large" in done.stderr and "then run again" in done.stderr
    assert ("failed: Run a script" in done.stderr) == (limit > 100)
    assert "Traceback" not in done.stderr


def states_of(log: Path, *messages: Callable[[], None]) -> list[JobState]:
    """The states of a job with this log after each of its messages."""
    states = []
    with state_beside(log):
        for message in messages:
            message()
            states.append(job_log.read_state(log))
    return states


def test_a_job_says_for_whom_it_waits_and_how_far_it_is(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    job_log.write_state(log, JobState(error="of an earlier job"))
    waiting, training, silent = states_of(
        log,
        lambda: log_wait("process 12 on homer"),
        lambda: log_round("own", 0, 40, 3),
        lambda: logging.getLogger("plfl.other").info("round 5 of 6"),
    )
    assert (str(waiting), waiting.share) == ("waits for process 12 on homer", 0.0)
    assert (str(training), training.share) == ("round 3 of 40", 3 / 40)
    assert silent == training


@pytest.mark.parametrize(
    ("error", "status", "words", "is_interrupted"),
    [
        (PlflError("a.csv: ERROR in line 3"), 2, "a.csv: ERROR in line 3", False),
        (KeyboardInterrupt(), 130, "interrupted; run the workflow again", True),
        (ZeroDivisionError("by none"), None, "ZeroDivisionError: by none", False),
    ],
)
def test_a_job_says_why_it_failed(
    error: BaseException, status: int | None, words: str, is_interrupted: bool, tmp_path: Path
) -> None:
    log = tmp_path / "train.log"
    config = yaml.safe_load((ROOT / "config" / "smoke.yaml").read_text())
    run = SimpleNamespace(log=[str(log)], config=config, wildcards={})
    handlers, level = logging.root.handlers[:], logging.getLogger("plfl").level
    try:
        with pytest.raises(SystemExit if status else type(error)) as raised, job(run):
            raise error
    finally:
        logging.root.handlers[:] = handlers
        logging.getLogger("plfl").setLevel(level)
        logging.captureWarnings(False)
    assert status in (None, getattr(raised.value, "code", None))
    state = job_log.read_state(log)
    assert words in state.error
    assert state.is_interrupted == is_interrupted
    assert job_log.describe_error(log) == f"{state.error}\n({log})\n"


def test_a_complete_study_says_where_its_results_are(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.txt").touch()
    done = run(tmp_path, "false")
    assert done.returncode == 0
    assert done.stderr.splitlines()[1:] == ["everything exists"]


def test_a_terminal_has_one_line_and_ctrl_c_ends_the_run(tmp_path: Path) -> None:
    arguments = write_workflow(tmp_path, "mkdir first && touch a.txt b.txt || sleep 60")
    outside, inside = pty.openpty()
    termios.tcsetwinsize(inside, (24, 120))
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", MAIN, *arguments],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=inside,
        stderr=inside,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    os.close(inside)
    said = b""
    while not re.search(rb"\rtiny: 1 of \d jobs done \|", said):
        more = os.read(outside, 1000)
        assert more, said
        said += more
    assert b"\n" not in said.partition(b"tiny:")[2]
    os.killpg(process.pid, signal.SIGINT)
    try:
        while more := os.read(outside, 1000):
            said += more
    except OSError:  # the other end is closed
        pass
    assert process.wait(60) != 0
    assert b"log: logs/snakemake.log" in said
    assert b"Traceback" not in said
    os.close(outside)
