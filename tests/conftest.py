"""What tests of several rooms share."""

import gc
import os
import shutil
import sys
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

# Every worker of pytest-xdist would start a thread for every core. Threads that wait for a core
# spin: small matrices then cost several times as much processor time.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Where a test wants several threads, those that wait sleep.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# One worker of `--numprocesses auto` more than cores: some wait for programs that they start.
os.environ.setdefault("PYTEST_XDIST_AUTO_NUM_WORKERS", str((os.cpu_count() or 1) + 1))

import pytest
from hypothesis import settings

from tests.helpers.projects import WriteStudy, write_own_study

# Python looks for garbage after every 700 new objects, which takes a twentieth of the time.
gc.set_threshold(100_000, 50, 1000)

# How long an example takes is up to the machine, which others may keep busy.
settings.register_profile("plfl", deadline=None)
settings.load_profile("plfl")


MEMORY = Path("/dev/shm")
"""A folder in memory, on Linux."""
NEEDED_MEMORY = 2 * 2**30
"""Bytes that are enough for the files of the tests, of which a run has 0.3 GB at a time."""

LONGEST = (
    *("deploy/test_flower.py", "forecast/test_export.py", "forecast/test_new_files.py"),
    *("test_workflow.py", "faults/test_kill.py", "deploy/protocol/test_replay.py"),
    *("report/test_figures.py", "results/test_comparisons.py", "publish/test_tracking.py"),
    *("report/test_page.py", "methods/test_every_method.py", "training/test_device.py"),
    *("test_wheel.py", "training/test_fused.py", "deploy/protocol/test_trees.py"),
    *("data/test_recognising.py", "outside/test_score.py", "deploy/protocol/test_secure.py"),
    *("results/test_claims.py", "outside/test_submissions.py", "test_examples.py"),
    *("pipeline/test_screen.py", "data/test_questions.py", "training/test_stack_sizes.py"),
    *("test_catalogue.py", "data/test_reading.py", "baselines/test_outside.py"),
)
"""The files of tests that take longest, longest first."""


def pytest_configure() -> None:
    """Files of tests are in memory, if it has room for them and programs may run there: a twentieth
    of the time would be that of the disk."""
    if (
        MEMORY.is_dir()
        and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC
        and shutil.disk_usage(MEMORY).free > NEEDED_MEMORY
    ):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files go first, so that no worker of pytest-xdist has one left at the end, when
    the others have nothing to do."""
    ranks = {Path(__file__).parent / name: rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(item.path, len(ranks)))


def pytest_collection_finish() -> None:
    """What is imported stays, so Python need not look for garbage there."""
    gc.freeze()


@pytest.fixture(autouse=True)
def few_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stacks of two sizes: tracing a model for every size takes long, and changes no bit."""
    if (module := sys.modules.get("plfl.training.stacked")) is not None:
        monkeypatch.setattr(module, "STACK_SIZES", (2, 8))


@lru_cache(maxsize=48)
def sample_file(write: Callable[..., Path], *arguments: Any) -> bytes:
    """What a function writes into a file of the sample data, which depends on its arguments only
    (2 MB)."""
    with TemporaryDirectory() as folder:
        return write(Path(folder, "file"), *arguments).read_bytes()


def write_again(write: Callable[..., Path], path: Path, *arguments: Any) -> Path:
    """Write a file of the sample data, which is made only once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(sample_file(write, *arguments))
    return path


@pytest.fixture(autouse=True)
def few_simulations(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process makes a file of the sample data once, though every fetch writes it again. The tests
    of the sample data themselves make it each time."""
    module = sys.modules.get("plfl.data.sample.store")
    if module is not None and request.path.name != "test_sample.py":
        for name in ("_write_series", "_write_weather"):
            monkeypatch.setattr(module, name, partial(write_again, getattr(module, name)))


@lru_cache
def operators(function: Callable[..., Any], **keys: Any) -> Any:
    """The operators that a function of PyTorch lists, which nobody changes."""
    return function(**keys)


@pytest.fixture(autouse=True)
def few_lists_of_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process lists the operators of ONNX and PyTorch once, which takes a second; PyTorch lists
    them anew for each export."""
    module = sys.modules.get("torch.onnx._internal.exporter._registration")
    if module is not None:
        function = partial(operators, module.ONNXRegistry.from_torchlib)
        monkeypatch.setattr(module.ONNXRegistry, "from_torchlib", staticmethod(function))
    for name in ("torch.export.exported_program", "torch.export.decomp_utils"):
        if (module := sys.modules.get(name)) is not None:
            function = partial(operators, module._collect_all_valid_cia_ops)
            monkeypatch.setattr(module, "_collect_all_valid_cia_ops", function)


@pytest.fixture(autouse=True)
def few_stack_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch need not note, for each operation that it traces, where in the program that was,
    which takes a third of the time of tracing."""
    module = sys.modules.get("torch._subclasses.fake_tensor")
    if module is not None:
        monkeypatch.setattr(module, "traceback", SimpleNamespace(extract_stack=list))


@pytest.fixture(autouse=True)
def plug_ins_of_this_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test plugs in is gone after it."""
    if (module := sys.modules.get("plfl.plugins.registry")) is not None:
        before = {room: dict(algorithms) for room, algorithms in module.PLUGGED.items()}
        monkeypatch.setattr(module, "PLUGGED", before)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own, in which the test works."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def invoke(capsys: pytest.CaptureFixture[str]) -> Callable[..., "pytest.CaptureResult[str]"]:
    """What the command prints that ends with a status: `invoke("cells", path, status=2).err`."""

    def invoked(*arguments: object, status: int = 0) -> "pytest.CaptureResult[str]":
        from plfl.cli.main import main

        assert main([*map(str, arguments)]) == status
        return capsys.readouterr()

    return invoked


@pytest.fixture
def write_study(here: Path) -> WriteStudy:
    """Writes a study of three own meters into the folder of the test."""
    return write_own_study
