"""The reference of personalised methods against numbers and identities of their specification."""

from dataclasses import replace

import numpy as np
import pytest

from tests.helpers import personalised as reference
from tests.helpers.personalised import Adam, Array, Problem

Q2 = Problem((1, 4), (0, 1))
Q2M = Problem((1, 4), (0, 1), (1.0, 0.5), (2.0, 2.0), (True, False))
ALT = ((0,), (1,), (0,))
HEAD = np.array([False, True])
AMP = replace(Q2, start=((2.0,), (1.0,)))


def alternating(problem: Problem) -> Problem:
    return replace(problem, present=ALT)


def near(found: object, expected: object) -> None:
    """Equal to the ten digits that the specification gives."""
    np.testing.assert_allclose(np.squeeze(found), expected, rtol=0, atol=6e-11)


def path(seen: list[reference.Seen]) -> list[float]:
    return [float(s.x[0]) for s in seen]


def test_fedavg() -> None:
    near(path(reference.fedavg(Q2)), [2, 1.49, 1.19165, 1.01711525])
    near(path(reference.fedavg(alternating(Q2))), [2, 1.62, 1.2232, 0.990792])
    near(reference.fedavg(Q2)[3].local, [0.9652365, 1.068994])


@pytest.mark.parametrize(
    ("optimiser", "expected"),
    [(Q2.optimiser, [0.8238633525, 1.00616149]), (Adam(0.1), [0.817517804, 0.9764489719])],
)
def test_fine_tuning(optimiser: Adam, expected: list[float]) -> None:
    models = reference.global_models(Q2, reference.fedavg(Q2)[3])
    near(reference.fine_tuned(replace(Q2, optimiser=optimiser), models, 2), expected)


@pytest.mark.parametrize(
    ("head_steps", "expected"),
    [
        (2, [[0.2559460841, 1.0237931275], [0.4172657537, 1.1877380157]]),
        (0, [[0.2461792171, 1.1230896086], [0.4109972954, 1.2054986477]]),
    ],
)
def test_probing_the_head_before_fine_tuning(head_steps: int, expected: list[list[float]]) -> None:
    problem = replace(Q2M, shared=(True, True))
    models = reference.global_models(problem, reference.fedavg(problem)[3])
    near(models[0], [0.4439891815, 1.2219945908])
    near(reference.fine_tuned(problem, models, 2, HEAD, head_steps), expected)
    body = reference.fine_tuned(problem, models, 0, HEAD, head_steps)[:, 0]
    assert (body == models[:, 0]).all()


def test_ditto() -> None:
    seen = reference.ditto(Q2, 1, 2)
    expected = [[1.64, 1.4], [1.3178, 1.1735], [1.057889, 1.0721225]]
    near([s.local[:, 0] for s in seen[1:]], expected)
    assert path(seen) == path(reference.fedavg(Q2))
    near(reference.ditto(Q2, 0.1, 5)[3].local, [0.4545171583, 1.0056147037])
    near(reference.ditto(alternating(Q2), 1, 2)[3].local, [1.269776, 1.343])
    adam = replace(Q2, optimiser=Adam(0.1))
    near(reference.ditto(adam, 1, 2)[3].local, [1.4014584337, 1.4026307442])
    expected = [[0.6276184092, 1.3404744292], [0.4926019922, 1.1588042344]]
    near(reference.ditto(Q2M, 1, 2)[3].local, expected)


def test_limits_of_ditto() -> None:
    near(reference.ditto(Q2, 0, 2)[3].local, [1.062882, 1.046656])
    seen = reference.ditto(replace(Q2, present=((0, 1),) * 100), 1, 2)
    near(seen[-1].x, 0.7710843373)
    near(seen[-1].local, [0.3855421687, 0.9542168675])


def test_fedrep() -> None:
    seen = reference.fedrep(Q2M, 2, 1)
    near(path(seen), [2, 1.53340625, 1.2331790381, 1.0369585639])
    near(seen[3].local, [[1.0461644093, 1.2739344999], [1.0277527185, 0.5607735218]])
    near(path(reference.fedrep(Q2M, 5, 2))[3], 0.9623453317)
    near(path(reference.fedrep(alternating(Q2M), 2, 1))[3], 0.9680341732)
    near(path(reference.fedrep(Q2M, 2, 1, body_first=True))[3], 0.8525988338)


def test_fedbabu() -> None:
    seen = reference.fedbabu(Q2M, HEAD)
    near(path(seen), [2, 1.075, 0.533875, 0.217316875])
    assert all((s.local[:, 1] == 2).all() for s in seen)
    near(path(reference.fedbabu(replace(Q2M, steps=5), HEAD))[3], -0.2214244071)
    near(path(reference.fedbabu(alternating(Q2M), HEAD)), [2, 1.43, 0.5148, 0.226988])
    models = reference.global_models(Q2M, seen[3])
    expected = [[-0.0109300391, 1.885876543], [0.08692675, 1.9348049375]]
    near(reference.fine_tuned(Q2M, models, 2), expected)
    head = reference.fine_tuned(Q2M, models, 0, HEAD, 2)
    near(head[:, 1], [1.8797899586, 1.9174195875])
    rep = reference.fedrep(Q2M, 0, 2)
    assert all((s.local == r.local).all() for s, r in zip(seen, rep, strict=True))


