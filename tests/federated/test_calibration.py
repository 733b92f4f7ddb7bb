"""Training the heads after federated learning, against PyTorch's own layers and optimisers."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from plfl.base.errors import ConfigError
from plfl.config.federation import Calibration
from plfl.experiments.train import train
from plfl.federated import calibration
from plfl.federated.client_data import ClientData
from plfl.federated.session import Session
from plfl.optimizers.client.adam import Adam
from plfl.optimizers.client.prox import Prox
from plfl.optimizers.client.sgd import Sgd
from tests.helpers import tiny
from tests.helpers.refusals import naming
from tests.helpers.two_clients import HEAD, NETWORK, TWO_CLIENTS, draw_models

SGD, ADAM = Sgd(lr=0.05), Adam(lr=0.01)


def calibrate(start, f, mask, optimiser, **options):
    """Two epochs, as in the paper, where `options` say nothing else."""
    options = Calibration(**{"epochs": 2} | options)
    return calibration.calibrate(start, f, mask, optimiser, options)


def test_the_optimisers_own_anchor_is_left_out():
    plain = calibrate(draw_models(), TWO_CLIENTS, HEAD, Sgd(lr=0.05))
    assert torch.equal(calibrate(draw_models(), TWO_CLIENTS, HEAD, Prox(lr=0.05, mu=1)), plain)


def seen_by(f: ClientData, epochs: int, monkeypatch: pytest.MonkeyPatch):
    """The task that the engine is given."""
    tasks = []
    with monkeypatch.context() as patch:
        patch.setattr(f.engine, "train", tasks.append)
        calibrate(draw_models(), f, HEAD, SGD, epochs=epochs)
    return tasks[0]


def test_an_epoch_is_a_pass_over_the_clients_own_windows(monkeypatch):
    task = seen_by(TWO_CLIENTS, 3, monkeypatch)
    windows = [set(TWO_CLIENTS.dataset.starts(i, "train").tolist()) for i in range(2)]
    assert task.steps.tolist() == [3 * (len(own) // 8) for own in windows]
    for own, batches, steps in zip(
        windows, task.minibatches.starts, task.steps.tolist(), strict=True
    ):
        for one_pass in batches[:steps].reshape(3, -1).tolist():
            assert len(set(one_pass)) == len(one_pass) == len(own) // 8 * 8
            assert set(one_pass) <= own


@pytest.mark.parametrize("variant", ["plain", "prox", "kd"])
def test_against_pytorch(variant, monkeypatch):
    """The written-out losses under torch.optim, with the body's gradients switched off."""
    mu, lam, bins = 0.4, 0.6, 5
    start = draw_models()
    options = {"variant": variant, "mu": mu, "lam": lam, "bins": bins}
    trained = calibrate(start, TWO_CLIENTS, HEAD, SGD, **options)
    task = seen_by(TWO_CLIENTS, 2, monkeypatch)
    own_targets = [TWO_CLIENTS.training_targets(i) for i in range(2)]
    edges = np.quantile(torch.cat(own_targets).numpy(), np.arange(1, bins) / bins)
    for i in range(2):
        student, teacher = (NETWORK.module().double() for _ in range(2))
        for module in (student, teacher):
            nn.utils.vector_to_parameters(start[i].clone(), module.parameters())
        student.lstm.requires_grad_(False)
        anchors = [p.clone().detach() for p in student.mlp.parameters()]
        opt = torch.optim.SGD(student.mlp.parameters(), SGD.lr)
        counts = np.bincount(np.searchsorted(edges, own_targets[i].numpy()), minlength=bins)
        ratios = torch.from_numpy(counts / counts.max())
        for windows in task.minibatches.starts[i][: task.steps[i]]:
            x, _ = TWO_CLIENTS.engine.inputs(windows)
            y, forecast, taught = TWO_CLIENTS.targets(windows), student(x), teacher(x).detach()
            bin_y, bin_t = (
                torch.from_numpy(np.searchsorted(edges, v.numpy())) for v in (y, taught)
            )
            star = torch.where(bin_y == bin_t, y, y + (1 - ratios[bin_t]) * (taught - y))
            loss = (forecast - y).square().mean()
            if variant == "kd":
                loss = (1 - lam) * loss + lam * (forecast - star).square().mean()
            if variant == "prox":
                pairs = zip(student.mlp.parameters(), anchors, strict=True)
                loss = loss + mu / 2 * sum((p - a).square().sum() for p, a in pairs)
            opt.zero_grad()
            loss.backward()
            opt.step()
        expected = nn.utils.parameters_to_vector(student.parameters()).detach()
        torch.testing.assert_close(trained[i], expected, rtol=0, atol=1e-12)


def test_gradients_are_clipped_outside_of_the_rounds_and_in_routines():
    rows, everyone, sgd = draw_models(), torch.arange(2), Sgd(lr=1.0)
    norms = {}
    for limit in (None, 1e-3):
        settings = TWO_CLIENTS.settings.model_copy(update={"clip": limit})
        data = ClientData(TWO_CLIENTS.dataset, TWO_CLIENTS.engine, settings, 10)
        f = SimpleNamespace(client_data=data, settings=settings, client_opt=sgd, shared_mask=HEAD)
        session = Session(f, TWO_CLIENTS.engine, 1, everyone, rows, 1)  # type: ignore[arg-type]
        steps = [
            data.gradients(rows, everyone, 1, 1),
            data.train(rows, everyone, sgd, 1, 1, HEAD) - rows,
            session.train(rows, 0, 1) - rows,
            data.fine_tuned(rows, sgd, 1, frozen=~HEAD, most_steps=1) - rows,
        ]
        norms[limit] = torch.stack(steps).norm(dim=-1)
    assert (norms[None] > 2e-3).all()
    torch.testing.assert_close(norms[1e-3], torch.full((4, 2), 1e-3).double(), rtol=1e-2, atol=0)


@pytest.mark.parametrize(
    ("blocks", "problem"),
    [
        ({"grid": {"method": ["fine_tuning"]}}, "'fine_tuning' decides itself what the clients"),
        ({"grid": {"method": ["ditto"]}}, "'ditto' decides itself what the clients"),
        ({"federation": {"ema": 0.9}}, "federation.calibration: starts from the server's models"),
        ({"federation": {"loss": "mae", "calibration": {"epochs": 2, "variant": "kd"}}}, "'kd'"),
    ],
)
def test_what_cannot_be_calibrated(blocks, problem):
    federation = {"calibration": {"epochs": 2}} | blocks.pop("federation", {})
    with naming(ConfigError, problem):
        tiny.study(federation=federation, **blocks)


def test_forecasters_are_calibrated_where_something_is_shared():
    own_study = tiny.study(
        federation={"calibration": {"epochs": 1, "head": "mlp", "variant": "kd"}},
        grid={"client_opt": ["adam"], "server_opt": ["fedavg"], "sharing": ["P1", "P3"]},
    )
    without = tiny.study(grid={"client_opt": ["adam"], "server_opt": ["fedavg"]})
    found, plain = (train(study, own_study.cells, tiny.dataset()) for study in (own_study, without))
    for cell in own_study.cells:
        ours, theirs = (result[cell].records for result in (found, plain))
        local = ours["model"] == "local"
        pd.testing.assert_frame_equal(ours[~local], theirs[~local], check_exact=True)
        scored = local & (ours["split"] == "test")
        assert np.array_equal(ours[scored]["mae"], theirs[scored]["mae"]) == (cell.sharing == "P3")
