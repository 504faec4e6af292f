"""What abbreviations, units and signs are called in English."""

from __future__ import annotations

from rtts.text.lexicon import lexicon


def _words(text: str) -> list[str]:
    return text.split()


MONTHS = _words("January February March April May June July August September October November December")
MONTH_OF = (
    {name: name for name in MONTHS}
    | {name[:3]: name for name in MONTHS if name != "May"}
    | {"Sept": "September"}
)

CURRENCIES = {
    "$": ("dollar", "cent"), "£": ("pound", "penny"), "€": ("euro", "cent"), "¥": ("yen", ""),
    "₹": ("rupee", ""), "USD": ("dollar", "cent"), "EUR": ("euro", "cent"), "GBP": ("pound", "penny"),
}  # fmt: skip
PLURALS = {"penny": "pence", "yen": "yen", "foot": "feet", "inch": "inches"}
SCALES = {
    "k": "thousand", "K": "thousand", "m": "million", "M": "million", "mn": "million", "b": "billion",
    "B": "billion", "bn": "billion", "tn": "trillion", "T": "trillion", "thousand": "thousand",
    "million": "million", "billion": "billion", "trillion": "trillion",
}  # fmt: skip


def _pairs(text: str) -> dict[str, str]:
    return {key: words.replace("_", " ") for key, _, words in (pair.partition("=") for pair in text.split())}


UNITS = _pairs(
    "km=kilo_meter m=meter cm=centimeter mm=millimeter μm=micrometer µm=micrometer nm=nanometer mi=mile ft=foot"
    " yd=yard kg=kilogram g=gram mg=milligram µg=microgram lb=pound lbs=pound oz=ounce t=ton l=liter L=liter"
    " ml=milliliter mL=milliliter cl=centiliter gal=gallon h=hour hr=hour hrs=hour min=minute mins=minute"
    " s=second sec=second secs=second ms=milli_second µs=micro_second μs=micro_second ns=nano_second  kB=kilo_byte"
    " KB=kilo_byte MB=mega_byte GB=giga_byte TB=tera_byte PB=peta_byte KiB=kibibyte MiB=mebibyte GiB=gibibyte bit=bit"
    " kbit=kilobit Mbit=megabit Gbit=gigabit Hz=hertz kHz=kilo_hertz MHz=mega_hertz GHz=giga_hertz V=volt mV=millivolt"
    " kV=kilovolt W=watt kW=kilowatt MW=megawatt GW=gigawatt Wh=watt_hour kWh=kilowatt_hour MWh=megawatt_hour"
    " mA=milliamp mAh=milliamp_hour J=joule kJ=kilojoule kcal=kilocalorie cal=calorie Pa=pascal kPa=kilopascal"
    " hPa=hectopascal ha=hectare px=pixel pt=point dB=decibel °=degree m²=square_meter m2=square_meter"
    " km²=square_kilo_meter km2=square_kilo_meter cm²=square_centimeter m³=cubic_meter m3=cubic_meter ft²=square_foot"
    " tbsp=tablespoon tsp=teaspoon"
)
"""Names in the singular. What is named below has no plural in s. Prefixes stand apart where a small voice misreads the
whole: of "kilometers", "gigabytes" and "milliseconds" a recogniser heard 7 of 16, with the prefix apart 12 of 12."""
FIXED_UNITS = _pairs(
    "%=percent ‰=per_mille °C=degrees_Celsius °F=degrees_Fahrenheit ℃=degrees_Celsius ℉=degrees_Fahrenheit"
    " mph=miles_per_hour kph=kilo_meters_per_hour kmh=kilo_meters_per_hour km/h=kilo_meters_per_hour"
    " m/s=meters_per_second mpg=miles_per_gallon rpm=revolutions_per_minute bpm=beats_per_minute"
    " kbps=kilobits_per_second Mbps=megabits_per_second Gbps=gigabits_per_second MB/s=mega_bytes_per_second"
    " GB/s=giga_bytes_per_second Mbit/s=megabits_per_second ppm=parts_per_million x=times fps=frames_per_second"
)
ALONE = _words("km kg cm mm ml km/h m/s MB/s kWh mph GB MB TB MHz GHz kHz Mbps Gbps")
"""Read without a number, too."""
ONLY_JOINED = frozenset({"x"})
"""Units that a space before turns into something else ("5 x")."""

