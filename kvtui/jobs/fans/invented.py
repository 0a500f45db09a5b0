"""Pages that nobody has: an address and a name for each popularity rank.

Each is a function of rank and seed alone, so millions need no table. Names are
made to try the screens, too: brackets that look like markup, commas, quote marks,
letters of other scripts (wide ones, right-to-left ones, accents in one character
and in two), and some that are far too long for a column.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote


class Page(NamedTuple):
    address: str
    name: str


# fmt: off
_FIRST = (
    "Amber", "Blue", "Brass", "Bright", "Broken", "Calm", "Cedar", "Clear",
    "Cobalt", "Copper", "Coral", "Crimson", "Curious", "Distant", "Early", "Electric",
    "Emerald", "Endless", "Faded", "First", "Flying", "Foggy", "Gentle", "Glass",
    "Golden", "Green", "Grey", "Hidden", "Hollow", "Honest", "Humble", "Iron",
    "Ivory", "Jolly", "Last", "Late", "Little", "Lonely", "Lost", "Lucky",
    "Midnight", "Misty", "Modern", "Northern", "Old", "Orange", "Paper", "Patient",
    "Plain", "Purple", "Quiet", "Rapid", "Restless", "Round", "Royal", "Rusty",
    "Secret", "Silver", "Slow", "Southern", "Velvet", "Wandering", "Wild", "Winter",
)
_SECOND = (
    "Acorn", "Anchor", "Avenue", "Badger", "Bakery", "Balloon", "Bicycle", "Bridge",
    "Candle", "Canyon", "Castle", "Circus", "Cloud", "Comet", "Compass", "Corner",
    "Crane", "Delta", "Desert", "Dragon", "Engine", "Falcon", "Fiddle", "Forest",
    "Fountain", "Garden", "Giraffe", "Harbour", "Hedgehog", "Horizon", "Island",
    "Jungle",
    "Kettle", "Kitchen", "Ladder", "Lantern", "Library", "Meadow", "Mirror", "Monkey",
    "Mountain", "Museum", "Ocean", "Orchard", "Otter", "Parade", "Pepper", "Piano",
    "Planet", "Pocket", "Puzzle", "Railway", "River", "Rocket", "Saddle", "Shadow",
    "Signal", "Station", "Summer", "Tiger", "Tower", "Valley", "Whistle", "Window",
)
_THIRD = (
    "Band", "Books", "Brothers", "Café", "Club", "Coffee", "Comedy", "Dance",
    "Diaries", "Festival", "Films", "Football", "Foundation", "Games", "Kitchen",
    "Magazine",
    "Orchestra", "Pizza", "Quartet", "Racing", "Radio", "Show", "Theatre", "United",
)
_BRACKETS = (
    "[Official]", "[TV]", "(Official Page)", "[NFL]", "{live}", "[/]", "[bold]", "<3",
)
_FOREIGN = (
    "Łódź", "Übermut", "Ærøskøbing", "Ñandú", "Crème brûlée",
    "Cre\u0300me bru\u0302le\u0301e",
    "Москва", "Ελιά", "日本の音楽", "한국 영화", "קפה", "قهوة", "Đà Lạt", "İstanbul",
    "🎸", "ﬁlm",
)
_PARTS = ("Part", "Season", "Volume", "Chapter", "Album", "Episode")
# fmt: on

_MASK = 2**64 - 1


def mixed(value: int, seed: int) -> int:
    """64 well-mixed bits of a number and a seed: the finaliser of SplitMix64.

    Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
    OOPSLA 2014.
    """
    z = (value * 0x9E3779B97F4A7C15 + seed * 0xD1B54A32D192ED03 + 1) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def invented_page(
    rank: int, digits: int, seed: int, part: tuple[int, int] | None = None
) -> Page:
    """The page of a rank, from 0.

    No two ranks below ``10 ** digits`` share an address. ``part`` is (number, rank
    of the first part) for one of a series, whose names resemble each other.
    """
    number, base = part or (0, rank)
    bits = mixed(base, seed ^ 0x5EED)
    name = _name(bits)
    if part:
        name += f", {_PARTS[bits % len(_PARTS)]} {number}"
    elif rank < 4096 and bits >> 60 < 6:
        # A short address; the odd factor makes each rank below 4,096 its own.
        code = (rank * 1597 + seed) & 0xFFF
        first, second = _FIRST[code >> 6], _SECOND[code & 63]
        return Page(
            f"http://www.facebook.com/{first}{second}".lower(), f"{first} {second}"
        )
    # 7919 is prime to 10, so this only shuffles the numbers of that many digits.
    shuffled = (rank * 7919 + seed) % 10**digits
    path = name.replace(" ", "-")
    if not (path.isascii() and path.replace("-", "").isalnum()):  # spares time
        path = quote(path, safe="-,!()'&")
    return Page(f"http://www.facebook.com/pages/{path}/{shuffled}", name)


def _name(bits: int) -> str:
    first = _FIRST[bits & 63]
    second = _SECOND[bits >> 6 & 63]
    third = _THIRD[(bits >> 12 & 0xFF) % len(_THIRD)]
    kind = (bits >> 20 & 0xFFF) % 100
    more = bits >> 32 & 63
    if kind < 40:
        return f"{first} {second}"
    if kind < 70:
        return f"{first} {second} {third}"
    if kind < 80:
        return f"The {first} {second}s"
    if kind < 88:
        return f"{second} & {_SECOND[more]}"
    if kind < 91:
        return f"{second}, {_SECOND[more]} and {third}"
    if kind < 93:
        return f'"{first} {second}" {third}'
    if kind < 94:
        return f"{second}’s {third}"
    if kind < 96:
        return f"{first} {second} {_BRACKETS[more % len(_BRACKETS)]}"
    if kind < 99:
        return f"{_FOREIGN[more % len(_FOREIGN)]} {third}"
    long = (
        f"I will not go to bed before the {first.lower()} {second.lower()} has "
        f"been found and brought back to the {third.lower()} where it belongs, "
        f"no matter how many {_SECOND[more].lower()}s it takes"
    )
    if bits >> 40 & 3:
        return long
    # An address of over 250 bytes is more than memcached takes as a key.
    return (
        f"{long}, and whoever says that a {second.lower()} has never been lost in a "
        f"{third.lower()} shall come and count them with me, one after the other, "
        "until the morning"
    )
