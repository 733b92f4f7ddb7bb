"""The screen of `plfl study`: one line of progress. Everything that Snakemake and its jobs print
goes to a file.

`main` runs Snakemake with its messages held back. The workflow calls `begin` when the jobs begin.
Until then, messages are held in memory. If no job begins, the errors among them are shown, or
the results if the study is complete; otherwise all: the user has asked for something else, such as
`--dry-run`. Later messages go to the log.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from tqdm import tqdm

_screen: Screen | None = None


def main() -> None:
    """Run Snakemake on the arguments of this process."""
    global _screen
    from snakemake.cli import main as snakemake
    from snakemake.logging import logger

    sys.argv[0] = "snakemake"  # the name in its own messages
    _screen = Screen()
    logger.addFilter(_screen.follow)  # Snakemake removes handlers, but not filters
    try:
        snakemake()
    finally:
        _screen.end()


def begin(name: str, log: Path) -> None:
    """The jobs begin: from now on, show their progress, and write messages into `log`."""
    if _screen is not None:
        _screen.begin(name, log)


def complete(existing: Callable[[], str]) -> None:
    """If there is nothing to be done, show the text that `existing` returns."""
    if _screen is not None:
        _screen.existing = existing


def say(text: str) -> None:
    """Show a message in spite of the line of progress."""
    if _screen is not None:
        _screen.write(text)
    else:
        print(text, flush=True)


class Screen:
    """The terminal, and the file that receives the output of this process and its jobs instead."""

    EVERY = 15.0
    """Seconds between lines if there is no terminal."""

    def __init__(self) -> None:
        self.err = os.fdopen(os.dup(2), "w", encoding="utf-8", errors="backslashreplace")
        self.held: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (until this process ends)
        os.dup2(self.held.fileno(), 2)
        self.planned, self.done = 0, 0
        """Numbers of jobs."""
        self.running: dict[int, dict[str, Any]] = {}
        """What Snakemake said about each job that runs."""
        self.failed = False
        self.errors: list[str] = []
        """Errors of Snakemake itself. After the error of a job, they say only that there was
        one."""
        self.name, self.log = "", Path()
        self.nothing = ""
        """What Snakemake says if there is nothing to be done."""
        self.existing: Callable[[], str] = str
        self.stop = threading.Event()
        self.ticking = threading.Thread(target=self._tick, daemon=True)

    def begin(self, name: str, log: Path) -> None:
        """See `begin`."""
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as file:
            file.write(self._held_back())
            sys.stdout.flush()
            for standard in (1, 2):
                os.dup2(file.fileno(), standard)
        self.name, self.log = name, log
        self.ticking.start()

    def end(self) -> None:
        """Without jobs, show errors, results or all messages; otherwise the place of the log."""
        self.stop.set()
        if not self.name:
            shown = self.nothing + "\n" + self.existing() if self.nothing else ""
            shown = shown or "\n".join(self.errors) or self._held_back().decode(errors="replace")
            self.write(shown.rstrip("\n"))
            return
        self.ticking.join()
        self.write("" if self.failed else "\n".join(self.errors))
        self.write(f"log: {self.log}")

    def _held_back(self) -> bytes:
        sys.stderr.flush()
        self.held.seek(0)
        return self.held.read()

    def write(self, text: str) -> None:
        """Write lines, in place of the line of progress."""
        if text:
            tqdm.write(text, self.err)
            self.err.flush()

    def follow(self, record: logging.LogRecord) -> bool:
        """Follow the jobs by a message of Snakemake, and show it if it is an error."""
        event, about = str(getattr(record, "event", None) or ""), record.__dict__
        if event == "run_info" and about.get("stats"):
            self.planned = about["stats"]["total"]
        elif event == "job_info":
            self.running[about["jobid"]] = about
        elif event == "job_finished":
            self.running.pop(about["job_id"], None)
            self.done += 1
        elif event == "job_error":
            job = self.running.pop(about["jobid"], about)
            self.failed = True
            errors = _errors(about.get("log") or [])
            how = "stopped" if errors and errors[0].startswith("interrupted;") else "failed"
            self.write("\n".join(["", f"{how}: {_label(job)}", *errors]))
        elif (message := record.getMessage()).startswith("Nothing to be done"):
            self.nothing = message
        elif record.levelno >= logging.ERROR:
            self.errors.append(record.getMessage())
        return True

    def _tick(self) -> None:
        """Show what is done until the end: on a terminal in one line, elsewhere now and then.

        No time left is shown, because jobs differ too much: see `plfl cells` for a range.
        """
        terminal = self.err.isatty()
        form = "{desc} |{bar:10}| {elapsed}{postfix}"
        with tqdm(
            file=self.err, bar_format=form, dynamic_ncols=True, leave=False, disable=not terminal
        ) as bar:
            while not self.stop.wait(0.5 if terminal else self.EVERY):
                running = list(self.running.values())
                rounds = [_rounds(about) for about in running]
                where = (f" (round {of[0]} of {of[1]})" if of else "" for of in rounds)
                jobs = ", ".join(map(str.__add__, map(_label, running), where))
                progress = f"{self.name}: {self.done} of {self.planned} jobs done"
                if not terminal:
                    self.write(f"{progress}; now: {jobs}" if jobs else progress)
                    continue
                bar.total = self.planned
                # A round of training is a part of its job.
                bar.n = self.done + sum(t / last for t, last in filter(None, rounds))
                bar.set_postfix_str(jobs, refresh=False)
                bar.set_description_str(progress)


def _label(about: dict[str, Any]) -> str:
    """A description of what a job does."""
    label = about.get("rule_msg") or about.get("rule_name") or "a job"
    return re.sub(r"\b[a-z_]+=", "", str(label))  # of wildcards, the values


def _rounds(about: dict[str, Any]) -> tuple[int, int] | None:
    """The current round of a training job and the number of rounds, from its log."""
    for path in about.get("log") or []:
        try:
            rounds = re.findall(rb"round (\d+) of (\d+)", Path(path).read_bytes())
        except OSError:
            continue
        if rounds:
            return int(rounds[-1][0]), int(rounds[-1][1])
    return None


def _errors(logs: list[str]) -> list[str]:
    """The errors in the logs of a job, with the lines that follow them."""
    lines: list[str] = []
    for path in logs:
        try:
            log = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        first = next((i for i, line in enumerate(log) if " ERROR " in line), max(0, len(log) - 5))
        lines += [re.sub(r"^\S+ \S+ ERROR ", "", line) for line in log[first:]]
        lines.append(f"({path})")
    return lines
