/* The run queue of a thread, and waking: how tasklets enter the queue and leave it.

   The run queue is a ring, and the tasklet that runs is in it: schedule() is `current = current->next`. "The end of the
   queue" is the place before the current tasklet. Each tasklet in the ring is owned by it; moving one from the ring to
   a channel and back moves that reference. */

static void tasklet_set_error(Tasklet *tasklet, PyObject *error);

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

/* Put `tasklet` before `next`. Both are in the ring. */
static void
ring_move(Tasklet *next, Tasklet *tasklet)
{
    if (tasklet == next)
        return;
    tasklet->prev->next = tasklet->next;
    tasklet->next->prev = tasklet->prev;
    ring_link(next, tasklet);
}

/* Let `tasklet`, which is in the ring, be the next to run. */
static void
ring_move_first(Scheduler *scheduler, Tasklet *tasklet)
{
    if (tasklet != scheduler->current || scheduler->idle)
        ring_move(scheduler->idle ? scheduler->first : scheduler->current->next, tasklet);
    if (scheduler->idle)
        scheduler->first = tasklet;
}

static inline bool
ring_holds(Tasklet *tasklet)
{
    return tasklet->next != NULL && tasklet->blocked == NOT_BLOCKED;
}

/* ---- waking ---- */

static inline void
sleeping_set(Scheduler *scheduler, bool sleeping)
{
    __atomic_store_n(&scheduler->sleeping, sleeping, __ATOMIC_RELAXED);
}

/* Another thread made something runnable here: end this thread's sleep. Runs no Python code. */
static __attribute__((noinline)) void
scheduler_ring(Scheduler *scheduler)
{
    uint64_t one = 1;
    sleeping_set(scheduler, false);
    if (scheduler->hub == NULL)
        PyThread_release_lock(scheduler->doorbell);
    else if (write(scheduler->hub->wake_fd, &one, sizeof one) < 0 && errno != EAGAIN)
        Py_FatalError("roamlet: cannot write to a hub's eventfd");
}

/* Take `tasklet` out of the queue it is in. Its reference passes to the caller. */
static void
queue_remove(RoamletQueue *queue, Tasklet *tasklet)
{
    *(tasklet->prev != NULL ? (void **)&tasklet->prev->next : &queue->head) = tasklet->next;
    *(tasklet->next != NULL ? (void **)&tasklet->next->prev : &queue->tail) = tasklet->prev;
    tasklet->next = tasklet->prev = NULL;
    tasklet->queue = NULL;
}

/* The tasklet's wait is no longer bounded by a scope's deadline. */
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
    if (unlikely(scheduler->trace != NULL))
        trace_wakes(tasklet);
    if (unlikely(scheduler->sleeping))
        scheduler_ring(scheduler);
}

/* The tasklet that answers for the thread when none can run, and gets the errors that no other one is to get: the one in the innermost
   run(), else main, or in a forked child the tasklet that has forked. */
static inline Tasklet *
scheduler_keeper(Scheduler *scheduler)
{
    if (scheduler->runs != NULL)
        return scheduler->runs;
    return likely(scheduler->heir == NULL) ? scheduler->main : scheduler->heir;
}

/* An error that no other tasklet is to get: the keeper raises it, wherever it waits. Steals error. May run Python code. */
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
