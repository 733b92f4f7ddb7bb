"""The clients of a study as arrays: what is in them, and how they are exported."""

from dataclasses import fields

import numpy as np
import pandas as pd
import pytest

import plfl
from plfl.base.errors import ConfigError, DataError
from plfl.cli.main import main
from plfl.outside.clients import Client
from tests.helpers.projects import WriteStudy
from tests.helpers.refusals import naming

COVARIATES = [{"name": "lags", "days": [1], "around": 1}, {"name": "calendar", "harmonics": 2}]


@pytest.mark.parametrize("target", ["load", "change"])
@pytest.mark.parametrize("horizons", [1, 3])
def test_arrays_are_the_readings_of_the_files(
    write_study: WriteStudy, target: str, horizons: int
) -> None:
    windows = {"target": target, "horizons": horizons, "covariates": COVARIATES}
    clients = plfl.clients(plfl.Study.load(write_study(windows=windows)))
    assert [client.name for client in clients] == ["a", "b", "c"]
    for client in clients:
        load = pd.read_csv(f"meters/{client.name}.csv", index_col=0, parse_dates=True)["load"]
        targets = load[client.stamp_test.ravel()].to_numpy().reshape(client.y_test.shape)
        np.testing.assert_allclose(client.kwh(client.y_test), targets, atol=1e-5)
        # The rows of a window end at the last reading that its forecast knows, an hour before.
        first = client.stamp_test.reshape(len(targets), -1)[:, 0]
        assert (first - client.made_at_test == np.timedelta64(60, "m")).all()
        back = client.made_at_test[:, None] - np.arange(11, -1, -1) * np.timedelta64(15, "m")
        read = load[back.ravel()].to_numpy().reshape(back.shape)
        scaled = client.X_test[..., 0]
        if target == "change":
            assert client.relative
            read = read - read[:, -1:]
            np.testing.assert_allclose(client.spread[0] * scaled, read, atol=1e-5)
        else:
            np.testing.assert_allclose(
                client.offset[0] + client.spread[0] * scaled, read, atol=1e-5
            )
            np.testing.assert_allclose(client.base_test, client.offset[0])
        # Two weeks and a half are for training; no row is in two sets.
        # A window has twelve rows, and its targets begin four rows after the last.
        assert len(client.y_train) == round(0.8 * 21 * 96) - 11 - 4 - (horizons - 1)
        assert client.C_test.shape == (len(targets), len(client.covariates))
        assert client.covariates[0] == "lags_0"


def test_files_have_what_the_arrays_have(write_study: WriteStudy) -> None:
    study = write_study(windows={"covariates": COVARIATES})
    assert main(["export", "clients", str(study), "--to", "arrays"]) == 0
    clients = plfl.clients(plfl.Study.load(study))
    rows = pd.read_parquet("arrays/clients.parquet")
    for client in clients:
        with np.load(f"arrays/{client.name}.npz") as file:
            for field in fields(Client):
                np.testing.assert_array_equal(file[field.name], getattr(client, field.name))
        for part in ("train", "val", "test"):
            own = rows[(rows["client"] == client.name) & (rows["split"] == part)]
            np.testing.assert_array_equal(np.stack(own["x"]), client.flat(part))
            np.testing.assert_array_equal(own["y"], getattr(client, f"y_{part}"))
            loads = own["base"] + own["scale"] * own["y"]
            np.testing.assert_allclose(loads, client.kwh(getattr(client, f"y_{part}"), part))
    assert set(rows["client"]) == {"a", "b", "c"}


def test_quantiles_are_sorted_columns(write_study: WriteStudy) -> None:
    study = write_study(
        task={"name": "quantiles", "levels": [0.1, 0.5, 0.9]}, windows={"horizons": 2}
    )
    client = plfl.clients(plfl.Study.load(study))[0]
    outputs = np.stack([client.y_test + change for change in (0.1, 0, -0.1)], axis=-1)
    table = client.predictions(outputs, seed=4)
    levels = "forecast_10 forecast_50 forecast_90"
    assert list(table) == f"client seed made_at stamp forecast {levels}".split()
    assert (table["forecast_10"] < table["forecast_90"]).all()
    np.testing.assert_allclose(table["forecast"], client.kwh(client.y_test).ravel())
    with naming(DataError, "a: outputs have the shape", str(client.y_test.shape)):
        client.predictions(client.y_test)


def test_what_has_no_arrays_is_refused(write_study: WriteStudy, invoke) -> None:
    study = write_study(grid={"windows.look_back": [4, 8], "sharing": ["P3"]})
    with naming(ConfigError, "variants", "look_back=4"):
        plfl.clients(plfl.Study.load(study))
    command = ["export", "clients", str(study), "--to", "arrays"]
    assert main([*command, "--variant", "look_back=4"]) == 0
    with np.load("arrays/a.npz") as file:
        assert file["X_train"].shape[1:] == (4, 1)
    assert "needs a study" in invoke("export", "clients", "--to", "arrays", status=2).err
    assert "too many" in invoke("export", "x.safetensors", study, "--to", "x.onnx", status=2).err
