"""Many models of the same sizes, as the engines train them: rows in, forecasts and gradients out.

Any `nn.Module` will do. Its rows go through `torch.func.vmap` together where that gives every row
the same bits as in any other company, and one after the other where it does not.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from plfl.layout import ParameterLayout, WindowShape

log = logging.getLogger(__name__)

Named = dict[str, Tensor]
Kept = list[tuple[Named, Tensor]]
"""Parameters and forecasts of all rows together, or of each row."""


class Network(Protocol):
    """What the engines ask of a model."""

    @property
    def layout(self) -> ParameterLayout:
        """The parameters of a row, in order."""

    def initial(self, seed: int) -> Tensor:
        """Initial parameters (P,), float32."""

    def module(self) -> nn.Module:
        """One model as a module, with parameters in the order of a row."""

    def forecasts(self, rows: Tensor, sequence: Tensor, context: Tensor) -> Tensor:
        """Forecasts (S, B), in scaled units, of models `rows` (S, P).

        The windows are a `sequence` (S, B, T, F) and a `context` (S, B, G).
        """

    def forward_pass(self, rows: Tensor, sequence: Tensor, context: Tensor) -> tuple[Tensor, Any]:
        """Forecasts (S, B) as `forecasts`, and what the backward pass needs."""

    def backward_pass(
        self, rows: Tensor, kept: Any, forecast: Tensor, features: Named, out: Tensor
    ) -> None:
        """Write the gradient of a loss by `rows` into `out` (S, P).

        Args:
            rows: the models of the forward pass.
            kept: what it kept.
            forecast: gradient (S, B) of the loss by the forecasts.
            features: gradients by fields of `kept`, if the loss uses them.
            out: is overwritten.
        """


class Buildable(Protocol):
    """What is asked of a `plfl.models.Model` here."""

    def build(self, shape: WindowShape) -> nn.Module: ...
    @property
    def head_patterns(self) -> list[str]: ...
    @property
    def settings(self) -> dict[str, Any]: ...
    @property
    def summary(self) -> str: ...


def initial_of(model: Buildable, shape: WindowShape, seed: int) -> nn.Module:
    """A module whose initial parameters depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return model.build(shape)


