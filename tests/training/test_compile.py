"""The making of the native kernel, and which engine trains."""

import os
import stat

import pytest

from plfl.base.errors import ConfigError
from plfl.config.compute import Compute
from plfl.models.gru import Gru
from plfl.models.lstm_mlp import LstmMlp
from plfl.training.engines import choose_engine, make_engine
from plfl.training.fused import Fused, unavailable_reason
from plfl.training.native import compile
from plfl.training.native.flags import FOREST, NATIVE_FOLDER, SOURCE, stem
from plfl.training.stacked import Stacked
from tests.helpers.engine_cases import CPU, SHAPE, SMALL, make_dataset, with_covariates
from tests.helpers.refusals import naming


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


def test_no_compiler(fresh_cache, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert "there is no C++ compiler" in unavailable_reason()
    with pytest.raises(compile.CompileError):
        Fused(SMALL, make_dataset(SMALL), CPU)


def test_a_compiler_that_fails(fresh_cache, monkeypatch):
    body = "echo In a file: >&2; echo k.cpp:1: error: bad >&2; echo error: more >&2; exit 1"
    monkeypatch.setenv("CXX", stand_in(fresh_cache, body))
    assert unavailable_reason().endswith("stand_in failed: k.cpp:1: error: bad")
    assert not any(path.is_file() for path in (fresh_cache / "cache").rglob("*"))


def test_a_build_that_came_with_the_package_needs_no_compiler(fresh_cache, monkeypatch):
    build = fresh_cache / f"{stem('plain')}.so"
    build.touch()
    monkeypatch.setattr(compile, "NATIVE_FOLDER", fresh_cache)
    monkeypatch.setenv("PATH", "")
    assert compile.build_kernel("plain") == build


def test_an_old_compiler_that_knows_no_new_instructions(fresh_cache, monkeypatch):
    """The next best set is taken; here the stand-in makes nothing that can be loaded at all."""
    made = fresh_cache / "made"
    body = f'case "$*" in *avx512f*) echo error: unknown >&2; exit 1;; esac; echo "$@" >> {made}'
    monkeypatch.setenv("CXX", stand_in(fresh_cache, body))
    monkeypatch.setattr(compile, "find_supported", lambda: ["avx512", "avx2", "plain"])
    assert unavailable_reason() is not None
    assert ["-mavx2" in line for line in made.read_text().splitlines()] == [True, False]


def test_every_file_of_the_kernel_is_part_of_its_digest():
    """A header that is not named would change without anything being compiled or run again."""
    files = {path.name for path in NATIVE_FOLDER.iterdir() if path.suffix in (".cpp", ".h")}
    assert files == {SOURCE, *compile.HEADER_FILES, FOREST}


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


def test_a_machine_without_a_compiler_is_told_once_and_trains(caplog, monkeypatch):
    monkeypatch.setattr("plfl.training.engines.unavailable_reason", lambda: "no C++ compiler")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert choose_engine(Compute(), LstmMlp().kernel_form) == ("stacked", "cpu")
    (line,) = caplog.messages
    assert all(word in line for word in ("stacked", "fused", "no C++ compiler"))
    with naming(ConfigError, "'fused'"):
        choose_engine(Compute(engine="fused"), LstmMlp().kernel_form)


def test_the_fused_engine_leaves_models_that_it_does_not_know(caplog):
    network, data = Gru().network(SHAPE), with_covariates()
    with caplog.at_level("INFO"):
        assert isinstance(make_engine(Compute(device="cpu"), network, data), Stacked)
    assert "fused" in caplog.text
    with naming(ConfigError, "'fused'"):
        make_engine(Compute(device="cpu", engine="fused"), network, data)
