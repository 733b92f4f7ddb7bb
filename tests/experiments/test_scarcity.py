"""Weeks of history: the same test set, honest baselines, crossing points where they are."""

from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import pytest
import yaml
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from plfl.base.errors import ConfigError, DataError
from plfl.cli import main as cli
from plfl.config.sections import Simulation
from plfl.config.study import Study
from plfl.data.dataset import WEEK, Dataset
from plfl.data.windows import build
from plfl.experiments import scarcity
from plfl.experiments.scarcity import baselines, training
from plfl.report.scarcity import draw
from plfl.results import provenance as marks
from plfl.results.scarcity import as_text, crossings, mark, summarise
from tests.baselines import test_linear, test_trees
from tests.cli.test_main import project  # noqa: F401
from tests.helpers import outside, tiny

DAY = 24


def study(**grid: object) -> Study:
    one = {"client_opt": ["adam"], "server_opt": ["fedavg"], "seeds": [1, 2], **grid}
    return tiny.study(grid=one)


def tables(days: int) -> dict[str, pd.DataFrame]:
    """Hourly load with a daily cycle; the last client's never changes in its test set."""
    random = np.random.default_rng(3)
    stamps = pd.date_range("2018-01-01 01:00", periods=days * DAY, freq="h")
    cycle = np.sin(np.arange(len(stamps)) / DAY * 2 * np.pi)
    made = {
        name: pd.DataFrame({"load": 2 + cycle + 0.1 * random.random(len(stamps))}, stamps)
        for name in "abc"
    }
    made["c"].iloc[int(0.85 * len(stamps)) :] = 1.0
    return made


class Loads:
    """Stands in for the loader of the command line, and keeps what it made."""

    def __init__(self, days: int = 42):
        self.tables = tables(days)
        self.made: dict[int | None, Dataset] = {}

    def __call__(self, of: Study, state: str) -> Dataset:
        return self.made.setdefault(of.windows.history, build(self.tables, of.windows))


@pytest.fixture(scope="module")
def measured() -> tuple[Loads, pd.DataFrame, list[tuple[str, int, int]]]:
    loads, told = Loads(), []
    found = scarcity.measure(study(), loads, lambda *what: told.append(what))
    return loads, found, told


def test_every_history_with_data_is_trained(
    measured: tuple[Loads, pd.DataFrame, list[tuple[str, int, int]]],
) -> None:
    _, found, told = measured
    # 42 days have 4.8 weeks of training.
    trained = found[found["model"] != "baseline"]
    assert sorted(trained["weeks"].unique()) == [1, 2, 4]
    counts = trained.groupby(["forecaster", "model"]).size().to_dict()
    each = 3 * 2 * 3  # histories, seeds, clients
    pairs = [(split, model) for split in ("P1", "P2", "P3") for model in ("local", "global")]
    assert counts == dict.fromkeys([*pairs, ("centralised", "global")], each)
    done = [at for _, at, _ in told]
    assert done == list(range(1, told[-1][2] + 1))


