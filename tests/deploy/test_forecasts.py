"""A program of this machine asks for forecasts, over real connections."""

import json
import socket
import struct
import urllib.error
import urllib.request
from pathlib import Path
from threading import Event, Semaphore, Thread
from typing import Any, ClassVar

import pandas as pd
import pytest

import plfl
from plfl.base.errors import DataError, PlflError
from plfl.deploy.forecasts import Forecasts, ForecastServer, serve
from tests.helpers.loopback import NAMES, Deployment, by_split, study, tables
from tests.helpers.refusals import naming

NAME = NAMES[0]


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """A finished federation, with a file of the first client's readings."""
    tmp_path = tmp_path_factory.mktemp("deployed")
    own_study = study(
        data={"features": ["load", "temperature"]},
        windows={"look_ahead": 1, "horizons": 3},
        task={"name": "quantiles", "levels": [0.1, 0.5, 0.9]},
    )
    deployment = Deployment(own_study, by_split(own_study)["P2"], tmp_path)
    deployment.run()
    tables()[NAME].rename_axis("timestamp").to_csv(tmp_path / "readings.csv")
    return deployment


def forecasts(deployed: Deployment, readings: Path | None = None) -> Forecasts:
    return Forecasts(deployed.folder / NAME, NAME, readings or deployed.folder / "readings.csv")


def get(address: str | urllib.request.Request) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(address, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_whoever_asks_gets_what_the_model_forecasts(deployed: Deployment, tmp_path: Path) -> None:
    (file,) = (deployed.folder / NAME).glob("*/model.safetensors")
    model, table = plfl.load(file), tables()[NAME]
    wanted = model.select_upcoming(table, model.predict(table))
    assert len(wanted) == 3
    readings = tmp_path / "readings.csv"
    readings.write_bytes((deployed.folder / "readings.csv").read_bytes())
    with ForecastServer(forecasts(deployed, readings), 0) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/forecasts"
        status, body = get(address)
        document = json.loads(body)
        assert status == 200
        assert (document["client"], document["data"]) == (NAME, "sample data")
        assert (document["unit"], document["cell"]) == ("kWh per 15 min", str(deployed.cell))
        rows = pd.DataFrame(document["forecasts"])
        assert rows["timestamp"].tolist() == [stamp.isoformat() for stamp in wanted.index]
        for column in ("forecast", "forecast_10", "forecast_90"):
            assert rows[column].tolist() == pytest.approx(wanted[column].tolist(), rel=1e-6)
        assert get(address.replace("forecasts", "series.parquet"))[0] == 404
        table[:200].rename_axis("timestamp").to_csv(readings)  # it is read again
        made_at = {row["made_at"] for row in json.loads(get(address)[1])["forecasts"]}
        assert made_at == {table.index[199].isoformat()}
        readings.unlink()
        status, body = get(address)
        assert status == 503
        assert str(tmp_path) not in body.decode()
        with naming(PlflError, "cannot listen there", "--port"):
            ForecastServer(forecasts(deployed), server.server_port)
        server.shutdown()


class Counted(Forecasts):
    """Forecasts whose document is a number, of how often it was made."""

    counts: ClassVar[list[int]] = []

    def document(self) -> dict[str, Any]:
        self.counts.append(len(self.counts) + 1)
        if self.readings.read_text() == "broken":
            raise ValueError("secret")
        return {"count": len(self.counts)}


def test_forecasts_are_made_again_if_a_file_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Counted, "counts", [])
    readings = tmp_path / "readings.csv"
    readings.write_text("1")
    with ForecastServer(Counted(tmp_path, NAME, readings), 0) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/forecasts"
        assert [json.loads(get(address)[1])["count"] for _ in range(3)] == [1, 1, 1]
        assert get(address.replace("127.0.0.1", "localhost"))[0] == 200
        readings.write_text("12")
        assert json.loads(get(address)[1])["count"] == 2
        request = urllib.request.Request(address, headers={"Host": "attacker.example:8001"})
        assert get(request)[0] == 421
        readings.write_text("broken")
        status, body = get(address)
        assert status == 500 and b"secret" not in body
        readings.write_text("1")
        assert json.loads(get(address)[1])["count"] == 4
        server.shutdown()


def test_programs_that_break_off_leave_no_trace(
    deployed: Deployment, monkeypatch: pytest.MonkeyPatch, capsys, caplog
) -> None:
    """Each has gone when its answer, larger than what the system takes, is written."""
    gone, counted = Event(), Semaphore(0)

    def document(self: Forecasts) -> dict[str, str]:
        gone.wait(60)
        return {"answer": "x" * 10**7}

    class Counting(ForecastServer):
        def process_request_thread(self, *arguments: Any) -> None:
            super().process_request_thread(*arguments)
            counted.release()

    monkeypatch.setattr(Forecasts, "document", document)
    with Counting(forecasts(deployed), 0) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        connections = [
            socket.create_connection(("127.0.0.1", server.server_port)) for _ in range(20)
        ]
        for connection in connections:
            connection.sendall(b"GET /forecasts HTTP/1.0\r\n\r\n")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
        gone.set()
        assert all(counted.acquire(timeout=60) for _ in connections)
        server.shutdown()
    assert "Traceback" not in capsys.readouterr().err + caplog.text


def test_what_cannot_be_forecast_is_refused_at_the_start(deployed: Deployment, tmp_path) -> None:
    lost = tables()[NAME][:200].copy()
    lost.iloc[190:199] = float("nan")
    lost.rename_axis("timestamp").to_csv(tmp_path / "new.csv")
    with pytest.raises(DataError, match="no forecast after the last reading"):
        serve(forecasts(deployed, tmp_path / "new.csv"), 0, print)
    with pytest.raises(PlflError, match="holds no study"):
        serve(Forecasts(tmp_path, NAME, tmp_path / "new.csv"), 0, print)
