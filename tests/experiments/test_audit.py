"""The walk from the authors' code to the algorithm: what each switch does, and what it does not."""

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from plfl.cli import main as cli
from plfl.config.algorithms import ServerOpts
from plfl.config.study import Study
from plfl.data.dataset import Dataset
from plfl.experiments import audit
from plfl.methods.authors_code import AuthorsCode
from plfl.results import audit as audits
from plfl.results import provenance as marks
from tests.cli.test_main import project  # noqa: F401
from tests.helpers import tiny

KEYS = ["sharing", "model"]
ONE_LOOK = {"rounds": 2, "evaluate_every": 2}


def load(study: Study, state: str) -> Dataset:
    return tiny.dataset()


@pytest.fixture(scope="module")
def told() -> list[tuple[str, int, int]]:
    return []


@pytest.fixture(scope="module")
def table(told: list[tuple[str, int, int]]) -> pd.DataFrame:
    study = tiny.study(grid={"seeds": [1, 2]}, windows={"look_ahead": 5}, federation=ONE_LOOK)
    return audit.audit(study, load, lambda *what: told.append(what))


def row(
    table: pd.DataFrame,
    step: int,
    walk: str = "algorithm",
    client_opt: str = "adam",
    server_opt: str = "fedavg",
) -> pd.DataFrame:
    wanted = {"walk": walk, "step": step, "client_opt": client_opt, "server_opt": server_opt}
    return table[(table[list(wanted)] == pd.Series(wanted)).all(axis=1)].set_index(KEYS)


def test_the_walk_turns_every_quirk() -> None:
    walk = [v.study for v in audits.variants(tiny.study()) if v.walk == "algorithm"]
    first, last = walk[0], walk[-1]
    assert first.grid.method == ["authors_code"]
    assert first.hyperparameters.method.authors_code == AuthorsCode()
    assert first.hyperparameters.server_opt.fedavg.lr == 0.01
    assert last.grid.method == ["fedopt"]
    assert last.hyperparameters.server_opt.fedavg.lr == 1.0
    turned = last.hyperparameters.method.authors_code.model_dump()
    assert not [k for k, value in AuthorsCode().model_dump().items() if turned[k] == value]
    assert last.hyperparameters.server_opt == ServerOpts()


def test_the_optimisers_of_the_configuration_are_not_taken() -> None:
    taken = {"rounds": 7, "local_steps": 2, "batch_size": 5}
    other = tiny.study(
        client_opt={"adam": {"lr": 0.05}},
        server_opt={"fedavgadaptive": {"q": 3, "beta2": 0.5}},
        federation={"participation": 0.5, "weighting": "samples", "batches": "epoch", **taken},
    )
    plain = tiny.study(federation=taken)
    assert [v.study for v in audits.variants(other)] == [v.study for v in audits.variants(plain)]


def test_one_switch_is_turned_at_a_time() -> None:
    for walk in ("algorithm", "data"):
        studies = [
            v.study.model_dump(mode="json") for v in audits.variants(tiny.study()) if v.walk == walk
        ]
        for before, after in itertools.pairwise(studies):
            changed = _changed(before, after)
            assert len(changed) == 1 or all("server_opt" in key for key in changed)


def _changed(a: dict[str, object], b: dict[str, object], path: str = "") -> list[str]:
    changed = []
    for key in a:
        x, y = a[key], b[key]
        if isinstance(x, dict) and isinstance(y, dict):
            changed += _changed(x, y, f"{path}.{key}")
        elif x != y:
            changed.append(f"{path}.{key}")
    return changed


def test_own_meters_have_no_weather_to_join() -> None:
    meters = tiny.study(data={"source": "meters"})
    assert not any("weather" in v.switch for v in audits.variants(meters))
    assert any("weather" in v.switch for v in audits.variants(tiny.study()))


def test_prox_of_the_authors_is_the_same_for_every_split(table: pd.DataFrame) -> None:
    local = row(table, 0, client_opt="prox")["mase"].xs("local", level="model")
    assert local["P1"] == local["P2"] == local["P3"]
    loaded = row(table, 1, client_opt="prox")["mase"].xs("local", level="model")
    assert loaded["P1"] != loaded["P3"]


