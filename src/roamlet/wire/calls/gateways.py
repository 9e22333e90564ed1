"""What roamlet.execnet calls on its targets: the far half of a gateway of execnet, and a folder in memory that holds a project."""

import os
import shutil
import sys
import threading

PIECE = 1 << 20  # bytes; a channel takes 4 MB


# ---- the worker of a gateway


def serve(incoming, outgoing, name, model):
    """Be the worker `name` of a gateway in the main thread of this process, until the gateway is closed.

    `incoming` and `outgoing`: channels of bytes. `model`: execnet's name of what runs its tasks.
    """
    from execnet import gateway_base

    link = _Link(incoming, gateway_base.get_execmodel(model))
    sends = threading.Thread(target=link.send_all, args=(outgoing,), name="roamlet-gateway")
    sends.daemon = True
    sends.start()
    try:
        _in_main_thread(_serve, (gateway_base, link, name))
    finally:
        link.close_write()
        sends.join()
        outgoing.close()


def _serve(gateway_base, link, name):
    import io
    import signal

    # As in execnet's other workers, what is printed outside of tests goes nowhere.
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 1)
    os.close(nothing)
    sys.stdout = io.open(1, "w", closefd=False)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # by which execnet ends a task
    try:
        gateway_base.serve(link, name)
    finally:
        signal.signal(signal.SIGINT, before)


def _in_main_thread(function, args):
    if type(threading.current_thread()).__name__ == "_MainThread":
        function(*args)
        return
    from roamlet.wire.calls import main_thread

    ended = threading.Event()
    job = main_thread.begin(function, args, ended.set)
    ended.wait()
    if job.error is not None:
        raise job.error


class _Link(object):
    """The two channels as execnet's gateways use a pair of pipes: what its documentation of IO objects asks for."""

    def __init__(self, incoming, execmodel):
        self.execmodel = execmodel
        self._incoming = iter(incoming)
        self._read = bytearray()
        self._written = []
        self._closed = False
        self._changed = threading.Condition()

    def read(self, count):
        while len(self._read) < count:
            piece = next(self._incoming, None)
            if piece is None:
                raise EOFError("expected %d bytes, got %d" % (count, len(self._read)))
            self._read += piece
        data = bytes(self._read[:count])
        del self._read[:count]
        return data

    def write(self, data):
        with self._changed:
            self._written.append(data)
            self._changed.notify()

    def send_all(self, outgoing):
        """The life of a thread: sends what was written, many small pieces in one message."""
        outgoing.send_sequence(self._pieces())

    def _pieces(self):
        while True:
            with self._changed:
                while not self._written and not self._closed:
                    self._changed.wait()
                written = memoryview(b"".join(self._written))
                del self._written[:]
            if not written:
                return
            for begin in range(0, len(written), PIECE):
                yield bytes(written[begin : begin + PIECE])

    def close_read(self):
        pass

    def close_write(self):
        with self._changed:
            self._closed = True
            self._changed.notify()


# ---- a project in memory


def receive_tree(incoming, name):
    """Unpack a compressed tar archive, which comes in pieces, into the folder `name` of a private one in memory.

    Returns the path of `name`. The private folder is removed when this process ends: see roamlet.wire.files.private.
    """
    import tarfile

    from roamlet.wire.files import private

    place = private.private_folder("roamlet-")
    try:
        folder = os.path.join(place, name)
        os.mkdir(folder, 0o700)
        with tarfile.open(fileobj=_Pieces(incoming), mode="r|gz") as archive:
            if hasattr(tarfile, "data_filter"):
                archive.extraction_filter = tarfile.fully_trusted_filter  # it is the parent's own
            archive.extractall(folder)  # noqa: S202
    except BaseException:
        shutil.rmtree(place, True)
        raise
    return folder


class _Pieces(object):
    """A file to read from, of the pieces that come through a channel."""

    def __init__(self, incoming):
        self._incoming = iter(incoming)
        self._rest = b""

    def read(self, count):
        while len(self._rest) < count:
            piece = next(self._incoming, None)
            if piece is None:
                break
            self._rest += piece
        data, self._rest = self._rest[:count], self._rest[count:]
        return data


def enter(folder, place, paths):
    """Make ready to run the tests of the project in `folder`: the working directory is `place` in it.

    Its `paths` come first in sys.path, in Pythons that tests execute too. Modules that are found in the folder are loaded from
    there, and not from the parent.
    """
    os.chdir(os.path.join(folder, place))
    added = [os.path.normpath(os.path.join(folder, path)) for path in paths]
    sys.path[:0] = added
    os.environ["PYTHONPATH"] = os.pathsep.join(added + [path for path in [os.environ.get("PYTHONPATH")] if path])
    sys.meta_path.insert(0, _InFolder(folder))


class _InFolder(object):
    """Finds modules in one folder, by those entries of sys.path and of __path__ that are in it."""

    def __init__(self, folder):
        self._folder = os.path.realpath(folder)

    def find_spec(self, name, path=None, target=None):
        where = [each for each in (sys.path if path is None else path) if self._has(each)]
        # Not from importlib.machinery, whose import would come by here.
        return sys.modules["_frozen_importlib_external"].PathFinder.find_spec(name, where, target) if where else None

    def _has(self, path):
        path = os.path.realpath(path or os.getcwd())
        return path == self._folder or path.startswith(self._folder + os.sep)
