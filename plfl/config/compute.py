"""The section `compute`: the use of the machine."""

from typing import Literal

from pydantic import Field

from plfl.plugins.registry import Section


class Compute(Section):
    """Use of the machine. Only `device` and `engine` can change the results."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where models are trained: `cpu`, `cuda`, or `auto`: on a GPU if there is one."""
    threads: int = Field(1, ge=1)
    """Processor cores per job that trains."""
    engine: Literal["auto", "fused", "stacked"] = "auto"
    """Implementation of local training: `fused` (a native kernel for the CPU), `stacked` (torch on
    CPU or GPU), or `auto`: `fused` if possible."""
    stack: Literal["auto", "study", "state", "sharing", "cell"] = "auto"
    """What a training job trains: all cells of the study or variant (`study`), of a state
    (`state`), of a state and sharing scheme (`sharing`), or one cell with all seeds (`cell`).
    `auto`: `study` on a GPU, `state` for seconds of training, else `sharing`. What does not fit
    into a GPU is split by state, then by sharing scheme."""
    checkpoint_seconds: float = Field(20.0, ge=0)
    """Least seconds between checkpoints of a training job. A killed job loses this much work and
    the current round; Ctrl-C and SIGTERM lose nothing."""
