"""Libraries that bring greenlets of their own, in one process and one thread with tasklets: neither disturbs the other."""

from tests.core._scripts import output_of


def test_gevent_runs_beside_tasklets_and_inside_them():
    printed = output_of(
        """
        import gevent, roamlet
        log = []

        def green(number):
            for turn in range(3):
                gevent.sleep(0)
                log.append(("greenlet", number, turn))

        def tasklet(number):
            for turn in range(3):
                roamlet.schedule()
                log.append(("tasklet", number, turn))

        def both(number):
            mine = [gevent.spawn(green, n) for n in range(3)]
            roamlet.schedule()
            gevent.joinall(mine)
            roamlet.schedule()
            gevent.sleep(0.001)
            log.append(("both", number, 0))

        for number in range(3):
            roamlet.tasklet(tasklet)(number)
        greenlets = [gevent.spawn(green, number) for number in range(3)]
        roamlet.run()
        print(len(log))
        gevent.joinall(greenlets)
        print(len(log))
        for number in range(3):
            roamlet.tasklet(both)(number)
        roamlet.run()
        print(len(log), sorted(number for kind, number, _ in log if kind == "both"))
        """
    )
    assert printed.splitlines() == ["9", "18", "48 [0, 1, 2]"]


def test_a_tasklet_is_not_switched_away_from_inside_a_greenlet_of_gevent():
    printed = output_of(
        """
        import gevent, roamlet
        channel = roamlet.channel()
        roamlet.tasklet(channel.send)("value")

        def green():
            try:
                channel.receive()
            except RuntimeError as error:
                return str(error)[:49]

        greenlet = gevent.spawn(green)
        greenlet.join()
        print(greenlet.value)
        print(channel.receive())
        roamlet.run()
        """
    )
    assert printed.splitlines() == ["this call would switch tasklets inside a greenlet", "value"]


def test_sqlalchemy_s_way_between_await_and_plain_calls_works_in_tasklets():
    printed = output_of(
        """
        import asyncio, roamlet
        from sqlalchemy.util import await_only, greenlet_spawn

        async def slow(value):
            await asyncio.sleep(0.001)
            return value * 2

        def plain(value):
            return await_only(slow(value)) + await_only(slow(1))

        async def main():
            print(await asyncio.gather(*(greenlet_spawn(plain, value) for value in range(3))))

        def tasklet(value):
            roamlet.schedule()
            log.append(asyncio.run(greenlet_spawn(plain, value)))
            roamlet.schedule()
            log.append("went on")

        log = []
        asyncio.run(main())
        for value in range(3):
            roamlet.tasklet(tasklet)(value)
        roamlet.run()
        asyncio.run(main())
        print(log)
        """
    )
    assert printed.splitlines() == [
        "[2, 4, 6]",
        "[2, 4, 6]",
        "[2, 4, 6, 'went on', 'went on', 'went on']",
    ]
