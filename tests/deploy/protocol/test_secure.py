"""Deployments whose server sees sums only: bits, dropouts at every step, and messages."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

from plfl.deploy.local import MASKED_KEYS
from plfl.deploy.protocol.endpoints import Message, as_bytes, as_row
from plfl.deploy.protocol.server import SERVER_MODEL_FILE
from plfl.experiments.train import train
from plfl.federated.participation import RULES, Selection
from plfl.federated.secure.shares import SHARE_BYTES
from plfl.federated.secure.sums import PUBLIC_KEYS_BYTES, SEALED_BYTES
from plfl.study import Study
from tests.helpers import loopback
from tests.helpers.loopback import (
    NAMES,
    Deployment,
    assert_equal_bits,
    by_split,
    dataset,
    replayed,
    study,
    trees,
)

SECURE: dict[str, Any] = {"channel": {"secure": True}}
FIVE = ["101", "102", "103", "104", "105"]
BYTES = [f"{kind}_{way}" for kind in ("bytes", "extras") for way in ("down", "up")]
DYING = "103"


def networks(**blocks: Any) -> Study:
    return study(**SECURE, **blocks)


@pytest.mark.parametrize(
    ("make", "blocks"),
    [
        (networks, {}),
        (networks, {"federation": {"participation": 0.75, "weighting": "samples"}}),
        (networks, {"channel": {"secure": True, "down": "delta+q8"}}),
        (trees, SECURE),
        (trees, SECURE | {"task": {"name": "quantiles"}}),
        (trees, SECURE | {key: MASKED_KEYS["trees"][key] for key in ("model", "federation")}),
    ],
    ids=["networks", "weighted", "coded down", "medians", "quantiles", "check of trees"],
)
def test_bits(make: Callable[..., Study], blocks: dict[str, Any], tmp_path: Path) -> None:
    own_study = study(**blocks) if "channel" in blocks and make is networks else make(**blocks)
    assert_equal_bits(own_study, tmp_path, ("P1",) if "task" in blocks else ("P1", "P2"))


@pytest.fixture
def five(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(loopback, "NAMES", FIVE)
    yield


def deployment(of: Study, scheme: str, folder: Path, minimum: int = 3) -> Deployment:
    return Deployment(of, by_split(of)[scheme], folder, minimum)


class Position:
    """The message that the dying client has received last: its round, and its number in it."""

    def __init__(self) -> None:
        self.t, self.step = 0, -1

    def advances(self, name: str, message: Message) -> bool:
        """Whether a message is the next one of this client's rounds, to which it then moves."""
        kind = message.about["kind"]
        if name != DYING or kind not in ("train", "exchange"):
            return False
        if kind == "train":
            self.t, self.step = message.about["round"], -1
        self.step += 1
        return True


def die_at(deployed: Deployment, t: int, step: int) -> None:
    """Let a client be gone from one of the messages of a round on, counted from 0."""
    position = Position()

    def is_lost(name: str, message: Message) -> bool:
        if not position.advances(name, message):
            return False
        if (position.t, position.step) == (t, step):
            deployed.loopback.absent.add(DYING)
        return DYING in deployed.loopback.absent

    deployed.loopback.is_lost = is_lost


def assert_replayed(deployed: Deployment, records: pd.DataFrame) -> None:
    """Whether the records are those of a simulation, but for bytes of sums that were begun again,
    and for scores of clients that are not there."""
    expected = replayed(deployed)
    keys = ["round", "client", "split", "model"]
    columns = [column for column in records if column not in BYTES]
    there = expected.set_index(keys).index.isin(records.set_index(keys).index)
    absent = expected[~there]
    assert {*absent["client"]} <= {DYING} and "train" not in {*absent["split"]}
    expected = expected[there].reset_index(drop=True)
    pd.testing.assert_frame_equal(records[columns], expected[columns], check_exact=True)


@pytest.mark.usefixtures("five")
@pytest.mark.parametrize(
    ("make", "step", "is_in"),
    [
        *((trees, step, False) for step in (0, 3, 8)),
        *((networks, step, step == 3) for step in range(4)),
    ],
)
def test_five_clients_of_whom_one_dies_end_with_the_bits_of_the_simulator(
    make: Callable[..., Study], step: int, is_in: bool, tmp_path: Path
) -> None:
    """In the second round. A client of a network that dies after its numbers have arrived is in
    the sum, without its own help."""
    study = trees(**SECURE) if make is trees else make()
    deployed = deployment(study, "P1", tmp_path)
    die_at(deployed, 2, step)
    records = deployed.run()
    others = [name for name in FIVE if name != DYING]
    took_part = [summary.took_part for summary in deployed.server.history]
    assert took_part == [FIVE, FIVE if is_in else others, others]
    assert_replayed(deployed, records)


