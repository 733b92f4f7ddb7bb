"""The statistics give what can be worked out by hand, and what theory says by simulation."""

import re
from typing import Any

import numpy as np
import pytest
from scipy import stats

from plfl.base.array_types import Floats
from plfl.results.records import CELL
from plfl.results.scores import scores
from plfl.results.statistics import (
    ALPHA,
    POWER,
    TYPICAL,
    Difference,
    advice,
    describe_power,
    holm,
    smallest_difference,
    undecidable,
)
from plfl.results.tables import Tables
from plfl.study import Study
from tests.helpers.constructed import config
from tests.helpers.fake_results import write


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
    return write(folder, config(grid=grid, data=data), level, constant=2)


def test_scores_are_those_of_the_summary(tables: Tables) -> None:
    found = scores(tables, "global")
    assert list(found) == ["NY", "CA"]
    for state, forecasters in found.items():
        assert len(forecasters) == 6
        summary = tables.summary.query("state == @state and model == 'global'")
        means = summary.groupby(CELL[1:-1])[["mase_mean", "validation_mase"]].mean()
        for forecaster in forecasters:
            assert forecaster.mase.shape == (6, 3)
            assert np.isnan(forecaster.mase[2]).all()
            summary_row = means.loc[forecaster.combination]
            assert np.nanmean(forecaster.mase) == pytest.approx(summary_row["mase_mean"])
            assert forecaster.validation == pytest.approx(summary_row["validation_mase"])
            assert forecaster.name == "-".join([state, *forecaster.combination])


def test_the_interval_is_that_of_three_crossed_factors(rng: np.random.Generator) -> None:
    table = rng.normal(0.3, 1, (6, 3, 5))  # clients, seeds, weeks
    found = Difference({"CA": table})
    total = table.sum(axis=2)
    means = total.mean(axis=1), 5 * table.mean(axis=(0, 1)), total.mean(axis=0)
    parts = np.array([m.var(ddof=1) / len(m) for m in means])
    freedom = parts.sum() ** 2 / (parts**2 / [5, 4, 2]).sum()
    sources = [(parts.sum(), freedom), *zip(parts, [5, 4, 2], strict=True)]
    reach = max(stats.t.ppf(0.975, df) * np.sqrt(v) for v, df in sources)
    assert found.effect == pytest.approx(total.mean())
    assert found.interval == pytest.approx((found.effect - reach, found.effect + reach))
    p = max(2 * stats.t.sf(abs(found.effect) / np.sqrt(v), df) for v, df in sources)
    assert found.p == pytest.approx(p)


def test_states_share_weeks_but_neither_clients_nor_seeds(rng: np.random.Generator) -> None:
    one, two = rng.normal(0, 1, (4, 2, 3)), rng.normal(5, 1, (8, 2, 3))
    parts = Difference({"CA": one, "NY": two}).parts
    weekly = 3 * np.concatenate([one, two]).mean(axis=(0, 1))
    assert parts["weeks"].variance == pytest.approx(weekly.var(ddof=1) / 3)
    assert parts["weeks"].freedom == pytest.approx(2)
    for axis, factor in ((1, "clients"), (0, "seeds")):
        means = [table.sum(axis=2).mean(axis=axis) for table in (one, two)]
        own = [m.var(ddof=1) / len(m) for m in means]
        assert parts[factor].variance == pytest.approx(own[0] / 9 + own[1] * 4 / 9)
    assert (parts["clients"].levels, parts["seeds"].levels) == (12, 2)


def test_a_state_is_left_out_in_turn() -> None:
    tables = {name: np.full((n, 1, 2), value) for name, n, value in (("a", 1, 1), ("b", 3, 2))}
    assert Difference(tables).without_one_state == (2, 4)
    assert Difference({"a": tables["a"]}).without_one_state is None


@pytest.mark.parametrize(
    ("shape", "lacking"), [((1, 3, 4), "clients"), ((5, 1, 4), "seeds"), ((5, 3, 1), "weeks")]
)
def test_one_of_a_kind_shows_no_variation(shape, lacking, rng):
    found = Difference({"CA": 10 + rng.normal(0, 0.1, shape)})
    assert found.missing_factors == [lacking]
    assert found.p == 1
    assert np.isnan(found.interval[0]) == (lacking == "clients")
    if lacking == "seeds":  # baselines have none
        assert Difference(found.differences, is_trained=False).p < 0.01


def test_what_varies_over_nothing_has_no_interval() -> None:
    found = Difference({"CA": np.ones((1, 1))}, is_trained=False, is_sampled=False)
    assert np.isnan(found.interval).all()
    assert (found.effect, found.p) == (1, 1)


