"""What a configuration refuses, and how it says so."""

import itertools
import math
from collections.abc import Iterable
from typing import Any

import pytest

from plfl.base.errors import ConfigError
from plfl.study import Study


def problems(raw: object) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        Study.parse(raw, "my.yaml")
    assert str(caught.value).startswith("my.yaml: ")
    return list(map(str, caught.value.problems))


PUBLIC = {"name": "public", "kind": "homes"}
"""A baseline."""
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


def covariates(*steps: dict[str, Any], **others: Any) -> dict[str, Any]:
    return others | {"windows.covariates": list(steps)}


ERRORS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"data.states": ["CA", "CA"]}, ("'CA'",)),
    ({"data.states": [False, "SE"]}, ("data.states.0:", "'NO'", "quotes")),
    ({"data.clients": {False: 3}}, ("False", "'NO'", "quotes")),
    ({"data.meters.only": [7]}, ("'007'", "quotes")),
    ({"data.meters.columns": {"load": True}}, ("data.meters.columns.load:", "on", "quotes")),
    ({"data.features": ["weekday", "load"]}, ("'load'",)),
    ({"data.buildings": {"TX": [1]}}, ("data.states",)),
    ({"data.comstock.release": "../../etc"}, ()),
    ({"data.states": ["N Y"]}, ("'N Y'", "'_'")),
    (
        {"grid.server_opt": ["fedavgadaptive"], "federation.weighting": "samples"},
        ("federation.weighting:", "fedavgadaptive", "uniform"),
    ),
    ({"name": "../x"}, ("'../x'", "'_', '.' and '-'")),
    ({"data.meters.timezone": "Berlin"}, ("'Berlin'", "IANA")),
    ({"data.meters.timezones": {"a*": "Europe/Berln"}}, ("'Europe/Berln'", "IANA")),
    ({"grid.seeds": 10}, ("such as [10]",)),
    ({"public.kind": "shops"}, ("public.kind", "homes", "buildings")),
    ({"public.states": ["NY"]}, ("public.states", "set public.kind")),
    (
        {"public.kind": "homes", "public.states": ["TX"]},
        ("public.states", "'TX' is not one of data.states", "add or remove it"),
    ),
    ({"public.kind": "homes", "public.states": ["NY", "NY"]}, ("'NY'", "list it once")),
    (
        {"baselines.further": [PUBLIC | {"file": "results/study/public/homes.xz"}]},
        ("baselines.further", "the study makes no results/study/public/homes.xz", "public.kind"),
    ),
    (
        {
            "public.kind": "homes",
            "data.states": ["NY", "CA"],
            "baselines.further": [PUBLIC | {"file": ["results/study/public/without-TX.xz"]}],
        },
        ("without-TX.xz", "name one of results/study/public/homes.xz, results/study/public/with"),
    ),
    ({"grid.public.kind": ["homes"]}, ("grid.public:", "models of the whole study")),
    ({"windows.look_back": [4, 8]}, ("one value, not a list",)),
    ({"tuning": [0.1]}, ("search, alone, trials",)),
    (covariates("calendar"), ("{name: calendar}",)),  # type: ignore[arg-type]
    ({"model.modul": "mine.py:Net"}, ("'module'",)),
    ({"windows.split": [0, 0.5, 0.5]}, ("above 0",)),
    ({"windows.split": [0.5, 0.5, 0]}, ("only validation may have 0",)),
    (
        {"windows.split": [0.8, 0, 0.2], "federation.keep": "best"},
        ("federation.keep:", "windows.split with 0 for validation"),
    ),
    (
        {"windows.split": [0.8, 0, 0.2], "task": {"conformal": "personal"}},
        ("task.conformal:", "needs a validation set", "windows.split with 0"),
    ),
    (
        {"data.source": "digits", "task.name": "classify", "windows.split": [0.8, 0, 0.2]},
        ("for series of loads", "digits"),
    ),
    ({"data.meters.columns": COLUMNS | {"humidity": "kWh"}}, ("'load'", "'humidity'", "'kWh'")),
    ({"data.meters.columns": COLUMNS | {"temprature": "T"}}, ("'temprature'", "time_of_day, met")),
    ({"data.meters.cumulative": True, "data.meters.unit": "kW"}, ("data.meters.cumulative:", "kW")),
    ({"data.meters.cumulative": True, "data.meters.stamp": "start"}, ("data.meters.cumulative:",)),
    ({"data.meters.columns": {"time_of_day": "t"}}, ("'timestamp'",)),
    ({"data.meters.until": "tomorrow"}, ("2017-01-31",)),
    ({"data.meters.encoding": "hex"}, ("'hex'", "utf-8")),
    ({"data.meters.units": {"load": "MWh"}}, ("data.meters.columns",)),
    (
        {"data.meters.columns": COLUMNS | {"temperature": "T"}}
        | {"data.meters.units": {"temperature": "F"}},
        ("'F'", "°C, °F, K"),
    ),
    ({"data.source": "meters", "data.features": ["load", "humidity"]}, ("'humidity'", ".columns")),
    # The name of a method of pydantic's models, which is an attribute like an algorithm's.
    ({"grid.method": ["copy"]}, ("'copy'",)),
    ({"windows.target": "change"}, ("model.output:", "'abs'")),
    (covariates({"days": [1]}), ("lags, level, calendar",)),
    (covariates({"name": "level"}, {"name": "encoding", "bin": 3}), ("'bins'",)),
    (covariates({"name": "lags", "days": [1, 1]}), ("'1'",)),
    (covariates({"name": "lags", "days": []}), ("days", "at least 1")),
    (covariates({"name": "known_future", "features": ["load"]}), ("'load'",)),
    (
        covariates({"name": "known_future"}, **{"data.features": ["load", "weekday"]}),
        ("'temperature'", "data.features", "weekday"),
    ),
    ({"model": "mlp"}, ("`model: {name: mlp}`",)),
    (
        {"model.name": "mlp", "sharing": {"P1": ["lstm.*"]}, "grid.sharing": ["P1"]},
        ("sharing.P1:", "'lstm.*'", "body, head, body.0.weight"),
    ),
    ({"model.name": "gru", "grid.method": ["moon"]}, ("'moon'", "lstm_mlp")),
    ({"federation.loss": "mae", "grid.method": ["fedgkd", "fedopt"]}, ("'fedgkd'",)),
    (covariates({"name": "level"}), ("model:", "lstm_mlp", "2 numbers")),
    (covariates({"name": "holidays", "country": "DEE"}), ("country", "'DEE'")),
    (covariates({"name": "holidays", "country": "DE", "subdivision": "CA"}), ("BY",)),
    ({"data.clients": {"CA": 3, "IL": 3}}, ("has CA, IL", "NY")),
    ({"data.meters.stamp": "begin"}, ("'begin'", "'end' or 'start'")),
    ({"data.meters.exports": "a"}, ("'a'", "valid list")),
    ({"data.meters.interval": 60, "data.resample": 30}, ("30 minutes", "60")),
    ({"task.name": "quantiles", "grid.method": ["fedgkd"]}, ("'fedgkd'",)),
    ({"grid.method": ["fedntd"]}, ("'fedntd'",)),
    ({"federation.selection": "data_aware"}, ("data_aware", "comstock")),
    # What would do harm later.
    ({"windows.split": [math.nan] * 3}, ("finite number",)),
    ({"hyperparameters.client_opt.adam.lr": math.inf}, ("finite number",)),
    ({"grid.seeds": [10**30]}, ("less than 9223372036854775808",)),
    ({"data.buildings": {"CA": ["../1"]}}, ("valid integer",)),
    ({"name": "a" * 101}, ("at most 100 characters",)),
    ({"baselines.leave_out": ["persistence"]}, ("lightgbm_pooled",)),
    ({"grid.method": ["feddyn"]}, ("grid:", "feddyn", "adam and fedadagrad")),
    # A truth value is no number, alone, in a list, by name or in a block that a name selects.
    ({"federation.rounds": True}, ("True is not allowed", "write a number")),
    ({"windows.look_back": True}, ("True is not allowed",)),
    ({"grid.seeds": [1, True]}, ("grid.seeds.1:", "True is not allowed")),
    ({"data.clients": {"NY": True}}, ("data.clients.NY:", "True is not allowed")),
    ({"data.meters.missing": [False]}, ("data.meters.missing.0:", "quotes")),
    ({"model.hidden": False}, ("False is not allowed",)),
    ({"hyperparameters.client_opt.adam.lr": True}, ("True is not allowed",)),
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


