/* The scheduler of a thread: the run queue, what happens when nobody can run, the end of tasklets and of the thread.

   The run queue is a ring, and the tasklet that runs is in it: schedule() is `current = current->next`. "The end of the
   queue" is the place before the current tasklet. Each tasklet in the ring is owned by it; moving one from the ring to
   a channel and back moves that reference.

   There is no hub tasklet. When the last runnable tasklet blocks, scheduler_idle sleeps on its C stack until something
   (a timer, a descriptor, another thread) has made somebody runnable. */

#ifndef TICKS
#define TICKS 256           /* switches between two looks at the clock, at most */
#endif
#ifndef TICK_NS
#define TICK_NS 1000000     /* how often timers and the hub are looked at while tasklets run */
#endif
#define DEADLOCK_NS 250000000 /* between two looks for a deadlock that another thread's end may cause */
#define DEADLOCK_DOUBLINGS 6 /* then they become rarer: many threads that wait for each other must not keep the machine busy */
#define DEADLOCK_SOON 2 /* so many looks come before, 1 and 16 ms later */
#define DEADLOCK_TELL 4 /* after so many looks, 0.77 s, it is logged that a wait goes on which nothing is known to end */

static void tasklet_set_error(Tasklet *tasklet, PyObject *error);
static inline void preempt_restart(Scheduler *scheduler);
static void preempt_stop(Scheduler *scheduler);
static void preempt_resumed(Scheduler *scheduler);
static PyObject *deadlock_error(Scheduler *scheduler);
static int deadlock_log(Scheduler *scheduler, int foreign);
static bool signals_may_wake(void);
static int scope_fires(Scheduler *scheduler, Tasklet *tasklet, int64_t now);
static int scope_check(Tasklet *tasklet);
static void scope_left(Tasklet *tasklet);

/* ---- the ring ---- */

static inline void
ring_link(Tasklet *before, Tasklet *tasklet)
{
    tasklet->next = before;
    tasklet->prev = before->prev;
    before->prev->next = tasklet;
    before->prev = tasklet;
}

/* Put `tasklet` at the end of its scheduler's queue. Steals a reference to it. */
static inline void
ring_append(Scheduler *scheduler, Tasklet *tasklet)
{
    Tasklet *end = unlikely(scheduler->idle) ? scheduler->first : scheduler->current;
    if (likely(end != NULL)) {
        ring_link(end, tasklet);
        return;
    }
    tasklet->next = tasklet->prev = tasklet;
    scheduler->first = tasklet;
}

/* Take `tasklet` out. Its reference passes to the caller. */
static inline void
ring_remove(Scheduler *scheduler, Tasklet *tasklet)
{
    if (unlikely(scheduler->first == tasklet))
        scheduler->first = tasklet->next == tasklet ? NULL : tasklet->next;
    tasklet->prev->next = tasklet->next;
    tasklet->next->prev = tasklet->prev;
    tasklet->next = tasklet->prev = NULL;
    tasklet->operands = NULL;
}

/* Let `tasklet`, which is in the ring, be the next to run. */
static void
ring_move_first(Scheduler *scheduler, Tasklet *tasklet)
{
    Tasklet *next = scheduler->idle ? scheduler->first : scheduler->current->next;
    if (tasklet != next && tasklet != scheduler->current) {
        tasklet->prev->next = tasklet->next;
        tasklet->next->prev = tasklet->prev;
        ring_link(next, tasklet);
    }
    if (scheduler->idle)
        scheduler->first = tasklet;
}

static inline bool
ring_holds(Tasklet *tasklet)
{
    return tasklet->next != NULL && tasklet->blocked == NOT_BLOCKED;
}

/* ---- waking ---- */

/* Another thread made something runnable here: end this thread's sleep. Runs no Python code. */
static __attribute__((noinline)) void
scheduler_ring(Scheduler *scheduler)
{
    uint64_t one = 1;
    scheduler->sleeping = false;
    if (scheduler->hub == NULL)
        PyThread_release_lock(scheduler->doorbell);
    else if (write(scheduler->hub->wake_fd, &one, sizeof one) < 0 && errno != EAGAIN)
        Py_FatalError("roamlet: cannot write to a hub's eventfd");
}

