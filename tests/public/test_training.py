"""The windows that public models are trained on."""

import numpy as np
import pytest

from plfl.base.errors import DataError
from plfl.public.inputs import CONTEXT, HourlyLoads
from plfl.public.training import drawn_windows, gather
from tests.helpers.refusals import naming


def meter(hours: int) -> HourlyLoads:
    stamps = np.datetime64("2024-01-01T01", "s") + np.arange(hours) * np.timedelta64(3600, "s")
    return HourlyLoads.ending_at(stamps, np.random.default_rng(0).gamma(2.0, 1.0, hours))


@pytest.mark.parametrize("hours", [100, 400, 700, 2000])
def test_a_window_is_of_readings_of_its_meter(hours: int) -> None:
    last, lead, first = drawn_windows(meter(hours), "day", hours, np.random.default_rng(1))
    assert len(last) and (first >= 0).all() and (first <= last).all()
    assert (last + lead < hours).all()


def test_windows_of_a_whole_context_do_not_depend_on_what_is_left_out() -> None:
    """Those that are left out have no features that a model could be trained on."""
    random = np.random.default_rng(3)
    features, targets = gather([meter(2000)], "day", 2000, seed=3)
    last, _, _ = drawn_windows(meter(2000), "day", 2000, random)
    assert len(features) == len(targets) == len(last)
    assert np.isfinite(targets).all()


@pytest.mark.parametrize("hours", [400, 100])
def test_meters_of_a_few_days_are_trained_on_too(hours: int) -> None:
    short, _ = gather([meter(hours)], "day", 200)
    long, _ = gather([meter(2000)], "day", 200)
    both, _ = gather([meter(2000), meter(hours)], "day", 200)
    assert len(short)
    assert len(both) > len(long)


def test_meters_that_are_too_short_are_refused() -> None:
    with naming(DataError, f"more than {CONTEXT} hours"):
        gather([meter(24)], "day", 200)
