"""What clients of a deployment must have in common."""

from typing import Any

import pytest

from plfl.deploy.protocol.agreement import fingerprint
from tests.helpers import tiny

SEPTEMBER = {"data": {"origins": ["2018-09-01"]}}


@pytest.mark.parametrize(
    ("blocks", "others"),
    [
        (SEPTEMBER, {"data": {"origins": ["2018-10-01"]}}),
        (SEPTEMBER, {}),
        ({}, {"data": {"resample": 60}}),
        ({}, {"data": {"features": ["load"]}}),
        ({}, {"data": {"clients": 11}}),
        ({}, {"windows": {"look_ahead": 5}}),
        ({}, {"federation": {"rounds": 4}}),
    ],
)
def test_a_client_of_another_study_is_noticed(
    blocks: dict[str, Any], others: dict[str, Any]
) -> None:
    one, other = tiny.study(**blocks), tiny.study(**others)
    assert fingerprint(one, one.cells[0]) != fingerprint(other, other.cells[0])
    assert fingerprint(one, one.cells[0]) == fingerprint(tiny.study(**blocks), one.cells[0])