def test_clients_without_a_score_count_nowhere(rng: np.random.Generator) -> None:
    table = rng.normal(1, 1, (5, 2, 3))
    with_nan = np.concatenate([table, np.full((1, 2, 3), np.nan)])
    alone = Difference({"CA": table})
    both = Difference({"CA": with_nan, "NY": np.full((2, 2, 3), np.nan)})
    assert (both.effect, both.interval, both.p) == (alone.effect, alone.interval, alone.p)


def test_what_does_not_vary_is_certain() -> None:
    found = Difference({"CA": np.full((3, 2, 4), 0.25)})
    assert (found.effect, found.interval, found.p) == (1, (1, 1), 0)
    assert Difference({"CA": np.zeros((3, 2, 4))}).is_identical


def drawn(
    rng: np.random.Generator, clients: int, weeks: int, seeds: int, effect: float = 0.0
) -> Floats:
    """Differences (clients, seeds, weeks) from clients, days, noise and trainings.

    Errors of a day are correlated with those of the day before by 0.5, for all clients at once and
    for each on its own.
    """
    days = np.empty((clients + 1, 7 * weeks))
    noise = rng.normal(size=days.shape)
    days[:, 0] = noise[:, 0]
    for t in range(1, days.shape[1]):
        days[:, t] = 0.5 * days[:, t - 1] + np.sqrt(0.75) * noise[:, t]
    daily = effect + 0.5 * rng.normal(size=(clients, 1)) + 0.5 * days[0] + days[1:]
    shocks = 0.15 * rng.normal(size=seeds)
    weekly = daily.reshape(clients, 1, weeks, 7).mean(axis=3) + shocks[:, None]
    return weekly / weeks


def test_nominal_rates_over_sites_and_seasons() -> None:
    """Three sites of the sizes of the map, which share the weeks of four seasons."""
    rng = np.random.default_rng(7)
    sites, weeks, seasons = {"a": 38, "b": 80, "c": 14}, 4, 4
    wrong, covered = [], []
    for _ in range(1000):
        for effect, found in ((0.0, wrong), (0.1, covered)):
            common = 0.3 * rng.normal(size=weeks * seasons)
            tables, origins = {}, {}
            for site, n in sites.items():
                own = 0.5 * rng.normal(size=(n, 1)) + 0.2 * rng.normal(size=weeks * seasons)
                noise = rng.normal(size=(n, weeks * seasons))
                shocks = 0.05 * rng.normal(size=5)
                table = (effect + own + common + noise)[:, None] + shocks[:, None]
                tables[site], origins[site] = (
                    table / (weeks * seasons),
                    dict.fromkeys("1234", weeks),
                )
            one = Difference(tables, origins=origins)
            low, high = one.interval
            found.append(low <= effect <= high if effect else one.p < ALPHA)
    assert np.mean(wrong) <= 0.06
    assert 0.93 <= np.mean(covered) <= 0.97


@pytest.mark.parametrize(("weeks", "studies"), [((16, 15), 1000), ((8, 4), 200)])
def test_nominal_rates_where_test_sets_of_states_differ_in_length(
    weeks: tuple[int, int], studies: int
) -> None:
    """Two states whose last weeks are the same, which are for all clients like one another."""
    rng, clients, seeds = np.random.default_rng(5), 12, 3
    wrong, covered = [], []
    for _ in range(studies):
        for effect, found in ((0.0, wrong), (0.1, covered)):
            common, tables = 0.3 * rng.normal(size=max(weeks)), {}
            for state, number in zip("ab", weeks, strict=True):
                noise = 0.2 * rng.normal(size=(clients, seeds, number))
                table = effect + 0.1 * rng.normal(size=(clients, 1, 1)) + common[-number:] + noise
                tables[state] = (table + 0.02 * rng.normal(size=(seeds, 1))) / number
            one = Difference(tables)
            low, high = one.interval
            found.append(low <= effect <= high if effect else one.p < ALPHA)
    assert np.mean(wrong) <= 0.06
    assert np.mean(covered) >= 0.93


def test_nominal_rates() -> None:
    """2,000 studies, so that the standard error of a rate of 5 % is 0.5 points."""
    rng, clients, weeks, seeds = np.random.default_rng(12), 12, 5, 3
    wrong, covered = [], []
    for _ in range(2000):
        nothing = Difference({"CA": drawn(rng, clients, weeks, seeds)})
        wrong.append(nothing.p < ALPHA)
        low, high = Difference({"CA": drawn(rng, clients, weeks, seeds, 0.5)}).interval
        covered.append(low <= 0.5 <= high)
    assert np.mean(wrong) <= 0.06
    assert 0.93 <= np.mean(covered) <= 0.97


def test_holm() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == pytest.approx([1, 1])
    assert len(holm([])) == 0


# What would decide a comparison


