/* Starting, reading and ending the recording of trace_events.c, from Python. One trace is taken at a time. */

#define TRACE_THREADS 64 /* how many rings there are, for the threads that began last */

/* Record nothing more; rings and table stay as they are. */
static void
trace_halt(void)
{
    for (Scheduler *s = schedulers; s != NULL; s = s->registered_next)
        trace_detach(s);
    channel_attention &= ~(unsigned)CHANNEL_TRACE;
}

/* Free the table of places and drop what it refers to. May run code: nothing may be recorded any more. */
static void
trace_free(TraceRing *rings, TracePlace *places, PyObject *internal)
{
    while (rings != NULL) {
        TraceRing *next = rings->next;
        PyMem_RawFree(rings);
        rings = next;
    }
    for (uint32_t i = 0; places != NULL && i < 2 * TRACE_PLACES; i++)
        Py_XDECREF(places[i].object);
    PyMem_RawFree(places);
    Py_XDECREF(internal);
}

static PyObject *
core_trace_start(PyObject *Py_UNUSED(module), PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"internal", "events", NULL};
    PyObject *internal;
    unsigned int events, capacity = 1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "UI:trace_start", names, &internal, &events))
        return NULL;
    if (events < 16 || events > 1u << 24)
        return PyErr_Format(PyExc_ValueError, "trace_start(events=%u): a thread's buffer has room for 16 to 16777216 events", events);
    if (trace.places != NULL)
        return PyErr_Format(PyExc_RuntimeError, "a trace is being taken already: this process records one at a time");
    if (scheduler_get() == NULL)
        return NULL;
    while (capacity < events)
        capacity *= 2;
    trace.places = PyMem_RawCalloc(2 * TRACE_PLACES, sizeof(TracePlace));
    if (trace.places == NULL)
        return PyErr_NoMemory();
    trace.rings = NULL;
    trace.place_count = 0;
    trace.places_missed = trace.lost = 0;
    trace.capacity = capacity;
    trace.ring_count = 0;
    trace.ring_limit = TRACE_THREADS;
    trace.internal = Py_NewRef(internal);
    trace.started = monotonic_ns();
    trace_base = trace_last;
    for (Scheduler *s = schedulers; s != NULL; s = s->registered_next) {
        s->meeting = false;
        trace_thread(s);
    }
    channel_attention |= CHANNEL_TRACE;
    Py_RETURN_NONE;
}

/* (number, label, thread's id) of a tasklet that lives: a new tuple, or NULL. May run Python code. */
static PyObject *
trace_living(Tasklet *tasklet)
{
    PyObject *label = trace_label(tasklet);
    unsigned long thread = tasklet->scheduler->tstate != NULL ? tasklet->scheduler->tstate->thread_id : 0;
    if (PyErr_Occurred()) {
        Py_XDECREF(label);
        return NULL;
    }
    if (label == NULL)
        label = Py_NewRef(Py_None);
    return Py_BuildValue("(kNkO)", (unsigned long)tasklet->trace_id, label, thread, tasklet == tasklet->scheduler->main ? Py_True : Py_False);
}

/* All tasklets that live and are in the trace: a new list of them, in no order, or NULL. */
static PyObject *
trace_tasklets(void)
{
    PyObject *list = PyList_New(0);
    for (Scheduler *s = schedulers; list != NULL && s != NULL; s = s->registered_next) {
        Tasklet *start = s->idle ? s->first : s->current;
        if (s->main->trace_id > trace_base && PyList_Append(list, (PyObject *)s->main) < 0)
            Py_CLEAR(list);
        for (Tasklet *t = s->started; list != NULL && t != NULL; t = t->started_next)
            if (t->trace_id > trace_base && PyList_Append(list, (PyObject *)t) < 0)
                Py_CLEAR(list);
        for (Tasklet *t = start; list != NULL && t != NULL; t = t->next == start ? NULL : t->next)
            if (t->state == TASKLET_NEW && t->trace_id > trace_base && PyList_Append(list, (PyObject *)t) < 0)
                Py_CLEAR(list);
    }
    return list;
}

/* The events of a ring, the oldest first: (thread, ended, capacity, count, bytes). A new tuple, or NULL. */
static PyObject *
trace_ring_contents(const TraceRing *ring)
{
    uint64_t kept = ring->count < ring->capacity ? ring->count : ring->capacity;
    size_t first = (size_t)((ring->count - kept) & (ring->capacity - 1)), until_end = ring->capacity - first;
    size_t head = until_end < kept ? until_end : (size_t)kept;
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(kept * sizeof(TraceEvent)));
    if (bytes == NULL)
        return NULL;
    memcpy(PyBytes_AS_STRING(bytes), ring->events + first, head * sizeof(TraceEvent));
    memcpy(PyBytes_AS_STRING(bytes) + head * sizeof(TraceEvent), ring->events, ((size_t)kept - head) * sizeof(TraceEvent));
    return Py_BuildValue("(kOIKN)", ring->thread, ring->ended ? Py_True : Py_False, (unsigned int)ring->capacity,
                         (unsigned long long)ring->count, bytes);
}

