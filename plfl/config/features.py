"""The inputs that a model can have: names, units and meanings."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Feature:
    """A column of a client's series."""

    unit: str
    meaning: str


FEATURES: dict[str, Feature] = {
    "load": Feature(
        "kWh per interval", "electricity used in the interval that ends at the timestamp"
    ),
    "time_index": Feature("quarter-hours", "quarter-hour of the day at the timestamp, 0 to 95"),
    "weekday": Feature("days", "day of the week, Monday = 0"),
    "temperature": Feature("°C", "outdoor dry-bulb temperature"),
    "wind_speed": Feature("m/s", "wind speed"),
    "floor_area": Feature("ft²", "floor area of the building"),
    "wall_area": Feature("m²", "area of the exterior walls"),
    "window_area": Feature("m²", "area of the exterior windows"),
}
"""All features by name, in the paper's order."""


CALENDAR = ("time_index", "weekday")
"""The features that are derived from the timestamps, for every source."""


UNITS: dict[str, dict[str, tuple[float, float]]] = {
    "temperature": {"°C": (1, 0), "°F": (5 / 9, -160 / 9), "K": (1, -273.15)},
    "wind_speed": {
        "m/s": (1, 0),
        "km/h": (1 / 3.6, 0),
        "mph": (0.44704, 0),
        "kn": (1852 / 3600, 0),
    },
    "floor_area": {"ft²": (1, 0), "m²": (1 / 0.3048**2, 0)},
    "wall_area": {"m²": (1, 0), "ft²": (0.3048**2, 0)},
    "window_area": {"m²": (1, 0), "ft²": (0.3048**2, 0)},
}
"""Factor and summand that convert each unit that a column of a file may have into that of its
feature."""
