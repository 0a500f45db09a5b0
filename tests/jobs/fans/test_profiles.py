"""Reading profile files: every format, every way in which a file can be off."""

import gzip
import io
import json
import os
import zipfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtui.errors import DataError, UsageError
from kvtui.jobs.fans.profiles import BadLine, ProfileFile, open_profiles, read_names

REPOSITORY = Path(__file__).resolve().parents[3]
REAL_DATA = Path(
    os.environ.get("KVTUI_REAL_DATA", REPOSITORY.parent / "shared" / "data")
)
GOODBOOKS = REAL_DATA / "goodbooks-toread"
MSWEB = REAL_DATA / "msweb" / "anonymous-msweb.data.gz"


def needs(path: Path) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        not path.exists(), reason=f"the real data are not here: {path}"
    )


def truth(name: str, part: str) -> Any:
    path = REAL_DATA.parent / "truth" / f"truth-{name}.json"
    if not path.exists():
        pytest.skip(f"the exact results are not here: {path}")
    return json.loads(path.read_bytes())["slices"][part]


@pytest.fixture
def write(tmp_path):
    def write(content, name="profiles"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def fans(profiles: Iterable[list[str]]) -> Counter[str]:
    return Counter(page for profile in profiles for page in profile)


# --- one profile a line -------------------------------------------------------


def test_tabs_with_empty_and_single_page_profiles(write):
    source = open_profiles(write("x\nx\ty\n\n"))
    assert list(source) == [["x"], ["x", "y"], []]
    assert fans(source) == {"x": 2, "y": 1}
    assert (source.lines, source.bad_lines) == (3, 0)
    assert source.format == "one profile a line, tab-separated"


def test_json_lines_with_every_kind_of_empty_profile(write):
    path = write(
        '{"pages":[]}\n{"pages":["x"]}\n["x","y"]\n\n{"other":1}\n{"pages":null}\n[]\n'
    )
    source = open_profiles(path)
    assert list(source) == [[], ["x"], ["x", "y"], [], [], [], []]
    assert source.bad_lines == 0
    assert source.format == "JSON Lines, one profile a line"


def test_repeated_pages_of_a_profile_count_once_in_order(write):
    assert list(open_profiles(write("b\ta\tb\tc\ta\n"))) == [["b", "a", "c"]]


def test_names_are_taken_byte_for_byte(write):
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    pages = [composed, decomposed, "a b", " a", "a\0b", "\x01", "\x7f", '"', "a\rb"]
    assert list(open_profiles(write("\t".join(pages) + "\r\n"))) == [pages]


def test_ids_with_tabs_and_line_breaks_come_through_json(write):
    pages = ["a b", "a\tb", "a\nb", "a\0b", "\x01", "\x7f", "\u2028", "a\\b"]
    path = write(json.dumps({"pages": pages}) + "\n")
    assert list(open_profiles(path)) == [pages]


def test_a_lone_quote_mark_swallows_no_row_of_a_tab_file(write):
    source = open_profiles(write('u1\t"weird\nu2\tb\nu3\tc\n'))
    assert list(source) == [["u1", '"weird'], ["u2", "b"], ["u3", "c"]]


@pytest.mark.parametrize(
    "line",
    [
        "9" * 5000,
        '{"pages":["x"],"n":' + "9" * 5000 + "}",
        "[" * 200_000,
        '{"pages":[NaN]}',
        '{"pages":["x\\ud83d","y"]}',
        '{"pages":"x"}',
        '{"pages":[true]}',
        '{"pages":[1.5]}',
        '{"pages":["x",""]}',
        '{"pages":["x"',
        "3",
        '"x"',
    ],
    ids=lambda line: line[:24],
)
def test_hostile_json_is_a_bad_line_and_nothing_else(write, line):
    source = open_profiles(write('["a"]\n' + line + '\n["b"]\n'))
    assert list(source) == [["a"], ["b"]]
    assert source.bad_lines == 1
    assert source.first_bad[0].number == 2


def test_of_duplicate_json_keys_the_last_counts(write):
    assert list(open_profiles(write('{"pages":["a"],"pages":["b"]}\n'))) == [["b"]]


def test_whole_numbers_are_ids_in_json(write):
    assert list(open_profiles(write('{"pages":[7,"7",8]}\n'))) == [["7", "8"]]


def test_brackets_do_not_make_a_tab_file_json(write):
    source = open_profiles(write("[adult swim]\n[30 Rock]\n[adult swim]\tx\n"))
    assert list(source) == [["[adult swim]"], ["[30 Rock]"], ["[adult swim]", "x"]]


# --- encodings ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"pages":["x"]}\n', [["x"]]),
        ("user,page\nu1,x\n", [["x"]]),
        ("x\ty\n", [["x", "y"]]),
    ],
)
def test_a_byte_order_mark_is_removed(write, text, expected):
    assert list(open_profiles(write(b"\xef\xbb\xbf" + text.encode()))) == expected


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_wide_encodings_are_refused_by_name(write, encoding):
    path = write("page one\tpage two\n".encode(encoding))
    with pytest.raises(DataError, match=r"is UTF-(16|32) text") as caught:
        list(open_profiles(path))
    assert "iconv" in str(caught.value.hint)


