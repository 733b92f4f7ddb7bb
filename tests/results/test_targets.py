"""A study of several horizons and quantiles, from its cells to tables and figures."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from plfl.data.windows import build
from plfl.report.figures import draw
from plfl.results.tables import Tables
from plfl.study import Study
from tests.helpers import tiny
from tests.results.test_collect import collected


@pytest.fixture(scope="module")
def study() -> Study:
    return tiny.study(
        windows={"horizons": 4, "look_ahead": 1, "target": "change"},
        task={"name": "quantiles", "levels": [0.1, 0.25, 0.5, 0.75, 0.9]},
        model={"name": "mlp", "hidden": [4]},
        grid={"client_opt": ["adam"], "server_opt": ["fedavg"], "sharing": ["P2", "P3"]},
    )


@pytest.fixture(scope="module")
def folder(study: Study, tmp_path_factory: pytest.TempPathFactory) -> Path:
    dataset = build(tiny.tables(rows=900), study.windows)
    return collected(study, dataset, tmp_path_factory.mktemp("results"))


def test_means_over_clients_are_in_the_summary(folder: Path) -> None:
    records = pd.read_parquet(folder / "records.parquet")
    last = records.query("split == 'test' and round == 3 and sharing == 'P2' and model == 'local'")
    row = (
        Tables(folder)
        .summary.query("sharing == 'P2' and model == 'local' and chosen == 'last'")
        .iloc[0]
    )
    for score in ("nrmse", "seasonal_mase", "crps", "scaled_crps", "coverage_80", "width_50"):
        assert row[f"{score}_mean"] == pytest.approx(last[score].mean(), rel=1e-5)
    assert row["mase_worst_tenth"] == pytest.approx(last["mase"].max(), rel=1e-5)
    assert not any("_h" in column for column in Tables(folder).summary)


def test_every_target_has_its_scores(folder: Path) -> None:
    targets = Tables(folder).targets
    assert targets is not None
    records = pd.read_parquet(folder / "records.parquet")
    last = records.query("split == 'test' and round == 3 and sharing == 'P2' and model == 'global'")
    own = targets.query("sharing == 'P2' and model == 'global'").set_index("rows_ahead")
    assert own.index.tolist() == [1, 2, 3, 4]
    for score in ("mae", "mase", "crps", "coverage_80"):
        assert own.loc[3, score] == pytest.approx(last[f"{score}_h3"].mean(), rel=1e-5)
    # All targets have equally many windows.
    assert last[[f"mae_h{row}" for row in (1, 2, 3, 4)]].mean(axis=1).to_numpy() == pytest.approx(
        last["mae"].to_numpy()
    )
    persistence = targets.query("sharing == 'baseline' and method == 'persistence'")
    np.testing.assert_allclose(persistence["mase"], 1)


def test_the_figures_show_targets_and_intervals(folder: Path) -> None:
    tables = Tables(folder)
    mase, coverage = draw("horizons", tables)["horizons"].axes
    for axis, score in ((mase, "mase"), (coverage, "coverage_80")):
        drawn = axis.lines[1].get_ydata()
        cell = tables.shown_cell("XX")
        assert tables.targets is not None
        own = tables.targets.query(f"sharing == '{cell.sharing}' and model == 'local'")
        np.testing.assert_allclose(drawn, own[score])
    (axis,) = draw("week", tables)["week"].axes
    assert len(axis.collections) == 2  # the 80 % and the 50 % interval
