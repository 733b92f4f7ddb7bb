"""Files that were spoilt at random, and the one promise about them: a clear message, or a result.

A `Subject` is a few valid files and what plfl does with them. One of them is spoilt, byte by byte
or, if it is YAML, in its structure, and read: nothing but a `PlflError` may come of it, in
good time, and no file outside the study's folder.
"""

import gzip
import io
import json
import math
import random
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from plfl.base.errors import PlflError

DEADLINE = 30
"""Seconds after which reading is taken to hang."""

NASTY: tuple[Any, ...] = (
    *(None, True, -1, 0, 10**30, -(2**63), 2**63, 1.5, 1e308, -1e-320),
    *(math.nan, math.inf, -math.inf, "", " ", "nan", "-inf", "1e999", "0x10", "1_000", "１２"),
    *("\0", "a\nb", "\ufeff", "\u202e", "é" * 300, "9" * 5000, "%s%n{0}", "=1+1", "*", "[" * 40),
    *("../../outside", "/outside", "..", ".", "C:\\outside", "~", "$HOME", "a/../../../outside"),
    *([], {}, [[]], [None], {"": None}, {"a": {"b": [1, "x"]}}, [1] * 100, "9999-99-99 99:99"),
)
"""Values that a careless reader trips over."""

# Each list is the one before it, twice: in words, gigabytes.
_BOMB = f"[&a0 [x, x], {', '.join(f'&a{i} [*a{i - 1}, *a{i - 1}]' for i in range(1, 40))}]"

NASTY_YAML = (
    "!!python/object/apply:os.system ['touch ../outside']",
    "!!python/object/apply:pathlib.Path.touch [!!python/object/apply:pathlib.Path [../outside]]",
    "!!python/name:os.system",
    *("&a [*a]", "{<<: 1}", "? [1]", "{[1]: 2}", "{{1: 2}: 3}", "2001-99-99", "!!int x"),
    *("!!float ''", "!!binary ÿ", "!!set {a}", "!!timestamp x", "1:99:99", "0b", "0o9", "9" * 5000),
    *("[" * 1200, "{a: " * 1200, "*a", "%", "@", "\t", "'", "- - -", "---", "!", "|", _BOMB),
)
"""The same, of what only a reader of YAML meets: code, bombs, depth, loops, impossible values."""


@dataclass(frozen=True)
class Subject:
    """What plfl reads, and how."""

    name: str
    files: Mapping[str, bytes]
    """The valid files, by their paths from the working directory."""
    read: Callable[[random.Random], object]
    """Reads them, with settings drawn at random if there are any."""
    spoilt: tuple[str, ...] = ()
    """Those that are spoilt; all if none is named."""


# -- spoiling ------------------------------------------------------------------------------------


def spoil(content: bytes, name: str, dice: random.Random) -> bytes:
    """The content of a file, spoilt."""
    if name.endswith(".yaml") and dice.random() < 0.6:
        return _yaml(content, dice)
    for _ in range(dice.choice([1, 1, 1, 2, 5, 20])):
        content = _bytes(content, dice)
    return content


def _bytes(content: bytes, dice: random.Random) -> bytes:
    """With a bit changed, cut, with bytes less, more or twice, or something else."""
    at, end = sorted(dice.randrange(len(content) + 1) for _ in range(2))
    few, bit = dice.choice([1, 4, 100]), 1 << dice.randrange(8)
    others = (b"", b"\0" * 100, b"\n" * 50, b"{}", b"[]", b"<html>", b"\xff\xfe", b"PAR1")
    flipped = content[:at] + bytes(b ^ bit for b in content[at : at + 1]) + content[at + 1 :]
    inserted = content[:at] + dice.randbytes(few) + content[at:]
    changed = (content[:at], content[:at] + content[at + few :], inserted)
    return dice.choice(
        [*[flipped] * 3, *changed, content[:end] + content[at:], dice.choice(others)]
    )


def _yaml(content: bytes, dice: random.Random) -> bytes:
    if dice.random() < 0.7:
        return yaml.dump(_tree(yaml.safe_load(content), dice), allow_unicode=True).encode()
    lines = content.decode().split("\n")
    at = dice.randrange(len(lines))
    lines[at] = f"{lines[at].split(':')[0]}: {dice.choice(NASTY_YAML)}"
    return "\n".join(lines).encode()


