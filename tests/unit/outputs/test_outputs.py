"""Numbers of a program's output: each reader finds those that are there, and whatever else is there is one line."""

from __future__ import annotations

import base64
import csv
import io
import json
import math
import re
import struct
import warnings
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from virtlab.outputs import MOST_BYTES, READERS, UnreadableError, parse, read_output
from virtlab.outputs.polled import Poll, Polls

FINITE = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e200, max_value=1e200)
JSON = {"json": "$.requests[*].ms", "unit": "ms", "better": "lower"}
LINES = {"json_lines": "$.ms", "unit": "ms", "better": "lower"}
REGEX = {"regex": r"rate=(?P<rate>\S+)", "unit": "request/s", "better": "higher"}
PROMETHEUS = {"prometheus": 'up_total{code="200"}', "unit": "count", "better": "higher"}
HDR = {"hdr_histogram": "*", "unit": "ns", "better": "lower"}
CSV = {"csv": "latency", "unit": "us", "better": "lower"}


def read(entry: dict[str, Any], output: str | bytes, key: str = "rate") -> list[float]:
    held = output.encode() if isinstance(output, str) else output
    found = read_output({key: parse(key, entry)}, held)[key]
    return [value for value, count in zip(found.values, found.counts, strict=True) for _ in range(count)]


def refused(entry: dict[str, Any], output: str | bytes) -> UnreadableError:
    with pytest.raises(UnreadableError) as caught:
        read(entry, output)
    return caught.value


def test_what_a_later_python_reads_otherwise_is_no_warning_to_whoever_has_an_expression() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read({**REGEX, "regex": r"[a||b]*rate=(?P<rate>\d+)"}, "rate=7") == [7.0]


def test_values_come_in_the_si_unit_of_their_metric() -> None:
    assert read(JSON, '{"requests": [{"ms": 1}, {"ms": 2.5}]}') == [1e6, 2.5e6]
    assert read({**JSON, "unit": "%"}, '{"requests": [{"ms": 50}]}') == [0.5]
    assert read(REGEX, "rate=10\nnoise\nrate=12.5") == [10.0, 12.5]
    assert read(CSV, "latency,x\r\n10,1\r\n20,2\r\n") == [10_000.0, 20_000.0]
    assert read({**CSV, "delimiter": ";"}, '"latency";x\n"1";2\n') == [1000.0]


TIMED: dict[str, tuple[dict[str, str], str]] = {
    "json": ({"json": "$[*].v", "time": "$[*].t"}, '[{"t": 1.5, "v": 7}, {"t": "2", "v": 8}]'),
    "json_lines": ({"json_lines": "$.v", "time": "$.t"}, '{"t": 1.5, "v": 7}\n\n{"t": 2, "v": 8}\n'),
    "regex": ({"regex": r"(?P<t>\S+)=(?P<rate>\S+)", "time": "t"}, "1.5=7\nnoise\n2=8"),
    "csv": ({"csv": "v", "time": "t"}, "t,v\n1.5,7\n2,8\n"),
}


@pytest.mark.parametrize("reader", TIMED)
def test_a_series_has_the_time_beside_each_number(reader: str) -> None:
    entry, output = TIMED[reader]
    whole = {**entry, "unit": "count", "better": "lower"}
    found = read_output({"rate": parse("rate", whole)}, output.encode())["rate"]
    assert found.values == [7, 8]
    assert found.stamps is not None
    assert [stamp.ns for stamp in found.stamps] == [1_500_000_000, 2_000_000_000]
    milliseconds = {**whole, "time_unit": "ms"}
    found = read_output({"rate": parse("rate", milliseconds)}, output.encode())["rate"]
    assert [stamp.ns for stamp in found.stamps or ()] == [1_500_000, 2_000_000]


@pytest.mark.slow
@given(st.integers(min_value=0, max_value=2**61))
def test_a_nanosecond_since_1970_is_not_lost(t_ns: int) -> None:
    entry = {
        "json": "$.v",
        "time": "$.t",
        "clock": "epoch",
        "time_unit": "ns",
        "unit": "count",
        "better": "lower",
    }
    found = read_output({"rate": parse("rate", entry)}, json.dumps({"v": 1, "t": t_ns}).encode())["rate"]
    assert [stamp.ns for stamp in found.stamps or ()] == [t_ns]


