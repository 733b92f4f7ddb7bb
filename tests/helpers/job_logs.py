"""A job without Snakemake: what it tells, beside its log."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from plfl.pipeline.job_log import StateHandler


@contextmanager
def state_beside(log: Path) -> Iterator[None]:
    """Write the states that plfl logs beside this log, as its job does."""
    logger, handler = logging.getLogger("plfl"), StateHandler(log)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
