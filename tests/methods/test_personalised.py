"""Methods with personal models: expected numbers, identities, and what they keep and refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from plfl.base.errors import ConfigError
from plfl.data.windows import build
from plfl.experiments.train import train
from plfl.methods import Method
from plfl.methods.apfl import APFL
from plfl.methods.ditto import Ditto
from plfl.methods.fedala import FedALA
from plfl.methods.fedamp import FedAMP
from plfl.methods.fedbabu import FedBABU
from plfl.methods.fedfomo import FedFomo, ranked
from plfl.methods.fedopt import FedOpt
from plfl.methods.fedrep import FedRep
from plfl.methods.fine_tuning import FineTuning
from plfl.methods.knn_per import KnnPer, best_share, neighbours_mean
from plfl.methods.per_fedavg import PerFedAvg
from plfl.methods.pfedme import PFedMe
from plfl.models.forecaster import Forecaster
from plfl.optimizers.client.adam import Adam
from plfl.optimizers.client.sgd import Sgd
from plfl.optimizers.server.fedavg import FedAvg
from tests.helpers import personalised as reference
from tests.helpers import tiny
from tests.helpers.interruption import resumed
from tests.helpers.problems import Quadratic, QuadraticData, in_turns, trajectory

SGD, ADAM, AVG = Sgd(lr=0.1), Adam(lr=0.1, beta1=0.9, beta2=0.999), FedAvg()
Q2M = Quadratic([1, 4], [0, 1], [1, 0.5])
"""Clients with a body s and a head p, of which they minimise a/2 (s + p/2 − c)²."""
BODY: dict[str, Any] = {"problem": Q2M, "start": (2.0, 2.0), "shared": (True, False)}
HEAD: dict[str, Any] = BODY | {"shared": (False, True)}
WHOLE: dict[str, Any] = BODY | {"shared": (True, True)}
TURNS = [0], [1], [0]


def after(method: Method, client_opt: Any = SGD, **options: Any) -> Any:
    """What three rounds lead to."""
    return trajectory(client_opt, AVG, method, **options)[-1]


def path(method: Method, **options: Any) -> list[float]:
    """The shared parameter x₀, x₁, …"""
    return [seen.x[0].item() for seen in trajectory(SGD, AVG, method, **options)]


def near(expected: Any) -> Any:
    return pytest.approx(expected, abs=6e-11)


@pytest.mark.parametrize(
    ("options", "turns", "expected", "rows"),
    [
        ({}, None, [2, 1.49, 1.19165, 1.01711525], [[0.9652365], [1.068994]]),
        ({}, TURNS, [2, 1.62, 1.2232, 0.990792], None),
        (BODY, None, [2, 1.11875, 0.6876757812, 0.4718737183], [1.3969577026, 1.0749160156]),
        (BODY, TURNS, [0.3060546875], None),
        (HEAD, None, [2, 1.559375, 1.3684912109, 1.2680564194], [0.7018980408, 0.3703276367]),
        (HEAD, TURNS, [0.9717529297], None),
    ],
    ids=["FedAvg", "FedAvg in turns", "FedPer", "FedPer in turns", "LG", "LG in turns"],
)
def test_averages_of_what_is_shared(options, turns, expected, rows):
    method = in_turns(FedOpt(), *turns) if turns else FedOpt()
    seen = trajectory(SGD, AVG, method, **options)
    assert [one.x.item() for one in seen[-len(expected) :]] == near(expected)
    if rows:
        personal = ~np.array(options.get("shared", (False,)))
        assert seen[-1].local[:, personal].squeeze().tolist() == near(np.ravel(rows))


def test_dittos_server_ends_where_fedavgs_does():
    assert path(Ditto(), rounds=200)[-1] == near(0.7710843373)


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (Ditto(lam=1), [(1.64, 1.4), (1.3178, 1.1735), (1.057889, 1.0721225)]),
        (Ditto(lam=0.1, personal_steps=5), [None, None, (0.4545171583, 1.0056147037)]),
        (in_turns(Ditto(lam=1), *TURNS), [None, None, (1.269776, 1.343)]),
    ],
    ids=["whole", "more steps", "in turns"],
)
def test_personal_models_of_two_quadratics(method, expected):
    seen = trajectory(SGD, AVG, method)[1:]
    for one, wanted in zip(seen, expected, strict=True):
        if wanted is not None:
            assert one.scored[:, 0].tolist() == near(wanted)


def test_ditto_with_adam_and_with_a_personal_head():
    assert after(Ditto(), ADAM).scored[:, 0].tolist() == near([1.4014584337, 1.4026307442])
    found = after(Ditto(), **BODY).scored.tolist()
    assert found[0] == near([0.6276184092, 1.3404744292])
    assert found[1] == near([0.4926019922, 1.1588042344])


@pytest.mark.parametrize("client_opt", [SGD, ADAM], ids=str)
def test_dittos_server_is_fedopts(client_opt):
    for one, other in zip(
        trajectory(client_opt, AVG, Ditto(), **BODY),
        trajectory(client_opt, AVG, FedOpt(), **BODY),
        strict=True,
    ):
        assert torch.equal(one.x, other.x)
        assert torch.equal(one.local, other.local)


def test_ditto_without_its_term_trains_alone_and_with_it_ends_in_between():
    assert after(Ditto(lam=0)).scored[:, 0].tolist() == near([1.062882, 1.046656])
    long = after(Ditto(lam=1), rounds=300).scored[:, 0].tolist()
    assert long == near([0.3855421687, 0.9542168675])


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (FedRep(head_steps=2, body_steps=1), [2, 1.53340625, 1.2331790381, 1.0369585639]),
        (FedRep(head_steps=5, body_steps=2), [None, None, None, 0.9623453317]),
        (in_turns(FedRep(head_steps=2, body_steps=1), *TURNS), [None, None, None, 0.9680341732]),
        (FedBABU(), [2, 1.075, 0.533875, 0.217316875]),
        (in_turns(FedBABU(), *TURNS), [2, 1.43, 0.5148, 0.226988]),
    ],
    ids=["fedrep", "fedrep 5", "fedrep in turns", "fedbabu", "fedbabu in turns"],
)
def test_shared_bodies(method, expected):
    found = path(method, **BODY)
    for value, wanted in zip(found, expected, strict=True):
        if wanted is not None:
            assert value == near(wanted)


def test_fedreps_heads():
    found = after(FedRep(head_steps=2, body_steps=1), **BODY).local.tolist()
    assert found[0] == near([1.0461644093, 1.2739344999])
    assert found[1] == near([1.0277527185, 0.5607735218])


def test_fedrep_without_a_head_phase_is_fedbabu_and_heads_keep_their_bits():
    one, other = FedRep(head_steps=0, body_steps=2), FedBABU()
    for a, b in zip(
        trajectory(SGD, AVG, one, **BODY), trajectory(SGD, AVG, other, **BODY), strict=True
    ):
        assert torch.equal(a.x, b.x)
        assert (a.local[:, 1] == 2).all()
        assert (b.local[:, 1] == 2).all()


def test_fedbabu_with_more_steps_does_not_send_the_head():
    seen = trajectory(SGD, AVG, FedBABU(), **WHOLE, steps=5)
    assert seen[-1].x.item() == near(-0.2214244071)
    assert seen[-1].report.traffic["bytes_up"].tolist() == [8, 8]


def test_what_fedbabu_sends_of_the_papers_model():
    layout = Forecaster(8, 12, 25, (150, 75), absolute=True).layout
    everything = torch.ones(60_276, dtype=torch.bool)
    assert FedBABU(head="last").shared_mask(everything, layout).sum() == 60_200
    assert FedBABU().shared_mask(everything, layout).sum() == 3_500


def test_fine_tuning_of_fedbabu():
    found = after(FedBABU(epochs=2), **WHOLE).scored.tolist()
    assert found[0] == near([-0.0109300391, 1.885876543])
    assert found[1] == near([0.08692675, 1.9348049375])
    heads = after(FedBABU(epochs=2, tune="head"), **BODY)
    assert heads.scored[:, 1].tolist() == near([1.8797899586, 1.9174195875])
    assert torch.equal(heads.scored[:, 0], heads.global_models[:, 0])
    assert torch.equal(after(FedBABU(epochs=0), **BODY).scored, heads.global_models)


def test_fine_tuning_before_a_forecast():
    assert after(FineTuning()).scored[:, 0].tolist() == near([0.8238633525, 1.00616149])
    federations: list[Any] = []
    trajectory(SGD, AVG, FineTuning(), made=federations.append)
    (f,) = federations
    f.client_opt = ADAM
    assert f.own_models()[:, 0].tolist() == near([0.817517804, 0.9764489719])


def test_probing_the_head_before_fine_tuning():
    seen = after(FineTuning(head_epochs=2, epochs=2), **WHOLE)
    assert seen.x.tolist() == near([0.4439891815, 1.2219945908])
    first, second = seen.scored.tolist()
    assert first == near([0.2559460841, 1.0237931275])
    assert second == near([0.4172657537, 1.1877380157])
    first, second = after(FineTuning(epochs=2), **WHOLE).scored.tolist()
    assert first == near([0.2461792171, 1.1230896086])
    assert second == near([0.4109972954, 1.2054986477])
    probed = after(FineTuning(head_epochs=2, epochs=0), **WHOLE)
    assert torch.equal(probed.scored[:, 0], probed.global_models[:, 0])
    assert (probed.scored[:, 1] != probed.global_models[:, 1]).all()
    none = after(FineTuning(epochs=0), **WHOLE)
    assert torch.equal(none.scored, none.global_models)


HF = PerFedAvg(alpha=0.1, order="hf")


@pytest.mark.parametrize(
    ("method", "options", "expected", "adapted"),
    [
        (
            PerFedAvg(alpha=0.1),
            {},
            [2, 1.6169, 1.347638165, 1.1583874843],
            [1.0425487358, 1.0950324906],
        ),
        (HF, {}, [2, 1.710929, 1.4829535895, 1.3031611239], [1.1728450115, 1.1818966743]),
        (
            in_turns(PerFedAvg(alpha=0.1), *TURNS),
            {},
            [2, 1.6562, 1.37902112, 1.1419673895],
            [1.0277706505, 1.0851804337],
        ),
        (PerFedAvg(alpha=0.1), BODY, [2, 1.4018554688, 0.99874928, 0.7261077704], None),
    ],
    ids=["first order", "hessian", "in turns", "personal head"],
)
def test_a_start_that_adapts_fast(method, options, expected, adapted):
    seen = trajectory(SGD, AVG, method, **options)
    assert [one.x.item() for one in seen] == near(expected)
    if adapted:
        assert seen[-1].scored[:, 0].tolist() == near(adapted)


def test_per_fedavg_without_an_inner_step_and_in_the_long_run():
    for one, other in zip(
        trajectory(SGD, AVG, PerFedAvg(alpha=0)), trajectory(SGD, AVG), strict=True
    ):
        assert torch.equal(one.x, other.x)
        assert torch.equal(one.local, other.local)
    limits = [path(m, steps=1, rounds=300)[-1] for m in (PerFedAvg(alpha=0.1), HF)]
    assert limits == near([0.7272727273, 0.64])


FIXED = APFL(adapt_alpha="never")


@pytest.mark.parametrize(
    ("method", "options", "expected"),
    [
        (FIXED, {"rounds": 1}, [1.71375, 1.51]),
        (FIXED, {"rounds": 2}, [1.4276554688, 1.31875]),
        (FIXED, {}, [1.2381992769, 1.20686875]),
        (APFL(alpha=0.25, adapt_alpha="never"), {}, [1.1645136466, 1.2204100374]),
        (APFL(), {}, [1.1873516711, 1.1968530026]),
        (in_turns(FIXED, *TURNS), {}, [1.3258545937, 1.4701]),
    ],
)
def test_mixtures_of_two_models(method, options, expected):
    assert after(method, **options).scored[:, 0].tolist() == near(expected)


def test_apfls_shares_and_its_mixture_of_personal_parts():
    federations: list[Any] = []
    trajectory(SGD, AVG, APFL(), made=federations.append)
    assert federations[0].state.share.tolist() == near([0.3824507726, 0.4253726303])
    first, second = after(FIXED, **BODY).scored.tolist()
    assert first == near([0.86216023, 1.5258115603])
    assert second == near([0.6815095215, 1.2460233154])


@pytest.mark.parametrize("client_opt", [SGD, ADAM], ids=str)
def test_apfl_between_federated_and_local_training(client_opt):
    plain = after(FedOpt(), client_opt, **BODY)
    none = after(APFL(alpha=0, adapt_alpha="never"), client_opt, **BODY)
    assert torch.equal(none.x, plain.x)
    assert torch.equal(none.scored, plain.local)
    assert torch.equal(after(APFL(), client_opt, **BODY).x, plain.x)
    whole = after(APFL(alpha=1, adapt_alpha="never"), SGD, **BODY)
    alone = after(FedOpt(), SGD, **BODY | {"shared": (False, False)})
    torch.testing.assert_close(whole.scored, alone.local, rtol=0, atol=1e-12)


A = PFedMe(lam=1, inner_steps=5, eta=0.1, minibatches=2)


@pytest.mark.parametrize(
    ("method", "rates", "options", "expected", "personal"),
    [
        (
            A,
            (0.1, 1),
            {},
            [1.8483975549, 1.7140163262, 1.594900077],
            [[0.9296597217], [1.1326396891]],
        ),
        (
            PFedMe(lam=15, inner_steps=5, eta=0.005, minibatches=3),
            (0.05, 1),
            {},
            [1.8914364277],
            [[1.7892220881], [1.7085439069]],
        ),
        (
            PFedMe(lam=2, inner_steps=3, eta=0.1, minibatches=2),
            (0.1, 2),
            {},
            [1.0847980433],
            [[0.8760386562], [1.0819252133]],
        ),
        (in_turns(A, *TURNS), (0.1, 1), {}, [1.5890480361], [[0.9327849004], [1.1575234072]]),
        (
            A,
            (0.1, 1),
            BODY,
            [1.5218284265],
            [[0.9090426663, -0.3009903184], [1.1825130682, -0.2001274417]],
        ),
    ],
    ids=["A", "strong", "beta 2", "in turns", "personal head"],
)
def test_moreau_envelopes(method, rates, options, expected, personal):
    eta_p, beta = rates
    seen = trajectory(Sgd(lr=eta_p), FedAvg(lr=beta), method, **options)
    assert [one.x.item() for one in seen[-len(expected) :]] == near(expected)
    for row, wanted in zip(seen[-1].scored.tolist(), personal, strict=True):
        assert row == near(wanted)


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (FedRep(head_steps=3, body_steps=2), ["abc", "de"]),
        (Ditto(personal_steps=3), ["abcde", "abc"]),
        (APFL(), ["abcde"]),
        (PerFedAvg(), ["abcde"]),
        (PerFedAvg(order="hf"), list("abcde")),
        (PFedMe(inner_steps=2), ["aabbccddee"]),
    ],
    ids=str,
)
def test_every_local_step_has_the_rate_of_its_number(method, expected, monkeypatch):
    """The letters are the factors of the five steps of the second round."""
    rates, train, slowed = [], Quadratic.train, Sgd.slowed

    def watched(self, task):
        if task.rates is not None:
            rates.append(task.rates)
        return train(self, task)

    def slow(self, factor):
        rates.append((factor,))
        return slowed(self, factor)

    def made(f):
        settings = f.client_data.settings
        f.client_data.settings = settings.model_copy(update={"schedule": "cosine", "warm_up": 0.3})

    monkeypatch.setattr(Quadratic, "train", watched)
    monkeypatch.setattr(Sgd, "slowed", slow)
    after(method, **BODY, rounds=2, steps=5, made=made)
    numbers = np.linspace(0, 1, 8)[2:7]
    factors = dict(zip("abcde", (1 + np.cos(np.pi * numbers)) / 2, strict=True))
    for found, letters in zip(rates[-len(expected) :], expected, strict=True):
        assert found == pytest.approx([factors[letter] for letter in letters])


def test_the_loss_of_a_round_is_the_mean_over_all_minibatches():
    """With a rate of 0, so to say: those of three and two steps are those of five."""
    losses = {}
    for method, options in (("fedopt", {}), ("fedrep", {"head_steps": 3, "body_steps": 2})):
        still = {"client_opt": {"adam": {"lr": 1e-12}}, "grid": {"sharing": ["P2"]}}
        federation = {"local_steps": 5, "rounds": 2}
        study = study_of(method, **still, method={method: options}, federation=federation)
        (result,) = train(study, study.cells, tiny.dataset()).values()
        losses[method] = result.records.query("split == 'train'")["loss"].to_numpy()
    np.testing.assert_allclose(losses["fedrep"], losses["fedopt"], rtol=1e-5)


def test_fedala_learns_on_other_passes_in_every_round(monkeypatch):
    purposes, passes = [], QuadraticData.passes

    def watched(self, purpose, *options):
        purposes.append(purpose)
        return passes(self, purpose, *options)

    monkeypatch.setattr(QuadraticData, "passes", watched)
    after(FedALA(subset="shared"))
    assert len(set(purposes)) == len(purposes) == 3


def test_pfedme_with_exact_proximal_points():
    """With K → ∞, R = 1, λ = 1, η = 0.5, and where η λ = 1."""
    exact = {"inner_steps": 300, "minibatches": 1}
    found = path(PFedMe(lam=1, eta=0.5, **exact), rounds=100)
    assert found[1:4] == near([1.55, 1.24625, 1.04121875])
    assert found[-1] == near(0.6153846154)
    seen = after(PFedMe(lam=1, eta=1, **exact), rounds=1)
    points = [(a * c + 2) / (a + 1) for a, c in ((1, 0), (4, 1))]
    assert seen.scored[:, 0].tolist() == near(points)
    assert seen.x.item() == near(sum(points) / 2)


def test_pfedme_with_a_server_that_does_not_step():
    """β = 0, as nearly as a rate above 0 allows."""
    seen = trajectory(SGD, FedAvg(lr=1e-300), A)
    assert all(torch.equal(one.x, seen[0].x) for one in seen)
    assert (seen[-1].scored != seen[0].scored).all()


def fedala(**options: Any) -> FedALA:
    return FedALA(subset="shared", **options)


@pytest.mark.parametrize(
    ("method", "options", "x", "local", "weights"),
    [
        (
            fedala(eta_w=1, first=10),
            {},
            [1.49, 1.16825, 0.99646925, 0.9108670411],
            [0.8051071408, 1.0166269414],
            [0.9499904469, 0.009366052],
        ),
        (
            fedala(eta_w=0.5, first=1),
            {},
            [0.9144137708],
            [0.8209778852, 1.0078496565],
            [0.9735564135, 0.8680902319],
        ),
        (
            in_turns(fedala(eta_w=0.5, first=2), [0, 1], [1], [0], [0, 1]),
            {},
            [0.881880609],
            [0.7641445052, 0.9996167129],
            [1, 0.748983755],
        ),
    ],
    ids=["fast", "slow", "in turns"],
)
def test_learned_starts(method, options, x, local, weights):
    federations: list[Any] = []
    seen = trajectory(SGD, AVG, method, rounds=4, made=federations.append, **options)
    assert [one.x.item() for one in seen[-len(x) :]] == near(x)
    assert seen[-1].scored[:, 0].tolist() == near(local)
    assert federations[0].state.W[:, 0].tolist() == near(weights)


def test_fedala_learns_the_start_of_the_head_alone():
    federations: list[Any] = []
    method = FedALA(subset="last", eta_w=0.5, first=1)
    seen = trajectory(SGD, AVG, method, rounds=4, made=federations.append, **WHOLE)
    assert seen[-1].x.tolist() == near([0.3342258398, 1.151873293])
    assert federations[0].state.W[:, 0].tolist() == near([0.9978280093, 0.8387503878])


def test_fedala_that_learns_nothing_and_for_one_client():
    assert path(fedala(eta_w=0), rounds=6) == near(path(FedOpt(), rounds=6))
    one = Quadratic([4], [1], [1])
    found = path(fedala(), problem=one, rounds=6)
    assert found == near(path(FedOpt(), problem=one, rounds=6))


def apart(f: Any) -> None:
    """The models of the clients start at 2 and 1."""
    f.local = torch.tensor([[2.0], [1.0]], dtype=torch.float64)
    f.state.w = f.local.clone()


PAIRS = Quadratic([1, 1, 1, 1], [-3, -2.5, 2, 3], [1])
"""Two pairs of clients that want opposite things."""
FEDAMP = FedAMP(attention="distance", sigma=2)


@pytest.mark.parametrize(
    ("method", "options", "expected"),
    [
        (FEDAMP, {"rounds": 1}, [1.5854122406, 1.0454897995]),
        (FEDAMP, {"rounds": 2}, [1.2580358468, 1.0531977452]),
        (FEDAMP, {}, [1.0135366993, 1.0363230107]),
        (in_turns(FEDAMP, *TURNS), {}, [1.2575715953, 1.0369917669]),
        (FEDAMP, {"steps": 400}, [0.3508447684, 0.9531516248]),
        (FedAMP(), {}, [0.99252875, 1.038446875]),
        (FedAMP(attention="distance", sigma=1e12), {}, [1.102736, 1]),
        (FedAMP(attention="distance", sigma=2, lam=0), {}, [1.062882, 1]),
        (FEDAMP, {"rounds": 200}, [0.2668589787, 0.9332852553]),
        (FEDAMP, {"rounds": 200, "steps": 5}, [0.2668589787, 0.9332852553]),
    ],
)
def test_means_of_similar_models(method, options, expected):
    seen = after(method, made=apart, **options)
    assert seen.scored[:, 0].tolist() == near(expected)


def test_what_fedamps_server_sends():
    federations: list[Any] = []
    first = trajectory(SGD, AVG, FEDAMP, rounds=1, made=lambda f: (apart(f), federations.append(f)))
    assert first[0].global_models[:, 0].tolist() == near([1.6967346701, 1.3032653299])
    half = FedAMP(attention="distance", sigma=1e12, alpha=5e11)
    mean = trajectory(SGD, AVG, half, rounds=1, made=apart)[0].global_models
    assert mean[:, 0].tolist() == near([1.5, 1.5])
    with pytest.raises(ConfigError, match="raise sigma to at least 1"):
        after(FedAMP(attention="distance", sigma=0.9))


@pytest.mark.parametrize(
    "method", [FedAMP(), FedAMP(attention="distance", sigma=5)], ids=["cosine", "distance"]
)
def test_fedamps_weights_find_the_clients_that_are_alike(method):
    federations: list[Any] = []
    trajectory(SGD, AVG, method, problem=PAIRS, start=(0.1,), made=federations.append)
    (f,) = federations
    assert method._weights(f.state.w).argmax(1).tolist() == [1, 0, 3, 2]


def test_mixtures_of_models_that_fit():
    """From 2 with losses of 2, the clients gain 0.6878 and 1.0752, 1.2312 and 1.7408."""
    seen = trajectory(SGD, AVG, FedFomo(), rounds=2)
    assert seen[1].local[:, 0].tolist() == near([1.62, 1.36])
    starts = [2 - 1.763 / (0.6878 / 0.38 + 1.0752 / 0.64), 2 - 2.972 / (1.2312 / 0.38 + 2.72)]
    assert seen[1].global_models[:, 0].tolist() == near(starts)
    assert seen[2].local[:, 0].tolist() == near([0.81 * starts[0], 0.64 + 0.36 * starts[1]])
    up, down = (seen[2].report.traffic[kind].tolist() for kind in ("bytes_up", "bytes_down"))
    assert (down, up) == ([8, 8], [16, 16])


def test_fedfomo_keeps_to_the_model_before_if_no_other_is_better():
    federations: list[Any] = []
    trajectory(SGD, AVG, FedFomo(), rounds=1, made=federations.append)
    (f,) = federations
    f.state.before[:] = torch.tensor([[0.0], [1.0]])
    assert torch.equal(f.global_models, f.state.before)
    f.state.own[0] = torch.inf
    assert torch.equal(f.global_models, f.state.before)


def test_fedfomos_server_learns_whose_models_help_and_explores():
    federations: list[Any] = []
    few = FedFomo(models=2, epsilon=0)
    seen = trajectory(SGD, AVG, few, problem=PAIRS, rounds=8, made=federations.append)
    assert seen[-1].report.traffic["bytes_down"].tolist() == [16] * 4
    (affinity,) = (f.state.affinity for f in federations)
    assert (affinity.diagonal() == 0).all()
    assert affinity.fill_diagonal_(-torch.inf).argmax(1).tolist() == [1, 0, 3, 2]
    ids, values = np.arange(5), np.array([0.0, 3, 1, 3, 2])
    drawn = {tuple(ranked(ids, values, 3, 0, np.random.default_rng(s))) for s in range(20)}
    assert drawn == {(1, 3, 4), (3, 1, 4)}
    explored = [tuple(ranked(ids, values, 3, 1, np.random.default_rng(s))) for s in range(200)]
    assert {i for some in explored for i in some} == set(range(5))
    assert all(len(set(some)) == 3 for some in explored)
    with pytest.raises(ConfigError, match="no others' models to send"):
        trajectory(SGD, AVG, FedFomo(), problem=Quadratic([1], [0], [1]))


@pytest.mark.parametrize("mean", [[0, 1], [1], []], ids=str)
def test_rows_of_absent_clients_stay(mean):
    before, last = trajectory(SGD, AVG, in_turns(Ditto(), [0, 1], mean), rounds=2)[1:]
    absent = [i for i in range(2) if i not in mean]
    assert torch.equal(before.scored[absent], last.scored[absent])
    assert not torch.equal(before.scored[mean], last.scored[mean]) or not mean


def study_of(name: str, **blocks: Any) -> Any:
    """A tiny study of one method with every sharing scheme that it accepts."""
    grid = {"method": [name], "client_opt": ["adam"], "server_opt": ["fedavg"]}
    few = {"epochs": 1, "most_steps": 3}
    fedala = {"subset": "shared", "first": 2, "most_steps": 2}
    method_blocks = {"fedbabu": few, "fine_tuning": few, "fedala": fedala}
    given = blocks.get("method", {})
    merged = {key: method_blocks.get(key, {}) | given.get(key, {}) for key in method_blocks | given}
    blocks["method"] = merged
    blocks["grid"] = grid | {"sharing": ["P1", "P2"], "refused": "skip"} | blocks.get("grid", {})
    return tiny.study(**blocks)


PERSONAL = [
    "apfl",
    "ditto",
    "fedala",
    "fedamp",
    "fedbabu",
    "fedfomo",
    "fedrep",
    "fine_tuning",
    "knn_per",
    "per_fedavg",
    "pfedme",
]


@pytest.mark.parametrize("method", PERSONAL)
def test_engines_agree(method):
    tables = []
    for engine in ("stacked", "reference", "auto"):
        federation = {"rounds": 2, "local_steps": 3, "clip": 0.5}
        study = study_of(method, compute={"engine": engine}, federation=federation)
        results = train(study, study.cells, tiny.dataset())
        tables.append(pd.concat([r.records for r in results.values()]))
    for other in tables[1:]:
        pd.testing.assert_frame_equal(tables[0], other, rtol=2e-3)


@pytest.mark.parametrize("method", ["fine_tuning", "fedbabu", "fedadc_plus"])
def test_fewer_steps_for_one_method_are_fewer_steps(method):
    """A method's own `steps` do what `federation.local_steps` does."""
    tables = []
    for whole, own in ((3, None), (4, 3)):
        blocks = {"federation": {"local_steps": whole}, "method": {method: {"steps": own}}}
        study = study_of(method, grid={"sharing": ["P2"]}, **blocks)
        (result,) = train(study, study.cells, tiny.dataset()).values()
        tables.append(result.records)
    pd.testing.assert_frame_equal(*tables)


