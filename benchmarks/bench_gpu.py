"""Client-steps per second on a GPU and seconds of whole studies, beside all cores of its host.

    python benchmarks/bench_gpu.py
    python benchmarks/bench_gpu.py --models --studies config.yaml --seeds 10 --on cuda
    python benchmarks/bench_gpu.py --device cpu --models 2 4 --steps 4 --studies # to try it

The paper's model and batch, as in `bench_quick`. The plain loop trains one model after the other,
`vmap` all at once, both with PyTorch's own gradients. Studies run as `plfl study` runs them, on
sample data where they would download some. Prints tables for benchmarks/README.md, each number as
soon as it is known, and the constants of plfl/experiments/effort.py.
"""

import argparse
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch
import yaml
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
STUDIES = ("config.yaml", "config/recipe.yaml")
GRAPHS = "stacked, CUDA graphs"


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
    """The loss of one model, for which PyTorch's own LSTM would take its models in turn."""
    p = parameters
    weight = torch.cat([p["lstm.weight_ih"], p["lstm.weight_hh"]], 1)
    h = c = windows.new_zeros(len(windows), FORECASTER.hidden)
    states = []
    for x in windows.unbind(1):
        gates = torch.cat([x, h], 1) @ weight.mT + p["lstm.bias_ih"] + p["lstm.bias_hh"]
        i, f, g, o = gates.chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        states.append(h)
    z = torch.cat(states, 1)
    for layer in range(len(FORECASTER.mlp) + 1):
        z = z @ p[f"mlp.{layer}.weight"].mT + p[f"mlp.{layer}.bias"]
        if layer < len(FORECASTER.mlp):
            z = torch.where(z > 0, z, p[f"mlp.{layer}.slope"] * z)
    return torch.nn.functional.mse_loss(z[:, 0].abs(), targets)


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


WAYS = (
    "plain loop",
    "vmap",
    "stacked, kernel by kernel",
    GRAPHS,
    "native kernel, all cores",
)


def row(
    dataset: Dataset, device: torch.device, models: int, steps: int
) -> Iterator[tuple[float, float]]:
    """Client-steps per second of each of the `WAYS` of training so many models, and the most GiB
    that it takes on the GPU."""
    plain = PlainLoop(dataset, device=device)
    single, replayed = (Stacked(FORECASTER, dataset, device) for _ in range(2))
    single.repeat = None
    kernel = Fused(FORECASTER, dataset, CPU, threads=torch.get_num_threads())
    ways: list[tuple[Callable[[LocalTask], object], torch.device, int]] = [
        (lambda of: plain.train(of, ADAM), device, FEW),
        (Vmapped(dataset, device).train, device, models),
        (single.train, device, models),
        (replayed.train, device, models),
        (kernel.train, CPU, models),
    ]
    for train, where, count in ways:
        most, rate = 0.0, float("nan")
        try:
            rate = count * steps / seconds(train, partial(task, dataset, count, steps, where))
        except Exception as error:  # no room: the other ways are measured anyway
            print(error, file=sys.stderr)
        if where.type == "cuda":
            # Engines that measure memory start the count afresh.
            most = torch.cuda.max_memory_allocated(device) / 2**30
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(device)
        yield rate, most


def rates(device: torch.device, models: Sequence[int], steps: int) -> None:
    """Print the client-steps per second of each way, with a row for each number of models."""
    print("client-steps per second\n")
    print(f"| models | {' | '.join(WAYS)} | most memory, GiB |")
    print("|---" * (len(WAYS) + 2) + "|")
    dataset, of_graphs = random_dataset(), {}
    for count in sorted(models):
        print(f"| {count:,} |", end="", flush=True)
        most = 0.0
        for way, (rate, memory) in zip(WAYS, row(dataset, device, count, steps), strict=True):
            print(f" {rate:,.0f} |", end="", flush=True)
            most = max(most, memory)
            if way == GRAPHS:
                of_graphs[count] = rate
        print(f" {most:.1f} |", flush=True)
    few, many = min(models), max(models)
    print(
        f"\nplfl/experiments/effort.py: GPU = {1 / of_graphs[many]:.2g} from {many:,} models, ",
        end="",
    )
    print(f"LAUNCHES = {few / of_graphs[few]:.2g} from {few:,}")


def study_on(file: Path, device: str, seeds: int | None) -> dict[str, Any]:
    """A study on a device, with sample data instead of those that it would download."""
    study: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    data = study.setdefault("data", {})
    if data.get("source", "comstock") == "comstock":
        data["source"] = "sample"
        data.pop("comstock", None)
    if seeds is not None:
        study.setdefault("grid", {})["seeds"] = list(range(1, seeds + 1))
    study.setdefault("compute", {})["device"] = device
    return study


def study_seconds(study: dict[str, Any]) -> tuple[float, float]:
    """Seconds from data to report, and those of all training jobs."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "study.yaml")
        file.write_text(yaml.safe_dump(study), encoding="utf-8")
        start = time.perf_counter()
        command = [sys.executable, "-m", "plfl", "study", file.name]
        subprocess.run(command, cwd=folder, check=True, stdout=sys.stderr)
        whole = time.perf_counter() - start
        jobs = Path(folder, "results").glob("*/benchmarks/train/*.tsv")
        return whole, float(sum(pd.read_csv(job, sep="\t")["s"].sum() for job in jobs))


def studies(files: Sequence[str], seeds: int | None, devices: Sequence[str]) -> None:
    """Print the seconds of studies on the GPU and on all cores."""
    print(f"\n| study |{''.join(f' {at}: in all | training jobs |' for at in devices)}")
    print("|---" * (1 + 2 * len(devices)) + "|")
    for file in files:
        print(f"| `{file}`{f', {seeds} seeds' if seeds else ''} |", end="", flush=True)
        for at in devices:
            whole, jobs = study_seconds(study_on(Path(file), at, seeds))
            print(f" {whole:,.0f} | {jobs:,.0f} |", end="", flush=True)
        print()


def main() -> None:
    """Print the machine and the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--models", type=int, nargs="*", default=MODELS)
    parser.add_argument("--steps", type=int, default=125)
    parser.add_argument("--studies", nargs="*", default=STUDIES)
    parser.add_argument("--seeds", type=int, help="of the studies, instead of their own")
    parser.add_argument("--on", nargs="+", default=["cuda", "cpu"], help="devices of the studies")
    options = parser.parse_args()
    device = torch.device(options.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SystemExit("torch finds no GPU; this benchmark needs one, or --device cpu")
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else "no GPU"
    cores = torch.get_num_threads()
    print(f"{gpu}; {platform.processor() or platform.machine()}, {cores} cores; ", end="")
    print(f"PyTorch {torch.__version__}; ", end="", flush=True)
    if options.models:
        rates(device, options.models, options.steps)
    if options.studies:
        studies(options.studies, options.seeds, options.on)


if __name__ == "__main__":
    main()
