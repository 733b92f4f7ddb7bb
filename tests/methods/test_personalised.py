"""Methods with personal models: expected numbers, identities, and what they keep and refuse."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
import torch

from plfl.errors import ConfigError
from plfl.experiments.train import train
from plfl.federated.checkpoint import Checkpoint
from plfl.methods import Method
from plfl.methods.ditto import Ditto
from plfl.methods.fedbabu import FedBABU
from plfl.methods.fedopt import FedOpt
from plfl.methods.fedrep import FedRep
from plfl.methods.fine_tuning import FineTuning
from plfl.methods.per_fedavg import PerFedAvg
from plfl.optimizers.client.adam import Adam
from plfl.optimizers.client.sgd import Sgd
from plfl.optimizers.server.fedavg import FedAvg
from tests.helpers import tiny
from tests.helpers.problems import Q2, Quadratic, in_turns, trajectory

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
    assert seen[-1].report.bytes[0]["bytes_up"].tolist() == [8, 8]


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


@pytest.mark.parametrize("mean", [[0, 1], [1], []], ids=str)
def test_rows_of_absent_clients_stay(mean):
    before, last = trajectory(SGD, AVG, in_turns(Ditto(), [0, 1], mean), rounds=2)[1:]
    absent = [i for i in range(2) if i not in mean]
    assert torch.equal(before.scored[absent], last.scored[absent])
    assert not torch.equal(before.scored[mean], last.scored[mean]) or not mean


def cells(method: str, **blocks: Any) -> Any:
    """A tiny study of one method with every sharing scheme that it accepts."""
    grid = {"method": [method], "client_opt": ["adam"], "server_opt": ["fedavg"]}
    few = {"epochs": 1, "most_steps": 3}
    blocks["method"] = {"fedbabu": few, "fine_tuning": few} | blocks.get("method", {})
    blocks["grid"] = grid | {"sharing": ["P1", "P2"], "refused": "skip"} | blocks.get("grid", {})
    return tiny.study(**blocks)


PERSONAL = ["ditto", "fedbabu", "fedrep", "fine_tuning", "per_fedavg"]


@pytest.mark.parametrize("method", PERSONAL)
def test_engines_agree(method):
    tables = []
    for engine in ("stacked", "reference", "auto"):
        federation = {"rounds": 2, "local_steps": 3, "clip": 0.5}
        study = cells(method, compute={"engine": engine}, federation=federation)
        results = train(study, study.cells, tiny.dataset())
        tables.append(pd.concat([r.records for r in results.values()]))
    for other in tables[1:]:
        pd.testing.assert_frame_equal(tables[0], other, rtol=2e-3)


@pytest.mark.parametrize("method", PERSONAL)
def test_the_same_bits_in_any_company(method):
    study = cells(method, grid={"seeds": [1, 2]})
    together = train(study, study.cells, tiny.dataset())
    for cell in study.cells[::3]:
        (alone,) = train(study, [cell], tiny.dataset()).values()
        pd.testing.assert_frame_equal(alone.records, together[cell].records)


@pytest.mark.parametrize("method", PERSONAL)
def test_resuming_with_dropouts_a_schedule_and_the_best_models(method, tmp_path):
    federation = {"rounds": 5, "evaluate_every": 1, "keep": "best", "schedule": "cosine"}
    simulation = {"dropout": 0.3, "availability": 0.8}
    study = cells(method, federation=federation | {"simulation": simulation})
    whole = train(study, study.cells, tiny.dataset())

    def stop(t: int) -> None:
        if t == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(study, study.cells, tiny.dataset(), stop, Checkpoint(tmp_path, "job", 0))
    resumed = train(study, study.cells, tiny.dataset(), checkpoint=Checkpoint(tmp_path, "job", 0))
    for cell, result in whole.items():
        pd.testing.assert_frame_equal(resumed[cell].records, result.records)
        pd.testing.assert_frame_equal(resumed[cell].forecasts, result.forecasts)


@pytest.mark.parametrize(
    ("method", "blocks", "expected"),
    [
        ("ditto", {"grid": {"client_opt": ["proxadam"]}}, "draws the personal models towards x"),
        ("ditto", {"federation": {"opt_state": "keep"}}, "federation.opt_state"),
        ("fedrep", {"federation": {"ema": 0.9}}, "federation.ema"),
        ("fedrep", {"grid": {"sharing": ["P1", "P3"]}}, "fedrep does not work with .* P1"),
        ("fedbabu", {"sharing": {"LG": ["head"]}, "grid": {"sharing": ["LG"]}}, "only parameters"),
        ("fedbabu", {"federation": {"ema": 0.9}}, "federation.ema"),
        ("per_fedavg", {"grid": {"client_opt": ["prox"]}}, "proximal term refers"),
    ],
)
def test_refusals(method, blocks, expected):
    refused = {"grid": {"refused": "error", "sharing": ["P2"]} | blocks.get("grid", {})}
    with pytest.raises(ConfigError, match=expected):
        cells(method, **(blocks | refused))


def test_schemes_that_do_not_work_are_skipped_unless_all_are():
    assert {cell.sharing for cell in cells("fedrep").cells} == {"P2"}
    with pytest.raises(ConfigError, match="fedrep does not work with any of the sharing schemes"):
        cells("fedrep", grid={"sharing": ["P1"]})


class Counted(FedOpt):
    """Trains everyone twice a round, and notes which cycles it was told of."""

    def groups(self, f, t, present):
        return [present, present]

    def broadcast(self, f, t, clients):
        self.__dict__.setdefault("begun", []).append((t, f.cycle))
        return super().broadcast(f, t, clients)

    def end_cycle(self, f, t):
        self.__dict__.setdefault("ended", []).append((t, f.cycle))


def test_a_method_is_told_of_every_cycle_even_if_all_drop_out():
    from plfl.config.sections import Simulation
    from plfl.federated.clock import Clock

    method = Counted()

    def unlucky(f: Any) -> None:
        f.clock = Clock(Simulation(dropout=0.99), f.client_data.names, 0)

    trajectory(SGD, AVG, method, problem=Q2, made=unlucky)
    every = [(t, cycle) for t in (1, 2, 3) for cycle in (0, 1)]
    assert method.__dict__["ended"] == every
    assert sorted(set(method.__dict__["begun"])) == every
