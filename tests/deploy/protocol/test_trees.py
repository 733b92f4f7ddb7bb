"""Trees that clients on several machines grow together, with nothing but messages between them."""

import zlib
from typing import Any

import numpy as np
import pandas as pd
import pytest

from plfl.deploy.protocol.agreement import reason_against
from plfl.deploy.protocol.endpoints import Message, as_bytes, as_row
from plfl.federated.collectives.message_layout import ROOT_TYPE, SPLIT
from plfl.federated.collectives.messages import add_up_packed, compress, pack
from tests.helpers.loopback import NAMES, Deployment, assert_equal_bits, by_split, replayed, trees

BYTES = [f"{kind}_{way}" for kind in ("bytes", "extras") for way in ("down", "up")]
HOSTILE, OTHERS = "102", [name for name in NAMES if name != "102"]
LAST = 10
"""Messages to a client that grows a tree of four leaves, after the first one."""


@pytest.mark.parametrize(
    "blocks",
    [
        {},
        {"federation": {"participation": 0.6}},
        {"federation": {"loss": "huber"}},
        {"task": {"name": "quantiles"}},
    ],
    ids=["medians", "absent", "huber", "quantiles"],
)
def test_bits(blocks, tmp_path):
    assert_equal_bits(
        trees(**blocks), tmp_path, ("P1",) if "task" in blocks else ("P1", "P2", "P3")
    )


def test_noise_is_refused():
    study = trees(noise=5)
    assert "shows more sums than its ε counts" in str(reason_against(study, by_split(study)["P1"]))
    assert reason_against(trees(), by_split(trees())["P1"]) is None


class Place:
    """The round of a message to the hostile client, and how many came before it in this tree."""

    def __init__(self) -> None:
        self.t = self.before = 0

    def __call__(self, name: str, message: Message) -> tuple[int, int]:
        kind = message.about["kind"]
        if name != HOSTILE or kind not in ("train", "exchange"):
            return self.t, -1
        if kind == "train":
            self.t, self.before = message.about["round"], 0
        else:
            self.before += 1
        return self.t, self.before


def took_part(deployed: Deployment) -> list[list[str]]:
    return [summary.took_part for summary in deployed.server.history]


@pytest.mark.parametrize("at", [0, 4, LAST])
@pytest.mark.parametrize("scheme", ["P1", "P2"])
def test_a_client_that_leaves_ends_the_tree_and_not_the_run(scheme, at, tmp_path):
    study = trees()
    deployed = Deployment(study, by_split(study)[scheme], tmp_path, minimum=3)
    place = Place()
    deployed.loopback.is_lost = lambda name, message: place(name, message) == (2, at)
    records = deployed.run()
    assert took_part(deployed) == [NAMES, OTHERS, NAMES]
    expected = replayed(deployed)
    second = records["round"] == 2
    columns = [column for column in records if column not in BYTES]
    pd.testing.assert_frame_equal(records[columns], expected[columns], check_exact=True)
    pd.testing.assert_frame_equal(records[~second], expected[~second], check_exact=True)
    # What was sent for the tree that ended is counted.
    there = second & records["client"].isin(OTHERS)
    assert (records.loc[there, "bytes_up"] > expected.loc[there, "bytes_up"]).all() == (at > 0)


def test_a_tree_of_two_clients_ends_with_one_of_them(tmp_path):
    study = trees()
    deployed = Deployment(study, by_split(study)["P1"], tmp_path, minimum=2)
    deployed.loopback.absent = {*OTHERS[1:]}
    place = Place()
    deployed.loopback.is_lost = lambda name, message: place(name, message) == (2, 3)
    deployed.run()
    assert took_part(deployed) == [["101", "102"], [], ["101", "102"]]
    refused = deployed.server.history[1].refused
    assert refused == {"101": ["no other client trains with it"]}


def test_a_message_that_does_not_follow_the_last_answer_is_refused(tmp_path):
    study = trees()
    deployed = Deployment(study, by_split(study)["P1"], tmp_path)
    first = {}

    def again(name, message, answer):
        """The second message to a client arrives once more, after the first of the next round."""
        if name == HOSTILE and message.about["kind"] == "exchange":
            first.setdefault(name, message)
        if name == HOSTILE and message.about.get("round") == 2:
            late = deployed.loopback.clients[name].answer(first[name].pack())
            assert "does not follow" in Message.unpack(late).about["error"]
        return answer

    deployed.loopback.forged = again
    records = deployed.run()
    pd.testing.assert_frame_equal(records, replayed(deployed), check_exact=True)


def test_a_server_that_is_killed_grows_the_tree_anew(tmp_path):
    study = trees()
    deployed = Deployment(study, by_split(study)["P2"], tmp_path)
    place = Place()

    def kill(name, message):
        if place(name, message) == (2, 5):
            raise RuntimeError("killed")

    deployed.loopback.is_lost = kill
    with pytest.raises(RuntimeError, match="killed"):
        deployed.run()
    deployed.loopback.is_lost = lambda name, message: False
    deployed.server = deployed.new_server()
    records = deployed.run()
    assert took_part(deployed) == [NAMES] * 3
    pd.testing.assert_frame_equal(records, replayed(deployed), check_exact=True)


