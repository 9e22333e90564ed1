"""Runs a test's text beside the runner, in a Python of its own: of 2.7 perhaps. Its standard output is the answer, in JSON."""

import subprocess
from pathlib import Path

from roamlet_ansible import host

FOLDER = Path(host.__file__).parent
BEFORE = """
from __future__ import print_function
import hashlib, json, os, signal, sys, threading, time
sys.dont_write_bytecode = True
sys.path.insert(0, {folder!r})
from host import bootstrap, calls, runner, zygote_source
source = zygote_source()
nonce = 'n0nce'
command = "%s -c '%s'" % (sys.executable, bootstrap(nonce))
def digest(data):
    return hashlib.sha256(data).hexdigest()
def module(text):
    files = dict((path, b'') for path in ('ansible/__init__.py', 'ansible/modules/__init__.py', 'ansible/module_utils/__init__.py',
                                          'ansible/module_utils/basic.py'))
    files['ansible/modules/p.py'] = text.encode('utf-8')
    contents = dict((digest(data), data) for data in files.values())
    header = dict(do='run', payload=digest(text.encode('utf-8')), fqn='ansible.modules.p', name='p', shape='2.16', params=2,
                  definition=[[path, digest(data)] for path, data in files.items()],
                  files=[[sha, len(data), 'source'] for sha, data in contents.items()])
    return header, b'{{}}' + b''.join(contents.values())
def opened(key='key', tty=False):
    answer = runner.open_zygote(key, command, tty, source, nonce)
    assert 'ready' in answer, answer
    return answer['ready']
def plain(value):
    return value.decode('latin-1') if isinstance(value, (bytes, bytearray)) else value
def soon(condition):
    until = time.time() + 20
    while not condition():
        assert time.time() < until
        time.sleep(0.01)
def answer(*values):
    values = [[plain(one) for one in value] if isinstance(value, (tuple, list)) else plain(value) for value in values]
    print('ANSWER ' + json.dumps(values))
"""


def text_before() -> str:
    return BEFORE.format(folder=str(FOLDER.parent))


def run(python: str, text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, "-c", text_before() + text], capture_output=True, text=True, timeout=100, check=False
    )
