"""The main program of a target: takes the descriptors over, says hello, serves."""

import os
import sys
import threading

from roamlet.wire import codec, protocol
from roamlet.wire.calls import calls
from roamlet.wire.life import life, logs, stdio
from roamlet.wire.link import link
from roamlet.wire.modules import available, importer, standin


def main(token, loaded=()):
    """Run until the parent says goodbye or is gone. Never returns.

    `loaded`: the top-level names that a process which was forked from its parent has imported; its roamlet is the real one.
    """
    wire = link.Link(link.keep_aside(0), link.keep_aside(1))
    try:
        child = Child(wire, token, loaded)
    except Exception as error:
        text = " ".join(("%s: %s" % (type(error).__name__, error)).split())
        wire.send_raw([protocol.start_line(token, protocol.START_FAILED, text)])
        os._exit(1)
    child.pool.serve()


class Child(object):
    """What the parts of a target have to do with each other."""

    def __init__(self, wire, token, loaded=()):
        self._link = wire
        sys.dont_write_bytecode = True
        self._errors = link.keep_aside(2)
        self._left = False
        self._watch_crashes()
        packages, namespaces = available.top_level_names()
        packages.update(loaded)
        config, frames = self._read_config()
        wire.context = config["id"]
        self.life = life.Life(wire)
        self.importer = importer.Importer(
            wire, packages, config.get("import_timeout", 60.0), config.get("prefer", "target")
        )
        sys.meta_path.insert(0, self.importer)
        sys.path_hooks.append(self.importer.path_hook)
        if not loaded:
            roamlet = standin.Module("roamlet")
            roamlet.wire = sys.modules["roamlet.wire"]
            sys.modules["roamlet"] = roamlet
        self.kinds = {}  # of frames, that parts have taken for themselves: what to call with the frame's five fields
        self._streams = stdio.Streams(wire)
        logs.forward(wire, config.get("log_level", 30), self.importer)
        self.life.on_loss.append(self.importer.lose)
        self.life.before_goodbye.append(self._streams.flush)
        self._turns = link.turns(wire.source)
        codec.richer = self._richer
        self.pool = calls.Pool(wire, self._turns, self.handle, self._streams.flush, config.get("max_threads", 64))
        _survive_interrupts()
        at_fork = getattr(os, "register_at_fork", None)  # 3.7 and later
        if at_fork is not None:
            at_fork(after_in_child=self._leave)
        sys.argv[:] = [""]
        self._streams.start()
        wire.send_raw([protocol.start_line(token, protocol.STARTED), self._hello(packages, namespaces)])
        self.pool.take(frames)

    def _read_config(self):
        """Return (config, frames after it). CONFIG was pushed after the payload, so this does not wait long."""
        while True:
            frames = self._link.read()
            if frames is None:
                os._exit(0)
            if frames:
                if frames[0][3] != protocol.CONFIG:
                    raise protocol.ProtocolError("%s came where CONFIG was expected" % protocol.kind_name(frames[0][3]))
                return codec.loads(frames[0][4]), frames[1:]

    def _hello(self, packages, namespaces):
        body = codec.dumps(
            {
                "protocol": protocol.PROTOCOL,
                "python": tuple(sys.version_info[:3]),
                "implementation": sys.implementation.name if hasattr(sys, "implementation") else "cpython",
                "platform": sys.platform,
                "machine": os.uname()[4],
                "pid": os.getpid(),
                "executable": str(sys.executable or ""),
                "magic": _magic(),
                "libc": _libc(),
                "suffixes": " ".join(_suffixes()),
                "packages": " ".join(sorted(packages)),
                "namespaces": " ".join(sorted(namespaces)),
            }
        )
        return protocol.frame(0, self._link.context, 0, protocol.HELLO, body)

    def _richer(self, value, root, parts, refer):
        """What codec.dumps does with what is not plain. Results may be large, and go in pieces then."""
        values = self.importer.part("values.values", "values.kinds", "values.instances")
        if root != "result":
            return values.dumps(value, root, parts, refer)
        buffers = []
        body = values.dumps(value, root, parts, refer, buffers)
        if buffers or len(body) > protocol.MAX_BODY:
            body = self.importer.part("values.large_messages").LargeMessage(body, buffers)
        return body

    def _leave(self):
        """In a process that a call forked off: let go of the link, or its other end would not see this context end."""
        if not self._left:  # else that process has forked in turn, and these numbers are others' by now
            self._left = True
            self._turns.close()
            for fd in [self._link.source, self._link.target, self._errors]:
                os.close(fd)

    def _watch_crashes(self):
        """Let an interpreter that crashes say where, on the standard error that it was started with (3.3+)."""
        try:
            import faulthandler
        except ImportError:
            return
        faulthandler.enable(self._errors)

    def handle(self, frame):
        """Take a frame that is no call; None when the parent is gone, and then this thread waits for the end.

        Runs in the thread that reads, so it waits for nothing else. A frame that cannot be used ends the context, which says
        so on the standard error that it was started with.
        """
        if frame is not None:
            try:
                self._take(*frame)
                return
            except EnvironmentError:
                pass  # the link is lost
            except Exception as error:
                text = "a %s frame cannot be used: %s: %s\n" % (
                    protocol.kind_name(frame[3]),
                    type(error).__name__,
                    error,
                )
                os.write(self._errors, text.encode("utf-8", "replace"))
        self.life.end(False)
        threading.Event().wait()  # the end comes from another thread

    def _take(self, destination, source, identifier, kind, body):
        if kind == protocol.MODULES:
            self.importer.receive(body, identifier)
        elif kind == protocol.CANCEL:
            self.pool.cancel(identifier, source)
        elif kind == protocol.PING:
            self._link.send_in_turn(protocol.frame(source, self._link.context, identifier, protocol.PONG, body))
        elif kind == protocol.GOODBYE:
            self.life.end(True)
        elif kind == protocol.PART:
            install = getattr(self.importer.make(codec.loads(body)), "install", None)
            if install is not None:
                install(self)
        elif kind in self.kinds:
            self.kinds[kind](destination, source, identifier, kind, body)
        else:
            raise protocol.ProtocolError("nothing here takes it")


def _magic():
    if codec.PY2:
        import imp

        return imp.get_magic()
    return sys.modules["_frozen_importlib_external"].MAGIC_NUMBER


def _libc():
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (AttributeError, ValueError, EnvironmentError):
        return ""


def _suffixes():
    return () if codec.PY2 else sys.modules["_imp"].extension_suffixes()


def _survive_interrupts():
    """Leave Ctrl-C at the terminal of a local parent to the parent, which ends this process by closing the link.

    A handler and not SIG_IGN: programs that calls start would inherit that.
    """
    import signal

    signal.signal(signal.SIGINT, lambda number, stack: None)