def numbers(value: float, more: int = 0, at: int = 0) -> Any:
    """The sums of a client, of which one has another value, or with more of them."""

    def change(message: bytes) -> bytes:
        true = add_up_packed(message)
        true[at] = value
        return pack(np.concatenate([true, np.zeros(more)]))

    return change


def field(kind: np.dtype[Any], **values: Any) -> Any:
    """What a client says of all its windows, or of a split, with other values of fields, or with
    functions of their values."""

    def change(message: bytes) -> bytes:
        content = np.frombuffer(zlib.decompress(message), kind).copy()
        for name, value in values.items():
            content[name][0] = value(content[name][0]) if callable(value) else value
        return compress(content.tobytes())

    return change


SUMS = {
    "nan": numbers(np.nan),
    "infinite": numbers(np.inf),
    "1e30": numbers(1e30),
    "more": numbers(1, 2),
    "bomb": lambda message: bytes([0]) + compress(bytes(10**7)),
    "unknown type": lambda message: bytes([7]) + message[1:],
    "not compressed": lambda message: message[:1] + b"?" * 20,
    "cut": lambda message: message[:-6],
    "with more behind": lambda message: message + b"?",
    "least whole number": lambda message: (
        bytes([3]) + compress((bytes(7) + b"\x80") * len(add_up_packed(message)))
    ),
}
COUNTS = SUMS | {
    "negative": numbers(-1),
    "half": numbers(0.5),
    "more than all windows": numbers(226),
}
SUMS |= {
    "negative count": numbers(-1, at=1),
    "count of half a window": numbers(0.5, at=1),
    "count above that of all windows": numbers(226, at=1),
    "sum above the count": numbers(226),
}
ROOTS = {
    "count below 0": field(ROOT_TYPE, count=-(10**9)),
    "no window": field(ROOT_TYPE, count=0, hessian=0, gradient=0),
    "another count": field(ROOT_TYPE, count=226, hessian=226),
    "hessian": field(ROOT_TYPE, hessian=-1e9),
    "sum above the count": field(ROOT_TYPE, gradient=226),
    "bomb": lambda message: compress(bytes(10**7)),
    "nan": field(ROOT_TYPE, gradient=np.nan),
    "sums": lambda message: pack(np.zeros(4)),
}
SPLITS = {
    "feature": field(SPLIT, feature=10_000),
    "no feature": field(SPLIT, feature=-1),
    "bin": field(SPLIT, threshold=4_000_000),
    "bin that the input lacks": field(SPLIT, threshold=15),
    "categories": field(SPLIT, categories=1000),
    "empty leaf": field(SPLIT, right=0),
    "gain": field(SPLIT, gain=np.nan),
    "infinite gain": field(SPLIT, gain=np.inf),
    "value": field(SPLIT, values=np.nan),
    "gain that does not follow": field(SPLIT, gain=lambda gain: 2 * gain),
    "value that does not follow": field(SPLIT, values=lambda values: values * [2, 1, 1, 1]),
    "negative": field(SPLIT, left=-(10**9)),
    "more than all windows": field(
        SPLIT, left=901, values=[0, 0, 0, 901], sums=[0, 1], right=1, gain=0
    ),
    "sum above the count": field(
        SPLIT, left=1, values=[-9, -9, 9, 1], sums=[9, 1], right=1, gain=0
    ),
    "two": lambda message: compress(zlib.decompress(message) * 2),
}
PLACES = {"root": (ROOTS, 0), "sums": (SUMS, 1), "splits": (SPLITS, 2), "counts": (COUNTS, 3)}
CASES = [(place, case) for place, (cases, _) in PLACES.items() for case in cases]


def test_a_forged_message_ends_the_tree_and_not_the_run(tmp_path):
    model = {"name": "trees", "trees": len(CASES), "own_trees": 1, "leaves": 2}
    study = trees(model=model, federation={"rounds": len(CASES) + 1, "evaluate_every": 100})
    deployed = Deployment(study, by_split(study)["P1"], tmp_path, minimum=3)
    place = Place()

    def forge(name, message, answer):
        t, at = place(name, message)
        where, case = CASES[min(t, len(CASES)) - 1]
        cases, wanted = PLACES[where]
        if at != wanted or t > len(CASES):
            return answer
        opened = Message.unpack(answer)
        change = cases[case](as_bytes(opened.arrays["0"]))
        return Message(opened.about, {"0": as_row(change)}).pack()

    deployed.loopback.forged = forge
    records = deployed.run()
    history = deployed.server.history[: len(CASES)]
    assert not [CASES[s.t - 1] for s in history if [*s.refused] != [HOSTILE]]
    assert took_part(deployed) == [OTHERS] * len(CASES) + [NAMES]
    reasons = {reason for s in history for reason in s.refused[HOSTILE]}
    assert all("implausible" in r or "does not have" in r or "no numbers" in r for r in reasons)
    expected = replayed(deployed)
    columns = [column for column in records if column not in BYTES]
    pd.testing.assert_frame_equal(records[columns], expected[columns], check_exact=True)