@pytest.mark.parametrize(
    ("output", "line", "words"),
    [
        ("t,v\n1,7\nx,8\n", 3, "t 'x' is not a number, and no time"),
        ("t,v\n1,7\n1_0,8\n", 3, "t '1_0' is not a number"),
        ("t,v\nnan,7\n", 2, "t 'nan' is beyond all times"),
        ("t,v\n1e30,7\n", 2, "t '1e30' is beyond all times"),
        ("t,v\n1e9991500,7\n", 2, "t '1e9991500' is beyond all times"),
        ("u,v\n1,7\n", 1, "has no column 't'"),
    ],
)
def test_a_time_that_cannot_be_read_has_its_line(output: str, line: int, words: str) -> None:
    found = refused({**CSV, "csv": "v", "time": "t"}, output)
    assert found.line == line
    assert words in found.what


def test_numbers_without_a_time_each_are_refused() -> None:
    found = refused({**JSON, "time": "$.at"}, '{"requests": [{"ms": 1}, {"ms": 2}], "at": 3}')
    assert "has 2 numbers and 1 times of them" in found.what


@pytest.mark.slow
@given(st.lists(FINITE, min_size=1, max_size=50))
def test_every_reader_finds_the_numbers_that_were_written(numbers: list[float]) -> None:
    plain = {"unit": "ratio", "better": "neither"}
    table = io.StringIO()
    csv.writer(table).writerows([["name", "x"], *(["a,b", repr(one)] for one in numbers)])
    assert read({"json": "$[*]", **plain}, json.dumps(numbers)) == numbers
    assert read({"json_lines": "$", **plain}, "\n\n".join(map(json.dumps, numbers))) == numbers
    assert read({"regex": r"<(?P<rate>[^>]*)>", **plain}, "".join(f"<{one!r}>" for one in numbers)) == numbers
    assert read({"csv": "x", **plain}, table.getvalue()) == numbers
    samples = "".join(f'x{{n="{at}\\"",}} {one!r} 17\n' for at, one in enumerate(numbers))
    assert read({"prometheus": "x", **plain}, f"# HELP x y\n{samples}other 3\n") == numbers


OUTPUTS = st.one_of(
    st.binary(max_size=400),
    st.text(max_size=200).map(lambda text: text.encode(errors="surrogatepass")),
    st.from_regex(r"rate=\S+|latency\n.*", fullmatch=True).map(
        lambda text: text.encode(errors="surrogatepass")
    ),
)
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["requests", "ms"]), inner),
    max_leaves=20,
)


def numbers_or_error(entry: dict[str, Any], output: bytes) -> list[float] | UnreadableError:
    try:
        return read(entry, output)
    except UnreadableError as error:
        return error


@pytest.mark.slow
@pytest.mark.parametrize(
    "entry", [JSON, LINES, REGEX, CSV, PROMETHEUS, HDR], ids=lambda entry: next(iter(entry))
)
@settings(max_examples=100, deadline=None)
@given(output=OUTPUTS)
def test_any_output_gives_finite_numbers_or_one_line(entry: dict[str, Any], output: bytes) -> None:
    found = numbers_or_error(entry, output)
    if isinstance(found, UnreadableError):
        assert found.what
        assert found.cure
        assert len(found.what) < 400
    else:
        assert found
        assert all(map(math.isfinite, found))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(DOCUMENTS)
def test_any_json_gives_numbers_or_the_place_that_has_none(document: Any) -> None:
    found = numbers_or_error(JSON, json.dumps(document).encode())
    if isinstance(found, UnreadableError):
        assert "$" in found.what or "this path" in found.what
    else:
        assert found