def test_only_the_training_part_depends_on_the_history(
    measured: tuple[Loads, pd.DataFrame, list[tuple[str, int, int]]],
) -> None:
    loads, *_ = measured
    for weeks in (1, 2, 4):
        bounds = loads.made[weeks].refit().bounds
        for one, other in zip(
            (loads.made[weeks].starts(i, "test") for i in range(3)),
            (loads.made[None].starts(i, "test") for i in range(3)),
            strict=True,
        ):
            stamps = loads.made[weeks].stamps[one], loads.made[None].stamps[other]
            np.testing.assert_array_equal(*stamps)
        assert set(bounds[:, 1] - bounds[:, 0]) == {weeks * WEEK // 60}


def test_baselines_are_those_of_their_definition(
    measured: tuple[Loads, pd.DataFrame, list[tuple[str, int, int]]],
) -> None:
    loads, found, _ = measured
    dataset = loads.made[None]
    base = found[found["model"] == "baseline"].set_index(["forecaster", "client"])["mase"]
    assert base["persistence"].dropna().to_dict() == {"a": 1.0, "b": 1.0}
    for i, name in enumerate("ab"):
        targets = dataset.target_rows(dataset.starts(i, "test"))
        persistence = dataset.load[dataset.persistence_rows(dataset.starts(i, "test"))]
        truth = dataset.load[targets]
        errors = np.abs(truth - dataset.load[targets - DAY]).mean()
        wanted = errors / np.abs(truth - persistence).mean()
        assert base["naive_day", name] == pytest.approx(wanted)


LEARNT = ("lightgbm", "lightgbm_pooled", "ridge_lags")


def test_every_history_has_baselines_of_its_own(
    measured: tuple[Loads, pd.DataFrame, list[tuple[str, int, int]]],
) -> None:
    _, found, _ = measured
    learnt = found[found["forecaster"].isin(LEARNT)].set_index(["forecaster", "weeks", "client"])
    wanted = pd.MultiIndex.from_product([LEARNT, [1, 2, 4], list("abc")])
    assert sorted(learnt.index) == sorted(wanted)
    assert set(learnt["model"]) == {"baseline"}
    assert learnt["seed"].isna().all()
    assert learnt["mase"].drop("c", level="client").notna().all()
    for forecaster in LEARNT:
        for client in "ab":
            assert learnt["mase"][forecaster].xs(client, level="client").nunique() == 3


@pytest.mark.parametrize("weeks", [1, 2])
def test_baselines_are_those_of_an_outside_script_on_the_same_history(weeks: int) -> None:
    data = outside.dataset(clients=2, days=30, minutes=60, history=weeks)
    found = baselines.trained(data.refit()).set_index(["forecaster", "client"])["mase"]
    first = round(0.9 * 30 * DAY) - weeks * 7 * DAY
    series = [outside.series(i, 30, 60, 100.0 * (i + 1)) for i in range(2)]
    every = [outside.Windowed(table, day=DAY, first=first) for table in series]
    x = [test_trees.relative(w) for w in every]
    y = [(w.truth - w.last) / test_trees.scale(w) for w in every]
    rows = [w.part("train") for w in every]
    alone = [grown(x[i].loc[rows[i]], y[i][rows[i]]) for i in range(2)]
    pooled = grown(*(pd.concat([a[i].loc[rows[i]] for i in range(2)]) for a in (x, y)))
    for i, w in enumerate(every):
        tested = w.part("test")
        persistence = (w.truth - w.last)[tested].abs().sum()
        for name, model in (("lightgbm", alone[i]), ("lightgbm_pooled", pooled)):
            forecast = w.last[tested] + test_trees.scale(w) * model.predict(x[i].loc[tested])
            wanted = (w.truth[tested] - forecast).abs().sum() / persistence
            assert found[name, f"c{i}"] == pytest.approx(wanted, rel=1e-6)
        # Ridge learns from windows that have all lags, if there are any.
        begin = rows[i][rows[i] >= first + 15 + (weeks > 1) * 7 * DAY]
        design = test_linear.with_lags(w)
        if weeks == 1:
            design = test_linear.without_week_lags(design)
        ridge = make_pipeline(StandardScaler(), Ridge(alpha=1.0))
        ridge.fit(design.loc[begin], (w.truth - w.last)[begin])
        forecast = w.last[tested] + ridge.predict(design.loc[tested])
        wanted = (w.truth[tested] - forecast).abs().sum() / persistence
        assert found["ridge_lags", f"c{i}"] == pytest.approx(wanted, rel=1e-6)


def grown(x: pd.DataFrame, y: "pd.Series[float]") -> lightgbm.LGBMRegressor:
    """150 trees, which nothing has stopped."""
    model = lightgbm.LGBMRegressor(
        objective="l1", n_estimators=150, min_child_samples=20, n_jobs=1, seed=1, verbosity=-1
    )
    return model.fit(x, y)


def test_the_mean_leaves_out_clients_without_mase(
    measured: tuple[Loads, pd.DataFrame, list[tuple[str, int, int]]],
) -> None:
    _, found, _ = measured
    summary = summarise(found)
    assert set(summary["clients"]) == {2}
    row = summary.query("forecaster == 'P2' and model == 'local' and weeks == 2").iloc[0]
    part = found.query("forecaster == 'P2' and model == 'local' and weeks == 2 and client != 'c'")
    by_seed = part.groupby("seed")["mase"].mean()
    assert row["mase"] == pytest.approx(by_seed.mean())
    assert row["std"] == pytest.approx(by_seed.std(ddof=1))
    assert row["low"] <= row["mase"] <= row["high"]


def test_the_centralised_model_learns() -> None:
    longer = study(seeds=[1]).model_copy(
        update={"federation": study().federation.model_copy(update={"rounds": 150})}
    )
    mase = []
    for rounds in (1, 150):
        few = longer.federation.model_copy(update={"rounds": rounds})
        of = longer.model_copy(update={"federation": few})
        dataset = build(tables(14), of.windows)
        found = training._centralised(of, of.cells[0], 1, dataset, lambda t: None)
        mase.append(found["mase"].dropna().mean())
    assert mase[1] < 0.5 * mase[0]


def test_the_centralised_model_has_the_study_s_rates_and_average() -> None:
    dataset = build(tables(14), study().windows)

    def centralised(**settings: Any) -> pd.Series:
        federation = study().federation.model_copy(update={"rounds": 3, **settings})
        of = study(seeds=[1]).model_copy(update={"federation": federation})
        return training._centralised(of, of.cells[0], 1, dataset, lambda t: None)["mase"]

    plain = centralised()
    pd.testing.assert_series_equal(centralised(ema=1e-12), plain, rtol=1e-5)
    for settings in ({"ema": 0.9}, {"schedule": "cosine"}, {"clip": 1e-3}):
        assert not np.allclose(centralised(**settings), plain, rtol=1e-4, equal_nan=True)


def late_study(late: float = 0.5, simulation: Any = None, **scarcity: object) -> Study:
    one = {
        "client_opt": ["adam"],
        "server_opt": ["fedavg"],
        "sharing": ["P3"],
        "seeds": [1],
    }
    return tiny.study(
        grid=one,
        windows={"scaling": "per_client"},
        scarcity={"late": late, **scarcity},
        federation={"rounds": 2, "local_steps": 40, "simulation": simulation or {}},
    )


def calibrated(of: Study, loads: Loads) -> pd.DataFrame:
    """What late clients reach, by model, history and client."""
    found = scarcity.measure(of, loads)
    found = found[(found["forecaster"] == "calibrated") & (found["client"] != "c")]
    return found.set_index(["model", "weeks", "client"])["mase"].sort_index()


def test_every_client_is_late_once() -> None:
    loads, told = Loads(), []
    found = scarcity.measure(late_study(), loads, lambda *what: told.append(what))
    late = found[found["forecaster"] == "calibrated"]
    assert late.groupby(["model", "weeks"])["client"].apply(sorted).tolist() == [list("abc")] * 6
    assert [done for _, done, _ in told] == list(range(1, told[-1][2] + 1))
    scored = late.dropna().set_index(["model", "weeks", "client"])["mase"]
    assert (scored["local"] != scored["global"]).all(), "the heads were trained"


def test_a_late_client_finds_the_others_at_their_own_speeds() -> None:
    speeds = {"step_seconds": [1.0, 2.0, 3.0]}
    given, plain = (calibrated(late_study(simulation=s), Loads()) for s in (speeds, None))
    pd.testing.assert_series_equal(given, plain)
    assert Simulation(**speeds).of([2, 0]).step_seconds == [3.0, 1.0]


def test_a_late_client_has_its_history_and_no_more() -> None:
    """Older data of a client reach neither the federation of the others nor its own head."""
    before, after = Loads(), Loads()
    week = before(late_study(), "XX").bounds[0, 1] - WEEK // 60
    older = after.tables["a"].index[:week]
    after.tables["a"].loc[older, "load"] *= 3
    one, other = (calibrated(late_study(), loads) for loads in (before, after))
    for model in ("local", "global"):
        assert one[model, 1, "a"] == other[model, 1, "a"]
        assert one[model, 4, "a"] != other[model, 4, "a"]
    # The others of its group meet it nowhere; client b joins a federation that it was part of.
    assert one["global", 1, "b"] != other["global", 1, "b"]


def test_what_is_trained_late_is_configured() -> None:
    loads = Loads()
    scores = [
        calibrated(late_study(**chosen), loads)["local", 1, "a"]
        for chosen in ({}, {"head": "last"}, {"epochs": 3})
    ]
    assert len(set(scores)) == 3


def test_late_clients_are_in_table_figure_and_sentences() -> None:
    of = late_study()
    found = scarcity.measure(of, Loads())
    figure = draw(of, found)
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels[:3] == ["P3, local model", "centralised", "calibrated (head only)"]
    assert "calibrated (head only)" in as_text(of, found)
    told = [line for line in crossings(found) if "calibrated" in line]
    others = ("P3", "centralised", "LightGBM per client", "persistence")
    assert len(told) == len([other for other in others if other in "".join(told)]) == 4


def test_late_clients_need_scaling_of_their_own_and_others() -> None:
    one = {"client_opt": ["adam"], "server_opt": ["fedavg"]}
    pooled = tiny.study(scarcity={"late": 0.25}, grid=one)
    with pytest.raises(ConfigError, match=r"windows\.scaling: 'pooled' would tell"):
        scarcity.measure(pooled, Loads())
    alone = Loads()
    alone.tables = {"a": alone.tables["a"]}
    with pytest.raises(DataError, match=r"scarcity\.late: .* there is only one"):
        scarcity.measure(late_study(), alone)


def constructed(p1: list[float], p2: list[float], noise: float = 0.0) -> pd.DataFrame:
    random = np.random.default_rng(1)
    rows = [
        {"forecaster": name, "weeks": weeks, "client": client, "mase": value + jitter}
        for name, values in (("P1", p1), ("P2", p2))
        for weeks, value in zip((1, 2, 4, 8), values, strict=True)
        for client, jitter in zip("abcdefgh", noise * random.standard_normal(8), strict=True)
    ]
    trained = pd.DataFrame(rows).assign(model="local", seed=1)
    base = pd.DataFrame({"client": list("abcdefgh"), "mase": 1.0})
    base = base.assign(model="baseline", forecaster="persistence", weeks=np.nan, seed=np.nan)
    return pd.concat([base, trained], ignore_index=True).assign(state="XX")


def test_crossings_are_found_where_they_are() -> None:
    lines = crossings(constructed([0.5, 0.7, 0.9, 1.2], [0.8, 0.8, 0.8, 0.8]))
    # Half-way between 2 and 4 weeks on a logarithmic axis.
    assert lines[0] == (
        "XX: P1 is better than P2 up to about 2.8 weeks, P2 beyond; clearly so: P1 at 1 and 2 "
        "weeks; P2 at 4 and 8 weeks."
    )
    assert lines[2] == (
        "XX: P2 is better than persistence at every history; clearly so at 1, 2, 4 and 8 weeks."
    )


def test_several_crossings_are_told_in_order() -> None:
    lines = crossings(constructed([0.7, 0.9, 0.7, 0.7], [0.8, 0.8, 0.8, 0.8]))
    assert lines[0] == (
        "XX: P1 is better than P2 up to about 1.4 weeks, P2 up to about 2.8 weeks, P1 beyond; "
        "clearly so: P1 at 1, 4 and 8 weeks; P2 at 2 weeks."
    )


def test_federated_models_are_compared_with_lightgbm_at_every_history() -> None:
    table = constructed([0.5, 0.7, 0.9, 1.2], [0.8, 0.8, 0.8, 0.8])
    lightgbm = table[table["forecaster"] == "P2"].assign(
        forecaster="lightgbm", model="baseline", seed=np.nan
    )
    lines = crossings(pd.concat([table, lightgbm]))
    assert lines[1:3] == [
        "XX: P1 is better than LightGBM per client up to about 2.8 weeks, LightGBM per client "
        "beyond; clearly so: P1 at 1 and 2 weeks; LightGBM per client at 4 and 8 weeks.",
        "XX: P2 and LightGBM per client are equal at every history.",
    ]
    assert len(lines) == 5


def test_the_centralised_model_is_compared_with_the_pooled_lightgbm(
    measured: tuple[Loads, pd.DataFrame, list[tuple[str, int, int]]],
) -> None:
    lines = [line for line in crossings(measured[1]) if "LightGBM" in line]
    assert len(lines) == 4
    assert [("pooled" in line) == ("centralised" in line) for line in lines] == [True] * 4
    assert sum("per client" in line for line in lines) == 3


def test_a_difference_within_the_noise_is_not_called_clear() -> None:
    lines = crossings(constructed([0.8] * 4, [0.8] * 4, noise=0.2))
    assert lines[0].startswith("XX: P1 and P2 do not differ clearly at any history")
    alike = crossings(constructed([0.8] * 4, [0.8] * 4))
    assert alike[0] == "XX: P1 and P2 are equal at every history."


def test_a_diverged_cell_has_no_mean() -> None:
    table = constructed([0.5] * 4, [np.nan, 0.8, 0.8, 0.8])
    summary = summarise(table).set_index(["forecaster", "weeks"])["mase"]
    assert np.isnan(summary["P2", 1])
    assert summary["P2", 2] == pytest.approx(0.8)
    assert crossings(table)[0].endswith("one of them diverged.")


def test_the_figure_says_sample_data_and_shows_every_line(
    measured: tuple[Loads, pd.DataFrame, list[tuple[str, int, int]]],
) -> None:
    _, found, _ = measured
    figure = draw(study(), found)
    assert "sample data" in [text.get_text() for text in figure.texts]
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == [
        "P1, local model",
        "P2, local model",
        "P3, local model",
        "centralised",
        "LightGBM per client",
        "LightGBM, pooled (raw data sent)",
        "ridge per client",
        "best seasonal naive",
        "persistence",
    ]


def test_the_figure_draws_the_best_seasonal_naive_forecast(
    measured: tuple[Loads, pd.DataFrame, list[tuple[str, int, int]]],
) -> None:
    _, found, _ = measured
    (axis,) = draw(study(), found).axes
    (line,) = (line for line in axis.lines if line.get_label() == "best seasonal naive")
    naive = found[found["forecaster"].isin(["naive_day", "naive_week", "naive_mean"])]
    means = naive[naive["client"] != "c"].groupby("forecaster")["mase"].mean()
    assert set(line.get_ydata()) == {means.min()}
    assert means.nunique() == 3


def test_the_text_has_learnt_baselines_at_every_history(
    measured: tuple[Loads, pd.DataFrame, list[tuple[str, int, int]]],
) -> None:
    _, found, _ = measured
    text = as_text(study(), found)
    assert "(sample data)" in text
    assert "1 wk" in text
    (line,) = (line for line in text.splitlines() if line.startswith("LightGBM, pooled"))
    pooled = found[(found["forecaster"] == "lightgbm_pooled") & (found["client"] != "c")]
    means = pooled.groupby("weeks")["mase"].mean()
    assert line.split()[-3:] == [f"{mean:.3f}" for mean in means]
    assert "seasonal naive, mean of day and week: " in text


def test_a_grid_of_several_optimisers_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"grid\.client_opt: .* takes a single one"):
        scarcity.measure(study(client_opt=["adam", "sgd"]), Loads())


