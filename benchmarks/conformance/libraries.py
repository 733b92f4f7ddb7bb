"""The libraries that the probes run through, at pinned commits."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Library:
    """A library and its adapter."""

    name: str
    adapter: str
    """Module of this folder that runs the probes through it."""
    repository: str = ""
    """Empty for plfl itself."""
    commit: str = ""

    @property
    def folder(self) -> str:
        """Name of its clone."""
        return self.repository.rpartition("/")[2]


LIBRARIES = (
    Library("plfl", "own"),
    Library(
        "PFLlib",
        "pfllib",
        "https://github.com/TsingZ0/PFLlib",
        "d832e76f6a23b833038949ec1e4fdefe63a4d350",
    ),
    Library(
        "FL-bench",
        "fl_bench",
        "https://github.com/KarhouTam/FL-bench",
        "06e658bca5af6ce732e25bb7c0f8be321e14a85e",
    ),
)