CURRENCY_CODES = _words("USD EUR GBP")
DAYS = _pairs("Mon=Monday Tue=Tuesday Tues=Tuesday Wed=Wednesday Thu=Thursday Thurs=Thursday Fri=Friday")
RANGE_DAYS = DAYS | {"Sat": "Saturday", "Sun": "Sunday"}
"""In "Sat-Sun" only: alone these are words."""
ABBREVIATIONS = _pairs(
    "etc=et_cetera approx=approximately dept=department misc=miscellaneous vs=versus"
    " Inc=Incorporated Ltd=Limited Corp=Corporation Jr=Junior Sr=Senior Ave=Avenue Blvd=Boulevard Rd=Road"
    ""
    " esp=especially incl=including govt=government assn=association bldg=building est=estimated"
) | {"e.g": "for example", "i.e": "that is", "a.k.a": "also known as", "et al": "and others"}
"""Written with a full stop; the ones in ``BARE`` without, too."""
BARE = {
    "Approx": "approximately",
    "vs": "versus",
    "etc": "et cetera",
    "eg": "for example",
    "approx": "approximately",
    "aka": "also known as",
}
TITLES = _pairs(
    "Mr=Mister Mrs=Missus Ms=Miss Dr=Doctor Prof=Professor Gen=General Col=Colonel Lt=Lieutenant Sgt=Sergeant"
    " Capt=Captain Gov=Governor Sen=Senator Rep=Representative Rev=Reverend Hon=Honorable St=Saint Mt=Mount Ft=Fort"
    " Pres=President"
)
"""In front of a name."""
STREETS = {"St": "Street", "Dr": "Drive"}
"""Behind a name."""
BEFORE_NUMBER = _pairs(
    "No=number Nos=numbers no=number nos=numbers Nr=number Fig=figure fig=figure Figs=figures Vol=volume vol=volume"
    " p=page pp=pages Ch=chapter ch=chapter Sec=section sec=section Eq=equation eq=equation Art=article Tel=telephone"
    " Ver=version ver=version max=maximum min=minimum Max=maximum Min=minimum ca=about c=about Ref=reference"
    " ext=extension Ext=extension"
)

SIGNS = _pairs(
    "&=and ＆=and +=plus @=at ×=times ÷=divided_by ±=plus_or_minus ≈=is_about ≠=is_not ≤=at_most ≥=at_least"
    " →=to <=is_less_than >=is_greater_than %=percent §=section ©=copyright ½=one_half ¼=one_quarter"
    " ¾=three_quarters ⅓=one_third ⅔=two_thirds °=degrees −=minus √=the_square_root_of π=pi ∞=infinity"
    " µ=micro ²=squared ³=cubed #=number $=dollar €=euro £=pound ~=about"
) | {"=": "equals"}
"""As words of their own."""

PER = _pairs(
    "mo=month month=month yr=year year=year wk=week week=week day=day night=night hr=hour hour=hour h=hour min=minute"
    " minute=minute s=second sec=second second=second person=person user=user kg=kilogram km=kilo_meter unit=unit"
)
"""Behind a slash: each of these."""
COMPARED = {
    ">=": "is at least", "<=": "is at most", "==": "equals", "!=": "is not", "->": "to", "=>": "to",
    "+/-": "plus or minus",
}  # fmt: skip
"""Signs of several characters."""

_SMALL = _words(
    "go is me up us am no to of by as at be it in on if so an or ok he do we my not now new run out off any few big put"
    " did get got let our was who how too two one ten old add ask see say use yes way why you all and are but can for"
    " has had her him his its may the she end key top stop wait help"
)
COMMON = frozenset(_SMALL) | lexicon("en").starters | lexicon("en").conjunctions
"""Words that are words in capitals, too."""
AS_WORDS = _pairs(
    "OK=okay JSON=Jason SQL=sequel GUI=gooey NASA=Nasa NATO=Nato COVID=Covid RAM=ram ROM=rom PIN=pin SIM=sim LAN=lan"
    " AIDS=aids ZIP=zip GIF=gif RAID=raid ASAP=ay_ess_ay_pee"
)
"""Names in capitals that are not spelled letter by letter, or in another way."""
REGNAL = frozenset(
    _words(
        "King Queen Pope Emperor Henry Louis Charles George Edward James William Richard Elizabeth John Paul Pius"
        " Benedict Francis Leo Philip Napoleon Nicholas Frederick Alexander Catherine Mary Gregory Clement Innocent"
    )
)
"""A Roman numeral behind one of these is an ordinal."""
NUMBERED = frozenset(
    _words(
        "War Chapter Part Act Volume Phase Type Section Book Class Title Article Stage Level Grade Appendix Bowl"
        " Schedule Episode Scene Figure Table"
    )
)
"""A Roman numeral behind one of these is a cardinal."""
CODES = (
    r"(?:code|pin|passcode|password|otp|zip|postcode|id|account|extension|ext|serial|tracking|order|ticket|case|"
    r"reference|ref|confirmation|booking|invoice|phone|flight|room|call|dial|text|error|status|http|highway|route)"
)
"""Behind one of these a number is a code: digit by digit. A pattern."""
