"""Covariates and targets that are computed when they are read are those of the series."""

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from plfl.config.windows import Windows
from plfl.data import covariates
from plfl.data.computed import ComputedRows, compute_targets
from plfl.data.dataset import SPLITS, Dataset, source_table
from plfl.data.windows import build
from plfl.models.mlp import Mlp
from plfl.optimizers.client.adam import Adam
from plfl.training.fused import Fused
from plfl.training.stacked import Stacked
from plfl.training.work import Minibatches
from tests.helpers.engine_cases import CPU, make_task
from tests.helpers.meter_models import RECIPE
from tests.helpers.tasks import changed
from tests.helpers.tiny import tables


def windows(horizons: int = 3, **others: object) -> Windows:
    return Windows.model_validate(
        {"look_back": 4, "look_ahead": 1, "horizons": horizons, **RECIPE, **others}
    )


def readings() -> dict[str, pd.DataFrame]:
    """Three meters, of which one has a gap."""
    meters = tables(3, 96 * 30)
    meters["b"].iloc[700:703, 0] = np.nan
    return meters


@pytest.fixture(params=[1, 3])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Dataset, Dataset]:
    """A dataset in memory, and from a file, where clients also know a shorter and a longer past."""
    settings = windows(request.param, split=(0.8, 0.0, 0.2), history=2)
    built = build(readings(), settings, new_weeks=1)
    build(readings(), settings, new_weeks=1, folder=tmp_path).save(tmp_path / "file")
    return built, Dataset.load_file(tmp_path / "file")


def test_a_file_gives_what_was_built(pair: tuple[Dataset, Dataset], tmp_path: Path) -> None:
    built, read = pair
    assert {*built.views} == {"usual", "whole", "new"}
    for stored, table in ((built.covariates, read.covariates), (built.targets, read.targets)):
        assert isinstance(stored, np.ndarray) and isinstance(table, ComputedRows)
        assert table.shape == stored.shape and table.nbytes == stored.nbytes
        np.testing.assert_array_equal(table[:], stored)
        rows = np.array([[900, 3], [2, len(stored) - 1]])
        np.testing.assert_array_equal(table[rows], stored[rows])
        assert table[np.empty(0, np.int64)].shape == (0, *stored.shape[1:])
    is_missing = np.isnan(built.targets).reshape(len(built.load), -1).any(axis=1)
    assert is_missing.any()
    for client, split in product(range(3), SPLITS):
        starts = built.starts(client, split)
        np.testing.assert_array_equal(read.starts(client, split), starts)
        assert not is_missing[starts + 3].any(), "3 rows after the first is the last input row"
    for split in SPLITS:
        for client in range(3):
            for view in built.views:
                wanted = built.with_view(view).starts(client, split)
                np.testing.assert_array_equal(read.with_view(view).starts(client, split), wanted)
    if built.horizons > 1:
        assert isinstance(built.targets, np.ndarray)
        second = read.select_target(1)
        np.testing.assert_array_equal(np.asarray(second.targets), built.targets[:, 1])
        assert isinstance(read.targets, ComputedRows) and source_table(second) is None
    # Four numbers of a row are stored: load, scaled load and temperature, and stamp.
    numbers = built.covariates.shape[1] + built.horizons
    assert (
        (tmp_path / "file").stat().st_size
        < 30 * len(built.load) + 20_000
        < 4 * numbers * len(built.load)
    )


def test_each_part_is_computed_from_its_own_training_set(pair: tuple[Dataset, Dataset]) -> None:
    built, read = pair
    table = source_table(read)
    assert table is not None and len(table.bounds) == 9  # three clients with three views each
    for part, (first, _, end) in enumerate(table.bounds.tolist()):
        series = table.series(part)
        assert series.scale in built.views["usual"].scale or part % 3
        own = covariates.compute(series, covariates.estimate(series))
        np.testing.assert_array_equal(own, built.covariates[first:end])
        np.testing.assert_array_equal(compute_targets(series), built.targets[first:end])


def test_what_takes_the_place_of_computed_rows_is_stored(tmp_path: Path) -> None:
    built = build(readings(), windows())
    other = np.zeros_like(np.asarray(built.targets))
    changed = built.copy_on_rows(targets=other)
    assert source_table(built) is not None and source_table(changed) is None
    changed.save(tmp_path / "changed")
    read = Dataset.load_file(tmp_path / "changed")
    np.testing.assert_array_equal(np.asarray(read.targets), other)
    np.testing.assert_array_equal(np.asarray(read.covariates), np.asarray(built.covariates))


@pytest.mark.parametrize("engine", [Fused, Stacked])
def test_engines_compute_rows_that_are_too_many_to_keep(
    engine: type[Fused] | type[Stacked], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the same bits."""
    settings = windows()
    built = build(readings(), settings)
    built.save(tmp_path / "file")
    read = Dataset.load_file(tmp_path / "file")
    network = Mlp(hidden=(6,)).network(built.shape._replace(outputs=3))
    starts = [torch.from_numpy(built.starts(i, "train")) for i in range(3)]
    minibatches = torch.stack([windows[:96] for windows in starts]).view(3, 6, 16)
    results = []
    for dataset, most in ((built, 2**30), (read, 2**30), (read, 0)):
        monkeypatch.setattr("plfl.data.computed.MOST_BYTES_IN_MEMORY", most)
        task = make_task(network, Adam(), rows=3, dtype=torch.float32)
        task = changed(task, minibatches=Minibatches(minibatches))
        setup = engine(network, dataset, CPU)
        setup.train(task)
        forecasts = setup.predict(task.rows, starts)
        results.append((task.rows, torch.cat(forecasts)))
    for rows, forecasts in results[1:]:
        assert torch.equal(rows, results[0][0]) and torch.equal(forecasts, results[0][1])
