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

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plfl.federated.client_data import ClientData
from plfl.layout import ParameterLayout
from plfl.methods.fedadc_plus import agreed_bins
from plfl.optimizers.client import ClientOpt
from plfl.tasks import CorrectedDistillation
from plfl.training import batches
from plfl.training.task import LocalTask

Head = Literal["mlp", "last"]
Variant = Literal["plain", "prox", "kd"]


def head_mask(layout: ParameterLayout, head: Head) -> NDArray[np.bool_]:
    """Which parameters (P,) are trained: the head of the model (the paper's MLP), or its last
    layer."""
    return layout.mask(["head" if head == "mlp" else layout.last])


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
    trained = models.clone()
    if epochs == 0:
        return trained
    starts, steps = _epochs(client_data, epochs, most_steps)
    task = LocalTask(
        optimiser=optimiser,
        rows=trained,
        batches=starts,
        shared=torch.zeros_like(head),
        state=optimiser.init(trained),
        steps_taken=torch.zeros(len(trained), 1, dtype=torch.float64, device=trained.device),
        pull=mu * head.to(trained.dtype) if variant == "prox" else None,
        targets=_taught(models, client_data, starts, lam, bins) if variant == "kd" else None,
        loss=client_data.task.objective(client_data.settings.loss).loss,
        clip=client_data.settings.clip,
        steps=steps,
        frozen=~head,
    )
    client_data.engine.train(task)
    return trained


def _epochs(client_data: ClientData, epochs: int, most: int | None) -> tuple[Tensor, Tensor]:
    """Minibatches (N, K, B) of all clients, padded, and the number (N,) of each client's own."""
    size = client_data.settings.batch_size
    drawn = []
    for i, name in enumerate(client_data.names):
        starts = client_data.dataset.starts(i, "train")
        passes = epochs * (len(starts) // size)
        steps = passes if most is None else min(passes, most)
        stream = f"/calibration/{name}"
        drawn.append(starts[batches.epoch(client_data.seed, stream, 0, len(starts), steps, size)])
    longest = max(map(len, drawn))
    padded = [np.pad(d, ((0, longest - len(d)), (0, 0)), mode="edge") for d in drawn]
    device = client_data.engine.device
    own = torch.tensor([len(d) for d in drawn], device=device)
    return torch.from_numpy(np.stack(padded)).to(device), own


def _taught(
    models: Tensor, client_data: ClientData, starts: Tensor, lam: float, bins: int
) -> Tensor:
    """Targets (N, K, B) of FedADC+'s loss, with the models as their own teachers."""
    clients = torch.arange(len(models), device=models.device)
    all_starts = [
        torch.from_numpy(client_data.dataset.starts(i, "train")) for i in clients.tolist()
    ]
    forecasts = client_data.engine.predict(models, [s.to(models.device) for s in all_starts])
    # A client's windows start at consecutive rows.
    taught = [f[own - s[0]] for f, own, s in zip(forecasts, starts, all_starts, strict=True)]
    term = CorrectedDistillation(lam, *agreed_bins(client_data, bins))
    own = client_data.targets(starts)
    return client_data.task.taught(term, torch.stack(taught), own, clients)
