"""What columns measure, by their names: the units of loads, other units, and words for both."""

import re
from collections import Counter
from collections.abc import Collection
from typing import Literal

KWH = {"kWh": 1.0, "Wh": 1e-3, "MWh": 1e3, "kW": 1.0, "W": 1e-3, "MW": 1e3}
"""The units of loads, energy in an interval or mean power, in kWh or kW."""
LOADS = (*KWH,)
"""Their names."""
_CERTAIN = {unit.lower(): unit for unit in ("kWh", "MWh", "kW", "MW")}
"""These are units wherever they stand in a name. Others may be a part of it, such as west wings."""
_OTHER_UNITS = (
    r"°\s?[CF]|deg ?[CF]|celsius|fahrenheit|m3|m³|ft3|ccf|therms?|lit(?:re|er)s?|k?VArh?|k?VAh?|"
    r"EUR|USD|GBP|€|\$|£|ct|cents?|%|Hz|m/s|km/h|mph|mm|[hk]?Pa|m?bar|lux|ppm|[KVAlp]|kg|(?:m3|m³|l)/h"
)
_SPELLED = re.compile(r"(?:\b|_)(kilo|mega)?[ -]?watts?(?:[ _-]?(hours?))?(?:\b|_)", re.IGNORECASE)
_IN_BRACKETS = re.compile(rf"[\[(]\s*({_OTHER_UNITS})\s*[\])]", re.IGNORECASE)
_AT_END = re.compile(
    r"(?:^|[\s_])(°\s?[CF]|deg ?[CF]|celsius|fahrenheit|therms?|k?VArh?|k?VA|EUR|USD|GBP|€|\$|£"
    r"|(?<=[\s_])(?:m3|m³|ft3|ccf))$",
    re.IGNORECASE,
)
"""A column `m3` alone may be the third meter, see `bare_unit`."""
_MONEY = (
    "EUR|USD|GBP|CHF|SEK|NOK|DKK|PLN|CZK|HUF|AUD|NZD|CAD|JPY|INR|ct|cts|cents?|c|p|pence|öre|øre|"
    "snt|senti|zł|gr|Kč|Rp|Ft|Rs|yen"
)
_SHORT = 4
"""Letters of words that may be the end of any other one."""
_RATIO = re.compile(
    rf"(?:[€$£¢¥]|\b(?:{_MONEY}|price|costs?|k?g))\s?(?:/|\bper\b)\s?[kM]?Wh?\b"
    r"|\b[kM]?Wh?/(?:m2|m²|ft)",
    re.IGNORECASE,
)
_NOT_LOADS = re.compile(
    r"(?:(?:out(?:door|side)?|air|dry[ _-]?bulb|ambient)[ _-]*)?"
    r"(?:temp(?:erature)?|humidity|voltage|current|frequency)"
    r"(?:[ _-]?(?:%|l?[1-3]|in|out|\(?[CF]\)?))?|"
    r"battery[ _-]?%|soc|pf|power[ _-]?factor|gas|water|.*[ _-]?(?:price|costs?|tariff?)|"
    r"wind(?:[ _-]?speed)?|(?:solar )?(?:irradiance|radiation)|dew ?point|pressure|rain(?:fall)?|"
    r"year|month|week|weekday|season|holiday|weekend|.*[ _-]?(?:status|flags?|quality)",
    re.IGNORECASE,
)
"""Names of columns that measure something else, or say something about readings or their dates."""
FACTORS = re.compile(r"factor|faktor|facteur|multiplier|scale", re.IGNORECASE)
"""Names of columns whose numbers the readings are multiplied by."""
_WORDS = """
load energy power active real electric electrical electricity consumption consumed demand usage
used use reading readings value values amount quantity meter register index counter total
import imported delivered received grid net main interval hourly in en of the from to
verbrauch leistung wert messwert wirkenergie wirkarbeit energie bezug netz ins valeur consommation
energia energija ativa activa attiva fornecida prejeta preuzeta delovna radna moč
consumo verbruik afname levering förbrukning forbruk forbrug kulutus kogus spotřeba zużycie
pobór pobrana patēriņš enerģija ενέργεια
column watt watts kilowatt kilowatts hour hours with without incl excl tax vat
"""
"""Words about what is measured, not about which meter measures it."""


_OTHER_WORDS = """
gas water cost costs price prices tariff temperature voltage humidity
export exported feedin injection injectie einspeisung eingespeist teruglevering returned surplus
injetada inyectada vertida immessa oddana oddanie oddaná wprowadzona dodávka abgabe nodotā delivery
livrata pagaminta saražotā toodetud üretim παραγωγή
pv produktion production produced generation generated erzeugung
preis prix precio prezzo prijs pris hinta cena börsihind
"""
"""Words about something else than consumption."""


