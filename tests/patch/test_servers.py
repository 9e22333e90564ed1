"""Drivers of databases beside real servers: 50 tasklets of one thread wait for queries at once, and the thread goes on."""

import importlib.util
from pathlib import Path

import pytest

from tests.programs import printed
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


# What holds each program's queries is let go by a tasklet of the same thread, which counts them and its turns meanwhile.
COMMON = """
import roamlet.patch
roamlet.patch.install({options})
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


@pytest.mark.parametrize("options", ["", "threads='tasklets'"], ids=["os", "tasklets"])
def test_fifty_queries_by_psycopg(python, program, postgresql, options):
    program(COMMON.format(options=options) + PSYCOPG + POSTGRESQL)
    assert printed(python("program.py", postgresql, PSYCOPG_IMPL="binary")) == "right\n"


@pytest.mark.parametrize("ask", [EACH_ITS_LOOP, ONE_POOL], ids=["each_its_loop", "one_pool"])
def test_fifty_queries_by_asyncpg(python, program, postgresql, ask):
    needs("asyncpg")
    program(COMMON.format(options="") + ASYNCPG + ask + POSTGRESQL)
    assert printed(python("program.py", postgresql)) == "right\n"


def test_fifty_queries_by_pymysql(python, program, mariadb):
    program(COMMON.format(options="") + PYMYSQL)
    assert printed(python("program.py", mariadb)) == "right\n"
