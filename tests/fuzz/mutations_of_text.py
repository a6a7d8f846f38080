"""Mutations of any file, and of text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

Draw = Callable[[st.SearchStrategy[Any]], Any]


ABSOLUTE = "@ABSOLUTE@"  # stands for the absolute path of the picture outside of the sandbox


SIGNS = (
    "\0", "\x1b[31mred", "\x07", "\x85", "\u2028", "\ufeff", "\u202e", "\u200b", "\ud800", "\udfff", "🙂", "é", "e\u0301",
    "ﷺ" * 30, '"', '""', "'", ",", ", and ", ";", "\t", "\n", "\r", "\r\n", "\\", "\\u0000", "\\ud800", "{}", "{0}", "%s", "$HOME",
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "&amp;", "=1+1", "[", "]", "{", "}", "(" * 5, " ", "\xa0",
)  # fmt: skip


TEXTS = (
    "", " ", "nan", "NaN", "None", "null", "true", "inf", "-inf", "1e999", "-1", "0", "9" * 30, "9" * 5000, "0x10", "1_000", "²", "١٢",
    "a" * 300, "word " * 20_000, "[" * 3000, "[" + "1" * 5000 + "]", r"['\ud800']", "[null, 'a']", "('a',) * 10", "2024-01-01", "../secret.png", "../../secret.png",
    "images/../../secret.png", ABSOLUTE, "/etc/hostname", ".", "..", "/", "~", "-", "a/b/../../..", "con", "a\0b",
    "file:///etc/passwd", "http://127.0.0.1:9/x.png", "A" * 70_000,
)  # fmt: skip


def text_of(data: bytes) -> str | None:
    """Return the bytes as text, None if they are none."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def encoded(text: str) -> bytes:
    """Return UTF-8 in which a lone surrogate stays what it is."""
    return text.encode("utf-8", "surrogatepass")


def place_in(draw: Draw, size: int) -> int:
    return int(draw(st.integers(0, max(size, 0))))


def mutate_bytes(draw: Draw, data: bytes) -> bytes:
    """Flip, cut, insert, repeat, zero, or replace."""
    kind = draw(
        st.sampled_from(
            ("flip", "byte", "cut", "hole", "insert", "twice", "zeros", "empty", "tail", "other", "head")
        )
    )
    at = place_in(draw, len(data) - 1)
    end = min(len(data), at + draw(st.sampled_from((1, 2, 4, 16, 256, 4096))))
    if kind == "flip" and data:
        return data[:at] + bytes([data[at] ^ (1 << draw(st.integers(0, 7)))]) + data[at + 1 :]
    if kind == "byte" and data:
        return data[:at] + bytes([draw(st.integers(0, 255))]) + data[at + 1 :]
    if kind == "cut":
        return data[:at]
    if kind == "hole":
        return data[:at] + data[end:]
    if kind == "insert":
        return data[:at] + draw(st.binary(min_size=1, max_size=40)) + data[at:]
    if kind == "twice":
        return data[:end] + data[at:]
    if kind == "zeros":
        return data[:at] + bytes(end - at) + data[end:]
    if kind == "tail":
        return data + draw(st.sampled_from((b"\0" * 64, b"\n", b"PK\3\4", b"}", b"x" * 5000)))
    if kind == "head":
        return (
            draw(st.sampled_from((b"\xef\xbb\xbf", b"\xff\xfe", b"\n", b"\0", b"#!/bin/sh\n", b"%!PS\n")))
            + data
        )
    if kind == "other":
        return draw(
            st.sampled_from(
                (
                    b"\x89PNG\r\n\x1a\n",
                    b"PAR1" + b"\0" * 20 + b"PAR1",
                    b"\x1f\x8b\x08",
                    b"\x80\x04.",
                    b"null",
                    b"[]",
                    b"{}",
                    b"\n",
                    b"\0" * 1000,
                )
            )
        )
    return b""


def mutate_text(draw: Draw, data: bytes) -> bytes:
    """Insert signs, move lines, or encode it otherwise."""
    text = text_of(data)
    if text is None:
        return mutate_bytes(draw, data)
    kind = draw(
        st.sampled_from(
            (
                "sign",
                "sign",
                "sign",
                "delete",
                "double",
                "swap",
                "join",
                "blank",
                "encoding",
                "ends",
                "huge",
                "half",
            )
        )
    )
    if kind == "sign":
        at = place_in(draw, len(text))
        return encoded(text[:at] + draw(st.sampled_from(SIGNS)) + text[at:])
    if kind == "encoding":
        name = draw(
            st.sampled_from(("utf-8-sig", "utf-16", "utf-32", "cp1252", "shift_jis", "utf-7", "cp037"))
        )
        return (text + "é").encode(name, "ignore")
    if kind == "ends":
        return encoded(text.replace("\n", draw(st.sampled_from(("\r", "\r\n", "\n\n", "\x0b", "\u2028")))))
    if kind == "half":
        return encoded(text[: len(text) // 2])
    lines = text.split("\n")
    at = place_in(draw, len(lines) - 1)
    other = place_in(draw, len(lines) - 1)
    if kind == "delete":
        del lines[at]
    elif kind == "double":
        lines.insert(at, lines[at])
    elif kind == "swap":
        lines[at], lines[other] = lines[other], lines[at]
    elif kind == "join":
        lines[at : at + 2] = ["".join(lines[at : at + 2])]
    elif kind == "blank":
        lines.insert(at, draw(st.sampled_from(("", " ", "#", ",", "\t"))))
    else:
        lines[at] = lines[at] * draw(st.sampled_from((3, 50, 2000)))
    return encoded("\n".join(lines))


def new_text(draw: Draw, old: str) -> str:
    """Return a text with signs in it, or another one."""
    if draw(st.booleans()):
        at = place_in(draw, len(old))
        return old[:at] + draw(st.sampled_from(SIGNS)) + old[at:]
    return str(draw(st.sampled_from(TEXTS)))
