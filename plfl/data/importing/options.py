"""What a user can say about raw exports. The names are those of the command's options."""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal


@dataclass(frozen=True)
class Options:
    """How raw exports are read and cleaned; see `plfl data import --help`."""

    timezone: str | None = None
    """IANA zone of stamps without a UTC offset, and of the time of day in the study."""
    timezones: tuple[tuple[str, str], ...] = ()
    """Names of meters, with wildcards, and their zone; the first one that fits counts."""
    since: str | None = None
    """Intervals that end by this local time are left out; None: none."""
    until: str | None = None
    """Intervals that end after this local time are left out; None: none."""
    stamp: Literal["end", "start"] = "end"
    """Whether a stamp marks the end or the start of its interval."""
    unit: Literal["kWh", "Wh", "kW", "W"] = "kWh"
    """Unit of the readings: energy in the interval, or mean power during it."""
    register: bool = False
    """The readings are those of a cumulative register; the load is their differences."""
    interval: int | None = None
    """Minutes between the written readings; None: as in the exports."""
    date_format: str | None = None
    """Format of the stamps in the notation of `strftime`; None: found out."""
    decimal: Literal[".", ","] | None = None
    """Decimal separator of text; None: found out."""
    header: int | None = None
    """Line of the header; None: found out."""
    time: tuple[str, ...] = ()
    """Column of the stamp, or those of its date and time; empty: found out."""
    name: str | None = None
    """Column with the name of the meter (long files)."""
    load: str | None = None
    """The only column of readings; None: all columns of numbers."""
    inputs: tuple[tuple[str, str], ...] = ()
    """Names of inputs of the model, and the columns that hold them."""
    units: tuple[tuple[str, str], ...] = ()
    """Names of inputs, and the units of their columns."""
    only: tuple[str, ...] = ()
    """Names of the meters to import, with wildcards; empty: all."""
    leave_out: tuple[str, ...] = ()
    """Names of the meters to leave out, with wildcards."""
    missing: tuple[str, ...] = ()
    """Values that stand for a missing reading."""
    zero_run: float | None = None
    """Zeros for this many hours or longer are an outage: a gap."""
    max_jump: float | None = None
    """A load farther than this multiple of the meter's median load from the median of the five
    readings before it is a fault: a gap."""
    duplicates: Literal["first", "last", "mean"] | None = None
    """Which of several different readings of the same time counts; None: an error."""
    max_gap: int = 60
    """Longest gap, in minutes, that the study fills; windows that touch a longer one are left out.
    """
    cut: bool = False
    """Keep only the longest part of a meter without a longer gap."""
    allow_negative: bool = False
    """Accept negative load."""
    format: Literal["csv", "parquet"] = "csv"
    """Format of the written files."""

    def timezone_of(self, meter: str) -> str | None:
        """The zone of a meter."""
        zones = (zone for name, zone in self.timezones if fnmatchcase(meter, name))
        return next(zones, self.timezone)
