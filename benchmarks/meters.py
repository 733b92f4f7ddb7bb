"""Time and memory of the study that `plfl init meters` writes, job by job, of two versions.

    python benchmarks/meters.py [FILE ...] [--before REVISION] [--homes 8] [--keep FOLDER]

FILE: exports of meters, or folders of them; default: loads of so many sample buildings for half a
year. With `--before`, a revision of git, the study that this version writes also runs with it, one
version after the other on the same machine. Prints a table: processor time and memory of each job,
and of the whole study; and the processor time of `plfl forecast` for all meters, from the same
files. `make bench` writes it into README.md.
"""

import argparse
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import machine
import pandas as pd

from plfl.base.files import write_text
from plfl.data.sample import store as sample
from plfl.data.sample.end_uses import simulate

ROOT = Path(__file__).parents[1]
README = Path(__file__).with_name("README.md")
BEGIN, END = "<!-- make bench: meters -->", "<!-- /make bench: meters -->"
HALF_A_YEAR = 26 * 7 * 24


@dataclass(frozen=True)
class Measured:
    """What a study took."""

    seconds: float
    """Processor time of all processes."""
    wall: float
    jobs: pd.DataFrame
    """One row per job, by its name: `seconds` of processor time, `megabytes`."""
    load: str
    """Of the machine before it."""
    forecast_seconds: float
    """Processor time of the forecasts of all meters after it."""


def write_homes(folder: Path, homes: int) -> list[Path]:
    """Write the hourly loads of sample buildings for half a year, a file each."""
    folder.mkdir(parents=True)
    for number in range(homes):
        loads = simulate(sample.describe("CA", number, 1), 1).sum(axis=1)
        hourly = loads.resample("1h", closed="right", label="right").sum().iloc[:HALF_A_YEAR]
        hourly.rename("load").rename_axis("timestamp").to_csv(folder / f"home{number}.csv")
    return [folder]


def unpack(revision: str, folder: Path) -> Path:
    """The files of a revision in a folder."""
    archive = subprocess.run(
        ["git", "archive", revision], cwd=ROOT, capture_output=True, check=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    return folder


def measure(code: Path, study: Path, folder: Path, exports: Sequence[Path]) -> Measured:
    """Run a study in an empty folder with the version of plfl in the folder `code`, then forecast
    its meters."""
    folder.mkdir(parents=True)
    load, start = machine.load(), time.perf_counter()
    seconds = run_command(code, folder, "study", str(study))
    wall = time.perf_counter() - start
    files = [str(path.resolve()) for path in exports]
    words = ["forecast", f"results/{study.stem}", *files, "--out", "next.csv"]
    forecast_seconds = run_command(code, folder, *words)
    return Measured(seconds, wall, read_jobs(folder), load, forecast_seconds)


def run_command(code: Path, folder: Path, *words: str) -> float:
    """Run `plfl` of the folder `code` in another folder; processor time of all its processes."""
    before = os.times()
    environment = os.environ | {"PYTHONPATH": str(code), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "plfl", *words]
    subprocess.run(command, cwd=folder, env=environment, check=True)
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])


def read_jobs(folder: Path) -> pd.DataFrame:
    """The jobs of a study, by name, as Snakemake has measured them. The groups of baselines have
    one row: the processor time of all, the memory of the largest."""
    (benchmarks,) = folder.glob("results/*/benchmarks")
    rows = []
    for file in sorted(benchmarks.rglob("*.tsv")):
        row = pd.read_csv(file, sep="\t").iloc[-1]
        name = file.relative_to(benchmarks).with_suffix("").as_posix()
        name = re.sub(r"^(baselines/\w+)-\d+$", r"\1, groups", name)
        rows.append({"name": name, "seconds": row["cpu_time"], "megabytes": row["max_rss"]})
    by_name = pd.DataFrame(rows).groupby("name")
    return by_name.agg({"seconds": "sum", "megabytes": "max"})


def table(versions: Mapping[str, Measured], meters: int) -> str:
    """The measurements in Markdown."""
    head = "| job | " + " | ".join(f"{name}: s, MB" for name in versions) + " |"
    names = dict.fromkeys(name for measured in versions.values() for name in measured.jobs.index)
    rows = [[f"`{name}`", *(_cell(m, name) for m in versions.values())] for name in names]
    largest = (f"{m.seconds:.0f}, {m.jobs['megabytes'].max():.0f}" for m in versions.values())
    rows.append(["all, with Snakemake", *largest])
    forecasts = (f"{m.forecast_seconds:.1f}" for m in versions.values())
    rows.append(["`plfl forecast` of all meters", *forecasts])
    lines = [head, "|---|" + "---|" * len(versions), *(f"| {' | '.join(row)} |" for row in rows)]
    loads = "; ".join(f"{name} {m.load}, {m.wall:.0f} s in all" for name, m in versions.items())
    return (
        f"`python benchmarks/meters.py`, {meters} meters, on {machine.processor()}, "
        f"{machine.peak():.0f} GFLOP/s in products of matrices. Processor time in seconds, largest "
        f"memory in MB. Load: {loads}.\n\n" + "\n".join(lines)
    )


def _cell(measured: Measured, job: str) -> str:
    if job not in measured.jobs.index:
        return "—"
    row = measured.jobs.loc[job]
    return f"{row['seconds']:.0f}, {row['megabytes']:.0f}"


def run(files: Sequence[Path], before: str | None, homes: int, folder: Path) -> str:
    """Measure the versions in a folder; their table."""
    sources = list(files) or write_homes(folder / "homes", homes)
    codes = {"now": ROOT}
    if before:
        codes = {before: unpack(before, folder / "before"), **codes}
    # A later version can run the study of an earlier one.
    environment = os.environ | {"PYTHONPATH": str(next(iter(codes.values())))}
    command = [sys.executable, "-m", "plfl", "init", "meters", *(str(f.resolve()) for f in sources)]
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    study = folder / "meters.yaml"
    versions = {
        name: measure(code, study, folder / f"run{number}", sources)
        for number, (name, code) in enumerate(codes.items())
    }
    clients = pd.read_parquet(folder / "run0" / "results" / "meters" / "clients.parquet")
    return table(versions, len(clients))


def main() -> None:
    """Print the table, or write it into README.md."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--before", metavar="REVISION")
    parser.add_argument("--homes", type=int, default=8)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="a new folder for all files")
    parser.add_argument("--readme", action="store_true", help="write the table into README.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        text = run(options.files, options.before, options.homes, folder.resolve())
    print(text)
    if options.readme:
        start, rest = README.read_text(encoding="utf-8").split(BEGIN)
        write_text(README, f"{start}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
