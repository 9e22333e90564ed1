"""`roamlet://`: Dask's messages over roamlet's links."""

import asyncio
import os
import random
import re
import signal
from collections.abc import Callable, Coroutine
from typing import Any

import numpy
import pytest
import roamlet_dask_sent as sent
from distributed import Client
from distributed.comm import CommClosedError, connect, listen

import roamlet_dask_comm as comm
from roamlet.dask import Cluster
from roamlet.dask.exchange import Exchange, _checked
from tests.remote.dask.test_cluster import until

pytestmark = [
    pytest.mark.once(reason="contexts and Dask's event loop do the same on each switching backend"),
    pytest.mark.roamlet_keeps(reason="tornado and distributed keep exceptions of their own callbacks"),
]


def between_two(talk: Callable[[comm.Port, comm.Port, Any], Coroutine[Any, Any, None]]) -> None:
    """Run talk(one, other, server's comms) on a loop, with a server at `other` that sends back what it gets."""
    ports: dict[str, comm.Port] = {}

    def send(frame: comm.Frame) -> None:
        ports[frame[0]].take(frame)

    async def main() -> None:
        ports["one/0"], ports["other/0"] = comm.Port("one/0", send), comm.Port("other/0", send)
        served: list[Any] = []

        async def serve(link: Any) -> None:
            served.append(link)
            try:
                while True:
                    await link.write(await link.read())
            except CommClosedError:
                return

        listener = await listen("roamlet://other/0", serve, deserialize=True)
        try:
            await talk(ports["one/0"], ports["other/0"], served)
        finally:
            listener.stop()
            for port in ports.values():
                port.close()

    asyncio.run(main())


async def linked(port: comm.Port, to: str) -> Any:
    """A connection from one port to another, as connect() makes it within one."""
    link = comm.Linked(port, to, next(port.numbers), deserialize=True)
    port.opened[link.number] = link
    port.send((to, port.name, link.number, comm.OPEN, b""))
    await link.accepted.wait()
    info = await link.read()
    await link.write({**link.handshake_info(), **info})
    return link


def test_frames_come_out_as_they_went_in_however_they_are_cut() -> None:
    rng = random.Random(7)
    for _ in range(200):
        messages = [
            [rng.randbytes(rng.choice((0, 1, 7, 100, comm.CHUNK, comm.CHUNK * 2 + 1))) for _ in range(rng.randrange(5))]
            for _ in range(3)
        ]
        data = b"".join(chunk for message in messages for chunk in comm._chunks(message))
        chunks = comm._Messages()
        found: list[list[bytes]] = []
        while data:
            size = rng.choice((1, 3, 8, 1000, 1 << 20)) if len(data) < 5000 else rng.randrange(1000, 1 << 20)
            found += [[bytes(frame) for frame in message] for message in chunks.messages(data[:size])]
            data = data[size:]
        assert found == messages
        if rng.random() < 0.8:
            continue
        assert all(len(chunk) <= comm.CHUNK for chunk in comm._chunks(messages[0]))


def test_arrays_go_whatever_their_shape_and_order() -> None:
    arrays = [
        numpy.zeros((0, 3)),
        numpy.asfortranarray(numpy.arange(12).reshape(3, 4)),
        numpy.arange(8)[::2],
        numpy.float64(1),
    ]
    frames = [memoryview(array) for array in arrays]
    data = b"".join(comm._chunks(frames))
    ((*found,),) = comm._Messages().messages(data)
    assert [bytes(frame) for frame in found] == [b"", arrays[1].tobytes("A"), arrays[2].tobytes(), arrays[3].tobytes()]


def test_messages_go_there_and_back_and_what_is_not_read_stops_the_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comm, "WINDOW", comm.CHUNK * 4)

    async def talk(one: comm.Port, other: comm.Port, served: list[Any]) -> None:
        link = await linked(one, other.name)
        for message in (
            {"op": "a"},
            {"op": "b", "data": b"x" * comm.CHUNK * 9},
            {"op": "c", "list": tuple(range(1000))},
        ):
            await link.write(message)
            assert await link.read() == message
        link.handshake_options = {"compression": None}
        writing = [asyncio.ensure_future(link.write({"data": os.urandom(comm.CHUNK)})) for _ in range(1)]
        await asyncio.gather(*writing)
        await link.read()
        task = asyncio.ensure_future(_write_many(link, 40))
        for _ in range(200):
            await asyncio.sleep(0)
        assert not task.done()  # the server cannot send back, as nothing is read here, and reads no more
        for _ in range(40):
            assert len((await link.read())["data"]) == comm.CHUNK
        await task
        await link.close()
        with pytest.raises(CommClosedError):
            await link.write({"op": "late"})

    async def _write_many(link: Any, number: int) -> None:
        for _ in range(number):
            await link.write({"data": os.urandom(comm.CHUNK)})

    between_two(talk)


def test_the_end_of_one_side_is_the_end_of_the_other() -> None:
    async def talk(one: comm.Port, other: comm.Port, served: list[Any]) -> None:
        link = await linked(one, other.name)
        reading = asyncio.ensure_future(link.read())
        while not served:
            await asyncio.sleep(0)
        served[0].abort()
        with pytest.raises(CommClosedError):
            await reading
        assert link.closed() and not one.opened and not other.accepted
        again = await linked(one, other.name)
        one.close()  # as at the end of its link
        with pytest.raises(CommClosedError):
            await again.read()

    between_two(talk)