_ENERGY_WORDS = """
energy energie energia énergie energija consumption consumed usage used verbrauch bezug
verbruik afname levering consumo consommation forbruk förbrukning forbrug kulutus zużycie spotřeba
"""
_PLACES = """
site building house household home apartment flat dwelling unit room floor wing block tower hall
office school library gym shop store market warehouse hotel hospital clinic museum church campus
lab laboratory kitchen canteen pool theatre stadium kindergarten dormitory lodging education factory
haus gebäude wohnung etage halle büro schule turnhalle rathaus kita bibliothek werk lager hotel
workshop garage barn maison bâtiment appartement école bureau mairie
casa edificio scuola ufficio escuela oficina
"""
"""Words for what has a meter of its own."""


_PARTS = re.compile(
    r"(?:phase|ph|line|l|tariff?e?|rate|t|f|p|e)[ _-]?[0-4a-c]|[hnv]t|h[pc]", re.IGNORECASE
)
"""Names of phases, tariffs and hours of one meter."""
_TARIFF = (
    r"(?:T|R|rate|tarif|tariff)[ _-]?[1-4]|day|night|dag|nacht|tag|jour|nuit|giorno|notte|"
    r"HP|HC|HT|NT|(?:off[ -]?)?peak|laag|normaal|hoog|low|high"
)
_REGISTER_AT_END = re.compile(rf"(?:^|[ _-])({_TARIFF})$", re.IGNORECASE)
_REGISTER_FIRST = re.compile(rf"^({_TARIFF})(?:[ _-]|$)", re.IGNORECASE)
"""Names of the registers of a meter, each of which counts at some times of the day."""
_REGISTER = re.compile(r"(?:\d-\d+:)?\d\.\d+\.\d|[ap]\+|\+[ap]")
"""Names of registers in small letters, such as those of OBIS."""
_MOST_PARTS = 4
_CODE = 2
"""Letters of names that are no words."""


_CONSUMPTION_WORDS = (
    r"consum|\bload|usage|verbrauch|verbruik|consom|förbruk|forbru|kulut|zuży|spotř|fogyaszt|potroš"
)
_OWN_PRODUCTION = r"\bself\b|\bown\b|direct|eigen|\bauto"
_CONSUMPTION = re.compile(
    r"(?:(?:total|house(?:hold)?|home|building|site|haus|gesamt|electric(?:ity)?|energy|active|el|"
    r"actual)[ -]?)*(?:load|consumption|usage|verbrauch|verbruik|consumo|consumi|consommation|"
    r"förbrukning|forbrug|forbruk|kulutus|spotřeba|zużycie|fogyasztás|potrošnja)"
    r"(?:[ -](?:energy|power|total))?",
    re.IGNORECASE,
)
"""Names of columns with the consumption of a building."""
_WITHOUT_UNIT = re.compile(r"\s*[\[(][^\])]*[\])]\s*$|[ _]k?wh?$", re.IGNORECASE)


_POWER_WORDS = """
power demand leistung vermogen puissance potencia potência potenza effekt teho moc moč výkon
"""


_FED_IN = re.compile(
    r"^(?:-[AP]|[AP]-)(?![\w-])|\b[AP]-$|(?<![\d.])[2-8]\.(?:[5-9]|29)\.\d|\bR[+-]$"
)
"""Signs of energy or power that is fed in or reactive, such as those of OBIS."""


def unit_of(name: str) -> str | None:
    """The unit that the name of a column states, one of `LOADS` or another; None if none."""
    if ratio := _RATIO.search(name.replace("_", " ")):
        return ratio[0]
    if energy := re.search(r"\b[kM]?Wh\s?/\s?h(?:our)?\b", name, re.IGNORECASE):
        return {"k": "kW", "m": "MW"}.get(energy[0][0].lower(), "W")
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