def latin_file() -> bytes:
    lines = [f"http://ex.test/{n}\thttp://ex.test/{n + 1}" for n in range(10_000)]
    text = "\n".join(lines).encode().split(b"\n")
    text[7340] += b"\tcaf\xe9"
    return b"\n".join(text) + b"\n"


def test_a_line_that_is_not_utf8_is_a_bad_line(write):
    source = open_profiles(write(latin_file()))
    assert sum(1 for _ in source) == 9999
    assert source.lines == 10_000
    assert source.first_bad == [BadLine(7341, "not UTF-8: byte 0xE9 at 44")]


def test_latin_1_reads_every_line(write):
    source = open_profiles(write(latin_file()), encoding="latin-1")
    assert list(source)[7340][2] == "café"
    assert (source.bad_lines, source.encoding) == (0, "latin-1")


def test_bare_carriage_returns_are_refused(write):
    with pytest.raises(DataError, match="bare carriage return"):
        open_profiles(write("a\tb\rc\td\r"))


# --- rows ---------------------------------------------------------------------


def test_a_comma_in_a_csv_name_needs_quotes(write):
    source = open_profiles(write('u1,"Hurry, now",b\nu2,Hurry, now,b\n'))
    assert list(source) == [["Hurry, now", "b"], ["Hurry", " now", "b"]]


def test_movielens_colons(write):
    source = open_profiles(write("1::A::B (x)\n2::A, or not\n"))
    assert list(source) == [["A", "B (x)"], ["A, or not"]]
    ratings = open_profiles(write("1::A, b::5::978300760\n2::A, b::3::978302109\n"))
    assert list(ratings) == [["A, b"], ["A, b"]]


def test_pairs_need_not_stand_together(write):
    path = write("user_id,item_id\n1,a\n2,a\n1,b\n3,c\n2,b\n1,a\n")
    source = open_profiles(path)
    assert list(source) == [["a", "b"], ["a", "b"], ["c"]]
    assert list(open_profiles(path, first=2)) == [["a", "b"], ["a", "b"]]
    assert source.lines == 7


def test_columns_are_found_by_their_names(write):
    path = write("rating,item,user\n5,x,u1\n3,y,u1\n")
    assert list(open_profiles(path)) == [["x", "y"]]


def test_quoted_fields_may_cross_lines(write):
    source = open_profiles(write('user,page\nu1,"a\nb"\nu2,"say ""hi"""\n'))
    assert list(source) == [["a\nb"], ['say "hi"']]
    assert source.bad_lines == 0


@pytest.mark.parametrize("closing", ["", 'u4,"odd"\n'])
def test_a_lone_quote_mark_costs_one_csv_row(write, closing):
    source = open_profiles(write('user,page\nu1,"weird\nu2,b\nu3,c\n' + closing))
    assert list(source) == [["b"], ["c"]] + ([["odd"]] if closing else [])
    assert [bad.number for bad in source.first_bad] == [2]


def test_rows_are_used_or_reported(write):
    source = open_profiles(write("user,page\nu1,a\nu2\nu3,b,c\n,d\nu4,\nu5,e\n"))
    assert list(source) == [["a"], ["e"]]
    assert [bad.number for bad in source.first_bad] == [3, 4, 5, 6]
    assert source.lines == 7 == 1 + 2 + source.bad_lines


def test_tab_pairs_are_told_from_tab_profiles(write):
    headed = write("user\titem\tdate\n1\ta\tx\n1\tb\ty\n")
    assert list(open_profiles(headed)) == [["a", "b"]]
    movielens = "".join(f"{n % 7}\t{n}\t{n % 5}\t88125{n}\n" for n in range(50))
    assert len(list(open_profiles(write(movielens)))) == 7
    couples = "".join(f"http://x/{n % 7}\thttp://x/{n}\n" for n in range(50))
    assert len(list(open_profiles(write(couples)))) == 50
    numbers = "".join(f"{n % 7}\t{n}\n" for n in range(50))
    assert len(list(open_profiles(write(numbers)))) == 50
    forced = open_profiles(write(numbers), format="pairs-tsv")
    assert len(list(forced)) == 7


