"""Trees that clients grow together, against LightGBM on the pooled rows."""

import threading
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import lightgbm
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plfl.base.errors import PlflError
from plfl.baselines.features import raw_bytes
from plfl.baselines.fitting import fit, total_sent
from plfl.baselines.lightgbm_federated import LightgbmFederated
from plfl.baselines.lightgbm_others import LightgbmOthers
from plfl.baselines.lightgbm_pooled import LightgbmPooled
from plfl.baselines.trees import LAGGED, TreeWindows
from plfl.data.dataset import Dataset
from plfl.federated.channel import Channel
from plfl.federated.collectives import server as server_module
from plfl.federated.collectives.interface import connect, disconnect
from plfl.federated.collectives.message_layout import ROOT_TYPE, SETTINGS
from plfl.federated.collectives.messages import add_up_packed, pack
from plfl.federated.collectives.self_test import check_layout
from plfl.federated.collectives.server import Server, SumNoise
from plfl.federated.secure.encryption import SimulatedSecrets
from plfl.federated.tree_growth import (
    ClientWindows,
    GrowingClient,
    RootCounts,
    Tree,
    bin_rows,
    grow,
    releases,
)
from plfl.federated.tree_losses import TREE_LOSSES, QuantileLoss
from plfl.interfaces.baseline import FitSettings, Floats
from tests.helpers.outside import dataset

FEW = FitSettings(trees=6, leaves=(8,), max_bin=31)
GRID = np.repeat(np.sinh(np.linspace(-3, 3, 31))[:, None], 6, axis=1)
BINS = bin_rows(GRID, 31)


def forest(
    some: list[ClientWindows], level: float = 0.5, channel: Channel | None = None, trees: int = 7
) -> list[str]:
    """Trees that are grown one after the other."""
    found: list[str] = []
    for _ in range(trees):
        found.append(grow(some, BINS, 15, 0.3, QuantileLoss(level), channel).text)
        tree = lightgbm.Booster(model_str=found[-1])
        added = [np.asarray(tree.predict(part.x), float) for part in some]
        pairs = zip(some, added, strict=True)
        some = [p._replace(start=new if p.start is None else p.start + new) for p, new in pairs]
    return found


def parts(clients: int = 4) -> list[ClientWindows]:
    """Clients of different sizes, whose targets differ in level."""
    rng = np.random.default_rng(0)
    found = []
    for k in range(clients):
        x = rng.normal(size=(400 + 90 * k, 6))
        y = x[:, 0] * x[:, 1] + 0.1 * k + 0.1 * rng.normal(size=len(x))
        found.append(ClientWindows(x, y))
    return found


def pooled(some: list[ClientWindows]) -> ClientWindows:
    return ClientWindows(
        *(np.concatenate(columns) for columns in list(zip(*some, strict=True))[:2])
    )


def trees_of(text: str) -> str:
    return text[text.index("Tree=0") : text.index("end of trees")]


