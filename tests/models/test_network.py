"""Any module as rows of a matrix: the same forecasts, gradients and initial parameters."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from plfl.config.model_rules import DEFAULT, OWN, available
from plfl.layout import WindowShape
from plfl.models import Model
from plfl.models.network import ModuleNetwork

SHAPE = WindowShape(inputs=3, look_back=6, context=2)
MODELS: list[Any] = [cls() for name, cls in available().items() if name not in (DEFAULT, OWN)]
BUILT_IN = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)


class Convolution(nn.Module):
    """What `vmap` turns into a grouped convolution, whose bits depend on the number of groups."""

    def __init__(self) -> None:
        super().__init__()
        self.read = nn.Conv1d(SHAPE.inputs, 8, 3)
        self.head = nn.Linear(32, 1)

    def forward(self, sequence: Tensor, context: Tensor) -> Tensor:
        out: Tensor = self.head(torch.relu(self.read(sequence.mT)).flatten(1))
        return out.squeeze(1)


class Recurrent(nn.Module):
    """What `vmap` has no rule for."""

    def __init__(self) -> None:
        super().__init__()
        self.read = nn.GRU(SHAPE.inputs, 4, batch_first=True)
        self.head = nn.Linear(4, 1)

    def forward(self, sequence: Tensor, context: Tensor) -> Tensor:
        out: Tensor = self.head(self.read(sequence)[0][:, -1])
        return out.squeeze(1)


def of_class(module: type[nn.Module]) -> Model:
    class Given(Model):
        name = module.__name__

        def build(self, shape: WindowShape) -> nn.Module:
            return module()

    return Given()


def inputs(models: int, windows: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(1)
    sequence = torch.rand(models, windows, SHAPE.look_back, SHAPE.inputs, generator=random)
    return sequence.to(dtype), torch.rand(models, windows, 2, generator=random).to(dtype)


def trained(network: ModuleNetwork, rows: Tensor, *given: Tensor) -> tuple[Tensor, Tensor]:
    """Forecasts, and the gradient of half the sum of their squares, as an engine gets them."""
    out = torch.empty_like(rows)
    with torch.inference_mode():
        forecasts, kept = network.forward_pass(rows, *given)
        network.backward_pass(rows, kept, forecasts, {}, out)
    return forecasts, out


@pytest.mark.parametrize("model", [*MODELS, of_class(Convolution), of_class(Recurrent)], ids=str)
def test_forecasts_and_gradients_are_those_of_the_module(model: Model) -> None:
    network = ModuleNetwork.of(model, SHAPE)
    rows = torch.stack([network.initial(seed) for seed in range(3)]).double()
    given = inputs(3, 5)
    forecasts, gradients = trained(network, rows, *given)
    torch.testing.assert_close(network.forecasts(rows, *given), forecasts)
    for s, row in enumerate(rows):
        module = network.module().double()
        nn.utils.vector_to_parameters(row, module.parameters())
        expected = module(*(x[s] for x in given))
        (expected.square().sum() / 2).backward()
        torch.testing.assert_close(forecasts[s], expected.detach(), rtol=1e-10, atol=1e-12)
        grads = [p.grad.flatten() for p in module.parameters() if p.grad is not None]
        torch.testing.assert_close(gradients[s], torch.cat(grads), rtol=1e-9, atol=1e-12)


@BUILT_IN
def test_built_in_models_go_through_vmap_whatever_the_company(model: Model) -> None:
    network = ModuleNetwork.of(model, SHAPE)
    rows = torch.stack([network.initial(seed) for seed in range(9)])
    given = inputs(9, 16, torch.float32)
    assert network._may_stack(given[0])
    whole = trained(network, rows, *given)
    for part in (slice(0, 2), slice(3, 6), slice(4, 9)):
        some = trained(network, rows[part], *(x[part] for x in given))
        assert all(torch.equal(a, b[part]) for a, b in zip(some, whole, strict=True))


@pytest.mark.parametrize("module", [Convolution, Recurrent])
def test_others_train_row_by_row(module: type[nn.Module], caplog: pytest.LogCaptureFixture) -> None:
    network = ModuleNetwork.of(of_class(module), SHAPE)
    with caplog.at_level("INFO"):
        assert not network._may_stack(inputs(2, 16, torch.float32)[0])
    assert f"{module.__name__}: rows train one after the other" in caplog.text


@BUILT_IN
def test_initial_parameters_follow_from_the_seed_alone(model: Model) -> None:
    network = model.network(SHAPE)
    torch.manual_seed(0)
    first = network.initial(10)
    undisturbed = torch.rand(3)
    torch.manual_seed(1)
    assert torch.equal(network.initial(10), first)
    assert not torch.equal(network.initial(11), first)
    torch.manual_seed(0)
    assert torch.equal(torch.rand(3), undisturbed), "others' random numbers stay as they were"
    assert first.shape == (network.layout.width,)
    assert first.dtype == torch.float32


@BUILT_IN
def test_names_are_those_of_the_module(model: Model) -> None:
    network = model.network(SHAPE)
    module = network.module()
    assert network.layout.names == [name for name, _ in module.named_parameters()]
    row = torch.arange(float(network.layout.width))
    nn.utils.vector_to_parameters(row, module.parameters())
    for name, parameter in module.named_parameters():
        assert torch.equal(network.layout.views(row[None])[name][0], parameter)


@BUILT_IN
@pytest.mark.parametrize("shape", [SHAPE, SHAPE._replace(context=0), WindowShape(1, 1)])
def test_built_in_models_train_on_any_window(model: Model, shape: WindowShape) -> None:
    assert model.problems(shape) == []
    layout = model.layout(shape)
    assert layout.matching("body")
    assert layout.matching("head")
