"""The native kernel against PyTorch's layers and optimisers, and the making of it."""

import logging
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from plfl.models.forecaster import Forecaster
from plfl.optimizers.client.adam import Adam
from plfl.optimizers.client.adamams import AdamAMS
from plfl.optimizers.client.proxadam import ProxAdam
from plfl.optimizers.client.sgd import Sgd
from plfl.tasks.losses import OfErrors
from plfl.training.fused import Fused, unavailable_reason
from plfl.training.native import compile
from plfl.training.native.flags import FOLDER, SOURCE, stem
from plfl.training.reference import Reference
from plfl.training.stacked import Stacked
from plfl.training.task import LocalTask, Minibatches
from tests.helpers.kernels import instruction_sets
from tests.helpers.pairwise import pairwise
from tests.helpers.refusals import naming
from tests.helpers.tasks import changed, copied, everything, in_double
from tests.training.test_engines import OPTIMISERS as ALL
from tests.training.test_engines import PAPER, SMALL, TERMS, TERMS_AND_OPTIMISERS, with_terms
from tests.training.test_engines import dataset as windows

CPU = torch.device("cpu")
OPTIMISERS = [*ALL, Adam(lr=0.01, beta1=0, beta2=0.999, eps=1e-3)]

needs_kernel = pytest.mark.skipif(
    unavailable_reason() is not None, reason=f"no fused engine here: {unavailable_reason()}"
)


def dataset(forecaster):
    return windows(forecaster, clients=2, rows=600)


def task(forecaster, optimiser, rows=3, steps=5, size=16, dtype=torch.float32):
    generator = torch.Generator().manual_seed(7)
    models = torch.stack([forecaster.initial(s) for s in range(rows)]).to(dtype)
    starts = torch.randint(0, 500, (rows, steps, size), generator=generator)
    shared = torch.from_numpy(forecaster.layout.mask(["lstm.*", "*.slope"]))
    return LocalTask.fresh(optimiser, models, Minibatches(starts), shared)


def error(got, expected, start):
    """Distance of each row from where it should be, relative to the way it went; the median row.

    The median, as a row whose rounding lets one sample fall on the other side of a PReLU's kink
    goes another way from there, under PyTorch's own arithmetic as often as under the kernel's.
    """
    distance = torch.linalg.vector_norm(got.double() - expected.double(), dim=1)
    way = torch.linalg.vector_norm(expected.double() - start.double(), dim=1)
    return (distance / way).median().item()


@needs_kernel
@pytest.mark.parametrize("optimiser", OPTIMISERS, ids=repr)
def test_five_steps_agree_with_the_reference(optimiser):
    data = dataset(PAPER)
    theirs = task(PAPER, optimiser)
    start = theirs.rows.clone()
    expected = Reference(PAPER, data, CPU).train(theirs)
    for instructions in instruction_sets():
        ours = task(PAPER, optimiser)
        loss = Fused(PAPER, data, CPU, instructions=instructions).train(ours)
        torch.testing.assert_close(loss, expected, rtol=1e-5, atol=0)
        assert error(ours.rows, theirs.rows, start) < 1e-5, instructions


@needs_kernel
def test_a_full_round_is_as_near_to_the_exact_one_as_the_reference_is():
    data = dataset(PAPER)
    single = task(PAPER, AdamAMS(), steps=125)
    start, exact, theirs = single.rows.clone(), in_double(single), copied(single, slice(None))
    Stacked(PAPER, data, CPU, torch.float64).train(exact)
    Reference(PAPER, data, CPU).train(theirs)
    allowed = 2 * error(theirs.rows, exact.rows, start)
    for name in instruction_sets():
        ours = copied(single, slice(None))
        ours.rows.copy_(start)
        Fused(PAPER, data, CPU, instructions=name).train(ours)
        assert error(ours.rows, exact.rows, start) < allowed


