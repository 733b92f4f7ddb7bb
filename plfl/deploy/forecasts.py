"""Serves the forecasts of one deployed client to third parties that its owner has authorised.

This is the paper's last step: a third party receives forecasts, but neither the model nor the
readings. There is one resource, `GET /forecasts`, over HTTPS. The third party authenticates with
its certificate in the TLS handshake.
"""

from __future__ import annotations

import json
import logging
import socket
import ssl
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qsl, urlsplit

import pandas as pd

from plfl import __version__
from plfl.base.errors import DataError, PlflError
from plfl.deploy.client_host import series, series_file
from plfl.deploy.host import check_private
from plfl.deploy.protocol.client import LATEST, MODEL
from plfl.forecast.model import load
from plfl.results.records import MODELS, Model
from plfl.study import Cell, Study

if TYPE_CHECKING:  # needs cryptography, which comes with the extra `deploy`
    from plfl.deploy.keys import ServerKeys

log = logging.getLogger(__name__)

RESOURCE = "/forecasts"
PATIENCE = 10.0
"""Seconds that a connection may send nothing, in the handshake, too."""
TOTAL = 60.0
"""Seconds after which a connection is closed, whatever is still missing."""
MOST = 16
"""Most connections that are open at once; others wait until one is closed."""


class _BadRequestError(Exception):
    """What is wrong with a request."""


@dataclass
class Forecasts:
    """The forecasts of a client's latest model, after its last reading."""

    study: Study
    cell: Cell
    name: str
    folder: Path
    """Folder of the client."""
    readings: Path | None = None
    """File of newer readings; None: the series in the folder."""
    file: Path | None = None
    """File of models; None: the latest model in the folder."""
    _known: list[Any] = field(default_factory=list)
    _made: dict[Model, pd.DataFrame] = field(default_factory=dict)
    _about: dict[str, Any] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, model: Model) -> tuple[pd.DataFrame, dict[str, Any]]:
        """The forecasts, indexed by `timestamp`, and a description.

        They are computed once for each version of the model's and the readings' files.

        Raises:
            PlflError: the client has no model yet, the readings are unusable, or the last one is in
                a gap.
        """
        with self._lock:
            path = self._model()
            readings = self.readings or series_file(self.study, self.cell, self.name, self.folder)
            state = [(file, file.stat()) for file in (path, readings)]
            known = [(file, s.st_mtime_ns, s.st_size, s.st_ino) for file, s in state]
            if self._known != known:
                self._made, self._known = {}, known
            if model not in self._made:
                self._made[model] = self._make(path, model)
            return self._made[model], self._about

    def _model(self) -> Path:
        """The file of the models: the one that was named, or those that the client scored last."""
        if self.file is not None:
            return self.file
        try:
            run, _ = json.loads((self.folder / LATEST).read_text(encoding="utf-8"))
            path = self.folder / str(run) / MODEL
            if path.is_file():
                return path
        except FileNotFoundError:
            pass
        raise PlflError(
            f"{self.folder}: holds no model; the client keeps one when the server has scored it"
        )

    def _make(self, path: Path, model: Model) -> pd.DataFrame:
        forecaster = load(path)
        if self.readings is None:
            table = series(self.study, self.cell, self.name, self.folder)
        else:
            table = forecaster.read(self.readings, self.name)
        forecasts = forecaster.upcoming(table, forecaster.predict(table, self.name, model))
        if forecasts.empty:
            raise DataError(
                f"{self.name}: no forecast after the last reading, {table.index[-1]}, because "
                f"there is a gap in the {forecaster.look_back} readings before it; add readings"
            )
        self._about = {
            "client": self.name,
            "cell": forecaster.name,
            "unit": f"kWh per {forecaster.interval} min",
            "data": self.study.data.origin,
            "plfl": __version__,
        }
        return forecaster.with_offsets(forecasts, self.name)