/* Take `tasklet` out of the queue it stands in. Its reference passes to the caller. */
static void
queue_remove(RoamletQueue *queue, Tasklet *tasklet)
{
    *(tasklet->prev != NULL ? (void **)&tasklet->prev->next : &queue->head) = tasklet->next;
    *(tasklet->next != NULL ? (void **)&tasklet->next->prev : &queue->tail) = tasklet->prev;
    tasklet->next = tasklet->prev = NULL;
    tasklet->queue = NULL;
}

/* The wait of the tasklet is none any more that a scope's deadline ends. */
static inline void
tasklet_unlimited(Tasklet *tasklet)
{
    if (tasklet->limited) {
        tasklet->limited = false;
        tasklet->scheduler->keepers--;
    }
}

/* Take a blocked tasklet off what it waits for. Its reference passes to the caller. Runs no Python code. */
static void
tasklet_unblock(Tasklet *tasklet)
{
    Scheduler *scheduler = tasklet->scheduler;
    if (tasklet->blocked == BLOCKED_RECEIVE || tasklet->blocked == BLOCKED_SEND) {
        Channel *channel = (Channel *)tasklet->waiting_on;
        *(tasklet->prev != NULL ? &tasklet->prev->next : &channel->head) = tasklet->next;
        *(tasklet->next != NULL ? &tasklet->next->prev : &channel->tail) = tasklet->prev;
        tasklet->next = tasklet->prev = NULL;
        channel->balance -= tasklet->blocked;
    } else if (tasklet->blocked == BLOCKED_QUEUE)
        queue_remove(tasklet->queue, tasklet);
    else if (tasklet->blocked == BLOCKED_WAIT && tasklet->waiting_on != NULL) {
        Waiter *waiter = (Waiter *)tasklet->waiting_on;
        waiter->tasklet = NULL;
        if (waiter->state == WAITER_PENDING)
            waiter->state = WAITER_ABANDONED;
    }
    if (tasklet->keeps) {
        tasklet->keeps = false;
        scheduler->keepers--;
    }
    tasklet_unlimited(tasklet);
    if (tasklet->timer >= 0)
        timer_cancel(scheduler, tasklet);
    tasklet->blocked = NOT_BLOCKED;
    tasklet->waiting_on = NULL;
    tasklet->iterating = false;
}

/* Make a blocked tasklet runnable, at the end of its own thread's queue. Thread-safe under the GIL; does not switch,
   runs no Python code, cannot fail. */
static void
scheduler_wake(Tasklet *tasklet)
{
    Scheduler *scheduler = tasklet->scheduler;
    tasklet_unblock(tasklet);
    ring_append(scheduler, tasklet);
    if (unlikely(scheduler->sleeping))
        scheduler_ring(scheduler);
}

/* Who answers for the thread when nobody can run, and gets the errors that belong to nobody: the tasklet in the innermost
   run(), else main. */
static inline Tasklet *
scheduler_keeper(Scheduler *scheduler)
{
    return scheduler->runs != NULL ? scheduler->runs : scheduler->main;
}

/* An error that belongs to nobody else: the keeper raises it, wherever it waits. Steals error. May run Python code. */
static void
keeper_set_error(Scheduler *scheduler, PyObject *error)
{
    Tasklet *keeper = (Tasklet *)Py_NewRef((PyObject *)scheduler_keeper(scheduler));
    bool second = keeper->raises; /* it has not got the one before yet: neither is dropped silently */
    if (second) {
        error_raise(error);
        PyErr_WriteUnraisable((PyObject *)keeper);
        if (!keeper->raises) { /* it ran meanwhile */
            Py_DECREF(keeper);
            return;
        }
    }
    if (keeper->blocked != NOT_BLOCKED)
        scheduler_wake(keeper);
    else if (keeper->next == NULL)
        ring_append(scheduler, (Tasklet *)Py_NewRef((PyObject *)keeper));
    if (!second)
        tasklet_set_error(keeper, error);
    Py_DECREF(keeper);
}

/* ---- timers and the hub ---- */