@dataclass(frozen=True)
class ModuleNetwork:
    """A model that is any `nn.Module`."""

    model: Buildable
    shape: WindowShape
    layout: ParameterLayout
    stateless: nn.Module
    """A module whose own parameters are never used."""
    together: dict[tuple[Any, ...], bool] = field(default_factory=dict)
    """Whether rows may go through `vmap`, by size of a minibatch, type and device."""

    @classmethod
    def of(cls, model: Buildable, shape: WindowShape) -> ModuleNetwork:
        """The network of a model for windows of some shape."""
        module = initial_of(model, shape, 0)
        shapes = {name: tuple(p.shape) for name, p in module.named_parameters()}
        head = tuple(model.head_patterns) or (ParameterLayout(shapes).last,)
        return cls(model, shape, ParameterLayout(shapes, head), module)

    def module(self) -> nn.Module:
        return initial_of(self.model, self.shape, 0)

    def initial(self, seed: int) -> Tensor:
        module = initial_of(self.model, self.shape, seed)
        return nn.utils.parameters_to_vector(module.parameters()).detach().clone()

    def forecasts(self, rows: Tensor, sequence: Tensor, context: Tensor) -> Tensor:
        with torch.no_grad():
            # Row by row, so that no forecast depends on which models forecast with it.
            views = self.layout.views(rows)
            if rows.device.type == "cpu" or not self._may_stack(sequence):
                return self._one_by_one(views, sequence, context)
            return self._stack(views, sequence, context)

    def forward_pass(self, rows: Tensor, sequence: Tensor, context: Tensor) -> tuple[Tensor, Kept]:
        together = self._may_stack(sequence)
        call, parts = self._call, [*range(len(rows))]
        if together:
            call, parts = self._stack, [slice(None)]
        # Engines work in inference mode, whose tensors know no gradients.
        with torch.inference_mode(False), torch.enable_grad():
            views, given = self.layout.views(rows), (sequence.clone(), context.clone())
            kept = []
            for part in parts:
                leaves = {name: _leaf(view[part]) for name, view in views.items()}
                kept.append((leaves, call(leaves, *(x[part] for x in given))))
        found = [forecasts.detach() for _, forecasts in kept]
        return found[0] if together else torch.stack(found), kept

    def backward_pass(
        self, rows: Tensor, kept: Kept, forecast: Tensor, features: Named, out: Tensor
    ) -> None:
        leaves = [leaf for named, _ in kept for leaf in named.values()]
        forecasts = [some for _, some in kept]
        with torch.inference_mode(False):
            slopes = forecast.clone().view(len(kept), *forecasts[0].shape).unbind()
            gradients = iter(torch.autograd.grad(forecasts, leaves, slopes))
        views = self.layout.views(out)
        for s, (named, _) in enumerate(kept):
            for name in named:
                view = views[name] if len(kept) == 1 else views[name][s]
                view.copy_(next(gradients).view_as(view))

    def _call(self, parameters: Named, sequence: Tensor, context: Tensor) -> Tensor:
        forecasts: Tensor = functional_call(self.stateless, parameters, (sequence, context))
        return forecasts

    def _stack(self, parameters: Named, sequence: Tensor, context: Tensor) -> Tensor:
        return vmap(self._call)(parameters, sequence, context)

    def _one_by_one(self, parameters: Named, sequence: Tensor, context: Tensor) -> Tensor:
        rows = [
            self._call({n: p[s] for n, p in parameters.items()}, sequence[s], context[s])
            for s in range(len(sequence))
        ]
        return torch.stack(rows)

    def _may_stack(self, sequence: Tensor) -> bool:
        """Whether rows can go together: `vmap` can, and on a CPU a row's company is no matter."""
        batch, device = sequence.shape[1], sequence.device
        key = (batch, sequence.dtype, device.type)
        if key not in self.together:
            self.together[key] = self._tried(batch, sequence.dtype, device)
        return self.together[key]

    def _tried(self, batch: int, dtype: torch.dtype, device: torch.device) -> bool:
        random = torch.Generator().manual_seed(0)
        T, F, G = self.shape.look_back, self.shape.inputs, self.shape.context
        rows = torch.stack([self.initial(seed) for seed in range(ROWS)]).to(device, dtype)
        size = (ROWS, batch)
        sequence = torch.rand(*size, T, F, generator=random).to(device, dtype)
        context = torch.rand(*size, G, generator=random).to(device, dtype)

        def gradients(some: slice, call: Callable[[Named, Tensor, Tensor], Tensor]) -> Tensor:
            leaf = rows[some].clone().requires_grad_()
            forecasts = call(self.layout.views(leaf), sequence[some], context[some])
            (found,) = torch.autograd.grad(forecasts.square().sum(), leaf)
            return torch.cat([forecasts.detach(), found], 1)

        try:
            whole = gradients(slice(None), self._stack)
        except RuntimeError as error:
            reason = str(error).split("\n")[0]
            log.info("%s: rows train one after the other: %s", self.model.summary, reason)
            return False
        if device.type != "cpu":
            return True
        parts = (slice(*edges) for edges in COMPANY)
        same = all(torch.equal(gradients(part, self._stack), whole[part]) for part in parts)
        if not same:
            log.info("%s: rows train one after the other, for the same bits", self.model.summary)
        return same


def _leaf(values: Tensor) -> Tensor:
    """A tensor whose gradient is asked for; not a copy, unless it was made in inference mode."""
    return (values.clone() if values.is_inference() else values.detach()).requires_grad_()


ROWS = 12
"""Rows that are tried together."""
COMPANY = ((0, 2), (1, 4), (2, 7), (5, 12), (3, 12), (1, 12))
"""Parts of these rows that are tried by themselves. A single row trains beside a copy of itself."""
