"""What columns measure, by their names: the units of loads, other units, and words for both."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import Literal

from plfl.data.meters.vocabulary import WORDS, words_in

KWH = {"kWh": 1.0, "Wh": 1e-3, "MWh": 1e3, "kW": 1.0, "W": 1e-3, "MW": 1e3}
"""The units of loads, energy in an interval or mean power, in kWh or kW."""
_COLUMNS = 20_000
"""Names of columns about which what they say is remembered: it is asked several times."""
LOAD_UNITS = (*KWH,)
"""Their names."""
ENERGY = ("kWh", "Wh", "MWh")
"""Those of energy."""
_CERTAIN = {unit.lower(): unit for unit in ("kWh", "MWh", "kW", "MW")}
"""These are units wherever they stand in a name. Others may be a part of it, such as west wings."""


def _one_of(entries: Iterable[str]) -> str:
    """A regular expression for one of some texts."""
    return "|".join(map(re.escape, sorted(entries, key=len, reverse=True)))


_SPELLED = re.compile(r"(?:\b|_)(kilo|mega)?[ -]?watts?(?:[ _-]?(hours?))?(?:\b|_)", re.IGNORECASE)
_KWH = re.compile(rf"(?<![^\W_])(?:{_one_of(WORDS.kwh.entries)})(?![^\W_])", re.IGNORECASE)
_IN_BRACKETS = re.compile(rf"[\[(]\s*({_one_of(WORDS.other_units.entries)})\s*[\])]", re.IGNORECASE)
_AT_END = re.compile(
    rf"(?:^|[\s_])({_one_of(WORDS.units_at_end.entries)}"
    rf"|(?<=[\s_])(?:{_one_of(WORDS.units_after_blank.entries)}))$",
    re.IGNORECASE,
)
_RATIO = re.compile(
    rf"(?:[€$£¢¥]|\b(?:{_one_of(WORDS.money.entries)}|price|costs?|k?g))\s?(?:/|\bper\b)\s?[kM]?Wh?\b"
    r"|\b[kM]?Wh?/(?:m2|m²|ft)",
    re.IGNORECASE,
)
_PARTS = re.compile(
    r"(?:phase|ph|line|l|tariff?e?|rate|t|f|p|e)[ _-]?[0-4a-c]|[hnv]t|h[pc]", re.IGNORECASE
)
"""Names of phases, tariffs and hours of one meter."""
_OF_BOTH_DIRECTIONS = re.compile(r"(e|b)[1-9]", re.IGNORECASE)
"""Names of registers in Australia: E1 counts what is used, B1 what is fed in."""
_REGISTER = re.compile(r"(?:\d-\d+:)?\d\.\d+\.\d|[ap]\+|\+[ap]")
"""Names of registers in small letters, such as those of OBIS."""
_TARIFF = (
    r"(?:T|R|rate|tarif|tariff)[ _-]?[1-4]|day|night|dag|nacht|tag|jour|nuit|giorno|notte|"
    r"HP|HC|HT|NT|VT|(?:(?:off|mid|on)[ -]?)?peak|laag|dal|normaal|hoog|piek|"
    r"punta|llano|valle|low|high"
)
_REGISTERS = (
    (re.compile(rf"(?:^|[ _-])({_TARIFF})$", re.IGNORECASE), "[ _-]*({})$"),
    (re.compile(rf"^({_TARIFF})(?:[ _.-]|$)", re.IGNORECASE), "^({})[ _.-]*"),
    (re.compile(rf"[ _-]({_TARIFF})(?=[ _-])", re.IGNORECASE), "[ _-]({})(?=[ _-])"),
)
"""Names of the registers of a meter, each of which counts at some times of the day: at the end of a
name, before or within it; and how `data.meters.add` says them."""
_MOST_PARTS = 4
_CODE = 2
"""Letters of names that are no words."""
_SHORT = 4
"""Letters of words that may be the end of any other one."""
WITH_UNIT = re.compile(r"(?<=\S)\s*[\[(]\s*[kM]?Wh?\s*[\])]$", re.IGNORECASE)
"""A unit after the name of a meter."""
_WITHOUT_UNIT = re.compile(r"\s*[\[(][^\])]*[\])]\s*$|[ _]k?wh?$", re.IGNORECASE)
_FED_IN = re.compile(
    r"^(?:-[AP]|[AP]-)(?![\w-])|\b[AP]-$|(?<![\d.])[2-8]\.(?:[5-9]|29)\.\d|\bR[+-]$"
    r"|(?i:\b(?<!main )(?<!mains )feed[-_ ]in\b)"
)
"""Signs of energy or power that is fed in or reactive, such as those of OBIS. The main feed in is
that of a building."""
_METER_OF_BOTH = re.compile(r"^.*\bimport\w*/export\w*\b[^-–:]*[-–:]\s*(?=\w)", re.IGNORECASE)
"""The name of a meter of both directions, before that of one: `Import/Export Meter - Import`."""
_NESTED = re.compile(r"[^\s.]+(?:\.[^\s.]+)*\.(\w+)")
"""The name of a value in blocks, such as offPeak.cost, and its own key."""
_UNITS = {unit.lower() for unit in LOAD_UNITS}
_COMPOUNDS = tuple(
    word
    for word in (*WORDS.measured.entries, *WORDS.not_loads.entries, *_UNITS)
    if len(word) > _SHORT and word not in WORDS.generation_in_names
)


@lru_cache(_COLUMNS)
def unit_of(name: str) -> str | None:
    """The unit that the name of a column states, one of `LOAD_UNITS` or another; None if none."""
    if ratio := _RATIO.search(name.replace("_", " ")):
        return ratio[0]
    if energy := re.search(r"\b[kM]?Wh\s?/\s?h(?:our)?\b", name, re.IGNORECASE):
        return {"k": "kW", "m": "MW"}.get(energy[0][0].lower(), "W")
    if _KWH.search(name):
        return "kWh"
    for word in re.findall(r"[^\W\d_]+", name):
        if word.lower() in _CERTAIN:
            return _CERTAIN[word.lower()]
        if word == "Wh":
            return "Wh"
    if spelled := _SPELLED.search(name):
        prefix = {"kilo": "k", "mega": "M"}.get((spelled[1] or "").lower(), "")
        return f"{prefix}W{'h' if spelled[2] else ''}"
    if match := re.search(
        r"(?:^|[\[(_]|\bin |(?:power|demand|load|usage|value) )\s*(wh?)\s*[\])]?$",
        name,
        re.IGNORECASE,
    ):
        return "Wh" if len(match[1]) == 2 else "W"
    other_unit = _IN_BRACKETS.search(name) or _AT_END.search(name)
    return other_unit[1] if other_unit else None


def _is_measured(word: str) -> bool:
    """Whether a word is about what is measured: load, something else, or a unit."""
    return (
        word in WORDS.measured
        or (word in WORDS.not_loads and word not in WORDS.generation_in_names)
        or word in _UNITS
        or word.endswith(_COMPOUNDS)
    )


def are_names_of_meters(names: Collection[str]) -> bool:
    """Whether columns of readings are meters by their names, which are codes or numbers, have a
    word in common, or say places; and not parts of one meter, such as import and net."""
    words = [words_in(name) for name in names]
    common_words = frozenset.intersection(*words)
    longer_words = "|".join(re.escape(word) for word in common_words if len(word) > _CODE)
    own_parts = [re.sub(longer_words, "", name.casefold()).strip(" _-.()[]") for name in names]
    directions = [match[1].lower() for n in names if (match := _OF_BOTH_DIRECTIONS.fullmatch(n))]
    if any(map(_REGISTER.fullmatch, own_parts)) or (
        len(directions) == len(names) and len({*directions}) > 1
    ):
        return False
    if len(names) <= _MOST_PARTS and (
        all(map(_PARTS.fullmatch, own_parts)) or all(map(_PARTS.fullmatch, names))
    ):
        return False
    if common_words and all(
        name_words == common_words and WORDS.meters.among(name_words) == name_words
        for name_words in words
    ):
        return len({*own_parts}) == len(names)  # Meter 1, Meter 2
    own_words = [name_words - common_words for name_words in words]
    if any(
        _is_measured(word)
        for name_words in own_words
        if not WORDS.places.among(name_words)
        for word in name_words
    ):
        return False
    if sum(map(names_quantity, names)) > 1:
        return False
    return (
        all(re.search(r"\d", name) or len(name) <= _CODE for name in names)
        or any(not _says_load(word) and word not in WORDS.not_loads for word in common_words)
        or all(map(WORDS.places.among, words))
    )


def registers_among(names: Collection[str]) -> str | None:
    """A regular expression for the parts of names that are those of registers, such as `T1` and
    `T2`, without which some names are equal; None if there are none."""
    for part, pattern in _REGISTERS:
        registers = {name: match for name in names if (match := part.search(name))}
        meters = Counter(part.sub("", name).strip(" _.-") for name in registers)
        if max(meters.values(), default=0) > 1:
            words = dict.fromkeys(match[1] for match in registers.values())
            return pattern.format("|".join(map(re.escape, words)))
    return None


def pattern_of_parts(names: Sequence[str]) -> str:
    """A regular expression for what differs at the beginning or the end of names."""
    begin, end = (
        sum(1 for _ in takewhile(lambda letters: len({*letters}) == 1, zip(*ways, strict=False)))
        for ways in (names, [name[::-1] for name in names])
    )
    parts = [name[begin:] if begin > end else name[: len(name) - end] for name in names]
    pattern = f"({'|'.join(map(re.escape, parts))})"
    return f"{pattern}$" if begin > end else f"^{pattern}"


def consumption_among(names: Collection[str]) -> str | None:
    """The only column whose name says that it has the consumption of a building, such as
    `House load` beside import and production; None if there is none, or several may have it."""
    likely_names = [name for name in names if unlikeliness(name) == 0]
    if len(likely_names) != 1:
        return None
    words = words_in(_WITHOUT_UNIT.sub("", likely_names[0]))
    consumption = WORDS.consumption.among(words)
    is_whole = WORDS.whole_building.among(words) >= words - consumption
    return likely_names[0] if consumption and is_whole else None


def unlikeliness(name: str) -> int:
    """How unlikely it is that a column, by its name, has the consumption of a meter."""
    words = words_in(name)
    if WORDS.consumption_likely.among(words) and not WORDS.own_production.among(words):
        return 0
    return 1 + bool(WORDS.less_likely.among(words)) + 2 * bool(WORDS.not_loads.among(words))


def without_unit(name: str) -> str:
    """The name of a column or meter without a unit of loads at its end."""
    return WITH_UNIT.sub("", name)


def names_generation(name: str) -> bool:
    """Whether the name of a column has a word of generation, and none of consumption or a place;
    beside a word that names of meters may have, too, none but those of loads."""
    words = words_in(name)
    consumption_words = WORDS.consumption_likely.among(words) or WORDS.places.among(words)
    generation = WORDS.generation.among(words)
    is_certain = generation > WORDS.generation_in_names.among(words)
    is_said = is_certain or (bool(generation) and is_name_of_other_quantity(name))
    return is_said and not consumption_words


def names_feed_in(name: str) -> bool:
    """Whether a name has a sign or a word of what is sent to the grid, or of generation."""
    words = words_in(name)
    is_sent = WORDS.feed_in.among(words) or WORDS.generation.among(words)
    return bool(is_sent) or _FED_IN.search(name) is not None


def is_undirected(name: str) -> bool:
    """Whether the name of a column says energy or power, and neither consumption nor generation."""
    words = {word for word in words_in(_WITHOUT_UNIT.sub("", name)) if len(word) > _CODE}
    return words == WORDS.undirected.among(words) | WORDS.power.among(words)


def kind_of(name: str) -> Literal["energy", "power"] | None:
    """Whether the name of a column says that it measures energy or power; None: it does not say."""
    says_energy, says_power = WORDS.energy.has_word_of(name), WORDS.power.has_word_of(name)
    return None if says_energy == says_power else "energy" if says_energy else "power"


def unit_in_file_name(stem: str) -> str | None:
    """The unit of energy that a file's name states, such as `homes_hourly_kwh`; None if none."""
    words = re.findall(r"[^\W\d_]+", stem)
    units = {_CERTAIN.get(word.lower(), "") for word in words} & {"kWh", "MWh"}
    return units.pop() if len(units) == 1 else None


