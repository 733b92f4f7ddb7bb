"""MLflow's browser pages for a results folder."""

import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import IO

from plfl.errors import PlflError, ResultsError
from plfl.tracking.store import ARTIFACTS, DATABASE, check, connect, find_experiment
from plfl.tracking.views import presets

HOST = "127.0.0.1"
START_SECONDS = 120
"""How long a server may take to answer first; a cold one needs about ten seconds."""


def ui_command(results: Path, port: int) -> list[str]:
    """The command that serves the database of `results`, as one could type it."""
    folder = results.resolve()
    # Jobs are MLflow's evaluations of language models: eight processes and 2 GB for nothing here.
    return [
        "env",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false",
        "MLFLOW_DISABLE_TELEMETRY=true",
        *(sys.executable, "-m", "mlflow", "server"),
        *("--backend-store-uri", f"sqlite:///{folder / DATABASE}"),
        *("--artifacts-destination", str(folder / ARTIFACTS)),
        *("--host", HOST, "--port", str(port), "--workers", "1"),
    ]


def ui_url(results: Path, port: int) -> str:
    """Address of the view of the best cells, at a server of `results` on `port`.

    Raises:
        ResultsError: `results` has no database that this MLflow can read, or no study in it.
    """
    experiment = find_experiment(connect(check(results)))
    if experiment is None:
        raise ResultsError(f"{results}: its MLflow database holds no study; log the study first")
    best = next(presets([], 1))
    return f"http://{HOST}:{port}{best.path(experiment.experiment_id)}"


def serve(results: Path, port: int) -> int:
    """Serve the database of `results` on this machine until Ctrl-C or SIGTERM; returns 0 then.

    Raises:
        ResultsError: see `ui_url`.
        PlflError: the port is taken, or the server does not start.
    """
    url = ui_url(results, port)
    _refuse_taken(port)
    with tempfile.TemporaryFile("w+") as log, _server(ui_command(results, port), log) as server:
        print(f"MLflow starts on port {port} ...", flush=True)
        _wait_until_up(server, port, log)
        print(f"open  {url}\nstop  Ctrl-C", flush=True)
        server.wait()
        raise _died(server, log)
    return 0  # the block above was left by Ctrl-C


@contextmanager
def _server(command: list[str], log: IO[str]) -> Iterator[subprocess.Popen[str]]:
    """Run `command` in a session of its own, so that Ctrl-C reaches us alone, and end it for sure.

    Ctrl-C and SIGTERM end the block; they do not leave it.
    """
    in_charge = threading.current_thread() is threading.main_thread()
    if in_charge:
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    server = subprocess.Popen(
        command, stdout=log, stderr=subprocess.STDOUT, text=True, start_new_session=True
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
        # As servers do: a port whose last connections are still fading away is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except (OSError, OverflowError) as error:
            raise PlflError(
                f"port {port} on {HOST} cannot be used ({error}): is MLflow open already? "
                "Stop what listens there, or set another one as tracking.port"
            ) from None


def _wait_until_up(server: subprocess.Popen[str], port: int, log: IO[str]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise _died(server, log)
        try:
            # Not urllib, which would ask a proxy of the user's for this machine's own page.
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
