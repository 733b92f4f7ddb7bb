"""Seeded faults in downloads, trainings and readers; the name of a test has its seed.

`tests/faults` and `tests/data/comstock` make a few of these tries.
"""

import random
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.faults import downloads, inputs, kills
from tests.helpers.faults.proxy import FaultProxy


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> downloads.Store:
    return downloads.make_store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def proxy(store: downloads.Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultProxy]:
    with downloads.without_aws(tmp_path_factory.mktemp("user")), downloads.bucket(store) as proxy:
        yield proxy


@pytest.mark.parametrize("seed", range(300))
def test_faulty_downloads(
    seed: int, proxy: FaultProxy, store: downloads.Store, tmp_path: Path
) -> None:
    downloads.survive(seed, proxy, store, tmp_path)


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The records of a study that nothing happens to."""
    study = kills.Study(tmp_path_factory.mktemp("undisturbed"))
    kills.survive_ends(study, [])
    return (study.folder / kills.RECORDS).read_bytes()


# Figures and pages take most of the time of a small study: once is enough.
@pytest.mark.parametrize(
    ("seed", "target"), [(0, "all"), *((n, kills.RECORDS) for n in range(1, 7))]
)
def test_ends_of_a_workflow(seed: int, target: str, records: bytes, tmp_path: Path) -> None:
    dice, study = random.Random(seed), kills.Study(tmp_path)
    phases = kills.PHASES[target]
    ends = [(dice.choice(kills.ENDS), phase, dice.uniform(0, 0.5)) for phase in phases]
    times, _ = kills.survive_ends(study, ends, target)
    assert times, "the study had finished before"
    assert (study.folder / kills.RECORDS).read_bytes() == records


@pytest.fixture(scope="module", params=sorted(inputs.SUBJECTS))
def subject(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> inputs.Subject:
    name: str = request.param
    return inputs.SUBJECTS[name](tmp_path_factory.mktemp("valid") / name)


@pytest.mark.parametrize("seed", range(450))
def test_spoilt_files(subject: inputs.Subject, seed: int, tmp_path: Path) -> None:
    warnings.simplefilter("ignore")
    inputs.survive(subject, random.Random(seed), tmp_path)