def bare_unit(name: str, names: Collection[str]) -> str | None:
    """The unit of a column that is called like one, such as `V`, unless it is one of a series of
    names, such as `U` and `V`, or `m2` and `m3`."""
    if name not in WORDS.other_units.entries or name == "p":
        return None
    neighbours = {f"{name[:-1]}{chr(ord(name[-1]) + step)}" for step in (-1, 1)}
    letters = {*"BCDEFGHJMNORTXYZ"} if len(name) == 1 else set()
    return None if (neighbours | letters).intersection(names) else name


@lru_cache(_COLUMNS)
def why_not_load(name: str, unit: str | None) -> str | None:
    """Why a column of numbers is no load: its unit, or its name; None if it may be one."""
    if unit is not None and unit not in LOAD_UNITS:
        return unit
    if is_name_of_other_quantity(name) or (unit is None and _names_condition(name)):
        return "by its name"
    return None


@lru_cache(_COLUMNS)
def is_name_of_other_quantity(name: str) -> bool:
    """Whether the name of a column says that it measures something else than consumption, and
    nothing else: gas, money, or what is sent to the grid, such as `GasUsageKwh`."""
    name = _METER_OF_BOTH.sub("", name)
    nested = _NESTED.fullmatch(name)
    is_of_part = nested is not None and nested[1] not in WORDS.generation_in_names
    if nested and is_of_part and is_name_of_other_quantity(nested[1]):
        return True
    words = words_in(name)
    return _FED_IN.search(name) is not None or (
        bool(WORDS.not_loads.among(words))
        and all(word in WORDS.not_loads or _says_load(word) or len(word) <= _CODE for word in words)
    )