def test_where_nothing_listens_a_connection_is_refused() -> None:
    async def talk(one: comm.Port, other: comm.Port, served: list[Any]) -> None:
        with pytest.raises(OSError, match="Timed out trying to connect"):
            await connect("roamlet://one/0", timeout=0.3)
        with pytest.raises(OSError, match="Timed out trying to connect"):
            await connect("roamlet://another/0", timeout=0.3)

    between_two(talk)


@pytest.mark.parametrize(
    "frame",
    [
        None,
        (),
        ("a", "b", 1, 2),
        ("a", "b", 1, 2, "text"),
        ("a", "b", "1", 2, b""),
        ("a", "b", 1, 9, b""),
        ["a"],
        ("a", "b", 1, 3, b""),
    ],
)
def test_what_is_no_frame_is_refused(frame: Any) -> None:
    with pytest.raises(ValueError, match=re.escape(f"{frame!r:.80}"[:20])):
        _checked(frame, "c/1")


def test_a_frame_is_from_the_process_that_has_sent_it() -> None:
    assert _checked(("c/0", "c/2", 1, comm.DATA, b"x"), "c/1") == ("c/0", "c/1", 1, comm.DATA, b"x")


def test_the_connections_of_a_process_end_with_it() -> None:
    exchange = Exchange()
    try:
        came: list[comm.Frame] = []
        exchange.port.take = came.append  # type: ignore[method-assign]
        name, _ = exchange.join()
        home = exchange.port.name
        exchange.route((home, name, 1, comm.OPEN, b""))
        exchange.route((home, name, 2, comm.OPEN, b""))
        exchange.route((home, name, 2, comm.CLOSE, b""))
        exchange.leave(name)
        exchange.leave(name)
        assert [frame[2:4] for frame in came] == [(1, comm.OPEN), (2, comm.OPEN), (2, comm.CLOSE), (1, comm.CLOSE)]
        exchange.route((name, home, 5, comm.OPEN, b""))
        assert came[-1] == (home, name, -5, comm.CLOSE, b"")
        assert not any(exchange._connections.values())
    finally:
        exchange.close()


def test_a_cluster_works_over_the_links_alone(make: Callable[..., Cluster]) -> None:
    cluster = make(workers_per_host=2, comm="roamlet", dashboard_address=None)
    assert cluster.dashboard_link == ""
    assert cluster.scheduler_address.startswith("roamlet://")
    with Client(cluster, set_as_default=False) as client:
        assert client.gather(client.map(sent.square, range(50))) == [n * n for n in range(50)]
        first, second = client.ncores()
        there = client.submit(sent.large, 7, 30_000_000, workers=[first], pure=False)
        assert client.submit(len, there, workers=[second]).result() == 30_000_000
        assert there.result() == b"\7" * 30_000_000
        empty = client.submit(numpy.zeros, (0, 3), workers=[first])
        assert client.submit(numpy.shape, empty, workers=[second]).result() == (0, 3)
        futures = client.map(sent.slow_square, range(60), pure=False)
        os.kill(cluster.workers[0].pid, signal.SIGKILL)
        assert client.gather(futures) == [n * n for n in range(60)]
        until(lambda: len(client.ncores()) == 2)
        assert client.gather(client.map(sent.square, range(50), pure=False)) == [n * n for n in range(50)]


def test_links_take_a_scheduler_of_this_process() -> None:
    for options in (
        {"comm": "tcp"},
        {"comm": "roamlet", "scheduler": "alpha"},
        {"comm": "roamlet", "address": "192.0.2.1"},
    ):
        with pytest.raises(
            ValueError, match="comm is 'tls' or 'roamlet', and with 'roamlet' the scheduler is in this process"
        ):
            Cluster(["local"], **options)


def test_a_message_that_is_cancelled_halfway_ends_its_connection() -> None:
    """Its rest would be missing, and the next one would be taken for it."""

    async def talk(one: comm.Port, other: comm.Port, served: "list[Any]") -> None:
        link = await linked(one, other.name)
        link._credit = 1
        writing = asyncio.ensure_future(link.write([numpy.zeros(2 * comm.CHUNK, numpy.uint8)]))
        while link._credit > 0:
            await asyncio.sleep(0)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        assert link.closed()
        with pytest.raises(CommClosedError):
            await link.write("another")

    between_two(talk)


def test_an_exchange_forgets_the_connections_of_those_that_have_left() -> None:
    exchange = Exchange()
    try:
        for _ in range(3):
            (one, _), (other, _) = exchange.join(), exchange.join()
            exchange.route((other, one, 1, comm.OPEN, b""))
            exchange.route((one, other, -1, comm.DATA, b"data"))
            exchange.leave(one)
            exchange.leave(other)
            exchange.route((one, other, -1, comm.DATA, b"late"))
            exchange.route(("unknown", other, 2, comm.DATA, b"lost"))
        assert exchange._connections == {}
    finally:
        exchange.close()
