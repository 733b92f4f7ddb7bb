"""What a configuration refuses, and how it says so."""

import itertools
from typing import Any

import pytest

from plfl.base.errors import ConfigError
from plfl.config.study import Study


def problems(raw: object) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        Study.parse(raw, "my.yaml")
    assert str(caught.value).startswith("my.yaml: ")
    return caught.value.problems


@pytest.mark.parametrize(
    "sharing", [{"P9": 5}, {"a b": ["head"]}, ["head"]], ids=["patterns", "name", "block"]
)
def test_schemes_that_cannot_be_read_are_not_missed_in_the_grid(sharing: object) -> None:
    with pytest.raises(ConfigError) as refused:
        Study.parse({"sharing": sharing, "grid": {"sharing": ["P9"], "seeds": [1, 1]}}, "here")
    first, *_, second = refused.value.problems
    assert first.startswith("sharing") and "[key]" not in first
    assert second.startswith("grid.seeds: duplicate")


COLUMNS = {"timestamp": "t", "load": "kWh"}
"""Columns of own meters."""


def block(keys: dict[str, Any]) -> dict[str, Any]:
    """A configuration of dotted keys."""
    raw: dict[str, Any] = {}
    for key, value in keys.items():
        *parents, last = key.split(".")
        inner = raw
        for name in parents:
            inner = inner.setdefault(name, {})
        inner[last] = value
    return raw


def context(*steps: dict[str, Any], **others: Any) -> dict[str, Any]:
    return others | {"windows.context": list(steps)}


ERRORS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"data.states": ["CA", "CA"]}, ("'CA'",)),
    ({"data.features": ["weekday", "load"]}, ("'load'",)),
    ({"data.buildings": {"TX": [1]}}, ("data.states",)),
    ({"data.comstock.release": "../../etc"}, ()),
    ({"data.states": ["N Y"]}, ("'N Y'", "'_'")),
    ({"name": "../x"}, ("'../x'", "'_', '.' and '-'")),
    ({"data.meters.timezone": "Berlin"}, ("'Berlin'", "IANA")),
    ({"data.meters.timezones": {"a*": "Europe/Berln"}}, ("'Europe/Berln'", "IANA")),
    ({"grid.seeds": 10}, ("such as [10]",)),
    ({"grid.seeds": "1 2 3"}, ("such as [1, 2, 3]",)),
    ({"windows.look_back": [4, 8]}, ("`grid: {windows.look_back: [4, 8]}`",)),
    ({"tuning": [0.1]}, ("search, alone, trials",)),
    (context("calendar"), ("{name: calendar}",)),  # type: ignore[arg-type]
    ({"model.modul": "mine.py:Net"}, ("'module'",)),
    ({"windows.split": [0, 0.5, 0.5]}, ("above 0",)),
    ({"data.meters.columns": COLUMNS | {"humidity": "kWh"}}, ("'load'", "'humidity'", "'kWh'")),
    (
        {"data.meters.columns": COLUMNS | {"temprature": "T"}},
        ("'temprature'", "timestamp, time_of_day, meter, load, temperature"),
    ),
    (
        {"data.meters.cumulative": True, "data.meters.unit": "kW"},
        ("data.meters.cumulative:", "data.meters.unit", "kW"),
    ),
    (
        {"data.meters.cumulative": True, "data.meters.stamp": "start"},
        ("data.meters.cumulative:", "data.meters.stamp"),
    ),
    ({"data.meters.columns": {"time_of_day": "t"}}, ("'timestamp'",)),
    ({"data.meters.until": "tomorrow"}, ("2017-01-31",)),
    ({"data.meters.encoding": "hex"}, ("'hex'", "utf-8")),
    ({"data.meters.units": {"load": "MWh"}}, ("data.meters.columns",)),
    (
        {
            "data.meters.columns": COLUMNS | {"temperature": "T"},
            "data.meters.units": {"temperature": "F"},
        },
        ("'F'", "°C, °F, K"),
    ),
    (
        {"data.source": "meters", "data.features": ["load", "humidity"]},
        ("'humidity'", "load, time_index, weekday, temperature", "data.meters.columns"),
    ),
    # The name of a method of pydantic's models, which is an attribute like an algorithm's.
    ({"grid.method": ["copy"]}, ("'copy'",)),
    ({"windows.target": "change"}, ("model.output:", "'abs'")),
    (context({"name": "lag"}), ("'lags'",)),
    (context({"days": [1]}), ("lags, level, calendar",)),
    (context({"name": "level"}, {"name": "encoding", "bin": 3}), ("'bins'",)),
    (context({"name": "lags", "days": [1, 1]}), ("'1'",)),
    (context({"name": "lags", "days": [], "rows": [5, 6]}), ("5 rows", "at least 6")),
    (context({"name": "lags", "rows": [192]}), ("2 days",)),
    (context({"name": "lags", "days": []}), ("days", "rows")),
    (context({"name": "calendar", "harmonics": 0, "weekday": False}), ("harmonics", "weekday")),
    (context({"name": "ahead", "features": ["load"]}), ("'load'",)),
    (
        context({"name": "ahead"}, **{"data.features": ["load", "weekday"]}),
        ("'temperature'", "data.features", "weekday"),
    ),
    ({"model": "mlp"}, ("`model: {name: mlp}`",)),
    (
        {"model.name": "mlp", "sharing": {"P1": ["lstm.*"]}, "grid.sharing": ["P1"]},
        ("sharing.P1:", "'lstm.*'", "body, head, body.0.weight"),
    ),
    ({"model.name": "gru", "compute.engine": "fused"}, ("'fused'", "gru32-64", "auto or stacked")),
    ({"model.name": "gru", "grid.method": ["moon"]}, ("'moon'", "lstm_mlp")),
    ({"federation.loss": "mae", "grid.method": ["fedgkd", "fedopt"]}, ("'fedgkd'",)),
    (context({"name": "level"}), ("model:", "lstm_mlp", "2 numbers")),
    ({"data.clients": {"CA": 3, "IL": 3}}, ("data:", "clients", "NY")),
    (context({"name": "holidays", "country": "ZZ"}), ("country",)),
    (context({"name": "holidays", "country": "US", "subdivision": "BY"}), ("CA",)),
    ({"baselines.leave_out": ["persistence"]}, ("'lightgbm_pooled'",)),
    ({"grid.method": ["feddyn"]}, ("grid:", "feddyn", "adam and fedadagrad")),
]
"""Configurations, and what the line about their last key names: the value, what is allowed.

A name that ends with `:` is another key that the line is about.
"""


