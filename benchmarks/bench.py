"""What training costs: against a plain PyTorch loop, as the work grows, by method, and by part.

The last part is what the smallest study costs, from its data to its page.

    python benchmarks/bench.py [PART ...]

Everything is measured in one run of about ten minutes, or only the parts named, to renew them at a
quieter moment. The engines alternate, and rates are medians of at least five rounds. The data are
random, since speed does not depend on their values. Writes results.json and the tables
of README.md beside this file.
"""

import itertools
import json
import math
import multiprocessing
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import bench_models
import numpy as np
import peers
import recipe
import report
import torch
from bench_quick import BATCH, CLIENTS, FORECASTER, YEAR, PlainLoop, local_task, random_dataset
from torch import Tensor, nn
from torch.utils import mkldnn

from plfl import methods
from plfl.base.errors import ConfigError
from plfl.base.files import write_text
from plfl.data.dataset import Dataset
from plfl.experiments.evaluation import Evaluator
from plfl.experiments.recorder import Recorder
from plfl.experiments.train import train
from plfl.experiments.trainer import federation_of, network_of
from plfl.federated import round as rounds
from plfl.federated.client_data import ClientData
from plfl.models.network import Network
from plfl.optimizers.client.adam import Adam
from plfl.study import Cell, Study
from plfl.training.engines import make_engine
from plfl.training.fused import Fused, unavailable_reason
from plfl.training.stacked import Stacked
from plfl.training.task import Engine, LocalTask

ROUNDS = 5
"""Rounds of which a median is taken; one more before them is for warming up."""
STEPS = 25
"""Local steps of a round where the work grows."""
SIZE = 2048
"""Rows and columns of the matrices whose product says what the cores can do."""
CPU = torch.device("cpu")
RESULTS = Path(__file__).with_name("results.json")

Numbers = dict[str, Any]


def main() -> None:
    """Measure everything, write it down, and print the tables."""
    if reason := unavailable_reason():
        raise SystemExit(f"the fused engine is not available: {reason}")
    cores = len(os.sched_getaffinity(0))
    parts: dict[str, Callable[[], object]] = {
        "speed": lambda: {str(n): in_a_process(speed, n) for n in sorted({1, cores})},
        "scaling": lambda: in_a_process(scaling, cores),
        "recipe": lambda: in_a_process(by_study, "RECIPE"),
        "quantiles": lambda: in_a_process(by_study, "DAY_AHEAD"),
        "models": lambda: in_a_process(bench_models.measure),
        "others": others,
        "clients": lambda: {str(n): in_a_process(growth, n, 1) for n in (12, 120, 1200)},
        "cells": lambda: {str(n): in_a_process(growth, CLIENTS, n) for n in (1, 20, 180)},
        "methods": lambda: in_a_process(by_method),
        "job": lambda: in_a_process(paper_job),
        "recipe_job": lambda: in_a_process(recipe_job),
        "codecs": lambda: {name: in_a_process(by_codec, name) for name in report.CODED},
        "smoke": smoke,
    }
    names = sys.argv[1:] or list(parts)
    if unknown := set(names) - set(parts):
        raise SystemExit(f"no such part: {', '.join(unknown)}; there are {', '.join(parts)}")
    here = engine(cores)
    results: Numbers = {"machine": here, "elsewhere": {}, "load": {}}
    if len(names) < len(parts):
        results = json.loads(RESULTS.read_text(encoding="utf-8"))
    began = time.monotonic()
    for name in names:
        print(f"{time.monotonic() - began:4.0f} s  {name} …", file=sys.stderr, flush=True)
        results[name] = parts[name]()
        results["load"][name] = os.getloadavg()[0]
        results["elsewhere"].pop(name, None)
        if here != results["machine"]:
            results["elsewhere"][name] = here
    write_text(RESULTS, json.dumps(results, indent=1) + "\n")
    report.write(results)
    print(report.tables(results))


