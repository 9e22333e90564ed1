/* Timers, the hub, and what happens when no tasklet of a thread can run.

   There is no hub tasklet. When the last runnable tasklet blocks, scheduler_idle sleeps on its C stack until something
   (a timer, a descriptor, another thread) has made a tasklet runnable. */

#ifndef TICKS
#define TICKS 256           /* switches between two looks at the clock, at most */
#endif
#define TICKS_OF_WORK 16    /* what the first run of a tasklet and a wait for the outside count for: fifty that each begin with a request take 10 ms */
#define BEGINS 16           /* tasklets that begin between two looks at their pace, at most */
#ifndef TICK_NS
#define TICK_NS 1000000     /* how often timers and the hub are looked at while tasklets run */
#endif
#define DEADLOCK_NS 250000000 /* between two looks for a deadlock that another thread's end may cause */
#define DEADLOCK_DOUBLINGS 6 /* then they become rarer: many threads that wait for each other must not keep the machine busy */
#define DEADLOCK_SOON 2 /* so many looks come before, 1 and 16 ms later */
#define DEADLOCK_TELL 4 /* after so many looks, 0.77 s, it is logged that a wait goes on which nothing is known to end */

static PyObject *deadlock_error(Scheduler *scheduler);
static int deadlock_log(Scheduler *scheduler, int foreign);
static bool signals_may_wake(void);
static int scope_fires(Scheduler *scheduler, Tasklet *tasklet, int64_t now);

/* Let the next look come after so many more switches, and count those before: nothing else counts them. */
static inline void
ticks_set(Scheduler *scheduler, int ticks)
{
    scheduler->ticks_before += scheduler->ticks_given - scheduler->ticks;
    scheduler->ticks = scheduler->ticks_given = ticks;
}

/* How often the thread's tasklets have come to where others may run, about as often as it has switched. */
static inline int64_t
ticks_counted(Scheduler *scheduler)
{
    return scheduler->ticks_before + scheduler->ticks_given - scheduler->ticks;
}

/* So many tasklets may begin before the next look. */
static inline void
begins_set(Scheduler *scheduler, int begins)
{
    scheduler->begins = scheduler->begins_full = begins;
}

/* How long tasklets take that begin from now on is not known. */
static inline void
begins_forget(Scheduler *scheduler)
{
    begins_set(scheduler, 1);
    scheduler->began = 0;
}

/* A tasklet begins: look at how long those before it have taken. Sixteen may begin between two looks of hub_tick, and where each is a client that
   reads its library's files for 150 ms first, that look is to come with the next. May run Python code; -1 with an exception set. */
static __attribute__((noinline)) int
begins_look(Scheduler *scheduler)
{
    int64_t now = unlikely(clock_now != NULL) ? clock_ns() : monotonic_ns(), began = scheduler->began, passed = now - began;
    if (now < 0)
        return -1;
    scheduler->began = now;
    if (began != 0 && passed < TICK_NS / 2)
        begins_set(scheduler, scheduler->begins_full < BEGINS ? 2 * scheduler->begins_full : BEGINS);
    else if (began == 0 || passed <= 2 * TICK_NS)
        scheduler->begins = scheduler->begins_full;
    else {
        begins_set(scheduler, 1);
        ticks_set(scheduler, 1);
    }
    return 0;
}

/* The current tasklet does what takes far longer than a switch: let the next look come earlier. */
static inline void
ticks_spend(Scheduler *scheduler)
{
    scheduler->ticks -= TICKS_OF_WORK - 1;
    scheduler->ticks_before -= TICKS_OF_WORK - 1;
}

/* Wake whose time has come: those run before the tasklets that are runnable already, in the order of their times. A timer would else be late by
   the time that all of these run. They get every second switch at most, so that timers which come faster than their tasklets work hold up
   no tasklet for good: those for which none is left go to the end. -1 with an exception set. */
static int
timers_fire(Scheduler *scheduler)
{
    int fired;
    if (scheduler->timer_count == 0)
        return 0;
    int64_t now = clock_ns();
    if (now < 0)
        return -1;
    if (scheduler->timers[0].when > now)
        return 0;
    int64_t switched = ticks_counted(scheduler), spare = switched - scheduler->fired_at;
    Tasklet *last = NULL;
    if (spare > 2 * TICKS)
        spare = 2 * TICKS;
    while (scheduler->timer_count > 0 && scheduler->timers[0].when <= now) {
        Tasklet *tasklet = scheduler->timers[0].tasklet;
        bool first = scheduler->timers[0].when != TIMER_YIELDS;
        if (unlikely(tasklet->scope != NULL) && (fired = scope_fires(scheduler, tasklet, now)) != 0) {
            if (fired < 0)
                return -1;
            continue;
        }
        tasklet->timed_out = true;
        scheduler_wake(tasklet);
        if (first && spare > 1 && !scheduler->idle) {
            ring_move(last != NULL ? last->next : scheduler->current->next, tasklet);
            last = tasklet;
            spare -= 2;
        }
    }
    scheduler->fired_at = switched - spare;
    return 0;
}

