"""Whether the installed LightGBM sends its messages as `message_layout` reads them."""

import threading
import zlib
from collections.abc import Sequence
from functools import cache

import numpy as np

from plfl.base.errors import PlflError, Problem
from plfl.base.lazy import lightgbm
from plfl.federated.channel import Channel
from plfl.federated.collectives.bounds import Bounds
from plfl.federated.collectives.interface import connect, disconnect, silence
from plfl.federated.collectives.message_layout import (
    ROOT_TYPE,
    SETTINGS,
    SPLIT,
    SPLITS_BYTES,
    TESTED_VERSIONS,
)
from plfl.federated.collectives.messages import NUMBER_TYPES
from plfl.federated.collectives.server import Combine, Server

GRID = np.arange(1.0, 9.0)
"""The values of the only input of two clients, each in a bin of its own."""
WINDOW_COUNTS = (64, 96)
"""Their windows, which have these values in turn, and gradients of 0.5 up to the third one, then
-0.5."""
LEFT_COUNT = sum(WINDOW_COUNTS) * 3 // len(GRID)
"""Their windows with positive gradients, which a tree divides from the others."""


class MessageLog(Server):
    """A server that notes the messages other than sums, with its answers."""

    def __init__(self, channel: Channel, clients: Sequence[int]):
        super().__init__(channel, clients)
        self.record: list[tuple[int, bytes, bytes]] = []
        """A client, what it sent, and the answer."""

    def exchange(self, client: int, message: bytes, combine: Combine) -> bytes:
        answer = super().exchange(client, message, combine)
        if message[0] >= len(NUMBER_TYPES):
            reader = zlib.decompressobj()
            self.record.append((client, zlib.decompress(message), reader.decompress(answer)))
        return answer


@cache  # once in a process
def check_layout() -> None:
    """Check the version of LightGBM; then let two clients grow a tree whose messages are known, and
    read these.

    Raises:
        PlflError: the installed LightGBM was not tested, or has another layout.
    """
    version = lightgbm.__version__
    # Of an unknown version nothing is run: LightGBM 4.5 writes beyond its memory.
    if ".".join(version.split(".")[:2]) in TESTED_VERSIONS and _is_as_described(_messages()):
        return
    major, minor = map(int, TESTED_VERSIONS[-1].split("."))
    raise PlflError(
        Problem(
            f"LightGBM {version}",
            f"its messages are not known to be those of LightGBM {' and '.join(TESTED_VERSIONS)}, "
            "with which clients can grow trees together",
            "install one of these: pip install "
            f'"lightgbm>={TESTED_VERSIONS[0]},<{major}.{minor + 1}"',
        )
    )


def _messages() -> list[tuple[int, bytes, bytes]]:
    """The record of two clients; empty if they could not grow a tree."""
    settings = SETTINGS | {"num_leaves": 2, "max_bin": len(GRID)}
    zeros = np.zeros(len(GRID))
    bins = lightgbm.Dataset(GRID[:, None], zeros, params=settings).construct()
    server = MessageLog(Channel(0, len(WINDOW_COUNTS)), range(len(WINDOW_COUNTS)))

    def grow(client: int) -> None:
        silence()
        x = np.resize(GRID, WINDOW_COUNTS[client])
        slopes = (x <= GRID[2]) - 0.5
        data = lightgbm.Dataset(x[:, None], slopes, params=settings, reference=bins).construct()
        functions = server.functions(client)  # they have to exist while they are used
        connect(len(WINDOW_COUNTS), client, functions)
        try:
            machines = {"tree_learner": "data", "num_machines": len(WINDOW_COUNTS)}
            learner = lightgbm.Booster(settings | machines, data)
            learner.update(fobj=lambda *_: (slopes, np.ones(len(x))))
        finally:
            disconnect()

    threads = [
        threading.Thread(target=grow, args=(k,), daemon=True) for k in range(len(WINDOW_COUNTS))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [] if server.failed else server.record


def _is_as_described(record: Sequence[tuple[int, bytes, bytes]]) -> bool:
    """Whether these are the messages of the tree of `_messages`."""
    roots = [(k, message) for k, message, _ in record if len(message) == ROOT_TYPE.itemsize]
    splits = [answer for _, message, answer in record if len(message) == SPLITS_BYTES]
    if not roots or not splits or len(roots) + len(splits) < len(record):
        return False
    bounds = Bounds(np.array(WINDOW_COUNTS, float), 1.0)
    clients = np.arange(len(WINDOW_COUNTS))
    best = np.frombuffer(splits[0], SPLIT)[:1]
    is_known = (
        best["feature"] == 0,
        best["left"] == LEFT_COUNT,
        best["right"] == sum(WINDOW_COUNTS) - LEFT_COUNT,
    )
    return (
        all(bounds.hold_for_root(k, np.frombuffer(message, ROOT_TYPE)[0]) for k, message in roots)
        and all(map(bool, is_known))
        and best["threshold"][0] < len(GRID) + 1
        and best["categories"][0] == 0
        and bool(bounds.hold_for_splits(clients, best).all())
    )
