"""Further axes of the grid: their variants, names and errors."""

import json
from typing import Any

import pytest

from plfl.base.errors import ConfigError
from plfl.data.sources import build_arguments
from plfl.pipeline.job_parameters import JobParameters
from plfl.study import Study
from tests.helpers import tiny
from tests.helpers.refusals import naming


def with_axes(**axes: Any) -> Study:
    """A study whose axes may name any model."""
    raw = {
        "name": "tiny",
        "data": {"source": "sample", "states": ["XX"], "clients": 3},
        "grid": {"client_opt": ["adam"], "server_opt": ["fedavg"], **axes},
        "federation": {"rounds": 3, "local_steps": 4, "batch_size": 8},
    }
    return Study.parse(raw, "tiny")


def test_every_combination_is_a_study_with_a_readable_name() -> None:
    models = {"a": {"name": "linear"}, "b": {"hidden": 2, "mlp": [3]}}
    study = with_axes(**{"federation.participation": [0.5, 1], "model": models})
    names = [f"participation={share},model={model}" for share in ("0.5", "1") for model in "ab"]
    assert list(study.variants) == names
    one = study.variants["participation=0.5,model=b"]
    assert one.federation.participation == 0.5
    assert one.model.settings["hidden"] == 2
    assert one.federation.rounds == study.federation.rounds
    assert not one.plan.axes
    assert str(one.paths.results) == "results/tiny/participation=0.5,model=b"
    assert one.paths.root == study.paths.results


def test_the_whole_key_stands_where_the_last_word_is_ambiguous() -> None:
    keys = [f"hyperparameters.client_opt.{name}.lr" for name in ("adam", "sgd")]
    study = with_axes(**{key: [0.1] for key in keys}, **{"model.name": ["mlp"]})
    assert list(study.variants) == [f"{keys[0]}=0.1,{keys[1]}=0.1,model=mlp"]


def test_a_description_gives_the_same_variants_again() -> None:
    study = with_axes(**{"model.name": ["mlp", "gru"], "windows.history": [2, None]})
    again = Study.parse(json.loads(json.dumps(study.description())), "again")
    places = [f"model={name},history={weeks}" for name in ("mlp", "gru") for weeks in (2, "null")]
    assert list(again.variants) == places
    for label, variant in study.variants.items():
        assert again.variants[label].description() == variant.description()
    variant = study.variants["model=gru,history=2"].description()
    assert Study.parse(variant, "variant").description() == variant


def test_only_axes_of_the_data_and_the_task_need_other_datasets_and_baselines() -> None:
    study = with_axes(**{"federation.participation": [0.5, 1], "windows.history": [2, 6]})
    assert set(study.plan.data_labels.values()) == {"history=2", "history=6"}
    assert set(with_axes(**{"model.name": ["mlp", "gru"]}).plan.data_labels.values()) == {""}
    tasks = {"point": {"name": "forecast"}, "fan": {"name": "quantiles"}}
    assert set(with_axes(task=tasks).plan.data_labels.values()) == {"task=point", "task=fan"}
    assert tiny.study().plan.data_labels == {"": ""}


def test_axes_of_the_weeks_that_new_clients_know_need_other_datasets() -> None:
    per_client, weeks = {"scaling": "per_client"}, {"join": "unseen", "history": 1}
    schemes = {"P1": ["*"], "new": weeks}
    for axis, labels in (
        ({"sharing.new.history": [1, 4]}, {"history=1", "history=4"}),
        ({"sharing.new": {"a": weeks, "b": weeks | {"history": 4}}}, {"new=a", "new=b"}),
        ({"sharing.new.turns": [2, 3]}, {""}),
        ({"sharing.P1": {"all": ["*"], "head": ["head"]}}, {""}),
    ):
        grid = {"sharing": ["P1", "new"], **axis}
        study = tiny.study(windows=per_client, sharing=schemes, grid=grid)
        assert {*study.plan.data_labels.values()} == labels
        jobs = JobParameters(study)
        known = {i: jobs.windows({"inputs": i, "state": "XX"})["new_weeks"] for i in labels}
        for label, variant in study.variants.items():
            assert build_arguments(variant)["new_weeks"] == known[study.plan.data_labels[label]]


