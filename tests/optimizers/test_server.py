"""ServerOpt against reference values and identities."""

import pytest
import torch

from plfl.optimizers.client.adam import Adam
from plfl.optimizers.server.fedadagrad import FedAdagrad
from plfl.optimizers.server.fedadam import FedAdam
from plfl.optimizers.server.fedavg import FedAvg
from plfl.optimizers.server.fedavgadaptive import FedAvgAdaptive
from plfl.optimizers.server.fedavgm import FedAvgM
from plfl.optimizers.server.fedyogi import FedYogi
from plfl.optimizers.server.slowmo import SlowMo
from plfl_reproductions.methods.fedadc import FedADC
from tests.helpers.problems import AVG, SGD, server_path

MEANS = torch.tensor([[0.5, -0.02], [-0.25, 0.01]], dtype=torch.float64)


def follow(opt, means=MEANS):
    """x after each of the mean updates, from zero."""
    state, path = opt.init(torch.zeros(2, dtype=torch.float64), 1), []
    for mean in means:
        opt.step(state, mean)
        path += state["x"].tolist()
    return path


CORRECTED, PLAIN = {"v0": 0, "bias_correction": True}, {"beta1": 0, "v0": 0}
INSIDE = PLAIN | {"eps_mode": "inside"}
ADAPTIVE = [
    (FedAdagrad, {}, (0.00998002, -0.0095124922, 0.0135513345, -0.0129337769)),
    (FedAdagrad, CORRECTED, (0.0099980004, -0.0099502488, 0.0126536351, -0.0125899008)),
    (FedAdam, {}, (0.0980201901, -0.0618461549, 0.1333019937, -0.0851206965)),
    (FedAdam, CORRECTED, (0.0998003992, -0.0952380952, 0.1264029407, -0.1203193627)),
    (FedYogi, {}, (0.098019998, -0.0618033989, 0.1331628095, -0.0849952348)),
    (FedYogi, CORRECTED, (0.0998003992, -0.0952380952, 0.1262965853, -0.1202248018)),
    (FedAdagrad, PLAIN, (0.0998003992, -0.0952380952, 0.0551588968, -0.0524311217)),
    (FedAdagrad, INSIDE, (0.099800598, -0.0534522484, 0.0551506214, -0.0276323594)),
]


@pytest.mark.parametrize(("cls", "options", "expected"), ADAPTIVE)
def test_expected_numbers(cls, options, expected):
    assert follow(cls(lr=0.1, **options)) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("opt", "expected"),
    [
        (AVG, [2, 1.49, 1.19165, 1.01711525]),
        (FedAvgM(), [2, 1.49, 0.73265, 0.06698525]),
        (FedAvgM(variant="ema"), [2, 1.949, 1.8542165, 1.7239613652]),
        (FedAvgM(variant="nesterov"), [2, 1.031, 0.4129565, 0.2361796498]),
        (FedAdagrad(lr=0.1), [2, 1.9900195886, 1.9766062405, 1.9609889468]),
        (FedAdam(lr=0.1), [2, 1.901941378, 1.769565166, 1.6158279674]),
        (FedYogi(lr=0.1), [2, 1.9019415628, 1.7699193265, 1.6170401048]),
        (SlowMo(), [2, 1.49, 0.73265, 0.06698525]),
        (SlowMo(lr=0.5), [2, 1.745, 1.3134125, 0.8124506562]),
    ],
    ids=str,
)
def test_trajectories_on_two_quadratics(opt, expected):
    assert server_path(SGD, opt) == pytest.approx(expected, abs=1e-9)


def test_fedavg_with_weights_and_with_adam_clients():
    weighted = server_path(SGD, AVG, weights=(1.0, 3.0))
    assert weighted == pytest.approx([2, 1.425, 1.1533125, 1.0249401562], abs=1e-9)
    adam = server_path(Adam(lr=0.1, beta1=0.9, beta2=0.999), AVG)
    assert adam == pytest.approx([2, 1.8002893574, 1.6006681692, 1.4012187245], abs=1e-9)


def copies(opt):
    """The clients' copies after rounds with D = (.5, −.1), (.2, .2), (−.1, .3)."""
    both = torch.arange(2)
    state = opt.init(torch.zeros(1, dtype=torch.float64), 2)
    path = []
    for t, D in enumerate([(0.5, -0.1), (0.2, 0.2), (-0.1, 0.3)], 1):
        rows = torch.tensor(D, dtype=torch.float64)[:, None]
        opt.receive(state, both, rows, torch.full((2,), 0.5), t)
        path += state["x"][:, 0].tolist()
    return path


@pytest.mark.parametrize(
    ("v0", "expected"),
    [
        (0, (0.316227746, -0.316227666, 0.1228590558, 0.2857142849, 0.0594229119, 0.5447781426)),
        (1, (0.051987524, -0.0105350742, 0.0425936183, 0.0428815349, 0.0310761367, 0.0776991759)),
    ],
)
def test_fedavgadaptive_expected_numbers(v0, expected):
    assert copies(FedAvgAdaptive(lr=0.1, q=2, v0=v0)) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("options", "expected"),
    [({"variant": "paper"}, [0.1**0.5 / 3] * 3), ({"q": 5}, [0, 0.1**0.5, 0])],
)
def test_copies_of_absent_clients_stay_and_count_in_the_mean_of_the_paper(options, expected):
    """v = 0.1, so that the only step is 0.1 / √0.1."""
    opt = FedAvgAdaptive(lr=0.1, **options)
    state = opt.init(torch.zeros(1, dtype=torch.float64), 3)
    opt.receive(state, torch.tensor([1]), torch.ones(1, 1).double(), torch.ones(1), 1)
    assert state["x"].flatten().tolist() == pytest.approx(expected)


@pytest.mark.parametrize("client_opt", [SGD, Adam(lr=0.1)], ids=str)
def test_slowmo_is_the_heavy_ball_and_without_momentum_fedavg(client_opt):
    slow = server_path(client_opt, SlowMo(lr=0.6, beta=0.7), rounds=8)
    assert slow == server_path(client_opt, FedAvgM(lr=0.6, beta=0.7), rounds=8)
    still = server_path(client_opt, SlowMo(beta=0), rounds=8)
    assert still == server_path(client_opt, AVG, rounds=8)


def test_fedadc_whose_clients_follow_no_momentum_is_slowmo():
    """Β_l = 0, β_g = β."""
    fedadc = server_path(SGD, FedAvg(lr=0.5), FedADC(beta_l=0, beta_g=0.9), rounds=8)
    assert fedadc == pytest.approx(server_path(SGD, SlowMo(lr=0.5), rounds=8), abs=1e-12)
