"""The facts about a source of data that a configuration needs, and how it names one."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from plfl.plugins import registry
from plfl.plugins.registry import Algorithm, Section

PACKAGE = "plfl.data.sources"
"""The package of the sources, one file each."""


@dataclass(frozen=True)
class Origin:
    """The origin of data: what they are, where they come from, and under which licence."""

    label: str
    """A few words, as shown on the page and in MLflow."""
    text: str
    """A phrase that says whether they were measured, simulated or generated."""
    kind: str = "Others"
    """How they were collected, in the words of Croissant's vocabulary for responsible AI."""
    licence: str | None = None
    """The address of their licence; None if only their owner knows it."""
    citation: str | None = None


CC_BY = "https://spdx.org/licenses/CC-BY-4.0"


class SourceRules(Algorithm):
    """The rules of a source. `plfl.data.sources.Source` adds fetching and reading."""

    examples: ClassVar[str] = "loads"
    """The kind of its examples, in one word. A task names the kind that it needs in the same way.
    """
    origin: ClassVar[Origin]
    """The origin of the data."""
    blocks: ClassVar[Mapping[str, type[Section]]] = {}
    """Blocks of keys that a source of a plug-in adds to `data`, by name. Sources that share a block
    name the same class."""
    simulation_only: ClassVar[str | None] = None
    """Why deployed clients cannot have such data (`plfl.deploy`); None if they can."""


available = partial(registry.available, PACKAGE, SourceRules)
"""All sources by name."""
find = partial(registry.find, PACKAGE, SourceRules)
"""The source with a name; a KeyError if there is none."""


def added_blocks() -> dict[str, type[Section]]:
    """The blocks of keys that the sources of plug-ins add to `data`, by name."""
    added = registry.plugged(PACKAGE).values()
    sources = (cls for cls in added if issubclass(cls, SourceRules))
    return {name: block for cls in sources for name, block in cls.blocks.items()}