def test_cells_are_found_by_name() -> None:
    study = with_axes(**{"model.name": ["mlp", "gru"]})
    variant, cell = study.find("model=gru/XX-P1-fedopt-adam-fedavg-10")
    assert (variant.model.name, cell.sharing) == ("gru", "P1")
    with naming(ConfigError, "'model=gru'"):
        study.find("model=gruu/XX-P1-fedopt-adam-fedavg-10")
    with naming(ConfigError, "'XX-P1-fedopt-adam-fedavg-10'"):
        study.find("model=gru/XX-P1-fedopt-adam-fedavg-1")


def test_a_variant_is_loaded_by_file_and_name(tmp_path: Any) -> None:
    file = tmp_path / "my.yaml"
    file.write_text("data: {source: sample}\ngrid: {model.name: [mlp, gru]}\n")
    assert Study.load(f"{file}:model=gru").name == "study/model=gru"
    with naming(ConfigError, "'model=grx'", "'model=gru'"):
        Study.load(f"{file}:model=grx")


ERRORS: list[tuple[dict[str, Any], str]] = [
    ({"federation.particpation": [1]}, "did you mean 'participation'?"),
    ({"participation": [1]}, "unknown key"),
    ({"compute.engine": ["fused"]}, "cannot be an axis: `compute` does not affect the results"),
    ({"plugins": {"a": []}}, "cannot be an axis: `plugins` is imported once for the whole study"),
    ({"data.states": [["NY"]]}, "is an axis already"),
    ({"federation.rounds": 4}, "4 is not a list; list its values, such as [4]"),
    ({"federation.rounds": [2, 2]}, "lists a value twice"),
    ({"windows.split": [[0.8, 0.1, 0.1]]}, "cannot be part of a name; give each value a label"),
    ({"model": ["mlp"]}, "it is a block of keys, such as `model: {name: mlp}`"),
    ({"federation.rounds": [2], "federation": {"a": {}}}, "is a part of the axis 'federation'"),
    ({"federation.participation": [0.5, 3]}, "(in participation=3)"),
]


@pytest.mark.parametrize(("axes", "message"), ERRORS)
def test_a_wrong_axis_is_an_error(axes: dict[str, Any], message: str) -> None:
    with naming(ConfigError, message):
        with_axes(**axes)


@pytest.mark.parametrize("path", ["client_opt.adam.lr", "client_opt.*.lr"])
def test_what_is_tuned_is_no_axis(path: str) -> None:
    with naming(ConfigError, "`tuning`"):
        tiny.study(
            grid={"hyperparameters.client_opt.adam.lr": [0.1]},
            tuning={"search": {path: [0.1, 0.2]}},
        )


def test_variants_have_the_same_cells() -> None:
    with pytest.raises(ConfigError, match="the variants P2=body and P2=none have different cells"):
        with_axes(**{"sharing.P2": {"body": ["body"], "none": []}})
    study = with_axes(**{"sharing.P2": {"body": ["body"], "head": ["head"]}})
    assert study.variants["P2=head"].sharing == {"P1": ["*"], "P2": ["head"], "P3": []}


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, ""),
        ({"data": {"origins": ["2018-07-02", "2018-10-01", "2018-04-02"]}}, "origins=2018-10-01"),
        ({"data": {"origins": ["2018-07-02"]}}, ""),
        (
            {
                "data": {"origins": ["2018-07-02", "2018-10-01"]},
                "grid": {"windows.history": [1, 2]},
            },
            None,
        ),
    ],
)
def test_the_models_that_forecast_are_those_of_the_latest_origin(
    keys: dict[str, Any], expected: str | None
) -> None:
    assert Study.parse(keys, "test").plan.latest_variant == expected
