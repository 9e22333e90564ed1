"""The runner's functions, called in an interpreter of their own as a context would: commands, terminals, zygotes, files."""

import json
import os
import time

import pytest

from apps.ansible.tests.host import on_target
from tests.wire import interpreters

PYTHONS = interpreters.found()
SOME = [name for name in ("2.7", "3.6", "3.13") if name in PYTHONS] or list(PYTHONS)[:1]


@pytest.fixture(params=SOME)
def on(request):
    """Runs a text beside the runner; what it gave to answer()."""

    def on(text, **names):
        done = on_target.run(
            PYTHONS[request.param], "".join(f"{key} = {value!r}\n" for key, value in names.items()) + text
        )
        assert done.returncode == 0, done.stderr
        assert not done.stderr
        (line,) = [line for line in done.stdout.splitlines() if line.startswith("ANSWER ")]
        return json.loads(line.partition(" ")[2])

    return on


def test_commands(on):
    assert on("""
answer(runner.run('echo out; cat; echo err >&2; exit 7', b'in '), runner.run('kill -9 $$'), runner.run('pwd')[1] ==
       (runner.facts()['home'] + '\\n').encode(), runner.run('cat'), runner.run('exit 3 <&-', b'x' * 1000000))
""") == [[7, "out\nin ", "err\n"], [255, "", ""], True, [0, "", ""], [3, "", ""]]


@pytest.mark.parametrize("tty", [False, True])
def test_a_command_has_the_signals_of_a_new_session(on, tty):
    """Python ignores some of them, and Python 2 would have its children ignore them too: `yes | head -1` would complain."""
    (ignored,) = on("""
answer(runner.run("grep SigIgn /proc/self/status | cut -f2", tty=tty)[1].strip())
""", tty=tty)  # fmt: skip
    of_the_c_library = 0b111 << 31  # 32 to 34, which no program can set; a chroot may have them from outside
    assert int(ignored, 16) & ~of_the_c_library == 0


def test_much_in_both_directions(on):
    assert on("""
data = b'0123456789abcdef' * 500000
rc, out, err = runner.run('tee /dev/stderr', data)
answer(rc, out == data, err == data)
""") == [0, True, True]


def test_a_command_on_a_terminal(on):
    assert on("""
answer(runner.run('test -t 0 && test -t 1 && test -t 2 && stty size; echo $TERM; echo $SSH_TTY | cut -c1-5; exit 4', tty='vt100'))
""") == [[4, "0 0\r\nvt100\r\n/dev/\r\n", ""]]


def test_a_session_ends_with_its_pipes_or_with_its_terminal(on):
    assert on("""
begun = time.time()
answer(runner.run('(sleep 0.5; echo late) & echo early'), runner.run('sleep 60 & echo early', tty=True), time.time() - begun < 30)
""") == [[0, "early\nlate\n", ""], [0, "early\r\n", ""], True]


def test_the_end_of_time_and_cancelling(on):
    assert on("""
begun = time.time()
said = []
try:
    runner.run('sleep 60 & sleep 60', timeout=0.2)
except runner.TimedOut as error:
    said.append(str(error))
def cancel():
    soon(lambda: 'mine' in calls.PROCESSES)
    runner.cancel('mine')
thread = threading.Thread(target=cancel)
thread.start()
try:
    runner.run('sleep 60', token='mine')
except runner.Cancelled:
    said.append('cancelled')
thread.join()
runner.cancel('early')
try:
    runner.run('sleep 60', token='early')
except runner.Cancelled:
    said.append('cancelled')
answer(said, time.time() - begun < 30, runner.cancel('unknown'))
""") == [["after 0.2 seconds: sleep 60 & sleep 60", "cancelled", "cancelled"], True, False]


