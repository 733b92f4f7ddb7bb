"""Runs the probes through plfl and through the libraries found, and writes results.json.

python -m benchmarks.conformance

`data/conformance` holds clones of the libraries at the commits that `report.py` pins; without them,
the command prints how to get them. The results of libraries that do not run stay as they are
stored.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.conformance import report
from benchmarks.conformance.report import LIBRARIES, Library

ROOT = Path(__file__).resolve().parents[2]
CLONES = ROOT / "data" / "conformance"


def run(module: str, *arguments: str) -> str:
    """What a module of this folder prints, in a process of its own."""
    command = [sys.executable, "-W", "ignore", "-m", f"benchmarks.conformance.{module}"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, env=environment, cwd=ROOT
    )
    if done.returncode:
        sys.exit(f"{' '.join(arguments)}: {done.stderr}")
    return done.stdout


def clone(library: Library) -> Path | None:
    """The library's clone, if it is there at the pinned commit; `ROOT` for plfl itself."""
    if not library.repository:
        return ROOT
    folder = CLONES / library.repository.rpartition("/")[2]
    git = ["git", "-C", str(folder), "rev-parse", "HEAD"]
    head = subprocess.run(git, capture_output=True, text=True).stdout.strip()
    if folder.exists() and head == library.commit:
        return folder
    print(f"{folder} is not at {library.commit}. To have {library.name} run too:")
    if not folder.exists():
        print(f"    git clone {library.repository} {folder}")
    print(f"    git -C {folder} checkout {library.commit}")
    return None


def main() -> None:
    """Run what is there, write results.json and the page, and print the table."""
    stored = report.stored()
    for library in LIBRARIES:
        if folder := clone(library):
            stored["results"][library.name] = json.loads(run(library.adapter, str(folder)))
    report.store(stored)
    report.write(stored)
    print(report.table(stored))


if __name__ == "__main__":
    main()
