"""No row's bits depend on the rows beside it, whatever the processor does with a batch."""

from typing import Any

import pytest
import torch
from torch import Tensor

from plfl.data.dataset import Dataset
from plfl.interfaces.model import Model
from plfl.models.lstm_mlp_network import LstmMlpNetwork
from plfl.models.mlp import Mlp
from plfl.networks.network import ModuleNetwork, Network
from plfl.optimizers.client.adam import Adam
from plfl.training import stacked
from plfl.training.stacked import Stacked
from plfl.training.work import LocalWork
from tests.helpers.elsewhere import THERE, elsewhere
from tests.helpers.engine_cases import CPU, SMALL, make_dataset, make_task, with_covariates
from tests.helpers.modules import MODELS, MODULE_SHAPE, Convolution, model_of_class


@pytest.fixture(autouse=True)
def few_sizes() -> None:
    """All sizes, unless a test says otherwise."""


def windows(network: Network) -> Dataset:
    """Windows that the network can read."""
    found: Dataset = (
        make_dataset(network)
        if isinstance(network, LstmMlpNetwork)
        else with_covariates(MODULE_SHAPE)
    )
    return found


def work(network: Network, rows: int) -> LocalWork:
    whole: LocalWork = make_task(network, Adam(), rows=rows, steps=2, size=16, dtype=torch.float32)
    return whole


def depends_on_company(network: Network, rows: int) -> bool:
    """Whether a model has other bits when it trains beside others."""
    engine = Stacked(network, windows(network), CPU)
    whole = work(network, rows)
    losses = engine.train(whole)
    different = False
    for first, end in ((0, 1), (rows - 2, rows), (1, 9), (3, 17), (5, 37)):
        some = slice(first, end)
        fewer = work(network, rows).select(some)
        same = torch.equal(engine.train(fewer), losses[some])
        different |= not same or not torch.equal(fewer.rows, whole.rows[some])
    return different


@pytest.mark.parametrize(
    "model", [*MODELS, model_of_class(Convolution)], ids=lambda model: model.name
)
def test_no_model_depends_on_its_company(monkeypatch: pytest.MonkeyPatch, model: Model) -> None:
    monkeypatch.setattr(stacked, "STACK_SIZES", (2, 8))  # because tracing takes long
    network = model.network(MODULE_SHAPE)
    assert not depends_on_company(network, rows=20)
    engine, rows = Stacked(network, windows(network), CPU), work(network, 5).rows
    starts = [torch.arange(100)] * 5
    assert torch.equal(engine.predict(rows, starts)[0], engine.predict(rows[:1], starts[:1])[0])


class Products:
    """PyTorch's batched products as a processor could round them: batches of some size otherwise,
    or their last product."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, size: int, last: bool = False):
        self.size, self.last = size, last
        for name in ("bmm", "baddbmm"):
            monkeypatch.setattr(torch, name, self.rounding(getattr(torch, name)))

    def rounding(self, product: Any) -> Any:
        def rounded(*factors: Tensor, out: Tensor | None = None) -> Tensor:
            found: Tensor = product(*factors) if out is None else product(*factors, out=out)
            if len(found) == self.size:
                found[-1 if self.last else slice(None)] *= 1 + 2**-22
            return found

        return rounded


@pytest.mark.parametrize(
    ("size", "last"), [(11, False), (11, True), (2, False), (2, True), (8, True), (64, False)]
)
def test_a_processor_may_round_stacks_of_a_size_otherwise(monkeypatch, size, last):
    Products(monkeypatch, size, last)
    assert not depends_on_company(SMALL, rows=70)
    if size in stacked.STACK_SIZES:
        # The comparison is what notices it.
        monkeypatch.setattr(stacked, "comparable", lambda network, sizes, *_: sizes)
        assert depends_on_company(SMALL, rows=70)


def test_traced_passes_are_compared_too(monkeypatch: pytest.MonkeyPatch) -> None:
    forward = ModuleNetwork.forward_pass

    def rounded(self: ModuleNetwork, rows: Tensor, *inputs: Tensor, **options: Any) -> Any:
        forecasts, kept = forward(self, rows, *inputs, **options)
        return forecasts * (1 + 2**-22 * (len(rows) == 8)), kept

    monkeypatch.setattr(ModuleNetwork, "forward_pass", rounded)
    network = Mlp(hidden=(6,)).network(MODULE_SHAPE)
    windows = (MODULE_SHAPE.look_back, MODULE_SHAPE.inputs), (MODULE_SHAPE.covariates,)
    inputs = [torch.zeros(1, 16, *sizes) for sizes in windows]
    assert stacked.comparable(network, (2, 16), inputs, "") == (2, 16)
    assert stacked.comparable(network, (2, 8, 16), inputs, "") == (1,)


@pytest.mark.parametrize("rows", [1, 2, 3, 16, 17, 40])
def test_stacks_hold_every_row_once(rows: int) -> None:
    stacks = list(stacked.split(rows, (2, 8, 16)))
    assert [i for some, _ in stacks for i in range(rows)[some]] == list(range(rows))
    for some, size in stacks:
        held = some.stop - some.start
        assert size == next(least for least in (2, 8, 16) if least >= held)
    assert len(stacks) == -(-rows // 16)
    assert [size for _, size in stacked.split(3, stacked.ROW_BY_ROW)] == [1, 1, 1]


def test_stacks_of_large_models_are_small() -> None:
    assert stacked.sizes_for(97) == stacked.STACK_SIZES
    assert stacked.sizes_for(60_276) == (2, 8, 16)
    assert stacked.sizes_for(11_000_000) == (2,)
    assert stacked.sizes_for(60_276, THERE) == stacked.GPU_SIZES
    assert stacked.sizes_for(1_160_000, THERE) == (16,)


@pytest.mark.parametrize(("size", "left"), [(11, (2, 8, 16)), (8, (2, 16)), (16, (16,))])
def test_a_gpu_has_stacks_of_the_sizes_that_agree(monkeypatch, size, left):
    Products(monkeypatch, size)
    with elsewhere():
        inputs = [torch.zeros(1, 16, 5, 3, device=THERE), torch.zeros(1, 16, 0, device=THERE)]
        assert stacked.comparable(SMALL, (2, 8, 16), inputs, "") == left


def test_a_gpu_forecasts_windows_in_products_of_one_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacked, "STACKED_WINDOWS", 8)
    rows = work(SMALL, 4).rows
    starts = [torch.arange(n) for n in (5, 16, 1, 21)]
    expected = Stacked(SMALL, windows(SMALL), CPU).predict(rows, starts)
    read = []
    forecasts = LstmMlpNetwork.forecasts

    def noted(self: LstmMlpNetwork, rows: Tensor, sequence: Tensor, covariates: Tensor) -> Tensor:
        read.append(tuple(sequence.shape[:2]))
        return forecasts(self, rows, sequence, covariates)

    monkeypatch.setattr(LstmMlpNetwork, "forecasts", noted)
    with elsewhere():
        engine = Stacked(SMALL, windows(SMALL), THERE)
        engine.most_numbers = 3 * SMALL.layout.width
        given = [windows.to(THERE) for windows in starts]
        found = [one.cpu() for one in engine.predict(rows.to(THERE), given)]
    assert read == [(3, 8)] * 3
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_a_gpu_forecasts_gigabytes_of_windows_together() -> None:
    network = SMALL
    assert Stacked(network, windows(network), CPU).most_numbers == stacked.MOST_GPU_NUMBERS
