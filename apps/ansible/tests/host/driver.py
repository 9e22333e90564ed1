"""A zygote on plain pipes, for the tests: what the runner does, without the runner."""

import base64
import io
import json
import re
import select
import struct
import subprocess
import time
import zipfile
from hashlib import sha256
from typing import Any

from roamlet_ansible import host

SOURCE = host.zygote_source()
NONCE = "n0nce"
PATIENCE = 60.0

PACKAGE = b"from pkgutil import extend_path\n__path__=extend_path(__path__,__name__)\n"
BASIC = b"""
import json, sys
_ANSIBLE_ARGS = None
_ANSIBLE_PROFILE = None
def params():
    return json.loads(_ANSIBLE_ARGS.decode('utf-8'))
def leave(**result):
    print(json.dumps(result, sort_keys=True))
    sys.exit(0)
"""
LOADER = b"""
import runpy
from ansible.module_utils import basic
def run_module(json_params, profile, module_fqn, modlib_path, extensions):
    basic._ANSIBLE_ARGS = json_params
    basic._ANSIBLE_PROFILE = profile
    runpy.run_module(mod_name=module_fqn, init_globals=dict(_module_fqn=module_fqn, _modlib_path=modlib_path),
                     run_name='__main__', alter_sys=True)
    raise RuntimeError('did not exit')
"""


def payload(module: str, name: str = "probe", **others: str) -> dict[str, bytes]:
    """A payload around the source of a module; `others`: path with __ for /, without .py -> source."""
    files = {
        "ansible/__init__.py": PACKAGE,
        "ansible/modules/__init__.py": b"",
        "ansible/module_utils/__init__.py": PACKAGE,
        "ansible/module_utils/basic.py": BASIC,
        "ansible/module_utils/_internal/__init__.py": b"",
        "ansible/module_utils/_internal/_ansiballz/__init__.py": b"",
        "ansible/module_utils/_internal/_ansiballz/_loader.py": LOADER,
        f"ansible/modules/{name}.py": module.encode(),
    }
    files.update((path, source.encode()) for path, source in others.items())
    return files


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


class Zygote:
    """Speaks to one zygote; close() ends it."""

    def __init__(
        self,
        python: str,
        *,
        env: dict[str, str] | None = None,
        cwd: str | None = None,
        wrap: Any = None,
        source: bytes | None = None,
    ) -> None:
        command = [python, "-c", host.bootstrap(NONCE)]
        self.process = subprocess.Popen(
            wrap(command) if wrap else command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=env, cwd=cwd, bufsize=0,
        )  # fmt: skip
        self.pending = b""
        assert self.line() == f"ROAMLET-BOOT {NONCE}"
        self.process.stdin.write(SOURCE if source is None else source)
        word, nonce, facts = self.line().split(" ", 2)
        assert (word, nonce) == ("ROAMLET-ZYGOTE", NONCE)
        self.facts = json.loads(facts)
        self.number = 0
        self.known: set[str] = set()
        self.answers: dict[int, tuple[dict[str, Any], bytes]] = {}

    def __enter__(self) -> "Zygote":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> str:
        """End it; what it said on its standard error."""
        self.process.stdin.close()
        try:
            said = self.process.stderr.read().decode()
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
            self.process.stderr.close()
        return said

    def _more(self) -> None:
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        assert ready, "the zygote is silent"
        data = self.process.stdout.read(1 << 20)
        assert data, "the zygote has ended: " + self.process.stderr.read().decode()
        self.pending += data

    def line(self) -> str:
        while b"\n" not in self.pending:
            self._more()
        line, _, self.pending = self.pending.partition(b"\n")
        return line.decode()

    def send(self, header: dict[str, Any], body: bytes = b"") -> int:
        self.number += 1
        text = json.dumps({"n": self.number, **header}).encode()
        data = memoryview(struct.pack(">II", len(text), len(body)) + text + body)
        while data:
            data = data[self.process.stdin.write(data) :]
        return self.number

    def start(
        self, files: dict[str, bytes], *, params: Any = None, name: str = "probe", send: Any = True, **more: Any
    ) -> int:
        """Ask for a run; `send`: True for what is not there yet, or a dict digest -> (bytes, kind)."""
        text = json.dumps(params or {}).encode()
        definition = sorted((path, digest(data)) for path, data in files.items())
        blobs = (
            {digest(data): (data, "source") for data in files.values() if digest(data) not in self.known}
            if send is True
            else send
        )
        self.known.update(blobs)
        header = {
            "do": "run",
            "payload": digest(repr(definition).encode()),
            "fqn": f"ansible.modules.{name}",
            "name": name,
            "shape": "2.16",
            "rlimit_nofile": 0,
            "date_time": [2024, 2, 3, 4, 5, 6],
            "environment": {},
            "params": len(text),
            "definition": definition,
            "files": [[sha, len(data), kind] for sha, (data, kind) in blobs.items()],
            **more,
        }
        return self.send(
            {key: value for key, value in header.items() if value is not None},
            text + b"".join(d for d, _ in blobs.values()),
        )

    def answer(self, number: int) -> tuple[dict[str, Any], bytes]:
        """Wait for the answer to this request; others that arrive before are stored."""
        until = time.monotonic() + PATIENCE
        while number not in self.answers:
            assert time.monotonic() < until
            while len(self.pending) < 8:
                self._more()
            first, second = struct.unpack(">II", self.pending[:8])
            pieces, size = [self.pending], len(self.pending)
            while size < 8 + first + second:
                self.pending = b""
                self._more()
                pieces.append(self.pending)
                size += len(self.pending)
            whole = b"".join(pieces)
            header = json.loads(whole[8 : 8 + first])
            self.answers[header["n"]] = header, whole[8 + first : 8 + first + second]
            self.pending = whole[8 + first + second :]
        return self.answers.pop(number)

    def result(self, number: int) -> tuple[int, bytes, bytes]:
        header, body = self.answer(number)
        assert "rc" in header, header
        return header["rc"], body[: header["out"]], body[header["out"] :]

    def run(self, files: dict[str, bytes] | str, **more: Any) -> tuple[int, bytes, bytes]:
        """(rc, out, err) of a module, given as a payload or as its source alone."""
        return self.result(self.start(payload(files) if isinstance(files, str) else files, **more))


