"""Any module as rows of a matrix: the same forecasts, gradients and initial parameters."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from plfl.base.errors import PlflError
from plfl.interfaces.model import Model
from plfl.layout import WindowShape
from plfl.networks.network import ModuleNetwork
from tests.helpers.modules import (
    MODELS,
    MODULE_SHAPE,
    Convolution,
    InPlace,
    Recurrent,
    model_of_class,
)
from tests.helpers.refusals import naming

BUILT_IN = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)


def inputs(models: int, windows: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(1)
    sequence = torch.rand(
        models, windows, MODULE_SHAPE.look_back, MODULE_SHAPE.inputs, generator=random
    )
    return sequence.to(dtype), torch.rand(models, windows, 2, generator=random).to(dtype)


def trained(network: ModuleNetwork, rows: Tensor, *given: Tensor) -> tuple[Tensor, Tensor]:
    """Forecasts, and the gradient of half the sum of their squares, as an engine gets them."""
    out = torch.empty_like(rows)
    with torch.inference_mode():
        forecasts, kept = network.forward_pass(rows, *given)
        network.backward_pass(rows, kept, forecasts, {}, out)
    return forecasts, out


class NoisyGradient(nn.Module):
    """A layer whose gradient, not its output, is random."""

    class Noisy(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def setup_context(context: Any, inputs: Any, output: Any) -> None: ...

        @staticmethod
        def backward(context: Any, slope: Tensor) -> Tensor:
            return slope + torch.randn_like(slope)

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(MODULE_SHAPE.inputs, 1)

    def forward(self, sequence: Tensor) -> Tensor:
        out: Tensor = self.Noisy.apply(self.head(sequence[:, -1]))
        return out


class Normed(nn.Module):
    """BatchNorm."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(MODULE_SHAPE.inputs)
        self.head = nn.Linear(MODULE_SHAPE.inputs, 1)

    def forward(self, sequence: Tensor) -> Tensor:
        out: Tensor = self.head(self.norm(sequence[:, -1]))
        return out


@pytest.mark.parametrize(
    "model",
    [*MODELS, *map(model_of_class, (Convolution, Recurrent, InPlace))],
    ids=lambda model: model.name,
)
def test_forecasts_and_gradients_are_those_of_the_module(model: Model) -> None:
    network = ModuleNetwork.for_model(model, MODULE_SHAPE)
    rows = torch.stack([network.initial(seed) for seed in range(3)]).double()
    given = inputs(3, 5)
    forecasts, gradients = trained(network, rows, *given)
    torch.testing.assert_close(network.forecasts(rows, *given), forecasts)
    assert_as_the_module(network, rows, given, forecasts, gradients)


def assert_as_the_module(
    network: ModuleNetwork,
    rows: Tensor,
    given: tuple[Tensor, ...],
    forecasts: Tensor,
    gradients: Tensor,
) -> None:
    """Forecasts and gradients of rows are those of PyTorch's own automatic differentiation."""
    for s, row in enumerate(rows):
        module = network.module().double()
        nn.utils.vector_to_parameters(row, module.parameters())
        expected = module(*(x[s] for x in given))
        (expected.square().sum() / 2).backward()
        torch.testing.assert_close(forecasts[s], expected.detach(), rtol=1e-10, atol=1e-12)
        grads = [p.grad.flatten() for p in module.parameters() if p.grad is not None]
        torch.testing.assert_close(gradients[s], torch.cat(grads), rtol=1e-9, atol=1e-12)


class Branching(nn.Module):
    """Control flow that depends on values, which `vmap` cannot do for many models at once."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(MODULE_SHAPE.inputs, 1)

    def forward(self, sequence: Tensor, covariates: Tensor) -> Tensor:
        out: Tensor = self.head(sequence[:, -1]).squeeze(1)
        return -out if bool((sequence > 9).any()) else out


def test_a_module_that_cannot_be_traced_trains_row_by_row() -> None:
    network = ModuleNetwork.for_model(model_of_class(Branching), MODULE_SHAPE)
    rows = torch.stack([network.initial(seed) for seed in range(3)]).double()
    given = inputs(3, 5)
    assert not network.can_stack(2, *given)
    forecasts, gradients = trained(network, rows, *given)
    assert_as_the_module(network, rows, given, forecasts, gradients)


def test_layers_that_draw_in_the_gradient_train_row_by_row() -> None:
    network = ModuleNetwork.for_model(model_of_class(NoisyGradient), MODULE_SHAPE)
    assert not network.can_stack(2, *inputs(2, 5))


def test_a_minibatch_on_which_a_module_cannot_train_is_told() -> None:
    """BatchNorm needs more than one window."""
    network = ModuleNetwork.for_model(model_of_class(Normed), MODULE_SHAPE)
    with naming(PlflError, "Normed cannot train on a minibatch of 1 windows", "batch_size"):
        trained(network, network.initial(0).double()[None], *inputs(1, 1))


@BUILT_IN
def test_initial_parameters_follow_from_the_seed_alone(model: Model) -> None:
    network = model.network(MODULE_SHAPE)
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
@pytest.mark.parametrize(
    "shape", [MODULE_SHAPE, MODULE_SHAPE._replace(covariates=0), WindowShape(1, 1)]
)
def test_built_in_models_train_on_any_window(model: Model, shape: WindowShape) -> None:
    assert model.problems(shape) == []
    layout = model.layout(shape)
    assert layout.match("body")
    assert layout.match("head")
