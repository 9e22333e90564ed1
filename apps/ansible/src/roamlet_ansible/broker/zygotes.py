"""What the broker knows of a zygote, and what a request to one consists of."""

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import cache, lru_cache

from roamlet import sync
from roamlet.remote import Facts
from roamlet_ansible.cores import installed
from roamlet_ansible.host import zygote_source, zygote_text

from . import protocol

CodeOf = Callable[[Facts, Mapping[str, bytes]], dict[str, bytes]]
"""Bytecode.of or Bytecode.known."""


class Zygote:
    """What is known of one zygote: the digests of the files and of the payloads' lists that it has."""

    def __init__(self) -> None:
        self.lock = sync.Lock()  # held while it is being started
        self.ready = False
        self.magic = ""
        self.files: set[str] = set()
        self.payloads: set[str] = set()

    def forget(self) -> None:
        self.ready = False
        self.files.clear()
        self.payloads.clear()


class Payload:
    """The files of one AnsiballZ: `definition` is the list of (path in the zip, digest of the file)."""

    def __init__(self, packed: dict[str, tuple[bytes, bytes | None]]) -> None:
        files = {path: source for path, (source, _) in packed.items()}
        self.definition = [(path, hashlib.sha256(source).hexdigest()) for path, source in files.items()]
        # What travels: as the zip has it, which costs no time here, and less on a line than the sources.
        self.files = {
            digest: ("source", source) if deflated is None else ("source/deflate", deflated)
            for (_, digest), (source, deflated) in zip(self.definition, packed.values(), strict=True)
        }
        self.sources = {digest: files[path] for path, digest in self.definition}
        # Whether a function of the module's own may run when it forks.
        self.hooks = any(b"register_at_fork" in source for source in files.values())
        # Not those of facts: setup alone has most of them, and each fork would copy pages that they are on.
        self.preload = [
            path[:-3].replace("/", ".").removesuffix(".__init__")
            for path, source in files.items()
            if path.startswith(("ansible/module_utils/", "ansible/modules/__init__."))
            and not path.startswith("ansible/module_utils/facts/")
            and path.endswith(".py")
            and installed.core_file(path, source)
        ]


@cache
def text_of_zygote() -> tuple[str, bytes, bytes]:
    """Its digest, the text, and the source without code. Made once, in 7 ms."""
    text = zygote_text()
    return hashlib.sha256(text).hexdigest(), text, zygote_source()


_zygote_source = lru_cache(8)(zygote_source)


def source_of_zygote(facts: Facts, code_of: CodeOf) -> bytes:
    """What runner.open_zygote() hands to the bootstrap: the zygote as text, and as code if `code_of` has that."""
    digest, text, source = text_of_zygote()
    code = code_of(facts, {digest: text}).get(digest)
    return source if code is None else _zygote_source(code, facts.magic)


def request_of(
    known: Zygote, payload: Payload, header: protocol.Header, params: bytes, facts: Facts, code_of: CodeOf
) -> tuple[bytes, bytes]:
    """The header and the body of a request to a zygote, with what it lacks of the payload, as `code_of` has it, and as sources.

    `facts` are those of its context's Python: the code that is sent along is for that one, and another one takes the sources.
    """
    run = dict(header["run"], do="run", environment=header["environment"], params=len(params))
    body = [params]
    if payload.hooks:
        run["hooks"] = True
    if run["payload"] not in known.payloads:
        run["definition"] = payload.definition
        run["preload"] = payload.preload
        run["files"] = []
        lacking = {digest: source for digest, source in payload.sources.items() if digest not in known.files}
        code = code_of(facts, lacking)
        if code:
            run["magic"] = facts.magic.hex()
        for digest in lacking:
            kind, data = payload.files[digest]
            run["files"].append((digest, len(data), kind))
            body.append(data)
            if digest in code:
                run["files"].append((digest, len(code[digest]), "code/zlib"))
                body.append(code[digest])
    return json.dumps(run).encode(), b"".join(body)
