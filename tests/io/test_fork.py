"""Forks: the child's hub works, the parent's is unaffected."""

from tests.core._scripts import output_of


def test_both_sides_of_a_fork_go_on_waiting_for_descriptors():
    printed = output_of("""
        import os, roamlet, roamlet.io as io
        read_end, write_end = os.pipe()
        back_read, back_write = os.pipe()
        roamlet.tasklet(lambda: print("before", io.read(read_end, 10), flush=True))()
        roamlet.sleep(0)
        os.write(write_end, b"1")
        roamlet.run()
        pid = os.fork()
        if pid == 0:
            own_read, own_write = os.pipe()
            roamlet.tasklet(os.write)(own_write, b"own")
            print("child", io.read(own_read, 10), io.read(read_end, 10), flush=True)
            os.write(back_write, b"done")
            os._exit(0)
        io.write(write_end, b"2")
        print("parent", io.read(back_read, 10), io.wait_process(pid), flush=True)
    """)
    assert printed.splitlines() == ["before b'1'", "child b'own' b'2'", "parent b'done' 0"]


def test_who_waited_before_the_fork_waits_on_both_sides():
    printed = output_of("""
        import os, roamlet, roamlet.io as io
        pairs = {"parent": os.pipe(), "child": os.pipe()}
        log = []
        def waits(name):
            log.append((name, io.read(pairs[name][0], 10)))
        tasklets = {name: roamlet.tasklet(waits, (name,)) for name in pairs}
        for tasklet in tasklets.values():
            tasklet.run()
        pid = os.fork()
        name, other = ("parent", "child") if pid else ("child", "parent")
        tasklets[other].kill()
        os.write(pairs[name][1], name.encode())
        while not log:
            roamlet.sleep(0.001)
        if pid == 0:
            print(log, flush=True)
            os._exit(0)
        code = io.wait_process(pid)
        print(log, code, flush=True)
        os._exit(0)
    """)
    assert printed.splitlines() == ["[('child', b'child')]", "[('parent', b'parent')] 0"]


def test_a_socket_that_the_child_closes_before_it_has_a_hub_of_its_own_is_heard_of_in_the_parent():
    printed = output_of("""
        import os
        sockets = []
        os.register_at_fork(after_in_child=lambda: [own.close() for own in sockets])
        import roamlet, roamlet.io as io
        own, other = io.socketpair()
        sockets.append(own)
        for number in (b"1", b"2"):
            receives = roamlet.spawn(own.recv, (10,))
            roamlet.schedule()
            if number == b"2":
                pid = os.fork()
                if pid == 0:
                    os._exit(0)
                io.wait_process(pid)
            other.send(number)
            print(receives.join(10))
        own.close()
        other.close()
    """)
    assert printed.splitlines() == ["b'1'", "b'2'"]


def test_other_threads_wake_the_hub_of_a_forked_child():
    printed = output_of("""
        import os, threading, roamlet, roamlet.io as io
        read_end, write_end = os.pipe()
        os.write(write_end, b"x")
        io.wait_readable(read_end)
        pid = os.fork()
        if pid == 0:
            channel = roamlet.channel()
            thread = threading.Thread(target=lambda: (threading.Event().wait(0.05), channel.send("woken")))
            thread.start()
            print(channel.receive(), flush=True)
            thread.join()
            os._exit(0)
        print(io.wait_process(pid))
    """)
    assert printed.splitlines() == ["woken", "0"]
