"""fork(): both processes have a scheduler that works, and the child none of threads that it does not have."""

from tests.core._scripts import output_of, run_script


def test_fork_leaves_both_sides_a_working_scheduler():
    printed = output_of("""
        import os, roamlet
        channel = roamlet.channel()
        log = []
        def loop(name):
            for number in range(3):
                log.append((name, number))
                roamlet.schedule()
        for name in "ab":
            roamlet.tasklet(loop)(name)
        blocked = roamlet.tasklet(lambda: log.append(channel.receive()))()
        roamlet.schedule()
        pid = os.fork()
        roamlet.sleep(0.01)
        channel.send("child" if pid == 0 else "parent")
        roamlet.run()
        if pid != 0:
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
        print(len(log), log[-1], roamlet.getruncount(), flush=True)
        if pid == 0:
            os._exit(7)
    """)
    assert printed.splitlines() == ["7 child 1", "7", "7 parent 1"]


def test_fork_inside_a_tasklet():
    printed = output_of("""
        import os, roamlet
        results = []
        def function():
            pid = os.fork()
            if pid == 0:
                roamlet.sleep(0.01)
                os._exit(9)
            results.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        roamlet.tasklet(function)()
        roamlet.tasklet(roamlet.schedule)()
        roamlet.run()
        print(results)
    """)
    assert printed == "[9]"


def test_the_forked_child_of_another_thread_ends_cleanly():
    done = run_script("""
        import os, threading, warnings, roamlet
        warnings.simplefilter("ignore", DeprecationWarning)
        channel = roamlet.channel()
        keep = roamlet.tasklet(channel.receive)()
        roamlet.schedule()
        def other():
            tasklet = roamlet.tasklet(roamlet.schedule_remove)()
            roamlet.schedule()
            pid = os.fork()
            if pid == 0:
                tasklet.run()
                print("child", tasklet.alive, roamlet.getruncount(), flush=True)
                os._exit(0)
            print("parent", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
            tasklet.kill()
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        keep.kill()
    """)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["child False 1", "parent 0"]


def test_service_threads_of_the_parent_do_not_count_in_a_forked_child():
    printed = output_of("""
        import os, threading, warnings, roamlet
        from roamlet import core
        warnings.simplefilter("ignore", DeprecationWarning)
        ready, end = threading.Event(), threading.Event()
        def service():
            core.mark_service_thread()
            ready.set()
            end.wait()
        services = [threading.Thread(target=service) for _ in range(2)]
        for thread in services:
            ready.clear()
            thread.start()
            ready.wait()
        pid = os.fork()
        if pid == 0:
            channel = roamlet.channel()
            thread = threading.Thread(target=lambda: (threading.Event().wait(0.3), channel.send("from a thread")))
            thread.start()
            print(channel.receive(), flush=True)
            thread.join()
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        end.set()
        for thread in services:
            thread.join()
    """)
    assert printed.splitlines() == ["from a thread", "0"]


def test_no_run_queue_is_left_of_a_thread_that_a_forked_child_does_not_have():
    """Its main tasklet is inside run() as it forks; one tasklet runs, two could."""
    printed = output_of("""
        import os, threading, warnings, roamlet
        warnings.simplefilter("ignore", DeprecationWarning)
        made, ready, end = [], threading.Event(), threading.Event()
        def busy():
            ready.set()
            end.wait()
        def other():
            made.append(roamlet.tasklet(busy)())
            made.append(roamlet.tasklet(int)())
            made.append(roamlet.tasklet(int)())
            roamlet.run()
        thread = threading.Thread(target=other)
        thread.start()
        ready.wait()
        pid = os.fork()
        if pid == 0:
            print([(t.alive, t.scheduled, t.next) for t in made], flush=True)
            made[1].bind_thread()
            made[1].bind(lambda: print("fetched", flush=True), ())
            made[1].run()
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
        end.set()
        thread.join()
    """)
    assert printed.splitlines() == [str([(False, False, None)] * 3), "fetched", "0"]


