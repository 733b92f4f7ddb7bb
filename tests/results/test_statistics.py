"""The statistics give what can be worked out by hand, and what theory says by simulation."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from plfl.results import statistics
from plfl.results.records import CELL
from plfl.results.scores import scores
from plfl.results.statistics import Comparison, holm, interval, sign_flips
from plfl.results.tables import Tables
from tests.helpers.constructed import write


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def level(cell: dict[str, Any], split: str, model: str, t: int) -> float:
    optimiser = {"adam": 1.0, "prox": 2.0}[cell["client_opt"]]
    split_ = {"P1": 1.3, "P2": 1.0, "P3": 1.1}[cell["sharing"]]
    return optimiser * split_ * (1.5 if model == "global" and split_ == 1.3 else 1.0)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    folder = tmp_path_factory.mktemp("statistics")
    grid = {"client_opt": ["adam", "prox"]}
    data = {"states": ["NY", "CA"], "clients": 6}
    return write(folder, level, grid=grid, data=data, constant="client2")


def test_scores_are_those_of_the_summary(tables: Tables) -> None:
    found = scores(tables, "global")
    assert list(found) == ["NY", "CA"]
    for state, of_state in found.items():
        assert of_state.mase.shape == (6, 3, 6)
        assert np.isnan(of_state.mase[:, :, of_state.clients.index("client2")]).all()
        summary = tables.summary.query("state == @state and model == 'global' and chosen == 'last'")
        means = summary.groupby(CELL[1:-1])[["mase_mean", "validation_mase"]].mean()
        for k, key in enumerate(of_state.combinations):
            assert np.nanmean(of_state.mase[k]) == pytest.approx(means.loc[key, "mase_mean"])
            assert of_state.validation[k] == pytest.approx(means.loc[key, "validation_mase"])
            assert of_state.names[k] == "-".join([state, *key])


def test_the_grid_has_means_spreads_and_the_reference(tables: Tables) -> None:
    table = statistics.grid(tables, "local")
    row = table.query("state == 'CA' and sharing == 'P2' and client_opt == 'prox'").iloc[0]
    records = tables.records(
        ["seed", "client", "mase"],
        split="test",
        model="local",
        state="CA",
        sharing="P2",
        client_opt="prox",
    ).dropna()
    by_seed = records.groupby("seed")["mase"].mean()
    assert row["mase"] == pytest.approx(by_seed.mean())
    assert row["std"] == pytest.approx(by_seed.std())
    assert row["median"] == pytest.approx(records.groupby("client")["mase"].mean().median())
    assert row["clients"] == 5
    assert row["seeds"] == 3
    assert "-P3-" in row["reference"]
    assert "-adam-" in row["reference"]
    assert row["low"] < row["difference"] < row["high"]
    best = table.query("sharing == 'P2' and client_opt == 'adam'")
    assert (best["rank"] == 1).all()
    assert (best["high"] < 0).all()


def test_a_diverged_cell_has_no_numbers_and_the_last_rank(tmp_path: Path) -> None:
    def broken(cell: dict[str, Any], *rest: Any) -> float:
        lost = cell["sharing"] == "P1" and cell["seed"] == 2
        return np.nan if lost else level(cell, *rest)

    grid = {"client_opt": ["adam"]}
    data = {"states": ["CA"], "clients": 4}
    table = statistics.grid(write(tmp_path, broken, grid=grid, data=data), "local")
    assert table["diverged"].tolist() == [True, False, False]
    assert table["rank"].tolist() == [3, 1, 2]
    assert table.loc[0, ["mase", "std", "median", "difference", "low"]].isna().all()
    assert np.isfinite(table.loc[1:, ["mase", "std", "difference", "low"]].to_numpy(float)).all()


def test_interval_is_of_the_mean_over_all_states(rng: np.random.Generator) -> None:
    samples = [rng.normal(0, 1, 40), rng.normal(5, 1, 20)]
    low, high = interval(samples)
    mean = np.concatenate(samples).mean()
    # Drawn within states: the difference between the states is not part of the spread.
    half = 1.96 * np.sqrt(40 * samples[0].var() + 20 * samples[1].var()) / 60
    assert [low - mean, high - mean] == pytest.approx([-half, half], abs=0.05)


def test_interval_of_what_cannot_vary() -> None:
    assert interval([np.full(3, 0.25), np.full(4, 0.25)]) == (0.25, 0.25)
    assert np.isnan(interval([np.array([1.0]), np.array([1.0, 2.0])])).all()


def _single(values: Any) -> Comparison:
    return Comparison(("a", "b"), {"CA": np.reshape(values, (len(values), -1))})


def test_sign_flips_are_the_permutation_test_of_scipy(rng: np.random.Generator) -> None:
    values = rng.normal(0.4, 1, 9)
    exact = stats.permutation_test(
        (values, np.zeros(9)),
        lambda a, b, axis: (a - b).mean(axis=axis),
        permutation_type="samples",
        n_resamples=np.inf,
        vectorized=True,
    ).pvalue
    (alone,), (together,) = sign_flips([_single(values)])
    assert alone == together == pytest.approx(exact, abs=0.015)


def test_few_clients_cannot_be_significant() -> None:
    alone, _ = sign_flips([_single([1.0, 1.1, 0.9])])
    assert alone[0] == pytest.approx(0.25, abs=0.02)


def test_looking_at_many_comparisons_is_corrected_as_far_as_they_differ(
    rng: np.random.Generator,
) -> None:
    values = rng.normal(0.8, 1, 12)
    alone, copies = sign_flips([_single(values)] * 30)
    np.testing.assert_array_equal(alone, copies)
    others = [_single(rng.normal(0, 1, 12)) for _ in range(30)]
    alone, together = sign_flips([_single(values), *others])
    assert alone[0] < together[0] <= min(1, 31 * alone[0])


def test_the_correction_is_that_of_the_largest_of_all_sign_flips(rng: np.random.Generator) -> None:
    values = rng.normal([0.6, 0.3, 0.0], 1, (8, 3))
    signs = np.array(list(itertools.product([-1, 1], repeat=8)))
    sums = np.abs(signs @ (values / np.linalg.norm(values, axis=0)))
    observed = sums[-1] - 1e-9
    expected = [np.mean(sums.max(axis=1) >= u) for u in observed]
    alone, together = sign_flips([_single(column) for column in values.T])
    assert alone == pytest.approx((sums >= observed).mean(axis=0), abs=0.02)
    assert together == pytest.approx(expected, abs=0.02)


def test_comparisons_of_several_states_flip_clients_apart(rng: np.random.Generator) -> None:
    tables = {state: rng.normal(0.5, 1, (6, 2)) for state in ("CA", "IL")}
    both = Comparison(("a", "b"), tables)
    one_by_one = _single(np.concatenate([table.mean(axis=1) for table in tables.values()]))
    assert sign_flips([both])[0] == pytest.approx(sign_flips([one_by_one])[0])
    assert both.effect == pytest.approx(one_by_one.effect)


def test_a_mean_ratio_of_one_is_seldom_called_another() -> None:
    """Flips of signs do so twice as often as they should, and always towards less."""
    rng = np.random.default_rng(5)
    wrong = {"flips": 0, "both": 0}
    for ratios in np.exp(rng.normal(-0.5, 1, (1000, 12))):
        table = {"CA": ratios[:, None] - 1}
        flips = sign_flips([Comparison(("a",), table)], draws=199)[0][0]
        both = max(flips, Comparison(("a",), table, ratios=True).skewed())
        wrong = {"flips": wrong["flips"] + (flips < 0.05), "both": wrong["both"] + (both < 0.05)}
    assert wrong["flips"] > 100
    assert 35 < wrong["both"] < 65


def test_ratios_that_scatter_much_by_coxs_formula(rng: np.random.Generator) -> None:
    """Zhou and Gao (1997): the logarithm of the mean is m + s²/2, its variance s²/n + s⁴/2(n-1)."""
    for mean, sign in ((1.5, 1), (-3.0, -1)):
        ratios = np.exp(rng.normal(mean, 1, 6))
        m, s2 = np.log(ratios).mean(), np.log(ratios).var(ddof=1)
        t = (m + s2 / 2) / np.sqrt(s2 / 6 + s2**2 / 10)
        assert np.sign(ratios.mean() - 1) == np.sign(t) == sign
        found = Comparison(("a",), {"CA": ratios[:, None] - 1}, ratios=True).skewed()
        assert found == pytest.approx(2 * stats.t.sf(abs(t), 5))


def test_ratios_that_scatter_little_are_as_good_as_symmetric(rng: np.random.Generator) -> None:
    ratios = 1.03 + rng.normal(0, 0.05, 12)
    comparison = Comparison(("a",), {"CA": ratios[:, None] - 1}, ratios=True)
    assert comparison.skewed() == pytest.approx(stats.ttest_1samp(ratios, 1).pvalue, rel=0.15)
    assert _single(ratios - 1).skewed() == 0
    for values, p in (([1.0] * 4, 1.0), ([0.9] * 4, 0.0), ([0.9], 1.0)):
        table = {"CA": np.array(values)[:, None] - 1}
        assert Comparison(("a",), table, ratios=True).skewed() == p


def test_trainings_of_one_state_are_a_t_test(rng: np.random.Generator) -> None:
    table = rng.normal(0.3, 0.2, (8, 4))
    expected = stats.ttest_1samp(table.mean(axis=0), 0).pvalue
    assert _single(table).trainings() == pytest.approx(expected)
    assert _single(table[:, :1]).trainings() == 1
    assert _single(np.full((3, 2), 0.1)).trainings() == 0
    assert _single(np.zeros((3, 2))).trainings() == 1


def test_trainings_of_two_states_are_welchs_test(rng: np.random.Generator) -> None:
    # The effect is the sum of both states' means, each times the share of its clients.
    one, two = rng.normal(0.2, 1, (3, 4)), rng.normal(0.6, 0.3, (5, 6))
    sides = 3 / 8 * one.mean(axis=0), -5 / 8 * two.mean(axis=0)
    expected = stats.ttest_ind(*sides, equal_var=False).pvalue
    assert Comparison((), {"CA": one, "NY": two}).trainings() == pytest.approx(expected)


def test_trainings_of_several_states_keep_their_rate(rng: np.random.Generator) -> None:
    # The seeds shift all clients of a state together, and nothing else happens.
    shifts = rng.normal(0, 1, (400, 3, 3))
    p = [
        Comparison((), {s: np.tile(shift, (5, 1)) for s, shift in zip("abc", three, strict=True)})
        for three in shifts
    ]
    rate = np.mean([comparison.trainings() < 0.05 for comparison in p])
    assert rate <= stats.binom.ppf(0.99, 400, 0.05) / 400


def test_a_client_without_mase_is_left_out(rng: np.random.Generator) -> None:
    table = rng.normal(1, 0.1, (5, 3))
    with_nan = np.insert(table, 2, np.nan, axis=0)
    assert _single(with_nan).effect == pytest.approx(_single(table).effect)
    assert _single(with_nan).trainings() == pytest.approx(_single(table).trainings())
    assert _single(with_nan).interval() == _single(table).interval()


def test_a_state_without_mase_is_left_out(rng: np.random.Generator) -> None:
    table = rng.normal(1, 0.1, (5, 3))
    alone, both = (Comparison((), {"CA": table, **more}) for more in ({}, {"NY": table * np.nan}))
    assert both.effect == alone.effect
    assert both.trainings() == alone.trainings()
    assert both.interval() == alone.interval()


def test_seeds_widen_what_sign_flips_take_for_chance(rng: np.random.Generator) -> None:
    clients = rng.normal(0.8, 1, 12)
    quiet, loud = (
        _single(clients[:, None] + shift * np.array([-1.0, 0, 1])) for shift in (0.0, 1.0)
    )
    assert sign_flips([quiet])[0] == sign_flips([quiet], seeds=True)[0] == sign_flips([loud])[0]
    assert sign_flips([loud], seeds=True)[0] > 2 * sign_flips([loud])[0]
    assert sign_flips([_single(clients)], seeds=True)[0] == 1
    # By all 2¹² flips, with the statistic of the docstring's formula, in another unit.
    large = _single(100 * loud.differences["CA"])
    (values,) = large.clients()
    t2 = values.mean() ** 2 / (stats.sem(values) ** 2 + large.seed_variance[0])
    flips = np.abs(np.array(list(itertools.product([-1, 1], repeat=12))) @ values)
    expected = (flips >= np.sqrt((values**2).sum() * 12 * t2 / (11 + t2))).mean()
    assert sign_flips([large], seeds=True)[0] == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("values", [[1.0], [1.0, 1.1, 0.9, 1.2, 1.0, 1.1]])
@pytest.mark.filterwarnings("error")
def test_a_single_seed_proves_nothing(values: list[float]) -> None:
    alone, together = sign_flips([_single(values)], seeds=True)
    assert alone == together == 1


def test_both_sources_of_chance_together_keep_the_rate(rng: np.random.Generator) -> None:
    # Each source by itself would explain half of the variance of the effect.
    shifts = rng.normal(0, 1 / np.sqrt(15), (400, 15, 1)) * np.sqrt(15)
    shifts = shifts + rng.normal(0, np.sqrt(10 / 15), (400, 1, 10))
    comparisons = [_single(table) for table in shifts]
    limit = stats.binom.ppf(0.99, 400, 0.05) / 400
    rates = [
        np.mean([sign_flips([c], 499, seeds=seeds)[0][0] < 0.05 for c in comparisons])
        for seeds in (False, True)
    ]
    assert rates[1] <= limit < rates[0]


def test_holm() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == pytest.approx([1, 1])
    assert len(holm([])) == 0
