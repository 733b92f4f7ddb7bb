"""The model of public meters as a baseline."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from plfl.base.errors import DataError
from plfl.baselines import rivals
from plfl.baselines.fitting import fit
from plfl.baselines.lightgbm_federated import LightgbmFederated
from plfl.baselines.mean_received import MeanReceived
from plfl.baselines.naive_day import NaiveDay
from plfl.baselines.public import Public, PublicFit
from plfl.config.sections import Windows
from plfl.data.dataset import Dataset
from plfl.data.windows import build
from plfl.interfaces.baseline import FitSettings
from plfl.public.inputs import HourlyLoads
from plfl.public.meter import MeterReadings, forecast_meter
from plfl.public.models import load
from plfl.public.seen import marks_of

SETTINGS = FitSettings(trees=5)


def readings(minutes: int, days: int = 30, seed: int = 0) -> pd.DataFrame:
    ends = pd.date_range("2024-01-01", periods=days * 1440 // minutes, freq=f"{minutes}min")
    load_ = np.random.default_rng(seed).gamma(4.0, 0.1, len(ends)) * minutes / 60
    return pd.DataFrame({"load": load_}, ends + pd.Timedelta(minutes=minutes))


def dataset(minutes: int = 60, horizons: int = 24, days: int = 30) -> Dataset:
    windows = Windows(look_back=12, look_ahead=1, horizons=horizons)
    return build({name: readings(minutes, days, seed) for seed, name in enumerate("ab")}, windows)


@pytest.mark.parametrize(("minutes", "horizons"), [(60, 24), (60, 1), (30, 48), (15, 4)])
def test_it_forecasts_as_the_command_does_without_a_study(minutes: int, horizons: int) -> None:
    data = dataset(minutes, horizons, days=20)
    fitted = Public(kind="homes").fit(data, SETTINGS, {})
    starts = data.starts(1, "test")
    forecasts = fitted.predict(1, starts).reshape(len(starts), horizons)
    assert np.isfinite(forecasts).all()
    rows = data.persistence_rows(starts)
    for window in (0, 1, 2, 3, len(starts) - 1):
        first = data.view.bounds[1, 0]
        known = pd.Series(
            data.load[first : rows[window] + 1], data.stamps[first : rows[window] + 1]
        )
        ahead = "hour" if horizons * minutes == 60 else "day"
        alone = forecast_meter(MeterReadings.from_series(known, minutes), load("homes"), ahead)
        np.testing.assert_allclose(forecasts[window], alone.table["forecast"], rtol=1e-6)


def test_nothing_before_the_history_or_after_the_last_input_is_read() -> None:
    data = dataset()
    starts = data.starts(1, "validation")[:5]
    forecasts = Public(kind="homes").fit(data, SETTINGS, {}).predict(1, starts)
    other = data.load.copy()
    other[: data.view.bounds[1, 0]] = 9.0
    other[starts[-1] + data.look_back :] = 9.0
    changed = Public(kind="homes").fit(replace(data, load=other), SETTINGS, {})
    np.testing.assert_array_equal(changed.predict(1, starts), forecasts)


def test_targets_after_a_day_have_no_forecast() -> None:
    data = dataset(horizons=30)
    starts = data.starts(0, "test")
    forecasts = Public(kind="homes").fit(data, SETTINGS, {}).predict(0, starts)
    assert np.isfinite(forecasts[:, :24]).all()
    assert np.isnan(forecasts[:, 24:]).all()


def test_a_study_of_its_own_meters_is_refused_unless_it_says_so() -> None:
    data = dataset()
    first, end = data.view.bounds[1, [0, 3]]
    stamps = data.stamps[first:end].astype("datetime64[s]")
    loads = HourlyLoads.ending_at(stamps, data.load[first:end])
    model = replace(load("homes"), marks=marks_of([loads], stamps))
    assert PublicFit(data, model).seen_client() == "b"
    assert PublicFit(data, load("homes")).seen_client() == ""


def test_it_counts_as_without_a_federation_unless_it_has_seen_the_data() -> None:
    assert "public" in rivals([Public(kind="homes")])
    assert "public" not in rivals([Public(kind="homes", trained_on_this_dataset=True)])


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "none.xz"
    with pytest.raises(DataError, match=r"none\.xz: is missing; `python -m benchmarks\.starter`"):
        Public(kind="homes", file=path).fit(dataset(), SETTINGS, {})
    path.write_bytes(b"text")
    with pytest.raises(DataError, match="is no model of public meters"):
        Public(kind="homes", file=path).fit(dataset(), SETTINGS, {})


def test_the_mean_of_received_models_has_equal_weights() -> None:
    data = dataset()
    members = {"naive_day": fit(NaiveDay(), data, SETTINGS, {})}
    members["public"] = fit(Public(kind="homes"), data, SETTINGS, {})
    mean = fit(MeanReceived(of=["naive_day", "public"]), data, SETTINGS, members)
    starts = data.starts(0, "test")
    each = [member.predict(0, starts) for member in members.values()]
    np.testing.assert_allclose(mean.predict(0, starts), np.mean(each, axis=0))
    assert LightgbmFederated(turns=2).is_received and MeanReceived(of=["public"]).is_received
