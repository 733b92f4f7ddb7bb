"""What the jobs that make windows and baselines depend on."""

from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from plfl.config.data import Data
from plfl.config.windows import Holidays
from plfl.data import sources
from plfl.data.dataset import Dataset
from plfl.data.windows import build
from plfl.pipeline import fingerprint
from plfl.pipeline.job_parameters import JobParameters
from tests.helpers import tiny

STATE = {"state": "NY"}
CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "windows": ({"look_ahead": 4}, {"look_ahead": 5}),
    "origin": ({"origins": ["2018-09-01"]}, {"origins": ["2018-10-01"]}),
    "federation_size": ({"federations": None}, {"federations": 2}),
    "new_weeks": ({"history": 1}, {"history": 4}),
}
"""By argument of `build` that a study decides, keys of a block before and after a change; `limits`
are those of deployed clients."""
BLOCKS = {"windows": "windows", "origin": "data", "federation_size": "data"}


def parameters(argument: str, keys: dict[str, Any]) -> tuple[JobParameters, Any]:
    """The parameters of the jobs of a study with these keys, and what they say of windows."""
    windows = {"scaling": "per_client"}
    block: dict[str, Any] = {BLOCKS.get(argument, ""): keys}
    if argument == "new_weeks":
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
    [
        name
        for name in signature(build).parameters
        if name not in ("client_series", "limits", "folder")
    ],
)
def test_all_that_decides_windows_is_a_parameter_of_their_job(argument, monkeypatch) -> None:
    given: list[Any] = []

    def see(client_series: Any, windows: Any, limits: Any, **arguments: Any) -> None:
        given.append({"windows": windows, **arguments}[argument])

    monkeypatch.setattr(sources, "build", see)
    old, new = (parameters(argument, keys) for keys in CHANGES[argument])
    for jobs, _ in (old, new):
        sources.build_dataset(jobs.study, {})
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


def test_other_holidays_of_the_package_are_another_parameter_and_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("holidays")
    windows = {"covariates": [{"name": "holidays", "country": "DE"}]}
    study = tiny.study(windows=windows, model={"name": "mlp", "hidden": [4]})
    values, list_holidays = [], Holidays.dates
    for name, count in (("now", None), ("later", -1)):
        monkeypatch.setattr(
            Holidays, "dates", lambda *args, count=count: list_holidays(*args)[:count]
        )
        dataset = build(tiny.tables(1), study.windows, folder=tmp_path)
        dataset.save(tmp_path / name)
        assert Dataset.load_file(tmp_path / name).clients.tolist() == ["a"]
        values.append((JobParameters(study).windows(STATE), (tmp_path / name).read_bytes()))
    assert values[0][0] != values[1][0] and values[0][1] != values[1][1]
