"""What columns measure, by their names: the units of loads, other units, and words for both."""

import re

LOADS = ("kWh", "Wh", "MWh", "kW", "W", "MW")
"""Units of energy in an interval, and of mean power."""
_CERTAIN = {unit.lower(): unit for unit in ("kWh", "MWh", "kW", "MW")}
"""These are units wherever they stand in a name. Others may be a part of it, such as west wings."""
_OTHER = (
    r"°\s?[CF]|deg ?[CF]|celsius|fahrenheit|m3|m³|ft3|ccf|therms?|lit(?:re|er)s?|k?VArh?|k?VAh?|"
    r"EUR|USD|GBP|AUD|CHF|€|\$|£|ct|cents?|%|Hz|m/s|km/h|mph|mm|hPa|mbar|lux|ppm|[KVAlp]|mV|mA"
)
_SPELLED = re.compile(
    r"(?:\b|_)(kilo|mega)?[ -]?watts?(?:[ _-]?(hours?|stunden?))?(?:\b|_)", re.IGNORECASE
)
_POWER_W = re.compile(
    r"(?:active |real )?(?:power|demand|(?:wirk)?leistung|puissance|potencia|potenza|vermogen) W",
    re.IGNORECASE,
)
_IN_BRACKETS = re.compile(rf"[\[(]\s*({_OTHER})\s*[\])]", re.IGNORECASE)
_AT_END = re.compile(
    r"(?:^|[\s_])(°\s?[CF]|celsius|fahrenheit|therms?|k?VArh?|k?VA|EUR|USD|GBP|€|\$|£"
    r"|(?<=[\s_])(?:m3|m³|ft3|ccf))$",
    re.IGNORECASE,
)
"""A column `m3` alone may be the third meter."""
_RATIO = re.compile(
    r"(?:[€$£]|\b(?:EUR|USD|GBP|AUD|CHF|ct|cents?|p|pence|price|costs?|k?g))\s?(?:/|\bper\b)\s?[kM]?Wh?\b"
    r"|\b[kM]?Wh?/(?:m2|m²|qm|ft)",
    re.IGNORECASE,
)
_NOT_LOADS = re.compile(
    r"(?:(?:out(?:door|side)?|air|dry[ _-]?bulb|ambient|buiten|au(?:ss|ß)en)[ _-]*)?"
    r"(?:temp(?:erature?|eratur|eratuur)?|humidity|voltage|spannung|frequency|frequenz)"
    r"(?:[ _-]?(?:%|l?[1-3]|in|out))?|battery[ _-]?%|soc|pf|gas|water|wasser|"
    r".*[ _-]?(?:price|prijs|preis|precio|costs?|kosten|coste|coût|tariff?)|power[ _-]?factor",
    re.IGNORECASE,
)
_WORDS = """
load energy power active real electric electrical electricity consumption consumed demand usage
used use reading readings value values amount quantity meter register index counter total sum
import imported delivered received grid net main interval hourly verbrauch leistung energie arbeit
wert werte messwert zählerstand zaehlerstand stand bezug netzbezug lastgang wirkleistung
wirkarbeit valeur puissance consommation énergie soutirage conso consumo energia energía potencia
potenza lectura valor valore verbruik waarde levering afname stroom in en of the from to de la di
column watt watts kilowatt kilowatts megawatt megawatts hour hours watthours kilowatthours
"""
"""Words about what is measured, not about which meter measures it."""


def unit_of(name: str) -> str | None:
    """The unit that the name of a column states: one of `LOADS`, or another one; None if there is
    none."""
    if ratio := _RATIO.search(name):
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
    if _POWER_W.fullmatch(name.strip()):
        return "W"
    if said := re.search(r"(?:^|[\[(_]|\bin )\s*(wh?)\s*[\])]?$", name, re.IGNORECASE):
        return "Wh" if len(said[1]) == 2 else "W"
    other = _IN_BRACKETS.search(name) or _AT_END.search(name)
    return other[1] if other else None


def why_not_load(name: str, unit: str | None) -> str | None:
    """Why a column of numbers is no load: its unit, or its name; None if it may be one."""
    if unit is not None:
        return None if unit in LOADS else unit
    return "by its name" if _NOT_LOADS.fullmatch(name.strip()) else None


def names_quantity(name: str) -> bool:
    """Whether the name of a column says only what is measured, not which meter measures it."""
    phase = r"[\[(][a-z][\])]"
    words = re.findall(r"[^\W\d_]+", re.sub(phase, "", name.lower()))
    known = {*_WORDS.split(), *(unit.lower() for unit in LOADS)}
    return bool(words) and known.issuperset(words)
