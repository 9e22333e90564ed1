"""Clients of databases, mail and ssh beside real servers: 50 tasklets of one thread wait at once, and the thread goes on."""

import importlib.util
import tempfile
from pathlib import Path

import pytest

from tests.programs import printed
from tests.remote.sshd import running_sshd, server_environment
from tools import servers
from tools.unpack_debian import CannotUnpack

pytestmark = pytest.mark.timeout(400)  # the first run downloads them

UNPACKED = Path(__file__).parents[2] / ".venv"


def needs(driver):
    """Skip without it. It is not imported: tests of stand-ins for it may follow."""
    if importlib.util.find_spec(driver) is None:
        pytest.skip(f"{driver} is not installed")


def started(name):
    """The folder with its socket. Skips where there is no such server."""
    try:
        with servers.running(name, UNPACKED / name) as folder:
            yield str(folder)
    except (CannotUnpack, servers.CannotRun) as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def postgresql():
    needs("psycopg")
    yield from started("postgresql")


@pytest.fixture(scope="module")
def mariadb():
    needs("pymysql")
    yield from started("mariadb")


@pytest.fixture(scope="module")
def exim():
    yield from started("exim")


@pytest.fixture(scope="module")
def sshd():
    needs("paramiko")
    try:
        server_environment()
    except CannotUnpack as reason:
        pytest.skip(str(reason))
    with tempfile.TemporaryDirectory() as folder, running_sshd(Path(folder)):
        yield folder


# What holds each program's queries is let go by a tasklet of the same thread, which counts them and its turns meanwhile.
COMMON = """
import roamlet.patch
{install}
import contextlib, sys
import roamlet

folder, turns = sys.argv[1], 0

def tick():
    global turns
    while True:
        turns += 1
        roamlet.sleep(0.001)

def hold_up(ask, waiting, let_go):
    "50 tasklets ask; let_go() is called when all of them wait and the ticker has had 20 turns since."
    ticker = roamlet.spawn(tick)
    asking = [roamlet.spawn(ask, (number,)) for number in range(50)]
    while waiting() < 50:
        roamlet.sleep(0.001)
    before = turns
    while turns < before + 20:
        roamlet.sleep(0.001)
    assert waiting() == 50 and not any(each.done for each in asking)
    let_go()
    assert [each.join() for each in asking] == [number * number for number in range(50)]
    ticker.kill()
    print("right")
"""

INSTALL = "roamlet.patch.install()"
INSTALL_THREADS = "roamlet.patch.install(threads='tasklets')"

ALL_WAIT = """
hold_up(ask, waiting, let_go)
"""

# Without the patch: the first of them holds its thread, until the library's own time-out.
ONE_HOLDS = """
seconds = 1
first, ticker = roamlet.spawn(ask, (0,)), roamlet.spawn(tick)
try:
    first.join()
except OSError as error:  # smtplib's has the time-out in its text
    print("held", "timed out" in str(error) or type(error) is TimeoutError, turns <= 1)
"""

POSTGRESQL = """
import psycopg

@contextlib.contextmanager
def connected():
    with psycopg.connect(host=folder, user="postgres", autocommit=True) as connection:
        yield connection

with connected() as holder:
    holder.execute("SELECT pg_advisory_lock(7)")
    LOCKED = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    hold_up(
        ask,
        lambda: holder.execute(LOCKED).fetchone()[0],
        lambda: holder.execute("SELECT pg_advisory_unlock(7)"),
    )
"""

PSYCOPG = """
def ask(number):
    with connected() as connection:
        connection.execute("SELECT pg_advisory_lock_shared(7)")
        connection.execute("CREATE TEMPORARY TABLE numbers (n int)")
        with connection.cursor() as cursor:
            with cursor.copy("COPY numbers FROM STDIN") as copy:
                for _ in range(number):
                    copy.write_row([number])
            cursor.executemany("INSERT INTO numbers VALUES (%s)", [(-each,) for each in range(3)])
            with connection.transaction(), connection.cursor(name="server_side") as reading:
                reading.execute("SELECT n FROM numbers WHERE n > 0")
                return sum(row[0] for row in reading)
"""

ASYNCPG = """
from roamlet import aio
import asyncpg

async def query(connection, number):
    await connection.execute("SELECT pg_advisory_lock_shared(7)")
    return await connection.fetchval("SELECT sum(n) FROM generate_series(1, 2 * $1::int - 1, 2) AS n", number) or 0
"""

EACH_ITS_LOOP = """
async def connect_and_query(number):
    connection = await asyncpg.connect(host=folder, user="postgres")
    try:
        return await query(connection, number)
    finally:
        await connection.close()

def ask(number):
    return aio.run(connect_and_query(number))
"""

ONE_POOL = """
async def make_pool():
    return await asyncpg.create_pool(host=folder, user="postgres", min_size=0, max_size=50)

pool = aio.await_(make_pool())

async def take_and_query(number):
    async with pool.acquire() as connection:
        return await query(connection, number)

def ask(number):
    return aio.await_(take_and_query(number))
"""

