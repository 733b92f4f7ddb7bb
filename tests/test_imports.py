"""What is used by itself loads no library that it does not need."""

import os
import subprocess
import sys

import pytest

from tests.helpers.repository import ROOT

WITHOUT = {
    "import plfl": "numpy pandas torch",
    "import plfl.cli.main as m; m.build_parser([])": "torch pandas matplotlib",
    "import plfl.cli.main as m; m.build_parser(['forecast'])": "torch lightgbm matplotlib sklearn",
    "import plfl.cli.study": "torch lightgbm matplotlib",
    "from plfl.report.figures import available; assert available()": "matplotlib torch",
    "import plfl.data.comstock.series": "boto3",
    f"import plfl; plfl.Study.load({str(ROOT / 'config/recipe.yaml')!r})": "torch",
    "from plfl.deploy.relay import command; command(); import plfl.deploy.client_app": (
        "torch sqlalchemy"
    ),
}
"""Code, and libraries that it does without."""
JOB = f"""
import yaml
from types import SimpleNamespace
from plfl.base.lazy import lightgbm
from plfl.pipeline.jobs import job
config = yaml.safe_load(open({str(ROOT / "config/recipe.yaml")!r}))
with job(SimpleNamespace(config=config, log=["/dev/null"], wildcards={{}})):
    lightgbm.Booster
"""
"""A job of a study without plug-ins that trains trees."""
WITHOUT[JOB] = "sklearn torch"


@pytest.mark.parametrize("code", WITHOUT)
def test_no_library_is_loaded_that_is_not_needed(code: str) -> None:
    if "deploy" in code:
        pytest.importorskip("flwr", reason="needs Flower: pip install -e '.[deploy]'")
    code += f"\nimport sys; print(set({WITHOUT[code].split()}) & set(sys.modules))"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_what_a_package_does_without_can_still_be_imported() -> None:
    code = """
import sys
from plfl.base.lazy import import_without, lightgbm
import_without("sklearn", "lightgbm")
print(lightgbm.Booster.__name__)
print({"sklearn", "scipy.stats"} & set(sys.modules))
import sklearn.base
print(sklearn.base.__name__)
"""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["Booster", "set()", "sklearn.base"]
