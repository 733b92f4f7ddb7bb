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

from dataclasses import replace

import torch
from torch import Tensor

from plfl.config.federation import Calibration
from plfl.federated.client_data import ClientData
from plfl.interfaces.terms import CorrectedDistillation
from plfl.optimizers.client import ClientOpt


def calibrate(
    models: Tensor,
    client_data: ClientData,
    head: Tensor,
    optimiser: ClientOpt,
    options: Calibration,
) -> Tensor:
    """Train only the parameters of the mask `head` (P,) of each client's model; return the
    resulting models (N, P). Windows that do not fill a minibatch at the end of an epoch are left
    out of that epoch. ValueError: `kd` with another loss than the squared error."""
    distils = options.variant == "kd"
    for reason in client_data.task.reasons_against_teacher(client_data.settings.loss):
        if distils:
            raise ValueError(f"kd {reason}")
    if options.epochs == 0:
        return models.clone()
    all_clients = torch.arange(len(models), device=models.device)
    minibatches, steps = client_data.passes("calibration", all_clients, options.epochs)
    term = None
    if distils:
        edges_and_shares = client_data.agreed_bins(options.bins)
        term = CorrectedDistillation(options.lam, *edges_and_shares, options.temperature)
        targets = _corrected_targets(models, client_data, minibatches.starts, term)
        minibatches = replace(minibatches, targets=targets)
    pull = options.mu * head.to(models.dtype) if options.variant == "prox" else None
    return client_data.train_minibatches(
        models, optimiser, minibatches, steps, term=term, frozen=~head, pull=pull
    )


def _corrected_targets(
    models: Tensor, client_data: ClientData, starts: Tensor, term: CorrectedDistillation
) -> Tensor:
    """Targets (N, K, B, ...) of FedADC+'s loss, with the models as their own teachers."""
    clients = torch.arange(len(models), device=models.device)
    # Several passes read the same windows; the teacher evaluates each window once.
    windows, places = zip(
        *(starts_of_client.unique(return_inverse=True) for starts_of_client in starts), strict=True
    )
    outputs = client_data.engine.predict(models, list(windows))
    teacher_outputs = torch.stack(
        [client_outputs[place] for client_outputs, place in zip(outputs, places, strict=True)]
    )
    return client_data.task.mix_teacher(term, teacher_outputs, client_data.targets(starts), clients)