@pytest.mark.parametrize(("keys", "names"), ERRORS, ids=lambda value: str(value)[:60])
def test_one_error(keys: dict[str, Any], names: tuple[str, ...]) -> None:
    raw = block(keys)
    if "meters" in raw.get("data", {}):
        raw["data"].setdefault("source", "meters")
    key = next((name for name in names if name.endswith(":")), [*keys][-1])
    lines = [line for line in problems(raw) if line.startswith(key)]
    assert any(all(name in line for name in names) for line in lines), problems(raw)


def test_the_top_level_is_a_block_of_keys() -> None:
    (problem,) = problems([1])
    assert "top level" in problem


def test_an_error_in_the_model_hides_patterns_on_its_parameters() -> None:
    """They may be right for the model that is meant."""
    raw = {"model": {"name": "mlp", "hiden": [3]}, "sharing": {"P2": ["body.0.*"]}}
    (problem,) = problems(raw | {"grid": {"sharing": ["P2"]}})
    assert problem.startswith("model.hiden: ") and "mlp" in problem


MISTAKES: dict[str, Any] = {
    "fedration": {"fedration": {}},
    "grid.client_optimizer": {"grid": {"client_optimizer": ["sgd"]}},
    "grid.federation.roundz": {"grid": {"federation.roundz": [1, 2]}},
    "federation.participation": {"grid": {"federation.participation": [0.1, 2]}},
    "grid.client_opt": {"grid": {"client_opt": ["adam", "adm"]}},
    "grid.sharing": {"grid": {"sharing": ["P2", "P9"]}},
    "grid.seeds": {"grid": {"seeds": [1, 1]}},
    "federation.partcipation": {"federation": {"partcipation": 1}},
    "federation.local_epochs": {"federation": {"local_steps": 5, "local_epochs": 2}},
    "model.widht": {"model": {"name": "mlp", "widht": 3}},
    "model.depht": {"model": {"name": "mlp", "depht": 3}},
    "model.hidden": {"model": {"name": "mlp", "hidden": "many"}},
    "task.name": {"task": {"name": "classify"}},
    "data.features": {"data": {"features": ["load", "temprature"]}},
    "windows.split": {"windows": {"split": [0.5, 0.1, 0.1]}},
    "tuning.search.client_opt.*.lr": {"tuning": {"search": {"client_opt.*.lr": [0.1, -0.1]}}},
    "tuning.halve_after": {"tuning": {"halve_after": [0.5, 0.5]}},
    "federation.simulation.up_mbit": {"federation": {"simulation": {"up_mbit": [1.0, 2.0]}}},
    "grid.method": {
        "grid": {"method": ["fine_tuning"], "server_opt": ["fedavg"]},
        "federation": {"ema": 0.9},
    },
}
"""Configurations with one error each, by the key that its line begins with."""


