"""Client-steps per second on a GPU, beside the native kernel on all cores of the same host.

    python benchmarks/bench_gpu.py
    python benchmarks/bench_gpu.py --device cpu --models 2 4 --steps 4 # only shows that it runs

The paper's model and batch, as in `bench_quick`. The plain loop trains one model after the other,
`vmap` all at once, both with PyTorch's own gradients. Prints a table for benchmarks/README.md.
"""

import argparse
import platform
import statistics
import time
from collections.abc import Callable

import torch
from bench_quick import BATCH, FORECASTER, PlainLoop, random_dataset
from torch import Tensor
from torch.func import grad, vmap

from plfl.data.dataset import Dataset
from plfl.optimizers.client.adam import Adam
from plfl.training.fused import Fused
from plfl.training.stacked import Stacked
from plfl.training.task import LocalTask, Minibatches

ADAM, CPU = Adam(), torch.device("cpu")
MODELS = (12, 240, 2_400, 14_400)
REPEATS = 3
FEW = 2
"""Models of the plain loop, whose rate does not depend on their number."""


def task(dataset: Dataset, models: int, steps: int, device: torch.device) -> LocalTask:
    """A round of so many models, which share the windows of a few clients."""
    random = torch.Generator().manual_seed(0)
    last = int(dataset.bounds[-1, 1]) - dataset.look_back - dataset.look_ahead
    starts = torch.randint(0, last, (models, steps, BATCH), generator=random)
    rows = FORECASTER.initial(10).expand(models, -1).clone()
    shared = torch.from_numpy(FORECASTER.layout.mask(["lstm.*"]))
    rows, starts, shared = (x.to(device) for x in (rows, starts, shared))
    return LocalTask.fresh(ADAM, rows, Minibatches(starts), shared)


class Vmapped:
    """All models at once through `torch.func`, with Adam on their stacked parameters."""

    def __init__(self, dataset: Dataset, device: torch.device):
        self.features = torch.from_numpy(dataset.features).to(device)
        self.look_back = torch.arange(dataset.look_back, device=device)
        self.target = dataset.look_back - 1 + dataset.look_ahead

    def train(self, of: LocalTask) -> None:
        """Take the steps of a task."""
        parameters, slopes = FORECASTER.layout.views(of.rows), vmap(grad(_loss))
        state = ADAM.init(of.rows)
        for k, starts in enumerate(of.minibatches.starts.unbind(1), 1):
            windows = self.features[starts[..., None] + self.look_back]
            targets = self.features[starts + self.target, 0]
            gradients = slopes(parameters, windows, targets)
            flat = torch.cat([g.flatten(1) for g in gradients.values()], 1)
            ADAM.step(of.rows, flat, state, k)


def _loss(parameters: dict[str, Tensor], windows: Tensor, targets: Tensor) -> Tensor:
    """The loss of one model."""
    stacked = {name: values[None] for name, values in parameters.items()}
    forecasts = FORECASTER.forward(stacked, windows[None])[0]
    return torch.nn.functional.mse_loss(forecasts, targets)


def seconds(train: Callable[[LocalTask], object], of: Callable[[], LocalTask]) -> float:
    """The median of some trainings, after one that warms up."""
    found = []
    for _ in range(REPEATS + 1):
        one = of()
        if one.rows.is_cuda:
            torch.cuda.synchronize()
        start = time.perf_counter()
        train(one)
        if one.rows.is_cuda:
            torch.cuda.synchronize()
        found.append(time.perf_counter() - start)
    return statistics.median(found[1:])


def row(dataset: Dataset, device: torch.device, models: int, steps: int) -> dict[str, float]:
    """Client-steps per second of each way of training so many models."""
    plain = PlainLoop(dataset, device=device)
    single, replayed = (Stacked(FORECASTER, dataset, device) for _ in range(2))
    single.repeat = None
    kernel = Fused(FORECASTER, dataset, CPU, threads=torch.get_num_threads())
    ways: dict[str, tuple[Callable[[LocalTask], object], torch.device, int]] = {
        "plain loop": (lambda of: plain.train(of, ADAM), device, FEW),
        "vmap": (Vmapped(dataset, device).train, device, models),
        "stacked, kernel by kernel": (single.train, device, models),
        "stacked, CUDA graphs": (replayed.train, device, models),
        "native kernel, all cores": (kernel.train, CPU, models),
    }
    rates = {}
    for name, (train, where, count) in ways.items():
        try:
            taken = seconds(train, lambda n=count, at=where: task(dataset, n, steps, at))  # type: ignore[misc]
            rates[name] = count * steps / taken
        except torch.OutOfMemoryError:
            rates[name] = float("nan")
    return rates


def main() -> None:
    """Print the machine and the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--models", type=int, nargs="+", default=MODELS)
    parser.add_argument("--steps", type=int, default=125)
    options = parser.parse_args()
    device = torch.device(options.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SystemExit("torch finds no GPU")
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else "no GPU"
    cores = torch.get_num_threads()
    print(f"{gpu}; {platform.processor() or platform.machine()}, {cores} cores; ", end="")
    print(f"PyTorch {torch.__version__}; client-steps per second\n")
    dataset = random_dataset()
    rows = {n: row(dataset, device, n, options.steps) for n in options.models}
    names = list(next(iter(rows.values())))
    print(f"| models | {' | '.join(names)} |")
    print("|---" * (len(names) + 1) + "|")
    for models, rates in rows.items():
        print(f"| {models:,} | {' | '.join(f'{rates[name]:,.0f}' for name in names)} |")
    if device.type == "cuda":
        print(f"\nmost memory: {torch.cuda.max_memory_allocated(device) / 2**30:.1f} GiB")


if __name__ == "__main__":
    main()
