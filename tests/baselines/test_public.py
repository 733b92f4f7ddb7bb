"""The model of public meters as a baseline."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import pytest

from plfl.base.errors import DataError
from plfl.baselines import rivals
from plfl.baselines.fitting import fit, total_sent
from plfl.baselines.lightgbm_federated import LightgbmFederated
from plfl.baselines.lightgbm_on_public import LightgbmOnPublic
from plfl.baselines.mean_received import MeanReceived
from plfl.baselines.naive_day import NaiveDay
from plfl.baselines.public import Public, PublicFit
from plfl.baselines.storage import restore
from plfl.baselines.trees import LAGGED, MOST_ROWS, PARAMETERS, PATIENT_TREES, TreeWindows
from plfl.config.baselines import Baselines
from plfl.config.windows import Windows
from plfl.data.dataset import Dataset, Split
from plfl.data.windows import build
from plfl.federated.collectives.message_layout import BIN_PARAMETERS
from plfl.interfaces.baseline import FitSettings, Floats
from plfl.public.inputs import HourlyLoads
from plfl.public.meter import MeterReadings, forecast_meter
from plfl.public.models import file_of, load
from plfl.public.packing import pack, unpack
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


def test_of_several_files_the_first_that_has_not_seen_the_meters_forecasts(tmp_path: Path) -> None:
    data = dataset()
    first, end = data.view.bounds[0, [0, 3]]
    stamps = data.stamps[first:end].astype("datetime64[s]")
    seen = marks_of([HourlyLoads.ending_at(stamps, data.load[first:end])], stamps)
    texts, marks = unpack(file_of("homes").read_bytes())
    other_texts, _ = unpack(file_of("buildings").read_bytes())
    files = [tmp_path / "without-other.xz", tmp_path / "without-this.xz"]
    files[0].write_bytes(pack(other_texts, seen))
    files[1].write_bytes(pack(texts, marks))
    starts = data.starts(1, "test")[:5]
    expected = Public(kind="homes").fit(data, SETTINGS, {}).predict(1, starts)
    several = Public(kind="homes", file=files)
    for fitted in (several.fit(data, SETTINGS, {}), several.restore({}, data, SETTINGS, {})):
        np.testing.assert_array_equal(fitted.predict(1, starts), expected)
    further_files = [files[1], tmp_path / "never-opened.xz"]
    Public(kind="homes", file=further_files).fit(data, SETTINGS, {})
    with pytest.raises(DataError, match="was trained on readings of a"):
        Public(kind="homes", file=files[:1]).fit(data, SETTINGS, {})


def test_it_counts_as_without_a_federation_unless_it_has_seen_the_data() -> None:
    assert "public" in rivals([Public(kind="homes")])
    assert "public" not in rivals([Public(kind="homes", trained_on_this_dataset=True)])


@pytest.mark.parametrize(("minutes", "horizons"), [(60, 24), (30, 2)])
def test_its_quantiles_are_those_of_its_model_around_the_same_median(
    minutes: int, horizons: int
) -> None:
    data = dataset(minutes, horizons, days=20)
    baseline, starts = Public(kind="homes"), data.starts(1, "test")[:9]
    median = fit(baseline, data, SETTINGS, {}).predict(1, starts)
    settings = replace(SETTINGS, levels=(0.1, 0.3, 0.5, 0.9))
    fitted = fit(baseline, data, settings, {})
    low, third, middle, high = np.moveaxis(fitted.predict(1, starts), -1, 0)
    np.testing.assert_array_equal(middle, median.reshape(len(starts), horizons))
    np.testing.assert_allclose(third, (low + middle) / 2)
    assert (low <= middle).all() and (middle <= high).all() and (low < high).any()
    restored = baseline.restore({}, data, settings, {}).predict(1, starts)
    np.testing.assert_array_equal(restored, fitted.predict(1, starts))
    first = data.view.bounds[1, 0]
    known = slice(first, data.persistence_rows(starts)[0] + 1)
    stamps = data.stamps[known].astype("datetime64[s]")
    loads = MeterReadings.from_series(pd.Series(data.load[known], stamps), minutes).hours
    row = np.array([len(loads.load) - 1])
    expected = load("homes").predict(loads, "hour", row, np.array([1]))[0]
    hour = fitted.predict(1, starts)[0, : 60 // minutes].sum(axis=0)
    np.testing.assert_allclose(hour, [expected[0], expected[:2].mean(), *expected[1:]])


def test_crossing_quantiles_leave_the_median_as_it_is() -> None:
    data = dataset(days=20)
    model = load("homes")
    crossing = {
        f"{ahead}_{level}": model.boosters[f"{ahead}_{other}"]
        for ahead in ("hour", "day")
        for level, other in ((10, 90), (50, 10), (90, 50))
    }
    fitted = PublicFit(data, replace(model, boosters=crossing))
    starts = data.starts(0, "test")[:5]
    low, middle, high = np.moveaxis(
        replace(fitted, levels=(0.1, 0.5, 0.9)).predict(0, starts), -1, 0
    )
    np.testing.assert_array_equal(middle, fitted.predict(0, starts))
    assert (low <= middle).all() and (middle <= high).all()


def test_levels_beyond_its_quantiles_are_those_of_its_errors() -> None:
    data = dataset(horizons=2, days=20)
    baseline, starts = Public(kind="homes"), data.starts(0, "test")[:5]
    settings = replace(SETTINGS, levels=(0.05, 0.5, 0.95))
    fitted = fit(baseline, data, settings, {})
    median = fit(baseline, data, SETTINGS, {}).predict(0, starts)
    early = data.starts(0, "train")
    errors = data.truth(early) - fit(baseline, data, SETTINGS, {}).predict(0, early)
    errors = errors[np.isfinite(errors).all(axis=1)]
    widths = np.quantile(errors - np.median(errors, axis=0), settings.levels, axis=0).T
    np.testing.assert_allclose(fitted.predict(0, starts), median[..., None] + widths)
    baselines = Baselines(further=[baseline])
    restored = restore(baselines, "public", fitted.save(0), data, settings)
    np.testing.assert_array_equal(restored.predict(0, starts), fitted.predict(0, starts))


def test_a_file_without_quantiles_forecasts_no_study_of_quantiles(tmp_path: Path) -> None:
    texts, marks = unpack(file_of("homes").read_bytes())
    path = tmp_path / "medians.xz"
    path.write_bytes(pack({name: texts[name] for name in ("hour_50", "day_50")}, marks))
    baseline, data = Public(kind="homes", file=path), dataset()
    assert baseline.fit(data, SETTINGS, {}).model.levels == (0.5,)
    with pytest.raises(DataError, match=r"of the median alone.*section `public`"):
        baseline.fit(data, replace(SETTINGS, levels=(0.1, 0.5, 0.9)), {})


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "none.xz"
    with pytest.raises(DataError, match=r"none\.xz: is missing; a study with `public` makes"):
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


def on_public(**keys: Any) -> LightgbmOnPublic:
    return LightgbmOnPublic(kind="homes", **keys)


@pytest.mark.parametrize("horizons", [1, 3])
def test_trees_on_the_public_model_are_those_that_start_from_its_forecasts(horizons: int) -> None:
    data = dataset(horizons=horizons, days=20)
    fitted = on_public().fit(data, SETTINGS, {})
    public = Public(kind="homes").fit(data, SETTINGS, {})
    windows = TreeWindows(data, LAGGED)

    def rows(split: Split) -> tuple[Floats, Floats, Floats]:
        """Features, and as changes from the last load the targets and the public forecasts."""
        features, targets = windows.stack_windows(split)
        step = -(-len(data.starts(0, split)) * horizons // MOST_ROWS) if horizons > 1 else 1
        starts = [data.starts(client, split)[::step] for client in range(2)]
        changes = [
            (
                public.predict(client, s).reshape(len(s), -1)[:, h]
                - data.load[data.persistence_rows(s)]
            )
            / windows.unit(client).change
            for h in range(horizons)
            for client, s in enumerate(starts)
        ]
        return features, targets, np.concatenate(changes)

    parameters = PARAMETERS | BIN_PARAMETERS | {"num_leaves": 31, "learning_rate": 0.1}
    bins = lightgbm.Dataset(windows.public(255), np.zeros(255), params=parameters).construct()
    features, targets, start = rows("train")
    train = lightgbm.Dataset(features, targets, init_score=start, params=parameters, reference=bins)
    valid = lightgbm.Dataset(*(late := rows("validation"))[:2], init_score=late[2], reference=train)
    stopping = [lightgbm.early_stopping(PATIENT_TREES, verbose=False)]
    booster = lightgbm.train(parameters, train, SETTINGS.trees, [valid], callbacks=stopping)
    starts = data.starts(1, "test")[:7]
    outputs = [booster.predict(x) for x in windows.all_features(1, starts)]
    expected = public.predict(1, starts).reshape(7, -1) + windows.unit(1).change * np.transpose(
        outputs
    )
    np.testing.assert_allclose(fitted.predict(1, starts).reshape(7, -1), expected, rtol=1e-5)


def test_trees_on_the_public_model_forecast_later_as_in_the_study() -> None:
    data = dataset(horizons=2, days=20)
    baseline = on_public(turns=2)
    fitted = baseline.fit(data, SETTINGS, {})
    alone = data.select(np.array([1]))
    starts = data.starts(1, "test")[:5]
    expected = fitted.predict(1, starts)
    restored = baseline.restore(fitted.save(1), alone, SETTINGS, {})
    np.testing.assert_allclose(restored.predict(0, starts), expected, rtol=1e-6)
    adopted = baseline.adopt(fitted.save(1), alone, SETTINGS).predict(0, starts)
    assert np.isfinite(adopted).all()
    received = baseline.refit(fitted, data, SETTINGS, {})
    assert np.isfinite(received.predict(1, starts)).all()
    assert min(total_sent(fitted, 2)) > 0


def test_trees_on_the_public_model_fall_back_on_the_last_load() -> None:
    """After a day there is no public forecast."""
    data = dataset(horizons=25, days=20)
    forecasts = on_public().fit(data, SETTINGS, {}).predict(0, data.starts(0, "test")[:5])
    assert np.isfinite(forecasts).all()


def test_trees_on_the_public_model_grow_beside_a_meter_without_windows_to_choose_on() -> None:
    data = dataset(horizons=2, days=20)
    windows = TreeWindows(data, on_public().design)
    no_starts = data.starts(0, "validation")[:0]
    assert windows.scale_loads(0, no_starts, np.empty(0), 1).shape == (0,)
    assert windows.in_kwh(0, no_starts, np.empty((0, 2, 1))).shape == (0, 2, 1)


def test_trees_on_a_model_of_the_same_meters_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PublicFit, "seen_client", lambda self: "b")
    with pytest.raises(DataError, match="was trained on readings of b"):
        on_public().fit(dataset(), SETTINGS, {})
    assert on_public(trained_on_this_dataset=True).has_seen_the_data