def words_of_meter(name: str) -> frozenset[str]:
    """The words and numbers in the name of a column that do not say what is measured."""
    words = (word for word in words_in(name) if not _says_load(word))
    numbers = re.findall(r"\d+", _WITHOUT_UNIT.sub("", name))
    return frozenset((*(word for word in words if not WORDS.power.among([word])), *numbers))


def is_name_of_load(name: str) -> bool:
    """Whether a name has a word of loads, beside nothing but such words and codes, or is that of a
    register; and says nothing else."""
    words = {word for word in words_in(name) if len(word) > _CODE}
    is_load = bool(words) and all(map(_says_load, words))
    is_register = _REGISTER.fullmatch(name.casefold()) is not None
    return (is_load or is_register) and not is_name_of_other_quantity(name)


def _names_condition(name: str) -> bool:
    """Whether the name of a column is about conditions or dates, and nothing else."""
    words = words_in(name)
    conditions = WORDS.conditions.among(words)
    is_whole = WORDS.conditions_beside.among(words) >= words - conditions
    return name in WORDS.conditions or (bool(conditions) and is_whole)


@lru_cache(_COLUMNS)
def names_quantity(name: str) -> bool:
    """Whether the name of a column says only what is measured, not which meter measures it."""
    words = words_in(re.sub(r"[\[(][a-zA-Z][\])]", "", name))  # a phase
    return bool(words) and all(map(_says_load, words))


def _says_load(word: str) -> bool:
    """Whether a word is one of loads, or of their units."""
    return word in WORDS.measured or word in _UNITS