@pytest.mark.parametrize("server_opt", ["fedavg", "fedadam", "fedavgadaptive"])
def test_without_quirks_the_program_is_the_algorithm_but_for_what_it_sends(
    table: pd.DataFrame, server_opt: str
) -> None:
    quirkless, algorithm = (row(table, step, server_opt=server_opt) for step in (6, 7))
    np.testing.assert_allclose(quirkless["mase"], algorithm["mase"], rtol=1e-4)
    width = quirkless["bytes"].loc["P1", "local"] / 2 / 8
    assert set(quirkless["bytes"]) == {2 * 8 * width}
    sent = algorithm["bytes"].xs("local", level="model")
    assert sent["P1"] == 2 * 4 * width
    assert 0 < sent["P2"] < sent["P1"]
    assert sent["P3"] == 0


def test_quirks_of_a_server_show_with_that_server_alone(table: pd.DataFrame) -> None:
    def scores(step: int, server_opt: str) -> pd.Series:
        return row(table, step, server_opt=server_opt)["mase"]

    for step, its in ((5, "fedadam"), (6, "fedavgadaptive")):
        for server_opt in ("fedavg", "fedadam", "fedavgadaptive"):
            before, after = scores(step - 1, server_opt), scores(step, server_opt)
            assert before.equals(after) == (server_opt != its)


def test_the_walks_meet(table: pd.DataFrame, told: list[tuple[str, int, int]]) -> None:
    end, start = row(table, 8), row(table, 1, "data")
    pd.testing.assert_series_equal(end["mase"], start["mase"])
    # Ten and six rows; two rounds each.
    assert [done for _, done, _ in told] == list(range(1, 16 * 2 + 1))
    assert {total for *_, total in told} == {16 * 2}


def test_scores_are_those_of_the_study(table: pd.DataFrame) -> None:
    from plfl.experiments.train import train

    study = tiny.study(
        grid={"client_opt": ["adam"], "server_opt": ["fedavg"], "seeds": [1, 2]},
        windows={"look_ahead": 5},
        federation=ONE_LOOK,
    )
    results = train(study, study.cells, tiny.dataset())
    records = pd.concat([r.records for r in results.values()])
    test = records.query("split == 'test' and model == 'global' and round == 2 and sharing == 'P2'")
    by_seed = test.groupby("seed")["mase"].mean()
    found = row(table, 8).loc[("P2", "global")]
    assert found["mase"] == pytest.approx(by_seed.mean())
    assert found["std"] == pytest.approx(by_seed.std(ddof=1))
    assert (found["seeds"], found["clients"]) == (2, 3)


def test_the_tables_in_print(table: pd.DataFrame) -> None:
    study = tiny.study(grid={"seeds": [1, 2]})
    text = audits.as_markdown(study, table)
    assert text.startswith("# Audit of tiny (sample data)\n")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == 4 * (1 + 10) + 2 * (1 + 6)
    assert {line.count("|") for line in rows} == {8}
    gone = table.assign(diverged=True)
    assert "| diverged / diverged |" in audits.as_markdown(study, gone)


def test_the_table_is_known_again_by_what_was_trained() -> None:
    mark = audits.mark(tiny.study(), [])
    same = (
        {"tracking": {"port": 6000}, "compute": {"threads": 2}},
        {"grid": {"server_opt": ["fedavg"]}, "tuning": {"search": {"server_opt.*.lr": [0.1]}}},
    )
    assert {audits.mark(tiny.study(**blocks), []) for blocks in same} == {mark}
    others = (
        {"data": {"states": ["YY"]}},
        {"data": {"sample": {"seed": 1}}},
        {"grid": {"seeds": [11]}},
        {"federation": {"rounds": 4}},
        {"windows": {"history": 3}},
    )
    assert len({mark, *(audits.mark(tiny.study(**blocks), []) for blocks in others)}) == 6


def test_the_command_writes_the_tables(
    project: Path,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["audit", "my.yaml"]) == 0
    said = capsys.readouterr().out
    assert said == (project / "results/own/audit.md").read_text()
    assert "sample data" not in said
    assert " ± " not in said
    written = pd.read_csv(project / "results/own/audit.csv", dtype={"study": str})
    assert set(written["walk"]) == {"algorithm", "data"}
    assert set(written["data"]) == {"meters"}
    study = Study.load("my.yaml")
    before = marks.readings(study)
    assert set(written["study"]) == {audits.mark(study, before)}
    with (project / "meters/a.csv").open("a") as file:
        file.write("\n")
    assert audits.mark(study, marks.readings(study)) != audits.mark(study, before)
