"""Which study a table belongs to that `plfl audit` or `plfl scarcity` has made."""

from collections.abc import Iterable, Sequence

from plfl.data.source import own_files
from plfl.files import sha256
from plfl.results.collect import description
from plfl.study import Study, digest


def readings(study: Study) -> list[str]:
    """SHA-256 of the user's own files that the clients are known from, if there are any.

    Raises:
        DataError: a state has none, or not enough.
    """
    files = (file for state in study.data.states for file in own_files(study.data, state))
    return [sha256(file) for file in files]


def fingerprint(studies: Iterable[Study], readings: Sequence[str]) -> str:
    """Digest of what fixes the numbers of studies with these `readings`."""
    return digest([description(study) | {"tracking": None} for study in studies], readings)
