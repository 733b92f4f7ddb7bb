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
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from plfl.pipeline.jobs import duration

_screen: Screen | None = None


def main() -> None:
    """Run Snakemake on the arguments of this process."""
    global _screen
    from snakemake.cli import main as snakemake
    from snakemake.logging import logger

    sys.argv[0] = "snakemake"  # the name in its own messages
    _screen = Screen()
    logger.addFilter(_screen.hear)  # Snakemake removes handlers, but not filters
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
        self.jobs = Jobs()
        self.failed = False
        self.errors: list[str] = []
        """Errors of Snakemake itself. After the error of a job, they say only that there was
        one."""
        self.name, self.log = "", Path()
        self.nothing = ""
        """What Snakemake says if there is nothing to be done."""
        self.existing: Callable[[], str] = str
        self.stop = threading.Event()
        self.lock = threading.RLock()
        self.ticking = threading.Thread(target=self._tick, daemon=True)

    def begin(self, name: str, log: Path) -> None:
        """See `begin`."""
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as file:
            file.write(self._said())
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
            shown = shown or "\n".join(self.errors) or self._said().decode(errors="replace")
            self.write(shown.rstrip("\n"))
            return
        self.ticking.join()
        self.write("" if self.failed else "\n".join(self.errors))
        self.write(f"log: {self.log}")

    def _said(self) -> bytes:
        sys.stderr.flush()
        self.held.seek(0)
        return self.held.read()

    def write(self, text: str) -> None:
        """Write lines, in place of the line of progress."""
        with self.lock:
            if text:
                self.err.write(("\r\x1b[K" if self.err.isatty() else "") + text + "\n")
            self.err.flush()

    def hear(self, record: logging.LogRecord) -> bool:
        """Follow the jobs by a message of Snakemake, and show it if it is an error."""
        event, about = str(getattr(record, "event", None) or ""), record.__dict__
        with self.lock:
            job = self.jobs.hear(event, about) or about
        if event == "job_error":
            self.failed = True
            said = _errors(about.get("log") or [])
            how = "stopped" if said and said[0].startswith("interrupted;") else "failed"
            self.write("\n".join(["", f"{how}: {_label(job)}", *said]))
        elif (message := record.getMessage()).startswith("Nothing to be done"):
            self.nothing = message
        elif record.levelno >= logging.ERROR:
            self.errors.append(record.getMessage())
        return True

    def _tick(self) -> None:
        """Show the progress until the end: on a terminal in one line, elsewhere now and then."""
        terminal, before = self.err.isatty(), ""
        while not self.stop.wait(0.5 if terminal else self.EVERY):
            with self.lock:
                if terminal:
                    width = os.get_terminal_size(self.err.fileno()).columns
                    self.err.write("\r\x1b[K" + f"{self.name}: {self.jobs}"[: width - 1])
                    self.err.flush()
                elif (now := f"{self.name}: {self.jobs}") != before:
                    self.write(before := now)


class Jobs:
    """Which jobs run and how many are done, from the messages of Snakemake."""

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self.planned: Counter[str] = Counter()
        self.running: dict[int, tuple[float, dict[str, Any]]] = {}
        self.took: dict[str, list[float]] = {}
        self.most = 1

    def hear(self, event: str, about: dict[str, Any]) -> dict[str, Any] | None:
        """Follow a message; return the job that it ends, if any."""
        if event == "run_info" and about.get("stats"):
            self.planned = Counter({k: n for k, n in about["stats"].items() if k != "total"})
        elif event == "job_info":
            self.running[about["jobid"]] = time.monotonic(), about
            self.most = max(self.most, len(self.running))
        elif event in ("job_finished", "job_error"):
            job = self.running.pop(about["job_id" if event == "job_finished" else "jobid"], None)
            if job and event == "job_finished":
                self.took.setdefault(job[1]["rule_name"], []).append(time.monotonic() - job[0])
            return job[1] if job else None
        return None

    def __str__(self) -> str:
        done = sum(map(len, self.took.values()))
        what = ", ".join(_label(about) + _round(about) for _, about in self.running.values())
        left = self._left()
        return (
            f"{done} of {self.planned.total()} jobs done, {duration(time.monotonic() - self.begun)}"
            + (f", about {duration(left)} left" if left else "")
            + (f" · {what}" if what else "")
        )

    def _left(self) -> float | None:
        """Seconds that are left, if all jobs of a rule take equally long; None if unknown."""
        now, usual = time.monotonic(), {rule: sum(t) / len(t) for rule, t in self.took.items()}
        for since, about in self.running.values():
            if rounds := _rounds(about):
                usual.setdefault(about["rule_name"], (now - since) * rounds[1] / rounds[0])
        if not usual:
            return None
        mean = sum(usual.values()) / len(usual)
        waiting = self.planned - Counter({rule: len(took) for rule, took in self.took.items()})
        work = sum(n * usual.get(rule, mean) for rule, n in waiting.items())
        spent = sum(
            min(now - since, usual.get(about["rule_name"], mean))
            for since, about in self.running.values()
        )
        return (work - spent) / self.most


def _label(about: dict[str, Any]) -> str:
    """A description of what a job does."""
    said = about.get("rule_msg") or about.get("rule_name") or "a job"
    return re.sub(r"\b[a-z_]+=", "", str(said))  # of wildcards, the values


def _rounds(about: dict[str, Any]) -> tuple[int, int] | None:
    """The current round of a training job and the number of rounds, from its log."""
    for path in about.get("log") or []:
        try:
            said = Path(path).read_bytes()
        except OSError:
            continue
        if found := re.findall(rb"round (\d+) of (\d+)", said):
            return int(found[-1][0]), int(found[-1][1])
    return None


def _round(about: dict[str, Any]) -> str:
    rounds = _rounds(about)
    return f" (round {rounds[0]} of {rounds[1]})" if rounds else ""


def _errors(logs: list[str]) -> list[str]:
    """The errors in the logs of a job, with the lines that follow them."""
    lines: list[str] = []
    for path in logs:
        try:
            said = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        first = next((i for i, line in enumerate(said) if " ERROR " in line), max(0, len(said) - 5))
        lines += [re.sub(r"^\S+ \S+ ERROR ", "", line) for line in said[first:]]
        lines.append(f"({path})")
    return lines
