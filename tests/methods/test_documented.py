"""docs/add-an-algorithm.md lists what a method may use: it exists, and methods use nothing else."""

import inspect
import re
from pathlib import Path

import pytest

from plfl.federated.channel import Channel
from plfl.federated.client_data import ClientData
from plfl.federated.clock import Clock
from plfl.federated.federation import Federation, KeptMoments
from plfl.federated.session import Session
from plfl.optimizers.server import ServerState

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "add-an-algorithm.md").read_text(encoding="utf-8")
HOLDERS = {
    "f": Federation,
    "session": Session,
    "f.channel": Channel,
    "f.server": ServerState,
    "f.moments": KeptMoments,
    "f.clock": Clock,
    "f.client_data": ClientData,
}
PARTS = [name for name in HOLDERS if "." in name]
LISTED = {
    name
    for row in re.findall(r"^\| (`(?:f|session)\..*?) \|", PAGE, flags=re.MULTILINE)
    for name in re.findall(r"`([\w.]+)`", row)
}


@pytest.mark.parametrize("name", sorted(LISTED))
def test_what_the_page_lists_exists(name: str) -> None:
    holder, _, attribute = name.rpartition(".")
    cls = HOLDERS[holder]
    assigned = re.search(rf"self\.{attribute}\b[^=\n]*=[^=]", inspect.getsource(cls))
    assert hasattr(cls, attribute) or attribute in cls.__annotations__ or assigned


FILES = [
    *(ROOT / "plfl" / "methods").glob("*.py"),
    *(ROOT / "plfl_reproductions" / "methods").glob("*.py"),
]


@pytest.mark.parametrize("file", sorted(FILES), ids=lambda f: f.stem)
def test_a_method_uses_only_what_the_page_lists(file: Path) -> None:
    used = set(re.findall(r"\b((?:f|session)(?:\.\w+)+)", file.read_text(encoding="utf-8")))
    depth = {name: 3 if any(name.startswith(f"{part}.") for part in PARTS) else 2 for name in used}
    names = {".".join(name.split(".")[: depth[name]]) for name in used} - set(PARTS)
    assert names <= LISTED