class ForecastServer(ThreadingHTTPServer):
    """Answers `GET /forecasts` with what `forecasts` returns.

    Port 0 means any free port, see `server_port`. `keys`: its certificate, and the public keys of
    those who may ask; None: no encryption, and everyone on this machine may ask.
    """

    daemon_threads = True

    def __init__(self, forecasts: Forecasts, host: str, port: int, keys: ServerKeys | None) -> None:
        self.forecasts, self.keys = forecasts, keys
        self._free = threading.BoundedSemaphore(MOST)
        self._context = None if keys is None else _context(keys)
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError, UnicodeError) as error:
            raise PlflError(
                f"{host}:{port}: cannot listen there ({error}); choose another --host or --port"
            ) from None

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a new thread, once there are fewer than `MOST` of them."""
        self._free.acquire()
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Do the handshake in the thread, so that a slow peer does not delay others."""
        connection = request.dup()

        def cut() -> None:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

        # It ends the waiting for a peer that sends or reads a few bytes at a time.
        limit = threading.Timer(TOTAL, cut)
        limit.daemon = True
        limit.start()
        try:
            request.settimeout(PATIENCE)
            if self._context is not None:
                request = self._context.wrap_socket(request, server_side=True)
            super().process_request_thread(request, client_address)
        except OSError as error:  # a peer that has no accepted certificate, or that sends nothing
            log.warning("%s: refused (%s)", client_address[0], error)
            self.shutdown_request(request)
        finally:
            limit.cancel()
            connection.close()
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log why a connection failed, such as that the peer has reset it."""
        log.warning("%s: %s", client_address[0], sys.exception())

    def who(self, connection: Any) -> str | None:
        """The name of the peer's key, which it has proved to own; None if the owner does not know
        the key."""
        if self.keys is None:
            return "anyone on this machine"
        from cryptography import x509

        certificate = x509.load_der_x509_certificate(connection.getpeercert(binary_form=True))
        shown = certificate.public_key()
        return next((name for name, key in self.keys.clients.items() if key == shown), None)


def serve(server: ForecastServer, say: Callable[[str], None]) -> None:
    """Answer until this process is interrupted."""
    scheme = "http" if server.keys is None else "https"
    host, port = server.server_address[:2]
    say(f"forecasts of {server.forecasts.name} at {scheme}://{host!s}:{port}{RESOURCE}")
    with server:
        server.serve_forever()


def _context(keys: ServerKeys) -> ssl.SSLContext:
    ca, certificate, key = keys.certificates
    check_private(key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(certificate, key)
    context.load_verify_locations(ca)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    server_version = f"plfl/{__version__}"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer with forecasts, or with an error."""
        server = cast(ForecastServer, self.server)
        name = server.who(self.connection)
        if name is None:
            self._refuse(HTTPStatus.FORBIDDEN, "the owner of this client does not know your key")
            return
        log.info("%s requests %s", name, self.path)
        try:
            model = _requested_model(self.path)
            forecasts, about = server.forecasts(model)
        except FileNotFoundError:
            self._refuse(HTTPStatus.NOT_FOUND, f"there is only {RESOURCE}")
        except _BadRequestError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
        except Exception as error:  # messages contain paths and readings, which must not leave
            known = isinstance(error, PlflError)
            log.error("no forecasts: %s", error, exc_info=None if known else error)
            self._refuse(
                HTTPStatus.SERVICE_UNAVAILABLE, "this client cannot forecast now; ask its owner"
            )
        else:
            rows = forecasts.reset_index()
            for column in ("timestamp", "made_at"):
                rows[column] = [stamp.isoformat() for stamp in rows[column]]
            document = about | {"model": model, "forecasts": rows.to_dict("records")}
            self._send(HTTPStatus.OK, document)

    def _refuse(self, status: HTTPStatus, text: str) -> None:
        self._send(status, {"error": text})

    def _send(self, status: HTTPStatus, document: dict[str, Any]) -> None:
        text = json.dumps(document, allow_nan=False, default=lambda value: value.item())
        body = text.encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log through plfl's logger."""
        log.info("%s: %s", self.client_address[0], format % args)


def _requested_model(path: str) -> Model:
    """The model that a request asks for with `?model=`; the first of `MODELS` by default.

    Raises:
        FileNotFoundError: it requests something else than forecasts.
        _BadRequestError: a parameter or its value is unknown.
    """
    try:
        parts = urlsplit(path)
    except ValueError as error:
        raise _BadRequestError(f"malformed address: {error}") from None
    if parts.path != RESOURCE:
        raise FileNotFoundError
    model = MODELS[0]
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name != "model":
            raise _BadRequestError(f"unknown parameter {name!r}; known: model")
        if value not in MODELS:
            raise _BadRequestError(f"model={value}: choose one of {', '.join(MODELS)}")
        model = value
    return model
