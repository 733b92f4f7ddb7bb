"""Server and clients that share nothing but messages give the simulator's bits."""

import pandas as pd
import pytest

from plfl import methods
from plfl.deploy.protocol.agreement import reason_against
from plfl.deploy.protocol.endpoints import Message
from plfl.experiments.train import train
from plfl.experiments.training_setup import TrainingSetup
from plfl.forecast import model as forecast_model
from plfl.forecast.contents import describe
from plfl.optimizers import server as servers
from plfl.results.records import write_models
from tests.helpers import user_modules
from tests.helpers.loopback import (
    NAMES,
    Deployment,
    assert_equal_bits,
    by_split,
    dataset,
    study,
    tables,
)

SOME = {"participation": 0.6, "rounds": 3, "local_steps": 3, "evaluate_every": 2}
PACED = {"ema": 0.9, "clip": 0.5}
DEPLOYABLE = sorted(
    n
    for n, m in methods.available().items()
    if not (m().simulation_only or m.only_task or m.only_model)
)
OPTIMISERS = {"fedadc_dm": "sgdm", "cc_fedadagrad": "sgd", "cc_fedadam": "sgd", "cc_fedams": "sgd"}


COVARIATES = {
    "model": {"name": "mlp", "hidden": [4]},
    "windows": {"target": "change", "covariates": [{"name": "lags"}, {"name": "encoding"}]},
}


def test_clients_compute_their_own_covariates(tmp_path):
    own_study = study(federation=SOME, **COVARIATES)
    assert own_study.windows.scaling == "pooled" and own_study.windows.covariates_width == 79
    assert_equal_bits(own_study, tmp_path, ("P2",))


def test_the_limits_of_a_load_that_is_not_scaled_by_them_do_not_cross(tmp_path):
    for name, blocks, crosses in (("plain", {}, True), ("change", COVARIATES, False)):
        own_study = study(federation={"rounds": 1, "local_steps": 1, "evaluate_every": 1}, **blocks)
        deployed = Deployment(own_study, by_split(own_study)["P2"], tmp_path / name)
        deployed.run()
        messages = [Message.unpack(data).arrays for data in deployed.loopback.crossed_messages]
        limits = [arrays for arrays in messages if "low" in arrays]
        assert len(limits) == 2 * len(NAMES)  # to the server, and back when they are pooled
        for arrays in limits:
            assert (arrays["low"][0] < arrays["high"][0]) == crosses
            assert arrays["low"][-1] < arrays["high"][-1]  # of another feature
        sent = {float(table["load"][:240].max()) for table in tables().values()}
        seen = {float(value) for arrays in messages for x in arrays.values() for value in x.ravel()}
        assert (len(sent & seen) > 0) == crosses


DAYS = {
    "target": "change",
    "scaling": "per_client",
    "covariates": [{"name": "lags", "days": [1]}, {"name": "level"}],
}


AHEAD = COVARIATES | {
    "windows": {"target": "change", "horizons": 3},
    "task": {"name": "quantiles", "conformal": "adaptive"},
}


PERSONAL = AHEAD | {"task": {"name": "quantiles", "conformal": "personal"}}
POINT = {"model": COVARIATES["model"], "task": {"conformal": "personal", "level": 0.8}}


@pytest.mark.parametrize("blocks", [AHEAD, PERSONAL, POINT], ids=["adaptive", "personal", "point"])
def test_clients_score_intervals(blocks, tmp_path):
    own_study = study(federation=SOME, **blocks)
    assert_equal_bits(own_study, tmp_path, ("P1", "P3") if blocks is PERSONAL else ("P2",))


@pytest.mark.parametrize("blocks", [COVARIATES | {"windows": DAYS}, PERSONAL, POINT])
def test_clients_keep_models_that_forecast(blocks, tmp_path):
    own_study = study(federation=SOME, **blocks)
    cell = by_split(own_study)["P2"]
    Deployment(own_study, cell, tmp_path / "own").run()
    kept = train(own_study, [cell], dataset(own_study))[cell].models
    widths = TrainingSetup.for_study(own_study, dataset(own_study)).evaluator.widths(kept)
    write_models(
        tmp_path / "all.safetensors", kept, describe(own_study, cell, dataset(own_study), widths)
    )
    everyone = forecast_model.load(tmp_path / "all.safetensors")
    for i, name in enumerate(NAMES):
        (file,) = (tmp_path / "own" / name).glob("*/model.safetensors")
        assert file.stat().st_mode & 0o077 == 0
        alone = forecast_model.load(file)
        assert alone.clients == [name]
        for kind, rows in kept.items():
            assert (alone.models[kind][0] == rows[i]).all(), (name, kind)
        table = tables()[name]
        pd.testing.assert_frame_equal(alone.predict(table), everyone.predict(table, name))


