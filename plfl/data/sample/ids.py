"""The ids and types of the sample buildings.

This module imports little, because the workflow lists the buildings each time it starts.
"""

from plfl.base.errors import DataError
from plfl.data.sample.places import STATES

MIX = (
    *("SmallOffice", "RetailStandalone", "QuickServiceRestaurant", "Warehouse", "MediumOffice"),
    *("RetailStripmall", "PrimarySchool", "FullServiceRestaurant", "SmallHotel", "Outpatient"),
    *("LargeOffice", "SecondarySchool", "Hospital", "LargeHotel"),
    *("SmallOffice", "RetailStripmall", "Warehouse", "RetailStandalone"),
    *("FullServiceRestaurant", "MediumOffice", "PrimarySchool"),
    *("SmallOffice", "RetailStripmall", "Warehouse", "RetailStandalone"),
    *("QuickServiceRestaurant", "SmallHotel", "Outpatient"),
    *("SmallOffice", "RetailStripmall", "Warehouse", "RetailStandalone"),
    *("FullServiceRestaurant", "SecondarySchool", "MediumOffice"),
    *("SmallOffice", "RetailStripmall", "Warehouse", "RetailStandalone"),
    *("QuickServiceRestaurant", "SmallOffice", "Warehouse"),
)
"""The types of a state's buildings, in order: all 14 once, then mainly common ones."""


MOST = 9_999
"""Maximum number of sample buildings per state, limited by the digits of the ids."""


def buildings(state: str, count: int = 0) -> list[int]:
    """Ids of the first 42 sample buildings of a state, in order, or of the first `count` if that is
    more.

    The first 12 have 12 different types. After the 42nd, the types repeat in the same order. An id
    consists of 9, the state's FIPS code and a number; no building of ComStock has such an id.

    Raises:
        DataError: there are no sample data for the state.
    """
    if state not in STATES:
        raise DataError(
            f"data.states: there are no sample data for {state!r}, only for {', '.join(STATES)}"
        )
    first = 9_000_000 + 10_000 * STATES[state].fips + 1
    return list(range(first, first + min(max(count, len(MIX)), MOST)))


def kind(state: str, bldg_id: int) -> str:
    """The type of the sample building of this id."""
    return MIX[(bldg_id - buildings(state)[0]) % len(MIX)]
