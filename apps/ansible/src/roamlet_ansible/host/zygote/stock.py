"""What a zygote has of payloads, and what it does before the fork so that no child does it again."""

import gc
import os
import sys

from roamlet_ansible.host.zygote.child import PRELOADED
from roamlet_ansible.host.zygote.language import PY3, native
from roamlet_ansible.host.zygote.payloads import Archive, Blob, Payload
from roamlet_ansible.host.zygote.starts import shorten_starts

MOST_SOURCES = 48 << 20  # bytes of sources; a zygote that has more forgets those that the current payload does not need
MOST_PAYLOADS = 256


class Stock(object):
    """The files of all payloads that came, and which modules of core are imported from them before the fork."""

    def __init__(self, base):
        self.blobs = {}
        self.stored = 0  # bytes of their sources, as they came
        self.payloads = {}
        self.turn = 0
        self.shortened = False  # whether the start of processes is
        self.asked = set()  # names that were to be imported before the fork
        self.archive = Archive(base + "ansible_roamlet_payload/ansible_roamlet_payload.zip", self.blobs)
        sys.path_hooks.insert(0, self.archive)

    def missing(self, payload):
        blobs = self.blobs
        return sorted(sha for sha in set(payload.files.values()) if sha not in blobs or blobs[sha].packed is None)

    def add(self, sha, data, kind):
        blob = self.blobs.get(sha)
        if blob is None:
            blob = self.blobs[sha] = Blob()
        kind, _, packed = kind.partition("/")
        if kind == "code":
            if blob.code is None:
                blob.marshalled = data
        elif blob.packed is None:
            blob.packed = data, {"": 0, "deflate": -15, "zlib": 15}[packed]
            self.stored += len(data)

    def forget(self):
        """Bound what is stored: the payloads that were used least recently go, and the files of none. Whether any went."""
        if len(self.payloads) > MOST_PAYLOADS:
            for name, _ in sorted(self.payloads.items(), key=lambda item: item[1].used)[: MOST_PAYLOADS // 2]:
                del self.payloads[name]
        elif self.stored > MOST_SOURCES:  # counted as they come: a look at each would copy the pages that it is on
            for name, payload in list(self.payloads.items()):
                if payload.used != self.turn:
                    del self.payloads[name]
        else:
            return False
        used = set(self.archive.files.values())
        for payload in self.payloads.values():
            used.update(payload.files.values())
        for sha in list(self.blobs):
            if sha not in used:
                self.stored -= len((self.blobs.pop(sha).packed or (b"",))[0])
        return True

    def prepare(self, payload, names):
        """Import what may be imported before the fork, and compile the rest once."""
        archive = self.archive
        wanted = [native(name) for name in names if native(name) not in self.asked]
        if wanted:
            self.asked.update(wanted)
            # What is loaded stays what it is: a payload with another file of that name has children that load their own.
            files = dict(payload.files)
            files.update((path, archive.files[path]) for path in archive.loaded.values())
            merged = Payload(files.items())
            archive.show(merged)
            for name in wanted:
                self.preload(name)
            archive.files = dict((path, files[path]) for path in archive.loaded.values())
            PRELOADED.update(archive.loaded)
            for other in self.payloads.values():
                other.plan = None
        if payload.plan is None:
            known = set(archive.files.values())
            for path, sha in payload.files.items():
                if sha in known:
                    continue
                try:
                    self.blobs[sha].code_for(path, archive.root)
                except (SyntaxError, ValueError, TypeError):
                    continue  # the child that imports it says so
            self.plan_for(payload)
            if wanted:
                warm_up()
                if PY3 and not self.shortened and "subprocess" in sys.modules:
                    self.shortened = True
                    shorten_starts()
            if sys.version_info >= (3, 11):
                sys._clear_type_cache()  # of attributes: each that a child looks up writes on the name that it replaces
            if hasattr(gc, "freeze"):
                gc.freeze()  # garbage too: to look for it takes longer than it is worth
            elif wanted:
                gc.collect()

    def preload(self, name):
        """Import `name`; what fails here fails again in the child, where it is seen.

        What core's own files do when they are imported was looked at for 2.16 and 2.21. Their results must be those that
        an import after the fork gives: distro takes UNIXCONFDIR and UNIXUSRLIBDIR from the environment (refused in
        requests) and looks for os-release (watched); facts.system.service_mgr calls platform.system(), which stores
        the host's name (forgotten in children); compat.selinux opens libselinux (ld.so.cache is watched), basic, urls
        and common.yaml import systemd, cryptography, yaml (the folders of sys.path are watched); respawn makes a path
        of its place (moved when the zip is written). common._collections_compat, from 2.20 on, warns when it is imported,
        and the module's result has to show that: an import that leaves such words is taken back here.
        """
        streams = sys.stdout, sys.stderr
        earlier = set(sys.modules)
        fine = False
        with open(os.devnull, "w") as nowhere:
            sys.stdout = sys.stderr = nowhere
            try:
                __import__(name)
                fine = True
            except (Exception, SystemExit):
                fine = False
            finally:
                sys.stdout, sys.stderr = streams
        if not PY3:
            sys.exc_clear()
        if warned() or not fine:
            for added in set(sys.modules) - earlier:
                if added.partition(".")[0] in ("ansible", "ansible_collections"):
                    module = sys.modules.pop(added)
                    self.archive.loaded.pop(added, None)
                    above, _, leaf = added.rpartition(".")
                    above = sys.modules.get(above)
                    if above is not None and module is not None and above.__dict__.get(leaf) is module:
                        delattr(above, leaf)

    def plan_for(self, payload):
        """(modules that this payload does not have, whether it has another file of a loaded name)."""
        if payload.plan is None:
            drop, conflict = [], False
            for name, path in self.archive.loaded.items():
                sha = payload.files.get(path)
                if sha is None:
                    drop.append(name)
                elif sha != self.archive.files.get(path):
                    conflict = True
            # The deepest first, so that each is still reachable from its package when it is taken off.
            payload.plan = sorted(drop, key=lambda name: -name.count(".")), conflict
        return payload.plan


def warm_up():
    """Have done before the fork what nearly all modules do, and what cannot be seen from outside but by the time that it takes."""
    if not PY3:
        return
    import collections.abc  # loaded by what core's own files import
    import locale

    # glibc stores what it has read of locales, and its files are watched. This process's own locale is as it was.
    now = locale.setlocale(locale.LC_ALL, None)
    try:
        locale.setlocale(locale.LC_ALL, "")
    except locale.Error:
        pass  # nothing was changed, and a module finds that out for itself
    else:
        locale.setlocale(locale.LC_ALL, now)
    # Abstract classes store the answers that they have found by a walk over all classes below them.
    abstract = [getattr(collections.abc, name) for name in ("Mapping", "MutableMapping", "Sequence", "Set", "Iterable")]
    for value in ({}, [], (), "", b"", 0, 0.0, False, None, set()):
        for kind in abstract:
            isinstance(value, kind)


def warned():
    """Whether warnings or deprecations wait to be shown in a module's result. They are forgotten."""
    module = sys.modules.get("ansible.module_utils.common.warnings")
    found = False
    for name in ("_global_warnings", "_global_deprecations"):
        stored = getattr(module, name, None)
        if stored:
            found = True
            stored.clear() if hasattr(stored, "clear") else stored.__delslice__(0, len(stored))
    return found