@pytest.mark.parametrize("objective", ["l2", "huber"])
def test_collectives_grow_the_trees_of_pooled_rows(objective: str) -> None:
    some = parts()
    whole = pooled(some)
    settings = SETTINGS | {"objective": objective, "num_leaves": 15, "max_bin": 31}
    bins = lightgbm.Dataset(GRID, np.zeros(31), params=settings, free_raw_data=False).construct()
    numbers = range(len(some))
    server, texts = Server(Channel(0, len(some)), numbers), [""] * len(some)

    def client(rank: int) -> None:
        x, y = some[rank][:2]
        data = lightgbm.Dataset(x, y, params=settings, reference=bins).construct()
        functions = server.functions(rank)
        connect(len(some), rank, functions)
        more = {"tree_learner": "data", "num_machines": len(some)}
        booster = lightgbm.Booster(settings | more, data)
        for _ in range(6):
            booster.update()
        texts[rank] = trees_of(booster.model_to_string())
        disconnect()

    threads = [threading.Thread(target=client, args=(rank,)) for rank in range(len(some))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone = lightgbm.Booster(
        settings, lightgbm.Dataset(whole.x, whole.y, params=settings, reference=bins)
    )
    for _ in range(6):
        alone.update()
    assert set(texts) == {trees_of(alone.model_to_string())}


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_who_holds_the_rows_changes_no_tree(level: float) -> None:
    some = parts()
    divisions = [some, [pooled(some[:2]), pooled(some[2:])], [pooled(some)]]
    found = [[*map(trees_of, forest(division, level))] for division in divisions]
    assert found[0] == found[1] == found[2]


def test_leaves_have_the_medians_of_all_clients() -> None:
    some = parts()
    whole = pooled(some)
    booster = lightgbm.Booster(model_str=grow(some, BINS, 15, 0.3).text)
    leaves = booster.predict(whole.x, pred_leaf=True)[:, 0]
    for leaf in np.unique(leaves):
        median = np.quantile(whole.y[leaves == leaf], 0.5, method="inverted_cdf")
        assert booster.get_leaf_output(0, leaf) / 0.3 == pytest.approx(median, abs=0.002)


def test_trees_of_l1_are_those_of_lightgbm_on_pooled_rows() -> None:
    some = parts()
    whole = pooled(some)
    settings = SETTINGS | {"objective": "l1", "num_leaves": 15, "max_bin": 31, "learning_rate": 0.3}
    bins = lightgbm.Dataset(GRID, np.zeros(31), params=settings, free_raw_data=False).construct()
    data = lightgbm.Dataset(whole.x, whole.y, params=settings, reference=bins)
    alone, found = lightgbm.train(settings, data, 7), forest(some)
    texts = [trees_of(one).split("\n") for one in (alone.model_to_string(), found[0])]
    names = ("split_feature", "split_gain", "threshold", "left_child", "leaf_count")
    for name in names:  # of the first tree; later ones differ by the steps of the bisection
        assert len({next(line for line in text if line.startswith(name)) for text in texts}) == 1
    loads = np.sum([lightgbm.Booster(model_str=text).predict(whole.x) for text in found], axis=0)
    errors = [np.abs(whole.y - one).mean() for one in (loads, alone.predict(whole.x))]
    assert errors[0] == pytest.approx(errors[1], rel=0.05)


def test_runs_have_equal_bits_and_bytes() -> None:
    channels = [Channel(0, 4), Channel(0, 4)]
    one, other = (forest(parts(), channel=channel) for channel in channels)
    assert one == other
    traffic, again = (channel.close_round() for channel in channels)
    np.testing.assert_equal(traffic, again)
    assert all((counts > 0).all() for counts in traffic.values())


def test_a_learner_that_is_kept_grows_the_same_trees() -> None:
    keeping = [part._replace(learners={}) for part in parts()]
    assert [*map(trees_of, forest(keeping))] == [*map(trees_of, forest(parts()))]
    assert all(len(part.learners or ()) == 1 for part in keeping)


def test_a_tree_as_arrays_has_the_leaves_of_lightgbm() -> None:
    some = [part._replace(x=part.x.astype(np.float32)) for part in parts()]
    text, x = forest(some, trees=1)[0], pooled(some).x
    expected = lightgbm.Booster(model_str=text).predict(x, pred_leaf=True)[:, 0]
    np.testing.assert_array_equal(Tree.parse(text).leaves(x), expected)


def test_what_crosses_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    crossed = np.zeros((2, 4), int)
    exchange = Server.exchange

    def counts(self: Server, client: int, message: bytes, combine: Callable[..., Any]) -> bytes:
        answer = exchange(self, client, message, combine)
        crossed[:, client] += len(message), len(answer)
        return answer

    check_layout()  # once in a process, with messages of its own
    monkeypatch.setattr(Server, "exchange", counts)
    channel = Channel(0, 4)
    grow(parts(), BINS, 15, 0.3, channel=channel)
    traffic = channel.close_round()
    np.testing.assert_array_equal([traffic["bytes_up"], traffic["bytes_down"]], crossed)


def test_splits_are_the_messages_of_which_the_server_returns_the_best(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a LightGBM with another layout, none would have this size."""
    calls = []
    best = server_module.best_splits
    monkeypatch.setattr(server_module, "best_splits", lambda m: calls.append(len(m)) or best(m))
    forest(parts(), trees=2)
    assert len(calls) > 2 * 12


class Recorded(SumNoise):
    """Noise that notes what it is put on, and by how much a window may change it."""

    sums: list[tuple[Floats, float]]

    def add_to(self, total: Floats, most: float) -> Floats:
        self.sums.append((total, most))
        return super().add_to(total, most)


def recorded(some: list[ClientWindows], multiplier: float) -> list[tuple[Floats, float]]:
    noise = Recorded(multiplier, np.random.default_rng(0))
    noise.sums = []
    grow(some, BINS, 15, 0.3, noise=noise)
    return noise.sums


def test_a_window_changes_no_released_sum_by_more_than_is_accounted_for() -> None:
    some = parts()
    # The last window is that of a client with the same splits, so that all sums are comparable.
    more = [*some[:-1], ClientWindows(*(np.concatenate([c, c[-1:]]) for c in some[-1][:2]))]
    sums, with_one = recorded(some, 0), recorded(more, 0)
    assert 15 < len(sums) <= releases(15)
    changes = [
        float(np.linalg.norm(b - a) / most)
        for (a, most), (b, _) in zip(sums, with_one, strict=True)
        if a.shape == b.shape
    ]
    assert max(changes) == pytest.approx(1)
    assert min(changes) < 1  # it is not in every leaf


def test_noise_has_the_deviation_that_is_accounted_for() -> None:
    noise = SumNoise(4, np.random.default_rng(0))
    added = noise.add_to(np.zeros(100_000), 3)
    assert added.std() == pytest.approx(12, rel=0.01)
    assert (added == np.rint(added)).all()


def test_noise_changes_trees_and_repeats() -> None:
    def with_noise(z: float) -> str:
        return grow(parts(), BINS, 15, 0.3, noise=SumNoise(z, np.random.default_rng(1))).text

    assert trees_of(with_noise(0)) == trees_of(grow(parts(), BINS, 15, 0.3).text)
    assert with_noise(0.5) == with_noise(0.5)
    x, y = pooled(parts())[:2]
    little, much = (
        np.abs(y - np.asarray(lightgbm.Booster(model_str=with_noise(z)).predict(x))).mean()
        for z in (0.1, 100)
    )
    assert little < np.abs(y).mean() and little < much
    with pytest.raises(ValueError, match="L1 error only"):
        grow(
            parts(), BINS, 15, 0.3, TREE_LOSSES["mse"], noise=SumNoise(1, np.random.default_rng(1))
        )


def test_nobody_is_told_the_sums_of_a_single_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients get the number of all windows, and not how many are whose."""
    answers = []
    exchange = Server.exchange

    def noted(self: Server, client: int, message: bytes, combine: Callable[..., Any]) -> bytes:
        answers.append(exchange(self, client, message, combine))
        return answers[-1]

    monkeypatch.setattr(Server, "exchange", noted)
    grow(parts(), BINS, 15, 0.3)
    counts = [len(part.y) for part in parts()]
    (roots,) = {zlib.decompress(a) for a in answers[:4]}
    assert np.frombuffer(roots, ROOT_TYPE)["count"].tolist() == [sum(counts), 0, 0, 0]


@pytest.mark.parametrize("leaves_in", ["tree", "collective"])
def test_who_drops_out_ends_the_tree_and_not_the_run(
    leaves_in: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    some, channel = parts(), Channel(0, 4)
    find, exchange = GrowingClient.leaf_quantiles, Server.exchange

    def is_gone(server: Server, client: int) -> bool:
        is_late = channel.traffic["bytes_up"][1] > 8_000
        return server.clients == 4 and client == 1 and is_late

    def quantiles(self: GrowingClient, leaves: Any, residuals: Floats, level: float) -> Floats:
        if is_gone(self.server, self.rank):
            raise ConnectionError("gone")
        return find(self, leaves, residuals, level)

    def counted(self: Server, client: int, message: bytes, combine: Callable[..., Any]) -> Any:
        if is_gone(self, client):
            raise ConnectionError("gone")
        return exchange(self, client, message, combine)

    if leaves_in == "tree":
        monkeypatch.setattr(GrowingClient, "leaf_quantiles", quantiles)
    else:
        monkeypatch.setattr(Server, "exchange", counted)
    found = forest(some, channel=channel)
    monkeypatch.undo()
    up, whole = channel.close_round()["bytes_up"], forest(some)
    assert len(found) == 7 and up[1] < up[0]
    assert found[0] == whole[0]  # its first tree is that of all four
    assert trees_of(found[-1]) != trees_of(whole[-1])


def test_if_all_drop_out_the_error_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: GrowingClient, leaves: Any, residuals: Floats, level: float) -> Floats:
        raise ConnectionError("gone")

    monkeypatch.setattr(GrowingClient, "leaf_quantiles", fails)
    with pytest.raises(ConnectionError, match="gone"):
        grow(parts(), BINS, 15, 0.3)


@given(st.lists(st.floats(allow_nan=False) | st.integers(-(2**31), 2**31).map(float), max_size=40))
def test_packing_loses_nothing(numbers: list[float]) -> None:
    numbers = 2 * numbers  # pairs
    message = pack(np.array(numbers, float))
    assert add_up_packed(message).tolist() == numbers  # where it was packed
    assert add_up_packed(bytes(message)).tolist() == numbers  # on another machine


@given(st.floats(-1e30, 1e30))
@example(0.1)  # smaller than the nearest number of single precision
def test_a_threshold_divides_numbers_of_single_precision_alike(threshold: float) -> None:
    tree = Tree(*map(np.array, ([0.0], [threshold], [-1.0], [-2.0], [0.0, 1.0])))
    near = np.float32(threshold)
    x = np.nextafter(near, np.array([[-np.inf], [near], [np.inf]], np.float32))
    np.testing.assert_array_equal(tree.leaves(x), tree.leaves(x.astype(float)))


def test_without_a_split_a_tree_adds_nothing() -> None:
    x = np.zeros((30, 6))
    text = grow([ClientWindows(x, x[:, 0])] * 2, BINS, 15, 0.3).text
    assert (lightgbm.Booster(model_str=text).predict(x) == 0).all()


def mase(predict: Callable[[int, Any], Floats], data: Dataset) -> float:
    scores = []
    for client in range(len(data.clients)):
        starts = data.starts(client, "test")
        errors = [
            np.abs(data.truth(starts) - f).mean()
            for f in (predict(client, starts), data.persistence(starts))
        ]
        scores.append(errors[0] / errors[1])
    return float(np.mean(scores))


def test_without_pooling_the_error_is_that_of_pooled_rows() -> None:
    data = dataset(clients=3, days=25)
    settings = FitSettings(trees=15, learning_rate=(0.3,), leaves=(15,), max_bin=63)
    federated = fit(LightgbmFederated(), data, settings, {})
    assert mase(federated.predict, data) == pytest.approx(
        mase(fit(LightgbmPooled(), data, settings, {}).predict, data), abs=0.01
    )
    late = fit(LightgbmFederated(turns=3), data, settings, {})
    others = fit(LightgbmOthers(turns=3), data, settings, {})
    assert mase(late.predict, data) == pytest.approx(mase(others.predict, data), abs=0.03)
    assert min(total_sent(federated, 3)) > max(raw_bytes(data))


def test_masks_change_bytes_only() -> None:
    data = dataset(clients=3, days=20)
    settings = FitSettings(trees=5, leaves=(8,), max_bin=31, levels=(0.1, 0.5))
    plain, masked = (
        fit(LightgbmFederated(secure=secure), data, settings, {}) for secure in (False, True)
    )
    for client in range(3):
        starts = data.starts(client, "test")
        np.testing.assert_array_equal(plain.predict(client, starts), masked.predict(client, starts))
    one_tree = replace(settings, trees=1)
    plain_bytes, masked_bytes = (
        total_sent(fit(LightgbmFederated(secure=secure), data, one_tree, {}), 3)
        for secure in (False, True)
    )
    assert (np.array(masked_bytes) > plain_bytes).all()
    with pytest.raises(PlflError, match="secure: 2 clients train together, and masks hide 3"):
        fit(LightgbmFederated(secure=True, turns=3), data, settings, {})


def test_masked_trees_count_the_bytes_that_they_take() -> None:
    data = dataset(clients=3, days=20)
    settings = FitSettings(trees=4, learning_rate=(0.3,), leaves=(8,), max_bin=31, levels=(0.5,))
    fitted = LightgbmFederated(secure=True).fit(data, settings, {})
    windows, channel = TreeWindows(data, LAGGED), Channel(0, 3, secrets=SimulatedSecrets(5))
    grid = windows.public(31)
    parts = [ClientWindows(*windows.stack_windows("train", [client])) for client in range(3)]
    parts = [part._replace(start=np.zeros(len(part.y))) for part in parts]
    counts: RootCounts = {}
    sent = []
    for _ in range(4):
        grown = grow(parts, bin_rows(grid, len(grid)), 8, 0.3, channel=channel, counts=counts)
        sent.append(channel.close_round()["bytes_up"])
        booster = lightgbm.Booster(model_str=grown.text)
        parts = [part._replace(start=part.start + booster.predict(part.x)) for part in parts]
    np.testing.assert_allclose(total_sent(fitted, 3), np.sum(sent, axis=0), rtol=0.03)
    assert (np.sum(sent, axis=0) < 0.9 * 4 * sent[0]).all()


def test_settings_are_chosen_on_the_clients_validation_windows() -> None:
    data = dataset(clients=2, days=25)
    tried = FitSettings(trees=6, learning_rate=(0.01, 0.3), leaves=(8,), max_bin=31)
    found, both = (
        fit(LightgbmFederated(), data, one, {})
        for one in (FitSettings(trees=6, learning_rate=(0.3,), leaves=(8,), max_bin=31), tried)
    )
    starts = data.starts(0, "test")
    np.testing.assert_array_equal(found.predict(0, starts), both.predict(0, starts))
    few, more = (np.array(total_sent(fitted, 2)) for fitted in (found, both))
    assert (more > few).all()  # the other trial crossed, too


@pytest.mark.parametrize("levels", [(), (0.1, 0.5)])
def test_without_others_there_is_no_forecast(levels: tuple[float, ...]) -> None:
    data = dataset(clients=1, days=20)
    settings = FitSettings(trees=5, levels=levels)
    federated = LightgbmFederated(turns=2)
    fitted = fit(federated, data, settings, {})
    starts = data.starts(0, "test")
    wanted = fitted.predict(0, starts)
    assert np.isnan(wanted).all()
    restored = federated.restore(fitted.save(0), data, settings, {})
    np.testing.assert_array_equal(restored.predict(0, starts), wanted)


def test_quantiles_are_ordered() -> None:
    data = dataset(clients=2, days=20)
    settings = FitSettings(trees=5, leaves=(8,), max_bin=31, levels=(0.1, 0.5, 0.9))
    starts = data.starts(0, "test")
    found = fit(LightgbmFederated(), data, settings, {}).predict(0, starts)
    assert found.shape == (len(starts), 1, 3)
    assert (np.diff(found, axis=-1) >= 0).all()
    below = (data.truth(starts)[:, None] <= found[:, 0]).mean(axis=0)
    assert below[0] < 0.5 < below[2]
