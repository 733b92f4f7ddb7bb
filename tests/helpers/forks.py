"""Programs in forks of this process, which has imported what they need: that takes longer than most
of what they do."""

import logging
import multiprocessing
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from subprocess import TimeoutExpired

from plfl.deploy.host import end_with_parent


class Fork:
    """A program that runs in a fork, with what is used of `subprocess.Popen`.

    Args:
        main: the program; what it returns is its exit status, None for 0.
        folder: where it runs.
        output: the file that its output is added to; None: it goes where that of this process goes.
        errors: the same for its messages; None: they go where its output goes.
        environment: variables that it has besides those of this process.
    """

    def __init__(
        self,
        main: Callable[[], int | None],
        folder: Path,
        output: Path | None = None,
        errors: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ):
        def run() -> None:
            os.setsid()
            end_with_parent()
            os.chdir(folder)
            os.environ.update(environment or {})
            for stream, path in ((1, output), (2, errors or output)):
                if path is not None:
                    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
                    os.dup2(file, stream)
            sys.stdout, sys.stderr = (os.fdopen(stream, "w") for stream in (1, 2))
            logging.root.handlers.clear()  # those of pytest
            status = main()
            sys.stdout.flush()
            sys.stderr.flush()
            sys.exit(status)

        self.process = multiprocessing.get_context("fork").Process(target=run)
        self.process.start()
        assert self.process.pid is not None
        self.pid = self.process.pid

    @property
    def returncode(self) -> int | None:
        """Its exit status; None while it runs."""
        return self.process.exitcode

    def poll(self) -> int | None:
        """The same."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status, when it has ended."""
        self.process.join(timeout)
        if self.returncode is None:
            raise TimeoutExpired("a fork", timeout or 0)
        return self.returncode
