"""Updates of the real round reveal what they should, and protections what they promise."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.privacy import leakage as module
from benchmarks.privacy.leakage import OCCUPANCY, OTHER, OWN, SENDER, STUDY, attacked, leakage
from plfl.base.errors import ConfigError
from plfl.data.windows import build
from tests.helpers import tiny

GRID = {"sharing": ["P2"], "client_opt": ["adam"], "server_opt": ["fedavg"], "seeds": [1]}


def of(privacy=None, seeds=1, **blocks):
    blocks = {"federation": {"rounds": 2, "local_steps": 40}, "grid": GRID} | blocks
    study = tiny.study(**blocks)
    cells = attacked(study, study.cells[0], privacy or {}, seeds)
    return leakage(cells, build(differing(5, 3000), study.windows))


def differing(clients, rows):
    """Series of clients that have cycles of their own beside the daily one."""
    tables = tiny.tables(clients, rows)
    for i, table in enumerate(tables.values(), 2):
        table["load"] += np.sin(i * np.arange(rows) / 96 * 2 * np.pi)
    return tables


@pytest.fixture(scope="module")
def found() -> pd.DataFrame:
    return of({"clip": 1.0, "noise": 1e4}, seeds=2)


def mean(found: pd.DataFrame, question: str, protection: str) -> float:
    rows = found[(found["question"] == question) & (found["protection"] == protection)]
    assert len(rows) == 2
    return float(rows["value"].mean())


def test_a_row_per_question_protection_and_seed(found):
    questions = [OWN, OTHER, STUDY, SENDER, *OCCUPANCY]
    names = ["nothing", "ef21+q3", "clip 1", "clip 1, noise 10000"]
    keys = pd.MultiIndex.from_product([questions, names, [1, 2]])
    assert set(found[["question", "protection", "seed"]].itertuples(index=False)) == set(keys)
    assert found["value"].between(0, 1).all()
    chance = found.set_index("question")["chance"]
    assert chance[SENDER].eq(1 / 5).all()
    assert chance.drop(SENDER).eq(1 / 2).all()


def test_one_step_betrays_its_windows_to_those_who_know_the_personal_parameters(found):
    assert mean(found, OWN, "nothing") > 0.8
    assert mean(found, OTHER, "nothing") < mean(found, OWN, "nothing") - 0.2
    assert mean(found, STUDY, "nothing") == pytest.approx(0.5, abs=0.1)


def test_updates_betray_sender_and_time_of_day(found):
    assert mean(found, SENDER, "nothing") > 0.6
    night = list(OCCUPANCY)[1]
    assert mean(found, night, "nothing") > 0.65
    assert mean(found, night, "ef21+q3") > 0.6


def test_large_noise_hides_everything(found):
    noise = "clip 1, noise 10000"
    assert mean(found, SENDER, noise) == pytest.approx(1 / 5, abs=0.15)
    for question in (OWN, OTHER, STUDY, *OCCUPANCY):
        assert mean(found, question, noise) == pytest.approx(0.5, abs=0.2)


def test_the_windows_are_those_of_the_kind():
    dataset = tiny.dataset(2, 3000)
    hours = pd.DatetimeIndex(dataset.stamps).hour
    only = module.select_windows(dataset, np.stack([hours < 6, hours >= 6]))
    for client, is_night in ((0, True), (1, False)):
        starts = only.starts(client, "train")
        assert len(starts) > 100
        assert ((hours[only.persistence_rows(starts)] < 6) == is_night).all()


@pytest.mark.parametrize(
    ("grid", "named"),
    [({"sharing": ["P3"]}, "P3"), ({"method": ["scaffold"], "client_opt": ["sgd"]}, "scaffold")],
)
def test_cells_that_send_no_update_or_more_are_refused(grid, named):
    with pytest.raises(ConfigError, match=named):
        of(grid=GRID | grid)


def test_the_program_prints_and_writes_a_table(here, capsys):
    (here / "my.yaml").write_text(
        "name: my\n"
        "data: {source: sample, states: [NY], clients: 3}\n"
        "model: {hidden: 3, mlp: [4]}\n"
        "federation: {local_steps: 2}\n"
        "grid: {sharing: [P3, P2], client_opt: [adam], server_opt: [fedavg]}\n"
    )
    module.main(["my.yaml", "--seeds", "1"])
    said = capsys.readouterr().out
    table = pd.read_csv(here / "results/my/leakage.csv")
    assert set(table["protection"]) == {"nothing", "ef21+q3"}
    for question, row in table.set_index("question").iterrows():
        assert question in said
        assert f"{row['value']:.2f}" in said
    with pytest.raises(ConfigError, match="shares parameters"):
        module.main(["my.yaml", "--cell", "NY-P3-fedopt-adam-fedavg-10"])
