import json
import os
import shutil
import socket
import subprocess
import sys
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from plfl.base.errors import PlflError, ResultsError
from plfl.publish.tracking import server
from plfl.publish.tracking.server import serve, ui_url
from plfl.publish.tracking.store import connect
from tests.helpers.refusals import naming


def ask(port, page, **query):
    url = f"http://127.0.0.1:{port}{page}?{urllib.parse.urlencode(query)}"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=30) as answer:
        return answer.read()


def test_a_moved_study_is_served_with_its_artifacts(tracked, tmp_path, free_port, serving):
    moved = Path(shutil.copytree(tracked, tmp_path / "moved here"))
    # A proxy in the environment must not stand between us and this machine's own page.
    environment = os.environ | {"http_proxy": "http://127.0.0.1:9", "no_proxy": ""}
    browser, opened = tmp_path / "browser", tmp_path / "opened"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {opened}.part\nmv {opened}.part {opened}\n')
    browser.chmod(0o755)
    environment["BROWSER"] = str(browser)
    # Nor may files of the user's that have the names of modules that MLflow and uvicorn import.
    (tmp_path / "here").mkdir()
    own = {tmp_path / "here" / name for name in ("click.py", "yaml.py")}
    for file in own:
        file.write_text("raise SystemExit('imported from the current folder')")
    with serving(moved, free_port, "--open", env=environment, cwd=tmp_path / "here") as process:
        assert process.stdout.readline() == f"MLflow starts on port {free_port} ...\n"
        assert process.stdout.readline() == f"open  {ui_url(moved, free_port)}\n"
        assert process.stdout.readline() == "stop  Ctrl-C\n"
        page = ask(free_port, "/ajax-api/2.0/mlflow/experiments/get", experiment_id="1")
        assert json.loads(page)["experiment"]["name"] == "tiny (sample data)"
        for folder in (moved / "mlartifacts").iterdir():
            for file in (folder / "artifacts").iterdir():
                shown = ask(free_port, "/get-artifact", path=file.name, run_uuid=folder.name)
                assert shown == file.read_bytes()
    assert opened.read_text() == ui_url(moved, free_port)
    assert process.returncode == 0
    assert process.rest.endswith("MLflow stops\n")
    assert set((tmp_path / "here").iterdir()) == own
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", free_port))


def test_a_port_that_is_taken_is_named(tracked):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with naming(PlflError, port, "tracking.port"):
            serve(tracked, port)


def test_a_server_that_ends_tells_why(tracked, monkeypatch, free_port):
    failing = [sys.executable, "-c", "import sys; sys.exit('no room left')"]
    monkeypatch.setattr(server, "ui_command", lambda *_: failing)
    with pytest.raises(PlflError, match=r"(?s)status 1: .*no room left"):
        serve(tracked, free_port)


def test_a_server_that_never_answers_is_ended(tracked, monkeypatch, free_port):
    started = []
    popen = subprocess.Popen

    def start(*args, **kwargs):
        started.append(popen(*args, **kwargs))
        return started[0]

    monkeypatch.setattr(server, "ui_command", lambda *_: [sys.executable, "-c", "input()"])
    monkeypatch.setattr(server.subprocess, "Popen", lambda *a, **k: start(*a, stdin=-1, **k))
    monkeypatch.setattr(server, "START_SECONDS", 0.5)
    with naming(PlflError, free_port):
        serve(tracked, free_port)
    assert started[0].returncode is not None


def test_a_folder_without_a_database_is_refused(tmp_path, free_port):
    with naming(ResultsError, "mlflow.db"):
        serve(tmp_path, free_port)


def test_a_database_without_a_study_is_refused(tracked, tmp_path, free_port):
    copy = Path(shutil.copytree(tracked, tmp_path / "copy"))
    connect(copy / "mlflow.db").delete_experiment_tag("1", "plfl.study")
    with naming(ResultsError, copy, "plfl track"):
        serve(copy, free_port)
