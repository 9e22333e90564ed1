"""The runner's work on temporary folders: in order, as a shell does it, and nothing after a step that fails."""

from .test_runner import on

__all__ = ["on"]  # a fixture

COMMANDS = """
import pwd, subprocess
def sh(text):
    return "/bin/sh -c '%s'" % text
def mkdir(name, base=None):
    base = base or folder + '/a/b'
    path = base + '/' + name
    text = '( umask 77 && mkdir -p "` echo %s `"&& mkdir "` echo %s `" && echo %s="` echo %s `" )' % (base, path, name, path)
    return ['mkdir', sh(text), [base, name]]
def put(name, data):
    return ['put', '', [folder + '/' + name, data, 0o600]]
def chmod(bits, letters, *names):
    paths = [folder + '/' + name for name in names]
    return ['chmod', sh('chmod u+%s %s' % (letters, ' '.join(paths))), [bits, paths]]
def remove(name):
    return ['remove', sh('rm -f -r %s > /dev/null 2>&1' % (folder + '/' + name)), [folder + '/' + name]]
def mode(name):
    return os.stat(folder + '/' + name).st_mode & 0o7777
"""


def test_steps_are_carried_out_in_their_order_and_then_the_function(on, tmp_path):
    text = """
steps = [mkdir('one'), put('a/b/one/file', b'abc'), chmod(0o100, 'x', 'a/b/one/', 'a/b/one/file')]
done = runner.carry_out([], steps, 'get', (folder + '/a/b/one/file',))
modes = [mode('a'), mode('a/b'), mode('a/b/one'), mode('a/b/one/file')]
again = runner.carry_out([(folder + '/a/b/one/', remove('a/b/one/')[1])] * 2, [], 'nothing', ())
answer(done['result'], done['kept'], modes, again['result'], again['kept'], os.listdir(folder + '/a/b'))
"""
    assert on(COMMANDS + text, folder=str(tmp_path)) == ["abc", [], [0o700, 0o700, 0o700, 0o700], None, [], []]


def test_what_a_step_prints_is_what_its_command_prints(on, tmp_path):
    text = """
steps = [mkdir('one'), mkdir('one'), chmod(0o100, 'x', 'none'), remove('none'), remove('a'), mkdir('two', folder + '/file/x')]
open(folder + '/file', 'w').close()
found = []
for way in (lambda kind, command, values: runner.do_step(kind, command, values), lambda kind, command, values: runner.run(command)):
    found.append([tuple(way(*step)) for step in steps])
answer(found[0] == found[1], [one[0] for one in found[0]], os.listdir(folder))
"""
    same, codes, left = on(COMMANDS + text, folder=str(tmp_path))
    assert (same, codes, left) == (True, [0, 1, 1, 0, 0, 1], ["file"])


def test_what_a_step_prints_is_bytes_on_every_python(on, tmp_path):
    text = """
steps = [mkdir('one'), chmod(0o100, 'x', 'a/b/one'), chmod(0o700, 'x', 'none'), put('file', b'x'), put('none/x', b''), remove('a'),
         ['home', sh('echo ~root'), ['root']], ['home', sh('echo ~no-such-user'), ['no-such-user']]]
found = [runner.do_step(*step)[1:] for step in steps] + [runner.home_for_now(*step[1:2] + step[2])[1:3] for step in steps[-2:]]
answer(*sorted(set(type(one).__name__ for pair in found for one in pair)))
"""
    assert on(COMMANDS + text, folder=str(tmp_path)) in (["bytes"], ["bytearray"])  # of Python 3, of Python 2


def test_nothing_is_done_after_a_step_that_fails(on, tmp_path):
    text = """
open(folder + '/file', 'w').close()
failed = runner.carry_out([], [mkdir('x', folder + '/file'), mkdir('after')], 'put', (folder + '/never', b''))
lost = runner.carry_out([], [put('none/file', b''), mkdir('after')], 'put', (folder + '/never', b''))
answer(failed['failed'], failed['rc'], b'mkdir' in failed['err'], lost['failed'], lost['rc'], b'none/file' in lost['err'],
       sorted(os.listdir(folder)))
"""
    assert on(COMMANDS + text, folder=str(tmp_path)) == [0, 1, True, 0, 1, True, ["file"]]


def test_the_homes_of_accounts_are_those_that_a_shell_prints(on, tmp_path):
    text = """
names = [entry.pw_name for entry in pwd.getpwall()][:5] + ['no-such-user']
homes = [runner.home(sh('echo ~' + name), name) == runner.run(sh('echo ~' + name)) for name in names]
known = runner.home_for_now(sh('echo ~root'), 'root')
unknown = runner.home_for_now(sh('echo ~no-such-user'), 'no-such-user')
answer(all(homes), known[3] == runner.accounts(), unknown[1], unknown[3])
"""
    assert on(COMMANDS + text, folder=str(tmp_path)) == [True, True, "~no-such-user\n", None]


def test_the_home_of_the_session_is_that_of_its_environment(on, tmp_path):
    text = """
found = []
for place in ('/somewhere', '/with a space', '/with\\\\nbackslash', 'relative', '', None):
    os.environ.pop('HOME', None)
    if place is not None:
        os.environ['HOME'] = place
    found.append(runner.home(sh('echo ~'), '') == runner.run(sh('echo ~')))
os.environ['HOME'] = '/somewhere'
known = runner.home_for_now(sh('echo ~'), '')
answer(found, known[1], known[3] == runner.accounts())
"""
    assert on(COMMANDS + text, folder=str(tmp_path)) == [[True] * 6, "/somewhere\n", True]
