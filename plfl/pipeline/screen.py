"""The screen of `plfl study`: one line of progress. Everything that Snakemake and its jobs print
goes to a file.

`main` runs Snakemake with its messages held back, until the workflow calls `begin` as its jobs
begin. If none does, the errors among the messages are shown, or the results if the study is
complete; otherwise all: the user has asked for something else, such as `--dry-run`.
"""

from __future__ import annotations

import errno
import gc
import logging
import os
import re
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tqdm import tqdm

from plfl.base.errors import PlflError
from plfl.base.files import atomic
from plfl.base.job_state import JobState
from plfl.pipeline.job_log import describe_error, forget_state, read_state

PROBE = 2**20
"""Bytes of a file that tells whether the disk has room for those of a study."""
_OF_DISK = re.compile(rf"\[Errno ({errno.ENOSPC}|{errno.EDQUOT}|{errno.EFBIG})\]")
"""An error of Python in writing a file, for which the disk or a limit has no room."""
SECONDS_BETWEEN_LINES = 15.0
"""Seconds between lines if there is no terminal."""
_screen: _Screen | None = None


def main() -> None:
    """Run Snakemake on the arguments of this process."""
    global _screen
    # What it imports and plans stays: to visit it again and again takes a tenth of its start.
    gc.set_threshold(50_000, 20, 20)
    from snakemake.cli import main as snakemake
    from snakemake.logging import logger

    sys.argv[0] = "snakemake"  # the name in its own messages
    _screen = _Screen()
    logger.addFilter(_screen.follow)  # Snakemake removes handlers, but not filters
    try:
        snakemake()
    except SystemExit as end:
        _screen.exit_code = 2 if _screen.refusal else end.code
        sys.exit(_screen.exit_code)
    finally:
        _screen.end()


def begin(name: str, log: Path) -> None:
    """The jobs begin: from now on, show their progress, and write messages into `log`."""
    if _screen:
        _screen.begin(name, log)


def complete(existing: Callable[[], str]) -> None:
    """If there is nothing to be done, show the text that `existing` returns."""
    if _screen:
        _screen.existing = existing


def refusal_of(error: PlflError) -> Exception:
    """The error of Snakemake that ends the workflow before its jobs; the screen shows only the
    message of the given one, as every command does."""
    from snakemake.exceptions import WorkflowError

    if _screen:
        _screen.refusal = str(error)
    workflow_error: Exception = WorkflowError(str(error))
    return workflow_error


def say(text: str) -> None:
    """Show a message in spite of the line of progress."""
    if text:
        tqdm.write(text, _screen.err if _screen else sys.stdout)


