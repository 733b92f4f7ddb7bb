"""What a host needs: processes that end together, a socket between two of them, private files."""

import ctypes
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, closing, contextmanager, suppress
from multiprocessing.connection import Client, Listener
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

from plfl.base.errors import PlflError, Problem
from plfl.base.files import atomic

GRACE = 5.0
"""Seconds between the request to end (SIGTERM) and the end by force (SIGKILL)."""
PROCESS_PAUSE = 0.2
"""Seconds between two checks of processes and their files."""
SOCKET = "worker.socket"
"""File of a client's folder: the socket at which its worker listens."""
_PR_SET_PDEATHSIG = 1


class Processes:
    """A set of processes, each in its own session. Leaving the block ends all of them.

    `logs`: folder for their output; `grace`: seconds between the request to end and the end by
    force, longer for processes that first have to end their own processes.
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
        is_visible: bool = False,
    ) -> subprocess.Popen[bytes]:
        """Start a process in `folder`. Its output goes to its log or, if `is_visible`, to ours."""
        with self.log_file(name).open("ab") as log:
            self.running[name] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=None if is_visible else log,
                stderr=None if is_visible else subprocess.STDOUT,
                env=environment,
                cwd=folder,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )
        return self.running[name]

    def log_file(self, name: str) -> Path:
        """File with the output of a process."""
        return self.logs / f"{name}.log"

    def tail(self, name: str, lines: int = 5) -> str:
        """The last lines of a process's output."""
        with suppress(OSError):
            text = self.log_file(name).read_text(encoding="utf-8", errors="replace")
            return "\n".join(text.splitlines()[-lines:])
        return ""

    def check_running(self, name: str) -> None:
        """Check that a process is still running."""
        code = self.running[name].poll()
        if code is not None:
            raise PlflError(
                Problem(
                    "",
                    f"{name} ended with status {code}, and {self.log_file(name)} with\n"
                    f"{self.tail(name)}",
                )
            )

    def stop(self, *names: str) -> None:
        """End processes and all processes that they started: by request, then by force. Those that
        have been ended are left out."""
        stopping = [self.running.pop(name) for name in names if name in self.running]
        for process in stopping:
            _signal(process, signal.SIGTERM)
        end = time.monotonic() + self.grace
        for process in stopping:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, end - time.monotonic()))
            # Ends the remaining processes of its session.
            _signal(process, signal.SIGKILL)
            process.wait()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def end_with_parent(number: signal.Signals = signal.SIGTERM) -> None:
    """Make the kernel send this process a signal when its parent dies, for any reason."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)


def free_port() -> int:
    """A free port of this machine."""
    with closing(socket.socket()) as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port


def is_open(address: str) -> bool:
    """Whether a process listens at an address (host and port)."""
    host, _, port = address.rpartition(":")
    with suppress(OSError), socket.create_connection((host.strip("[]"), int(port)), timeout=1):
        return True
    return False


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Make SIGTERM end this process like Ctrl-C: all `with` and `finally` blocks run."""

    def leave(number: int, _frame: FrameType | None) -> None:
        sys.exit(128 + number)

    previous = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def ask(folder: Path, data: bytes) -> bytes:
    """The answer of the worker of `folder` to a message.

    Raises:
        OSError: no worker listens, or it ended before it answered.
    """
    # The path of a socket must be short, so it is relative to the folder.
    with chdir(folder):
        connection = Client(SOCKET, family="AF_UNIX")
    with connection:
        connection.send_bytes(data)
        try:
            return connection.recv_bytes()
        except EOFError:
            raise ConnectionError(f"{folder}: the worker ended before it answered") from None


@contextmanager
def listen(folder: Path) -> Iterator[Listener]:
    """The worker's end of the socket.

    The caller must hold the lock of the folder: an existing socket is assumed to belong to a dead
    worker and is removed. Only the user of the folder can access the socket.
    """
    with chdir(folder):
        Path(SOCKET).unlink(missing_ok=True)
        listener = Listener(SOCKET, family="AF_UNIX")
    try:
        yield listener
    finally:
        with chdir(folder):
            listener.close()


def private_folder(folder: Path) -> None:
    """Create a folder that only its user can read.

    Raises:
        PlflError: the folder exists and other users can read it.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_private(folder)


def check_private(path: Path) -> None:
    """Check that only its user can read a file or folder."""
    if path.stat().st_mode & 0o077:
        raise PlflError(
            Problem(
                path,
                "other users can read it",
                f"run `chmod {700 if path.is_dir() else 600} {path}`",
            )
        )


def new_secret(folder: Path) -> Path:
    """A new file in `folder` with a secret, by which Flower's processes of one user prove to each
    other that they are this user's."""
    path = folder / "superexec.secret"
    with private(path) as temporary:
        temporary.write_bytes(secrets.token_bytes(32))
    return path


@contextmanager
def private(path: Path) -> Iterator[Path]:
    """As `atomic`, for a file that only its user can read."""
    with atomic(path) as temporary:
        temporary.chmod(0o600)
        yield temporary
