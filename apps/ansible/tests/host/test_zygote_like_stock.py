"""A module in a zygote ends, prints and fails as it does in an interpreter of its own: compared with one, on all Pythons."""

import os

import pytest

from apps.ansible.tests.host.driver import Zygote, comparable, payload, reference
from tests.exhaustive import telling
from tests.wire import interpreters

PRELOAD = ["ansible.module_utils.basic"]

MODULES = {
    "leaves": "from ansible.module_utils import basic\nbasic.leave(changed=False, **basic.params())",
    "names": """
import sys
from ansible.module_utils import basic
root = _modlib_path
names = [__name__, __file__, __package__, _module_fqn, sys.argv, sys.path[0], getattr(globals().get('__spec__'), 'name', 0)]
names += [globals().get('__cached__'), getattr(globals().get('__spec__'), 'cached', 0)]
print([str(name).replace(root, 'ROOT') for name in names])
print([path.replace(root, 'ROOT') for path in sys.path], sys.flags, sys.executable)
print(getattr(sys, 'orig_argv', None), sorted(vars(sys.modules['__main__'])))
sys.exit(0)
""",
    "process": """
import os, signal, stat, sys, gc, resource
print(os.getcwd(), stat.S_ISFIFO(os.fstat(0).st_mode), stat.S_ISFIFO(os.fstat(1).st_mode), repr(sys.stdin.read()))
print([int(signal.getsignal(number) or 0) if not callable(signal.getsignal(number)) else 'callable'
       for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD, signal.SIGALRM)])
print(os.umask(0), resource.getrlimit(resource.RLIMIT_NOFILE), gc.isenabled(), gc.get_threshold())
links = [(int(n), os.path.realpath('/proc/self/fd/' + n)) for n in os.listdir('/proc/self/fd')]
print([link for link in links if link[0] > 2 and ('pipe:' in link[1] or 'socket:' in link[1])])
print(sys.stdout.encoding, getattr(sys.stdout, 'errors', None), sys.getfilesystemencoding(), sys.stdout.isatty())
sys.exit(0)
""",
    "raises": "def f():\n    raise ValueError('no')\nf()",
    "raises in a chain": "try:\n    1 / 0\nexcept ZeroDivisionError:\n    {}['key']",
    "raises in an import": "import ansible.module_utils.broken",
    "no such import": "import ansible.module_utils.missing",
    "wrong syntax": "def f(:\n",
    "exits 3": "import sys\nsys.exit(3)",
    "exits 259": "import sys\nsys.exit(259)",
    "exits -1": "import sys\nsys.exit(-1)",
    "exits None": "import sys\nsys.exit()",
    "exits with words": "import sys\nsys.exit('that was it')",
    "exits with an object": "import sys\nsys.exit([1, 2])",
    "returns": "print('unended')",
    "os._exit": "import os, sys\nprint('lost')\nsys.stderr.write('seen')\nsys.stderr.flush()\nos._exit(9)",
    "killed": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
    "terminated": "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)",
    "closes stdout": "import sys\nprint('before')\nsys.stdout.close()\nsys.exit(0)",
    "closes descriptor 1": "import os, sys\nos.close(1)\nsys.exit(4)",
    "prints to closed descriptor 1": "import os, sys\nos.close(1)\nprint('lost')\nsys.exit(4)",
    "closes stderr": "import os, sys\nos.close(2)\nraise ValueError",
    "atexit": "import atexit, sys\natexit.register(lambda: sys.stdout.write('at the end'))\nsys.exit(2)",
    "atexit raises": "import atexit, sys\natexit.register(lambda: [][0])\nsys.exit(2)",
    "a thread goes on": """
import sys, threading, time
def late():
    time.sleep(0.2)
    print('late')
threading.Thread(target=late).start()
sys.exit(0)
""",
    "a daemon thread does not": """
import sys, threading, time
thread = threading.Thread(target=time.sleep, args=(50,))
thread.daemon = True
thread.start()
sys.exit(0)
""",
    "a fork prints too": "import os, sys\nif os.fork():\n    os.wait()\nprint('both')\nsys.exit(0)",
    "bytes": "import os, sys\nos.write(1, bytes(bytearray(range(256))))\nsys.exit(0)",
    "objects with ends": """
import sys
class Ends(object):
    def __del__(self):
        sys.stdout.write('ended ')
one = Ends()
two = Ends()
two.itself = two
sys.exit(0)
""",
    "old objects with ends": """
import gc, sys
class Ends(object):
    def __del__(self):
        sys.stdout.write('ended ')
one = Ends()
one.itself = one
gc.collect(0)
gc.collect(1)
del one
sys.exit(0)
""",
    "an unclosed file": "import sys, os\nout = os.fdopen(os.dup(1), 'w')\nout.write('flushed')\nsys.exit(0)",
    "a resource": """
import pkgutil, sys
print(pkgutil.get_data('ansible.module_utils', 'basic.py')[:20])
print([found[1:] for found in pkgutil.iter_modules(sys.modules['ansible.module_utils'].__path__)])
sys.exit(0)
""",
    "sources": """
import inspect, linecache, sys
from ansible.module_utils import basic
print(inspect.getsource(basic.leave), inspect.getsourcelines(basic)[1], basic.__loader__.is_package('ansible.module_utils.basic'))
sys.exit(0)
""",
    "warns": "import sys, warnings\nwarnings.warn('old')\nsys.exit(0)",
    "excepthook": "import sys\nsys.excepthook = lambda *error: sys.stdout.write('hooked %s' % error[0].__name__)\nraise ValueError",
    "prints much": "import sys\nsys.stdout.write('x' * 3000000)\nsys.stderr.write('y' * 200000)\nsys.exit(0)",
    "runpy's own": "import sys\nprint(sorted(n for n in sys.modules if n.startswith('ansible')))\nsys.exit(0)",
}  # fmt: skip
BROKEN = {"ansible/module_utils/broken.py": "def g():\n    {}['gone']\ng()\n"}