@pytest.mark.parametrize("tty", [False, True])
def test_a_prompt_is_answered(on, tty):
    out, ended = on("""
token = runner.start('printf "password: "; read word; echo "got $word"; exit 3', tty)
out = b''
rc = None
while b': ' not in out:
    out += runner.talk(token, wait=5)[0]
pieces = [runner.talk(token, b'secret\\n')]
while pieces[-1][2] is None:
    pieces.append(runner.talk(token, wait=5))
try:
    runner.talk(token)
except KeyError:
    rc = pieces[-1][2]
answer(b''.join(bytes(piece[0]) for piece in pieces), rc)
""", tty=tty)  # fmt: skip
    assert out.replace("\r", "").endswith("got secret\n")
    assert ended == 3


def test_input_that_ends_while_it_is_talked_to(on):
    assert on("""
token = runner.start('cat; echo end')
runner.talk(token, b'words ', eof=True)
out, rc = b'', None
while rc is None:
    more, err, rc = runner.talk(token, wait=5)
    out += more
answer(out, rc)
""") == ["words end\n", 0]


@pytest.mark.parametrize("tty", [False, True])
def test_modules(on, tty):
    assert on("""
facts = opened(tty=tty)
header, body = module('import sys; print("a"); sys.stderr.write("b"); sys.exit(2)')
short = dict((name, value) for name, value in header.items() if name not in ('files', 'definition'))
unknown = runner.run_module('key', short, body[:2])
results = [runner.run_module('key', header, body), runner.run_module('key', short, body[:2])]
results.append(runner.run_module('key', json.dumps(short), body[:2]))
bytes_out = runner.run_module('key', *module('import os; os.write(1, bytes(bytearray(range(256)))); os._exit(0)'))[1]
answer(unknown['missing'], results[0], results[1] == results[0] == results[2], bytes_out == bytes(bytearray(range(256))),
       runner.run_module('other', short, b'')['gone'])
""", tty=tty) == [["definition"], [2, "a\n", "b"], True, True, "there is no zygote of this key"]  # fmt: skip


def test_modules_at_once_from_several_threads(on):
    assert on("""
opened()
results = []
def one(number):
    for turn in range(5):
        results.append(runner.run_module('key', *module('import sys; print(%d); sys.exit(0)' % number))[1] == b'%d\\n' % number)
threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
answer(len(results), all(results))
""") == [40, True]


def test_a_zygote_asks_for_a_password_first(on):
    asked, wrong, ready, ran = on("""
asking = "printf 'password for x: ' >&2; read word; test $word = right || { echo no; exit 5; }; exec " + command
first = runner.open_zygote('key', asking, False, source, nonce)
second = runner.resume_zygote('key', first['token'], b'wrong\\n')
again = runner.open_zygote('key', asking, False, source, nonce)
third = runner.resume_zygote('key', again['token'], b'right\\n')
answer([first['err'], first['rc']], [second['out'], second['rc']], 'ready' in third,
       runner.run_module('key', *module('import sys; sys.exit(6)'))[0])
""")
    assert asked == ["password for x: ", None]
    assert wrong == ["no\n", 5]
    assert ready
    assert ran == 6


def test_a_zygote_that_is_killed(on):
    assert on("""
facts = opened()
header, body = module('import time; time.sleep(60)')
lost = []
def run():
    try:
        runner.run_module('key', header, body)
    except runner.ZygoteLost as error:
        lost.append('while the module ran' in str(error))
thread = threading.Thread(target=run)
thread.start()
children = lambda: [pid for pid in os.listdir('/proc') if pid.isdigit() and parent(pid) == str(facts['pid'])]
def parent(pid):
    try:
        return open('/proc/%s/stat' % pid).read().rpartition(')')[2].split()[1]
    except (IOError, OSError):
        return None
soon(children)
left = [int(pid) for pid in children()]
os.kill(facts['pid'], signal.SIGKILL)
thread.join()
[os.kill(pid, signal.SIGKILL) for pid in left]
gone = runner.run_module('key', header, body)
opened()
answer(lost, 'gone' in gone, runner.run_module('key', *module('import sys; sys.exit(6)'))[0])
""") == [[True], True, 6]