@pytest.mark.parametrize(
    ("delta", "problem", "expected", "adapted"),
    [
        (None, Q2, [2, 1.6169, 1.347638165, 1.1583874843], [1.0425487358, 1.0950324906]),
        (1e-3, Q2, [2, 1.710929, 1.4829535895, 1.3031611239], [1.1728450115, 1.1818966743]),
        (
            None,
            alternating(Q2),
            [2, 1.6562, 1.37902112, 1.1419673895],
            [1.0277706505, 1.0851804337],
        ),
    ],
)
def test_per_fedavg(
    delta: float | None, problem: Problem, expected: list[float], adapted: list[float]
) -> None:
    seen = reference.per_fedavg(problem, 0.1, delta)
    near(path(seen), expected)
    models = reference.global_models(problem, seen[3])
    near(reference.adapted(problem, models, 0.1), adapted)


def test_limits_of_per_fedavg() -> None:
    near(path(reference.per_fedavg(Q2M, 0.1)), [2, 1.4018554688, 0.99874928, 0.7261077704])
    assert path(reference.per_fedavg(Q2, 0)) == path(reference.fedavg(Q2))
    long = replace(Q2, steps=1, present=((0, 1),) * 300)
    near(path(reference.per_fedavg(long, 0.1))[-1], 0.7272727273)
    near(path(reference.per_fedavg(long, 0.1, 1e-3))[-1], 0.64)


def test_apfl() -> None:
    seen = reference.apfl(Q2, 0.5)
    expected = [[1.71375, 1.51], [1.4276554688, 1.31875], [1.2381992769, 1.20686875]]
    near([s.local[:, 0] for s in seen[1:]], expected)
    assert path(seen) == path(reference.fedavg(Q2))
    near(reference.apfl(Q2, 0.25)[3].local, [1.1645136466, 1.2204100374])
    adaptive = reference.apfl(Q2, 0.5, "round")[3]
    near(adaptive.local, [1.1873516711, 1.1968530026])
    near(adaptive.extra, [0.3824507726, 0.4253726303])
    near(reference.apfl(alternating(Q2), 0.5)[3].local, [1.3258545937, 1.4701])
    expected = [[0.86216023, 1.5258115603], [0.6815095215, 1.2460233154]]
    near(reference.apfl(Q2M, 0.5)[3].local, expected)


def test_limits_of_apfl() -> None:
    own = reference.fedavg(replace(Q2, shared=(False,)))[3].local
    near(reference.apfl(Q2, 1)[3].local, own[:, 0])
    near(reference.apfl(Q2, 0)[3].local, reference.fedavg(Q2)[3].local[:, 0])


SETTING_A = replace(Q2, steps=5)


def test_pfedme() -> None:
    seen = reference.pfedme(SETTING_A, 1, 2, 0.1)
    near(path(seen)[1:], [1.8483975549, 1.7140163262, 1.594900077])
    near(seen[3].local, [0.9296597217, 1.1326396891])
    gentle = replace(Q2, steps=5, optimiser=reference.Sgd(0.05))
    seen = reference.pfedme(gentle, 15, 3, 0.005)
    near(path(seen)[3], 1.8914364277)
    near(seen[3].local, [1.7892220881, 1.7085439069])
    seen = reference.pfedme(replace(Q2, steps=3, server_lr=2), 2, 2, 0.1)
    near(path(seen)[3], 1.0847980433)
    near(seen[3].local, [0.8760386562, 1.0819252133])
    seen = reference.pfedme(alternating(SETTING_A), 1, 2, 0.1)
    near(path(seen)[3], 1.5890480361)
    near(seen[3].local, [0.9327849004, 1.1575234072])
    seen = reference.pfedme(replace(Q2M, steps=5), 1, 2, 0.1)
    near(path(seen)[3], 1.5218284265)
    near(seen[3].local, [[0.9090426663, -0.3009903184], [1.1825130682, -0.2001274417]])


def test_limits_of_pfedme() -> None:
    exact = replace(Q2, steps=200, present=((0, 1),) * 40)
    seen = path(reference.pfedme(exact, 1, 1, 0.5))
    near(seen[1:4], [1.55, 1.24625, 1.04121875])
    long = replace(exact, present=((0, 1),) * 200)
    near(path(reference.pfedme(long, 1, 1, 0.5))[-1], 0.6153846154)
    assert set(path(reference.pfedme(replace(Q2, server_lr=0), 1, 2, 0.1))) == {2.0}


FOUR = ((0, 1),) * 4