@pytest.mark.parametrize(
    ("output", "line", "words"),
    [
        ("", 0, "is empty"),
        (" \n", 0, "is empty"),
        (b"ok\n\xff", 2, "is not valid UTF-8 text"),
        ("{\n,", 2, "is not JSON"),
        ('{"requests": [{"ms": NaN}]}', 0, "NaN is not a valid number in JSON"),
        ('{"requests": [{"ms": 1e999}]}', 0, "beyond all measure at $.requests[0].ms"),
        ('{"requests": [{"ms": 1e299}]}', 0, "beyond all measure"),
        (f'{{"requests": [{{"ms": {"9" * 4000}}}]}}', 0, "beyond all measure at $.requests[0].ms"),
        (f'{{"requests": [{{"ms": {"9" * 5000}}}]}}', 0, "is not JSON"),
        ('{"requests": [{"ms": "3"}]}', 0, "holds the text '3' at $.requests[0].ms, and no number"),
        ('{"requests": [{"ms": true}]}', 0, "holds a truth value at $.requests[0].ms"),
        ('{"requests": [{"ms": null}]}', 0, "holds null at $.requests[0].ms"),
        ('{"requests": []}', 0, "holds nothing at this path"),
        ('{"answers": []}', 0, "has no 'requests' at $; there are answers"),
        ('{"requests": 3}', 0, "holds a number at $.requests, where the path continues"),
        ("[" * 1_000_000, 0, "nested too deeply"),
        (b"[" + b"{}," * (MOST_BYTES // 3 + 2), 0, "has more than 8 MiB"),
    ],
    ids=range(17),
)  # fmt: skip
def test_what_is_no_json_with_those_numbers_says_where(output: str | bytes, line: int, words: str) -> None:
    error = refused(JSON, output)
    assert error.line == line
    assert words in error.what
    assert error.cure
    assert "\n" not in error.what


@pytest.mark.parametrize(
    ("output", "line", "words"),
    [
        ('{"ms": 1}\n\n{"ms": 2\n', 3, "is not JSON"),
        ('{"ms": 1}\n{"s": 2}\n', 2, "has no 'ms' at $; there are s"),
        ('{"ms": 1}\nNaN\n', 2, "NaN is not a valid number in JSON"),
        ('{"ms": 1}\n' + "[" * 100_000, 2, "nested too deeply"),
    ],
    ids=range(4),
)
def test_what_is_no_line_with_those_numbers_says_which(output: str, line: int, words: str) -> None:
    error = refused(LINES, output)
    assert (error.line, words in error.what) == (line, True), error.what


@pytest.mark.parametrize(
    ("output", "line", "words"),
    [
        ("x,y\n1,2\n", 1, "has no column 'latency'; its first row names x, y"),
        ("latency,latency\n1,2\n", 1, "has 2 columns 'latency'"),
        ("latency\n", 1, "has a first row, and no other"),
        ("latency,x\n1,2\n3\n", 3, "has 1 cells for 2 columns"),
        ("latency,x\n1,2\n,3\n", 3, "latency '' is not a number"),
        ('latency\n"1,5"\n', 2, "has a comma, where '.' begins the decimals"),
        ("latency\nnan\n", 2, "is not a number of its kind"),
        pytest.param(f"latency\n{'1' * 200_000}\n", 2, "is not CSV", id="a-cell-without-end"),
        ('latency\n"1"2\n', 2, "is not CSV"),
    ],
)
def test_what_is_no_table_with_that_column_says_the_line(output: str, line: int, words: str) -> None:
    error = refused(CSV, output)
    assert (error.line, words in error.what) == (line, True), error.what


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("rates=10", "holds nothing that matches"),
        ("rate=10 rate=fast", "match 2 of rate, 'fast' is not a number"),
        ("rate=inf", "match 1 of rate, 'inf' is not a number of its kind"),
        ("rate=1_000", "match 1 of rate, '1_000' is not a number"),
        ("rate=1,5", "has a comma"),
    ],
)
def test_what_an_expression_matches_has_to_be_numbers(output: str, words: str) -> None:
    assert words in refused(REGEX, output).what


@pytest.mark.parametrize(
    ("output", "line", "words"),
    [
        ('up_total{code="500"} 3\n', 0, 'has no sample up_total{code="200"}'),
        ('# TYPE up_total counter\nup_total{code="200"} NaN\n', 2, "has the value NaN, and no finite number"),
        ('up_total{code="200"} many\n', 1, "has 'many' where a number should be"),
        ('up_total{code="200"} 3 4 5\n', 1, "has '3 4 5' where a number should be"),
        ('up_total{code="200} 3\n', 1, "where a number should be"),
        ("3 of 4 done\n", 1, "is not a valid sample of Prometheus: '3 of 4 done'"),
    ],
)
def test_what_is_no_sample_of_prometheus_says_the_line(output: str, line: int, words: str) -> None:
    error = refused({**PROMETHEUS, "prometheus": "up_total"} if "200}" in output else PROMETHEUS, output)
    assert (error.line, words in error.what) == (line, True), error.what