@pytest.mark.usefixtures("five")
def test_a_client_that_comes_back_goes_on_from_what_the_server_has(tmp_path: Path) -> None:
    """It is gone after its numbers have arrived, and back in the next round."""
    deployed = deployment(networks(), "P2", tmp_path)
    die_at(deployed, 2, 3)
    lost = deployed.loopback.is_lost

    def is_lost(name: str, message: Message) -> bool:
        is_gone = lost(name, message)
        deployed.loopback.absent.clear()
        return is_gone

    deployed.loopback.is_lost = is_lost
    records = deployed.run()
    assert [summary.took_part for summary in deployed.server.history] == [FIVE] * 3
    assert_replayed(deployed, records)


@pytest.mark.usefixtures("five")
def test_only_keys_shares_and_masks_cross(tmp_path: Path) -> None:
    deployed = deployment(networks(), "P1", tmp_path)
    sizes: set[int] = set()
    arrays: list[bytes] = []

    def noted(name: str, message: Message, answer: bytes) -> bytes:
        if message.about["kind"] in ("train", "exchange"):
            opened = Message.unpack(answer)
            assert {*opened.arrays} == {"0"} and opened.arrays["0"].dtype == torch.uint8
            arrays.append(as_bytes(opened.arrays["0"]))
            sizes.add(len(arrays[-1]))
        return answer

    deployed.loopback.forged = noted
    deployed.run()
    width = deployed.server.channel.shared_count
    assert sizes == {PUBLIC_KEYS_BYTES, 4 * SEALED_BYTES, 4 * width + 4, 4 * SHARE_BYTES}
    assert len({*arrays}) == len(arrays) == 5 * 4 * 3


@pytest.mark.usefixtures("five")
@pytest.mark.parametrize("make", [trees, networks])
def test_a_forged_message_ends_the_round_and_not_the_run(
    make: Callable[..., Study], tmp_path: Path
) -> None:
    study = trees(**SECURE) if make is trees else make()
    deployed = deployment(study, "P1", tmp_path)
    changed = {1: lambda data: data[:-1], 2: lambda data: bytes([data[0] ^ 64]) + data[1:]}
    position = Position()
    # The shares of secrets, or the sums of all windows.
    changed_step = 3 if make is networks else 2

    def forge(name: str, message: Message, answer: bytes) -> bytes:
        if not position.advances(name, message):
            return answer
        if position.step != changed_step or position.t not in changed:
            return answer
        opened = Message.unpack(answer)
        data = changed[position.t](as_bytes(opened.arrays["0"]))
        return Message(opened.about, {"0": as_row(data)}).pack()

    deployed.loopback.forged = forge
    deployed.run()
    others = [name for name in FIVE if name != DYING]
    took_part = [summary.took_part for summary in deployed.server.history]
    refused = [summary.refused for summary in deployed.server.history]
    # A message of a wrong length is that of one client; a wrong sum can be that of any.
    assert took_part[0] == (FIVE if make is networks else others) and [*refused[0]] == [DYING]
    assert took_part[2] == FIVE and refused[2] == {}
    if took_part[1]:  # the share that was changed was none of those that were used
        assert make is networks and took_part[1] == FIVE
    else:
        assert {*refused[1]} == {*FIVE}
        assert "the sum over it and others is impossible" in refused[1][DYING][0]


def test_clients_add_the_noise_of_the_study_and_not_of_one_client(tmp_path: Path) -> None:
    """With a bound of noise that is set for more clients. Without learning only noise is left."""
    privacy = {"clip": 1.0, "noise": 1.0, "noise_as_of": 400}
    study = networks(
        federation={"rounds": 1, "privacy": privacy}, client_opt={"adam": {"lr": 1e-9}}
    )
    deployed = deployment(study, "P1", tmp_path)
    deployed.run()
    start = deployed.server.initial_federation().x0
    moved = load_file(tmp_path / "server" / SERVER_MODEL_FILE)["x"]
    # z C for 4 of 400 clients, over all 4.
    assert (moved - start).std().item() == pytest.approx(4 / 400 / 4, rel=0.3)


def test_rounds_of_fewer_than_three_clients_are_those_of_nobody(tmp_path: Path) -> None:
    """Nobody trains, and nothing is sent: neither here nor in the simulator."""
    drawn = {"selection": "poisson", "participation": 0.75, "rounds": 8, "evaluate_every": 1}
    study = networks(federation=drawn, windows={"scaling": "per_client"})
    cell = by_split(study)["P2"]
    draws = Selection(cell.seed, NAMES, 0.75, RULES["poisson"])
    counts = [len(draws.draw(t)) for t in range(1, 9)]
    assert 0 < sum(0 < count < 3 for count in counts) < 8
    deployed = Deployment(study, cell, tmp_path)
    records = deployed.run()
    history = deployed.server.history
    assert [len(summary.asked) for summary in history] == [n if n >= 3 else 0 for n in counts]
    assert not any(summary.refused for summary in history)
    expected = train(study, [cell], dataset(study))[cell].records
    pd.testing.assert_frame_equal(records, expected, check_exact=True)