@needs_kernel
@pytest.mark.parametrize(
    ("optimiser", "strengths", "constant"),
    pairwise(
        [Sgd(lr=0.1), Adam(), ProxAdam(mu=0.5)],
        [1, 2, 4, 5],
        ["nowhere", "where something pulls", "everywhere"],
    ),
    ids=repr,
)
def test_a_pull_of_few_strengths_agrees_with_the_reference(optimiser, strengths, constant):
    """Those of at most four are kept in another form, as is a constant that comes with a pull."""
    data = dataset(SMALL)
    start = task(SMALL, optimiser).rows
    pull = torch.arange(start.shape[1]) % (strengths + 1) / 2
    terms = {"pull": pull}
    if constant != "nowhere":
        where = pull > 0 if constant == "where something pulls" else 1
        terms["constant"] = (
            0.1 * where * torch.randn(start.shape, generator=torch.Generator().manual_seed(1))
        )
    theirs = changed(task(SMALL, optimiser), **terms)
    expected = Reference(SMALL, data, CPU).train(theirs)
    for instructions in instruction_sets():
        ours = changed(task(SMALL, optimiser), **terms)
        engine = Fused(SMALL, data, CPU, instructions=instructions)
        torch.testing.assert_close(engine.train(ours), expected, rtol=1e-5, atol=0)
        assert error(ours.rows, theirs.rows, start) < 1e-5, instructions


@needs_kernel
@pytest.mark.parametrize("size", [1, 5, 16, 19, 40])
@pytest.mark.parametrize(
    "forecaster",
    [
        SMALL,
        Forecaster(inputs=1, look_back=1, hidden=1, mlp=(), absolute=False),
        Forecaster(inputs=5, look_back=3, hidden=17, mlp=(33, 20, 5), absolute=False),
        Forecaster(inputs=2, look_back=4, hidden=40, mlp=(16,), absolute=True),
    ],
    ids=str,
)
def test_any_size_of_model_and_batch(forecaster, size):
    data = dataset(forecaster)
    theirs = task(forecaster, Adam(), rows=5, size=size)
    start = theirs.rows.clone()
    reference = Reference(forecaster, data, CPU)
    losses = reference.train(theirs)
    starts = [torch.arange(3 * i, 4 * i + size) for i in range(5)]
    wanted = reference.predict(theirs.rows, starts)
    for instructions in instruction_sets():
        ours = task(forecaster, Adam(), rows=5, size=size)
        engine = Fused(forecaster, data, CPU, instructions=instructions)
        torch.testing.assert_close(engine.train(ours), losses, rtol=1e-5, atol=1e-9)
        assert error(ours.rows, theirs.rows, start) < 1e-5, instructions
        forecasts = engine.predict(theirs.rows, starts)
        for got, expected in zip(forecasts, wanted, strict=True):
            torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-6)
        none = torch.arange(0)
        assert [len(f) for f in engine.predict(ours.rows[:2], [none, starts[0]])] == [0, size]


@needs_kernel
@pytest.mark.parametrize("optimiser", OPTIMISERS, ids=repr)
@pytest.mark.parametrize("kept", ["everything", "the personal part"])
def test_kept_state_goes_on_where_it_was(optimiser, kept):
    """Two rounds of three steps on moments that are kept, against the same in double precision."""
    data = dataset(SMALL)
    ours = task(SMALL, optimiser, rows=5, steps=3)
    start, exact = ours.rows.clone(), in_double(ours)
    engine, oracle = Fused(SMALL, data, CPU), Stacked(SMALL, data, CPU, torch.float64)
    engine.train(ours)
    oracle.train(exact)
    taken = torch.full((5, 1), 3.0, dtype=torch.float64)
    if kept == "the personal part":
        taken = torch.where(ours.shared, 0, taken)
        for x in [*ours.moments.state.values(), *exact.moments.state.values()]:
            x[:, ours.shared] = 0
    ours, exact = changed(ours, behind=taken), changed(exact, behind=taken)
    engine.train(ours)
    oracle.train(exact)
    assert error(ours.rows, exact.rows, start) < (2e-5 if "m" in ours.moments.state else 1e-3)
    for name, x in exact.moments.state.items():
        assert error(ours.moments.state[name], x, torch.zeros_like(x)) < 1e-4


