"""Cases on which engines are compared: networks, windows, tasks, terms of losses, optimisers."""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from plfl.config.windows import Windows
from plfl.data.dataset import Dataset
from plfl.data.windows import build
from plfl.interfaces.model import Model
from plfl.layout import WindowShape
from plfl.models.gru import Gru
from plfl.models.lstm_mlp_network import LstmMlpNetwork
from plfl.models.mlp import Mlp
from plfl.networks.network import Network
from plfl.optimizers import client as clients
from plfl.optimizers.client import ClientOpt
from plfl.optimizers.client.adam import Adam
from plfl.optimizers.client.adamams import AdamAMS
from plfl.optimizers.client.adamw import AdamW
from plfl.optimizers.client.prox import Prox
from plfl.optimizers.client.proxadam import ProxAdam
from plfl.optimizers.client.sgdm import SgdMomentum
from plfl.training.work import Average, LocalWork, Minibatches
from plfl_reproductions.models.linear import Linear
from plfl_reproductions.models.tcn import Tcn
from tests.helpers.tasks import changed

CPU = torch.device("cpu")
PAPER = LstmMlpNetwork(inputs=8, look_back=12, hidden=25, mlp=(150, 75), absolute=True)
SMALL = LstmMlpNetwork(inputs=3, look_back=5, hidden=7, mlp=(6, 4), absolute=True)
SHAPE = WindowShape(inputs=3, look_back=5, covariates=4)
OTHER_MODELS: list[Model] = [
    Mlp(hidden=(6,)),
    Gru(hidden=4, mlp=(5,)),
    Linear(),
    Tcn(channels=4, levels=2, mlp=()),
]
"""Models other than the paper's; they read windows of `SHAPE`."""


@cache
def make_dataset(shape: LstmMlpNetwork | WindowShape, clients: int = 4, rows: int = 300) -> Dataset:
    """Random windows with the inputs and the look-back of a shape, or of a network."""
    random = np.random.default_rng(3)
    stamps = pd.date_range("2018-01-01 00:15", periods=rows, freq="15min")
    names = ["load", *(f"x{i}" for i in range(1, shape.inputs))]
    tables = {
        f"client {i}": pd.DataFrame(random.random((rows, len(names))), stamps, names)
        for i in range(clients)
    }
    return build(tables, Windows(look_back=shape.look_back))


def with_covariates(shape: WindowShape = SHAPE, relative: bool = True) -> Dataset:
    """Windows of some shape, with targets on either side of the forecasts and of Huber's bound."""
    data, random = make_dataset(shape), np.random.default_rng(5)
    covariates = random.random((len(data.load), shape.covariates)).astype(np.float32)
    targets = 2 * random.standard_normal(len(data.load)).astype(np.float32)
    return replace(data, covariates=covariates, targets=targets, relative=relative)


def make_task(
    network: Network,
    optimiser: ClientOpt,
    rows: int = 5,
    steps: int = 6,
    size: int = 4,
    dtype: torch.dtype = torch.float64,
    seed: int = 0,
) -> LocalWork:
    """`steps` minibatches of `size` random windows for each of `rows` models, drawn by `seed`."""
    generator = torch.Generator().manual_seed(seed)
    models = torch.stack([network.initial(seed + s) for s in range(rows)]).to(dtype)
    slopes = [name for name in network.layout.names if name.endswith("slope")]
    shared = torch.from_numpy(network.layout.mask(["body", *slopes]))
    starts = torch.randint(0, 200, (rows, steps, size), generator=generator)
    return LocalWork.fresh(optimiser, models, Minibatches(starts), shared)


FEATURES = ["penultimate", "states"]
"""Features by which a further term in the loss has a gradient. Not all models have them."""


def draw_changes(work: LocalWork, seed: int = 1) -> dict[str, Any]:
    """Changes of local work, drawn at random."""
    generator = torch.Generator().manual_seed(seed)
    rows, starts = work.rows, work.minibatches.starts
    S, K, _ = starts.shape

    def normal(shape: Iterable[int]) -> Tensor:
        return torch.randn([*shape], generator=generator, dtype=torch.float64).to(rows.dtype)

    return {
        "pull": normal(rows.shape[1:]).abs(),
        "constant": 0.1 * normal(rows.shape),
        "step_offset": 1e-3 * normal(rows.shape),
        "targets": normal(starts.shape).abs(),
        "scale": 1.7,
        "steps": torch.tensor([K - s % min(K, 3) for s in range(S)]),
        "gradients": normal(rows.shape),
        "frozen": torch.rand(rows.shape[1], generator=generator) < 0.3,
        "clip": 0.05,
        "average": Average(
            rows=normal(rows.shape),
            steps=torch.arange(0, 100 * S, 100, dtype=torch.float64)[:, None],
            decay=0.9,
        ),
    }


TERMS = [*draw_changes(make_task(SMALL, Adam()))]


def with_changes(work: LocalWork, names: Iterable[str]) -> LocalWork:
    """Work with changes of these names, or with a gradient by these features."""
    drawn_terms, names = draw_changes(work), set(names)
    terms = {name: drawn_terms[name] for name in names.difference(FEATURES)}
    for features in names.intersection(FEATURES):
        S, K, B = work.minibatches.starts.shape
        width = {"penultimate": SMALL.mlp[-1], "states": SMALL.look_back * SMALL.hidden}[features]
        random = torch.Generator().manual_seed(2)
        by_feature = 0.02 * torch.randn(S, K, width, B, generator=random).to(work.rows)
        terms |= {"layer": features, "by_feature": by_feature}
    return changed(work, **terms)


BUILT_IN: list[Any] = [*clients.available().values()]
"""Classes of client optimisers, each with defaults for all hyperparameters."""
OPTIMISERS: list[ClientOpt] = [cls() for cls in BUILT_IN] + [
    AdamAMS(variant="torch"),
    AdamAMS(variant="reddi"),
    SgdMomentum(nesterov=True),
    SgdMomentum(dampening=0.9),
    Prox(mu=0.5),
    ProxAdam(mu=0.5),
]
DECAYING: list[ClientOpt] = [cls(weight_decay=0.1) for cls in BUILT_IN if cls is not AdamW] + [
    SgdMomentum(nesterov=True, weight_decay=0.1),
    AdamAMS(variant="torch", weight_decay=0.1),
]
"""Optimisers with a weight decay other than that of AdamW."""
TWO_OPTIMISERS = [SgdMomentum(nesterov=True), ProxAdam(mu=0.5)]
TERMS_AND_OPTIMISERS: list[tuple[list[str], ClientOpt]] = [
    *(([term], optimiser) for term in [*TERMS, *FEATURES] for optimiser in TWO_OPTIMISERS),
    *((TERMS, optimiser) for optimiser in OPTIMISERS),
]
"""Every term with some optimisers, and all terms at once with every optimiser."""
