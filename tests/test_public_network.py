"""The network of docs/public.md."""

import numpy as np
import pandas as pd
import pytest

from benchmarks import public_network
from benchmarks.public_network import fit_network, gather, judge_claims, outputs_of, rows_of
from plfl.public.inputs import CONTEXT, LEAD_HOURS, HourlyLoads, LeadTime, inputs_of
from plfl.public.making import gather_sites

HOURS = 12 * 7 * 24


def meter(seed: int) -> HourlyLoads:
    """A meter with a daily shape and noise."""
    random = np.random.default_rng(seed)
    hour = np.arange(HOURS)
    load = 2 + np.sin(hour / 24 * 2 * np.pi) + random.exponential(0.3, HOURS)
    load[700:710] = np.nan
    return HourlyLoads(load, hour % 24, hour // 24 % 7)


@pytest.mark.parametrize("ahead", LEAD_HOURS)
def test_a_network_reads_what_the_trees_read_and_nothing_after_the_last_reading(ahead: LeadTime):
    loads = meter(1)
    last = np.array([1000, 1500])
    lead = np.array([1, LEAD_HOURS[ahead]])
    inputs = inputs_of(loads, ahead, last, lead, 900)
    rows = rows_of(loads, inputs, last, lead, 900)
    assert rows.context.shape == (2, CONTEXT)
    assert rows.context[0, -1] == pytest.approx(loads.load[1000] / inputs.scale[0])
    assert rows.context[0, -101] == pytest.approx(loads.load[900] / inputs.scale[0])
    assert (rows.context[0, :-101] == 1).all()
    known = CONTEXT - lead[1] + 1
    assert rows.context[1, known - 1] == pytest.approx(loads.load[1500] / inputs.scale[1])
    assert (rows.context[1, known:] == 1).all()
    later = HourlyLoads(loads.load.copy(), loads.hour, loads.weekday)
    later.load[1501:] = 99
    later.load[:900] = 99
    again = rows_of(later, inputs_of(later, ahead, last, lead, 900), last, lead, 900)
    np.testing.assert_array_equal(again.context, rows.context)


@pytest.mark.parametrize("ahead", LEAD_HOURS)
def test_a_network_learns_the_windows_of_the_trees(ahead: LeadTime, monkeypatch):
    monkeypatch.setattr(public_network, "TURNS", 2)
    places = [[meter(seed) for seed in range(first, first + 5)] for first in (1, 6)]
    rows, targets = gather(places, ahead)
    features, wanted = gather_sites(places, ahead)
    np.testing.assert_array_equal(rows.features, features)
    np.testing.assert_allclose(targets, wanted, rtol=1e-6)
    network = fit_network(places, ahead)
    numbers = sum(p.numel() for p in network.parameters())
    assert 2 * numbers < 250_000  # bytes at float16
    assert np.abs(outputs_of(network, rows) - targets).mean() < 0.9 * np.abs(targets).mean()


def test_claims_allow_what_they_say():
    keys = {"site": "fontana", "ahead": "hour", "weeks": 1}
    errors = {"trees": 0.8, "trees twice": 0.79, "network + trees": 0.795}
    rows = [
        keys | errors | {"network": 0.808, "meter": meter, "origin": origin}
        for meter in "ab"
        for origin in (0, 1)
    ]
    verdicts = judge_claims(pd.DataFrame(rows)).set_index("claim")
    assert verdicts["verdict"].to_dict() == {"N1": "holds", "N2": "holds", "N3": "does not hold"}
    assert verdicts["gain"].to_list() == pytest.approx([-0.008, 0.005, -0.005])
