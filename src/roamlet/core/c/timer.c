/* The clock and the timers of a scheduler: a binary heap ordered by deadline, then by order of arrival.
   A tasklet knows its place in the heap, so that a wait that ends early is taken out at once. */

/* A clock that tests may put in place of the machine's: now() in seconds, advance(seconds) in place of sleeping. */
static PyObject *clock_now, *clock_advance;

/* ns on the monotonic clock, or on the test's. -1 with an exception set when that one fails. */
static int64_t
clock_ns(void)
{
    if (unlikely(clock_now != NULL)) {
        PyObject *seconds = PyObject_CallNoArgs(clock_now);
        double value = seconds != NULL ? PyFloat_AsDouble(seconds) : -1.0;
        Py_XDECREF(seconds);
        if (PyErr_Occurred())
            return -1;
        if (!(value >= 0.0 && value < 9e9)) {
            PyErr_SetString(PyExc_ValueError, "the clock given to set_clock() returned what is no number of seconds from 0 on");
            return -1;
        }
        return (int64_t)(value * 1e9);
    }
    return monotonic_ns();
}

static inline bool
timer_before(const Timer *a, const Timer *b)
{
    return a->when != b->when ? a->when < b->when : a->order < b->order;
}

static inline void
timer_place(Scheduler *scheduler, int index, Timer timer)
{
    scheduler->timers[index] = timer;
    timer.tasklet->timer = index;
}

static void
timer_sift(Scheduler *scheduler, int index, Timer timer)
{
    Timer *heap = scheduler->timers;
    while (index > 0 && timer_before(&timer, &heap[(index - 1) / 2])) {
        timer_place(scheduler, index, heap[(index - 1) / 2]);
        index = (index - 1) / 2;
    }
    for (int child = 2 * index + 1; child < scheduler->timer_count; child = 2 * index + 1) {
        if (child + 1 < scheduler->timer_count && timer_before(&heap[child + 1], &heap[child]))
            child++;
        if (!timer_before(&heap[child], &timer))
            break;
        timer_place(scheduler, index, heap[child]);
        index = child;
    }
    timer_place(scheduler, index, timer);
}

/* Wake `tasklet` at `when`, unless timer_cancel comes first. -1 with an exception set. */
static int
timer_start(Scheduler *scheduler, Tasklet *tasklet, int64_t when)
{
    if (scheduler->timer_count == scheduler->timer_capacity) {
        int capacity = scheduler->timer_capacity ? scheduler->timer_capacity * 2 : 16;
        Timer *grown = PyMem_Realloc(scheduler->timers, (size_t)capacity * sizeof *grown);
        if (grown == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        scheduler->timers = grown;
        scheduler->timer_capacity = capacity;
    }
    Timer timer = {when, scheduler->timer_order++, tasklet};
    timer_sift(scheduler, scheduler->timer_count++, timer);
    return 0;
}

static void
timer_cancel(Scheduler *scheduler, Tasklet *tasklet)
{
    int index = tasklet->timer;
    Timer last = scheduler->timers[--scheduler->timer_count];
    tasklet->timer = -1;
    if (last.tasklet != tasklet)
        timer_sift(scheduler, index, last);
}

/* A time-out in seconds as ns from now. Refuses what is not a number, NaN and the negative with an exception: -1. */
static int64_t
timeout_ns(PyObject *seconds, const char *what)
{
    double value = PyFloat_AsDouble(seconds);
    if (value == -1.0 && PyErr_Occurred()) {
        if (PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyErr_Format(PyExc_TypeError, "%s takes a number of seconds, not %.100s", what, Py_TYPE(seconds)->tp_name);
        }
        return -1;
    }
    if (!(value >= 0.0)) {
        PyErr_Format(PyExc_ValueError, "%s takes a number of seconds from 0 on, not %R", what, seconds);
        return -1;
    }
    return value > 9e9 ? INT64_MAX / 2 : (int64_t)(value * 1e9);
}