@needs_kernel
@pytest.mark.parametrize(("terms", "optimiser"), TERMS_AND_OPTIMISERS)
def test_five_steps_with_terms_agree_with_the_reference(optimiser, terms):
    data = dataset(SMALL)
    ours = with_terms(task(SMALL, optimiser), terms)
    begun, theirs = everything(copied(ours)), copied(ours)
    loss = Fused(SMALL, data, CPU).train(ours)
    expected = Reference(SMALL, data, CPU).train(theirs)
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=0)
    found = everything(ours)
    for name, values in everything(theirs).items():
        origin = torch.zeros_like(values) if name in ("momentum", "square") else begun[name]
        assert error(found[name], values, origin) < 1e-5, name
    if ours.terms.frozen is not None:
        frozen = ours.terms.frozen
        assert torch.equal(ours.rows[:, frozen], begun["rows"][:, frozen])


@needs_kernel
@pytest.mark.parametrize(("optimiser", "terms"), [(Adam(), []), (ProxAdam(mu=0.5), TERMS)])
def test_a_row_trains_to_the_same_bits_in_any_stack(optimiser, terms, instructions):
    """Seven rows train and forecast as they do alone, on any number of threads."""
    fresh, data = with_terms(task(PAPER, optimiser, rows=7, size=20), terms), dataset(PAPER)
    whole = copied(fresh, slice(None))
    loss = Fused(PAPER, data, CPU, threads=1, instructions=instructions).train(whole)
    starts = [torch.arange(10 * i, 10 * i + 33) for i in range(7)]
    forecasts = Fused(PAPER, data, CPU, threads=1).predict(whole.rows, starts)
    for threads in (1, 2, 5):
        engine = Fused(PAPER, data, CPU, threads=threads, instructions=instructions)
        for rows in ([0], [3, 4], [6, 2, 0, 5, 1], list(range(7))):
            some = copied(fresh, rows)
            assert torch.equal(engine.train(some), loss[rows])
            found = everything(whole)
            for name, values in everything(some).items():
                assert torch.equal(values, found[name][rows]), name
            for name, x in some.moments.state.items():
                assert torch.equal(x, whole.moments.state[name][rows])
        engine = Fused(PAPER, data, CPU, threads=threads)
        again = engine.predict(whole.rows[[5, 2]], [starts[5][7:], starts[2]])
        assert torch.equal(again[0], forecasts[5][7:])
        assert torch.equal(again[1], forecasts[2])


class Begun(Adam):
    """Adam with squares that do not begin at zero."""

    def init(self, y):
        return {"m": y.new_zeros(y.shape), "v": y.new_full(y.shape, 0.01)}


@needs_kernel
@pytest.mark.parametrize("engine", [Fused, Stacked, Reference])
@pytest.mark.parametrize("optimiser", [Sgd(), AdamAMS(), Adam(), Begun()], ids=repr)
def test_a_task_without_state_begins_with_a_fresh_one(engine, optimiser):
    begun, empty = task(SMALL, optimiser), task(SMALL, optimiser)
    empty = changed(empty, state={})
    engine = engine(SMALL, dataset(SMALL), CPU)
    assert torch.equal(engine.train(begun), engine.train(empty))
    assert torch.equal(begun.rows, empty.rows)


@needs_kernel
@pytest.mark.parametrize("engine", [Fused, Stacked, Reference])
def test_a_gradient_within_the_limit_is_left_alone(engine):
    free, limited = task(SMALL, Adam()), changed(task(SMALL, Adam()), clip=1e3)
    engine = engine(SMALL, dataset(SMALL), CPU)
    torch.testing.assert_close(engine.train(free), engine.train(limited))
    torch.testing.assert_close(free.rows, limited.rows, rtol=0, atol=1e-6)


