"""FedGKD, FedADC+ and MOON: what other models teach the clients."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from plfl.experiments.train import train
from plfl.experiments.training_setup import federation_of, network_of
from plfl.federated.client_data import ClientData
from plfl.federated.local_training import broadcast
from plfl.federated.session import Session
from plfl.optimizers.server.fedavgadaptive import FedAvgAdaptive
from plfl.training.stacked import Stacked
from plfl_reproductions.methods.fedadc_plus import FedADCPlus
from plfl_reproductions.methods.fedgkd import FedGKD
from plfl_reproductions.methods.moon import Moon, contrast
from tests.helpers import tiny
from tests.helpers.problems import AVG, SGD, Quadratic, trajectory

LINEAR = Quadratic([1, 1], [1, 3], [1, 1])
"""f_i = ½ (w + b − c_i)², c = (1, 3)."""


def by_hand(lam, buffer, server_opt):
    """The server's x for each client and the clients' models in four rounds, from the equations."""
    mix, shared, c = np.ones(2), np.array([True, False]), (1, 3)
    local = np.zeros((2, 2))
    x, models, path = local.copy(), [], []
    state = server_opt.init(torch.zeros(1).double(), 2)
    for t in range(1, 5):
        for i in range(2):
            y = np.where(shared, x[i], local[i])
            teacher = np.where(shared, np.mean(models, 0)[i], local[i]) @ mix if models else None
            for _ in range(2):
                slope = y @ mix - c[i]
                if teacher is not None:
                    slope += lam * (y @ mix - teacher)
                y = y - 0.1 * slope * mix
            local[i] = y
        D = torch.from_numpy(local - x)[:, :1]
        server_opt.receive(state, torch.arange(2), D, torch.full((2,), 0.5), t)
        x = np.tile(server_opt.send(state, torch.arange(2)), 2)
        models = [*models, x][-buffer:]
        path.append(x[:, 0])
    return np.array(path), local


@pytest.mark.parametrize(
    ("lam", "buffer", "server_opt"),
    [
        (0.1, 1, AVG),
        (2, 2, AVG),
        (0.5, 3, AVG),
        (2, 2, FedAvgAdaptive(lr=0.1, q=3)),  # whose models are one for each client
    ],
    ids=str,
)
def test_path_by_hand(lam, buffer, server_opt):
    """The teacher forecasts with the client's own part."""
    problem = {"problem": LINEAR, "shared": (True, False), "start": (0.0, 0.0), "rounds": 4}
    expected, local = by_hand(lam, buffer, server_opt)
    seen = trajectory(SGD, server_opt, FedGKD(lam=lam, buffer=buffer), **problem)
    found = [s.x[..., -1].expand(2).tolist() for s in seen[1:]]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(seen[-1].local, local, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("buffer", "down"), [(1, [1, 1, 1, 1]), (3, [1, 1, 2, 2])])
def test_bytes(buffer, down):
    """d_s both ways, and 2 d_s down once the teacher is another model than x itself."""
    problem = {"problem": LINEAR, "shared": (True, False), "start": (0.0, 0.0)}
    seen = trajectory(SGD, AVG, FedGKD(buffer=buffer), rounds=4, **problem)
    traffic = [s.report.traffic for s in seen[1:]]
    assert [sent["bytes_down"].tolist() for sent in traffic] == [[8 * n] * 2 for n in down]
    assert [sent["bytes_up"].tolist() for sent in traffic] == [[8, 8]] * 4
    assert [sent["extras_down"].tolist() for sent in traffic] == [[8 * (n - 1)] * 2 for n in down]


def records(method, *splits, **options):
    """Records of a small forecaster trained with a method, by split."""
    grid = {"client_opt": ["adam"], "server_opt": ["fedavg"], "method": [method]}
    study = tiny.study(grid=grid, method={method: options})
    cells = [tiny.cell(f"XX-{split}-{method}-adam-fedavg-10", study) for split in splits]
    trained = train(study, cells, tiny.dataset())
    return [trained[cell].records for cell in cells]


@pytest.mark.parametrize(
    ("method", "weight", "base"),
    [("fedgkd", "lam", "fedopt"), ("fedadc_plus", "lam", "fedadc"), ("moon", "mu", "fedopt")],
)
def test_no_weight_is_the_base_method_for_the_forecaster(method, weight, base):
    """To the bit."""
    (taught,), (plain,) = records(method, "P2", **{weight: 0}), records(base, "P2")
    pd.testing.assert_frame_equal(taught.drop(columns="method"), plain.drop(columns="method"))


def adc_by_hand(lam, variant):
    """Four rounds of FedADC+ with two bins, cut in the middle between the clients' targets."""
    a, c, eta, beta, steps = (1, 4), (0, 1), 0.1, 0.9, 2
    mix, shared = np.ones(2), np.array([True, False])
    local = np.ones((2, 2))
    x, m, path = local[0].copy(), np.zeros(2), []
    for _ in range(4):
        for i in range(2):
            y = np.where(shared, x, local[i])
            taught = y @ mix
            # The client's only target is in a bin of its own: ρ = 1 there and 0 in the other.
            target = c[i] if (taught > 0.5) == (c[i] > 0.5) else c[i] + lam * (taught - c[i])
            kick = eta * beta * m / steps
            for _ in range(steps):
                at = y - kick if variant == "nesterov" else y
                y = y - eta * a[i] * (at @ mix - target) * mix - kick
            local[i] = y
        mean = np.where(shared, local.mean(0) - x, 0)
        x, m = x + mean, -mean / eta
        path.append(x[shared])
    return np.concatenate(path), local


