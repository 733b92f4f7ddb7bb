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
from threading import Lock
from typing import Any, cast

import pandas as pd

from plfl import __version__
from plfl.base.errors import DataError, PlflError, Problem
from plfl.deploy.protocol.client import CLIENT_MODEL_FILE, LATEST, read_latest
from plfl.forecast.choice import Forecasters
from plfl.forecast.kept_models import is_results_folder
from plfl.forecast.misfits import check_fit
from plfl.forecast.model import ForecastModel, load
from plfl.forecast.reading_keys import READING_FILE, read_remembered
from plfl.forecast.recent_readings import RECENT_FILE

log = logging.getLogger(__name__)

RESOURCE = "/forecasts"
HOST = "127.0.0.1"
LOCAL_HOSTS = (HOST, "localhost")
"""The names under which programs of this machine ask."""


@dataclass(frozen=True)
class Forecasts:
    """The forecasts of a meter after its last reading, as `plfl forecast` makes them."""

    model: Path
    """A file of models, a results folder, or the folder of a deployed client."""
    name: str
    """Name of the meter."""
    readings: Path
    """Its newest readings, in the layout of the study's meters."""
    accepts_misfits: bool = False
    """Whether readings are taken that do not fit those of the study."""

    @property
    def versions(self) -> tuple[tuple[int, int], ...]:
        """The times and sizes of the files that decide the forecasts; zeros for those that are
        missing."""
        files = [self.readings, *sorted(self.readings.rglob("*"))]
        files += [
            self.model,
            self.model / LATEST,
            *sorted(self.model.glob(f"*/{CLIENT_MODEL_FILE}")),
        ]
        files += [self.model / name for name in ("models/index.csv", READING_FILE, RECENT_FILE)]
        return tuple(map(_version, files))

    def _from_file(self, file: Path) -> tuple[ForecastModel, pd.DataFrame]:
        """The model in a file, and the next forecasts."""
        model = load(file)
        readings = model.read(self.readings, self.name)
        forecasts = self._forecast_next(model, readings)
        if not self.accepts_misfits:
            highest = model.load_range(self.name)[1]
            check_fit(self.name, readings["load"], None, highest, model.meter_files.local_time)
        return model, forecasts

    def _from_results(self) -> tuple[ForecastModel, pd.DataFrame]:
        """The best forecaster of the meter in a results folder, and its next forecasts."""
        forecasters = Forecasters(self.model, self.accepts_misfits)
        model = forecasters.model(forecasters.choose(self.name).file)
        keys = read_remembered(self.model)
        _, client_readings, problems = forecasters.known_readings.read(
            [self.readings], self.name, keys
        )
        if problems:
            raise DataError(*problems)
        readings = forecasters.known_readings.read_by_next(
            model, self.name, client_readings[self.name]
        )
        return model, self._forecast_next(model, readings)

    def _forecast_next(self, model: ForecastModel, readings: pd.DataFrame) -> pd.DataFrame:
        """The forecasts of a model after the last reading."""
        forecasts = model.predict_next(readings, self.name)
        if forecasts.empty:
            raise DataError(model.explain_no_forecast(readings, self.name, "add readings"))
        return forecasts

    def document(self) -> dict[str, Any]:
        """The forecasts and what they are, as JSON values.

        Raises:
            PlflError: there is no model, the readings are unusable, or the last one is in a gap.
        """
        run, _ = read_latest(self.model)
        if run:
            model, forecasts = self._from_file(self.model / run / CLIENT_MODEL_FILE)
        elif is_results_folder(self.model):
            model, forecasts = self._from_results()
        else:
            model, forecasts = self._from_file(self.model)
        rows = model.meter_files.with_offsets(forecasts, self.name).reset_index()
        for column in ("timestamp", "made_at"):
            rows[column] = [stamp.isoformat() for stamp in rows[column]]
        rows = rows.astype(object).where(rows.notna(), None)  # JSON has no NaN
        return {
            "client": self.name,
            "cell": model.name,
            "unit": f"kWh per {model.interval} min",
            "data": model.study.data.source_words,
            "plfl": __version__,
            "forecasts": rows.to_dict("records"),
        }


def _version(file: Path) -> tuple[int, int]:
    """The time of the last change of a file and its size; zeros if it is missing."""
    try:
        status = file.stat()
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size


class ForecastServer(ThreadingHTTPServer):
    """Answers `GET /forecasts`. Port 0 means any free port, see `server_port`."""

    daemon_threads = True

    def __init__(self, forecasts: Forecasts, port: int) -> None:
        self.forecasts = forecasts
        self._lock = Lock()
        self._versions: tuple[tuple[int, int], ...] = ()
        self._document: dict[str, Any] = {}
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError) as error:
            raise PlflError(
                Problem(
                    "", f"{HOST}:{port}: cannot listen there ({error})", "choose another --port"
                )
            ) from None

    def document(self) -> dict[str, Any]:
        """The document of the forecasts, made anew if one of their files has changed; PlflError:
        see `Forecasts.document`."""
        with self._lock:
            versions = self.forecasts.versions
            if not self._document or versions != self._versions:
                self._document = {}
                self._document = self.forecasts.document()
                self._versions = versions
            return self._document

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log an error in answering a request, unless the program that asked has gone."""
        error = sys.exception()
        if not isinstance(error, ConnectionError):
            log.error("this is a bug in plfl; please report it", exc_info=error)


def serve(forecasts: Forecasts, port: int, say: Callable[[str], None]) -> None:
    """Answer until this process is interrupted. PlflError: see `Forecasts.document`."""
    document = forecasts.document()
    with ForecastServer(forecasts, port) as server:
        address = f"http://{HOST}:{server.server_port}{RESOURCE}"
        say(f"forecasts of {forecasts.name} by {document['cell']} at {address}")
        server.serve_forever()


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    server_version = f"plfl/{__version__}"
    sys_version = ""
    timeout = 60.0
    """Seconds that a connection may send nothing."""

    def do_GET(self) -> None:
        """Answer with forecasts, or with an error."""
        status, document = self._answer()
        text = json.dumps(document, allow_nan=False, default=lambda value: value.item())
        body = text.encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def _answer(self) -> tuple[HTTPStatus, dict[str, Any]]:
        """The status and the document that answer the request. An error's message has paths and
        readings, which must not leave."""
        host = self.headers.get("Host", HOST)
        if host.rpartition(":")[0] not in LOCAL_HOSTS and host not in LOCAL_HOSTS:
            # A page in a browser of this machine may give a name of its own this address.
            return HTTPStatus.MISDIRECTED_REQUEST, {
                "error": f"this host is {' or '.join(LOCAL_HOSTS)}"
            }
        if self.path != RESOURCE:
            return HTTPStatus.NOT_FOUND, {"error": f"there is only {RESOURCE}"}
        try:
            return HTTPStatus.OK, cast(ForecastServer, self.server).document()
        except PlflError as error:
            log.error("no forecasts: %s", error)
            status = HTTPStatus.SERVICE_UNAVAILABLE
        except Exception:
            log.exception("this is a bug in plfl; please report it")
            status = HTTPStatus.INTERNAL_SERVER_ERROR
        return status, {"error": "this client cannot forecast now; ask its owner"}
