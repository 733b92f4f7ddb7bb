"""The same study gives the same bits on any number of cores, and near ones with another engine."""

import pandas as pd
import pytest
import torch

from plfl.experiments.train import train
from plfl.study import Study
from plfl.training.engines import choose_engine
from tests.helpers import tiny

DATASET = tiny.dataset()
ENGINES = ["fused", "stacked"]
"""`reference` is an oracle, and slow."""


def study(engine: str, threads: int) -> Study:
    """With the paper's model: smaller matrices are never shared out between cores."""
    return tiny.study(
        model={"hidden": 25, "mlp": [150, 75]},
        grid={"sharing": ["P2"], "client_opt": ["adam"], "server_opt": ["fedyogi"]},
        federation={"rounds": 1, "local_steps": 2, "batch_size": 64},
        compute={"device": "cpu", "engine": engine, "threads": threads},
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_one_core_and_two_give_the_same_bits(engine: str) -> None:
    one = study(engine, 1)
    if choose_engine(one.compute, one.model.kernel_form)[0] != engine:
        pytest.skip("this engine does not run here")
    before = torch.get_num_threads()
    try:
        one, two = (train(s, s.cells, DATASET) for s in (study(engine, 1), study(engine, 2)))
    finally:
        torch.set_num_threads(before)
    for cell, result in one.items():
        pd.testing.assert_frame_equal(result.records, two[cell].records, check_exact=True)
        pd.testing.assert_frame_equal(result.forecasts, two[cell].forecasts, check_exact=True)