def _words_in(name: str) -> set[str]:
    """The words in the name of a column, in small letters."""
    return {*re.findall(r"[^\W\d_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower())}


def are_names_of_meters(names: Collection[str]) -> bool:
    """Whether columns of readings are meters by their names, which are codes or numbers, have a
    word in common, or say places; and not parts of one meter, such as import and net."""
    words = [_words_in(name) for name in names]
    common_words, places = set.intersection(*words), {*_PLACES.split()}
    measured = {*_WORDS.split(), *_OTHER_WORDS.split(), *(unit.lower() for unit in LOADS)}
    compounds = tuple(word for word in measured if len(word) > _SHORT)
    own_words = [name_words - common_words for name_words in words]
    if any(
        word in measured or word.endswith(compounds)
        for name_words in own_words
        if not name_words & places
        for word in name_words
    ):
        return False
    longer_words = "|".join(re.escape(word) for word in common_words if len(word) > _CODE)
    own_parts = [re.sub(longer_words, "", name.lower()).strip(" _-.()[]") for name in names]
    if any(map(_REGISTER.fullmatch, own_parts)):
        return False
    if len(names) <= _MOST_PARTS and (
        all(map(_PARTS.fullmatch, own_parts)) or all(map(_PARTS.fullmatch, names))
    ):
        return False
    if sum(names_quantity(name) for name in names) > 1:
        return False
    return (
        all(re.search(r"\d", name) or len(name) <= _CODE for name in names)
        or bool(common_words - measured)
        or all(name_words & places for name_words in words)
    )


def registers_among(names: Collection[str]) -> str | None:
    """A regular expression for the parts of names that are those of registers, such as `T1` and
    `T2`, without which some names are equal; None if there are none."""
    for part, pattern in ((_REGISTER_AT_END, "[ _-]*({})$"), (_REGISTER_FIRST, "^({})[ _-]*")):
        registers = {name: match for name in names if (match := part.search(name))}
        meters = Counter(part.sub("", name).strip(" _-") for name in registers)
        if max(meters.values(), default=0) > 1:
            words = dict.fromkeys(match[1] for match in registers.values())
            return pattern.format("|".join(map(re.escape, words)))
    return None


def consumption_among(names: Collection[str]) -> str | None:
    """The only column whose name says that it has the consumption of a building, such as
    `House load` beside import and production; None if there is none, or several may have it."""
    likely_names = [name for name in names if unlikeliness(name) == 0]
    plain_names = [_WITHOUT_UNIT.sub("", name).replace("_", " ").strip() for name in likely_names]
    is_told = len(plain_names) == 1 and _CONSUMPTION.fullmatch(plain_names[0]) is not None
    return likely_names[0] if is_told else None


def unlikeliness(name: str) -> int:
    """How unlikely it is that a column, by its name, has the consumption of a meter."""
    words = " ".join(_words_in(name))
    if re.search(_CONSUMPTION_WORDS, words) and not re.search(_OWN_PRODUCTION, words):
        return 0
    return 1 + bool(re.search(r"\bnet\b|\bto\b|export|feed|speis|lever|total|saldo", words))


def kind_of(name: str) -> Literal["energy", "power"] | None:
    """Whether the name of a column says that it measures energy or power; None: it does not say."""
    words = _words_in(name)
    says_energy = bool(words & {*_ENERGY_WORDS.split()})
    says_power = bool(words & {*_POWER_WORDS.split()})
    return None if says_energy == says_power else "energy" if says_energy else "power"


def unit_in_file_name(stem: str) -> str | None:
    """The unit of energy that a file's name states, such as `homes_hourly_kwh`; None if none."""
    words = re.findall(r"[^\W\d_]+", stem)
    units = {_CERTAIN.get(word.lower(), "") for word in words} & {"kWh", "MWh"}
    return units.pop() if len(units) == 1 else None


def bare_unit(name: str, names: Collection[str]) -> str | None:
    """The unit of a column that is called like one, such as `V`, unless it is one of a series of
    names, such as `U` and `V`, or `m2` and `m3`."""
    if not re.fullmatch(_OTHER_UNITS.replace("lp]", "l]"), name):
        return None
    neighbours = {f"{name[:-1]}{chr(ord(name[-1]) + step)}" for step in (-1, 1)}
    letters = {*"BCDEFGHJMNORTXYZ"} if len(name) == 1 else set()
    return None if (neighbours | letters).intersection(names) else name


def why_not_load(name: str, unit: str | None) -> str | None:
    """Why a column of numbers is no load: its unit, or its name; None if it may be one."""
    if unit is not None and unit not in LOADS:
        return unit
    if names_other(name):
        return "by its name"
    return None if unit else "by its name" if _NOT_LOADS.fullmatch(name.strip()) else None


def names_other(name: str) -> bool:
    """Whether the name of a column says that it measures something else than consumption, and
    nothing else: gas, money, or what is sent to the grid, such as `GasUsageKwh`."""
    if _FED_IN.search(name):
        return True
    plain = re.sub(r"(?<![a-z])[kM]Wh?(?![a-z])", lambda unit: unit[0].lower(), name)
    words = re.findall(r"[^\W\d_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", plain).lower())
    load_words = {*_WORDS.split(), *(unit.lower() for unit in LOADS)}
    other_words = {*_OTHER_WORDS.split()}
    return bool(other_words.intersection(words)) and (load_words | other_words).issuperset(words)


def names_quantity(name: str) -> bool:
    """Whether the name of a column says only what is measured, not which meter measures it."""
    phase = r"[\[(][a-z][\])]"
    words = re.findall(r"[^\W\d_]+", re.sub(phase, "", name.lower()))
    load_words = {*_WORDS.split(), *(unit.lower() for unit in LOADS)}
    return bool(words) and load_words.issuperset(words)
