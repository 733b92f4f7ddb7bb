"""What a local step of a model costs, where a study trains, and in how many jobs."""

from collections.abc import Sequence
from typing import Any, ClassVar

import pandas as pd
import pytest

from plfl.base.errors import ConfigError
from plfl.baselines.lightgbm_bagged import LightgbmBagged
from plfl.data import sources
from plfl.data.sources import build_dataset
from plfl.experiments import job_sizes, workload
from plfl.experiments.job_sizes import PAPER_STEP, cost_of_step, local_steps, side_by_side, stack_of
from plfl.forecast.kept_errors import has_medians
from plfl.interfaces.baseline import Baseline, FittedBaseline
from plfl.study import Study
from tests.helpers import tiny
from tests.helpers.image_studies import make_study as make_image_study
from tests.helpers.refusals import naming
from tests.helpers.tiny import study as load_study


@pytest.mark.parametrize(("model", "operations"), [("cnn44", 0.0511e9), ("resnet18_gn", 1.1109e9)])
def test_models_of_images_cost_their_operations(model: str, operations: float) -> None:
    """Operations per image from an independent count."""
    study = Study.parse(
        {
            "data": {"source": "cifar100" if model == "resnet18_gn" else "cifar10", "states": ["c"]}
            | {"clients": 100},
            "task": {"name": "classify"},
            "model": {"name": model},
            "sharing": {"all": ["*"]},
            "grid": {"sharing": ["all"]},
            "federation": {"local_epochs": 2, "batch_size": 50},
        },
        "test",
    )
    assert cost_of_step(study) == pytest.approx(50 * operations / PAPER_STEP, rel=2e-3)
    assert local_steps(study) == 20


def test_loads_cost_what_the_paper_s_model_costs() -> None:
    assert cost_of_step(tiny.study()) == 1


def two_scheme_study(steps: int = 2, states: Sequence[str] = ("XX",), **compute: Any) -> Study:
    """Two schemes, two ServerOpts and two seeds."""
    return tiny.study(
        data={"states": list(states)},
        grid={"sharing": ["P1", "P2"], "server_opt": ["fedavg", "fedadam"], "seeds": [1, 2]},
        federation={"rounds": 2, "local_steps": steps},
        compute=compute,
    )


def test_short_trainings_and_those_on_a_gpu_are_one_job(monkeypatch, tmp_path):
    monkeypatch.setattr(job_sizes, "DRIVER", tmp_path / "none")
    assert stack_of(two_scheme_study()) == "state"
    assert stack_of(two_scheme_study(10_000)) == "sharing"
    assert stack_of(two_scheme_study(10_000, device="cuda")) == "study"
    assert stack_of(two_scheme_study(stack="cell")) == "cell"
    monkeypatch.setattr(job_sizes, "DRIVER", tmp_path)
    monkeypatch.setattr(job_sizes, "version", lambda package: "2.13.0+cpu")
    assert stack_of(two_scheme_study()) == "state"
    monkeypatch.setattr(job_sizes, "version", lambda package: "2.13.0")
    assert stack_of(two_scheme_study()) == "study"
    assert stack_of(two_scheme_study(10_000, device="cpu")) == "sharing"


@pytest.mark.parametrize(
    ("stack", "cells"), [("study", 16), ("state", 8), ("sharing", 4), ("cell", 2)]
)
def test_models_of_a_job_train_side_by_side(stack: str, cells: int) -> None:
    study = two_scheme_study(states=["XX", "YY"], stack=stack)
    assert side_by_side(study) == cells * study.data.most_clients


@pytest.mark.parametrize("study", [load_study(), make_image_study()], ids=["loads", "images"])
def test_the_speed_of_a_study(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload, "LEAST_MEASURED_SECONDS", 0.01)
    assert workload.measured_speed(study) > 0


def test_a_window_longer_than_a_year_is_refused() -> None:
    with naming(ConfigError, "40,004 rows", "windows.look_back"):
        workload.measured_speed(load_study(windows={"look_back": 40_000}))


def test_a_range_is_of_all_training_and_of_each_dataset_once(monkeypatch):
    monkeypatch.setattr(workload, "seconds_of_baselines", lambda _, clients: 7 * clients)
    monkeypatch.setattr(workload, "SECONDS_AROUND", 11.0)
    monkeypatch.setattr(workload, "cost_of_step", lambda study: study.federation.batch_size)
    study = load_study(grid={"federation.batch_size": [8, 16]})
    work = pd.DataFrame({"client_steps": [600], "evaluations": [0]})
    clients = sum(map(study.data.clients_of, study.data.states))
    expected = 2 * 11 + 600 / 100 + 2 * 600 / 100 + 7 * clients
    least, most = workload.seconds(study, dict.fromkeys(study.variants, work), speed=100)
    assert (least, most) == pytest.approx((expected / 2, expected * 2))


