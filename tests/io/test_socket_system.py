"""Sockets and what the system does meanwhile: signals, forks, and descriptors that run out."""

from tests.core._scripts import output_of


def test_a_signal_interrupts_a_call_only_if_its_handler_raises():
    printed = output_of("""
        import os, signal, threading, roamlet
        from roamlet import io
        first, second = io.socketpair()

        def note(number, frame):
            print("noted", flush=True)
            threading.Timer(0.02, second.send, (b"data",)).start()

        def fail(number, frame):
            raise KeyError("from the handler")

        def soon():
            threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGUSR1)).start()

        signal.signal(signal.SIGUSR1, note)
        soon()
        print(first.recv(10))
        signal.signal(signal.SIGUSR1, fail)
        soon()
        try:
            first.recv(10)
        except KeyError as error:
            print(error)
        roamlet.tasklet(second.send)(b"still there")
        print(first.recv(20))
        first.close()
        second.close()
    """)
    assert printed.splitlines() == ["noted", "b'data'", "'from the handler'", "b'still there'"]


def test_both_sides_of_a_fork_go_on_with_their_sockets():
    printed = output_of("""
        import os, roamlet
        from roamlet import io
        pairs = {name: io.socketpair() for name in ("parent", "child")}
        log = []
        tasklets = {name: roamlet.tasklet(lambda name=name: log.append((name, pairs[name][0].recv(10))))() for name in pairs}
        roamlet.schedule()
        pid = os.fork()
        name, other = ("parent", "child") if pid else ("child", "parent")
        tasklets[other].kill()
        pairs[name][1].send(name.encode())
        while not log:
            roamlet.sleep(0.001)
        roamlet.tasklet(pairs[name][1].send)(b"again")
        print(log, pairs[name][0].recv(10), *([io.wait_process(pid)] if pid else []), flush=True)
        os._exit(0)
    """)
    assert printed.splitlines() == ["[('child', b'child')] b'again'", "[('parent', b'parent')] b'again' 0"]


def test_accept_says_that_descriptors_have_run_out_and_goes_on_later():
    printed = output_of("""
        import errno, os, resource, roamlet
        from roamlet import io
        with io.create_server(("127.0.0.1", 0)) as server:
            client = io.create_connection(server.getsockname())
            limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (64, limit))
            kept = []
            try:
                while True:
                    kept.append(os.open(os.devnull, os.O_RDONLY))
            except OSError:
                pass
            for call in (server.accept, io.socket, io.socketpair):
                try:
                    call()
                except OSError as error:
                    print(errno.errorcode[error.errno])
            for fd in kept:
                os.close(fd)
            accepted, _ = server.accept()
            roamlet.tasklet(client.send)(b"hello")
            print(accepted.recv(10))
            accepted.close()
            client.close()
    """)
    assert printed.split() == ["EMFILE", "EMFILE", "EMFILE", "b'hello'"]


def test_a_hub_that_cannot_be_made_says_why():
    printed = output_of("""
        import errno, os, resource, roamlet
        from roamlet import io
        first, second = io.socketpair()
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        kept = []
        try:
            while True:
                kept.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            pass
        for _ in range(2):
            try:
                first.recv(10)
            except OSError as error:
                print(errno.errorcode[error.errno])
        os.close(kept.pop())
        os.close(kept.pop())
        roamlet.tasklet(second.send)(b"hello")
        print(first.recv(10))
        first.close()
        second.close()
    """)
    assert printed.split() == ["EMFILE", "EMFILE", "b'hello'"]
