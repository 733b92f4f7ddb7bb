"""The words by which tables in no known format are understood, in many languages.

They are data: `vocabulary.toml`.
"""

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

_UNIT = re.compile(r"(?<![a-z])[kM]Wh?(?![a-z])")


@lru_cache(maxsize=100_000)
def words_in(name: str) -> frozenset[str]:
    """The words in a header, in small letters; `GasUsage` has two."""
    plain = _UNIT.sub(lambda unit: unit[0].lower(), name)
    return frozenset(
        re.findall(r"[^\W\d_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", plain).casefold())
    )


class WordList:
    """A list of words and whole headers, whatever their case; `*` stands for any text."""

    def __init__(self, entries: Iterable[str]):
        self.entries = list(entries)
        folded = [entry.casefold() for entry in self.entries]
        self._plain = frozenset(entry for entry in folded if "*" not in entry)
        patterns = [r"[^\W\d_]*".join(map(re.escape, e.split("*"))) for e in folded]
        self.pattern = "|".join(patterns)
        """A regular expression for one of the entries, in small letters."""
        starred = "|".join(p for p, e in zip(patterns, folded, strict=True) if "*" in e)
        self._pattern = re.compile(starred or "(?!)")

    def __contains__(self, word: str) -> bool:
        """Whether a word, or a whole header, is in the list."""
        folded = word.strip().casefold()
        return folded in self._plain or self._pattern.fullmatch(folded) is not None

    def among(self, words: Iterable[str]) -> set[str]:
        """The words that are in the list."""
        return {word for word in words if word in self}

    def has_word_of(self, name: str) -> bool:
        """Whether a word of a header, or the whole of it, is in the list."""
        return name in self or any(word in self for word in words_in(name))


@dataclass(frozen=True)
class Words:
    """The lists of `vocabulary.toml`, where they are explained."""

    times: WordList
    hours: WordList
    hours_beside: WordList
    hours_numbered: WordList
    starts: WordList
    ends: WordList
    about_rows: WordList
    offsets: WordList
    zones: WordList
    weekdays: WordList
    meters: WordList
    numbered: WordList
    parts: WordList
    places: WordList
    row_numbers: WordList
    measured: WordList
    generation: WordList
    generation_in_names: WordList
    direct_current: WordList
    inverter_output: WordList
    grid: WordList
    feed_in: WordList
    not_loads: WordList
    """With those of generation."""
    conditions: WordList
    conditions_beside: WordList
    energy: WordList
    undirected: WordList
    power: WordList
    consumption_likely: WordList
    consumption: WordList
    whole_building: WordList
    own_production: WordList
    less_likely: WordList
    totals: WordList
    factors: WordList
    quality: WordList
    estimated: WordList
    units: WordList
    kwh: WordList
    other_units: WordList
    units_at_end: WordList
    units_after_blank: WordList
    money: WordList


def is_known(word: str) -> bool:
    """Whether a word is in some list."""
    return any(word in entries for entries in vars(WORDS).values())


_TEXT = Path(__file__).with_name("vocabulary.toml").read_text(encoding="utf-8")
_ENTRIES = tomllib.loads(_TEXT)
_ENTRIES["not_loads"] += _ENTRIES["generation"] + _ENTRIES["feed_in"]
WORDS = Words(**{key: WordList(entries) for key, entries in _ENTRIES.items()})
