"""Methods with personal models: identities, and what they keep and refuse.

test_personalised_held_out.py compares their numbers with an independent reference.
"""

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
from plfl.methods.ditto import Ditto
from plfl.methods.knn_per import KnnPer, best_share, neighbours_mean
from plfl.models.forecaster import Forecaster
from plfl.optimizers.client.adam import Adam
from plfl.optimizers.client.sgd import Sgd
from plfl.optimizers.server.fedavg import FedAvg
from plfl_reproductions.apfl import APFL
from plfl_reproductions.fedala import FedALA
from plfl_reproductions.fedamp import FedAMP
from plfl_reproductions.fedbabu import FedBABU
from plfl_reproductions.fedfomo import FedFomo, ranked
from plfl_reproductions.fedrep import FedRep
from plfl_reproductions.per_fedavg import PerFedAvg
from plfl_reproductions.pfedme import PFedMe
from tests.helpers import tiny
from tests.helpers.problems import Quadratic, QuadraticData, trajectory
from tests.helpers.refusals import naming

SGD, ADAM, AVG = Sgd(lr=0.1), Adam(lr=0.1, beta1=0.9, beta2=0.999), FedAvg()
Q2M = Quadratic([1, 4], [0, 1], [1, 0.5])
"""Clients with a body s and a head p, of which they minimise a/2 (s + p/2 − c)²."""
BODY: dict[str, Any] = {"problem": Q2M, "start": (2.0, 2.0), "shared": (True, False)}


def after(method: Method, client_opt: Any = SGD, **options: Any) -> Any:
    """What three rounds lead to."""
    return trajectory(client_opt, AVG, method, **options)[-1]


def near(expected: Any) -> Any:
    return pytest.approx(expected, abs=6e-11)


def test_what_fedbabu_sends_of_the_papers_model():
    layout = Forecaster(8, 12, 25, (150, 75), absolute=True).layout
    everything = torch.ones(60_276, dtype=torch.bool)
    assert FedBABU(head="last").shared_mask(everything, layout).sum() == 60_200
    assert FedBABU().shared_mask(everything, layout).sum() == 3_500


def test_fine_tuning_of_fedbabu():
    heads = after(FedBABU(epochs=2, tune="head"), **BODY)
    assert (heads.scored[:, 1] != heads.global_models[:, 1]).all()
    assert torch.equal(heads.scored[:, 0], heads.global_models[:, 0])
    assert torch.equal(after(FedBABU(epochs=0), **BODY).scored, heads.global_models)


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


PAIRS = Quadratic([1, 1, 1, 1], [-3, -2.5, 2, 3], [1])
"""Two pairs of clients that want opposite things."""


def test_fedamp_with_too_small_a_sigma_is_refused():
    with pytest.raises(ConfigError, match="sigma to at least 1"):
        after(FedAMP(attention="distance", sigma=0.9))


def test_fedfomo_sends_a_model_and_its_gains():
    traffic = trajectory(SGD, AVG, FedFomo(), rounds=2)[2].report.traffic
    up, down = (traffic[kind].tolist() for kind in ("bytes_up", "bytes_down"))
    assert (down, up) == ([8, 8], [16, 16])


def test_fedfomo_keeps_to_the_model_before_if_no_other_is_better():
    f = trajectory(SGD, AVG, FedFomo(), rounds=1)[0].f
    f.state.before[:] = torch.tensor([[0.0], [1.0]])
    assert torch.equal(f.global_models, f.state.before)
    f.state.own[0] = torch.inf
    assert torch.equal(f.global_models, f.state.before)


def test_fedfomos_server_learns_whose_models_help_and_explores():
    few = FedFomo(models=2, epsilon=0)
    *_, last = trajectory(SGD, AVG, few, problem=PAIRS, rounds=8)
    assert last.report.traffic["bytes_down"].tolist() == [16] * 4
    affinity = last.f.state.affinity
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


def test_each_client_chooses_its_share_of_memory_by_the_absolute_error():
    queries = np.array([[0, 0.2], [1, 0.4], [0.2, 1.8]])
    close = neighbours_mean(STORE, FOLLOWED, queries, 3, KnnPer()._exponents)
    assert close.tolist() == near([1.6703174054, 1.8652125532, 3.3304845478])
    outputs, loads = np.array([2, 2, 3.5]), np.array([1.9, 1.8, 3.45])
    assert best_share(close, outputs, loads) == 0.3
    mixed = outputs + np.arange(101)[:, None] / 100 * (close - outputs)
    squared = ((mixed - loads) ** 2).mean(1)
    assert (squared.argmin(), squared.min()) == (44, near(0.0074765375))


def test_all_horizons_have_the_same_neighbours_and_weights():
    query = np.array([[0.25, 0.5]])
    both = np.stack([FOLLOWED, 10 * FOLLOWED + 1], 1)
    (found,) = neighbours_mean(STORE, both, query, 3, KnnPer()._exponents)
    assert found.tolist() == pytest.approx([1.8769070891, 19.769070891], rel=1e-9)
    study = study_of("knn_per", windows={"horizons": 3})
    for result in train(study, study.cells, build(tiny.tables(), study.windows)).values():
        assert np.isfinite(result.records.query("split == 'test'")["mae"]).all()


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


@pytest.mark.parametrize(
    ("method", "blocks", "expected"),
    [
        ("ditto", {"grid": {"client_opt": ["proxadam"]}}, "pulls the personal models towards x"),
        ("ditto", {"federation": {"opt_state": "keep"}}, "federation.opt_state"),
        ("fedrep", {"federation": {"ema": 0.9}}, "federation.ema"),
        ("fedrep", {"grid": {"sharing": ["P1", "P3"]}}, "fedrep does not work with"),
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
    with naming(ConfigError, expected):
        study_of(method, **(blocks | refused))


def test_schemes_that_do_not_work_are_skipped_unless_all_are():
    assert {cell.sharing for cell in study_of("fedrep").cells} == {"P2"}
    with pytest.raises(ConfigError, match="fedrep does not work with any of the sharing schemes"):
        study_of("fedrep", grid={"sharing": ["P1"]})
