"""Steps by which clients adapt models to their own data outside of the rounds; nothing is sent."""

from dataclasses import replace

import torch
from torch import Tensor

from plfl.federated.client_data import ClientData, Passes
from plfl.optimizers.client import ClientOpt
from plfl.tasks import Term
from plfl.training.task import Minibatches, Terms


def adapted(
    models: Tensor,
    client_data: ClientData,
    optimiser: ClientOpt,
    passes: Passes,
    *,
    frozen: Tensor | None = None,
    pull: Tensor | None = None,
    term: Term | None = None,
    targets: Tensor | None = None,
) -> Tensor:
    """The models (N, P) after passes of each client over its own training windows.

    Args:
        models: one per client; they are not modified.
        client_data: the clients' data, and the engine that trains.
        optimiser: the ClientOpt, with fresh state; its own proximal term is ignored.
        passes: the minibatches of the N clients.
        frozen: mask (P,) of parameters that stay as they are.
        pull: strength (P,) of a pull towards `models`.
        term: what changes the loss.
        targets: (N, K, B, ...) to train on instead of the clients' own, as `term` needs them.
    """
    trained = models.clone()
    if not passes.steps.any():
        return trained
    nothing = torch.zeros(models.shape[1], dtype=torch.bool, device=models.device)
    minibatches = Minibatches(passes.starts, passes.keys, targets)
    task = client_data.task_of(optimiser, trained, minibatches, nothing, term)
    task = replace(task, steps=passes.steps, terms=Terms(pull=pull, frozen=frozen))
    client_data.engine.train(task)
    return trained


def fine_tuned(
    models: Tensor,
    client_data: ClientData,
    optimiser: ClientOpt,
    epochs: float,
    *,
    purpose: str = "fine_tuning",
    frozen: Tensor | None = None,
    most_steps: int | None = None,
) -> Tensor:
    """The models (N, P) after E `epochs` of each client over its own training windows; see
    `adapted`.

    `purpose`: name of the random stream of the minibatches; `most_steps`: steps after which a
    client stops, even within a pass.
    """
    if not epochs or most_steps == 0:
        return models.clone()
    everyone = torch.arange(len(models), device=models.device)
    passes = client_data.passes(purpose, everyone, epochs, most_steps)
    return adapted(models, client_data, optimiser, passes, frozen=frozen)