def test_labels_that_are_not_asked_for_do_not_matter() -> None:
    output = 'up_total{code="200",path="/a"} 3\nup_total{path="/b", code="200", } 4e0 1700000000\nup_total{code="500"} 5\n'
    assert read(PROMETHEUS, output) == [3.0, 4.0]


BOMB = zlib.compress(bytes(100 << 20))  # of 100 MiB
# A line of the Java library's own log, whose third field is the largest value in ms.
INTERVAL = (
    "0.127,1.007,2.769,HISTFAAAAEV42pNpmSzMwMCgyAABTBDKT4GBgdnNYMcCBvsPEBEJISEuATEZMQ4uASkhIR4nrxg9v2lMaxhvMekI"
    "LGZkKmcCAEf2CsI="
)


def encoded(buckets: dict[int, int], *, digits: int = 3, **wrong: int) -> str:
    """A histogram as HdrHistogram's encoding V2 has it, with counts at places of buckets."""
    payload, place = b"", 0
    for at in sorted(buckets):
        for number in (*([place - at] if at > place else []), buckets[at]):
            zigzag = (number << 1) ^ (number >> 63)
            while zigzag >= 0x80:
                payload += bytes([zigzag & 0x7F | 0x80])
                zigzag >>= 7
            payload += bytes([zigzag])
        place = at + 1
    head = struct.pack(">iiiiqqd", 0x1C849313, wrong.get("payload", len(payload)), 0, digits, 1, 2**62, 1.0)
    packed = zlib.compress(head + payload)
    return base64.b64encode(
        struct.pack(">ii", wrong.get("cookie", 0x1C849314), len(packed)) + packed
    ).decode()


def test_a_log_of_the_java_library_is_read() -> None:
    log = f'#[Logged with x]\n"StartTimestamp","Interval_Length","Interval_Max","Histogram"\n{INTERVAL}\nTag=b,{INTERVAL}\n'
    alone = read({**HDR, "hdr_histogram": "b"}, log)
    assert max(alone) == pytest.approx(2_768_895, rel=0.01 / 2)  # of two digits
    assert len(read(HDR, log)) == 2 * len(alone) == 1482
    assert "has no histogram of the tag 'c'" in refused({**HDR, "hdr_histogram": "c"}, log).what


@pytest.mark.slow
@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=30), st.integers(0, 5))
def test_a_histogram_holds_its_samples_to_its_digits(samples: list[int], digits: int) -> None:
    half = (2 * 10**digits - 1).bit_length() - 1
    buckets: dict[int, int] = {}
    for sample in samples:
        shift = max(sample.bit_length() - half - 1, 0)
        place = (sample >> shift) + (shift << half)
        buckets[place] = buckets.get(place, 0) + 1
    found = read(HDR, f"0,1,2,{encoded(buckets, digits=digits)}")
    assert sorted(found) == pytest.approx(sorted(samples), rel=10.0**-digits, abs=1e-9)


@pytest.mark.parametrize(
    ("histogram", "words"),
    [
        ("not base64!", "cannot be decoded"),
        ("QUJD", "cannot be decoded"),
        (encoded({3: 1}, cookie=7), "is not a histogram in the encoding V2"),
        (encoded({3: 1}, payload=9), "whose head contradicts itself"),
        (encoded({3: 1}, digits=9), "whose head contradicts itself"),
        (encoded({2**17: 1}), "value of more than 64 bits"),
        (encoded({3: 10**9}), "counts more than 10000000 samples"),
        (encoded({}), "has only empty histograms"),
        (
            base64.b64encode(struct.pack(">ii", 0x1C849314, len(BOMB)) + BOMB).decode(),
            "is cut off, or larger than any",
        ),
    ],
    ids=range(9),
)
def test_what_is_no_histogram_is_one_line(histogram: str, words: str) -> None:
    error = refused(HDR, f"0,1,2,{histogram}")
    assert words in error.what


