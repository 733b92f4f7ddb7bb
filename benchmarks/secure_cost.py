"""What secure aggregation costs a network: measured sums, and a model of bytes for more clients.

    python -m benchmarks.secure_cost            # prints tables
    python -m benchmarks.secure_cost FIGURE.png # and draws docs/images/secure.png
    python -m benchmarks.secure_cost --errors   # masked and plain rounds on sample data

A network of 10 kB has 2,500 parameters. Plain, a client receives and sends them once in a round.
The time is that of one processor for server and all clients of one round, with keys of the system.
The model has the bytes of a client by formula; the sums that are measured have the same.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import plfl
from plfl.federated.channel import Channel
from plfl.federated.secure.encryption import KEY_BYTES, SystemSecrets
from plfl.federated.secure.neighbours import degree_of
from plfl.federated.secure.updates import Crowd, sum_bytes
from plfl.study import Study

NUMBERS = 2500
MEASURED = (3, 12, 38, 132)
MODELLED = (3, 12, 38, 132, 1000, 10_000)


def tree_bytes(clients: int) -> int:
    """Bytes of keys that a client sends and receives for a tree."""
    return KEY_BYTES * (1 + degree_of(clients, has_shares=False))


def measure(clients: int) -> tuple[float, float, float]:
    """Bytes up and down of a client, and seconds of a sum."""
    channel = Channel(NUMBERS, clients, secrets=SystemSecrets())
    rows = np.random.default_rng(0).integers(-(2**20), 2**20, size=(clients, NUMBERS))
    started = time.process_time()
    found = channel.add_masked(
        "sum", torch.arange(clients), float(clients), lambda crowd: rows, NUMBERS
    )
    seconds = time.process_time() - started
    assert (found.numbers == rows.sum(0)).all() and found.crowd == Crowd(clients, clients)
    traffic = channel.close_round()
    return traffic["bytes_up"].mean(), traffic["bytes_down"].mean(), seconds


COVARIATES = [{"name": "lags", "days": [1, 7]}, {"name": "level"}, {"name": "calendar"}]
WINDOWS = {"look_back": 24, "look_ahead": 1, "target": "change", "scaling": "per_client"}
ROUNDS = {"rounds": 20, "local_steps": 25, "evaluate_every": 20, "batch_size": 64, "loss": "mae"}


def mase(seed: int, federation: dict[str, Any], *, secure: bool) -> dict[tuple[str, str], float]:
    """The mean test error of twelve hourly sample meters by sharing scheme and model."""
    raw = {
        "data": {"source": "sample", "states": ["CA"], "features": ["load"], "resample": 60},
        "windows": WINDOWS | {"covariates": COVARIATES},
        "model": {"name": "mlp", "hidden": [32, 32]},
        "grid": {"client_opt": ["adamw"], "server_opt": ["fedavg"], "sharing": ["P1", "P2"]},
        "federation": ROUNDS | federation,
        "channel": {"secure": secure},
    }
    raw["grid"]["seeds"] = [seed]
    study = Study.parse(raw, "secure_cost")
    results = plfl.train(study, study.cells, plfl.load_dataset(study, "CA"))
    return {
        (cell.sharing, model): float(rows["mase"].mean())
        for cell, result in results.items()
        for model, rows in result.records.query("split == 'test'").groupby("model")
    }


def compare_errors() -> None:
    """Print errors of plain and masked rounds."""
    print("federation\tseed\tsharing\tmodel\tMASE\tmasked less plain")
    for federation in ({}, {"weighting": "samples", "participation": 0.5}):
        for seed in (1, 2):
            plain, masked = (mase(seed, federation, secure=secure) for secure in (False, True))
            for key, error in plain.items():
                columns = f"{error:.4f}", f"{masked[key] - error:+.5f}"
                print(federation, seed, *key, *columns, sep="\t", flush=True)


def draw(path: Path) -> None:
    """Draw the bytes of a client and round by the number of clients."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    counts = np.unique(np.geomspace(3, 10_000, 200).astype(int))
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    for numbers, label in ((NUMBERS, "network of 10 kB"), (60_276, "network of 241 kB")):
        ratios = [(4 * numbers + sum(sum_bytes(n, numbers))) / (8 * numbers) for n in counts]
        axes.plot(counts, ratios, label=label)
    axes.set(xscale="log", xlabel="clients in a round", ylabel="bytes, masked over plain")
    axes.set_ylim(1, 2)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figure", type=Path, nargs="?")
    parser.add_argument("--errors", action="store_true")
    given = parser.parse_args()
    if given.errors:
        compare_errors()
        return
    print(
        "clients\tbytes up\tbytes down\tmasked/plain\tms of a client, with its part of the server"
    )
    for clients in MEASURED:
        up, down, seconds = measure(clients)
        assert (up, down) == sum_bytes(clients, NUMBERS)
        ratio = (4 * NUMBERS + up + down) / (8 * NUMBERS)
        print(
            clients,
            f"{up:.0f}",
            f"{down:.0f}",
            f"{ratio:.2f}",
            f"{1e3 * seconds / clients:.1f}",
            sep="\t",
            flush=True,
        )
    print("clients\tneighbours\tmasked/plain\tneighbours for trees\tbytes of keys for a tree")
    for clients in MODELLED:
        ratio = (4 * NUMBERS + sum(sum_bytes(clients, NUMBERS))) / (8 * NUMBERS)
        degrees = [degree_of(clients, has_shares) for has_shares in (True, False)]
        print(clients, degrees[0], f"{ratio:.2f}", degrees[1], tree_bytes(clients), sep="\t")
    if given.figure:
        draw(given.figure)


if __name__ == "__main__":
    main()