/* Call the hub's poll with `timeout` in ns (-1: until something happens). May run Python code; no tasklet may switch. */
static int
hub_poll(Scheduler *scheduler, int64_t timeout)
{
    int failed;
    scheduler->polling = true;
    sleeping_set(scheduler, timeout != 0);
    scheduler->hub->alone = scheduler->tasklets == 1;
    failed = scheduler->hub->poll(scheduler->hub, timeout);
    sleeping_set(scheduler, false);
    scheduler->polling = false;
    return failed;
}

/* Sleep with the GIL released until another thread rings, a signal comes or `timeout` ns have passed (-1: for ever). */
static int
doorbell_wait(Scheduler *scheduler, int64_t timeout)
{
    PY_TIMEOUT_T limit = timeout < 0 ? -1 : (timeout + 999) / 1000;
    PyLockStatus status;
    sleeping_set(scheduler, true);
    PyThreadState *tstate = gil_leave();
    status = PyThread_acquire_lock_timed(scheduler->doorbell, limit, 1);
    gil_return(tstate);
    if (!scheduler->sleeping && status != PY_LOCK_ACQUIRED) /* rung as the time ran out: take it, it must stay held */
        PyThread_acquire_lock(scheduler->doorbell, NOWAIT_LOCK);
    sleeping_set(scheduler, false);
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
   another thread's free will can wake a tasklet, look again now and then whether that thread still lives; `looked`: how often
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
    int failed = scheduler->hub != NULL ? hub_poll(scheduler, timeout) : doorbell_wait(scheduler, timeout);
    scheduler->looked = scheduler->last_tick = monotonic_ns(); /* the pace of switches has nothing to do with the time asleep */
    begins_forget(scheduler);
    return failed;
}

/* While tasklets run: look at timers and hub about every millisecond, so that a loop of schedule() starves no wait. The
   number of switches between two looks at the clock follows how long they take. May run Python code; -1 with an
   exception set. */
static __attribute__((noinline)) int
hub_tick(Scheduler *scheduler)
{
    if (scheduler->idle || scheduler->polling)
        return 0;
    scheduler->looked = monotonic_ns();
    if (scheduler->timer_count == 0 && scheduler->hub == NULL)
        return 0;
    int64_t now = unlikely(clock_now != NULL) ? clock_ns() : scheduler->looked, passed = now - scheduler->last_tick;
    if (now < 0)
        return -1;
    if (passed >= 0 && passed < TICK_NS) { /* a test's clock may have stood later than the machine's */
        if (passed < TICK_NS / 2 && scheduler->ticks_full < TICKS)
            ticks_set(scheduler, scheduler->ticks_full *= 2);
        return 0;
    }
    scheduler->last_tick = now;
    if (passed > 2 * TICK_NS && scheduler->ticks_full > 1) {
        int64_t ticks = scheduler->ticks_full * TICK_NS / passed;
        ticks_set(scheduler, scheduler->ticks_full = ticks > 1 ? (int)ticks : 1);
    }
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
    ticks_set(scheduler, scheduler->ticks_full);
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

static Py_ssize_t service_threads; /* threads of roamlet's own, which wake no tasklet by themselves */

static unsigned long watcher_ident; /* what a thread state of the watchdog's thread has as thread_id; 0: it does not run */

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

/* Nothing that roamlet knows of can wake any tasklet: main gets Deadlock; or it waits, because a thread that C code has started may call
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

/* No tasklet can run: sleep until one can, and make it current. Runs Python code (the hub's, signal handlers'); what they
   raise goes to the keeper. When only the keeper's run() waits, that returns; when nothing can ever wake any tasklet, the
   keeper raises Deadlock. */
static __attribute__((noinline)) Tasklet *
scheduler_idle(Scheduler *scheduler)
{
    int looked = 0;
    bool told = false;
    scheduler->idle = true;
    scheduler->first = NULL;
    scheduler->current->since = scheduler->looked = monotonic_ns();
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
                } else if (verdict == VERDICT_TELL) { /* what that runs may have woken a tasklet */
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
    if (unlikely(scheduler->trace != NULL))
        trace_goes_on(scheduler);
    return scheduler->current;
}