@pytest.mark.timeout(60)
def test_an_expression_that_would_take_a_backtracking_matcher_for_ever_takes_none() -> None:
    entry = {"regex": r"^(?P<rate>(a+)+)$", "unit": "count", "better": "neither"}
    assert "holds nothing" in refused(entry, "a" * 1_000_000 + "!").what


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (3, "'rate' is not a mapping; write e.g."),
        ({"unit": "ms", "better": "lower"}, "this names none; write one of json, json_lines, regex, csv,"),
        ({**JSON, **CSV}, "this names json and csv"),
        ({"json": "$.x", "better": "lower"}, "a metric without 'unit'; write e.g."),
        ({"json": "$.x", "unit": "ms"}, "a metric without 'better'; write e.g."),
        ({**JSON, "better": "less"}, "'less' is not a direction; write one of lower, higher, neither"),
        ({**JSON, "unit": "mss"}, "'mss' is not a unit of a metric; did you mean 'ms'?"),
        ({**JSON, "jsn": "x"}, "unknown key 'jsn' of a metric; did you mean 'json'?"),
        ({**JSON, "json": "requests"}, "'requests' does not begin with '$', the whole output; write e.g."),
        ({**JSON, "json": "$.a[?@.b]"}, "is not a path from '[?@.b]' on; write e.g."),
        ({**JSON, "json": "$" + ".a" * 40}, "is not a path from"),
        ({**JSON, "json": 3}, "'json' is not a line of text; write e.g."),
        ({**JSON, "json": "x" * 2000}, "'json' is not a line of text; write e.g."),
        ({**REGEX, "regex": "rate=(.*)"}, "no group is called 'rate'; write '(?P<rate>...)' around the number"),
        ({**REGEX, "regex": "("}, "is not a valid regular expression: missing )"),
        ({**REGEX, "regex": r"(?P<rate>a)(?=b)"}, "RE2, which takes no look-around and no back reference, refuses it"),
        ({**REGEX, "regex": r"(?P<rate>a)(?P=rate)"}, "RE2, which takes no look-around and no back reference, refuses it"),
        ({**REGEX, "regex": r"(?P<rate>((a{1,1000}){1,1000}){1,1000})"}, "refuses it"),
        ({**PROMETHEUS, "prometheus": 'x{code=200}'}, "is not a name with labels; write e.g."),
        ({**CSV, "delimiter": "::"}, "'::' is not a delimiter; write one character"),
    ],
)  # fmt: skip
def test_a_wrong_declaration_says_what_to_write(entry: Any, expected: str) -> None:
    with pytest.raises(ValueError, match=re.escape(expected)):
        parse("rate", entry)


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_a_reader_takes_its_own_example(reader: Any) -> None:
    name = next(name for name, each in READERS.items() if each is reader)
    assert parse("rate", {name: reader.example, "unit": "ms", "better": "lower"})


@pytest.mark.slow
@given(st.lists(st.tuples(st.booleans(), st.binary(max_size=40)), max_size=20), st.integers(1, 17))
def test_frames_are_taken_apart_however_they_are_cut(frames: list[tuple[bool, bytes]], piece: int) -> None:
    stream = b"".join(
        (b"output %d\n" % len(octets) if own else b"found 0 %d %d\n" % (at, len(octets))) + octets
        for at, (own, octets) in enumerate(frames)
    )
    polls = Polls(1)
    own = b"".join(polls.take(stream[at : at + piece]) for at in range(0, len(stream), piece))
    assert own == b"".join(octets for mine, octets in frames if mine)
    wanted = [Poll(at, octets) for at, (mine, octets) in enumerate(frames) if not mine]
    assert polls.by_source.get(0, []) == wanted
    assert not polls.torn


@pytest.mark.slow
@given(st.binary(max_size=300))
def test_no_octets_of_an_agent_break_what_takes_them(content: bytes) -> None:
    polls = Polls(1)
    polls.take(content)
    assert polls.by_source.keys() <= {0}


@pytest.mark.parametrize(
    "content", [b"x" * 64, b"found 1 3 1\nx", b"found 0 3\n", b"output -1\n", b"missed 0 0x1 1\n"]
)
def test_what_is_no_frame_is_noticed_and_read_no_further(content: bytes) -> None:
    polls = Polls(1)
    assert polls.take(content) == b""
    assert polls.torn
    assert polls.take(b"output 1\nx") == b""
