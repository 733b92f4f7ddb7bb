"""What fits into the memory of a GPU, here a pretended one, decides what trains together."""

import pandas as pd
import pytest
import torch

from plfl.base.errors import PlflError
from plfl.experiments import training_setup
from plfl.experiments.train import train
from plfl.training.gpu import Memory
from plfl.training.stacked import Stack, Stacked
from tests.helpers import tiny
from tests.helpers.engine_cases import CPU, OPTIMISERS, SMALL, make_dataset, make_task


class Pretended(Memory):
    """A memory of which each model takes ten bytes while it trains."""

    def __init__(self, monkeypatch, total):
        super().__init__(CPU)
        self.total, self.asked, take_step = total, [], Stack.take_step

        def noted(stack):
            self.asked.append(len(stack.y))
            if 10 * self.asked[-1] > total:
                raise torch.OutOfMemoryError
            take_step(stack)

        monkeypatch.setattr(Stack, "take_step", noted)

    def free_bytes(self):
        return self.total

    def bytes_taken(self, work):
        work()
        return 10 * self.asked[-1]


@pytest.mark.parametrize(
    ("total", "sizes", "block"), [(1000, (2, 8, 16), 64), (250, (2, 8), 8), (50, (2,), 2)]
)
def test_a_block_is_what_fits_and_bits_do_not_depend_on_it(
    monkeypatch, caplog, total, sizes, block
):
    whole = make_task(SMALL, OPTIMISERS[0], rows=21, dtype=torch.float32)
    some = whole.select(torch.arange(21))
    plain, engine = (Stacked(SMALL, make_dataset(SMALL), CPU) for _ in range(2))
    plain.sizes = engine.sizes = (2, 8, 16)
    engine.memory = Pretended(monkeypatch, total)
    with caplog.at_level("INFO"):
        assert engine.most_models(lambda: some.select(slice(1))) == block
    assert f"{block} models fit" in caplog.text
    asked = len(engine.memory.asked)
    assert torch.equal(engine.train(some), plain.train(whole))
    assert torch.equal(some.rows, whole.rows)
    assert engine.stack_sizes(some) == sizes
    assert len(engine.memory.asked) == asked, "once for each form of tasks"
    engine.memory = Pretended(monkeypatch, 10)
    with pytest.raises(PlflError, match="does not fit into the memory of the GPU"):
        engine.train(some)


def test_a_study_trains_in_blocks_that_fit(monkeypatch):
    methods = ["fedopt", "scaffold", "ditto", "fedrep", "moon"]
    optimisers = {"client_opt": ["adam"], "server_opt": ["fedavg"]}
    study = tiny.study(grid=optimisers | {"sharing": ["P2"], "method": methods, "refused": "skip"})

    def trained(memory):
        def engine(_, *given):
            engine = Stacked(*given, CPU)
            engine.memory = memory
            return engine

        monkeypatch.setattr(training_setup, "make_engine", engine)
        return train(study, study.cells, tiny.dataset())

    small = Pretended(monkeypatch, 50)
    for one, other in zip(trained(small).values(), trained(None).values(), strict=True):
        pd.testing.assert_frame_equal(one.records, other.records, check_exact=True)
    assert set(small.asked) == {2, 8}
