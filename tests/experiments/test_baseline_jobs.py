"""The baselines of a state by jobs are those of one job, byte for byte."""

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from plfl.baselines.lightgbm_stacked import LightgbmStacked
from plfl.baselines.ridge import Ridge
from plfl.data.dataset import Dataset
from plfl.experiments.baseline_jobs import (
    CommonFiles,
    evaluate_all,
    join_files,
    write_common,
    write_group,
)
from plfl.experiments.client_groups import count_groups, groups_of
from plfl.interfaces.baseline import FittedBaseline
from plfl.results.records import BaselineFiles, BaselineTables
from plfl.study import Study
from tests.helpers import tiny
from tests.helpers.kept_baselines import FURTHER_BASELINES

FURTHER = [*FURTHER_BASELINES, {"name": "combined_pooled", "of": ["naive_day", "lightgbm_pooled"]}]
FILES = ("scores", "forecasts", "errors", "fitted")


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """The three clients are two groups."""
    monkeypatch.setattr("plfl.experiments.client_groups.LARGEST_GROUP", 2)


def study(**blocks: Any) -> Study:
    return tiny.study(baselines={"trees": 4, "further": FURTHER}, **blocks)


def run_jobs(of: Study, folder: Path) -> BaselineTables:
    """The results of all jobs."""
    file = folder / "dataset"
    tiny.dataset().save(file)
    common = CommonFiles(folder / "common.npz", folder / "common")
    write_common(of, Dataset.load_file(file), common)
    parts = []
    for k in range(1, count_groups(of, "XX") + 1):
        parts.append(BaselineFiles(*(folder / f"{k}-{name}" for name in FILES)))
        write_group(of, "XX", Dataset.load_file(file), k, common.forecasts, parts[-1])
    return join_files(of, "XX", file, parts, common.models)


def assert_equal(found: BaselineTables, wanted: BaselineTables, folder: Path) -> None:
    """The same files, but for totals, whose sums have another order."""
    sides = [BaselineFiles(*(folder / f"{name}{k}" for name in FILES)) for k in range(2)]
    for tables, files in zip((found, wanted), sides, strict=True):
        replace(tables, totals=None).write(files)
    for own, other in zip(*sides, strict=True):
        assert own.read_bytes() == other.read_bytes(), own.name


@pytest.mark.parametrize("blocks", [{}, {"task": {"name": "quantiles", "conformal": "personal"}}])
def test_jobs_write_the_same_bytes(blocks: dict[str, Any], tmp_path: Path) -> None:
    own_study = study(**blocks)
    assert [len(group) for group in groups_of(own_study, "XX")] == [2, 1]
    found = run_jobs(own_study, tmp_path)
    assert_equal(found, evaluate_all(own_study, "XX", tmp_path / "dataset"), tmp_path)
    assert found.totals is not None and found.totals.clients.max() == 3


@pytest.mark.parametrize("failing", ["c", ""])
def test_a_baseline_that_fails_fails_for_all(
    failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one group, or in the job of those that need all clients."""
    fits = Ridge.fit

    def fit(self: Ridge, dataset: Dataset, *others: Any) -> FittedBaseline:
        if failing in dataset.clients or not failing:
            raise RuntimeError("broken")
        return fits(self, dataset, *others)

    monkeypatch.setattr(Ridge, "fit", fit)
    own_study = study()
    scores = run_jobs(own_study, tmp_path).scores.set_index("baseline")
    assert set(scores.loc["ridge", "failed"]) == {"RuntimeError: broken"}
    lacking = "RuntimeError: there are no forecasts of ridge"
    assert set(scores.loc["combined_received", "failed"]) == {lacking}


class Reader(LightgbmStacked):
    """Trained on forecasts of received models by each client."""

    name: ClassVar[str] = "reader"
    fits_each_client: ClassVar[bool | None] = True


def test_what_reads_more_than_evaluated_windows_is_evaluated_in_one_job() -> None:
    own_study = study()
    assert count_groups(own_study, "XX") == 2
    further = [*own_study.baselines.further, Reader(models=2, of=["lightgbm_federated"])]
    keys = own_study.baselines.model_copy(update={"further": further})
    assert count_groups(own_study.model_copy(update={"baselines": keys}), "XX") == 1