# Their tracebacks have frames of the loader: of another one than stock's. Later Pythons leave out the second's.
OF_THE_LOADER = {"wrong syntax"} | {(python, "raises in an import") for python in ("2.7", "3.6", "3.7", "3.8", "3.9")}


# What an interpreter says at its end about a stream that it cannot flush differs between builds of one version.
COMPLAINS = "prints to closed descriptor 1"

# The second shape has targets since 3.8; what differs between Pythons is in the first.
PYTHONS = [name for name in ("2.7", "3.6", "3.8", "3.11", "3.13") if name in interpreters.found()]
PAIRS = [f"{name}-2.16" for name in PYTHONS or interpreters.found()] + [f"{name}-2.19" for name in PYTHONS[-1:]]
PAIRS = telling(PAIRS, lambda pair: not pair.startswith(("3.8", "3.11")))


@pytest.fixture(scope="module", params=PAIRS)
def pair(request):
    return request.param.split("-")


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """With a folder for what a killed interpreter leaves behind."""
    return {**os.environ, "TMPDIR": str(tmp_path_factory.mktemp("temporary"))}


@pytest.fixture(scope="module")
def zygote(pair, environment):
    with Zygote(interpreters.found()[pair[0]], env=environment) as zygote:
        yield zygote


@pytest.mark.leaves("fds", "children", reason="the zygote is one for all tests of this file")
@pytest.mark.parametrize("name", MODULES)
def test_a_module_ends_as_in_an_interpreter_of_its_own(zygote, pair, environment, name):
    python, shape = pair
    files = payload(MODULES[name], **BROKEN)
    options = {"params": {"a": "ä", "b": [1]}, "shape": shape}
    expected = comparable(reference(interpreters.found()[python], files, env=environment, **options))
    for _ in range(2):
        result = comparable(zygote.run(files, profile="legacy", preload=PRELOAD, **options))
        assert result[:2] == expected[:2]
        if name in OF_THE_LOADER or (python, name) in OF_THE_LOADER:
            assert result[2].splitlines()[-1] == expected[2].splitlines()[-1]
        elif name != COMPLAINS:
            assert result[2] == expected[2]