OF_KEYS: dict[str, Any] = {
    "fedration": {"fedration": {}},
    "federation.partcipation": {"federation": {"partcipation": 1}},
    "data.clients": {"data": {"clients": 0}},
    "data.source": {"data": {"source": "digit"}},
    "grid.client_opt.1": {"grid": {"client_opt": ["adam", "adm"]}},
    "grid.seeds": {"grid": {"seeds": [1, 1]}},
    "model.widht": {"model": {"name": "mlp", "widht": 3}},
    "model.hidden": {"model": {"name": "mlp", "hidden": "many"}},
    "sharing": {"sharing": {"a b": ["head"]}},
    "task.levls": {"task": {"name": "quantiles", "levls": 1}},
    "task.conformal": {"task": {"name": "quantiles", "conformal": "mine"}},
    "windows.split": {"windows": {"split": [0.5, 0.1, 0.1]}},
    "tuning.trials": {"tuning": {"trials": 0}},
}
"""Configurations with one key each that is not valid by itself, by that key."""
OF_AXES: dict[str, Any] = {
    "grid.client_optimizer": {"grid": {"client_optimizer": ["sgd"]}},
    "grid.fedration.rounds": {"grid": {"fedration.rounds": [1, 2]}},
}
OF_NAMES: dict[str, Any] = {
    "grid.sharing": {"grid": {"sharing": ["P2", "P9"]}},
    "task.name": {"task": {"name": "classify"}},
}
BETWEEN_KEYS: dict[str, Any] = {
    "model.output": {"windows": {"target": "change"}},
    "data.features": {"data": {"features": ["load", "temprature"]}},
    "tuning.search.client_opt.*.lr": {"tuning": {"search": {"client_opt.*.lr": [0.1, -0.1]}}},
    "grid.method": {
        "grid": {"method": ["fine_tuning"], "server_opt": ["fedavg"]},
        "federation": {"ema": 0.9},
    },
}
"""Configurations with keys that do not fit each other, by the key that the line begins with."""


