"""The public models that a study makes of its own meters (`public`)."""

import logging
from pathlib import Path

from plfl.base.errors import DataError
from plfl.base.files import atomic
from plfl.data import sources
from plfl.public.making import SiteMeters, make
from plfl.public.models import is_shipped
from plfl.study import Study

log = logging.getLogger(__name__)


def write_public(study: Study, path: Path) -> None:
    """Train the models of one of `Study.public_files`."""
    sites: dict[str, SiteMeters] = {}
    for state in study.public_files[path]:
        source = sources.source_of(study.data)
        source.fetch(study.data, state)
        client_series = source.load(study.data, state)
        try:
            sites[state] = SiteMeters.from_series(client_series, study.data.interval)
        except DataError as error:
            raise error.locate_in(state) from None
        log.info("%s has %d meters", state, len(client_series))
    content = make(sites)
    with atomic(path) as temporary:
        temporary.write_bytes(content)


def describe_public(study: Study) -> str:
    """The file of the models that all states train, and whether it is the one that comes with
    plfl; empty if the study makes none, or has not made it yet."""
    kind, path = study.public.kind, next(iter(study.public_files), None)
    if kind is None or path is None or not path.is_file():
        return ""
    is_same = is_shipped(kind, path.read_bytes())
    return f"{path}, {'' if is_same else 'not '}the file that comes with plfl"
