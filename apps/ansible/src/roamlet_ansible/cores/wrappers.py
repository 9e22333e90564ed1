"""The wrappers around packed modules that are known: where their variable parts are, and the hash of all the rest.

A wrapper of a core that is not listed has another hash. It is not read then: its module runs as the script that it is. Before a
hash is added, its wrapper is compared with what a target does for the shape of its layout.
"""

import hashlib


class Part:
    """A variable part: what is between the next `before` and the next `after`."""

    __slots__ = ("after", "before", "name")

    def __init__(self, name: str, before: bytes, after: bytes) -> None:
        self.name = name
        self.before = before
        self.after = after


class Layout:
    """The variable parts in their order. `quoted`: strings are written by repr(), not between quotes that are fixed."""

    __slots__ = ("name", "parts", "quoted", "shape")

    def __init__(self, name: str, shape: str, quoted: bool, parts: tuple[Part, ...]) -> None:
        self.name = name
        self.shape = shape
        self.quoted = quoted
        self.parts = parts


class Cut:
    """A text that was cut by `layout`. `digest` is of all that is outside the variable parts, with the layout's name."""

    __slots__ = ("digest", "layout", "values")

    def __init__(self, layout: Layout, digest: str, values: dict[str, list[bytes]]) -> None:
        self.layout = layout
        self.digest = digest
        self.values = values


_SHEBANG = Part("shebang", b"", b"\n")
_LIMIT = Part("rlimit_nofile", b"requested_soft = min(existing_hard, ", b")\n")
_DATA = (Part("zip_data", b"\n    ZIPDATA = ", b"\n"), Part("date_time", b"zinfo.date_time = ", b"\n"))
_PARAMS = Part("params", b"\n    ANSIBALLZ_PARAMS = ", b"\n")
_PLAIN = (
    *_DATA,
    Part("module_fqn", b"runpy.run_module(mod_name='", b"', init_globals=dict("),
    Part("module_fqn", b"_module_fqn='", b"', _modlib_path=modlib_path)"),
    Part("module_fqn", b"runpy.run_module(mod_name='", b"', init_globals=None"),
    _PARAMS,
    Part("ansible_module", b"mkdtemp(prefix='ansible_", b"_payload_')"),
    Part("ansible_module", b"os.path.join(temp_path, 'ansible_", b"_payload.zip')"),
)
_QUOTED = (
    *_DATA,
    Part("module_fqn", b"runpy.run_module(mod_name=", b", init_globals=dict("),
    Part("module_fqn", b"_module_fqn=", b", _modlib_path=modlib_path)"),
    Part("module_fqn", b"runpy.run_module(mod_name=", b", init_globals=None"),
    _PARAMS,
    Part("ansible_module", b"mkdtemp(prefix='ansible_' + ", b" + '_payload_')"),
    Part("ansible_module", b"os.path.join(temp_path, 'ansible_' + ", b" + '_payload.zip')"),
)
_ARGUMENTS = (
    "ansible_module",
    "module_fqn",
    "profile",
    "date_time",
    "rlimit_nofile",
    "params",
    "extensions",
    "zip_data",
)
_CALL = tuple(
    Part(name, (b"\n    _ansiballz_main(\n" if name == _ARGUMENTS[0] else b",\n") + name.encode() + b"=", b",\n")
    for name in _ARGUMENTS
)

LAYOUTS = (
    Layout("call", "2.19", True, (_SHEBANG, *_CALL)),
    Layout("template with a limit", "2.16", True, (_SHEBANG, _LIMIT, *_QUOTED)),
    Layout("template", "2.16", True, (_SHEBANG, *_QUOTED)),
    Layout("plain template with a limit", "2.16", False, (_SHEBANG, _LIMIT, *_PLAIN)),
    Layout("plain template", "2.16", False, (_SHEBANG, *_PLAIN)),
)
_MARK = b"\n_ANSIBALLZ_WRAPPER = True"
_HEAD = 4096  # bytes in which that line is


def cut(data: bytes) -> Cut | None:
    """Cut a script at its variable parts, by the first layout that fits; None when it is no wrapper at all.

    A wrapper is known when `digest` is in KNOWN. Nothing is checked about the values.
    """
    if not data.startswith(b"#!") or data.find(_MARK, 0, _HEAD) < 0:
        return None
    for layout in LAYOUTS:
        values: dict[str, list[bytes]] = {}
        fixed = hashlib.sha256(layout.name.encode())
        end = 0
        for part in layout.parts:
            start = data.find(part.before, end)
            stop = data.find(part.after, start + len(part.before)) if start >= 0 else -1
            if stop < 0:
                break
            start += len(part.before)
            fixed.update(b"%d " % (start - end) + data[end:start])
            values.setdefault(part.name, []).append(data[start:stop])
            end = stop
        else:
            fixed.update(b"%d " % (len(data) - end) + data[end:])
            return Cut(layout, fixed.hexdigest(), values)
    return None


# Digests, by the releases of ansible-core that were installed for them: the first and the last of each line of 2.16 to 2.21.
KNOWN = {
    # 2.16.0, 2.16.4
    "a2762ce895f0ac410bf6b47ce2669dd7945a87d0143a9fd4762a1a9af874a04f": "plain template",
    "002552fbd4c4f0138b79c0082689199c2b11cafbb2e56555a3e652977a37525e": "plain template with a limit",
    "2b5e4c375243c87842ab3665975d1ed19ef68a8612a56ff1502eb51dc3d25e2c": "plain template",  # with comments
    "22b5746c3f076d4b20a73bf88dad20b4f06a337320e9d9b7bca65792208c79a2": "plain template with a limit",
    # 2.16.9, 2.16.14, 2.16.19, 2.17.0, 2.17.14, 2.18.0, 2.18.19
    "58f552c5556c61be7910bffb446b0d42e8acf7377f7816ecd54bf3f2350361f9": "template",
    "1c0bd01efa37d7f3817040b3a85cc82c8c45026f4e6104bc9052cf631a255f00": "template with a limit",
    "7ff8ad867754a08f838eb51afd60239d84c327ce67f9d09d3bca27c85152cce7": "template",  # with comments
    "7ba03224e86ce324eb3cf8faa4ea826b262c4292518880cb1bd8c4ed1dd5a083": "template with a limit",
    # 2.19.0, 2.19.14, 2.20.0, 2.20.10
    "6507a0a560e3ad0915972e1415c700f565e3b5b9255b5d05ab411f2bba3f0451": "call",
    "1ef33812734266c2a977590aa40e41a12f9133e5da00b04447c2ac94a33da73f": "call",  # with comments
    # 2.21.0, 2.21.5
    "4b74c0375c85f92f20a536e25c98c72ca4b5706cb815d3732ba9891a6c5f2cbe": "call",
    "3bb4027de47e972bc43601e16ef242f701b8d0fc958d85f44d64cbc9ebc586da": "call",  # with comments
}
