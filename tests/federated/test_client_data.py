"""A client's own data: its minibatches, passes and gradients."""

from typing import Any

import numpy as np
import pytest
import torch

from plfl.experiments.trainer import Trainer, network_of
from plfl.federated.client_data import ClientData
from plfl.training.stacked import Stacked
from tests.federated.test_local_training import EPOCHS, UNEQUAL
from tests.helpers import tiny
from tests.images.test_classify import images, study


@pytest.mark.parametrize("order", ["draw", "epoch"])
def test_a_client_trains_on_the_same_however_many_steps_others_take(order: str) -> None:
    study = tiny.study(federation={"batches": order})
    dataset = tiny.dataset()
    forecaster = network_of(study, dataset.shape)
    engine = Stacked(forecaster, dataset, torch.device("cpu"))
    client_data = ClientData(dataset, engine, study.federation, 10)
    clients = torch.arange(3)
    for t in (0, 1, 2, 7):
        few, many = (client_data.minibatches(clients, t, steps) for steps in (3, 9))
        assert torch.equal(few, many[:, :3])


def test_a_round_continues_the_passes_of_the_one_before() -> None:
    of = study(data=UNEQUAL, federation={**EPOCHS, "local_epochs": 1, "batches": "epoch"})
    seen: list[np.ndarray[Any, Any]] = []

    data = Trainer.of(of, images(of)).client_data(0)
    for t in (1, 2):
        for i, steps in enumerate(data.steps(torch.arange(10)).tolist()):
            drawn = data.minibatches(torch.tensor([i]), t, steps).flatten()
            assert len(drawn.unique()) == 3 * steps  # a whole pass
            seen.append(drawn.numpy())
    assert any(not np.array_equal(a, b) for a, b in zip(seen[:10], seen[10:], strict=True))


def test_gradients_are_those_of_each_clients_own_minibatches() -> None:
    of = study(data=UNEQUAL)
    trainer = Trainer.of(of, images(of))
    data, clients = trainer.client_data(0), torch.arange(3)
    rows = trainer.network.initial(0).repeat(3, 1)
    together = data.gradients(rows, clients, 1, torch.tensor([1, 3, 2]))
    for i, steps in enumerate((1, 3, 2)):
        alone = data.gradients(rows[i : i + 1], clients[i : i + 1], 1, steps)
        assert together[i].numpy() == pytest.approx(alone[0].numpy(), abs=1e-7)
