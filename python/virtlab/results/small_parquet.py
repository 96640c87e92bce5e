"""A small Parquet file without a database: what a simulated run keeps is a few thousand rows, and asking DuckDB to write
them takes longer than playing many a run.

One row group, one page per column, plain encoding, gzip; no column can be absent. Types are those that DuckDB gives the
same columns. The format: https://github.com/apache/parquet-format (`parquet.thrift`; its metadata stand in Thrift's
compact protocol). DuckDB reads every file that is written here, and tests have it do so.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from virtlab.plan.blocks import BlockSchema

MOST_ROWS = 50_000
MAGIC = b"PAR1"
GZIP_WINDOW = 31  # zlib's number for a gzip header
LEVEL = 1
# Of parquet.thrift: physical types, the converted type of text, codecs, encodings.
INT32, INT64, DOUBLE, BYTE_ARRAY = 1, 2, 5, 6
UTF8, GZIP, PLAIN, RLE, REQUIRED, DATA_PAGE = 0, 2, 0, 3, 0, 0
PHYSICAL = {"i64": INT64, "i32": INT32, "f64": DOUBLE, "name": BYTE_ARRAY}
# Of Thrift's compact protocol.
I32, I64, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12

Field = tuple[int, int, bytes]  # id, type, value


def write(path: Path, schema: BlockSchema, columns: Mapping[str, NDArray[Any]]) -> None:
    """Writes columns of a schema's types as one file."""
    rows = len(next(iter(columns.values())))
    body = bytearray(MAGIC)
    chunks = []
    for name, dtype in schema.columns.items():
        plain = _plain(columns[name], dtype)
        squeezer = zlib.compressobj(LEVEL, wbits=GZIP_WINDOW)
        packed = squeezer.compress(plain) + squeezer.flush()
        page = _struct(
            (1, I32, _number(DATA_PAGE)),
            (2, I32, _number(len(plain))),
            (3, I32, _number(len(packed))),
            (
                5,
                STRUCT,
                _struct(
                    (1, I32, _number(rows)),
                    (2, I32, _number(PLAIN)),
                    (3, I32, _number(RLE)),
                    (4, I32, _number(RLE)),
                ),
            ),
        )
        chunks.append(_chunk(name, PHYSICAL[dtype], rows, len(body), len(page), len(plain), len(packed)))
        body += page + packed
    body += _footer(schema, rows, chunks, len(body) - len(MAGIC))
    path.write_bytes(body)


def _plain(column: NDArray[Any], dtype: str) -> bytes:
    """Plain encoding: little-endian numbers, or texts each behind its length."""
    if dtype != "name":
        return column.astype(column.dtype.newbyteorder("<"), copy=False).tobytes()
    texts = (str(value).encode() for value in column.tolist())
    return b"".join(len(text).to_bytes(4, "little") + text for text in texts)


def _chunk(name: str, kind: int, rows: int, at: int, head: int, plain: int, packed: int) -> bytes:
    meta = _struct(
        (1, I32, _number(kind)),
        (2, LIST, _list(I32, [_number(PLAIN)])),
        (3, LIST, _list(BINARY, [_text(name)])),
        (4, I32, _number(GZIP)),
        (5, I64, _number(rows)),
        (6, I64, _number(head + plain)),
        (7, I64, _number(head + packed)),
        (9, I64, _number(at)),
    )
    return _struct((2, I64, _number(at)), (3, STRUCT, meta))


def _footer(schema: BlockSchema, rows: int, chunks: list[bytes], size: int) -> bytes:
    root = _struct((4, BINARY, _text("schema")), (5, I32, _number(len(schema.columns))))
    elements = [root]
    for name, dtype in schema.columns.items():
        element: list[Field] = [
            (1, I32, _number(PHYSICAL[dtype])),
            (3, I32, _number(REQUIRED)),
            (4, BINARY, _text(name)),
        ]
        if dtype == "name":
            element.append((6, I32, _number(UTF8)))
        elements.append(_struct(*element))
    group = _struct((1, LIST, _list(STRUCT, chunks)), (2, I64, _number(size)), (3, I64, _number(rows)))
    meta = _struct(
        (1, I32, _number(1)),
        (2, LIST, _list(STRUCT, elements)),
        (3, I64, _number(rows)),
        (4, LIST, _list(STRUCT, [group])),
        (6, BINARY, _text("virtlab")),
    )
    return meta + len(meta).to_bytes(4, "little") + MAGIC


def _struct(*fields: Field) -> bytes:
    """Each field behind the distance to the one before it and its type, and a zero byte."""
    parts = bytearray()
    last = 0
    for number, kind, value in fields:
        parts.append((number - last) << 4 | kind)
        parts += value
        last = number
    parts.append(0)
    return bytes(parts)


def _list(kind: int, items: Iterable[bytes]) -> bytes:
    every = list(items)
    short = len(every) < 15
    head = bytes([len(every) << 4 | kind]) if short else bytes([0xF0 | kind]) + _unsigned(len(every))
    return head + b"".join(every)


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _unsigned(len(encoded)) + encoded


def _number(value: int) -> bytes:
    """A zigzag varint; what is written here is never negative."""
    return _unsigned(value << 1)


def _unsigned(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)
