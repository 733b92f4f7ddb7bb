"""Calibration adapts the global model to each client after federated learning. The client trains
the head of the model on its own data for a few epochs while the body stays frozen; nothing is sent.

Source: Emre Ozfatura, Kerem Ozfatura and Deniz Gündüz, "FedADC: Accelerated Federated Learning with
Drift Control", 2021, https://arxiv.org/abs/2012.09102, section IV-D.

θ are the parameters of the head, θ_T their values in the global model. The loss is one of:

- `plain`: the loss of the local steps
- `prox`: the same + μ/2 ‖θ − θ_T‖²
- `kd`: the loss of FedADC+ with the global model as the teacher (see `fedadc_plus`)

The key `federation.calibration` switches it on.
"""

from typing import Literal

import torch
from torch import Tensor

from plfl.federated.adaptation import adapted
from plfl.federated.client_data import ClientData
from plfl.layout import Head, head_mask
from plfl.optimizers.client import ClientOpt
from plfl.tasks import CorrectedDistillation

__all__ = ["Head", "calibrate", "head_mask"]
Variant = Literal["plain", "prox", "kd"]


def calibrate(
    models: Tensor,
    client_data: ClientData,
    head: Tensor,
    optimiser: ClientOpt,
    *,
    epochs: int = 2,
    most_steps: int | None = None,
    variant: Variant = "plain",
    mu: float = 0.1,
    lam: float = 0.35,
    bins: int = 10,
    temperature: float = 1.0,
) -> Tensor:
    """Train only the head of each client's model; return the resulting models (N, P).

    Args:
        models: global models (N, P), one per client; they are not modified.
        client_data: the clients' data, and the engine that trains.
        head: mask (P,) of the parameters that are trained.
        optimiser: the ClientOpt, with fresh state; its own proximal term is ignored.
        epochs: E, passes over a client's training windows (the paper: 2). Windows that do not fill
            a minibatch at the end of a pass are left out of that pass.
        most_steps: Steps after which a client stops, even within a pass.
        variant: The loss: plain, with a proximal term, or with a teacher.
        mu: μ of `prox`; no default in the source. Above 1 / lr it makes SGD oscillate.
        lam: λ of `kd` (the paper: 0.35).
        bins: Number of quantile bins of a load, for `kd`; labels need none.
        temperature: Temperature τ of a classifier's `kd`.

    Raises:
        ValueError: `kd` with another loss than the squared error.
    """
    refused = client_data.task.refuses_teacher(client_data.settings.loss)
    if variant == "kd" and refused:
        raise ValueError(f"kd {refused}")
    if epochs == 0:
        return models.clone()
    everyone = torch.arange(len(models), device=models.device)
    starts, steps = client_data.passes("calibration", everyone, epochs, most_steps)
    term = targets = None
    if variant == "kd":
        term = CorrectedDistillation(lam, *client_data.agreed_bins(bins), temperature)
        targets = _taught(models, client_data, starts, term)
    return adapted(
        models,
        client_data,
        optimiser,
        starts,
        steps,
        frozen=~head,
        pull=mu * head.to(models.dtype) if variant == "prox" else None,
        term=term,
        targets=targets,
        keys=client_data.keys_of_passes("calibration", everyone, starts.shape[1]),
    )


def _taught(
    models: Tensor, client_data: ClientData, starts: Tensor, term: CorrectedDistillation
) -> Tensor:
    """Targets (N, K, B, ...) of FedADC+'s loss, with the models as their own teachers."""
    clients = torch.arange(len(models), device=models.device)
    # Several passes read the same windows, which the teacher sees once.
    windows, places = zip(*(own.unique(return_inverse=True) for own in starts), strict=True)
    outputs = client_data.engine.predict(models, list(windows))
    taught = torch.stack([of[place] for of, place in zip(outputs, places, strict=True)])
    return client_data.task.taught(term, taught, client_data.targets(starts), clients)
