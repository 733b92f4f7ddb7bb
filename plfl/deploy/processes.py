"""Processes that are started together and taken down together."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

from plfl.errors import PlflError

GRACE = 5.0
"""Seconds from the request to end to the end by force."""
_PR_SET_PDEATHSIG = 1


class Processes:
    """A set of processes, each in a session of its own; leaving the block ends all of them.

    Args:
        logs: folder for what each of them prints.
        grace: seconds from the request to end to the end by force; longer for those that have
            processes of their own to end.
    """

    def __init__(self, logs: Path, grace: float = GRACE):
        self.logs, self.grace = logs, grace
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        self.logs.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop(*reversed(self.running))

    def start(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        folder: Path | None = None,
        shown: bool = False,
    ) -> subprocess.Popen[bytes]:
        """Start a process in `folder`; what it prints goes to its log, or is `shown` here."""
        with self.log(name).open("ab") as log:
            self.running[name] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=None if shown else log,
                stderr=None if shown else subprocess.STDOUT,
                env=environment,
                cwd=folder,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )
        return self.running[name]

    def log(self, name: str) -> Path:
        """Where the output of a process goes."""
        return self.logs / f"{name}.log"

    def tail(self, name: str, lines: int = 5) -> str:
        """The last lines of a process's output."""
        with suppress(OSError):
            text = self.log(name).read_text(encoding="utf-8", errors="replace")
            return "\n".join(text.splitlines()[-lines:])
        return ""

    def check(self, name: str) -> None:
        """Make sure that a process is still at work.

        Raises:
            PlflError: it has ended; with its last words.
        """
        code = self.running[name].poll()
        if code is not None:
            raise PlflError(
                f"{name} ended with status {code}; {self.log(name)} ends with\n{self.tail(name)}"
            )

    def stop(self, *names: str) -> None:
        """End processes and all that they have started: first by request, then by force."""
        chosen = [self.running.pop(name) for name in names]
        for process in chosen:
            _signal(process, signal.SIGTERM)
        end = time.monotonic() + self.grace
        for process in chosen:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, end - time.monotonic()))
            # What is left of its session goes with it.
            _signal(process, signal.SIGKILL)
            process.wait()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def end_with_parent(number: signal.Signals = signal.SIGTERM) -> None:
    """Let the kernel send this process a signal when its parent dies, however it dies."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def is_open(address: str) -> bool:
    """Whether somebody listens at an address (host and port)."""
    host, _, port = address.rpartition(":")
    with suppress(OSError), socket.create_connection((host, int(port)), timeout=1):
        return True
    return False


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Let a request to end this process (SIGTERM) leave its blocks in order, as Ctrl-C does."""

    def leave(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