/* Wake whose time has come. -1 with an exception set. */
static int
timers_fire(Scheduler *scheduler)
{
    int fired;
    if (scheduler->timer_count == 0)
        return 0;
    int64_t now = clock_ns();
    if (now < 0)
        return -1;
    while (scheduler->timer_count > 0 && scheduler->timers[0].when <= now) {
        Tasklet *tasklet = scheduler->timers[0].tasklet;
        if (unlikely(tasklet->scope != NULL) && (fired = scope_fires(scheduler, tasklet, now)) != 0) {
            if (fired < 0)
                return -1;
            continue;
        }
        tasklet->timed_out = true;
        scheduler_wake(tasklet);
    }
    return 0;
}

/* Call the hub's poll with `timeout` in ns (-1: until something happens). May run Python code; no tasklet may switch. */
static int
hub_poll(Scheduler *scheduler, int64_t timeout)
{
    int failed;
    scheduler->polling = true;
    scheduler->sleeping = timeout != 0;
    failed = scheduler->hub->poll(scheduler->hub, timeout);
    scheduler->sleeping = false;
    scheduler->polling = false;
    return failed;
}

/* Sleep with the GIL released until another thread rings, a signal comes or `timeout` ns have passed (-1: for ever). */
static int
doorbell_wait(Scheduler *scheduler, int64_t timeout)
{
    PY_TIMEOUT_T limit = timeout < 0 ? -1 : (timeout + 999) / 1000;
    PyLockStatus status;
    scheduler->sleeping = true;
    Py_BEGIN_ALLOW_THREADS
    status = PyThread_acquire_lock_timed(scheduler->doorbell, limit, 1);
    Py_END_ALLOW_THREADS
    if (!scheduler->sleeping && status != PY_LOCK_ACQUIRED) /* rung as the time ran out: take it, it must stay held */
        PyThread_acquire_lock(scheduler->doorbell, NOWAIT_LOCK);
    scheduler->sleeping = false;
    return status != PY_LOCK_ACQUIRED ? PyErr_CheckSignals() : 0; /* one may have come just before the sleep */
}

/* How long to sleep before the next look for a deadlock. At first a thread may be about to end that was joined already. */
static int64_t
deadlock_interval(int looked)
{
    if (looked < DEADLOCK_SOON)
        return 1000000LL << 4 * looked;
    looked -= DEADLOCK_SOON;
    return (int64_t)DEADLOCK_NS << (looked < DEADLOCK_DOUBLINGS ? looked : DEADLOCK_DOUBLINGS);
}

/* Wait for the world outside this thread's tasklets: until the next timer is due, or until anything happens. Where only
   another thread's free will can wake anybody, look again now and then whether that thread still lives; `looked`: how often
   that was done in this sleep. Only the oldest thread, the main one, can come to be alone; the others sleep without a timer,
   which the kernel takes more time to set than to wake them. */
static int
hub_wait(Scheduler *scheduler, int looked)
{
    int64_t timeout = -1;
    if (scheduler->keepers == 0 && PyThreadState_Next(scheduler->tstate) == NULL)
        timeout = deadlock_interval(looked);
    if (scheduler->timer_count > 0) {
        int64_t now = clock_ns();
        if (now < 0)
            return -1;
        int64_t left = scheduler->timers[0].when - now;
        if (left <= 0)
            return 0;
        if (timeout < 0 || left < timeout)
            timeout = left;
    }
    if (unlikely(clock_advance != NULL && scheduler->timer_count > 0)) {
        PyObject *seconds, *result;
        if (scheduler->hub != NULL && (hub_poll(scheduler, 0) < 0 || scheduler->first != NULL))
            return PyErr_Occurred() ? -1 : 0;
        seconds = PyFloat_FromDouble((double)timeout / 1e9);
        result = seconds != NULL ? PyObject_CallOneArg(clock_advance, seconds) : NULL;
        Py_XDECREF(seconds);
        Py_XDECREF(result);
        return result != NULL ? 0 : -1;
    }
    return scheduler->hub != NULL ? hub_poll(scheduler, timeout) : doorbell_wait(scheduler, timeout);
}

