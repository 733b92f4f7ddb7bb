"""The workflow through Snakemake's Kubernetes executor, without a cluster.

A server on loopback stands in for the API of Kubernetes: it keeps what it is asked to run and runs
the container's command as a process on this machine, in an empty folder and with nothing but S3
(moto) in common with the others. What it cannot show is said in docs/clusters.md.

`make campaign NAME=kubernetes` runs it. The executor and storage plugins have to be installed, and
pip has to reach its index: each job installs the storage plugin anew.
"""

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import boto3
import pytest
import yaml

from tests.helpers.repository import ROOT
from tests.helpers.s3 import empty, serving

SMOKE = "config/smoke.yaml"
IMAGE = "registry.example.org/plfl:test"


class Api(ThreadingHTTPServer):
    """As much of the API of Kubernetes as the executor asks for."""

    def __init__(self, folder: Path):
        super().__init__(("127.0.0.1", 0), _Request)
        self.folder = folder
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.secrets: dict[str, dict[str, str]] = {}
        self.jobs: dict[str, dict[str, Any]] = {}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, job: dict[str, Any]) -> None:
        """Run a job's container: its command, with its environment, in an empty folder."""
        name = job["metadata"]["name"]
        self.jobs[name] = job
        container = job["spec"]["template"]["spec"]["containers"][0]
        folder = self.folder / name
        folder.mkdir()
        home = str(Path(sys.executable).parent)
        environment = {"PATH": f"{home}:/usr/bin:/bin", "HOME": str(folder)}
        environment |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        for variable in container["env"]:
            reference = variable["valueFrom"]["secretKeyRef"]
            encoded = self.secrets[reference["name"]][reference["key"]]
            environment[variable["name"]] = base64.b64decode(encoded).decode()
        with (folder / "log").open("wb") as log:
            self.processes[name] = subprocess.Popen(
                [*container["command"], *container["args"]],
                cwd=folder, env=environment, stdout=log, stderr=log,
            )  # fmt: skip

    def status(self, name: str) -> dict[str, Any]:
        code = self.processes[name].poll()
        counts = {} if code is None else {"succeeded" if code == 0 else "failed": 1}
        return {**self.jobs[name], "status": counts}

    def logs(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("*/log")))


class _Request(BaseHTTPRequestHandler):
    server: Api

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.endswith("/secrets"):
            self.server.secrets[body["metadata"]["name"]] = body["data"]
        elif self.path.endswith("/jobs"):
            self.server.start(body)
        self.answer(body, 201)

    def do_GET(self) -> None:
        parts = self.path.split("?")[0].split("/")
        if parts[-1] == "status":
            self.answer(self.server.status(parts[-2]))
        else:
            self.answer({"items": []})

    def do_DELETE(self) -> None:
        self.answer({})

    def answer(self, content: dict[str, Any], status: int = 200) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Silent."""


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    (tmp_path / "pods").mkdir()
    with Api(tmp_path / "pods") as api:
        Thread(target=api.serve_forever, args=(0.05,), daemon=True).start()
        yield api
        api.shutdown()


@pytest.fixture
def bucket() -> Iterator[str]:
    """The address of an S3 server with a bucket `plfl`."""
    keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret"}
    with serving() as (_, url):
        owner = boto3.client("s3", endpoint_url=url, region_name="us-east-1", **keys)
        empty(url)
        owner.create_bucket(Bucket="plfl")
        yield url


def snakemake(folder: Path, environment: dict[str, str], *options: str) -> str:
    """What a run of the smoke study in a checkout in `folder` printed; it must have succeeded."""
    for part in ("workflow", "config", "profiles"):
        shutil.copytree(ROOT / part, folder / part)
    for part in ("Snakefile", "environment.yml"):
        shutil.copy(ROOT / part, folder)
    command = [sys.executable, "-m", "snakemake", "--nocolor", "--configfile", SMOKE, *options]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"} | environment
    run = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout + run.stderr


def test_the_smoke_study(tmp_path: Path, api: Api, bucket: str) -> None:
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "clusters": [{"name": "test", "cluster": {"server": api.url}}],
        "users": [{"name": "test", "user": {}}],
    }
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(kubeconfig), encoding="utf-8")
    environment = {
        "KUBECONFIG": str(tmp_path / "kubeconfig"),
        "SNAKEMAKE_STORAGE_S3_ACCESS_KEY": "key",
        "SNAKEMAKE_STORAGE_S3_SECRET_KEY": "secret",
    }
    options = [
        *("--workflow-profile", "profiles/kubernetes"),
        *("--container-image", IMAGE, "--default-storage-prefix", "s3://plfl/smoke"),
        *("--storage-s3-endpoint-url", bucket, "--retries", "0"),
    ]
    try:
        snakemake(tmp_path / "remote", environment, *options)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{api.logs()}") from None

    assert len(api.jobs) == 2, "the training and the baselines; all else is local"
    for job in api.jobs.values():
        pod = job["spec"]["template"]["spec"]
        container = pod["containers"][0]
        assert container["image"] == IMAGE
        assert int(container["resources"]["requests"]["memory"].removesuffix("M")) > 2000
        assert pod["restartPolicy"] == "Never"
        assert "key" not in {variable.get("value") for variable in container["env"]}

    snakemake(tmp_path / "local", {}, "--workflow-profile=none", "--cores=2")
    records = Path("results", "smoke", "records.parquet")
    remote, local = tmp_path / "remote" / records, tmp_path / "local" / records
    assert remote.read_bytes() == local.read_bytes()
    assert (tmp_path / "remote" / "results" / "smoke" / "index.html").is_file()
