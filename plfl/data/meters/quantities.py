"""What columns measure, by their names: the units of loads, other units, and words for both."""

import re
from collections.abc import Collection, Iterable

LOADS = ("kWh", "Wh", "MWh", "kW", "W", "MW")
"""Units of energy in an interval, and of mean power."""
_CERTAIN = {unit.lower(): unit for unit in ("kWh", "MWh", "kW", "MW")}
"""These are units wherever they stand in a name. Others may be a part of it, such as west wings."""
_OTHER = (
    r"°\s?[CF]|deg ?[CF]|celsius|fahrenheit|m3|m³|ft3|ccf|therms?|lit(?:re|er)s?|k?VArh?|k?VAh?|"
    r"EUR|USD|GBP|AUD|CHF|€|\$|£|ct|cents?|%|Hz|m/s|km/h|mph|mm|[hk]?Pa|m?bar|lux|ppm|[KVAlp]|mV|mA|"
    r"(?:m3|m³|l)/(?:h|min)|cos ?(?:phi|φ)|THD|rpm|dB|kg"
)
_SPELLED = re.compile(
    r"(?:\b|_)(kilo|mega)?[ -]?watts?(?:[ _-]?(hours?|stunden?))?(?:\b|_)", re.IGNORECASE
)
_POWER_W = re.compile(
    r"(?:active |real )?(?:power|demand|load|usage|value|wert|valeur|(?:wirk)?leistung|puissance|"
    r"potencia|potenza|vermogen) W",
    re.IGNORECASE,
)
_IN_BRACKETS = re.compile(rf"[\[(]\s*({_OTHER})\s*[\])]", re.IGNORECASE)
_AT_END = re.compile(
    r"(?:^|[\s_])(°\s?[CF]|celsius|fahrenheit|therms?|k?VArh?|k?VA|EUR|USD|GBP|€|\$|£"
    r"|(?<=[\s_])(?:m3|m³|ft3|ccf))$",
    re.IGNORECASE,
)
"""A column `m3` alone may be the third meter, see `bare_unit`."""
_RATIO = re.compile(
    r"(?:[€$£]|\b(?:EUR|USD|GBP|AUD|CHF|ct|cents?|p|pence|price|costs?|k?g))\s?(?:/|\bper\b)\s?[kM]?Wh?\b"
    r"|\b[kM]?Wh?/(?:m2|m²|qm|ft)",
    re.IGNORECASE,
)
_NOT_LOADS = re.compile(
    r"(?:(?:out(?:door|side)?|air|dry[ _-]?bulb|ambient|buiten|au(?:ss|ß)en)[ _-]*)?"
    r"(?:temp(?:erature?|eratur|eratuur)?|humidity|voltage|current|spannung|frequency|frequenz)"
    r"(?:[ _-]?(?:%|l?[1-3]|in|out))?|battery[ _-]?%|soc|pf|gas|water|wasser|"
    r".*[ _-]?(?:price|prijs|preis|precio|costs?|kosten|coste|coût|charges?|tariff?)|"
    r"power[ _-]?factor|oat|wind(?:[ _-]?speed)?|(?:solar )?(?:irradiance|radiation)|dew ?point|"
    r"pressure|rain(?:fall)?|precipitation|cloud(?: cover)?|co2",
    re.IGNORECASE,
)
_WORDS = """
load energy power active real electric electrical electricity consumption consumed demand usage
used use reading readings value values amount quantity meter register index counter total sum
import imported delivered received grid net main interval hourly verbrauch leistung energie arbeit
wert werte messwert zählerstand zaehlerstand stand bezug netzbezug lastgang wirkleistung
wirkarbeit valeur puissance consommation énergie soutirage conso consumo energia energía potencia
potenza lectura valor valore verbruik waarde levering afname stroom in en of the from to de la di
export exported returned tarif tariff register heures horas ore uren
stunden column watt watts kilowatt kilowatts megawatt megawatts hour hours watthours kilowatthours
"""
"""Words about what is measured, not about which meter measures it."""
_LABELS = re.compile(
    r"(?:.*[ _-])?(?:status|flags?|quality|qualität|calidad|valid(?:ity)?|estimated?|actual|estado|"
    r"stato|zustand|year|month|week|quarter|season|weekday|day of (?:week|month|year)|dow|doy|jahr|"
    r"monat|woche|wochentag|année|mois|semaine|jour|año|mes|anno|mese|jaar|maand|tariff?a?|"
    r"comments?|notes?|remarks?|bemerkung|dst|time ?zone|sommerzeit|holiday|weekend|step|pas|"
    r"duration|dauer|interval length|minutes)\W*(?:code|flag|no|number)?",
    re.IGNORECASE,
)
"""Names of columns that say something about readings or their dates."""
_TARIFFS = (
    r"off[ -]?peak|peak|shoulder|day|night|tag|nacht|dag|jour|nuit|[HN]T|H[PC]|pleines|creuses|"
    r"hochtarif|niedertarif|punta|llano|valle|normal|laag|hoog|1\.8\.[1-9]"
)
_NUMBERED = r"(?:tariff? ?|phase ?|[TFPREL])\d"
_OF_EXPORT = re.compile(
    r"(?:\b|_)(?:export(?:ed)?|returned|feed[ -]?in|einspeisung|generation|production|retour|"
    r"teruglevering|injection|vertido|immissione|2\.8\.\d|(?<=\d{8} )B\d)(?:\b|_)",
    re.IGNORECASE,
)