/* While tasklets run: look at timers and hub about every millisecond, so that a loop of schedule() starves nobody. The
   number of switches between two looks at the clock follows how long they take. May run Python code; -1 with an
   exception set. */
static __attribute__((noinline)) int
hub_tick(Scheduler *scheduler)
{
    if (scheduler->idle || scheduler->polling || (scheduler->timer_count == 0 && scheduler->hub == NULL))
        return 0;
    int64_t now = clock_ns(), passed = now - scheduler->last_tick;
    if (now < 0)
        return -1;
    if (passed >= 0 && passed < TICK_NS) { /* a test's clock may have stood later than the machine's */
        if (passed < TICK_NS / 2 && scheduler->ticks_full < TICKS)
            scheduler->ticks = scheduler->ticks_full *= 2;
        return 0;
    }
    scheduler->last_tick = now;
    if (passed > 2 * TICK_NS && scheduler->ticks_full > 1)
        scheduler->ticks = scheduler->ticks_full /= 2;
    if (timers_fire(scheduler) < 0)
        return -1;
    return scheduler->hub != NULL ? hub_poll(scheduler, 0) : 0;
}

/* It is time to look at what came from outside: what hub_tick finds, and an error that another thread threw into the
   current tasklet. May run Python code; -1 with an exception set. */
static __attribute__((noinline)) int
scheduler_tick(Scheduler *scheduler)
{
    Tasklet *current = scheduler->current;
    scheduler->ticks = scheduler->ticks_full;
    if (hub_tick(scheduler) < 0)
        return -1;
    if (unlikely(current->raises && !scheduler->idle)) {
        PyObject *error = current->tempval;
        current->tempval = NULL;
        current->raises = false;
        error_raise(error);
        return -1;
    }
    return 0;
}

static Py_ssize_t service_threads; /* threads of roamlet's own, which wake nobody by themselves */

static unsigned long watcher_ident; /* what a thread state of the watchdog's thread has as thread_id; 0: there is none */

/* Whether this is a thread state of the watchdog's thread. One whose thread has not begun yet has no ident, from 3.12 on. */
static inline bool
watcher_is(PyThreadState *tstate)
{
    return watcher_ident != 0 && tstate->thread_id == watcher_ident;
}

/* Whether a thread that roamlet did not start lives: it may do anything, a channel operation too. */
static bool
other_threads(Scheduler *scheduler)
{
    Py_ssize_t count = 0;
    for (PyThreadState *t = PyInterpreterState_ThreadHead(PyThreadState_GetInterpreter(scheduler->tstate)); t != NULL;
         t = PyThreadState_Next(t))
        count += t != scheduler->tstate && !watcher_is(t);
    return count > service_threads - scheduler->service;
}

#include "system_threads.h"

static const char *const deadlock_modes[] = {"auto", "raise", "warn", "off", NULL};
static enum { DEADLOCK_AUTO, DEADLOCK_RAISE, DEADLOCK_WARN, DEADLOCK_OFF } deadlock_mode; /* of set_deadlock_mode() */
static bool deadlock_told; /* what `auto` logs once in a process was logged */

/* How many threads of the process are neither this one nor roamlet's own; -1: the system does not say. Threads that C code has
   started are among them, of which Python knows nothing until they call it. */
static int
foreign_threads(Scheduler *scheduler)
{
    int all = system_threads();
    return all < 0 ? -1 : all - 1 - (int)(service_threads - scheduler->service) - (watcher_ident != 0);
}

enum { VERDICT_RAISE, VERDICT_TELL, VERDICT_WAIT };

/* Nothing that roamlet knows of can wake anybody: main gets Deadlock; or it waits, because a thread that C code has started may call
   in, or because the user wants it so, which is to be told when the wait has lasted for most of a second. `looked`: how often
   that was asked in this wait. Runs no Python code. */
static int
deadlock_verdict(int foreign, int looked, bool told)
{
    if (deadlock_mode == DEADLOCK_RAISE || (deadlock_mode == DEADLOCK_AUTO && foreign == 0))
        return VERDICT_RAISE;
    if (told || looked < DEADLOCK_TELL || deadlock_mode == DEADLOCK_OFF || (deadlock_mode == DEADLOCK_AUTO && deadlock_told))
        return VERDICT_WAIT;
    return VERDICT_TELL;
}