/* What one slot of the table stands for: (number, text, file, line), a type or a label without file. A new tuple, or NULL. */
static PyObject *
trace_place_contents(const TracePlace *place)
{
    unsigned int number = place->number & ~TRACE_INTERNAL;
    PyCodeObject *code = (PyCodeObject *)place->object;
    if (PyType_Check(place->object))
        return Py_BuildValue("(IsOi)", number, ((PyTypeObject *)place->object)->tp_name, Py_None, 0);
    if (PyUnicode_Check(place->object))
        return Py_BuildValue("(IOOi)", number, place->object, Py_None, 0);
    return Py_BuildValue("(IOOi)", number, code->co_qualname, code->co_filename,
                         PyCode_Addr2Line(code, place->offset * (int)sizeof(_Py_CODEUNIT)));
}

/* Append what `item` is (stolen, NULL with an exception set) to *list, which is dropped when that fails. */
static void
list_append_new(PyObject **list, PyObject *item)
{
    if (item == NULL || PyList_Append(*list, item) < 0)
        Py_CLEAR(*list);
    Py_XDECREF(item);
}

static PyObject *
core_trace_stop(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    TraceRing *rings = trace.rings;
    TracePlace *places = trace.places;
    PyObject *internal = trace.internal, *tasklets, *living, *threads = NULL, *names = NULL, *result = NULL;
    unsigned long long lost = trace.lost, missed = trace.places_missed;
    long long started = trace.started, stopped = monotonic_ns();
    if (places == NULL)
        return PyErr_Format(PyExc_RuntimeError, "trace_stop(): no trace is being taken");
    trace_halt(); /* what follows runs code */
    trace.rings = NULL;
    trace.places = NULL;
    trace.internal = NULL;
    tasklets = trace_tasklets();
    living = tasklets != NULL ? PyList_New(0) : NULL;
    for (Py_ssize_t i = 0; living != NULL && i < PyList_GET_SIZE(tasklets); i++)
        list_append_new(&living, trace_living((Tasklet *)PyList_GET_ITEM(tasklets, i)));
    if (living != NULL)
        threads = PyList_New(0);
    for (TraceRing *ring = rings; threads != NULL && ring != NULL; ring = ring->next)
        list_append_new(&threads, trace_ring_contents(ring));
    if (threads != NULL)
        names = PyList_New(0);
    for (uint32_t i = 0; names != NULL && i < 2 * TRACE_PLACES; i++)
        if (places[i].number != 0)
            list_append_new(&names, trace_place_contents(&places[i]));
    if (names != NULL)
        result = Py_BuildValue("(LLKKOOO)", started, stopped, lost, missed, threads, names, living);
    Py_XDECREF(tasklets);
    Py_XDECREF(living);
    Py_XDECREF(threads);
    Py_XDECREF(names);
    PyObject *raised = result == NULL ? error_take() : NULL;
    trace_free(rings, places, internal);
    error_restore(raised);
    return result;
}

static PyObject *
core_trace_held(PyObject *Py_UNUSED(module), PyObject *limit)
{
    PyObject *list;
    int64_t now = monotonic_ns(), longest = PyLong_AsLongLong(limit);
    int collects;
    if (longest == -1 && PyErr_Occurred())
        return NULL;
    collects = PyGC_Disable(); /* a finalizer, or a thread that runs meanwhile, could end the trace and free the rings */
    list = PyList_New(0);
    for (TraceRing *ring = trace.rings; list != NULL && ring != NULL; ring = ring->next)
        if (!ring->ended && ring->running != 0 && now - ring->since > longest)
            list_append_new(&list, Py_BuildValue("(kkL)", ring->thread, (unsigned long)ring->running, (long long)ring->since));
    if (collects)
        PyGC_Enable();
    return list;
}

static PyObject *
core_trace_current(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *tasklet = NULL;
    if (!PyArg_ParseTuple(args, "|O!:trace_current", &Tasklet_Type, &tasklet))
        return NULL;
    if (trace.places == NULL)
        return PyLong_FromLong(0);
    return PyLong_FromUnsignedLong(tasklet != NULL ? trace_id((Tasklet *)tasklet) : trace_actor());
}

PyDoc_STRVAR(trace_start_doc, "trace_start(internal, events)\n--\n\n"
"Record what the tasklets of all threads do, in a ring of so many events (rounded up to a power of two) for each thread.\n\n"
"`internal` is the folder, with its separator, whose code is passed over where the place of a wait is noted.\n"
"RuntimeError when that is done already, ValueError for events out of 16 to 16777216. For roamlet.diagnose.trace().");
PyDoc_STRVAR(trace_stop_doc, "trace_stop()\n--\n\n"
"End the recording and return it: (started, stopped, events lost with their thread's ring, places missed, threads, places,\n"
"tasklets). Times are in ns of time.monotonic_ns(). threads: (id, ended, capacity, count, bytes of the last `capacity` of\n"
"`count` events), the newest first; places: (number, name, file or None, line); tasklets that live: (number, name or None, thread\n"
"id, whether it is main). RuntimeError when nothing is being recorded.");
PyDoc_STRVAR(trace_held_doc, "trace_held(ns, /)\n--\n\n"
"The threads whose tasklet has run for longer, while a trace is taken: (thread id, tasklet's number, since when).");
PyDoc_STRVAR(trace_current_doc, "trace_current(tasklet=..., /)\n--\n\n"
"The number of a tasklet, by default of the current one, in the trace that is being taken; 0 without a trace or tasklet.");
