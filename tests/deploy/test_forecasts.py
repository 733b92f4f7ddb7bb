"""A third party asks a deployed client for forecasts, over real connections."""

import json
import os
import socket
import ssl
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import pandas as pd
import pytest
import yaml

import plfl
from plfl.base.errors import DataError, PlflError
from plfl.deploy import forecasts as module
from plfl.deploy.forecasts import Forecasts, ForecastServer
from tests.helpers.loopback import NAMES, Deployment, by_split, study, tables

NAME = NAMES[0]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """A finished federation; the first client has a table of its own and a configuration."""
    tmp_path = tmp_path_factory.mktemp("deployed")
    of = study(
        data={"features": ["load", "temperature"]},
        windows={"look_ahead": 1, "horizons": 3},
        task={"name": "quantiles", "levels": [0.1, 0.5, 0.9]},
    )
    document = Deployment(of, by_split(of)["P2"], tmp_path)
    document.run()
    tables()[NAME].to_parquet(tmp_path / NAME / "series.parquet")
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(of.model_dump(mode="json")))
    return document


def forecasts(deployed: Deployment, readings: Path | None = None) -> Forecasts:
    return Forecasts(deployed.study, deployed.cell, NAME, deployed.folder / NAME, readings)


@contextmanager
def serving(deployed: Deployment, *options: str) -> Iterator[str]:
    """The address at which a process of its own serves the client's forecasts."""
    command = [sys.executable, "-m", "plfl", "deploy", "forecasts", "--building", NAME]
    command += ["--config", "study.yaml", "--cell", str(deployed.cell), "--folder", NAME]
    with subprocess.Popen(
        [*command, "--port", "0", *options],
        cwd=deployed.folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith(f"forecasts of {NAME} at ")
            yield line.split()[-1]
        finally:
            process.terminate()


def get(address: str, context: ssl.SSLContext | None = None) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(address, context=context, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_whoever_asks_gets_what_the_model_forecasts(deployed: Deployment) -> None:
    (file,) = (deployed.folder / NAME).glob("*/model.safetensors")
    model, table = plfl.load(file), tables()[NAME]
    wanted = model.upcoming(table, model.predict(table))
    assert len(wanted) == 3
    with ForecastServer(forecasts(deployed), "127.0.0.1", 0, None) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/forecasts"
        status, body = get(address)
        document = json.loads(body)
        assert status == 200
        assert (document["client"], document["data"]) == (NAME, "sample data")
        assert document["unit"] == "kWh per 15 min"
        rows = pd.DataFrame(document["forecasts"])
        assert rows["timestamp"].tolist() == [stamp.isoformat() for stamp in wanted.index]
        for column in ("forecast", "forecast_10", "forecast_90"):
            assert rows[column].tolist() == pytest.approx(wanted[column].tolist(), rel=1e-6)
        assert rows["outside"].tolist() == wanted["outside"].tolist()
        assert document["model"] == "local"
        _, body = get(f"{address}?model=global")
        other = pd.DataFrame(json.loads(body)["forecasts"])
        assert other["forecast"].tolist() != rows["forecast"].tolist()
        for query, word in (("model=best", "local, global"), ("client=102", "'client'")):
            status, body = get(f"{address}?{query}")
            assert status == 400
            assert word in body.decode()
        with socket.create_connection(("127.0.0.1", server.server_port)) as connection:
            connection.sendall(b"GET http://[/forecasts HTTP/1.0\r\n\r\n")
            assert b"malformed address" in connection.makefile("rb").read()
        assert get(address.replace("forecasts", "series.parquet"))[0] == 404
        with pytest.raises(PlflError, match="cannot listen there"):
            ForecastServer(forecasts(deployed), "127.0.0.1", server.server_port, None)
        server.shutdown()


def test_slow_and_broken_connections_do_not_keep_others_out(
    deployed: Deployment, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "TOTAL", 0.5)
    with ForecastServer(forecasts(deployed), "127.0.0.1", 0, None) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        address = "127.0.0.1", server.server_port
        for _ in range(3):  # each is reset in the middle of its request
            connection = socket.create_connection(address)
            connection.sendall(b"GET /forecasts HT")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
        slow = [socket.create_connection(address) for _ in range(module.MOST)]

        def drip() -> None:
            with suppress(OSError):
                while True:
                    for connection in slow:
                        connection.sendall(b"G")
                    time.sleep(0.05)

        Thread(target=drip, daemon=True).start()
        assert get(f"http://{address[0]}:{address[1]}/forecasts")[0] == 200
        server.shutdown()
        for connection in slow:
            connection.close()
    assert "Traceback" not in capsys.readouterr().err


def test_only_those_whom_the_owner_knows_may_ask(deployed: Deployment, tmp_path: Path) -> None:
    pytest.importorskip("cryptography", reason="needs Flower: pip install -e '.[deploy]'")
    from plfl.deploy.keys import make

    make(tmp_path / "keys", ["grid", "dismissed"])
    make(tmp_path / "others", ["grid"])
    known = tmp_path / "keys" / "server" / "clients"
    (known / "dismissed.pub").unlink()
    (known / "broken.pub").write_bytes(b"\xff\xfe no key")

    def context(keys: str, name: str | None) -> ssl.SSLContext:
        document = ssl.create_default_context(cafile=tmp_path / "keys" / "ca.crt")
        if name:
            document.load_cert_chain(tmp_path / keys / "clients" / name / "client.pem")
        return document

    with serving(deployed, "--keys", str(tmp_path / "keys" / "server")) as address:
        assert address.startswith("https://")
        status, body = get(address, context("keys", "grid"))
        assert status == 200
        assert json.loads(body)["client"] == NAME
        assert get(address, context("keys", "dismissed")) == (
            403,
            b'{"error": "the owner of this client does not know your key"}\n',
        )
        for keys, name in (("keys", None), ("others", "grid")):
            with pytest.raises(OSError):
                get(address, context(keys, name))
        with pytest.raises(OSError):  # without TLS
            get(address.replace("https", "http"))
        assert get(address, context("keys", "grid"))[0] == 200


def test_newer_readings_and_gaps(deployed: Deployment, tmp_path: Path) -> None:
    path, table = tmp_path / "new.csv", tables()[NAME]
    table[:200].rename_axis("timestamp").to_csv(path)
    made, about = forecasts(deployed, path)("local")
    assert made["made_at"].unique().tolist() == [table.index[199]]
    assert about["cell"] == str(deployed.cell)
    lost = table[:200].copy()
    lost.iloc[190:199] = float("nan")
    lost.rename_axis("timestamp").to_csv(path)
    with pytest.raises(DataError, match="no forecast after the last reading"):
        forecasts(deployed, path)("local")


def test_a_forecast_is_made_once(deployed: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    original = Forecasts._make

    def counted(self, path, model):
        made.append(model)
        return original(self, path, model)

    monkeypatch.setattr(Forecasts, "_make", counted)
    asked = forecasts(deployed)
    for model in ("local", "local", "global", "local"):
        asked(model)
    assert made == ["local", "global"]
    (file,) = (deployed.folder / NAME).glob("*/model.safetensors")
    os.utime(file)  # the client has scored its models again
    asked("local")
    assert made == ["local", "global", "local"]
    own = deployed.folder / NAME / "series.parquet"
    before, made_at = own.read_bytes(), asked("local")[0]["made_at"].max()
    stamp = own.stat()
    tables()[NAME][:200].to_parquet(own)  # fewer readings, and an older file
    os.utime(own, ns=(stamp.st_atime_ns, stamp.st_mtime_ns - 10**9))
    assert (asked("local")[0]["made_at"] < made_at).all()
    own.write_bytes(before)


def test_a_client_without_a_model_says_so(deployed: Deployment, tmp_path: Path) -> None:
    with pytest.raises(PlflError, match="holds no model; the client keeps one when"):
        Forecasts(deployed.study, deployed.cell, NAME, tmp_path)("local")
