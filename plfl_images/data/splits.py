"""Divides labelled images among clients so that their labels are skewed.

Each function returns, for each client, the positions of its images among the labels it was given.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Parts = list[NDArray[np.int64]]
Labels = NDArray[np.int64]


def sort_and_partition(labels: Labels, clients: int, s: int, random: np.random.Generator) -> Parts:
    """Deal every client `s` shards, each of one class (FedADC, arXiv 2012.09102, section IV).

    The images of a class, in random order, are cut into clients · s / classes shards whose sizes
    differ by one at most. A client has at most `s` labels, and fewer if its shards share a class.

    Raises:
        ValueError: clients · s is not a multiple of the number of classes, or there are fewer
            images of a class than shards.
    """
    classes = _classes(labels)
    per_class, remainder = divmod(clients * s, classes)
    if remainder:
        raise ValueError(f"{clients} clients with {s} shards each cannot share {classes} classes")
    shards: Parts = []
    for c in range(classes):
        images = random.permutation(np.flatnonzero(labels == c))
        if len(images) < per_class:
            raise ValueError(f"class {c} has {len(images)} images for {per_class} shards")
        shards += np.array_split(images, per_class)
    shards_of_clients = random.permutation(len(shards)).reshape(clients, s)
    return [np.concatenate([shards[j] for j in part]) for part in shards_of_clients]


def dirichlet_equal(
    labels: Labels, clients: int, alpha: float, random: np.random.Generator
) -> Parts:
    """Deal every client the same number of images, whose labels follow its own q ~ Dir(α · 1).

    A client draws its images one by one: a label from q, renormalised over the classes that are not
    used up, then an image of that class. The remainder of the division by the number of clients is
    left out.

    Raises:
        ValueError: there are fewer images than clients.
    """
    classes = _classes(labels)
    size = len(labels) // clients
    if not size:
        raise ValueError(f"{len(labels)} images are fewer than {clients} clients")
    waiting = [random.permutation(np.flatnonzero(labels == c)).tolist() for c in range(classes)]
    parts: Parts = []
    for q in random.dirichlet(np.full(classes, alpha), clients):
        positions = []
        for u in random.random(size).tolist():
            remaining_counts = np.array([len(images) for images in waiting])
            weights = q * (remaining_counts > 0)
            # With a small α, a client's classes may all be used up.
            bounds = np.cumsum(weights if weights.sum() > 0 else remaining_counts)
            positions.append(waiting[int(np.searchsorted(bounds, u * bounds[-1], "right"))].pop())
        parts.append(np.array(positions, dtype=np.int64))
    return parts


def dirichlet_by_class(
    labels: Labels, clients: int, alpha: float, random: np.random.Generator
) -> Parts:
    """Deal each class to the clients by shares ~ Dir(α · 1), so that clients also differ in size.

    All images are given to clients. A client may get none.
    """
    parts: list[Parts] = [[] for _ in range(clients)]
    for c in range(_classes(labels)):
        images = random.permutation(np.flatnonzero(labels == c))
        shares = random.dirichlet(np.full(clients, alpha))
        cuts = np.round(np.cumsum(shares)[:-1] * len(images)).astype(np.int64)
        for part, images_of_class in zip(parts, np.split(images, cuts), strict=True):
            part.append(images_of_class)
    return [np.concatenate(part) for part in parts]


def _classes(labels: Labels) -> int:
    return int(labels.max()) + 1