def test_too_short_a_series_is_refused() -> None:
    with pytest.raises(DataError, match=r"has 0\.9 weeks, less than the shortest history"):
        scarcity.measure(study(), Loads(days=8))


def test_loads_that_never_change_are_refused() -> None:
    loads = Loads()
    for table in loads.tables.values():
        table["load"] = 1.0
    with pytest.raises(DataError, match="so there is no MASE"):
        scarcity.measure(study(), loads)


def test_the_command_writes_table_and_figure(
    project: Path,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    raw = yaml.safe_load((project / "my.yaml").read_text())
    raw["grid"]["server_opt"] = ["fedavg"]
    (project / "my.yaml").write_text(yaml.safe_dump(raw))
    assert cli.main(["scarcity", "my.yaml"]) == 0
    said = capsys.readouterr().out
    assert "P1" in said
    assert "sample data" not in said
    table = pd.read_csv(project / "results/own/scarcity.csv", dtype={"study": str})
    of = Study.load("my.yaml")
    assert set(table["study"]) == {mark(of, marks.readings(of))}
    assert set(table["forecaster"]) >= {"P1", "P2", "P3", "centralised", "naive_week", "lightgbm"}
    for suffix in ("pdf", "png"):
        assert (project / f"figures/own/scarcity.{suffix}").stat().st_size > 1000
