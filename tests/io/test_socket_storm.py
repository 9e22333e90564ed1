"""Threads whose tasklets talk over sockets, are killed, time out, reset and close at random: nothing hangs, nothing is left."""

import pytest

from tests.core._scripts import output_of

STORM = """
    import faulthandler, gc, os, random, socket, struct, sys, threading, roamlet
    from roamlet import core, io
    faulthandler.dump_traceback_later({limit}, exit=True)
    sys.setswitchinterval(1e-5)
    gc.disable()

    def serve(listener, generator, served):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            roamlet.tasklet(echo)(connection, generator, served)

    def echo(connection, generator, served):
        with connection:
            try:
                while data := connection.recv(generator.choice([1, 100, 65536])):
                    connection.sendall(data)
                    if generator.random() < 0.02:
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                        return
                served.append(1)
            except OSError:
                pass

    def client(address, generator, outcomes):
        try:
            with io.create_connection(address) as connection:
                connection.settimeout(generator.choice([None, 0.001, 5]))
                for _ in range(generator.randrange(1, 10)):
                    message = os.urandom(generator.choice([1, 1000, 50_000]))
                    sender = roamlet.tasklet(send)(connection, message)
                    got = b""
                    while len(got) < len(message):
                        data = connection.recv(generator.choice([100, 65536]))
                        if not data:
                            raise ConnectionResetError
                        got += data
                    assert got == message
                    if generator.random() < 0.1:
                        io.close(connection.detach())
                        break
            outcomes.append("done")
        except OSError as error:
            outcomes.append(type(error).__name__)
        except roamlet.TaskletExit:
            outcomes.append("killed")
            raise

    def send(connection, message):
        try:
            connection.sendall(message)
        except OSError:
            pass

    def thread(seed, addresses, outcomes, barrier):
        generator, served = random.Random(seed), []
        listener = io.create_server(("127.0.0.1", 0))
        server = roamlet.tasklet(serve)(listener, generator, served)
        addresses.append(listener.getsockname())
        barrier.wait()
        clients = [roamlet.tasklet(client)(generator.choice(addresses), generator, outcomes) for _ in range(40)]
        while any(one.alive for one in clients):
            roamlet.sleep(0.002)
            if generator.random() < 0.2:
                generator.choice(clients).kill(pending=generator.random() < 0.5)
        ended.append(seed)
        while len(ended) < {threads}:  # others may still talk to our server
            roamlet.sleep(0.001)
        listener.close()
        while server.alive:
            roamlet.sleep(0.001)
        for one in core.started():
            one.kill()
        roamlet.run()
        left.append((roamlet.getruncount(), len(core.started())))

    before = len(os.listdir("/proc/self/fd"))
    total, left = [], []
    for wave in range({waves}):
        addresses, outcomes, ended, barrier = [], [], [], threading.Barrier({threads})
        threads = [
            threading.Thread(target=thread, args=({first} + wave * 10 + number, addresses, outcomes, barrier))
            for number in range({threads})
        ]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        total += outcomes
    print(len(total) <= {waves} * {threads} * 40, "done" in total, set(left), len(os.listdir("/proc/self/fd")) - before)
"""


def test_a_storm_of_sockets():
    assert output_of(STORM.format(limit=50, first=1, waves=1, threads=3)) == "True True {(1, 0)} 0"


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5))
def test_a_longer_storm_of_sockets(seed):
    printed = output_of(STORM.format(limit=280, first=1000 * seed, waves=20, threads=3), timeout=300)
    assert printed == "True True {(1, 0)} 0"