class _Screen:
    """The terminal, and the file that receives the output of this process and its jobs instead."""

    def __init__(self) -> None:
        self.err = os.fdopen(os.dup(2), "w", 1, "utf-8", "backslashreplace")
        self.held = tempfile.TemporaryFile()  # noqa: SIM115 (until this process ends)
        os.dup2(self.held.fileno(), 2)
        self.planned, self.finished, self.failed = 0, 0, False
        self.running: dict[int, dict[str, Any]] = {}
        """What Snakemake said about each job that runs."""
        self.exit_code: str | int | None = None
        """The exit status of Snakemake, once it has ended."""
        self.refusal = ""
        """Why the workflow ended before its jobs, if it is an error of the user."""
        self.errors: list[str] = []
        """Of Snakemake itself; after one of a job, they say only that there was one."""
        self.log: Path | None = None
        self.existing: Callable[[], str] = str
        self.no_jobs = ""
        self.stop = threading.Event()

    def begin(self, name: str, log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self.log = log
        with log.open("wb") as file:
            file.write(self._held_back())
            sys.stdout.flush()
            for standard in (1, 2):
                os.dup2(file.fileno(), standard)
        self.ticking = threading.Thread(target=self._tick, args=[name], daemon=True)
        self.ticking.start()

    def end(self) -> None:
        """Without jobs, show the refusal, errors, results or all messages; otherwise the place of
        the log."""
        if self.log:
            self.stop.set()
            self.ticking.join()
            errors = [] if self.failed else self.errors
            say("\n".join([*errors, f"log: {self.log}"]))
            return
        text = f"{self.no_jobs}\n{self.existing()}" if self.no_jobs else "\n".join(self.errors)
        text = f"plfl: {self.refusal}" if self.refusal else text
        text = text or self._held_back().decode(errors="replace")
        if self.exit_code and (not text.strip() or _OF_DISK.search(text)):
            text = _fault_of_disk() or text
        say(text.rstrip("\n"))

    def _held_back(self) -> bytes:
        sys.stderr.flush()
        self.held.seek(0)
        return self.held.read()

    def follow(self, record: logging.LogRecord) -> bool:
        """Follow the jobs by a message of Snakemake, and show it if it is an error."""
        event, event_facts = str(getattr(record, "event", None) or ""), record.__dict__
        if event == "run_info" and event_facts.get("stats"):
            self.planned = event_facts["stats"]["total"]
        elif event == "job_info":
            self.running[event_facts["jobid"]] = event_facts
            for log in _logs(event_facts) if self.log else ():
                forget_state(log)
        elif event == "job_finished":
            self.running.pop(event_facts["job_id"], None)
            self.finished += 1
        elif event == "job_error":
            errors = "".join(map(describe_error, _logs(event_facts)))
            # Without a word of the job, Snakemake may not have been able to start it.
            errors = errors or _fault_of_disk() or "\n".join(self.errors)
            self.failed = True
            is_interrupted = any(read_state(log).is_interrupted for log in _logs(event_facts))
            outcome = "stopped" if is_interrupted else "failed"
            job = self.running.pop(event_facts["jobid"], event_facts)
            say(f"\n{outcome}: {_label(job)}\n{errors}")
        elif (text := record.getMessage()).startswith("Nothing to be done"):
            self.no_jobs = text
        elif record.levelno >= logging.ERROR:
            self.errors.append(text)
        return True

    def _tick(self, name: str) -> None:
        """Show what is done until the end: on a terminal in one line, elsewhere now and then. No
        time left is shown, because jobs differ too much: see `plfl cells` for a range."""
        has_bar, last_line = self.err.isatty(), ""
        form = "{desc} |{bar:10}| {elapsed}{postfix}"
        with tqdm(
            file=self.err, bar_format=form, dynamic_ncols=True, leave=False, disable=not has_bar
        ) as bar:
            while not self.stop.wait(0.5 if has_bar else SECONDS_BETWEEN_LINES):
                running = [*self.running.values()]
                jobs = [(_label(event_facts), _state_of(event_facts)) for event_facts in running]
                job_texts = [f"{label} ({state})" if str(state) else label for label, state in jobs]
                # A round of training is a part of its job.
                bar.n = self.finished + sum(state.share for _, state in jobs)
                bar.total = self.planned
                bar.set_postfix_str(", ".join(job_texts), refresh=False)
                bar.set_description_str(f"{name}: {self.finished} of {self.planned} jobs done")
                line = f"{bar.desc}; now: {', '.join(job_texts)}".removesuffix("; now: ")
                if not has_bar and line != last_line:
                    say(line)
                last_line = line


def _label(event_facts: dict[str, Any]) -> str:
    """A description of what a job does."""
    label = event_facts.get("rule_msg") or event_facts.get("rule_name") or "a job"
    return re.sub(r"\b[a-z_]+=", "", str(label))  # of wildcards, the values


def _logs(event_facts: dict[str, Any]) -> list[Path]:
    """The logs of a job."""
    return list(map(Path, event_facts.get("log") or []))


def _state_of(event_facts: dict[str, Any]) -> JobState:
    """The state of a job, of which only one log has one."""
    states = [read_state(log) for log in _logs(event_facts)]
    return next((state for state in states if state != JobState()), JobState())


def _fault_of_disk() -> str:
    """Why a file of ordinary size cannot be written in the current folder, such as a full disk,
    and what to do; empty if it can."""
    probe = Path(".snakemake", "probe")
    try:
        with atomic(probe) as temporary:
            temporary.write_bytes(bytes(PROBE))
        probe.unlink()
    except PlflError as error:
        return f"{error}\n"
    return ""
