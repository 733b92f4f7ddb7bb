"""Answers that a faulty or hostile client may send instead of its own, by the kind of message."""

import json
import struct
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from plfl.deploy.protocol.endpoints import Message

Forge = Callable[[dict[str, Any], dict[str, Tensor]], bytes]
"""Makes an answer of the facts and arrays of the true one."""


def headed(header: bytes) -> bytes:
    """A message that has nothing but a header."""
    return struct.pack("<Q", len(header)) + header


def packed(facts: str) -> bytes:
    """A message whose facts are any text."""
    return headed(json.dumps({"__metadata__": {"plfl": facts}}).encode())


MISSING = object()
"""The value of a fact that is left out."""


def altered(about: dict[str, Any], new_facts: dict[str, Any]) -> dict[str, Any]:
    """Facts of which some are `new_facts`."""
    return {key: value for key, value in (about | new_facts).items() if value is not MISSING}


def facts(**new_facts: object) -> Forge:
    """The true answer with other facts."""
    return lambda about, arrays: Message(altered(about, new_facts), arrays).pack()


def array(name: str, change: Callable[[Tensor], Tensor]) -> Forge:
    """The true answer with another array."""
    return lambda about, arrays: Message(
        about, arrays | {name: change(arrays.get(name, torch.zeros(3)))}
    ).pack()


def bare(about: dict[str, Any], arrays: dict[str, Tensor]) -> bytes:
    """The true answer without its arrays."""
    return Message(about, {}).pack()


def bytes_of(data: bytes) -> Forge:
    """Bytes that do not depend on the true answer."""
    return lambda about, arrays: data


def row(**new_scores: object) -> Forge:
    """True scores but for the first row."""

    def forge(about: dict[str, Any], arrays: dict[str, Tensor]) -> bytes:
        first, *other_rows = about["scores"]
        return Message(about | {"scores": [altered(first, new_scores), *other_rows]}, arrays).pack()

    return forge


def description(**new_keys: object) -> Forge:
    """A true join but for the description of the series."""
    return lambda about, arrays: Message(
        about | {"describes": about["describes"] | new_keys}, arrays
    ).pack()


def full(value: float) -> Callable[[Tensor], Tensor]:
    """Arrays of a single value."""
    return lambda x: torch.full_like(x, value)


NAN, INF = float("nan"), float("inf")
ANY: dict[str, Forge] = {
    "noise": bytes_of(b"?" * 40),
    "header longer than the message": bytes_of(struct.pack("<Q", 1 << 60) + b"{}"),
    "nested header": bytes_of(headed(b"[" * 200_000)),
    "number of 5,000 digits": bytes_of(packed('{"request": ' + "9" * 5000 + "}")),
    "array of 2^62 numbers": bytes_of(
        headed(b'{"0":{"dtype":"F32","shape":[4611686018427387904,0],"data_offsets":[0,0]}}')
    ),
    "three megabytes": facts(note="x" * 3_000_000),
    "error that is a list": facts(error=[[]]),
    "another message's answer": facts(request="0" * 16),
    "another client's name": facts(name="103"),
}
TRAIN: dict[str, Forge] = ANY | {
    "loss that is true": facts(loss=True),
    "loss 1e300": facts(loss=1e300),
    "steps 10^400": facts(steps=10**400),
    "no arrays": bare,
    "one array of two": lambda about, arrays: Message(about, {"0": arrays["0"]}).pack(),
    "array of doubles": array("0", Tensor.double),
    "update with one nan": array("0", lambda x: torch.cat([x[:-1], torch.tensor([NAN])])),
    "update 1e30": array("0", full(1e30)),
}
EVALUATE: dict[str, Forge] = {
    "no scores": facts(scores=MISSING),
    "scores without rows": facts(scores=[]),
    "row of another client": row(client="103"),
    "row twice": row(split="test"),
    "model that is a list": row(model=["local"]),
    "score that is true": row(mae=True),
    "score inf": row(mae=-INF),
    "no score": row(mae=MISSING),
    "score that is none": row(bytes_up=0.0),
    "arrays too": array("0", full(0)),
}
JOIN: dict[str, Forge] = ANY | {
    "unknown client": facts(name="999"),
    "no windows": facts(windows=MISSING),
    "more windows than rows": facts(windows=300),
    "series of a thousand years": description(rows=10**9, windows=10**9),
    "other columns": facts(columns=["load", "humidity"]),
    "no description": facts(describes=MISSING),
    "description of another client": description(client="103"),
    "description with a further column": description(address="Main Street 1"),
    "mean load nan": description(mean=NAN),
    "limits misshapen": array("low", lambda x: x[:1]),
    "limits 1e30": array("high", full(1e30)),
    "limits the wrong way round": array("low", full(1e3)),
}