STORE = np.array([[0.0, 0], [1, 0], [0, 2], [3, 3]])
FOLLOWED = np.array([1.0, 2, 4, 8])


@pytest.mark.parametrize(
    ("kernel", "k", "expected"),
    [("scaled", 3, 1.8769070891), ("plain", 3, 1.8874489361), ("scaled", 1, 1.0)],
)
def test_a_mean_of_neighbours(kernel, k, expected):
    method = KnnPer(kernel=kernel)
    query = np.array([[0.25, 0.5]])
    (found,) = neighbours_mean(STORE, FOLLOWED, query, k, method._exponents)
    assert found == near(expected)


def test_each_client_chooses_its_share_of_memory_by_the_absolute_error():
    queries = np.array([[0, 0.2], [1, 0.4], [0.2, 1.8]])
    close = neighbours_mean(STORE, FOLLOWED, queries, 3, KnnPer()._exponents)
    assert close.tolist() == near([1.6703174054, 1.8652125532, 3.3304845478])
    outputs, loads = np.array([2, 2, 3.5]), np.array([1.9, 1.8, 3.45])
    assert best_share(close, outputs, loads) == 0.3
    mixed = outputs + np.arange(101)[:, None] / 100 * (close - outputs)
    squared = ((mixed - loads) ** 2).mean(1)
    assert (squared.argmin(), squared.min()) == (44, near(0.0074765375))
    assert reference.best_share(close, outputs, loads) == near(0.4396161037)