def test_bad_lines_are_counted_and_the_first_twenty_kept(write):
    source = open_profiles(write('["a"]\n' * 100 + "{\n" * 30))
    assert len(list(source)) == 100
    assert (source.bad_lines, len(source.first_bad)) == (30, 20)
    assert len(list(source)) == 100
    assert source.bad_lines == 30


def test_dst(write):
    path = write(
        'I,4,"www.x.test","made"\nN,0,"0"\nA,1,1,"One, two ","/one"\nA,2,1,"Two","/t"\n'
        'C,"10001",10001\nV,1,1\nV,2,1\nC,"10002",10002\nC,"10003",10003\nV,2,1\nX,1\n'
    )
    source = open_profiles(path)
    assert list(source) == [["1", "2"], [], ["2"]]
    assert source.names == {"1": "One, two ", "2": "Two"}
    assert [bad.number for bad in source.first_bad] == [11]


# --- packing ------------------------------------------------------------------

TEXT = b"".join(b"page%d\tpage%d\n" % (n, n * 7) for n in range(3000))


def test_type_is_by_content_not_by_name(write):
    assert len(list(open_profiles(write(TEXT, "plain.gz")))) == 3000
    packed = open_profiles(write(gzip.compress(TEXT), "packed.txt"))
    assert len(list(packed)) == 3000
    assert packed.compression == "gzip"