def test_what_can_be_deployed():
    assert len(DEPLOYABLE) >= 22, "a method that could be deployed works in the simulator only"
    refusals = {
        "federation.keep": {"federation": {"keep": "best"}},
    }
    for key, blocks in refusals.items():
        refused = study(**blocks)
        reason = reason_against(refused, refused.cells[0])
        assert reason
        assert reason.startswith(key)
        assert "works in the simulator only" in reason


@pytest.mark.parametrize("method", DEPLOYABLE)
def test_methods(method, tmp_path):
    grid = {"method": [method], "client_opt": [OPTIMISERS.get(method, "adam")], "refused": "skip"}
    dampening = {"sgdm": {"dampening": 0.9}}
    own_study = study(grid=grid, client_opt=dampening, federation=SOME)
    # What is personal and what is not crosses in the same way, whatever the method.
    every = method in ("fedopt", "scaffold") or "P2" not in by_split(own_study)
    assert_equal_bits(own_study, tmp_path, ("P1", "P2", "P3") if every else ("P2",))


@pytest.mark.parametrize("name", ["CausalNet", "LSTMForecaster"])
def test_random_layers_and_buffers(name, tmp_path):
    own_study = study(model={"module": f"{user_modules.__file__}:{name}"}, federation=SOME)
    assert_equal_bits(own_study, tmp_path, ("P1", "P2"))


@pytest.mark.parametrize("server", sorted(set(servers.available()) - {"fedavg"}))
def test_servers(server, tmp_path):
    own_study = study(grid={"server_opt": [server]}, federation=SOME)
    assert_equal_bits(own_study, tmp_path, ["P2"])


def test_clients_that_draw_their_personal_parameters(tmp_path):
    own_study = study(federation={"rounds": 2, "local_steps": 3, "initial": "local"})
    assert_equal_bits(own_study, tmp_path, ("P2", "P3"))


def test_a_server_whose_momentum_follows_the_rate_of_the_clients(tmp_path):
    federation = SOME | {"schedule": {"shape": "step", "period": 1, "factor": 0.5}}
    own_study = study(grid={"server_opt": ["slowmo"]}, federation=federation)
    assert_equal_bits(own_study, tmp_path, ["P2"])


@pytest.mark.parametrize(
    ("method", "client_opt", "blocks"),
    [
        ("fedopt", "prox", {"windows": {"scaling": "per_client"}}),
        ("fedopt", "adam", {"federation": {**SOME, "opt_state": "keep_personal"}}),
        ("fedopt", "adam", {"federation": {**SOME, **PACED}}),
        ("feddyn", "adam", {"federation": {**SOME, "weighting": "samples", "batches": "epoch"}}),
        ("scaffold", "sgd", {"method": {"scaffold": {"option": "i"}}}),
        ("scaffold", "sgd", {}),
        (
            "fedadc",
            "prox",
            {"method": {"fedadc": {"variant": "nesterov"}}, "federation": {**SOME, "ema": 0.9}},
        ),
        ("fedgkd", "adam", {"method": {"fedgkd": {"buffer": 3}}}),
        ("fedadc", "sgd", {"federation": {**SOME, "schedule": {"shape": "cosine"}}}),
        ("fedopt", "adam", {"federation": {**SOME, "server_ema": 0.5}}),
        ("fedopt", "adam", {"federation": {**SOME, "privacy": {"clip": 0.05, "quantile": 0.5}}}),
        (
            "cc_fedams",
            "sgd",
            {"method": {"cc_fedams": {"join": 0.7, "max_delay": 2, "steps": [1, 4]}}},
        ),
    ],
)
def test_options(method, client_opt, blocks, tmp_path):
    grid = {"method": [method], "client_opt": [client_opt]}
    own_study = study(grid=grid, **{"federation": {**SOME, "rounds": 5}, **blocks})
    assert_equal_bits(own_study, tmp_path, ["P2"])