def _tree(tree: Any, dice: random.Random) -> Any:
    """A tree of blocks and lists in which a few places are changed."""
    for _ in range(dice.choice([1, 1, 2, 4])):
        tree = _place(tree, dice)
    return tree


def _place(tree: Any, dice: random.Random) -> Any:
    if not isinstance(tree, dict | list) or not tree or dice.random() < 0.1:
        return dice.choice(NASTY)
    what = dice.random()
    if isinstance(tree, dict):
        key = dice.choice(list(tree))
        if what < 0.1:
            return {k: v for k, v in tree.items() if k != key}
        if what < 0.2:
            odd = [k for k in NASTY if not isinstance(k, dict | list)]
            return tree | {dice.choice(odd): tree[key]}
        return tree | {key: _place(tree[key], dice)}
    at = dice.randrange(len(tree))
    if what < 0.1:
        return tree[:at] + tree[at + 1 :]
    if what < 0.2:
        return [*tree, tree[at]]
    return [*tree[:at], _place(tree[at], dice), *tree[at + 1 :]]


# -- one try -------------------------------------------------------------------------------------


def survive(subject: Subject, dice: random.Random, sandbox: Path) -> str | None:
    """Spoil a file of the subject and read all, with settings drawn from `dice`; the message if it
    was refused. The `sandbox` is a folder for this alone.

    Raises:
        AssertionError: it ended otherwise, and how.
    """
    victim = dice.choice(subject.spoilt or tuple(subject.files))
    content = spoil(subject.files[victim], victim, dice)
    work = sandbox / "work"
    for name, whole in subject.files.items():
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if name == victim else whole)
    said = None
    with chdir(work), _deadline():
        try:
            subject.read(dice)
        except PlflError as error:
            said = str(error)
        except Exception as error:
            raise AssertionError(f"{subject.name}: {victim}: {type(error).__name__}") from error
    assert {path.name for path in sandbox.iterdir()} == {"work"}, f"{subject.name}: wrote outside"
    if said is not None:
        assert said.strip()
        assert len(said) < 100_000, f"{subject.name}: {victim}: a message of {len(said)} characters"
    return said


@contextmanager
def _deadline() -> Iterator[None]:
    def expire(*_: object) -> None:
        raise AssertionError(f"no end after {DEADLINE} s")

    before = signal.signal(signal.SIGALRM, expire)
    signal.alarm(DEADLINE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# -- what plfl reads -----------------------------------------------------------------------------


def _configuration() -> Subject:
    from plfl.study import Study

    def read(dice: random.Random) -> None:
        study = Study.load("my.yaml")
        if math.prod(len(axis) for _, axis in study.grid) < 1000:
            json.dumps([study.plan.settings(cell) for cell in study.cells[:3]], allow_nan=False)

    whole = Study().model_dump(mode="json")
    return Subject("configuration", {"my.yaml": yaml.safe_dump(whole).encode()}, read)


def _meters() -> Subject:
    from plfl.config.data import Data
    from plfl.config.windows import Windows
    from plfl.data import meters, windows
    from plfl.data.features import assemble

    stamps = pd.date_range("2024-01-01 00:15", periods=200, freq="15min", name="timestamp")
    load = 2 + np.sin(np.arange(len(stamps)) / 9)
    table = pd.DataFrame({"load": load.round(3), "temperature": 5.0, "floor_area": 100.0}, stamps)
    text = table.to_csv().encode()
    workbook = io.BytesIO()
    table.reset_index().to_excel(workbook, index=False)
    files = {
        "meters/a.csv": text,
        "meters/b.csv.gz": gzip.compress(text, mtime=0),
        "meters/d.xlsx": workbook.getvalue(),
    }
    columns = {name: name for name in ("timestamp", "load", "temperature", "floor_area")}
    settings = {"columns": columns, "timezone": "America/New_York", "max_gap": 60}
    data = Data.model_validate(
        {"source": "meters", "states": ["A"], "clients": 3, "meters": settings}
    )

    def read(dice: random.Random) -> None:
        series = meters.read(data, "A")
        tables = {name: assemble(part, data.features) for name, part in series.items()}
        windows.build(tables, Windows())

    return Subject("meters", files, read)


SUBJECTS: Mapping[str, Callable[[], Subject]] = {"configuration": _configuration, "meters": _meters}
"""What users write themselves."""
