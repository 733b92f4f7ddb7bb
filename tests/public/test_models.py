"""The models of public meters that come with plfl."""

from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from plfl.base.errors import DataError
from plfl.public import models, packing
from plfl.public.inputs import HourlyLoads
from plfl.public.models import METER_KINDS, MeterKind


def test_they_take_less_than_a_megabyte_together() -> None:
    assert sum(models.file_of(kind).stat().st_size for kind in METER_KINDS) <= 1_000_000


@pytest.mark.parametrize("kind", METER_KINDS)
def test_every_quantile_of_both_horizons_is_there(kind: MeterKind) -> None:
    names = {f"{ahead}_{level}" for ahead in ("hour", "day") for level in (10, 50, 90)}
    assert {*models.load(kind).boosters} == names


def test_a_forecast_of_the_median_reads_no_other_quantile(monkeypatch: pytest.MonkeyPatch) -> None:
    read = Mock(side_effect=packing.tree_text)
    monkeypatch.setattr(packing, "tree_text", read)
    models.load.cache_clear()
    stamps = np.datetime64("2024-01-01T01", "s") + np.arange(400) * np.timedelta64(3600, "s")
    loads = HourlyLoads.ending_at(stamps, np.random.default_rng(0).gamma(2.0, 1.0, 400))
    for _ in range(2):
        models.load("homes").predict(loads, "day", np.array([370]), np.array([24]), levels=(0.5,))
    assert read.call_count == 1


def test_a_changed_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = bytearray(models.file_of("homes").read_bytes())
    content[100] ^= 1
    (tmp_path / "homes.xz").write_bytes(content)
    monkeypatch.setattr(models, "MODELS_FOLDER", tmp_path)
    models.load.cache_clear()
    with pytest.raises(DataError, match="is not the file that came with plfl"):
        models.load("homes")
    models.load.cache_clear()


@pytest.mark.parametrize("kind", METER_KINDS)
def test_quantiles_ascend(kind: MeterKind) -> None:
    stamps = np.datetime64("2024-01-01T01", "s") + np.arange(400) * np.timedelta64(3600, "s")
    loads = HourlyLoads.ending_at(stamps, np.random.default_rng(0).gamma(2.0, 1.0, 400))
    last = np.arange(50, 370)
    for ahead, lead in (("hour", 1), ("day", 24)):
        quantiles = models.load(kind).predict(loads, ahead, last, np.full(len(last), lead))
        assert (np.diff(quantiles, axis=1) >= 0).all()


@pytest.mark.parametrize("kind", METER_KINDS)
def test_the_card_names_the_data_and_their_licences(kind: MeterKind) -> None:
    card = models.card(kind)
    for source in models.TRAINED_ON[kind]:
        assert source.partition(":")[0] in card
    assert "CC BY" in card
    assert "must not be used" in card
