"""The public bucket of NREL's ComStock."""

from plfl.config.source_rules import CC_BY, Origin
from plfl.data.sources import Source


class Comstock(Source):
    """The public bucket of NREL's ComStock."""

    name = "comstock"
    origin = Origin(
        "NREL ComStock, simulated (EnergyPlus)",
        "simulated with EnergyPlus, not measured: NREL's End-Use Load Profiles for the U.S. "
        "Building Stock (ComStock)",
        licence=CC_BY,
        citation="https://doi.org/10.25984/1876417",
    )
    module = "plfl.data.comstock.download"