def test_tasklets_of_threads_that_a_forked_child_does_not_have_are_dead_and_in_nobodys_way():
    printed = output_of("""
        import os, threading, warnings, roamlet
        from roamlet import core
        warnings.simplefilter("ignore", DeprecationWarning)
        channel, waiter, ready, end = roamlet.channel(), core.Waiter(), threading.Event(), roamlet.channel()
        made = []
        def other():
            made.append(roamlet.tasklet(channel.receive)())
            made.append(roamlet.tasklet(waiter.wait)())
            made.append(roamlet.tasklet(roamlet.sleep)(60))
            roamlet.schedule()
            made.append(roamlet.tasklet(roamlet.schedule_remove)())
            roamlet.schedule()
            made.append(roamlet.tasklet(int)())
            made.append(roamlet.tasklet(int, ()))
            made.append(roamlet.getmain())
            ready.set()
            try:
                channel.receive() if idle else end_event.wait()
            except roamlet.TaskletExit:
                pass
        for idle in (True, False):
            end_event = threading.Event()
            ready.clear()
            made.clear()
            thread = threading.Thread(target=other)
            thread.start()
            ready.wait()
            while idle and channel.balance > -2:
                roamlet.sleep(0.001)
            waiting = channel.balance
            pid = os.fork()
            if pid == 0:
                print(waiting, channel.balance, waiter.succeed(1), [t.alive for t in made], flush=True)
                for tasklet in made:
                    assert tasklet.thread_id == -1 and repr(tasklet) and tasklet.frame is None
                    tasklet.kill()
                roamlet.tasklet(channel.send)("value")
                print(channel.receive(), flush=True)
                roamlet.run()
                made.clear()
                del tasklet
                roamlet.trim()
                os._exit(0)
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
            made[0].kill()
            if idle:
                made[-1].throw(roamlet.TaskletExit)
            end_event.set()
            thread.join()
            waiter = core.Waiter()
    """)
    dead = [False] * 7
    assert printed.splitlines() == [f"-2 0 False {dead}", "value", "0", f"-1 0 False {dead}", "value", "0"]


def test_keep_current_leaves_a_forked_child_its_own_tasklet_alone():
    printed = output_of("""
        import os, roamlet
        from roamlet import core
        channel, log, kept = roamlet.channel(), [], []
        def other(wait):
            try:
                wait()
            finally:
                log.append(wait)
        for wait in (channel.receive, lambda: roamlet.sleep(0.001), roamlet.schedule_remove, roamlet.schedule):
            kept.append(roamlet.tasklet(other)(wait))
        kept.append(roamlet.tasklet(other))
        roamlet.schedule()
        new = roamlet.tasklet(log.append)("never")
        def forks():
            pid = os.fork()
            if pid == 0:
                core.keep_current()
                core.keep_current()
                for each in (*kept, new):
                    each.kill()
                roamlet.sleep(0.01)
                child = roamlet.tasklet(channel.send)("from a new one")
                print(channel.receive(), log, channel.balance, flush=True)
                roamlet.schedule()
                print([each.alive for each in (*kept, new)], roamlet.getruncount(), child.alive, flush=True)
                print(core.started() == [roamlet.getcurrent()], flush=True)
                os._exit(5)
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
        roamlet.tasklet(forks)().run()
        channel.send("end")
        kept[2].insert()
        roamlet.run()
        print(len(log))
        try:
            core.keep_current()
        except RuntimeError as error:
            print(str(error).partition(":")[0])
    """)
    dead = [False] * 6
    refused = "keep_current() is for a forked child"
    assert printed.splitlines() == ["from a new one [] 0", f"{dead} 1 False", "True", "5", "5", refused]


def test_errors_that_main_would_get_go_to_the_tasklet_that_a_forked_child_has_kept():
    printed = output_of("""
        import os, signal, roamlet
        from roamlet import core
        def interrupted():
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            roamlet.sleep(60)
        def another_fails():
            roamlet.tasklet(lambda: 1 / 0)()
            roamlet.sleep(60)
        def forks(fails):
            pid = os.fork()
            if pid == 0:
                core.keep_current()
                try:
                    fails()
                except BaseException as error:
                    print(type(error).__name__, flush=True)
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        try:
            for fails in (interrupted, another_fails, lambda: roamlet.channel().receive()):
                roamlet.tasklet(forks)(fails).run()
            for fails in (interrupted, another_fails, lambda: roamlet.channel().receive()):
                roamlet.tasklet(forks)(fails)
                roamlet.run()
        finally:
            print("main goes on", flush=True)
    """)
    assert printed.splitlines() == ["KeyboardInterrupt", "ZeroDivisionError", "Deadlock"] * 2 + ["main goes on"]