def test_the_baselines_of_thirty_homes_take_what_was_measured() -> None:
    """27 weeks of half hours of 30 homes in London took 284 s of processor time on two busy cores,
    and the federated trees 193 MB."""
    further = [
        {"name": "lightgbm_bagged", "models": 3},
        {"name": "lightgbm_federated", "turns": 2, "secure": True},
    ]
    keys = {
        "name": "homes",
        "data": {"source": "meters", "states": ["all"], "clients": 30, "meters": {"interval": 30}},
        "windows": {"look_back": 48, "look_ahead": 1, "horizons": 48},
        "baselines": {
            "trees": 60,
            "search": {"leaves": [7, 31], "learning_rate": [0.1, 0.3]},
            "max_bin": 31,
            "further": further,
        },
    }
    study = Study.parse(keys, "test")
    assert 284 / 2 < workload.seconds_of_baselines(study, 30) < 284 * 2
    sent = workload.workload(study).set_index("sharing")["megabytes"]
    assert 193 / 2 < sent["lightgbm_federated"] < 193 * 2
    fewer = Study.parse(keys | {"baselines": keys["baselines"] | {"further": []}}, "test")
    assert "lightgbm_federated" not in workload.workload(fewer)["sharing"].tolist()
    assert workload.seconds_of_baselines(fewer, 30) < workload.seconds_of_baselines(study, 30)
    alone = Study.parse(keys | {"data": keys["data"] | {"clients": 2}}, "test")
    assert workload.workload(alone)["megabytes"].notna().all()


@pytest.mark.parametrize(
    "keys",
    [
        {"windows": {"history": 2}},
        {"windows": {"split": [0.8, 0.0, 0.2]}},
        {"windows": {"history": 3}, "data": {"origins": ["2018-10-01"]}},
        {"data": {"origins": ["2018-12-04"]}},
    ],
)
def test_windows_of_a_year_are_counted(keys: dict[str, Any]) -> None:
    study = tiny.study(**keys, grid={"client_opt": ["adam"]})
    (variant,) = study.variants.values()
    year = tiny.tables(clients=1, rows=365 * 96)
    dataset = build_dataset(variant, year)
    counts = sources.source_of(variant.data).counts(variant.data, variant.windows)
    windows = variant.windows
    lost = windows.look_back + windows.farthest - 1  # those that would begin before the first row
    assert counts.train - lost == pytest.approx(len(dataset.starts(0, "train")), abs=2 * 96)
    held_out = len(dataset.starts(0, "validation")) + len(dataset.starts(0, "test"))
    assert counts.held_out - lost == pytest.approx(held_out, abs=2 * 96)


def test_clients_that_train_for_late_ones_have_all_windows() -> None:
    keys = {"sharing": {"P1": ["*"], "late": {"join": "unseen", "turns": 3}}}
    keys |= {"windows": {"history": 1, "scaling": "per_client"}, "federation": {"local_epochs": 1}}
    keys |= {"grid": {"sharing": ["P1", "late"]}}
    study = tiny.study(**keys)
    assert 30 * local_steps(study, "P1") < local_steps(study, "late")
    further = [{"name": "lightgbm_bagged"}, {"name": "lightgbm_others", "turns": 3}]
    own, both = (
        workload.seconds_of_baselines(tiny.study(**keys, baselines={"further": some}), 3)
        for some in (further[:1], further)
    )
    short = tiny.study(windows={"scaling": "per_client"}, baselines={"further": further})
    assert both > 2 * own
    assert both < workload.seconds_of_baselines(short, 3)


def test_the_public_models_of_a_study_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of the models of two sites takes two to three minutes."""
    keys = {"name": "sites", "public": {"kind": "homes"}}
    data = {"source": "meters", "states": ["a", "b"], "clients": {"a": 200, "b": 30}}
    data["meters"] = {"interval": 60}
    study = Study.parse(keys | {"data": data}, "test")
    assert 3 * 120 < workload.seconds_of_public(study) < 3 * 180
    few = Study.parse(keys | {"data": data | {"clients": {"a": 2, "b": 2}}}, "test")
    assert workload.seconds_of_public(few) < 60
    monkeypatch.setattr(workload, "seconds_of_baselines", lambda *_: 0)
    work = pd.DataFrame({"client_steps": [0], "evaluations": [0]})
    _, most = workload.seconds(study, {"": work}, speed=1)
    assert most == 2 * (workload.SECONDS_AROUND + workload.seconds_of_public(study))
    without = Study.parse({"name": "sites", "data": data}, "test")
    assert workload.seconds_of_public(without) == 0


class Forest(Baseline):
    """Trees of a plug-in."""

    name: ClassVar[str] = "forest"
    about: ClassVar[str] = "Trees of a plug-in."
    forecasts_medians: ClassVar[bool] = True

    def count_trees(self) -> int:
        return 3

    def fit(self, *_: Any) -> FittedBaseline:
        raise NotImplementedError


def test_trees_of_a_plug_in_are_those_of_plfl() -> None:
    study, bagged = load_study(), LightgbmBagged(models=3)
    studies = [
        study.model_copy(
            update={"baselines": study.baselines.model_copy(update={"further": further})}
        )
        for further in ([], [bagged], [Forest()])
    ]
    without, expected, found = (workload.seconds_of_baselines(study, 7) for study in studies)
    assert without < found == expected
    assert all(map(has_medians, studies[1:], ("lightgbm_bagged", "forest")))
    assert not has_medians(studies[0], "ridge")