@needs_kernel
def test_rows_and_state_may_lie_anywhere_in_memory():
    data = dataset(SMALL)
    plain, odd = task(SMALL, Adam()), task(SMALL, Adam())
    odd = changed(
        odd,
        rows=odd.rows.repeat(1, 2)[:, : SMALL.layout.width],
        state={name: x.mT.contiguous().mT for name, x in odd.moments.state.items()},
        starts=odd.minibatches.starts.mT.contiguous().mT.int(),
    )
    engine = Fused(SMALL, data, CPU)
    assert torch.equal(engine.train(plain), engine.train(odd))
    assert torch.equal(plain.rows, odd.rows)
    assert torch.equal(plain.moments.state["v"], odd.moments.state["v"])


@needs_kernel
def test_windows_outside_of_the_table_are_refused():
    data = dataset(SMALL)
    engine, whole = Fused(SMALL, data, CPU), task(SMALL, Adam())
    last = len(data.features) - data.look_back - data.look_ahead
    engine.predict(whole.rows[:1], [torch.tensor([0, last])])
    for start in (-1, last + 1):
        with naming(IndexError, last):
            engine.predict(whole.rows[:1], [torch.tensor([start])])
        with pytest.raises(IndexError):
            engine.train(changed(whole, starts=torch.full((3, 5, 16), start)))


class SignSgd(Sgd):
    """An optimiser of a user's own."""

    name = "signsgd"

    def step(self, y, g, state, k):
        y.add_(g.sign(), alpha=-self.lr)


@needs_kernel
def test_what_the_kernel_does_not_know_is_left_to_stacked(caplog):
    data = dataset(SMALL)
    uneven = torch.arange(SMALL.layout.width, dtype=torch.float64).expand(3, -1)
    quartic = OfErrors("quartic", lambda errors: errors**4, lambda errors: 4 * errors**3)
    unknown = [
        task(SMALL, SignSgd()),
        changed(task(SMALL, Adam()), behind=uneven),
        changed(task(SMALL, Adam()), loss=quartic),
    ]
    for fresh in unknown:
        ours, theirs = copied(fresh, slice(None)), copied(fresh, slice(None))
        with caplog.at_level(logging.WARNING):
            loss = Fused(SMALL, data, CPU).train(ours)
        assert torch.equal(loss, Stacked(SMALL, data, CPU).train(theirs))
        assert torch.equal(ours.rows, theirs.rows)
    assert "signsgd" in caplog.text


@needs_kernel
def test_only_float32_on_the_cpu():
    with naming(ValueError, "float32"):
        Fused(SMALL, dataset(SMALL), CPU, torch.float64)
    with pytest.raises(ValueError, match="are needed, not"):
        Fused(SMALL, dataset(SMALL), CPU).train(task(SMALL, Adam(), dtype=torch.float64))


@needs_kernel
def test_arrays_of_another_size_are_refused():
    engine, whole = Fused(SMALL, dataset(SMALL), CPU), task(SMALL, Adam())
    recursive = with_terms(whole, ["storm"])
    for wrong in (
        changed(whole, rows=whole.rows[:, 1:]),
        changed(whole, starts=whole.minibatches.starts.repeat(2, 1, 1)),
        changed(whole, state={name: x[:1] for name, x in whole.moments.state.items()}),
        changed(whole, constant=whole.rows[:1]),
        changed(whole, pull=whole.rows),
        changed(whole, targets=whole.rows),
        changed(whole, frozen=whole.shared[1:]),
        changed(whole, shared=whole.shared[1:]),
        changed(whole, steps=torch.tensor([1, 6, 1])),
        *(
            changed(recursive, storm=replace(recursive.terms.storm, **{n: whole.rows[1:]}))
            for n in ("momentum", "square", "scale")
        ),
    ):
        with pytest.raises(ValueError, match="are needed, not"):
            engine.train(wrong)
    with pytest.raises(ValueError, match="are needed, not"):
        engine.predict(whole.rows, [torch.arange(5)] * 4)


