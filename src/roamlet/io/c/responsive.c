/* roamlet.responsive(): a shorter switch interval while a hub competes for the GIL with threads that compute.

   A thread that wants the GIL waits a switch interval (5 ms) before it asks for it. So a hub that slept sees how long it took to
   come back, and only one that asked for responsiveness, beside other threads, and had to wait, changes anything. The interval
   goes back as soon as nothing of that is true any more; a hub that has nothing to do looks after that before it sleeps on. */

#define RESPONSIVE_SECONDS 0.0005   /* the interval meanwhile */
#define RESPONSIVE_CALM_NS 50000000 /* the time without that after which no thread computes any more, or nothing comes in */

static int responsive_asked;       /* how many want it */
static bool responsive_lowered;    /* the interval is ours */
static double responsive_before;   /* what it was, in seconds */
static int64_t responsive_last;    /* when a hub last had to wait */

static PyObject *switch_getter, *switch_setter; /* of sys */

/* The interval in seconds; -1 with an exception set. */
static double
switch_interval(void)
{
    PyObject *seconds = PyObject_CallNoArgs(switch_getter);
    double value = seconds != NULL ? PyFloat_AsDouble(seconds) : -1;
    Py_XDECREF(seconds);
    return value;
}

/* -1 with an exception set, else 0. */
static int
switch_set(double seconds)
{
    PyObject *value = PyFloat_FromDouble(seconds), *result = value != NULL ? PyObject_CallOneArg(switch_setter, value) : NULL;
    Py_XDECREF(value);
    Py_XDECREF(result);
    return result != NULL ? 0 : -1;
}

/* Give the interval back, unless another one was set meanwhile: that one stays. */
static int
responsive_give_back(void)
{
    double now = switch_interval();
    responsive_lowered = false;
    if (now < 0)
        return -1;
    return now > RESPONSIVE_SECONDS * 0.99 && now < RESPONSIVE_SECONDS * 1.01 ? switch_set(responsive_before) : 0;
}

/* Take the interval, unless it is short already. */
static int
responsive_take(void)
{
    responsive_before = switch_interval();
    if (responsive_before < 0)
        return -1;
    if (responsive_before <= RESPONSIVE_SECONDS)
        return 0;
    if (switch_set(RESPONSIVE_SECONDS) < 0)
        return -1;
    responsive_lowered = true;
    return 0;
}

/* Call one of the two above. Events may wait to be delivered, and an exception to be raised: nothing comes in between. */
static void
responsive_call(int (*change)(void))
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (change() < 0)
        PyErr_WriteUnraisable(switch_setter);
    PyErr_Restore(type, value, traceback);
}

static void
responsive_restore(void)
{
    if (responsive_lowered)
        responsive_call(responsive_give_back);
}

/* How long a hub may sleep: while the interval is ours, it looks after that. */
static inline int64_t
responsive_limit(int64_t timeout)
{
    return unlikely(responsive_lowered) && (timeout < 0 || timeout > RESPONSIVE_CALM_NS) ? RESPONSIVE_CALM_NS + 1000000 : timeout;
}

/* A hub has slept. `crowded`: it had to wait for the GIL; not when it had only got up to look after the interval. */
static void
responsive_slept(bool crowded)
{
    if (likely(responsive_asked == 0))
        return;
    int64_t now = monotonic_ns();
    if (!crowded) {
        if (now - responsive_last > RESPONSIVE_CALM_NS)
            responsive_restore();
        return;
    }
    responsive_last = now;
    if (!responsive_lowered)
        responsive_call(responsive_take);
}

static PyObject *
io_set_responsive(PyObject *Py_UNUSED(module), PyObject *on)
{
    int wanted = PyObject_IsTrue(on);
    if (wanted < 0)
        return NULL;
    if (!wanted && responsive_asked == 0)
        return PyErr_Format(PyExc_RuntimeError, "roamlet.responsive() was not on: each end needs a beginning");
    responsive_asked += wanted ? 1 : -1;
    if (responsive_asked == 0)
        responsive_restore();
    Py_RETURN_NONE;
}