def unit_of(name: str) -> str | None:
    """The unit that the name of a column states, one of `LOADS` or another; None if none."""
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
    if match := re.search(r"(?:^|[\[(_]|\bin )\s*(wh?)\s*[\])]?$", name, re.IGNORECASE):
        return "Wh" if len(match[1]) == 2 else "W"
    other = _IN_BRACKETS.search(name) or _AT_END.search(name)
    return other[1] if other else None


def bare_unit(name: str, names: Collection[str]) -> str | None:
    """The unit of a column that is called like one, such as `V`, unless it is one of a series of
    names, such as `U` and `V`, or `m2` and `m3`."""
    if not re.fullmatch(_OTHER.replace("lp]", "l]"), name):
        return None
    beside = {f"{name[:-1]}{chr(ord(name[-1]) + step)}" for step in (-1, 1)}
    letters = {*"BCDEFGHJMNORTXYZ"} if len(name) == 1 else set()
    return None if (beside | letters).intersection(names) else name


def is_label(name: str) -> bool:
    """Whether a column, by its name, says something about readings or their dates."""
    return _LABELS.fullmatch(name.strip()) is not None


def registers(names: Iterable[str]) -> tuple[list[str], str] | None:
    """Names of registers for tariffs of one meter, such as day and night, and the expression that
    finds what tells them apart; None if there are none."""
    alike: dict[str, dict[str, str]] = {}
    for name in names:
        for words, may_be_alone in ((_TARIFFS, True), (_NUMBERED, False)):
            match = re.search(rf"(?:\b|_)({words})(?:\b|_)", name, re.IGNORECASE)
            rest = name.replace(match[1], "").strip(" _-") if match else ""
            is_meter = names_quantity(rest) or re.fullmatch(r"\d{8,}", rest)
            if match and (is_meter or (may_be_alone and not re.search(r"[^\W\d_]", rest))):
                alike.setdefault(rest, {})[name] = match[1]
                break
    for of_meter in alike.values():
        differences = dict.fromkeys(of_meter.values())
        if len(differences) > 1:
            either = f"({'|'.join(sorted(differences, key=len, reverse=True))})"
            whole = rf"\b{either}\b"
            is_whole = all(re.search(whole, name) for name in of_meter)
            return list(of_meter), whole if is_whole else either
    return None


def exports(names: Collection[str]) -> list[str]:
    """The names of registers of what a meter feeds into the grid, beside those of loads."""
    fed = [name for name in names if _says_only(_OF_EXPORT.sub(" ", name), name)]
    of_load = re.compile(r"(?:\b1\.8\.|\d{8} E)\d")
    loads = (names_quantity(name) or of_load.search(name) for name in {*names} - {*fed})
    return fed if fed and any(loads) else []


def _says_only(rest: str, name: str) -> bool:
    """Whether a name says nothing of a meter but for what is cut from it."""
    is_number = not re.search(r"[^\W\d_]", rest)
    return rest != name and (is_number or names_quantity(rest))


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