/* Whether the keeper, which is in run(), need not wait any longer: nothing runs, and nothing that this run() waits for
   can make anything run. */
static inline bool
run_is_over(Scheduler *scheduler, Tasklet *keeper)
{
    if (scheduler->keepers > 0 && keeper->run_hub)
        return false;
    return !keeper->run_threadblock || scheduler->ending || !other_threads(scheduler);
}

static Tasklet *scheduler_announce(Scheduler *scheduler, Tasklet *from, Tasklet *to);

/* Nobody can run: sleep until somebody can, and make that one current. Runs Python code (the hub's, signal handlers');
   what they raise goes to the keeper. Nobody can run either when only its run() waits: it returns; nor when nothing can
   ever wake anybody: the keeper raises Deadlock. */
static __attribute__((noinline)) Tasklet *
scheduler_idle(Scheduler *scheduler)
{
    int looked = 0;
    bool told = false;
    scheduler->idle = true;
    scheduler->first = NULL;
    for (;;) {
        int failed = timers_fire(scheduler);
        if (!failed && scheduler->first == NULL) {
            Tasklet *keeper = scheduler_keeper(scheduler);
            bool paused = keeper->blocked == NOT_BLOCKED;
            if (paused || (keeper->blocked == BLOCKED_RUN && run_is_over(scheduler, keeper))) {
                if (paused)
                    Py_INCREF(keeper);
                tasklet_unblock(keeper);
                ring_append(scheduler, keeper);
            } else if (scheduler->keepers > 0 || (!scheduler->ending && (other_threads(scheduler) || signals_may_wake())))
                failed = hub_wait(scheduler, looked++);
            else {
                int foreign = deadlock_mode != DEADLOCK_RAISE ? foreign_threads(scheduler) : 0;
                int verdict = deadlock_verdict(foreign, looked, told);
                if (verdict == VERDICT_RAISE || scheduler->ending) {
                    PyObject *error = deadlock_error(scheduler);
                    keeper_set_error(scheduler, error != NULL ? error : error_take());
                } else if (verdict == VERDICT_TELL) { /* what that runs may have woken somebody */
                    told = true;
                    failed = deadlock_log(scheduler, foreign);
                } else
                    failed = hub_wait(scheduler, looked++);
            }
        }
        if (failed)
            keeper_set_error(scheduler, error_take());
        if (scheduler->first != NULL && unlikely(scheduler->attention & ATTEND_CALLBACK))
            scheduler->first = scheduler_announce(scheduler, scheduler->current, scheduler->first);
        if (scheduler->first != NULL)
            break;
    }
    scheduler->current = scheduler->first;
    scheduler->first = NULL;
    scheduler->idle = false;
    return scheduler->current;
}

/* ---- suspending ---- */

static __attribute__((cold)) void
fixed_error(Scheduler *scheduler)
{
    const char *why = "this call would block, and it was made where no tasklet runs: in the hub, or in a signal handler while all "
                      "tasklets wait. Wake a tasklet that does the work instead";
    if (scheduler->announcing)
        why = "Recursive scheduling call due to callbacks! A schedule or channel callback must not switch tasklets or block, nor "
              "must other code that runs in the middle of a switch";
    else if (scheduler->trapped)
        why = "switch_trap: this call would switch tasklets, which switch_trap() forbids in this thread";
    PyErr_SetString(PyExc_RuntimeError, why);
}

/* Whether this is a place where tasklets may be switched: 0, or -1 with an exception set. Runs no Python code. */
static inline int
scheduler_may_switch(Scheduler *scheduler)
{
    if (unlikely(scheduler->fixed != 0)) {
        fixed_error(scheduler);
        return -1;
    }
    if (collection_forbids(scheduler)) {
        collection_error();
        return -1;
    }
    return 0;
}

/* Whether the current tasklet may be suspended now: 0, or -1 with an exception set and nothing changed. Looks at timers
   and hub when it is time, so state must be read after it. */
