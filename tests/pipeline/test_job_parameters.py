"""What the jobs that make windows and baselines depend on."""

from inspect import signature
from typing import Any

import pytest

from plfl.config.sections import Data
from plfl.data import sources
from plfl.data.windows import build
from plfl.pipeline import fingerprint
from plfl.pipeline.job_parameters import JobParameters
from tests.helpers import tiny

STATE = {"state": "NY"}
CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "windows": ({"look_ahead": 4}, {"look_ahead": 5}),
    "origin": ({"origins": ["2018-09-01"]}, {"origins": ["2018-10-01"]}),
    "size": ({"federations": None}, {"federations": 2}),
    "new": ({"history": 1}, {"history": 4}),
}
"""By argument of `build` that a study decides, keys of a block before and after a change; `limits`
are those of deployed clients."""
BLOCKS = {"windows": "windows", "origin": "data", "size": "data"}


def parameters(argument: str, keys: dict[str, Any]) -> tuple[JobParameters, Any]:
    """The parameters of the jobs of a study with these keys, and what they say of windows."""
    windows = {"scaling": "per_client"}
    block: dict[str, Any] = {BLOCKS.get(argument, ""): keys}
    if argument == "new":
        block = {
            "sharing": {"P1": ["*"], "new": {"join": "unseen"} | keys},
            "grid": {"sharing": ["P1", "new"], "client_opt": ["adam"], "server_opt": ["fedavg"]},
        }
    block["windows"] = windows | block.get("windows", {})
    block["data"] = {"states": ["NY"]} | block.get("data", {})
    jobs = JobParameters(tiny.study(**block))
    return jobs, jobs.windows(STATE)


@pytest.mark.parametrize(
    "argument",
    [name for name in signature(build).parameters if name not in ("tables", "limits", "folder")],
)
def test_all_that_decides_windows_is_a_parameter_of_their_job(argument, monkeypatch) -> None:
    given: list[Any] = []

    def see(tables: Any, windows: Any, limits: Any, **arguments: Any) -> None:
        given.append({"windows": windows, **arguments}[argument])

    monkeypatch.setattr(sources, "build", see)
    old, new = (parameters(argument, keys) for keys in CHANGES[argument])
    for jobs, _ in (old, new):
        sources.windows_of(jobs.study, {})
    assert given[0] != given[1]
    assert old[1] != new[1]
    if argument != "windows":
        assert old[0].data_settings(STATE) == new[0].data_settings(STATE), "nothing to fetch"


def test_every_key_of_data_is_a_parameter_or_a_wildcard() -> None:
    jobs = JobParameters(tiny.study(data={"states": ["NY"], "resample": 60}))
    blocks = {"comstock", "meters", "sample"}
    others = blocks - {"comstock", "sample"}  # of another source
    cutting = {"origins", "federations"}
    known = {*jobs.data_settings(STATE)} | others | cutting | {"states"}
    assert known >= {*Data.model_fields}


@pytest.mark.parametrize("names", ["m.pt", ["m.pt", "n.pt"]])
def test_the_content_of_files_of_baselines_is_a_parameter(tmp_path, names) -> None:
    paths = [tmp_path / name for name in ([names] if isinstance(names, str) else names)]
    baseline = {"name": "public", "kind": "homes", "file": paths if len(paths) > 1 else paths[0]}
    jobs = JobParameters(tiny.study(baselines={"further": [baseline]}))
    values = []
    for content in "ab":
        paths[-1].write_text(content)
        fingerprint.forget()
        values.append(jobs.baselines_settings(STATE))
    assert values[0] != values[1]