def test_gzip_members_end_to_end(write):
    half = TEXT.index(b"\n", len(TEXT) // 2) - 3  # in the middle of a line
    two = gzip.compress(TEXT[:half]) + gzip.compress(TEXT[half:])
    assert list(open_profiles(write(two))) == list(open_profiles(write(TEXT, "b")))


@pytest.mark.parametrize("damage", ["short", "junk", "crc", "flipped"])
def test_damaged_gzip_is_one_error_with_the_profiles_read(write, damage):
    packed = bytearray(gzip.compress(TEXT * 40, 1))
    if damage == "short":
        del packed[-6:]
    elif damage == "junk":
        packed += b"trailing junk"
    elif damage == "crc":
        packed[-8] ^= 1
    else:
        packed[len(packed) * 3 // 4] ^= 0xFF
    source = open_profiles(write(bytes(packed)))
    profiles: list[list[str]] = []
    with pytest.raises(DataError, match=r"packed data") as caught:
        profiles.extend(source)
    assert f"after {len(profiles):,} profiles" in caught.value.message
    assert len(profiles) > 1000


def test_damaged_pairs_are_never_handed_out(write):
    rows = b"".join(b"u%d,page%d\n" % (n % 900, n) for n in range(90_000))
    source = open_profiles(write(gzip.compress(b"user,page\n" + rows)[:-6]))
    with pytest.raises(DataError, match=r"too early, after 900 profiles"):
        next(iter(source))


def zipped(*members: tuple[str, str | bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return stream.getvalue()


def test_zip_with_one_member(write):
    source = open_profiles(write(zipped(("dir/", b""), ("dir/a.tsv", TEXT))))
    assert len(list(source)) == 3000
    assert source.compression == "zip"


def test_zip_with_none_or_several_or_damage(write):
    with pytest.raises(DataError, match="holds 2 files"):
        open_profiles(write(zipped(("a", TEXT), ("b", TEXT))))
    with pytest.raises(DataError, match="holds no file"):
        open_profiles(write(zipped()))
    with pytest.raises(DataError, match="damaged"):
        open_profiles(write(zipped(("a", TEXT))[:-30]))
    broken = bytearray(zipped(("a", TEXT)))
    broken[200] ^= 0xFF
    with pytest.raises(DataError, match="packed data"):
        list(open_profiles(write(bytes(broken))))


@pytest.mark.parametrize("magic", [b"BZh91AY", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd"])
def test_other_packing_is_refused_by_name(write, magic):
    with pytest.raises(DataError, match="packed with"):
        open_profiles(write(magic + b"....."))


def test_missing_empty_and_odd_paths(write, tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        open_profiles(tmp_path / "nowhere")
    with pytest.raises(DataError, match="is empty"):
        open_profiles(write(b""))
    with pytest.raises(DataError, match="empty once unpacked"):
        open_profiles(write(gzip.compress(b"")))
    with pytest.raises(DataError, match="is a directory"):
        open_profiles(tmp_path)
    with pytest.raises(DataError, match="not a regular file"):
        open_profiles("/dev/null")


def test_arguments_out_of_range(write):
    path = write("a\tb\n")
    with pytest.raises(UsageError, match="not a format"):
        open_profiles(path, format="parquet")
    with pytest.raises(UsageError, match="not an encoding"):
        open_profiles(path, encoding="ebcdic")
    with pytest.raises(UsageError, match="first 0"):
        open_profiles(path, first=0)


def test_a_line_without_end_stays_out_of_ram(write):
    content = b"a\tb\n" + b"x" * (17 * 2**20) + b"\nc\td\n"
    source = open_profiles(write(content))
    assert list(source) == [["a", "b"], ["c", "d"]]
    assert source.first_bad == [BadLine(2, "longer than 16 MiB")]


# --- round trips --------------------------------------------------------------

letters = st.characters(exclude_categories=["Cs"])
plain_ids = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r\ufeff"),
    min_size=1,
)
any_ids = st.text(letters, min_size=1)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(plain_ids, unique=True, max_size=5), min_size=1))
def test_any_tab_file_comes_back(tmp_path_factory, profiles):
    path = tmp_path_factory.mktemp("tabs") / "profiles"
    path.write_text(
        "".join("\t".join(profile) + "\n" for profile in profiles), newline=""
    )
    assert list(open_profiles(path, format="tabs")) == profiles


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(any_ids, unique=True, max_size=5), min_size=1))
def test_any_json_file_comes_back(tmp_path_factory, profiles):
    path = tmp_path_factory.mktemp("json") / "profiles"
    path.write_text("".join(json.dumps({"pages": p}) + "\n" for p in profiles))
    assert list(open_profiles(path)) == profiles


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 9),
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r")),
        ).filter(lambda row: row[1] != ""),
        min_size=1,
    )
)
def test_any_pairs_come_back_grouped(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("pairs") / "profiles"
    quoted = ('{},"{}"\n'.format(u, page.replace('"', '""')) for u, page in rows)
    path.write_text("user,page\n" + "".join(quoted), newline="")
    people: dict[int, dict[str, None]] = {}
    for person, page in rows:
        people.setdefault(person, {})[page] = None
    if all(page.count("\n") < 60 for _, page in rows):
        assert list(open_profiles(path)) == [list(pages) for pages in people.values()]


# --- names --------------------------------------------------------------------


def test_names_files(write):
    assert read_names(write('a\t"A\nb\tB\tmore\n')) == {"a": '"A', "b": "B"}
    assert read_names(write('a,"A, or B"\nb,B\n')) == {"a": "A, or B", "b": "B"}
    assert read_names(write("1::Toy Story (1995)::Comedy\n")) == {
        "1": "Toy Story (1995)"
    }
    table = 'book_id,best_book_id,original_title,title\n1,9,x,"A (B, #1)"\n2,8,y,\n'
    assert read_names(write(gzip.compress(table.encode()))) == {"1": "A (B, #1)"}
    assert read_names(write(zipped(("n.csv", table)))) == {"1": "A (B, #1)"}
    with pytest.raises(DataError, match="holds no names"):
        read_names(write("just one column\n"))


# --- real data ----------------------------------------------------------------


@needs(GOODBOOKS / "to_read.csv.zip")
@pytest.mark.parametrize(("part", "first"), [("all", None), ("first10000", 10_000)])
def test_goodbooks_is_read_whole(part, first):
    expected = truth("goodbooks-toread", part)
    check(open_profiles(GOODBOOKS / "to_read.csv.zip", first=first), expected)


@needs(MSWEB)
@pytest.mark.parametrize(("part", "first"), [("all", None), ("first10000", 10_000)])
def test_msweb_is_read_whole(part, first):
    source = open_profiles(MSWEB, first=first)
    check(source, truth("msweb", part))
    assert source.names["1008"] == "Free Downloads"


@needs(GOODBOOKS / "books.csv")
def test_goodbooks_names():
    names = read_names(GOODBOOKS / "books.csv")
    assert names["47"] == "The Book Thief"
    assert names["1"] == "The Hunger Games (The Hunger Games, #1)"
    assert len(names) == 10_000


def check(source: ProfileFile, expected: Any) -> None:
    count = fans(profiles := list(source))
    assert len(profiles) == expected["users"]
    assert len(count) == expected["items"]
    assert count.total() == expected["memberships"]
    assert source.bad_lines == 0
    for item in expected["top10_items"]:
        assert count[str(item["item"])] == item["fans"]
