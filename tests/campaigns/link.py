"""A link between two network namespaces, with delay and loss: `python -m tests.campaigns.link A B`.

For kernels without netem. Each namespace gets an end of it, `link0`, with an address of ADDRESSES;
what is sent into one end comes out of the other after DELAY seconds, but for LOSS of the packets,
which are drawn with a fixed seed. It lives until it is ended (SIGTERM) and then tells what it did.
"""

import ctypes
import fcntl
import heapq
import json
import os
import random
import select
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

ADDRESSES = ("10.78.0.1", "10.78.0.2")
DELAY, LOSS, SEED = 0.02, 0.01, 7
_NAME, _MTU = "link0", 1500
_CLONE_NEWNET = 0x40000000
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000


def end(namespace: str, own: str, other: str) -> int:
    """Make the end of the link in a namespace; its file. This process is there afterwards."""
    with Path("/run/netns", namespace).open() as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"no namespace {namespace}")
    tun = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tun, _TUNSETIFF, struct.pack("16sH", _NAME.encode(), _IFF_TUN | _IFF_NO_PI))
    for command in (
        ["address", "add", own, "peer", other, "dev", _NAME],
        ["link", "set", _NAME, "up"],
        ["link", "set", "lo", "up"],
    ):
        subprocess.run(["ip", *command], check=True)
    return tun


def carry(ends: tuple[int, int]) -> dict[str, int]:
    """Carry packets until this process is asked to end; how many, and how many were lost."""
    other = dict(zip(ends, reversed(ends), strict=True))
    chance, waiting = random.Random(SEED), list[tuple[float, int, int, bytes]]()
    counted, asked = {"packets": 0, "lost": 0}, list[int]()
    signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
    while not asked:
        pause = max(0.0, waiting[0][0] - time.monotonic()) if waiting else 0.2
        for ready in select.select(ends, [], [], pause)[0]:
            packet = os.read(ready, 2 * _MTU)
            counted["packets"] += 1
            if chance.random() < LOSS:
                counted["lost"] += 1
                continue
            due = time.monotonic() + DELAY
            heapq.heappush(waiting, (due, counted["packets"], other[ready], packet))
        while waiting and waiting[0][0] <= time.monotonic():
            *_, to, packet = heapq.heappop(waiting)
            os.write(to, packet)
    return counted


if __name__ == "__main__":
    own, other = ADDRESSES
    both = end(sys.argv[1], own, other), end(sys.argv[2], other, own)
    print("ready", flush=True)
    print(json.dumps(carry(both)), flush=True)
