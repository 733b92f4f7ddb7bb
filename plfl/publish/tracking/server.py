"""Serve MLflow's browser pages for a results folder."""

import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import webbrowser
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import IO

from plfl.base.errors import PlflError, ResultsError
from plfl.publish.tracking.store import ARTIFACTS, DATABASE, check, connect, find_experiment
from plfl.publish.tracking.views import presets

HOST = "127.0.0.1"
START_SECONDS = 120
"""Time limit for the first answer of a server; a cold start takes about ten seconds."""


def ui_command(results: Path, port: int) -> list[str]:
    """The command line that serves the database of `results`."""
    folder = results.resolve()
    # MLflow's jobs evaluate language models; here they would waste 8 processes and 2 GB.
    return [
        "env",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false",
        "MLFLOW_DISABLE_TELEMETRY=true",
        # A `click.py` in the current folder belongs to the user and must not be imported by MLflow.
        "PYTHONSAFEPATH=true",
        *(sys.executable, "-m", "mlflow", "server"),
        *("--backend-store-uri", f"sqlite:///{folder / DATABASE}"),
        *("--artifacts-destination", str(folder / ARTIFACTS)),
        *("--host", HOST, "--port", str(port), "--workers", "1"),
    ]


def ui_url(results: Path, port: int) -> str:
    """The URL of the view of the best cells on a server of `results` at `port`.

    Raises:
        ResultsError: `results` has no database that this MLflow can read, or the database has no
            study.
    """
    experiment = find_experiment(connect(check(results)))
    if experiment is None:
        raise ResultsError(
            f"{results}: the MLflow database has no study; log the study first (plfl track)"
        )
    best = next(presets([], 1))
    return f"http://{HOST}:{port}{best.path(experiment.experiment_id)}"


def serve(results: Path, port: int, browse: bool = False) -> int:
    """Serve the database of `results` on this machine until Ctrl-C or SIGTERM; return 0.

    If asked to `browse`, open the study in a browser.
    """
    url = ui_url(results, port)
    _refuse_taken(port)
    with tempfile.TemporaryFile("w+") as log, _server(ui_command(results, port), log) as server:
        print(f"MLflow starts on port {port} ...", flush=True)
        _wait_until_up(server, port, log)
        print(f"open  {url}\nstop  Ctrl-C", flush=True)
        if browse:
            webbrowser.open(url)
        server.wait()
        raise _died(server, log)
    return 0  # Ctrl-C ended the block above


@contextmanager
def _server(command: list[str], log: IO[str]) -> Iterator[subprocess.Popen[str]]:
    """Run `command` during the block, and end it afterwards in any case.

    The command runs in its own session, so that Ctrl-C reaches only this process. Ctrl-C and
    SIGTERM end the block without an exception.
    """
    in_charge = threading.current_thread() is threading.main_thread()
    if in_charge:
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    # uvicorn, which MLflow starts, imports modules from the current folder in spite of
    # PYTHONSAFEPATH, such as a `yaml.py` of the user.
    with tempfile.TemporaryDirectory() as empty:
        server = subprocess.Popen(
            command,
            stdout=log,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            cwd=empty,
        )
        try:
            yield server
        except KeyboardInterrupt:
            print("\nMLflow stops", flush=True)
        finally:
            server.terminate()
            try:
                server.wait(timeout=10)
            except subprocess.TimeoutExpired:
                server.kill()
            if in_charge:
                signal.signal(signal.SIGTERM, before)


def _refuse_taken(port: int) -> None:
    with socket.socket() as probe:
        # As for servers: a port with connections in TIME_WAIT counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except (OSError, OverflowError) as error:
            raise PlflError(
                f"port {port} on {HOST} cannot be used ({error}); stop the program that uses it "
                "(MLflow may be running already), or set another port as tracking.port"
            ) from None


def _wait_until_up(server: subprocess.Popen[str], port: int, log: IO[str]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise _died(server, log)
        try:
            # Not urllib, which would use the user's proxy even for a local page.
            with closing(HTTPConnection(HOST, port, timeout=5)) as connection:
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    return
        except (HTTPException, OSError):
            pass
        time.sleep(0.1)
    raise PlflError(f"MLflow did not answer on port {port} within {START_SECONDS} s")


def _died(server: subprocess.Popen[str], log: IO[str]) -> PlflError:
    log.seek(0)
    tail = "".join(log.readlines()[-15:])
    command = shlex.join(map(str, server.args))  # type: ignore[arg-type]
    return PlflError(f"MLflow ended with status {server.returncode}: {command}\n{tail}")