@pytest.mark.parametrize(
    ("rate", "first", "present", "expected", "local", "weights"),
    [
        (1, 10, FOUR, 0.9108670411, [0.8051071408, 1.0166269414], [0.9499904469, 0.009366052]),
        (0.5, 1, FOUR, 0.9144137708, [0.8209778852, 1.0078496565], [0.9735564135, 0.8680902319]),
        (
            0.5,
            2,
            ((0, 1), (1,), (0,), (0, 1)),
            0.881880609,
            [0.7641445052, 0.9996167129],
            [1, 0.748983755],
        ),
    ],
)
def test_fedala(
    rate: float,
    first: int,
    present: tuple[tuple[int, ...], ...],
    expected: float,
    local: list[float],
    weights: list[float],
) -> None:
    seen = reference.fedala(replace(Q2, present=present), rate, first)
    near(path(seen)[-1], expected)
    near(seen[-1].local, local)
    near(seen[-1].extra, weights)


def test_fedala_of_a_subset() -> None:
    problem = replace(Q2M, shared=(True, True), present=FOUR)
    seen = reference.fedala(problem, 0.5, 1, HEAD)
    near(seen[4].x, [0.3342258398, 1.151873293])
    assert seen[4].extra is not None
    near(seen[4].extra[:, 1], [0.9978280093, 0.8387503878])


def test_limits_of_fedala() -> None:
    four = replace(Q2, present=FOUR)
    near(path(reference.fedala(four, 1, 10)), [2, 1.49, 1.16825, 0.99646925, 0.9108670411])
    unlearned = path(reference.fedala(four, 0, 10))
    np.testing.assert_allclose(unlearned, path(reference.fedavg(four)), rtol=0, atol=1e-15)
    alone = Problem((2,), (1,), present=((0,),) * 4)
    own = reference.fedavg(replace(alone, shared=(False,)))[4].local
    np.testing.assert_allclose(reference.fedala(alone, 1, 3)[4].local, own, rtol=0, atol=1e-15)


def test_fedamp() -> None:
    seen = reference.fedamp(AMP, 2, 1, 1)
    expected = [
        [1.5854122406, 1.0454897995],
        [1.2580358468, 1.0531977452],
        [1.0135366993, 1.0363230107],
    ]
    near([s.local[:, 0] for s in seen[1:]], expected)
    near(seen[1].extra, [1.6967346701, 1.3032653299])
    near(reference.fedamp(alternating(AMP), 2, 1, 1)[3].local, [1.2575715953, 1.0369917669])
    near(reference.fedamp(AMP, 2, 1, 1, exact=True)[3].local, [0.3508447684, 0.9531516248])
    near(reference.fedamp(AMP, 2, 1, 1, own_share=0.5)[3].local, [0.99252875, 1.038446875])


def test_limits_of_fedamp() -> None:
    near(reference.fedamp(AMP, 1e12, 1, 1)[3].local, [1.102736, 1])
    near(reference.fedamp(AMP, 1e12, 5e11, 1)[1].extra, [1.5, 1.5])
    local = reference.fedavg(replace(AMP, shared=(False,)))[3].local
    assert (reference.fedamp(AMP, 2, 1, 0)[3].local == local).all()
    long = replace(AMP, present=((0, 1),) * 300)
    near(reference.fedamp(long, 2, 1, 1)[-1].local, [0.2668589787, 0.9332852553])


def test_fedper_and_lg_fedavg() -> None:
    seen = reference.fedavg(Q2M)
    near(path(seen), [2, 1.11875, 0.6876757812, 0.4718737183])
    near(seen[3].local[:, 1], [1.3969577026, 1.0749160156])
    near(path(reference.fedavg(alternating(Q2M)))[3], 0.3060546875)
    lg = replace(Q2M, shared=(False, True))
    seen = reference.fedavg(lg)
    near([s.x[1] for s in seen], [2, 1.559375, 1.3684912109, 1.2680564194])
    near(seen[3].local[:, 0], [0.7018980408, 0.3703276367])
    near(reference.fedavg(alternating(lg))[3].x[1], 0.9717529297)


STORE = np.array([[0, 0], [1, 0], [0, 2], [3, 3]], dtype=float)
TARGETS = np.array([1.0, 2, 4, 8])


def test_knn_per() -> None:
    query = np.array([0.25, 0.5])
    near(reference.neighbours(STORE, TARGETS, query, 3), 1.8769070891)
    near(reference.neighbours(STORE, TARGETS, query, 3, squared=False), 1.8874489361)
    assert reference.neighbours(STORE, TARGETS, query, 1) == 1
    queries = np.array([[0, 0.2], [1, 0.4], [0.2, 1.8]])
    y, yhat = np.array([1.9, 1.8, 3.45]), np.array([2, 2, 3.5])
    yk = np.array([reference.neighbours(STORE, TARGETS, q, 3) for q in queries])
    near(yk, [1.6703174054, 1.8652125532, 3.3304845478])
    near(reference.best_share(yk, yhat, y), 0.4396161037)

    def errors(share: float) -> Array:
        return share * yk + (1 - share) * yhat - y

    grid = np.arange(101) / 100
    assert grid[np.argmin([np.mean(errors(s) ** 2) for s in grid])] == 0.44
    near(np.mean(errors(0.44) ** 2), 0.0074765375)
    assert grid[np.argmin([np.mean(np.abs(errors(s))) for s in grid])] == 0.3
