"""Builds the model, the engine and the federations of a study on a dataset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch

from plfl.config.compute import Compute
from plfl.config.federation import FederationSettings
from plfl.data.dataset import Dataset
from plfl.data.examples import Examples
from plfl.experiments.evaluation import Evaluator, ForecastEvaluator
from plfl.experiments.start import read_start
from plfl.federated.client_data import ClientData
from plfl.federated.federation import Federation
from plfl.interfaces.task import Task
from plfl.layout import WindowShape
from plfl.methods.fedopt import FedOpt
from plfl.networks.network import Network
from plfl.study import Cell, Study
from plfl.study.combinations import Candidate
from plfl.training.engines import make_engine
from plfl.training.work import Engine


@dataclass(frozen=True)
class TrainingSetup:
    """A study's model and engine on one dataset."""

    study: Study
    dataset: Examples
    network: Network
    engine: Engine

    @classmethod
    def for_study(cls, study: Study, dataset: Examples) -> TrainingSetup:
        """The model and the engine of a study."""
        network = network_of(study, dataset.shape)
        return cls(study, dataset, network, make_engine(place_computation(study), network, dataset))

    def client_data(
        self, seed: int, dataset: Examples | None = None, settings: FederationSettings | None = None
    ) -> ClientData:
        """The clients' data, with the minibatches of a seed. `dataset` replaces the data of the
        study by those of some clients, or by other windows, in the same table; `settings` replaces
        its settings of training."""
        data = (self.dataset if dataset is None else dataset).divide_by_seed(seed)
        study, task = self.study, self.task
        settings = settings or study.federation
        has_minibatches = not study.model.grows_trees
        return ClientData(
            data,
            self.engine,
            settings,
            seed,
            task,
            study.windows,
            has_minibatches=has_minibatches,
        )

    @property
    def task(self) -> Task:
        """What the study predicts."""
        return self.study.task

    @property
    def series_dataset(self) -> Dataset:
        """The dataset, which must consist of series."""
        assert isinstance(self.dataset, Dataset)
        return self.dataset

    @property
    def evaluator(self) -> ForecastEvaluator:
        """Scores forecasters on the series."""
        return ForecastEvaluator(self.series_dataset, self.engine, self.task)

    def evaluator_of(self, dataset: Examples) -> Evaluator:
        """Scores the models of a round on the windows of some clients, as the task says."""
        if self.task.has_common_windows:
            return cast(Evaluator, self.task.evaluator(dataset, self.engine))
        return ForecastEvaluator(cast(Dataset, dataset), self.engine, self.task)

    def make_federation(
        self,
        cell: Cell,
        candidate: Candidate,
        client_data: ClientData | None = None,
        size: int | None = None,
    ) -> Federation:
        """A cell before its first round; cells of one seed may share their `client_data`. `size`:
        the number of its clients, if only some are here."""
        data = client_data or self.client_data(cell.seed)
        return federation_of(self.study, cell, candidate, self.network, data, size)


def place_computation(study: Study) -> Compute:
    """How the jobs of a study use this machine: trees grow on the CPU."""
    device = "cpu" if study.model.grows_trees else study.compute.device
    return study.compute.model_copy(update={"device": device})


def network_of(study: Study, shape: WindowShape) -> Network:
    """The study's model for windows of some shape. The task decides how many outputs it has."""
    outputs = study.plan.window_shape.outputs
    return study.model.network(shape._replace(outputs=outputs))


def federation_of(
    study: Study,
    cell: Cell,
    candidate: Candidate,
    network: Network,
    client_data: ClientData,
    size: int | None = None,
) -> Federation:
    """A cell of the study before its first round, with the algorithms of a candidate. `size`: the
    number of its clients, if only some are here."""
    mask = network.layout.mask(study.plan.schemes.patterns[cell.sharing])
    start = study.federation.start
    return Federation(
        method=candidate.method or FedOpt(),  # alone, the round shares nothing
        client_opt=candidate.client_opt,
        server_opt=candidate.server_opt,
        study_mask=torch.from_numpy(mask).to(client_data.engine.device),
        client_data=client_data,
        network=network,
        channel_settings=study.channel,
        start=None if start is None else torch.from_numpy(read_start(start, study)),
        size=size,
    )
