"""`make campaign NAME=torture`: seeded faults in downloads, trainings and readers, side by side.

Each try has a seed of its own, which is told when it was not survived. The last line counts what
was survived of what was tried. `python -m tests.campaigns.torture kills inputs` runs these alone.
"""

import argparse
import logging
import multiprocessing
import os
import random
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

EVERY = 15.0
"""Seconds from one line on a campaign's progress to the next."""


@dataclass(frozen=True)
class Extent:
    """How many tries each campaign makes."""

    faults: int
    """Downloads of 36 buildings."""
    kills: int
    """`kill -9` of a training job alone."""
    workflows: int
    """`kill -9` of a job, of Snakemake, or of both, and Ctrl-C."""
    inputs: int
    """Spoilt files."""


QUICK = Extent(faults=12, kills=5, workflows=0, inputs=450)
LONG = Extent(faults=300, kills=45, workflows=30, inputs=4500)


@dataclass
class Tally:
    """What came of a campaign."""

    survived: int = 0
    tried: int = 0

    def __str__(self) -> str:
        return f"{self.survived}/{self.tried}"


Outcome = tuple[int, str | None]
"""How many tries, and what went wrong, if anything did."""


def _outcome(error: Exception, seed: object) -> str:
    cause = "".join(traceback.format_exception(error, limit=-3))
    return f"seed {seed}: {cause}"


def faults(extent: Extent, folder: Path) -> Iterator[Outcome]:
    """Downloads from moto's S3 server, every other one from s3rver where there is one."""
    from tests.helpers.faults import downloads, proxy

    with ExitStack() as stack:
        stack.enter_context(downloads.without_aws(folder))
        store = downloads.make_store(folder / "store")
        buckets = [stack.enter_context(downloads.moto())]
        try:
            buckets.append(stack.enter_context(downloads.s3rver(folder / "s3rver")))
        except FileNotFoundError:
            print("faults: no s3rver on the PATH; all downloads are from moto's server", flush=True)
        proxies = []
        for bucket, page_size in zip(buckets, (downloads.PAGE_SIZE, 1000), strict=False):
            bucket.put(store)
            one = proxy.fault_proxy(bucket.address, page_size)
            proxies.append(stack.enter_context(one))
        for seed in range(extent.faults):
            try:
                downloads.survive(seed, proxies[seed % len(proxies)], store, folder / str(seed))
            except Exception as error:
                yield 1, _outcome(error, seed)
            else:
                yield 1, None


def kills(extent: Extent, folder: Path) -> Iterator[Outcome]:
    """Kills of training jobs."""
    from tests.helpers.faults import kills

    whole = kills.undisturbed(folder / "undisturbed")
    seed = done = 0
    while done < extent.kills:
        killed = min(3, extent.kills - done)
        try:
            killed = kills.survive_kills(random.Random(seed), killed, whole, folder / str(seed))
        except Exception as error:
            yield killed, _outcome(error, seed)
        else:
            yield killed, None
        done += killed
        seed += 1


def workflows(extent: Extent, folder: Path) -> Iterator[Outcome]:
    """Studies that are ended in every way, one phase after the other."""
    from tests.helpers.faults import kills

    whole = kills.Study(folder / "undisturbed")
    kills.survive_ends(whole, [])
    seed = done = 0
    while done < extent.workflows:
        dice = random.Random(seed)
        # Figures and pages take most of the time of a small study: once is enough.
        target = kills.RECORDS if seed else "all"
        phases = kills.PHASES[target][: extent.workflows - done]
        ends = [(dice.choice(kills.ENDS), phase, dice.uniform(0, 0.5)) for phase in phases]
        study = kills.Study(folder / str(seed))
        try:
            times, _ = kills.survive_ends(study, ends, target)
            assert times, "the study had finished before"
            same = [(one.folder / kills.RECORDS).read_bytes() for one in (study, whole)]
            assert same[0] == same[1], "other records"
        except Exception as error:
            times = 1
            yield times, _outcome(error, seed)
        else:
            yield times, None
        done += times
        seed += 1


def inputs(extent: Extent, folder: Path) -> Iterator[Outcome]:
    """Spoilt files of every kind, in turn."""
    from tests.helpers.faults import inputs

    made = [make(folder / "valid" / name) for name, make in inputs.SUBJECTS.items()]
    for seed in range(extent.inputs):
        subject = made[seed % len(made)]
        try:
            inputs.survive(subject, random.Random(seed), folder / "sandbox" / subject.name)
        except Exception as error:
            yield 1, _outcome(error, seed)
        else:
            yield 1, None


CAMPAIGNS = {
    "workflows": workflows,
    "faults": faults,
    "kills": kills,
    "inputs": inputs,
}
AT_A_TIME = 3


def run(name: str, extent: Extent) -> Tally:
    """One campaign, in a process of its own."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # What plfl logs or warns of is meant; here only what it must not do is told.
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    tally, told = Tally(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="plfl-torture-", ignore_cleanup_errors=True) as folder:
        for tries, wrong in CAMPAIGNS[name](extent, Path(folder)):
            tally.tried += tries
            if wrong is None:
                tally.survived += tries
            else:
                print(f"{name}: NOT SURVIVED, {wrong}", flush=True)
            if time.monotonic() - told > EVERY:
                told = time.monotonic()
                print(f"{name} {tally}", flush=True)
    return tally


def main() -> int:
    """Run the campaigns; 1 if anything was not survived."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.torture", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a sample of each, under a minute")
    parser.add_argument("campaigns", nargs="*", help=f"of {', '.join(CAMPAIGNS)}; else all")
    options = parser.parse_args()
    if unknown := set(options.campaigns) - set(CAMPAIGNS):
        parser.error(f"no campaign {', '.join(sorted(unknown))}")
    extent = QUICK if options.quick else LONG
    chosen = [
        name
        for name in CAMPAIGNS
        if name in (options.campaigns or CAMPAIGNS) and getattr(extent, name)
    ]
    begun = time.monotonic()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(AT_A_TIME, context) as pool:
        tallies = dict(zip(chosen, pool.map(run, chosen, [extent] * len(chosen)), strict=True))
    print(f"{time.monotonic() - begun:.0f} s")
    print(", ".join(f"{name} {tally}" for name, tally in tallies.items()))
    whole = all(tally.survived == tally.tried for tally in tallies.values())
    return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main())