REFERENCE = """
def _ansiballz_main():
    import os, sys, shutil, tempfile, zipfile, base64, runpy
    sys.path = [path for path in sys.path if path not in ("", ".", os.getcwd())]
    folder = tempfile.mkdtemp(prefix="ansible_%(name)s_payload_")
    def invoke_module():
        sys.path.insert(0, root)
        if %(shape)r == "2.16":
            from ansible.module_utils import basic
            basic._ANSIBLE_ARGS = params
            runpy.run_module(mod_name=fqn, init_globals=dict(_module_fqn=fqn, _modlib_path=root), run_name="__main__",
                             alter_sys=True)
            print('{"msg": "New-style module did not handle its own exit", "failed": true}')
            sys.exit(1)
        else:
            from ansible.module_utils._internal._ansiballz import _loader
            _loader.run_module(json_params=params, profile="legacy", module_fqn=fqn, modlib_path=root, extensions={})
    params, fqn = base64.b64decode(%(params)r), "ansible.modules.%(name)s"
    try:
        root = os.path.join(folder, "ansible_%(name)s_payload.zip")
        with open(root, "wb") as out:
            out.write(base64.b64decode(%(zip)r))
        invoke_module()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
_ansiballz_main()
"""


def reference(
    python: str, files: dict[str, bytes], *, shape: str = "2.16", params: Any = None, env: Any = None
) -> tuple[int, bytes, bytes]:
    """(rc, out, err) of a payload in an interpreter that reads a small wrapper from a pipe, as Ansible does it over ssh."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path, data in files.items():
            archive.writestr(path, data)
    words = {
        "name": "probe",
        "shape": shape,
        "params": base64.b64encode(json.dumps(params or {}).encode()).decode(),
        "zip": base64.b64encode(packed.getvalue()).decode(),
    }
    done = subprocess.run(
        ["/bin/sh", "-c", f"{python} && sleep 0"], input=(REFERENCE % words).encode(), capture_output=True, env=env,
        timeout=PATIENCE, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def comparable(result: tuple[int, bytes, bytes]) -> tuple[int, bytes, bytes]:
    """A result without what differs between any two runs: random names, and the lines of the wrapper."""
    rc, out, err = result
    for pattern, instead in (
        (rb"payload_[A-Za-z0-9_]{6,8}/", b"payload_X/"),
        (
            rb"/ansible_roamlet_payload/ansible_roamlet_payload.zip/",
            b"/ansible_probe_payload_X/ansible_probe_payload.zip/",
        ),
        (rb'"<stdin>", line \d+', b'"<stdin>", line N'),
        (rb"0x[0-9a-f]+", b"0xN"),
        (rb"^(Killed|Terminated)\n$", b""),  # the shell's own words
    ):
        err = re.sub(pattern, instead, err)
    return rc, out, err