def difference(clients: float = 0.1, weeks: float = 0.03, seeds: float = 0.01) -> Difference:
    """An effect of 0.04 over 12 clients, 8 weeks and 4 seeds, which vary by these deviations."""
    rng, sizes = np.random.default_rng(3), (12, 4, 8)
    parts = [
        rng.normal(0, deviation, size)
        for deviation, size in zip((clients, seeds, weeks), sizes, strict=True)
    ]
    varied = [part - part.mean() for part in parts]
    whole = 0.04 + varied[0][:, None, None] + varied[1][:, None] + varied[2]
    return Difference({"CA": whole / 8})


def test_the_recommended_number_decides_with_the_stated_probability() -> None:
    own_study = difference()
    found = re.search(r"With about (\d+) clients \(12 now\)", advice(own_study, ALPHA))
    assert found
    n, rng = int(found[1]), np.random.default_rng(1)
    deviations = {
        name: (part.variance * part.levels) ** 0.5 for name, part in own_study.parts.items()
    }

    def study() -> Difference:
        shape = {"clients": (n, 1, 1), "seeds": (1, 4, 1), "weeks": (1, 1, 8)}
        parts = [rng.normal(0, deviations[name], shape[name]) for name in shape]
        return Difference({"CA": (0.04 + sum(parts)) / 8})

    decided = np.mean([study().p < ALPHA for _ in range(600)])
    assert decided == pytest.approx(POWER, abs=0.06)


def test_only_what_helps_is_recommended() -> None:
    assert "seeds (4 now)" in advice(difference(clients=0.0, seeds=0.08), ALPHA)
    told = advice(difference(clients=50.0), ALPHA)
    assert told.startswith("More clients alone, more weeks alone or more seeds alone would not")


def test_where_a_factor_is_unknown_it_comes_first() -> None:
    single = Difference({"CA": difference().differences["CA"][:, :1, :1]})
    told = advice(single, ALPHA)
    assert told.startswith("Run at least 4 weeks of test (") and "and 3 seeds (grid.seeds)" in told


def study(clients: int, seeds: list[int], **blocks: Any) -> Study:
    """A study of sample data."""
    data = {"source": "sample", "clients": clients}
    grid = blocks.pop("grid", {}) | {"seeds": seeds}
    return Study.parse({"data": data, "grid": grid, **blocks}, "small")


def test_a_study_that_can_decide_nothing_says_so_before_it_runs() -> None:
    assert undecidable(study(30, [1, 2])) == ""
    assert "with 6 clients only large differences" in undecidable(study(2, [1, 2]))
    assert "one seed and one client" in undecidable(study(1, [4]))
    told = undecidable(study(2, [4]))
    assert told.startswith("no comparison of trained cells is decided with one seed. ")
    assert "3 seeds (grid.seeds)" in told
    trees: dict[str, Any] = {"model": {"name": "trees"}, "windows": {"target": "change"}}
    trees |= {"grid": {"method": ["boosting"], "client_opt": ["sgd"], "server_opt": ["fedavg"]}}
    of_trees = study(2, [4], **trees, federation={"rounds": 80})
    assert "seed." not in undecidable(of_trees)
    assert "weeks of test" in describe_power(of_trees)  # its one run is the value


def test_a_study_says_before_it_runs_which_differences_it_can_decide() -> None:
    assert re.search(
        r"6 clients .* \d+\.\d % with 4, 8 or 16 weeks of test: the number of clients limits it",
        describe_power(study(2, [1, 2, 3])),
    )
    assert describe_power(study(1, [1, 2, 3])) == ""  # the clients of each state are compared
    assert describe_power(study(2, [4])) == ""
    own = describe_power(study(20, [1, 2, 3, 4]), 6)
    assert re.search(r"\d\.\d % with 4, \d\.\d % with 6 \(this study\), .* 16 weeks of test", own)
    assert "the number of seeds limits it" in describe_power(study(20, [1, 2]), 6)
    assert describe_power(study(20, [1, 2, 3, 4]), 8).count(" % with") == 3


def test_a_test_set_without_enough_weeks_decides_nothing() -> None:
    assert describe_power(study(2, [1, 2]), 1).startswith(
        "one whole week of test decides nothing; "
    )
    assert describe_power(study(2, [1, 2]), 0).startswith("no whole week of test decides nothing; ")


def test_the_smallest_difference_is_confirmed_in_four_of_five_studies() -> None:
    levels = {"clients": 12, "weeks": 8, "seeds": 3}
    effect, draw = smallest_difference(levels), np.random.default_rng(0)
    decided = []
    for _ in range(600):
        parts = [draw.normal(0, TYPICAL[factor], n) for factor, n in levels.items()]
        clients, weeks, seeds = parts
        whole = effect + clients[:, None, None] + seeds[None, :, None] + weeks
        decided.append(Difference({"CA": whole / levels["weeks"]}).p < ALPHA)
    assert 0.75 < np.mean(decided) < 0.92
    assert smallest_difference(levels, claims=3) > effect
    assert smallest_difference(levels, states=4) > effect
    assert smallest_difference(levels | {"clients": 40}) < effect
