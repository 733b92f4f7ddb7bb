"""Client-steps per second on a GPU, beside all cores of its host.

    python benchmarks/speed_gpu.py
    python benchmarks/speed_gpu.py --device cpu --models 2 4 --steps 4 # to try it

The paper's model and minibatches, as in `speed`. Prints a table, each number as soon as it is
known.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial

import torch
from speed import CPU, PAPER, PlainLoop, Setting

from plfl.training.fused import Fused
from plfl.training.stacked import Stacked
from plfl.training.work import LocalWork

MODELS = (12, 240, 2_400, 14_400)
REPEATS = 3
FEW = 2
"""Models of the plain loop, whose rate does not depend on their number."""
WAYS = ("plain loop", "stacked, kernel by kernel", "stacked, CUDA graphs", "fused, all cores")


def seconds(train: Callable[[LocalWork], object], of: Callable[[], LocalWork]) -> float:
    """The median of some trainings, after one that warms up."""
    spent = []
    for _ in range(REPEATS + 1):
        task = of()
        if task.rows.is_cuda:
            torch.cuda.synchronize()
        start = time.perf_counter()
        train(task)
        if task.rows.is_cuda:
            torch.cuda.synchronize()
        spent.append(time.perf_counter() - start)
    return statistics.median(spent[1:])


def row(
    setting: Setting, device: torch.device, models: int, steps: int
) -> Iterator[tuple[float, float]]:
    """Client-steps per second of each of the `WAYS` of training so many models, and the most GiB
    that it takes on the GPU."""
    single, replayed = (Stacked(setting.network, setting.dataset, device) for _ in range(2))
    single.repeat = None
    fused = Fused(setting.network, setting.dataset, CPU, threads=torch.get_num_threads())
    ways: list[tuple[Callable[[LocalWork], object], torch.device, int]] = [
        (PlainLoop(setting, device).train, device, FEW),
        (single.train, device, models),
        (replayed.train, device, models),
        (fused.train, CPU, models),
    ]
    for train, where, count in ways:
        most, rate = 0.0, float("nan")
        try:
            rate = count * steps / seconds(train, partial(setting.task, 0, steps, count, where))
        except Exception as error:  # no room: the other ways are measured anyway
            print(error, file=sys.stderr)
        if where.type == "cuda":
            # Engines that measure memory start the count afresh.
            most = torch.cuda.max_memory_allocated(device) / 2**30
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(device)
        yield rate, most


def main() -> None:
    """Print the machine, and a row for each number of models."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--models", type=int, nargs="+", default=MODELS)
    parser.add_argument("--steps", type=int, default=125)
    options = parser.parse_args()
    device = torch.device(options.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SystemExit("torch finds no GPU; this benchmark needs one, or --device cpu")
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else "no GPU"
    print(f"{gpu}; {torch.get_num_threads()} cores; PyTorch {torch.__version__}")
    print(f"\n| models | {' | '.join(WAYS)} | most memory, GiB |")
    print("|---" * (len(WAYS) + 2) + "|")
    setting = Setting.of(PAPER)
    for count in sorted(options.models):
        print(f"| {count:,} |", end="", flush=True)
        most = 0.0
        for rate, memory in row(setting, device, count, options.steps):
            print(f" {rate:,.0f} |", end="", flush=True)
            most = max(most, memory)
        print(f" {most:.1f} |", flush=True)


if __name__ == "__main__":
    main()