PYMYSQL = """
import pymysql

def connected(**database):
    # Else each connection reads all certificates of the system, and does not use them.
    return pymysql.connect(unix_socket=folder + "/mariadb.sock", user="anybody", autocommit=True, ssl_disabled=True, **database)

def ask(number):
    with connected(database="shop") as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO numbers VALUES (%s)", [number])
        cursor.executemany("INSERT INTO numbers VALUES (%s)", [[1000 + number]] * 3)
        cursor.execute("SELECT n * n FROM numbers WHERE n = %s", [number])
        return cursor.fetchone()[0]

with connected() as holder, holder.cursor() as cursor:
    cursor.execute("CREATE DATABASE shop")
    cursor.execute("CREATE TABLE shop.numbers (n int)")
    cursor.execute("LOCK TABLES shop.numbers WRITE")

    def waiting():
        cursor.execute("SHOW PROCESSLIST")
        return sum("lock" in (row[6] or "") for row in cursor)

    hold_up(ask, waiting, lambda: cursor.execute("UNLOCK TABLES"))
"""


# exim asks at its socket `gate` before it accepts a message. That end is of roamlet.io, which needs no patch.
SMTP = """
import os, smtplib, socket
from pathlib import Path

port, seconds = int(Path(folder, "port").read_text()), 60
asked = []
gate = roamlet.io.socket(socket.AF_UNIX)
gate.bind(folder + "/gate")
os.chmod(folder + "/gate", 0o777)
gate.listen(50)

def take():
    while True:
        asked.append(gate.accept()[0])

def waiting():
    return len(asked)

def let_go():
    os.unlink(folder + "/gate")
    for each in asked:
        assert each.recv(7) == b"message"  # unread, it would make the end of the connection an error
        each.sendall(b"yes")
        each.close()

def ask(number):
    with smtplib.SMTP("localhost", port, local_hostname="localhost", timeout=seconds) as client:  # without a look-up of it
        refused = client.sendmail("a@localhost", ["b@localhost", "c@localhost"], f"Subject: {number}\\r\\n\\r\\n" + number * "x")
        assert refused == {}
    return number * number

taking = roamlet.spawn(take)
"""

# Each command of the remote shell waits for a lock on a file, which the program has.
PARAMIKO = """
import fcntl, getpass, os, re, tempfile
from pathlib import Path

import paramiko

port = int(re.search("Port (.*)", Path(folder, "sshd_config").read_text())[1])
seconds = 60
key = paramiko.Ed25519Key.from_private_key_file(folder + "/user_key")
host_key = paramiko.Ed25519Key.from_private_key_file(folder + "/host_key")
commands = tempfile.TemporaryDirectory()
lock = open(commands.name + "/lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)

def waiting():
    return len(os.listdir(commands.name)) - 1

def let_go():
    fcntl.flock(lock, fcntl.LOCK_UN)

def ask(number):
    with paramiko.SSHClient() as client:
        client.get_host_keys().add(f"[127.0.0.1]:{port}", "ssh-ed25519", host_key)
        client.connect("127.0.0.1", port, username=getpass.getuser(), pkey=key, look_for_keys=False, allow_agent=False)
        command = f"cd {commands.name} && touch {number} && flock -s lock cat"
        given, printed, failed = client.exec_command(command, timeout=seconds)
        given.write(str(number * number))
        given.channel.shutdown_write()
        answer = printed.read()
        assert printed.channel.recv_exit_status() == 0, failed.read()
        return int(answer)
"""


THREADS = pytest.mark.parametrize("install", [INSTALL, INSTALL_THREADS], ids=["os", "tasklets"])


@THREADS
def test_fifty_queries_by_psycopg(python, program, postgresql, install):
    program(COMMON.format(install=install) + PSYCOPG + POSTGRESQL)
    assert printed(python("program.py", postgresql, PSYCOPG_IMPL="binary")) == "right\n"


@pytest.mark.parametrize("ask", [EACH_ITS_LOOP, ONE_POOL], ids=["each_its_loop", "one_pool"])
def test_fifty_queries_by_asyncpg(python, program, postgresql, ask):
    needs("asyncpg")
    program(COMMON.format(install=INSTALL) + ASYNCPG + ask + POSTGRESQL)
    assert printed(python("program.py", postgresql)) == "right\n"


def test_fifty_queries_by_pymysql(python, program, mariadb):
    program(COMMON.format(install=INSTALL) + PYMYSQL)
    assert printed(python("program.py", mariadb)) == "right\n"


@THREADS
def test_fifty_messages_by_smtplib(python, program, exim, install):
    program(COMMON.format(install=install) + SMTP + ALL_WAIT)
    assert printed(python("program.py", exim)) == "right\n"
    folder = Path(exim, "spool/input")
    subjects = {line for each in folder.glob("*-H") for line in each.read_text().splitlines() if "Subject:" in line}
    assert len(subjects) == 50 and len(list(folder.glob("*-D"))) >= 50


def test_one_message_by_smtplib_holds_its_thread_without_the_patch(python, program, exim):
    program(COMMON.format(install="") + SMTP + ONE_HOLDS)
    assert printed(python("program.py", exim)) == "held True True\n"


@THREADS
def test_fifty_commands_by_paramiko(python, program, sshd, install):
    program(COMMON.format(install=install) + PARAMIKO + ALL_WAIT)
    assert printed(python("program.py", sshd)) == "right\n"


def test_one_command_by_paramiko_holds_its_thread_without_the_patch(python, program, sshd):
    program(COMMON.format(install="") + PARAMIKO + ONE_HOLDS)
    assert printed(python("program.py", sshd)) == "held True True\n"
