"""What the log of a job says: the only place that reads it, with the words that are read.

A job is a process of its own, and its log is all that `plfl study` sees of it.
"""

import re
from collections.abc import Iterable
from pathlib import Path

WAITS = "another job trains the same cells: %s; this job waits until it has finished or is stopped"
"""What a training job says that waits for an orphan, a job that outlived its Snakemake, about the
process that holds the lock."""
ROUND_DONE = "%s: round %d of %d"
"""What a training job says after a round: of which cells, its number, and that of all rounds."""
INTERRUPTED = "interrupted; run the workflow again to continue from here"
"""What a job says that was stopped."""
_PARTS_DONE = re.compile(r"(round|group) (\d+) of (\d+)")
_HOLDER = re.compile(f"{WAITS.partition('%s')[0]}(.*);")
_MOST_LINES = 5
"""Lines of a log that are shown if none of them is an error."""


def read_progress(logs: Iterable[Path]) -> tuple[str, float]:
    """How far a job is by its logs: in words, such as `round 3 of 40` of a training or `group 2 of
    9` of baselines, and the share that is done. Other jobs have no words."""
    text = "".join(
        path.read_text(encoding="utf-8", errors="replace") for path in logs if path.is_file()
    )
    if parts := _PARTS_DONE.findall(text):
        kind, *counts = parts[-1]
        parts_done, total = map(int, counts)
        return f"{kind} {parts_done} of {total}", parts_done / total
    if holder := _HOLDER.search(text):
        return f"waits for {holder[1]}", 0.0
    return "", 0.0


def read_error(log: Path) -> str:
    """The last lines of the log of a job, from its error on; empty if it has no log."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    last_lines = max(0, len(lines) - _MOST_LINES)
    first = next((i for i, line in enumerate(lines) if " ERROR " in line), last_lines)
    message_lines = [re.sub(r"^\S+ \S+ ERROR ", "", line) for line in lines[first:]]
    return "\n".join([*message_lines, f"({log})\n"])
