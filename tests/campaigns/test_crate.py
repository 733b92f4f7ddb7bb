"""A published study in the validators of RO-Crate and Croissant, in an environment of their own.

They need 400 MB.
"""

import json
import subprocess
import urllib.request
import venv
from datetime import date
from pathlib import Path

import pytest

from plfl.publish import citation
from plfl.publish.crate import publish
from tests.helpers import fake_results
from tests.publish.test_crate import finished

CONTEXT = "https://w3id.org/ro/crate/1.1/context"
"""What the validator of RO-Crate reads."""
RECORDS = """
import sys, mlcroissant
data = mlcroissant.Dataset(sys.argv[1])
assert not data.metadata.issues.errors, data.metadata.issues.errors
print(sum(1 for row in data.records("records")))
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("validators")
    venv.create(folder, with_pip=True)
    packages = ["roc-validator>=0.13", "mlcroissant[parquet]>=1.1"]
    subprocess.run([folder / "bin" / "pip", "install", "--quiet", *packages], check=True)
    return folder / "bin"


@pytest.fixture(scope="module")
def crate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    (folder / "CITATION.cff").write_text(citation.EXAMPLE, encoding="utf-8")
    cited = citation.read(folder / "CITATION.cff")
    publish(finished(folder, fake_results.TINY), folder / "crate", cited, date(2026, 2, 3))
    return folder / "crate"


@pytest.mark.parametrize("profile", ["ro-crate-1.1", "process-run-crate-0.5"])
def test_ro_crate(programs: Path, crate: Path, profile: str) -> None:
    try:
        urllib.request.urlopen(CONTEXT, timeout=60).close()
    except OSError as error:
        pytest.skip(f"needs {CONTEXT}: {error}")
    command = [programs / "rocrate-validator", "--no-interactive", "validate", "--no-paging", "-v"]
    subprocess.run([*command, "-p", profile, "-l", "REQUIRED", crate], check=True)


def test_croissant(programs: Path, crate: Path) -> None:
    command = [programs / "python", "-c", RECORDS, crate / "croissant.json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    about = json.loads((crate / "croissant.json").read_text(encoding="utf-8"))
    assert "records" in {table["@id"] for table in about["recordSet"]}
    assert int(done.stdout) > 0