static inline int
scheduler_may_suspend(Scheduler *scheduler)
{
    if (unlikely(scheduler_may_switch(scheduler) < 0))
        return -1;
    if (unlikely(--scheduler->ticks <= 0) && scheduler_tick(scheduler) < 0)
        return -1;
    return switch_guard(scheduler, scheduler->current);
}

static __attribute__((cold)) void
block_trap_error(Tasklet *current)
{
    PyErr_Format(PyExc_RuntimeError, "this tasklet does not like to be blocked: block_trap of %R is set, and this call would wait", current);
}

/* Whether the current tasklet may begin to wait, as far as its own settings and scopes are concerned: 0, or -1 with an
   exception set. */
static inline int
tasklet_may_wait(Tasklet *current)
{
    if (unlikely(current->block_trap)) {
        block_trap_error(current);
        return -1;
    }
    return likely(current->scope == NULL) ? 0 : scope_check(current);
}

/* scheduler_may_suspend for a call that blocks its tasklet. */
static inline int
scheduler_may_block(Scheduler *scheduler)
{
    return unlikely(tasklet_may_wait(scheduler->current) < 0) ? -1 : scheduler_may_suspend(scheduler);
}

/* ---- what a switch has to tell others ---- */

static PyObject *schedule_callback; /* of set_schedule_callback; NULL: none */

/* Tell the schedule callback of a switch to come. Runs Python code, which cannot switch but may change the run queue, whose
   head is scheduler->first meanwhile. Returns the one to go on with, NULL when the queue has become empty. */
static Tasklet *
scheduler_announce(Scheduler *scheduler, Tasklet *from, Tasklet *to)
{
    PyObject *callback = schedule_callback, *result, *raised;
    if (callback == NULL || to == from)
        return to;
    raised = error_take();
    Py_INCREF(callback);
    Py_INCREF(from); /* a dying one is somebody else's to drop */
    scheduler->announcing = true;
    result = PyObject_CallFunctionObjArgs(callback, (PyObject *)from, (PyObject *)to, NULL);
    if (result == NULL)
        PyErr_WriteUnraisable(callback);
    Py_XDECREF(result);
    scheduler->announcing = false;
    Py_DECREF(from);
    Py_DECREF(callback);
    if (raised != NULL)
        error_raise(raised);
    return scheduler->first;
}

static void watchdog_redirects(Scheduler *scheduler, Tasklet *from);

/* The current tasklet, `from`, is about to be switched away: to `to`, or to nobody yet when that is NULL. Whoever must be
   told is told; what it must not keep is given up. Returns the one to go on with. May run Python code, which cannot
   switch; to that code the run queue looks as it will be after the switch. */
static __attribute__((noinline)) Tasklet *
scheduler_departs(Scheduler *scheduler, Tasklet *from, Tasklet *to)
{
    if (from->special & SPECIAL_ATOMIC)
        atomic_release();
    scheduler->first = to;
    scheduler->idle = scheduler->announcing = true;
    if (scheduler->attention & ATTEND_WATCHDOG)
        watchdog_redirects(scheduler, from);
    if (from->special & SPECIAL_TRACED)
        tracing_leaves(from);
    to = scheduler->first;
    if (to != NULL && (scheduler->attention & ATTEND_CALLBACK) != 0)
        to = scheduler_announce(scheduler, from, to);
    scheduler->first = NULL;
    scheduler->idle = scheduler->announcing = false;
    return to;
}

/* The tasklet has been switched to: it has again what it gave up. May run Python code, which cannot switch, and release
   the GIL. */
static __attribute__((noinline)) void
tasklet_returns(Tasklet *tasklet)
{
    Scheduler *scheduler = tasklet->scheduler;
    scheduler->announcing = true;
    if (tasklet->special & SPECIAL_ATOMIC)
        atomic_take_back(scheduler->tstate);
    if (tasklet->special & SPECIAL_TRACED)
        tracing_enters(tasklet);
    if (scheduler->attention & ATTEND_WATCHDOG)
        preempt_resumed(scheduler);
    scheduler->announcing = false;
}