def test_a_module_is_cancelled(on):
    assert on("""
opened()
results = []
header, body = module('import time; time.sleep(60)')
thread = threading.Thread(target=lambda: results.append(runner.run_module('key', header, body, token='mine')[0]))
thread.start()
soon(lambda: 'mine' in calls.MODULES)
time.sleep(0.1)
runner.cancel('mine')
thread.join()
runner.cancel('early')
try:
    runner.run_module('key', header, body, token='early')
except runner.Cancelled:
    results.append('cancelled')
answer(results)
""") == [[137, "cancelled"]]


def test_an_older_zygote_ends_when_it_has_answered(on):
    assert on("""
first = opened()
fifo = os.path.join(__import__('tempfile').mkdtemp(), 'gate')
os.mkfifo(fifo)
results = []
header, body = module('import sys; open(%r).read(); sys.exit(9)' % fifo)
thread = threading.Thread(target=lambda: results.append(runner.run_module('key', header, body)[0]))
thread.start()
writer = open(fifo, 'w')
second = opened()
now = runner.run_module('key', *module('import sys; sys.exit(8)'))[0]
writer.close()
thread.join()
def ended():
    try:
        os.kill(first['pid'], 0)
    except OSError:
        return True
soon(ended)
answer(results, now, first['pid'] != second['pid'], runner.close_zygote('key'), runner.close_zygote('key'))
""") == [[9], 8, True, True, False]


def test_zygotes_end_with_the_process(on):
    (pid,) = on("answer(opened()['pid'])")
    for _ in range(500):
        if not os.path.exists(f"/proc/{pid}"):
            return
        time.sleep(0.01)
    pytest.fail(f"the zygote {pid} goes on")


def test_nothing_is_left_open(on):
    assert on("""
def descriptors():
    return len(os.listdir('/proc/self/fd'))
before = descriptors()
for turn in range(3):
    runner.run('true')
    runner.run('true', tty=True)
    opened('a', tty=bool(turn % 2))
    runner.run_module('a', *module('import sys; sys.exit(0)'))
runner.close_zygote('a')
soon(lambda: descriptors() == before)
soon(lambda: threading.active_count() == 1)
inherited = runner.run('ls /proc/self/fd')[1].split()
answer(descriptors() - before, len(inherited))
""") == [0, 4]


def test_files(on, tmp_path):
    text = """
path = folder + '/file'
sizes = [runner.put(path, b'abc', 0o640), runner.put(path, b'd', append=True)]
mode = os.stat(path).st_mode & 0o7777
contents = [runner.get(path), runner.get(path, 1, 2), runner.get(path, 9, 9)]
os.symlink(path, folder + '/link')
inode = os.stat(path).st_ino
runner.put(folder + '/link', b'new')
same = os.stat(path).st_ino == inode and runner.get(path) == b'new'
made = runner.make_tmp(folder + '/.ansible/tmp', 'one')
modes = [os.stat(one).st_mode & 0o777 for one in (made, folder + '/.ansible')]
runner.put(made + '/inside', b'')
try:
    runner.make_tmp(folder + '/.ansible/tmp', 'one')
except OSError:
    modes.append('exists')
runner.remove_tree(made)
runner.remove_tree(made)
runner.remove_tree(folder + '/link')
os.environ['HOME'] = folder
at_home = runner.make_tmp('~/$WHERE', 'x')
try:
    runner.get(folder + '/none')
except (IOError, OSError) as error:
    modes.append(error.errno)
answer(sizes, mode, contents, same, made == folder + '/.ansible/tmp/one', modes, sorted(os.listdir(folder)), at_home[len(folder):])
"""
    assert on("import os\nos.environ['WHERE'] = 'w'\n" + text, folder=str(tmp_path)) == [
        [3, 4], 0o640, ["abcd", "bc", ""], True, True, [0o700, 0o700, "exists", 2], [".ansible", "file", "w"], "/w/x"
    ]  # fmt: skip
