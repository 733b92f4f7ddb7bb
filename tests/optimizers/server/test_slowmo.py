"""SlowMo against reference values and identities."""

import pytest

from plfl.methods.fedadc import FedADC
from plfl.optimizers.client.adam import Adam
from plfl.optimizers.client.sgd import Sgd
from plfl.optimizers.server.fedavg import FedAvg
from plfl.optimizers.server.fedavgm import FedAvgM
from plfl.optimizers.server.slowmo import SlowMo
from tests.helpers.problems import server_path, trajectory

SGD = Sgd(lr=0.1)


@pytest.mark.parametrize(
    ("alpha", "expected"),
    [
        (1, [2, 1.49, 0.73265, 0.06698525]),
        (0.5, [2, 1.745, 1.3134125, 0.8124506562]),
    ],
)
def test_expected_numbers(alpha, expected):
    assert server_path(SGD, SlowMo(lr=alpha, beta=0.9)) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("eta", [0.1, 0.02])
def test_it_is_the_published_recursion_in_units_of_gradients(eta):
    """m ← β m − D̄/η; x ← x − α η m, along what the server was sent."""
    alpha, beta, m = 0.7, 0.8, 0.0
    path = trajectory(Sgd(lr=eta), SlowMo(lr=alpha, beta=beta), rounds=6)
    x = path[0].x.item()
    for step in path[1:]:
        D = step.local.mean().item() - x
        m = beta * m - D / eta
        x -= alpha * eta * m
        assert step.x.item() == pytest.approx(x, abs=1e-12)


@pytest.mark.parametrize("client_opt", [SGD, Adam(lr=0.1)], ids=str)
def test_identities(client_opt):
    """The heavy ball of FedAvgM with η_g = α; FedAvg without momentum."""
    slow = server_path(client_opt, SlowMo(lr=0.6, beta=0.7), rounds=8)
    assert slow == server_path(client_opt, FedAvgM(lr=0.6, beta=0.7), rounds=8)
    still = server_path(client_opt, SlowMo(beta=0), rounds=8)
    assert still == server_path(client_opt, FedAvg(), rounds=8)


def test_fedadc_whose_clients_follow_no_momentum_is_slowmo():
    """Β_l = 0, β_g = β."""
    fedadc = server_path(SGD, FedAvg(lr=0.5), FedADC(beta_l=0, beta_g=0.9), rounds=8)
    slow = server_path(SGD, SlowMo(lr=0.5, beta=0.9), rounds=8)
    assert fedadc == pytest.approx(slow, abs=1e-12)