def test_all_horizons_have_the_same_neighbours_and_weights():
    query = np.array([[0.25, 0.5]])
    both = np.stack([FOLLOWED, 10 * FOLLOWED + 1], 1)
    (found,) = neighbours_mean(STORE, both, query, 3, KnnPer()._exponents)
    assert found.tolist() == pytest.approx([1.8769070891, 19.769070891], rel=1e-9)
    study = study_of("knn_per", windows={"horizons": 3})
    for result in train(study, study.cells, build(tiny.tables(), study.windows)).values():
        assert np.isfinite(result.records.query("split == 'test'")["mae"]).all()


def test_a_memory_that_is_worse_has_no_share_of_the_forecast():
    loads = np.array([1.0, 2, 4])
    assert best_share(loads + 5, loads, loads) == 0


def test_memory_far_away_still_has_weights_and_is_mixed_into_local_alone():
    far = neighbours_mean(STORE, FOLLOWED, np.array([[1e4, 0.0]]), 2, KnnPer()._exponents)
    assert np.isfinite(far).all()
    tables = {}
    for name in ("fedopt", "knn_per"):
        study = study_of(name, grid={"sharing": ["P2", "P3"]})
        for cell, result in train(study, study.cells, tiny.dataset()).items():
            tables[name, cell.sharing] = result.records.query("split == 'validation'")
            found = {*(result.models or {})}
            assert found == ({"global"} if name == "knn_per" else set(result.models or {}))
    for scheme in ("P2", "P3"):
        plain, mixed = (tables[name, scheme] for name in ("fedopt", "knn_per"))
        (a, b) = (t.query("model == 'global'")["mae"].tolist() for t in (plain, mixed))
        assert a == b
        local = mixed.query("model == 'local'")["mae"].to_numpy()
        assert (local <= np.array(b) * (1 + 1e-6)).all()
        assert (local < np.array(b)).any()