def in_a_process(function: Callable[..., Any], *args: object) -> Any:
    """What `function` returns in a process of its own, so that its peak memory is its own too."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(function, *args).result()


def engine(cores: int) -> Numbers:
    """What the numbers were measured on."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    compiler = subprocess.run(["c++", "--version"], capture_output=True, text=True, check=True)
    return {
        "processor": names[0] if names else platform.processor() or platform.machine(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "cores": cores,
        "memory_gib": round(memory / 2**30),
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "compiler": compiler.stdout.splitlines()[0],
    }


def speed(threads: int) -> Numbers:
    """Client-steps per second of the plain loops and of every engine, and what the cores can do."""
    torch.set_num_threads(threads)
    adam, dataset = Adam(), random_dataset()
    fused = Fused(FORECASTER, dataset, CPU, threads=threads)
    few = 10 if threads == 1 else 2  # threads that wait for each other crawl on a busy machine
    runners: dict[str, tuple[int, Callable[[Any], object]]] = {
        "plain, Adam()": (few, lambda t: PlainLoop(dataset, fused=False).train(t, adam)),
        "plain, Adam(fused=True)": (few, lambda t: PlainLoop(dataset).train(t, adam)),
        "stacked": (2 * few, Stacked(FORECASTER, dataset, CPU).train),
        "fused": (125, fused.train),
    }
    seconds: dict[str, list[float]] = {name: [] for name in runners}
    products, matrix = [], torch.rand(2048, 2048)
    for t in range(ROUNDS + 1):
        for name, (steps, run) in runners.items():
            task = local_task(dataset, adam, t, steps)
            seconds[name].append(_seconds(partial(run, task)) / (CLIENTS * steps))
        products.append(_seconds(lambda: matrix @ matrix))
    rates = {name: 1 / statistics.median(s[1:]) for name, s in seconds.items()}
    return {
        "client_steps_per_second": rates,
        "product_gflops": 2 * 2048**3 / statistics.median(products[1:]) / 1e9,
        "step_gflop": BATCH * _flops(FORECASTER) / 1e9,
    }


def by_study(name: str) -> Numbers:
    """Client-steps per second of a study of `recipe` on one thread: a plain loop and the engines.

    By the processor's clock, since what is asked for is seconds of a core, and of the best round,
    since other programs slow the plain loop more than the kernel even so.
    """
    torch.set_num_threads(1)
    study = getattr(recipe, name)
    dataset = recipe.random_dataset(study)
    network = network_of(study, dataset.shape)
    runners: dict[str, tuple[int, Callable[[Any], object]]] = {
        report.PLAIN_ADAMW: (20, recipe.PlainLoop(study, dataset).train),
        "stacked": (40, Stacked(network, dataset, CPU).train),
        "fused": (250, Fused(network, dataset, CPU, threads=1).train),
    }
    seconds: dict[str, list[float]] = {name: [] for name in runners}
    products, product = [], _product()
    for t in range(4 * ROUNDS):
        for name, (steps, run) in runners.items():
            task = recipe.local_task(study, dataset, t, steps)
            spent = _seconds(partial(run, task), time.process_time)
            seconds[name].append(spent / (recipe.CLIENTS * steps))
        products.append(_seconds(product, time.process_time))
    rates = {name: 1 / min(s) for name, s in seconds.items()}
    return {
        "client_steps_per_second": rates,
        "seconds_per_training": recipe.CLIENTS * recipe.STEPS / rates["fused"],
        "product_gflops": 2 * SIZE**3 / min(products) / 1e9,
        "step_gflop": study.federation.batch_size * _flops(network) / 1e9,
    }


def scaling(cores: int) -> Numbers:
    """How many times faster all cores are than one: in training with `fused`, and in a product.

    One and all alternate, since what else a machine does slows two cores more than one.
    """
    adam, dataset = Adam(), random_dataset()
    engines = {n: Fused(FORECASTER, dataset, CPU, threads=n) for n in (1, cores)}
    matrix = torch.rand(2048, 2048)
    training: dict[int, list[float]] = {n: [] for n in engines}
    products: dict[int, list[float]] = {n: [] for n in engines}
    for t in range(2 * ROUNDS + 1):
        for n, fused in engines.items():
            task = local_task(dataset, adam, t, 125)
            training[n].append(_seconds(partial(fused.train, task)))
            torch.set_num_threads(n)
            products[n].append(_seconds(lambda: matrix @ matrix))
    ratios = {}
    for what, seconds in (("fused", training), ("product", products)):
        one, all_cores = (statistics.median(seconds[n][1:]) for n in (1, cores))
        ratios[what] = one / all_cores
    return ratios


def _product() -> Callable[[], object]:
    """A product of two square matrices at the rate that the cores can reach.

    It is oneDNN's, which also uses AVX-512 where PyTorch's own does not.
    """
    matrix = torch.rand(SIZE, SIZE)
    if not torch.backends.mkldnn.is_available():
        return lambda: matrix @ matrix
    blocked, linear = matrix.to_mkldnn(), nn.Linear(SIZE, SIZE, bias=False)
    return partial(mkldnn.to_mkldnn(linear), blocked)


def _seconds(run: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    start = clock()
    run()
    return clock() - start


def _flops(network: Network) -> int:
    """Multiplications and additions of the matrix products of a training step for one window.

    Backwards everything comes twice, but nobody needs the gradient of the windows.
    """
    shapes = {n: math.prod(shape) for n, shape in network.layout.shapes.items() if len(shape) == 2}
    times = dict.fromkeys(shapes, 1)
    if "lstm.weight_ih" in shapes:  # at each row of a window; at first there is no hidden state
        times |= {
            "lstm.weight_ih": FORECASTER.look_back,
            "lstm.weight_hh": FORECASTER.look_back - 1,
        }
    products = [times[name] * size for name, size in shapes.items()]
    return 2 * (3 * sum(products) - products[0])


def others() -> dict[str, float | str]:
    """Client-steps per second of other tools' simulations, and of the plain loop beside them."""
    rates: dict[str, float | str] = {report.PLAIN: in_a_process(peers.plain)}
    for tool, (measure, packages) in peers.TOOLS.items():
        try:
            rates[tool] = peers.lacking(packages) or in_a_process(measure)
        except RuntimeError as error:  # Ray does not start on a machine that is too busy
            rates[tool] = str(error)
    return rates


def growth(clients: int, cells: int) -> Numbers:
    """Seconds per client-step of whole rounds (draws, training, server), and the peak memory.

    The cells are 5 ServerOpts × seeds, as far as they go.
    """
    seeds = list(range(-(-cells // 5)))
    study = _study(server_opt=_SERVERS, seeds=seeds)
    seconds = _rounds(study, study.cells[:cells], _dataset(clients, evaluated=64))
    return {
        "seconds_per_client_step": statistics.median(seconds) / (clients * cells * STEPS),
        "peak_mib": _peak_mib(),
    }


_SERVERS = ["fedavg", "fedavgadaptive", "fedadagrad", "fedadam", "fedyogi"]


def by_method() -> dict[str, dict[str, float] | str]:
    """The speed of every method, relative to fedopt with the same optimisers: in client-steps, and
    in the minibatch gradients that they take.

    FedEff's epochs and FedALA's passes are cut to the study's steps, as they would else train ten
    times as long.
    """
    dataset = _dataset(CLIENTS, evaluated=64)
    cut = {"fedeff": {"epoch_steps": 25}, "fedala": {"most_steps": 125}}
    shared: Numbers = {"steps": 125, "method_options": cut}
    tries: list[Numbers] = [
        {},
        {"client_opt": ["sgd"]},
        {"client_opt": ["sgdm"]},
        {"client_opt": ["sgdm"], "client_options": {"sgdm": {"dampening": 0.9}}},
        {"sharing": "P2"},
    ]
    ratios: dict[str, dict[str, float] | str] = {}
    for name, method in methods.available().items():
        if method.only_task:
            continue
        reason = ""
        for optimisers in tries:
            try:
                both = [_study(method=[m], **shared, **optimisers) for m in ("fedopt", name)]
            except ConfigError as error:
                reason = str(error).strip().splitlines()[-1].split("makes no sense: ")[-1]
                continue
            (plain, plain_gradients), (own, own_gradients) = _side_by_side(both, dataset)
            gradients = own_gradients / plain_gradients
            ratios[name] = {"steps": plain / own, "gradients": gradients * plain / own}
            break
        else:
            ratios[name] = reason
    return ratios


def paper_job() -> Numbers:
    """A full-length job of the paper's study: 20 cells, 40 rounds of 125 steps, a year of data.

    It is one of the nine of the study, a state and a personalisation, on one core as by default.
    """
    study = _study(
        client_opt=["adam", "adamams", "prox", "proxadam"],
        server_opt=_SERVERS,
        sharing="P2",
        rounds=40,
        steps=125,
        evaluate_every=10,
    )
    return by_part(study, study.cells, _dataset(CLIENTS, evaluated=YEAR // 10))


def recipe_job() -> Numbers:
    """A job of the recipe: its cells of one state and sharing scheme, as long as they are."""
    study = recipe.RECIPE
    cells = [c for c in study.cells if c.sharing == "P2" and c.state == study.cells[0].state]
    return by_part(study, cells, recipe.random_dataset(study, evaluated=YEAR // 10))


def by_codec(name: str) -> Numbers:
    """Seconds of processor time of trainings without codecs and with `ef21+q3+rc`, in turn: one
    cell of a study of codecs, as long as it is."""
    study = Study.load(recipe.CONFIG / f"{name}.yaml")
    variants = [study.variants[f"channel={codec}"] for codec in ("none", "ef21+q3+rc")]
    dataset = recipe.random_dataset(study, evaluated=YEAR // 20)
    seconds = []
    for _ in range(ROUNDS + 1):
        runs = [partial(train, one, one.cells[:1], dataset) for one in variants]
        seconds.append([_seconds(run, time.process_time) for run in runs])
    plain, coded = zip(*seconds[1:], strict=True)
    ratios = [b / a for a, b in seconds[1:]]
    return {"plain": plain, "coded": coded, "ratio": statistics.median(ratios)}


def by_part(study: Study, cells: list[Cell], dataset: Dataset) -> Numbers:
    """Seconds of processor time of the parts of a job."""
    spent: dict[str, float] = {}
    timed: dict[str, tuple[type, str]] = {
        "client-steps": (Fused, "train"),
        "evaluation": (Evaluator, "examine"),
        "minibatches": (ClientData, "minibatches"),
        "records": (Recorder, "train"),
        "records of scores": (Recorder, "evaluate"),
    }
    for part, (owner, method) in timed.items():
        _clock_calls(spent, part, owner, method)
    total = _seconds(lambda: train(study, cells, dataset), time.process_time)
    parts = {part: spent[part] for part in timed}
    parts["records"] += parts.pop("records of scores")
    parts["server and the rest"] = total - sum(parts.values())
    return {
        "seconds": total,
        "parts": parts,
        "cells": len(cells),
        "clients": len(dataset.clients),
        "peak_mib": _peak_mib(),
    }


def _clock_calls(spent: Numbers, part: str, owner: type, method: str) -> None:
    """Add the processor time of a method's calls to `spent[part]`, in this process from now on."""
    plain = getattr(owner, method)

    def clocked(*arguments: Any) -> Any:
        start = time.process_time()
        result = plain(*arguments)
        spent[part] = spent.get(part, 0.0) + time.process_time() - start
        return result

    setattr(owner, method, clocked)


def smoke() -> Numbers:
    """Seconds of `make smoke` when set up: of the processor and in all, in a folder of its own."""
    python, root = Path(sys.executable), Path(__file__).resolve().parents[1]
    command = [python.with_name("snakemake"), "--cores", "all", "--quiet", "all"]
    command += ["--snakefile", root / "Snakefile", "--configfile", root / "config" / "smoke.yaml"]
    path = {"PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        command += ["--directory", folder]
        seconds = _seconds(lambda: subprocess.run(command, check=True, env=os.environ | path))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"processor_seconds": processor, "seconds": seconds}


def _study(
    *,
    method: Sequence[str] = ("fedopt",),
    client_opt: Sequence[str] = ("adam",),
    server_opt: Sequence[str] = ("fedavg",),
    sharing: str = "P1",
    seeds: Sequence[int] = (10,),
    rounds: int = ROUNDS + 2,
    steps: int = STEPS,
    evaluate_every: int = ROUNDS + 2,
    method_options: Numbers | None = None,
    client_options: Numbers | None = None,
) -> Study:
    """A study of one state with rounds of `steps`, and options of methods and ClientOpts."""
    grid = {
        "method": list(method),
        "client_opt": list(client_opt),
        "server_opt": list(server_opt),
        "sharing": [sharing],
        "seeds": list(seeds),
    }
    rates = {"rounds": rounds, "local_steps": steps, "evaluate_every": evaluate_every}
    raw = {
        "data": {"source": "sample", "states": ["CA"]},
        "grid": grid,
        "federation": rates,
        "compute": {"engine": "fused", "device": "cpu"},
        "hyperparameters": {"method": method_options or {}, "client_opt": client_options or {}},
    }
    return Study.parse(raw, "benchmark")


def _rounds(study: Study, cells: list[Cell], dataset: Dataset) -> list[float]:
    """Seconds of the rounds, but for the first, which warms up, and the last, which evaluates."""
    ends: list[float] = []
    train(study, cells, dataset, lambda t: ends.append(time.perf_counter()))
    return [after - before for before, after in itertools.pairwise(ends)][:-1]


def _side_by_side(studies: list[Study], dataset: Dataset) -> list[tuple[float, float]]:
    """Of the first cell of each study: median seconds of processor time of a round, and the
    minibatch gradients taken in it. Their rounds alternate."""
    runs, counts = [], []
    for study in studies:
        torch.set_num_threads(study.compute.threads)
        forecaster = network_of(study, dataset.shape)
        engine, cell = make_engine(study.compute, forecaster, dataset), study.cells[0]
        counts.append(_count_gradients(engine))
        client_data = ClientData(dataset, engine, study.federation, cell.seed)
        f = federation_of(study, cell, study.candidates(cell)[0], forecaster, client_data)
        runs.append(partial(rounds.run, [f], engine, study.federation))
    seconds: list[list[float]] = [[] for _ in runs]
    gradients: list[list[float]] = [[] for _ in runs]
    for t in range(1, ROUNDS + 2):
        for run, count, own, taken in zip(runs, counts, seconds, gradients, strict=True):
            before = count[0]
            round_of = partial(run, range(t, t + 1), lambda finished: None)
            own.append(_seconds(round_of, time.process_time))
            taken.append(count[0] - before)
    # Rounds take different numbers of gradients with some methods, so both are of one round.
    both = zip(seconds, gradients, strict=True)
    return [sorted(zip(s[1:], g[1:], strict=True))[ROUNDS // 2] for s, g in both]


def _count_gradients(engine: Engine) -> list[float]:
    """A number in a list, to which the engine adds the minibatch gradients that it takes."""
    count, train_rows = [0.0], engine.train

    def counting(task: LocalTask) -> Tensor:
        steps = len(task.rows) * task.minibatches.starts.shape[1]
        if task.steps is not None:
            steps = int(task.steps.sum())
        count[0] += steps
        return train_rows(task)

    setattr(engine, "train", counting)  # noqa: B010
    return count


def _dataset(clients: int, evaluated: int) -> Dataset:
    """A year of random data of each client, with `evaluated` rows for validation and for test."""
    random = np.random.default_rng(0)
    rows = clients * YEAR
    first = np.arange(clients)[:, None] * YEAR
    edges = np.array([0, YEAR - 2 * evaluated, YEAR - evaluated, YEAR])
    return Dataset(
        clients=np.array([f"client {i}" for i in range(clients)]),
        columns=np.array(["load", *(f"x{i}" for i in range(1, FORECASTER.inputs))]),
        features=random.random((rows, FORECASTER.inputs), dtype=np.float32),
        covariates=np.zeros((rows, 0), np.float32),
        targets=random.random(rows, dtype=np.float32),
        load=random.random(rows),
        stamps=np.tile(np.datetime64("2018-01-01T00:15", "s") + np.arange(YEAR) * 900, clients),
        bounds=first + edges,
        load_offset=np.zeros(clients),
        load_scale=np.ones(clients),
        relative=False,
        look_back=FORECASTER.look_back,
        look_ahead=4,
        interval=15,
    )


def _peak_mib() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


if __name__ == "__main__":
    main()
