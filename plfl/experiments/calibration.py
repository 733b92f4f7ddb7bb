"""Calibration adapts the global model to each client after federated learning. The client trains
the head of the model on its own data for a few epochs while the body stays frozen; nothing is sent.

Source: Emre Ozfatura, Kerem Ozfatura and Deniz Gündüz, "FedADC: Accelerated Federated Learning with
Drift Control", 2021, https://arxiv.org/abs/2012.09102, section IV-D.

ŷ_T is the forecast of the global model, θ are the parameters of the head, θ_T their values in the
global model. The loss is one of:

- `plain`: (ŷ − y)², or the study's own loss
- `prox`: the same + μ/2 ‖θ − θ_T‖²
- `kd`: the loss of FedADC+ with ŷ_T as the teacher, adapted to forecasting (see `fedadc_plus`)
"""

from typing import Literal

import torch
from torch import Tensor

from plfl.federated.adaptation import adapted
from plfl.federated.client_data import ClientData
from plfl.layout import Head, head_mask
from plfl.methods.fedadc_plus import agreed_bins
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
        bins: Number of quantile bins of the target, for `kd`.

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
    return adapted(
        models,
        client_data,
        optimiser,
        starts,
        steps,
        frozen=~head,
        pull=mu * head.to(models.dtype) if variant == "prox" else None,
        targets=_taught(models, client_data, starts, lam, bins) if variant == "kd" else None,
    )


def _taught(
    models: Tensor, client_data: ClientData, starts: Tensor, lam: float, bins: int
) -> Tensor:
    """Targets (N, K, B) of FedADC+'s loss, with the models as their own teachers."""
    clients = torch.arange(len(models), device=models.device)
    all_starts = [
        torch.from_numpy(client_data.dataset.starts(i, "train")) for i in clients.tolist()
    ]
    forecasts = client_data.engine.predict(models, [s.to(models.device) for s in all_starts])
    # Start rows are ascending, and not consecutive where windows touch a gap.
    taught = [
        f[torch.searchsorted(s.to(own), own)]
        for f, own, s in zip(forecasts, starts, all_starts, strict=True)
    ]
    term = CorrectedDistillation(lam, *agreed_bins(client_data, bins))
    own = client_data.targets(starts)
    return client_data.task.taught(term, torch.stack(taught), own, clients)