@pytest.mark.parametrize("variant", ["heavy_ball", "nesterov"])
def test_fedadc_plus_by_hand(variant):
    method, problem = FedADCPlus(variant=variant, bins=2), Quadratic([1, 4], [0, 1], [1, 1])
    expected, local = adc_by_hand(0.35, variant)
    given = {"problem": problem, "start": (1.0, 1.0), "shared": (True, False), "rounds": 4}
    seen = trajectory(SGD, AVG, method, **given)
    assert [s.x.item() for s in seen[1:]] == pytest.approx(expected, abs=1e-12)
    assert seen[-1].local.numpy() == pytest.approx(local, abs=1e-12)


class Watched(Quadratic):
    """Quadratics whose features are all 1, but that remember of which models they were read."""

    def hidden_features(self, rows, minibatches, which):
        assert which == "penultimate"
        self.read = [*getattr(self, "read", []), rows.clone()]
        return super().hidden_features(rows, minibatches, which)


def watched(**options):
    problem = Watched([1, 4, 2], [0, 1, 3], [1, 1])
    given = {"problem": problem, "start": (2.0, 0.0), "shared": (True, False), "rounds": 4}
    return problem, trajectory(SGD, AVG, Moon(mu=3, features="penultimate"), **given, **options)


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 1000), st.floats(0.2, 1))
def test_it_contrasts_the_start_with_the_clients_last_model(seed, share):
    """However long ago that was; before the first time it is what all started from."""
    problem, seen = watched(seed=seed, participation=share)
    for before, after in itertools.pairwise(seen):
        present = after.report.participants
        (start, last, first, second), problem.read = problem.read[:4], problem.read[4:]
        assert torch.equal(last, before.local[present])
        # It has the shared part that it should, and the client's own personal part.
        assert torch.equal(start[:, 0], before.x.expand(len(present)))
        assert torch.equal(start[:, 1], before.local[present, 1])
        assert torch.equal(first, start)
        assert not torch.equal(second, first)
    assert not problem.read


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.floats(0.1, 2))
def test_the_term_is_the_cross_entropy_of_cosines(seed, temperature):
    """As the authors compute it, with autograd's gradient."""
    random = torch.Generator().manual_seed(seed)
    h, near, far = torch.randn(3, 2, 7, 5, generator=random, dtype=torch.float64)
    h.requires_grad_()
    cosines = torch.stack([torch.cosine_similarity(h, other, 1) for other in (near, far)], -1)
    first = torch.zeros(10, dtype=torch.int64)
    logits = cosines.flatten(0, 1) / temperature
    expected = torch.nn.functional.cross_entropy(logits, first, reduction="none")
    terms, by_h = contrast(h.detach(), near, far, temperature)
    torch.testing.assert_close(terms.flatten(), expected.detach())
    torch.testing.assert_close(by_h, torch.autograd.grad(expected.sum(), h)[0])


def test_a_term_has_the_same_bits_in_any_stack():
    random = torch.Generator().manual_seed(0)
    h, near, far = torch.randn(3, 64, 32, 7, generator=random)
    whole = contrast(h, near, far, 0.5)
    for rows in (1, 2, 5, 10, 50):
        for some, every in zip(
            contrast(h[:rows], near[:rows], far[:rows], 0.5), whole, strict=True
        ):
            assert torch.equal(some, every[:rows])


@pytest.mark.parametrize("features", ["states", "penultimate"])
def test_a_round_is_that_of_the_papers_loss(features):
    """With eleven steps, against PyTorch's own layers, loss and gradients."""
    given = {"grid": {"client_opt": ["sgd"]}, "client_opt": {"sgd": {"lr": 0.1}}}
    given |= {"federation": {"local_steps": 11}, "method": {"features": features}}
    study, data = tiny.study_of_method("moon", **given), tiny.dataset()
    network, cell = network_of(study, data.shape), study.cells[0]
    engine = Stacked(network, data, torch.device("cpu"), torch.float64)
    clients = ClientData(data, engine, study.federation, cell.seed)
    f = federation_of(study, cell, study.plan.candidates(cell)[0], network, clients)
    f.local = f.local + 0.3 * torch.randn(f.local.shape, generator=torch.manual_seed(0)).double()
    asked = broadcast(f, 1, f.everyone)
    start = f.models(f.everyone, asked.start)
    session = Session(f, engine, 1, f.everyone, start, asked.routine.minibatches)
    found = asked.routine.run(session).rows
    for i in range(len(start)):
        model, x, last = (network.module().double() for _ in range(3))
        for module, row in ((model, start[i]), (x, start[i]), (last, f.local[i])):
            torch.nn.utils.vector_to_parameters(row.clone(), module.parameters())
        optimiser = torch.optim.SGD(model.parameters(), 0.1)
        for windows in clients.minibatch_starts(f.everyone, 1, 11)[i]:
            sequence, covariates = (values[0] for values in engine.inputs(windows[None]))
            h, *others = (module.features(sequence, features) for module in (model, x, last))
            cosines = [torch.cosine_similarity(h, other.detach(), -1) for other in others]
            logits, first = torch.stack(cosines, -1) / 0.5, torch.zeros(8, dtype=torch.int64)
            loss = torch.nn.functional.mse_loss(
                model(sequence, covariates), clients.targets(windows)
            )
            optimiser.zero_grad()
            (loss + 5 * torch.nn.functional.cross_entropy(logits, first)).backward()
            optimiser.step()
        expected = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
        torch.testing.assert_close(found[i], expected, rtol=0, atol=1e-9)