@pytest.fixture
def fresh_cache(tmp_path, monkeypatch):
    """An empty cache folder, and no kernel loaded yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CXX", raising=False)
    compile.load_kernel.cache_clear()
    yield tmp_path
    compile.load_kernel.cache_clear()


def stand_in(folder, body):
    """A stand-in for the C++ compiler."""
    script = folder / "stand_in"
    script.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo 1.0 && exit\n{body}\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return str(script)


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [("PATH", "", "there is no C++ compiler"), ("CXX", "g++ 'unclosed", "CXX=g++ 'unclosed")],
)
def test_no_compiler(fresh_cache, monkeypatch, variable, value, told):
    monkeypatch.setenv(variable, value)
    assert told in unavailable_reason()
    with pytest.raises(compile.CompileError):
        Fused(SMALL, dataset(SMALL), CPU)


def test_a_compiler_that_fails(fresh_cache, monkeypatch):
    body = "echo In a file: >&2; echo k.cpp:1: error: bad >&2; echo error: more >&2; exit 1"
    monkeypatch.setenv("CXX", stand_in(fresh_cache, body))
    assert unavailable_reason().endswith("stand_in failed: k.cpp:1: error: bad")
    assert not any(path.is_file() for path in (fresh_cache / "cache").rglob("*"))


def test_a_build_that_came_with_the_package_needs_no_compiler(fresh_cache, monkeypatch):
    build = fresh_cache / f"{stem('plain')}.so"
    build.touch()
    monkeypatch.setattr(compile, "FOLDER", fresh_cache)
    monkeypatch.setenv("PATH", "")
    assert compile.build_kernel("plain") == build


def test_no_home_for_the_cache(fresh_cache, monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setenv("CXX", stand_in(fresh_cache, "exit 0"))
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", homeless)
    assert "home directory.; XDG_CACHE_HOME" in unavailable_reason()


def test_an_old_compiler_that_knows_no_new_instructions(fresh_cache, monkeypatch):
    """The next best set is taken; here the stand-in makes nothing that can be loaded at all."""
    made = fresh_cache / "made"
    body = f'case "$*" in *avx512f*) echo error: unknown >&2; exit 1;; esac; echo "$@" >> {made}'
    monkeypatch.setenv("CXX", stand_in(fresh_cache, body))
    monkeypatch.setattr(compile, "supported", lambda: ["avx512", "avx2", "plain"])
    assert unavailable_reason() is not None
    assert ["-mavx2" in line for line in made.read_text().splitlines()] == [True, False]


def test_a_cache_folder_that_cannot_be_written(fresh_cache, monkeypatch):
    monkeypatch.setenv("CXX", stand_in(fresh_cache, "exit 0"))
    (fresh_cache / "cache").touch()
    assert "XDG_CACHE_HOME can name another" in unavailable_reason()


def test_every_file_of_the_kernel_is_part_of_its_digest():
    """A header that is not named would change without anything being compiled or run again."""
    files = {path.name for path in FOLDER.iterdir() if path.suffix in (".cpp", ".h")}
    assert files == {SOURCE, *compile.HEADERS}


def test_compiled_once_and_anew_for_another_compiler(fresh_cache, monkeypatch):
    log = fresh_cache / "log"
    monkeypatch.setenv("CXX", stand_in(fresh_cache, f'echo "$@" >> {log}'))
    first = compile.build_kernel("plain")
    assert compile.build_kernel("plain") == first
    assert len(log.read_text().splitlines()) == 1
    assert "-ffast-math" not in log.read_text()
    monkeypatch.setenv("CXX", os.environ["CXX"] + " -g")
    second = compile.build_kernel("plain")
    assert second != first
    assert first.exists()
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", "")
    assert compile.build_kernel("plain") in (first, second)
