"""Serves a meter's forecasts to programs of this machine, such as a home automation.

This is the paper's last step: a third party receives forecasts, but neither the model nor the
readings. There is one resource, `GET /forecasts`. It is neither encrypted nor authenticated, so it
listens on 127.0.0.1 only; a web server in front of it admits others.
"""

import json
import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

from plfl import __version__
from plfl.base.errors import DataError, PlflError, Problem
from plfl.deploy.protocol.client import LATEST, MODEL
from plfl.forecast.choice import Forecasters, is_results_folder
from plfl.forecast.model import load

log = logging.getLogger(__name__)

RESOURCE = "/forecasts"
HOST = "127.0.0.1"


@dataclass(frozen=True)
class Forecasts:
    """The forecasts of a meter after its last reading, made anew for each request."""

    model: Path
    """A file of models, a results folder, or the folder of a deployed client."""
    name: str
    """Name of the meter."""
    readings: Path
    """Its newest readings, in the layout of the study's meters."""

    @property
    def file(self) -> Path:
        """The file of the models: that which the client scored last or, of a results folder, that
        with the best forecaster of the meter."""
        if (latest := self.model / LATEST).is_file():
            run, _ = json.loads(latest.read_text(encoding="utf-8"))
            return self.model / str(run) / MODEL
        if is_results_folder(self.model):
            return Forecasters(self.model).choose(self.name).file
        return self.model

    def document(self) -> dict[str, Any]:
        """The forecasts and what they are, as JSON values.

        Raises:
            PlflError: there is no model, the readings are unusable, or the last one is in a gap.
        """
        model = load(self.file)
        table = model.read(self.readings, self.name)
        forecasts = model.predict_next(table, self.name)
        if forecasts.empty:
            raise DataError(model.explain_no_forecast(table, self.name, "add readings"))
        rows = model.with_offsets(forecasts, self.name).reset_index()
        for column in ("timestamp", "made_at"):
            rows[column] = [stamp.isoformat() for stamp in rows[column]]
        return {
            "client": self.name,
            "cell": model.name,
            "unit": f"kWh per {model.interval} min",
            "data": model.study.data.origin,
            "plfl": __version__,
            "forecasts": rows.to_dict("records"),
        }


class ForecastServer(ThreadingHTTPServer):
    """Answers `GET /forecasts`. Port 0 means any free port, see `server_port`."""

    daemon_threads = True

    def __init__(self, forecasts: Forecasts, port: int) -> None:
        self.forecasts = forecasts
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError) as error:
            raise PlflError(
                Problem(
                    "", f"{HOST}:{port}: cannot listen there ({error})", "choose another --port"
                )
            ) from None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log an error in answering a request, unless the program that asked has gone."""
        error = sys.exception()
        if not isinstance(error, ConnectionError):
            log.error("this is a bug in plfl; please report it", exc_info=error)


def serve(forecasts: Forecasts, port: int, say: Callable[[str], None]) -> None:
    """Answer until this process is interrupted. PlflError: see `Forecasts.document`."""
    about = forecasts.document()
    with ForecastServer(forecasts, port) as server:
        address = f"http://{HOST}:{server.server_port}{RESOURCE}"
        say(f"forecasts of {forecasts.name} by {about['cell']} at {address}")
        server.serve_forever()


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    server_version = f"plfl/{__version__}"
    sys_version = ""
    timeout = 60.0
    """Seconds that a connection may send nothing."""

    def do_GET(self) -> None:
        """Answer with forecasts, or with an error."""
        status, document = HTTPStatus.OK, {"error": f"there is only {RESOURCE}"}
        if self.path != RESOURCE:
            status = HTTPStatus.NOT_FOUND
        else:
            try:
                document = cast(ForecastServer, self.server).forecasts.document()
            except PlflError as error:  # its message has paths and readings, which must not leave
                log.error("no forecasts: %s", error)
                status = HTTPStatus.SERVICE_UNAVAILABLE
                document = {"error": "this client cannot forecast now; ask its owner"}
        text = json.dumps(document, allow_nan=False, default=lambda value: value.item())
        body = text.encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)
