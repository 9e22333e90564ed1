"""Bundles of modules: what was packed comes out, and other bytes are refused."""

import zlib

import pytest

from roamlet.wire.codec import CodecError
from roamlet.wire.modules import bundle

MODULES = [
    ("pack", bundle.PACKAGE, b"import pack.one\n", "/a/pack/__init__.py"),
    ("space", bundle.NAMESPACE, b"", "/a/space"),
    ("pack.one", bundle.MODULE, "# coding: latin-1\nx = 'h\xe9'\n".encode("latin-1"), "/a/pack/one.py"),
]


def test_what_was_packed_comes_out():
    body = bundle.pack(MODULES, ["absent", "pack.absent"], {"absent": "why"}, {"pack": ["one", "two"]})
    assert bundle.unpack(body) == (MODULES, ["absent", "pack.absent"], {"absent": "why"}, {"pack": ["one", "two"]})


def test_an_empty_bundle_is_one_too():
    assert bundle.unpack(bundle.pack([])) == ([], [], {}, {})


def test_one_stream_is_smaller_than_one_for_each():
    modules = [
        (f"m{n}", bundle.MODULE, (f"def function_{n}(self, value): return value + {n}\n" * 5).encode(), "m")
        for n in range(50)
    ]
    separate = sum(len(zlib.compress(source, 9)) for _, _, source, _ in modules)
    assert len(bundle.pack(modules)) < separate / 2


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no zlib",
        zlib.compress(b"\0\0\0\1?"),
        bundle.pack(MODULES)[:-5],
        zlib.compress(zlib.decompress(bundle.pack(MODULES)) + b"more"),
        zlib.compress(zlib.decompress(bundle.pack(MODULES))[:-4]),
    ],
    ids=["empty", "no zlib", "no head", "cut", "too long", "too short"],
)
def test_what_is_no_bundle_is_refused(body):
    with pytest.raises((CodecError, zlib.error)):
        bundle.unpack(body)