def with_mistakes(*keys: str) -> dict[str, Any]:
    """The default study with several errors."""
    raw: dict[str, Any] = {}
    for key in keys:
        for block, given in MISTAKES[key].items():
            raw[block] = raw.get(block, {}) | given
    return raw


@pytest.mark.parametrize("keys", [*itertools.pairwise(MISTAKES), tuple(MISTAKES)])
def test_no_error_hides_another(keys: tuple[str, ...]) -> None:
    found = [problem.split(": ")[0] for problem in problems(with_mistakes(*keys))]
    assert sorted(found) == sorted(keys)


def test_an_invalid_key_of_the_task_hides_nothing_about_the_task() -> None:
    task = {"name": "quantiles", "levls": 1, "conformal": "mine"}
    found = problems({"task": task, "federation": {"loss": "mae"}})
    keys = [problem.split(": ")[0] for problem in found]
    assert keys == ["task.levls", "task.conformal", "federation.loss"]


def test_a_method_names_every_setting_that_it_does_not_work_with() -> None:
    grid = {"method": ["fedrep"], "server_opt": ["fedavg"], "sharing": ["P2"]}
    average, steps = problems({"grid": grid, "federation": {"ema": 0.9, "local_epochs": 2}})
    assert average.endswith("federation.opt_state and federation.ema")
    assert "local steps" in steps


DIGITS = {"source": "digits", "states": ["digits"], "clients": 10}


@pytest.mark.parametrize(
    ("raw", "key"),
    [
        ({"data": {"source": "digit"}, "task": {"name": "classify"}}, "data.source"),
        ({"data": DIGITS, "task": {"name": "clasify"}, "model": {"name": "cnn"}}, "task.name"),
        (
            {"data": {"clients": 0}, "federation": {"simulation": {"up_mbit": [1.0, 2.0]}}},
            "data.clients",
        ),
        (
            {"grid": {"client_opt": "sgdm", "method": ["fedadc"]}}
            | {"tuning": {"search": {"client_opt.sgdm.lr": [0.1, 0.2]}}},
            "grid.client_opt",
        ),
        (
            {"data": DIGITS | {"source": "digit"}, "task": {"name": "classify"}}
            | {"model": {"name": "cnn"}, "grid": {"federation.participation": [0.5, 1]}},
            "data.source",
        ),
        (
            {"model": {"name": "mpl"}, "windows": {"context": [{"name": "level"}]}},
            "model.name",
        ),
    ],
)
def test_the_default_of_an_invalid_key_makes_no_error(raw: dict[str, Any], key: str) -> None:
    (problem,) = problems(raw)
    assert problem.startswith(f"{key}: ")


@pytest.mark.parametrize(
    ("raw", "loss"),
    [
        ({"task": {"name": "quantiles"}}, "the pinball loss"),
        (
            {"task": {"name": "classify"}, "data": DIGITS, "model": {"name": "cnn"}},
            "the cross entropy",
        ),
    ],
)
def test_a_loss_that_the_task_does_not_use(raw: dict[str, Any], loss: str) -> None:
    (problem,) = problems(raw | {"federation": {"loss": "huber"}})
    assert problem.startswith("federation.loss: 'huber'") and loss in problem
    Study.parse(raw | {"federation": {"loss": "mse"}}, "the default is no contradiction")


def test_refused_combinations_can_be_left_out() -> None:
    grid = {
        "method": ["fedopt", "fedadc"],
        "client_opt": ["sgd"],
        "server_opt": ["fedavg", "slowmo"],
        "sharing": ["P1"],
        "refused": "skip",
    }
    study = Study.parse({"grid": grid, "data": {"states": ["CA"]}}, "x")
    assert [f"{cell.method} {cell.server_opt}" for cell in study.cells] == [
        "fedopt fedavg",
        "fedopt slowmo",
        "fedadc fedavg",
    ]
    assert list(study.combinations.refused) == [("fedadc", "sgd", "slowmo")]
    with pytest.raises(ConfigError, match="fedadc does not work with any of the optimisers: it"):
        Study.parse({"grid": {**grid, "server_opt": ["slowmo"]}}, "x")
    with pytest.raises(ConfigError, match="fedadc does not work with sgd and slowmo"):
        Study.parse({"grid": {**grid, "refused": "error"}}, "x")


@pytest.mark.parametrize(
    ("grid", "key"),
    [
        ({"seeds": list(range(200_000))}, "grid.seeds"),
        (
            {
                f"federation.{key}": list(range(1, 201))
                for key in ("rounds", "local_steps", "batch_size")
            },
            "grid",
        ),
    ],
)
def test_a_study_of_millions_of_trainings_is_refused(grid: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as found:
        Study.parse({"grid": grid}, "study.yaml")
    (problem,) = found.value.problems
    assert problem.startswith(key) and len(problem) < 500