/* The current tasklet has set its own tempval while it ran, which only run() and switch() return: what suspends it now has
   a value of its own. May run Python code. */
static inline void
tempval_forget(Tasklet *current)
{
    if (unlikely(current->tempval != NULL && !current->raises))
        Py_CLEAR(current->tempval);
}

/* The current tasklet runs again: take what it was woken with. 0 with *value owned (NULL when there is none), or -1 with
   the exception that was meant for it set. What the one before left to be dropped is dropped here, after the value is
   safe: whatever that runs can no longer touch it. */
static inline __attribute__((always_inline)) int
scheduler_resumed(Scheduler *scheduler, Tasklet *tasklet, PyObject **value)
{
    PyObject *got = tasklet->tempval;
    bool raises = tasklet->raises;
    tasklet->tempval = NULL;
    tasklet->raises = false;
    if (unlikely((scheduler->attention | tasklet->special) != 0))
        tasklet_returns(tasklet);
    if (unlikely(scheduler->zombie != NULL)) {
        PyObject *zombie = scheduler->zombie;
        scheduler->zombie = NULL;
        Py_DECREF(zombie);
    }
    if (unlikely(raises)) {
        error_raise(got);
        *value = NULL;
        return -1;
    }
    *value = got;
    return 0;
}

/* Switch from the current tasklet, which stays in the ring, to `to`. Inlined always, as what it calls is: a call
   in between would save all registers twice. */
static inline __attribute__((always_inline)) int
scheduler_switch(Scheduler *scheduler, Tasklet *from, Tasklet *to, PyObject **value)
{
    if (unlikely((scheduler->attention | from->special) != 0)) {
        to = scheduler_departs(scheduler, from, to);
        if (to == from)
            return scheduler_resumed(scheduler, from, value);
    }
    scheduler->current = to;
    switch_to(scheduler, from, to);
    return scheduler_resumed(scheduler, from, value);
}

/* Take the current tasklet out of the ring before it is put where it waits. Returns the one to go on with, or NULL when
   it was the last. Its reference passes to the caller. `operands`: what the collector may know of the call that waits,
   see arguments_end. */
static inline Tasklet *
scheduler_leave(Tasklet *current, PyObject *const *operands)
{
    Tasklet *next = current->next;
    current->operands = operands;
    if (unlikely(next == current)) {
        current->next = current->prev = NULL;
        return NULL;
    }
    current->prev->next = next;
    next->prev = current->prev;
    return next;
}

/* Suspend the current tasklet, which scheduler_leave took out and the caller has put where it waits. */
static inline __attribute__((always_inline)) int
scheduler_suspend(Scheduler *scheduler, Tasklet *current, Tasklet *next, PyObject **value)
{
    if (unlikely((scheduler->attention | current->special) != 0))
        next = scheduler_departs(scheduler, current, next);
    if (unlikely(next == NULL))
        next = scheduler_idle(scheduler);
    else
        scheduler->current = next;
    if (likely(next != current))
        switch_to(scheduler, current, next);
    return scheduler_resumed(scheduler, current, value);
}

/* ---- the end of a tasklet ---- */

/* The current tasklet has ended; `error` (stolen, may be NULL) is what it did not catch. Returns the next, now current. */
static Tasklet *
scheduler_finish(Scheduler *scheduler, Tasklet *dead, PyObject *error)
{
    Tasklet *next;
    if (unlikely(--scheduler->ticks <= 0) && scheduler_tick(scheduler) < 0) {
        if (error != NULL)
            PyErr_WriteUnraisable((PyObject *)dead);
        else if (PyErr_ExceptionMatches(TaskletExit)) /* killed by the hub or a signal handler: it ends anyway */
            PyErr_Clear();
        else
            error = error_take();
    }
    if (unlikely(error != NULL))
        keeper_set_error(scheduler, error);
    next = scheduler_leave(dead, NULL);
    dead->next = dead->prev = NULL;
    dead->state = TASKLET_UNBOUND;
    if (unlikely(error != NULL && next != NULL && ring_holds(scheduler_keeper(scheduler))))
        next = scheduler_keeper(scheduler); /* it raises the error at once; the others stay in their order */
    if (unlikely((scheduler->attention | dead->special) != 0)) {
        next = scheduler_departs(scheduler, dead, next);
        dead->special = 0;
        dead->atomic = 0;
        dead->atomic_flag = false;
    }
    if (likely(next != NULL))
        scheduler->current = next;
    assert(scheduler->zombie == NULL);
    scheduler->zombie = (PyObject *)dead;
    return likely(next != NULL) ? next : scheduler_idle(scheduler);
}