@pytest.mark.parametrize("method", PERSONAL)
def test_resuming_with_dropouts_a_schedule_and_the_best_models(method, tmp_path):
    keep = "last" if method == "knn_per" else "best"
    federation = {"rounds": 5, "evaluate_every": 1, "keep": keep, "schedule": "cosine"}
    simulation = {"dropout": 0.3, "availability": 0.8}
    study = study_of(method, federation=federation | {"simulation": simulation})
    whole = train(study, study.cells, tiny.dataset())
    later = resumed(study, tiny.dataset(), tmp_path, after=3)
    for cell, result in whole.items():
        pd.testing.assert_frame_equal(later[cell].records, result.records)
        pd.testing.assert_frame_equal(later[cell].forecasts, result.forecasts)


@pytest.mark.parametrize(
    ("method", "blocks", "expected"),
    [
        ("ditto", {"grid": {"client_opt": ["proxadam"]}}, "pulls the personal models towards x"),
        ("ditto", {"federation": {"opt_state": "keep"}}, "federation.opt_state"),
        ("fedrep", {"federation": {"ema": 0.9}}, "federation.ema"),
        ("fedrep", {"grid": {"sharing": ["P1", "P3"]}}, "fedrep does not work with .* P1"),
        ("fedbabu", {"sharing": {"LG": ["head"]}, "grid": {"sharing": ["LG"]}}, "only parameters"),
        ("fedbabu", {"federation": {"ema": 0.9}}, "federation.ema"),
        ("per_fedavg", {"grid": {"client_opt": ["prox"]}}, "proximal term refers"),
        ("apfl", {"grid": {"client_opt": ["prox"]}}, "the term twice"),
        ("pfedme", {"grid": {"client_opt": ["prox"]}}, "towards w"),
        ("fedala", {"grid": {"client_opt": ["prox"]}}, "anchor"),
        ("fedala", {"method": {"fedala": {"subset": "mlp"}}}, "have to be shared"),
        ("fedamp", {"grid": {"client_opt": ["prox"]}}, "towards u_i"),
        ("knn_per", {"federation": {"keep": "best"}}, "federation.keep"),
        ("knn_per", {"model": {"name": "gru"}}, "hidden features"),
        ("fedamp", {"grid": {"server_opt": ["fedadam"]}}, "use fedavg with lr 1"),
        ("fedfomo", {"grid": {"server_opt": ["fedadam"]}}, "use fedavg with lr 1"),
    ],
)
def test_refusals(method, blocks, expected):
    refused = {"grid": {"refused": "error", "sharing": ["P2"]} | blocks.get("grid", {})}
    with pytest.raises(ConfigError, match=expected):
        study_of(method, **(blocks | refused))


def test_schemes_that_do_not_work_are_skipped_unless_all_are():
    assert {cell.sharing for cell in study_of("fedrep").cells} == {"P2"}
    with pytest.raises(ConfigError, match="fedrep does not work with any of the sharing schemes"):
        study_of("fedrep", grid={"sharing": ["P1"]})
