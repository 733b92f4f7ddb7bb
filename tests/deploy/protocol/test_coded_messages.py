"""Coded messages between machines: the bits and bytes of a simulation; hostile ones are refused."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from plfl.deploy.protocol.endpoints import Message
from tests.helpers.loopback import Deployment, by_split, replayed, study

FEDERATION = {"rounds": 4, "local_steps": 3, "evaluate_every": 4}


def deployed(tmp_path, up: str, down: str) -> Deployment:
    own_study = study(federation=FEDERATION, channel={"up": up, "down": down})
    return Deployment(own_study, by_split(own_study)["P2"], tmp_path)


@pytest.mark.parametrize(
    ("up", "down"),
    [
        ("ef21+q3", "delta+q3"),
        ("ef14+sign", "bf16"),
        ("rand0.2", "delta+q4+rc"),
        ("ef21+topq0.1+rc", "delta+q3+rc"),
    ],
)
def test_the_same_bits_and_bytes_cross(up, down, tmp_path):
    """With every codec and memory, although answers are lost, a client crashes, and so does the
    server."""
    if "rc" in up + down:
        pytest.importorskip("constriction")
    running = deployed(tmp_path, up, down)
    sizes: dict[tuple[str, int], list[int]] = {}

    def lost(name, message):
        about = message.about
        if about["kind"] == "train":
            crossed = (Message.unpack(data) for data in running.loopback.crossed_messages[-2:])
            rows = [{n: a for n, a in message.arrays.items() if n.isdigit()} for message in crossed]
            is_lost = (name, about["round"]) in {("102", 2), ("104", 3)}
            down, up = (sum(a.nbytes for a in arrays.values()) for arrays in rows)
            sizes[name, about["round"]] = [down, 0 if is_lost else up]
            return is_lost
        return False

    def report(summary):
        if summary.t == 2:
            running.loopback.clients["101"] = running.client("101")
            raise InterruptedError

    running.loopback.is_lost = lost
    with pytest.raises(InterruptedError):
        running.server.run(report)
    # The server died before it saved round 2, which is repeated.
    running.server = running.new_server()
    records = running.run()
    pd.testing.assert_frame_equal(records, replayed(running), check_exact=True)
    rows = records.query("split == 'train' and model == 'local'").set_index(["client", "round"])
    assert len(rows) == len(sizes) == 16
    for at, size in sizes.items():
        assert rows.loc[at, ["bytes_down", "bytes_up"]].tolist() == size


HOSTILE = {
    "empty": (lambda m: m[:0], "empty"),
    "long": (lambda m: np.r_[m, m], "expected"),
    "code": (lambda m: np.r_[m[:-9], np.full(8, 255, np.uint8), m[-1:]], "the code 7"),
    "nan": (lambda m: np.r_[np.float32([np.nan]).view(np.uint8), m[4:]], "not finite"),
    "huge": (lambda m: np.r_[np.float32([1e38]).view(np.uint8), m[4:]], "implausible"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_messages_are_refused_by_name(case, tmp_path):
    forge, reason = HOSTILE[case]
    running = deployed(tmp_path, "ef21+q3", "delta+q3")

    def forged(name, message, answer):
        if name != "103" or message.about.get("round") != 2:
            return answer
        opened = Message.unpack(answer)
        bad = torch.from_numpy(np.ascontiguousarray(forge(opened.arrays["0"].numpy())))
        return replace(opened, arrays=dict(opened.arrays) | {"0": bad}).pack()

    running.loopback.forged = forged
    records = running.run()
    summary = {summary.t: summary for summary in running.server.history}
    assert "103" not in summary[2].took_part
    (refusal,) = summary[2].refused["103"]
    assert reason in refusal
    assert summary[3].took_part == ["101", "102", "103", "104"]
    pd.testing.assert_frame_equal(records, replayed(running), check_exact=True)