static inline void
started_add(Scheduler *scheduler, Tasklet *tasklet)
{
    tasklet->started_prev = NULL;
    tasklet->started_next = scheduler->started;
    if (scheduler->started != NULL)
        scheduler->started->started_prev = tasklet;
    scheduler->started = tasklet;
}

static inline void
started_remove(Scheduler *scheduler, Tasklet *tasklet)
{
    if (tasklet->started_prev != NULL)
        tasklet->started_prev->started_next = tasklet->started_next;
    else
        scheduler->started = tasklet->started_next;
    if (tasklet->started_next != NULL)
        tasklet->started_next->started_prev = tasklet->started_prev;
}

static PyObject *error_handler; /* of set_error_handler; NULL: none */

/* Give what the current tasklet did not catch (stolen) to the error handler. NULL, or the error that goes to the keeper. */
static PyObject *
error_handle(PyObject *error)
{
    PyObject *handler = Py_NewRef(error_handler), *traceback = PyException_GetTraceback(error);
    PyObject *result = PyObject_CallFunctionObjArgs(handler, (PyObject *)Py_TYPE(error), error,
                                                    traceback != NULL ? traceback : Py_None, NULL);
    Py_XDECREF(traceback);
    Py_DECREF(handler);
    Py_DECREF(error);
    Py_XDECREF(result);
    error = result == NULL ? error_take() : NULL;
    if (error != NULL && PyErr_GivenExceptionMatches(error, TaskletExit)) /* killed inside the handler */
        Py_CLEAR(error);
    return error;
}

static Tasklet *
tasklet_main(Scheduler *scheduler, Tasklet *tasklet)
{
    PyObject *result = NULL, *error = NULL, *value, *function, *args, *kwargs;
    started_add(scheduler, tasklet);

    /* An exception thrown into a tasklet that has not run yet: it never runs at all. */
    if (likely(scheduler_resumed(scheduler, tasklet, &value) == 0) &&
        likely(switch_body_begin(scheduler, tasklet) == 0)) {
        Py_XDECREF(value); /* a tempval that nothing receives */
        if (tasklet->kwargs == NULL)
            result = PyObject_Vectorcall(tasklet->function, ((PyTupleObject *)tasklet->args)->ob_item,
                                         (size_t)PyTuple_GET_SIZE(tasklet->args), NULL);
        else
            result = PyObject_Call(tasklet->function, tasklet->args, tasklet->kwargs);
        if (unlikely(result == NULL))
            error = error_take();
        switch_body_done(scheduler);
    } else
        error = error_take();
    if (error != NULL && PyErr_GivenExceptionMatches(error, TaskletExit))
        Py_CLEAR(error);
    if (unlikely(error != NULL && error_handler != NULL))
        error = error_handle(error);

    /* All that can run code is dropped while this tasklet is still the current one. */
    function = tasklet->function;
    args = tasklet->args;
    kwargs = tasklet->kwargs;
    tasklet->function = tasklet->args = tasklet->kwargs = NULL;
    Py_XDECREF(result);
    Py_XDECREF(function);
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    Py_CLEAR(tasklet->context);
    if (unlikely(tasklet->scope != NULL))
        scope_left(tasklet);
    tempval_forget(tasklet);
    if (unlikely(tasklet->special & SPECIAL_TRACED)) {
        tracing_leaves(tasklet);
        tasklet->special &= (uint8_t)~SPECIAL_TRACED;
        Py_CLEAR(tasklet->tracing[0]);
        Py_CLEAR(tasklet->tracing[1]);
    }

    started_remove(scheduler, tasklet);
    return scheduler_finish(scheduler, tasklet, error);
}