def merged(configurations: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """One configuration with all these keys."""
    raw: dict[str, Any] = {}
    for configuration in configurations:
        for block, given in configuration.items():
            raw[block] = raw.get(block, {}) | given
    return raw


def test_a_misused_truth_value_is_told_once_with_the_other_errors_of_its_block() -> None:
    raw = {"federation": {"rounds": True, "batch_size": 0}, "data": {"clients": {"NY": False}}}
    lines = [line.split(": ")[0] for line in problems(raw)]
    assert lines == ["data.clients.NY", "federation.rounds", "federation.batch_size"]


def test_a_truth_value_on_an_axis_of_numbers_is_refused() -> None:
    (problem,) = problems({"grid": {"federation.rounds": [True, 3]}})
    assert problem.startswith("federation.rounds: True is not allowed")


@pytest.mark.parametrize("mistakes", [OF_KEYS, OF_AXES, OF_NAMES, BETWEEN_KEYS])
def test_no_error_hides_another_of_its_pass(mistakes: dict[str, Any]) -> None:
    for keys in [*itertools.pairwise(mistakes), tuple(mistakes)]:
        found = [line.split(": ")[0] for line in problems(merged(mistakes[key] for key in keys))]
        assert sorted(found) == sorted(keys)


@pytest.mark.parametrize("key", OF_KEYS)
def test_what_does_not_fit_is_told_when_every_key_is_valid(key: str) -> None:
    """A key that is not valid has no value that others could contradict."""
    (problem,) = problems(merged([*BETWEEN_KEYS.values(), OF_KEYS[key]]))
    assert problem.startswith(f"{key}: ")


def test_variants_are_checked_in_the_same_two_passes() -> None:
    grid = {"windows.target": ["change"], "federation.participation": [0.5, 3]}
    raw = {"grid": grid}
    (problem,) = problems(raw)
    assert problem.startswith("federation.participation: 3 ") and "participation=3" in problem
    grid["federation.participation"] = [0.5, 1]
    assert [line.split(":")[0] for line in problems(raw)] == ["model.output"]


def test_a_method_names_every_setting_that_it_does_not_work_with() -> None:
    grid = {"method": ["fedrep"], "server_opt": ["fedavg"], "sharing": ["P2"]}
    average, steps = problems({"grid": grid, "federation": {"ema": 0.9, "local_epochs": 2}})
    assert average.endswith("federation.opt_state and federation.ema")
    assert "local steps" in steps


def test_refused_combinations_can_be_left_out() -> None:
    grid = {
        "method": ["fedopt", "fedadc"],
        "client_opt": ["sgd"],
        "server_opt": ["fedavg", "slowmo"],
        "sharing": ["P1"],
        "refused": "skip",
    }
    study = Study.parse({"grid": grid, "data": {"states": ["CA"]}}, "x")
    pairs = [f"{cell.method} {cell.server_opt}" for cell in study.cells]
    assert pairs == ["fedopt fedavg", "fedopt slowmo", "fedadc fedavg"]
    assert list(study.plan.combinations.refusals) == [("fedadc", "sgd", "slowmo")]
    with pytest.raises(ConfigError, match="fedadc does not work with any of the optimisers: it"):
        Study.parse({"grid": {**grid, "server_opt": ["slowmo"]}}, "x")
    with pytest.raises(ConfigError, match="fedadc does not work with sgd and slowmo"):
        Study.parse({"grid": {**grid, "refused": "error"}}, "x")
