"""Loops whose thread ends while they run, or while they are being ended: quietly, and with all that they have begun ended."""

from collections.abc import Callable

import pytest

from tests.programs import printed

# Its tasks and generators need turns of the loop for their ends.
PROGRAM = """
import asyncio, threading
import roamlet
from roamlet import aio

ended = 0

async def numbers():
    global ended
    try:
        while True:
            yield 1
            await asyncio.sleep(0.001)
    finally:
        await asyncio.sleep(0)
        await asyncio.sleep(0.001)
        ended += 1

async def first():
    async for number in numbers():
        return number

async def forever():
    try:
        async for _ in numbers():
            pass
    finally:
        await asyncio.sleep(0.001)

def begin(turns):
    aio.await_(first())
    for _ in range(2):
        roamlet.spawn(lambda: aio.await_(forever()))
    for _ in range(turns):
        roamlet.schedule()
    {end}
    for _ in range(turns):
        roamlet.schedule()


for turns in range(6):
    thread = threading.Thread(target=begin, args=(turns,))
    thread.start()
    thread.join()
print("right")
begin({last})
"""

ENDS = {
    "its_tasklets_wait": "pass",
    "after_a_while": "roamlet.sleep(0.002 * turns)",
    "in_shutdown": "roamlet.tasklet(aio.shutdown)()",
    "after_stop": "aio.loop().stop()",
    "beside_run": "roamlet.tasklet(lambda: aio.run(first()))()",
    "beside_plain_run": "roamlet.tasklet(lambda: asyncio.run(first()))()",
    "beside_a_loop_that_has_work": "roamlet.tasklet(lambda: aio.run(busy()))()",
}
BUSY = """
async def busy():
    while True:
        await asyncio.sleep(0)
"""


@pytest.mark.parametrize("how", ENDS)
def test_a_thread_ends_quietly(
    python: Callable[..., str], program: Callable[..., str], how: str, request: pytest.FixtureRequest
) -> None:
    source = PROGRAM.replace("def begin", BUSY + "\ndef begin").replace("{end}", ENDS[how])
    last = 1 + list(ENDS).index(how) % 3
    script = program(source.replace("{last}", str(last)))
    words = ["-m", "roamlet.patch"] if "plain" in how else []
    assert printed(python("-X", "dev", *words, "-W", "ignore::ResourceWarning", script)) == "right\n"
