"""Dropout by counters: which units are dropped, in every engine, and that nothing else matters."""

import numpy as np
import pandas as pd
import pytest
import torch

from plfl.experiments.train import train
from plfl.models.dropout import Dropout
from tests.helpers import tiny
from tests.helpers.interruption import resumed

WORD = 2**32
MODEL = {"name": "mlp", "hidden": [6, 4], "dropout": 0.3}


def scrambled(x: int) -> int:
    """Wellons' lowbias32 on Python's integers."""
    x = (x ^ (x >> 16)) * 0x7FEB352D % WORD
    x = (x ^ (x >> 15)) * 0x846CA68B % WORD
    return x ^ (x >> 16)


def test_units_are_dropped_as_the_formula_says():
    dropout = Dropout(0.3, 11)
    keys = [0, 1, 2**63 + 5, 0x0123456789ABCDEF, 2**64 - 1]
    found = dropout.kept(torch.from_numpy(np.array(keys, np.uint64).view(np.int64)), 7)
    for row, key in zip(found.tolist(), keys, strict=True):
        for b, sample in enumerate(row):
            for u, factor in enumerate(sample):
                counter = (b * 0x9E3779B9 + (key >> 32)) % WORD
                dropped = scrambled(scrambled(u ^ (key % WORD)) ^ counter) < 0.3 * WORD
                assert factor == pytest.approx(0 if dropped else 1 / 0.7)


def test_units_are_dropped_independently_and_as_often_as_they_should():
    random = np.random.default_rng(0)
    keys = torch.from_numpy(random.integers(-(2**63), 2**63, 400))
    dropped = (Dropout(0.1, 60).kept(keys, 40) == 0).double()
    assert dropped.mean().item() == pytest.approx(0.1, abs=1e-3)
    assert Dropout(0.1, 60).kept(keys, 40).unique().tolist() == pytest.approx([0, 1 / 0.9])
    # Of neighbours in each of the three directions, both are dropped in a hundredth of the cases.
    for axis in range(3):
        first, second = (dropped.narrow(axis, i, dropped.shape[axis] - 1) for i in (0, 1))
        assert (first * second).mean().item() == pytest.approx(0.01, abs=1e-3)


@pytest.mark.parametrize("engine", ["auto", "stacked"])
def test_company_and_interruptions_change_no_bit(engine, tmp_path):
    grid = {"client_opt": ["adam"], "server_opt": ["fedavg"], "seeds": [1, 2]}
    study = tiny.study(model=MODEL, grid=grid, compute={"engine": engine})
    whole = resumed(study, tiny.dataset(), tmp_path, after=2)
    for cell in study.cells[::3]:
        (alone,) = train(study, [cell], tiny.dataset()).values()
        pd.testing.assert_frame_equal(alone.records, whole[cell].records)
