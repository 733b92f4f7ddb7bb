"""The folds of a cell: its federations, and for each the clients that its models are scored on.

Most cells have one fold: all clients train together, and all are scored. `data.federations` divides
the clients into several federations. In a sharing scheme with clients that join late, there is a
fold for each group of late clients: the others train, and the group is scored. In a scheme in which
clients send their raw data, one model is trained on the windows of all.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from plfl.baselines.features import raw_bytes
from plfl.config.federation import FederationSettings, Simulation
from plfl.config.sharing import Scheme
from plfl.data.dataset import Dataset, Split, turns_of
from plfl.data.examples import Examples
from plfl.experiments.evaluation import Evaluation, Evaluator, ForecastEvaluator
from plfl.experiments.training_setup import TrainingSetup
from plfl.federated.channel import Traffic
from plfl.federated.client_data import ClientData
from plfl.federated.federation import Federation
from plfl.interfaces.method import Method
from plfl.methods.fedopt import FedOpt
from plfl.optimizers.server.fedavg import FedAvg
from plfl.results.records import Models
from plfl.study import Cell
from plfl.study.combinations import Candidate, overrides
from plfl.training.work import STANDING_OPTIMISER

OBSERVED = 100
"""Most minibatches of which a client that joins makes the buffers of its model: with PyTorch's
momentum of 0.1, BatchNorm then no longer depends on where it began."""


@dataclass(frozen=True)
class PooledDataset(Dataset):
    """The windows of all clients, as if they were those of one client."""

    def starts(self, client: int, split: Split) -> NDArray[np.int64]:
        """Start rows of the windows of all clients in one split."""
        return np.concatenate(
            [super(PooledDataset, self).starts(i, split) for i in range(len(self.view.bounds))]
        )


def pool_clients(dataset: Dataset) -> PooledDataset:
    """The clients of a dataset as one, called `all`."""
    fields = {field.name: getattr(dataset, field.name) for field in dataclasses.fields(dataset)}
    return PooledDataset(**fields | {"clients": np.array(["all"])})


@dataclass(frozen=True, eq=False)
class Fold:
    """Which clients train in a fold of a cell, and which are scored."""

    setup: TrainingSetup

    training_examples: Examples
    """The clients that train."""
    scored_examples: Examples
    """The clients that are scored with the models of this fold."""
    scheme: Scheme | None = None
    """How the scored clients join later, if they do not train in the rounds; None if they do."""
    client_indices: NDArray[np.int64] | None = None
    """The indices of the clients among all clients of the study; None: all."""
    _data: dict[int, tuple[ClientData, ClientData]] = field(default_factory=dict)

    @cached_property
    def evaluator(self) -> Evaluator:
        """The evaluator of the models of this fold on the `scored_examples`."""
        return self.setup.evaluator_of(self.scored_examples)

    def data(self, seed: int) -> tuple[ClientData, ClientData]:
        """The data of those that train and of those that are scored, with a seed's minibatches."""
        if seed not in self._data:
            scored_data = self.setup.client_data(seed, self.scored_examples)
            if self.scheme is None:
                self._data[seed] = scored_data, scored_data
            else:
                settings = self.setup.study.federation
                if self.scheme.join == "raw":
                    settings = _pooled_settings(settings, len(self.scored_examples.clients))
                self._data[seed] = (
                    self.setup.client_data(seed, self.training_examples, settings),
                    scored_data,
                )
        return self._data[seed]


def _pooled_settings(settings: FederationSettings, client_count: int) -> FederationSettings:
    """The settings of the rounds for a single client that takes the steps of all clients, and whose
    optimiser is never reset."""
    steps = settings.local_steps * client_count
    changes = {"local_steps": steps, "opt_state": "keep", "participation": 1.0}
    return settings.model_copy(update=changes | {"simulation": Simulation()})


def make_folds(setup: TrainingSetup, cell: Cell) -> Iterator[Fold]:
    """The folds of a cell."""
    study, dataset, make_fold = setup.study, setup.dataset, partial(Fold, setup)
    if not isinstance(dataset, Dataset) or study.plan.trains_alone(cell):
        yield make_fold(dataset, dataset)
        return
    scheme = study.plan.schemes.joining_schemes.get(cell.sharing)
    client_groups = dataset.clients_of_federations()
    if scheme is None and len(client_groups) == 1:
        yield make_fold(dataset, dataset)
        return
    for clients in client_groups:
        group = dataset.select(clients)
        if scheme is None:
            yield make_fold(group, group, client_indices=clients)
        elif scheme.join == "raw":
            yield make_fold(pool_clients(group), group, scheme, clients)
        else:
            for late in turns_of(clients, scheme.turns):
                other_clients = np.setdiff1d(clients, late)
                whole_dataset = dataset.with_view("whole")
                joining = dataset.with_view("new") if scheme.history else dataset
                yield make_fold(
                    whole_dataset.select(other_clients), joining.select(late), scheme, late
                )


