"""Threads whose tasklets read, write, time out, are killed and close descriptors at random: every byte is accounted for."""

import pytest

from tests.core._scripts import output_of

STORM = """
    import faulthandler, os, random, signal, subprocess, sys, threading, roamlet, roamlet.io as io
    from roamlet import core
    faulthandler.dump_traceback_later({limit}, exit=True)
    sys.setswitchinterval(1e-5)

    def thread(seed, totals):
        generator = random.Random(seed)
        pipes = [os.pipe() for _ in range(4)]
        for number, pipe in enumerate(pipes):
            for fd in pipe:
                os.set_blocking(fd, number % 2 == 0)
        written, read, ended = [0], [0], [0]

        def writer(fd):
            for _ in range(40):
                size = generator.choice([1, 10, 1000, 70_000])
                size = io.write(fd, b"x" * size)  # (`+=` with the call would add to what was there before it)
                written[0] += size
                if generator.random() < 0.2:
                    roamlet.sleep(generator.random() / 1000)
            ended[0] += 1

        def reader(fd):
            while True:
                try:
                    data = io.read(fd, generator.choice([1, 100, 65536]), timeout=generator.choice([None, 0, 0.001]))
                except TimeoutError:
                    continue
                if not data:
                    return
                read[0] += len(data)

        def bystander(fd):
            while True:
                try:
                    generator.choice([io.wait_readable, io.wait_writable])(fd, timeout=generator.random() / 100, daemon=True)
                except (TimeoutError, OSError):
                    roamlet.schedule()

        bystanders = [roamlet.tasklet(bystander)(generator.choice(pipes)[generator.randrange(2)]) for _ in range(6)]
        readers = [roamlet.tasklet(reader)(pipe[0]) for pipe in pipes for _ in range(2)]
        writers = [roamlet.tasklet(writer)(pipe[1]) for pipe in pipes for _ in range(2)]
        while ended[0] < len(writers):
            roamlet.sleep(0.001)
            index = generator.randrange(len(bystanders))
            bystanders[index].kill(pending=generator.random() < 0.5)
            bystanders[index] = roamlet.tasklet(bystander)(generator.choice(pipes)[generator.randrange(2)])
        for one in bystanders:
            one.kill()
        for pipe in pipes:
            io.close(pipe[1])
        while any(one.alive for one in readers):
            roamlet.sleep(0.001)
        for pipe in pipes:
            io.close(pipe[0])
        roamlet.run()
        totals.append((written[0] - read[0], roamlet.getruncount(), len(core.started())))

    before = len(os.listdir("/proc/self/fd"))
    totals = []
    for wave in range({waves}):
        threads = [threading.Thread(target=thread, args=({first} + wave * 10 + number, totals)) for number in range(3)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    print(set(totals), len(totals), len(os.listdir("/proc/self/fd")) - before)
"""


def test_a_storm_of_descriptors():
    assert output_of(STORM.format(limit=50, first=1, waves=1)) == "{(0, 1, 0)} 3 0"


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5))
def test_a_longer_storm_of_descriptors(seed):
    printed = output_of(STORM.format(limit=280, first=1000 * seed, waves=20), timeout=300)
    assert printed == "{(0, 1, 0)} 60 0"
