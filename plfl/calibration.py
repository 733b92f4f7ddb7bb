"""Calibration of the head after federated learning (Ozfatura et al. 2021, §IV-D).

After the last round every client takes the global model and trains the head alone, the body
frozen, for some epochs on its own data; nothing is sent. Its loss, ŷ_T being the forecast of the
model it began with and θ the parameters of the head:

- `plain`: (ŷ − y)²
- `prox`: (ŷ − y)² + μ/2 ‖θ − θ_T‖²
- `kd`: that of FedADC+ with ŷ_T as the teacher, here adapted to forecasting (`fedadc_plus`)
"""

from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plfl.clients import ClientOpt
from plfl.fleet import Fleet
from plfl.forecaster import Forecaster
from plfl.methods.fedadc_plus import agreed_bins
from plfl.training import LocalTask, batches
from plfl.training.losses import CorrectedDistillation

Head = Literal["mlp", "last"]
Variant = Literal["plain", "prox", "kd"]


def head_mask(forecaster: Forecaster, head: Head) -> NDArray[np.bool_]:
    """Which parameters (P,) are the head: the MLP, or its last linear layer (the paper's)."""
    patterns = {"mlp": "mlp.*", "last": f"mlp.{len(forecaster.mlp)}.*"}
    return forecaster.layout.mask([patterns[head]])


def calibrate(
    models: Tensor,
    fleet: Fleet,
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
    """The models (N, P) after the clients have trained their heads.

    Args:
        models: global models (N, P), as each client holds its own; they stay as they are.
        fleet: the clients' data, and the engine that trains.
        head: mask (P,) of the parameters that are trained.
        optimiser: the ClientOpt, fresh; a proximal term of its own is left out.
        epochs: E, passes over a client's training windows (the paper: 2); what does not fill a
            minibatch at the end of a pass is left out of that pass.
        most_steps: steps after which a client stops, even within a pass.
        variant: the loss.
        mu: μ of `prox`; no default in the source. Above 1 / lr it makes SGD swing.
        lam: λ of `kd` (the paper: 0.35).
        bins: quantile bins of the target, for `kd`.
    """
    trained = models.clone()
    if epochs == 0:
        return trained
    starts, steps = _epochs(fleet, epochs, most_steps)
    task = LocalTask(
        optimiser=optimiser,
        rows=trained,
        batches=starts,
        shared=torch.zeros_like(head),
        state=optimiser.init(trained),
        steps_taken=torch.zeros(len(trained), 1, dtype=torch.float64, device=trained.device),
        pull=mu * head.to(trained.dtype) if variant == "prox" else None,
        targets=_taught(models, fleet, starts, lam, bins) if variant == "kd" else None,
        steps=steps,
        frozen=~head,
    )
    fleet.engine.train(task)
    return trained


def _epochs(fleet: Fleet, epochs: int, most: int | None) -> tuple[Tensor, Tensor]:
    """Minibatches (N, K, B) of all clients, and how many (N,) of them are each client's own."""
    size = fleet.settings.batch_size
    drawn = []
    for i, name in enumerate(fleet.names):
        starts = fleet.dataset.starts(i, "train")
        passes = epochs * (len(starts) // size)
        steps = passes if most is None else min(passes, most)
        stream = f"/calibration/{name}"
        drawn.append(starts[batches.epoch(fleet.seed, stream, 0, len(starts), steps, size)])
    longest = max(map(len, drawn))
    padded = [np.pad(d, ((0, longest - len(d)), (0, 0)), mode="edge") for d in drawn]
    device = fleet.engine.device
    own = torch.tensor([len(d) for d in drawn], device=device)
    return torch.from_numpy(np.stack(padded)).to(device), own


def _taught(models: Tensor, fleet: Fleet, starts: Tensor, lam: float, bins: int) -> Tensor:
    """Targets (N, K, B) of FedADC+'s loss, the models being their own teachers."""
    clients = torch.arange(len(models), device=models.device)
    all_starts = [torch.from_numpy(fleet.dataset.starts(i, "train")) for i in clients.tolist()]
    forecasts = fleet.engine.predict(models, [s.to(models.device) for s in all_starts])
    # A client's windows start at consecutive rows.
    taught = [f[own - s[0]] for f, own, s in zip(forecasts, starts, all_starts, strict=True)]
    term = CorrectedDistillation(lam, *agreed_bins(fleet, bins))
    return term.targets(torch.stack(taught), fleet.targets(starts), clients)