class FoldTraining:
    """A fold of a cell in training: its federation, and the clients that join it."""

    def __init__(self, cell: Cell, candidate: Candidate, fold: Fold):
        """Prepare the federation for its first round."""
        self.fold = fold
        self._joiner: Federation | None = None
        training_data, scored_data = fold.data(cell.seed)
        self.dataset, setup = scored_data.dataset, fold.setup
        if fold.scheme is not None:
            local_candidate = replace(candidate, server_opt=FedAvg(), method=FedOpt())
            self._joiner = setup.make_federation(cell, local_candidate, scored_data)
            if fold.scheme.join == "raw" and not setup.study.model.grows_trees:
                candidate = local_candidate
        self.federation = setup.make_federation(cell, candidate, training_data)

    def score_round(self, method: Method, is_last: bool) -> Evaluation:
        """Score the clients of the fold, with the models that `method` gives them."""
        f = self._federation_of(method)
        if self._joiner is None:
            global_models = f.global_models if f.local_differs_from_global else None
            return self.fold.evaluator.score_round(f, global_models, is_last)
        assert isinstance(self.fold.evaluator, ForecastEvaluator)
        return self.fold.evaluator.score_models(*self._joined_models(method))

    def models(self, method: Method) -> Models:
        """The models that were scored, as they are written to files for `plfl forecast`."""
        if self._joiner is not None:
            local, global_models = self._joined_models(method)
            return {"local": _as_float32(local), "global": _as_float32(global_models)}
        f, models = self._federation_of(method), Models()
        # Clients that mix do not forecast with a model alone.
        if not overrides(method, "mix_outputs"):
            models["local"] = _as_float32(f.best.rows if f.best else f.own_models())
        if f.local_differs_from_global:
            models["global"] = _as_float32(f.global_models)
        return models

    @property
    def has_joining_clients(self) -> bool:
        """Whether the scored clients join later, so that they do not train in the rounds."""
        return self._joiner is not None

    @cached_property
    def join_traffic(self) -> Traffic:
        """The bytes that joining clients send and receive, once."""
        f, clients = self._joiner, len(self.fold.scored_examples.clients)
        assert f is not None and self.fold.scheme is not None
        f.channel.send("down", f.everyone, f.x0.expand(clients, -1))
        traffic = f.channel.close_round()
        if self.fold.scheme.join == "raw":
            assert isinstance(self.fold.scored_examples, Dataset)
            sent_bytes = np.array(raw_bytes(self.fold.scored_examples))
            return traffic | {"bytes_up": sent_bytes, "extras_up": sent_bytes}
        return traffic

    def _federation_of(self, method: Method) -> Federation:
        """The federation with the trial's own method, by which its clients forecast."""
        if self.federation.method is method:
            return self.federation
        federation_copy = copy.copy(self.federation)
        federation_copy.method = method
        return federation_copy

    def _joined_models(self, method: Method) -> tuple[Tensor, Tensor]:
        """Models (n, P) of the clients that join: after their own steps, and as received: the mean,
        if the server has a model for each client."""
        f = self._joiner
        assert f is not None
        models = self.federation.global_models
        # All have the same trees, of which a mean could differ in the last bit.
        grows_trees = self.fold.setup.study.model.grows_trees
        mean = models[:1] if grows_trees else models.mean(dim=0, keepdim=True)
        rows = f.models(f.everyone, mean[:, f.columns].expand(len(f.local), -1))
        if f.network.has_buffers:
            rows = _observe_buffers(f.client_data, rows)
        adapted = method.adapt(f, f.state, rows)
        return (rows if adapted is None else adapted), rows


def _observe_buffers(data: ClientData, rows: Tensor) -> Tensor:
    """The models `rows` (N, P) with buffers, such as the statistics of BatchNorm, that follow each
    client's training windows, over a pass of at most `OBSERVED` minibatches. Parameters stay as
    they are."""
    return data.fine_tuned(rows, STANDING_OPTIMISER, 1, purpose="buffers", most_steps=OBSERVED)


def _as_float32(rows: Tensor) -> NDArray[np.float32]:
    return rows.cpu().numpy().astype(np.float32, order="C", copy=False)
