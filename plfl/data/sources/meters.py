"""Files of your own meters."""

from plfl.config.source_rules import Origin
from plfl.data.sources import Source


class Meters(Source):
    """Files of your own meters."""

    name = "meters"
    origin = Origin("own meters", "readings of the owner's meters", "Direct measurement")
    module = "plfl.data.meters"
