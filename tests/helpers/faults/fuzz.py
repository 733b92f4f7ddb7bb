"""Spoilt files again, led by coverage: atheris keeps what reached code that was not seen before.

    python -m tests.helpers.faults.fuzz meters 5000 1

spoils the meters' files 5,000 times from seed 1. The files, the ways to spoil them and what must
come of it are those of `inputs`. `make campaign NAME=torture` runs it where atheris is installed
(the extra `torture`; Linux).
"""

import os
import random
import subprocess
import sys
import tempfile
import warnings
from importlib.util import find_spec
from pathlib import Path

SUBJECTS = ("configuration", "meters", "manifest", "receipt", "dataset", "checkpoint", "results")
"""What a user, or a disk, can hand to readers of our own."""
LONGEST = 200_000
"""Bytes that a file may grow to."""


def available() -> bool:
    """Whether atheris is installed."""
    return find_spec("atheris") is not None


def survive(subject: str, runs: int, seed: int) -> str | None:
    """Spoil a subject's files `runs` times, in a process of its own.

    Returns:
        What went wrong, if anything did.
    """
    command = [sys.executable, "-m", "tests.helpers.faults.fuzz", subject, str(runs), str(seed)]
    with tempfile.TemporaryDirectory(prefix="plfl-fuzz-", ignore_cleanup_errors=True) as folder:
        done = subprocess.run(
            command,
            env=os.environ | {"TMPDIR": folder},
            capture_output=True,
            encoding="utf-8",
            errors="replace",
        )
    told = done.stdout + done.stderr
    if done.returncode == 0 and f"Done {runs} runs" in told:
        return None
    lines = [line for line in told.splitlines() if not line.startswith("INFO: ")]
    told = "\n".join(lines)
    return f"{' '.join(command[1:])}: {told[:3000]}"


def main(subject: str, runs: int, seed: int) -> None:
    """Fuzz; libFuzzer ends the process, with an exit code other than 0 if something was found."""
    import atheris  # type: ignore[import-not-found,import-untyped,unused-ignore]

    warnings.simplefilter("ignore")
    folder = Path(tempfile.mkdtemp(prefix="plfl-fuzz-"))
    with atheris.instrument_imports(include=["plfl", "yaml", "tests.helpers.faults.inputs"]):
        from tests.helpers.faults import inputs

        chosen = inputs.SUBJECTS[subject](folder / "valid")
    files = chosen.spoilt

    # The first byte of an input says which of the files has the others.
    def victim(data: bytes) -> str:
        return files[data[0] % len(files)] if data else files[0]

    def one(data: bytes) -> None:
        # Of the same bytes must come the same draws.
        inputs.judge(chosen, victim(data), data[1:], random.Random(data), folder / "sandbox")

    def mutate(data: bytes, longest: int, seed: int) -> bytes:
        dice = random.Random(seed)
        if not data or dice.random() < 0.1:
            at = dice.randrange(len(files))
            return bytes([at]) + chosen.files[files[at]]
        if dice.random() < 0.4:
            return data[:1] + bytes(atheris.Mutate(data[1:], longest - 1))
        try:
            changed = inputs.spoil(data[1:], victim(data), dice, chosen.structured)
        except Exception:  # too spoilt already to be told apart
            changed = bytes(atheris.Mutate(data[1:], longest - 1))
        return (data[:1] + changed)[:longest]

    seeds = folder / "seeds"
    seeds.mkdir()
    for at, name in enumerate(files[:256]):
        (seeds / str(at)).write_bytes(bytes([at]) + chosen.files[name])
    options = [
        f"-runs={runs}",
        f"-seed={seed}",
        f"-max_len={LONGEST}",
        "-timeout=0",
        "-rss_limit_mb=0",
    ]
    options += ["-len_control=0", "-print_final_stats=1", f"-artifact_prefix={folder}/"]
    atheris.Setup([sys.argv[0], *options, str(seeds)], one, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
