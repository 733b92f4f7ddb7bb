"""Runs the probes through plfl and through the libraries found, and writes results.json.

python -m benchmarks.conformance [--libraries FOLDER] [--only NAME ...]

FOLDER holds clones of the libraries at the commits that `libraries.py` pins; without them, the
command prints how to get them. The results of libraries that do not run stay as they are stored.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.conformance import report
from benchmarks.conformance.libraries import LIBRARIES, Library

ROOT = Path(__file__).resolve().parents[2]


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


def clone(library: Library, folder: Path) -> Path | None:
    """The library's clone in `folder`, if it is there at the pinned commit."""
    found = folder / library.folder
    if not library.repository:
        return ROOT
    fetch = f"git clone {library.repository} {found} && git -C {found} checkout {library.commit}"
    if not found.exists():
        print(f"{library.name} is not in {folder}. To have it run too:\n    {fetch}")
        return None
    head = subprocess.run(
        ["git", "-C", str(found), "rev-parse", "HEAD"], capture_output=True, text=True
    ).stdout.strip()
    if head != library.commit:
        print(f"{found} is at {head or 'no commit'}, not at {library.commit}. To run it:")
        print(f"    git -C {found} checkout {library.commit}")
        return None
    return found


def main() -> None:
    """Run what is there, write results.json and the page, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.conformance")
    parser.add_argument("--libraries", type=Path, default=ROOT / "data" / "conformance")
    parser.add_argument("--only", nargs="*", help="names of libraries")
    options = parser.parse_args()
    stored: dict[str, Any] = report.stored()
    for library in LIBRARIES:
        if options.only and library.name not in options.only:
            continue
        folder = clone(library, options.libraries)
        if folder is None:
            continue
        stored["results"][library.name] = json.loads(run(library.adapter, str(folder)))
    report.store(stored)
    report.write(stored)
    print(report.table(stored))


if __name__ == "__main__":
    main()
