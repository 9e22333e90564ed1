/* Events from the interpreter on 3.12 and later: sys.monitoring.

   Only LOCAL events, on single code objects, report instructions. Those are in the code itself, so that they serve every
   frame that runs it, suspended ones too, and can be taken back from all of them. GLOBAL events would be in the code of
   frames that run now and of code that is entered later; a suspended frame goes on without entering, which is the one place
   where the interpreter looks whether its instructions are of date: it would miss the events when they are set, keep sending
   them when they are cleared, and abort a debug build.

   While opcodes are counted, code that is entered is found by the global events of entering. Those stand only in the
   instruction that looks for itself. Global events are changed only while no local ones are set, and not for ever: after
   WATCH_CHANGES of them they stay, and with them the tool id, which then costs each call of a Python function some 20 ns. */
#if WATCH_BY_MONITORING

/* What of sys.monitoring is used, fetched when first needed and kept. */
enum { GET_TOOL, USE_TOOL_ID, FREE_TOOL_ID, REGISTER_CALLBACK, SET_EVENTS, SET_LOCAL_EVENTS, FUNCTIONS };
static const char *const monitoring_names[FUNCTIONS] = {"get_tool", "use_tool_id", "free_tool_id", "register_callback", "set_events",
                                                        "set_local_events"};
static PyObject *monitoring[FUNCTIONS];

enum { EVENT_INSTRUCTION, EVENT_START, EVENT_RESUME, EVENT_THROW, EVENTS };
static const char *const event_names[EVENTS] = {"INSTRUCTION", "PY_START", "PY_RESUME", "PY_THROW"};
static long event_bits[EVENTS];
static PyObject *event_callbacks[EVENTS];

/* One tool id serves all threads. It is held while any thread counts or waits for an interrupt. */
static struct {
    int tool;     /* -1: none is held */
    int counters; /* schedulers that count */
    int users;    /* and those with an expired slice; one more if the global events stay */
    int64_t changes; /* of global events, so far */
    bool stay;    /* global events are no longer cleared */
    PyCodeObject **codes; /* owned: with local events. One that nothing else refers to is dropped when the list grows */
    Py_ssize_t count, capacity;
} events = {.tool = -1};

static PyObject *events_instruction(PyObject *self, PyObject *const *args, Py_ssize_t count);
static PyObject *events_entered(PyObject *self, PyObject *const *args, Py_ssize_t count);
static PyObject *events_thrown(PyObject *self, PyObject *const *args, Py_ssize_t count);
static PyMethodDef events_methods[EVENTS] = {
    {"instruction", (PyCFunction)(void (*)(void))events_instruction, METH_FASTCALL, NULL},
    {"entered", (PyCFunction)(void (*)(void))events_entered, METH_FASTCALL, NULL},
    {"entered", (PyCFunction)(void (*)(void))events_entered, METH_FASTCALL, NULL},
    {"thrown", (PyCFunction)(void (*)(void))events_thrown, METH_FASTCALL, NULL},
};

static int
events_init(void)
{
    PyObject *module = PySys_GetObject("monitoring"), *names = NULL; /* borrowed, owned */
    if (monitoring[FUNCTIONS - 1] != NULL)
        return 0;
    if (module == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "sys.monitoring is gone: roamlet needs it to interrupt tasklets");
        return -1;
    }
    names = PyObject_GetAttrString(module, "events");
    for (int i = 0; i < EVENTS && names != NULL; i++) {
        PyObject *bit = PyObject_GetAttrString(names, event_names[i]);
        event_bits[i] = bit != NULL ? PyLong_AsLong(bit) : -1;
        Py_XDECREF(bit);
        if (event_callbacks[i] == NULL)
            event_callbacks[i] = PyCFunction_New(&events_methods[i], NULL);
        if (event_bits[i] < 0 || event_callbacks[i] == NULL)
            Py_CLEAR(names);
    }
    for (int i = 0; i < FUNCTIONS && names != NULL; i++) {
        monitoring[i] = PyObject_GetAttrString(module, monitoring_names[i]);
        if (monitoring[i] == NULL)
            Py_CLEAR(names);
    }
    if (names == NULL)
        return -1;
    Py_DECREF(names);
    return 0;
}

/* Call a function of sys.monitoring with the tool id and up to two more arguments, borrowed. 0, or -1 with an exception set. */
static int
events_call(int function, long tool, PyObject *second, PyObject *third)
{
    PyObject *args[3] = {PyLong_FromLong(tool), second, third}, *result;
    if (args[0] == NULL)
        return -1;
    result = PyObject_Vectorcall(monitoring[function], args, (size_t)1 + (second != NULL) + (third != NULL), NULL);
    Py_DECREF(args[0]);
    Py_XDECREF(result);
    return result != NULL ? 0 : -1;
}

static int
events_call_bits(int function, int tool, PyObject *code, long bits)
{
    PyObject *number = PyLong_FromLong(bits);
    int failed = number == NULL ? -1 : events_call(function, tool, code != NULL ? code : number, code != NULL ? number : NULL);
    Py_XDECREF(number);
    return failed;
}

static int
events_callback(int event, int tool, PyObject *callback)
{
    PyObject *bit = PyLong_FromLong(event_bits[event]);
    int failed = bit == NULL ? -1 : events_call(REGISTER_CALLBACK, tool, bit, callback);
    Py_XDECREF(bit);
    return failed;
}

/* ---- the tool id ---- */

/* The numbers without a meaning of their own first: 0 is for debuggers, 1 for coverage, 2 for profilers, 5 for optimisers. */
static const int events_tools[] = {4, 3, 5, 2, 0, 1};
#define TOOLS ((int)(sizeof events_tools / sizeof events_tools[0]))

/* The name of the tool's user: a new reference, None when it is free, NULL with an exception set. */
static PyObject *
events_tool_owner(int tool)
{
    PyObject *number = PyLong_FromLong(tool), *owner = number != NULL ? PyObject_CallOneArg(monitoring[GET_TOOL], number) : NULL;
    Py_XDECREF(number);
    return owner;
}

static void
events_none_free(void)
{
    PyObject *owners = PyList_New(0);
    for (int tool = 0; tool < TOOLS && owners != NULL; tool++) {
        PyObject *owner = events_tool_owner(tool);
        if (owner == NULL || PyList_Append(owners, owner) < 0)
            Py_CLEAR(owners);
        Py_XDECREF(owner);
    }
    if (owners == NULL)
        return;
    PyErr_Format(PyExc_RuntimeError,
                 "roamlet cannot interrupt tasklets: all six tool ids of sys.monitoring are taken, by %R, and it needs one while it does. "
                 "Release one with sys.monitoring.free_tool_id(), or call run() without a time-out and without slices", owners);
    Py_DECREF(owners);
}

/* A tool id that is free; -1 with an exception set. */
static int
events_free_tool(void)
{
    for (int i = 0; i < TOOLS; i++) {
        PyObject *owner = events_tool_owner(events_tools[i]);
        if (owner == NULL)
            return -1;
        Py_DECREF(owner);
        if (owner == Py_None)
            return events_tools[i];
    }
    events_none_free();
    return -1;
}

/* One more needs events. -1 with an exception set. */
static int
events_acquire(void)
{
    PyObject *name;
    int failed;
    if (events_init() < 0)
        return -1;
    if (events.users > 0) {
        events.users++;
        return 0;
    }
    events.tool = events_free_tool();
    if (events.tool < 0)
        return -1;
    name = PyUnicode_FromString("roamlet");
    failed = name == NULL ? -1 : events_call(USE_TOOL_ID, events.tool, name, NULL);
    Py_XDECREF(name);
    if (failed) {
        events.tool = -1;
        return -1;
    }
    events.users = 1;
    if (events_callback(EVENT_INSTRUCTION, events.tool, event_callbacks[EVENT_INSTRUCTION]) == 0)
        return 0;
    events.users = 0;
    (void)events_call(FREE_TOOL_ID, events.tool, NULL, NULL);
    events.tool = -1;
    return -1;
}

/* ---- local events ---- */

/* Room for one more code object. Those that only this list keeps are dropped, so that it does not grow with the number of
   functions ever run. May run Python code (weakref callbacks), last. */
static int
events_reserve(void)
{
    Py_ssize_t live = 0, dead = 0, capacity = 64;
    PyCodeObject **old = events.codes, **list;
    for (Py_ssize_t i = 0; i < events.count; i++)
        live += Py_REFCNT(old[i]) > 1;
    while (capacity < 2 * live)
        capacity *= 2;
    list = PyMem_Malloc((size_t)capacity * sizeof(PyCodeObject *));
    if (list == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    live = 0;
    for (Py_ssize_t i = 0; i < events.count; i++) {
        if (Py_REFCNT(old[i]) > 1)
            list[live++] = old[i];
        else
            old[dead++] = old[i];
    }
    events.codes = list;
    events.count = live;
    events.capacity = capacity;
    while (dead > 0)
        Py_DECREF(old[--dead]);
    PyMem_Free(old);
    return 0;
}

/* Be told of each instruction of this code, in whichever frame and thread. -1 with an exception set. */
static int
events_arm_code(PyCodeObject *code)
{
    if (likely(watch_code_armed(code, events.tool)))
        return 0;
    if (unlikely(events.count == events.capacity) && events_reserve() < 0)
        return -1;
    if (events_call_bits(SET_LOCAL_EVENTS, events.tool, (PyObject *)code, event_bits[EVENT_INSTRUCTION]) < 0)
        return -1;
    if (unlikely(events.count == events.capacity) && events_reserve() < 0)
        return -1;
    events.codes[events.count++] = (PyCodeObject *)Py_NewRef((PyObject *)code);
    return 0;
}

/* Code objects to let go of after their events were taken back, when all else is settled: it may run Python code (weakref
   callbacks), in which another thread may begin to count. */
typedef struct {
    PyCodeObject **list; /* owned, with what is in it */
    Py_ssize_t count;
} CodeList;

static void
codes_drop(CodeList codes)
{
    while (codes.count > 0)
        Py_DECREF(codes.list[--codes.count]);
    PyMem_Free(codes.list);
}

/* No local events any more. Cannot fail. The caller drops what is returned. */
static CodeList
events_clear_local(int tool)
{
    CodeList codes = {events.codes, events.count};
    events.codes = NULL;
    events.count = events.capacity = 0;
    for (Py_ssize_t i = 0; i < codes.count; i++) {
        if (events_call_bits(SET_LOCAL_EVENTS, tool, (PyObject *)codes.list[i], 0) < 0)
            PyErr_WriteUnraisable((PyObject *)codes.list[i]);
    }
    return codes;
}

/* One less needs events; the last gives the tool id back. May run Python code. */
static void
events_release(void)
{
    int tool = events.tool;
    CodeList codes;
    if (--events.users > events.stay)
        return;
    codes = events_clear_local(tool);
    if (events.stay) {
        codes_drop(codes);
        return;
    }
    events.tool = -1; /* who needs one meanwhile takes another */
    if (events_callback(EVENT_INSTRUCTION, tool, Py_None) < 0 || events_call(FREE_TOOL_ID, tool, NULL, NULL) < 0)
        PyErr_WriteUnraisable(NULL);
    codes_drop(codes);
}

/* Watch the code of all frames of a thread's running chain, or of as many as `limit` new ones. */
static int
events_arm_chain(PyThreadState *tstate, Py_ssize_t limit)
{
    WatchFrame *frame = tstate_frame(tstate);
    for (; frame != NULL && limit > 0; frame = frame->previous) {
        PyCodeObject *code = watch_frame_code(frame);
        if (code == NULL || watch_code_armed(code, events.tool))
            continue;
        if (events_arm_code(code) < 0)
            return -1;
        limit--;
    }
    return 0;
}

#ifdef Py_DEBUG

/* A debug build aborts when a frame goes on with events of others in code that is older than the last change of global
   events. CPython renews the code of frames that run; this renews that of suspended ones, whose frame is stolen. */
static void
events_renew_chain(PyObject *frame)
{
    while (frame != NULL && PyFrame_Check(frame)) {
        PyCodeObject *code = PyFrame_GetCode((PyFrameObject *)frame);
        PyObject *back = (PyObject *)PyFrame_GetBack((PyFrameObject *)frame);
        if (code->_co_monitoring != NULL &&
            (events_call_bits(SET_LOCAL_EVENTS, events.tool, (PyObject *)code, event_bits[EVENT_INSTRUCTION]) < 0 ||
             events_call_bits(SET_LOCAL_EVENTS, events.tool, (PyObject *)code, 0) < 0))
            PyErr_WriteUnraisable((PyObject *)code);
        Py_DECREF(code);
        Py_DECREF(frame);
        frame = back;
    }
    Py_XDECREF(frame);
}

static void
events_renew(void)
{
    for (Scheduler *s = schedulers; s != NULL; s = s->registered_next) {
        for (Tasklet *t = s->started; t != NULL; t = t->started_next)
            if (t != s->current)
                events_renew_chain(switch_frame(t));
        if (s->main != s->current)
            events_renew_chain(switch_frame(s->main));
    }
    PyErr_Clear();
}

#else

static inline void
events_renew(void)
{
}

#endif

/* ---- callbacks ---- */

static PyObject *
events_instruction(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Scheduler *scheduler = this_scheduler;
    (void)self;
    (void)args;
    (void)count;
    if (likely(preempt_concerns(scheduler))) {
        Preempt *preempt = &scheduler->preempt;
        if (likely(preempt->left > 0 && !preempt->expired))
            preempt->left--;
        else if ((preempt->counting || preempt->expired) && preempt_expire(scheduler) < 0)
            return NULL;
    }
    Py_RETURN_NONE;
}

/* A frame begins or a generator goes on. Its first instruction, RESUME, has this event and no other; from the next on there
   are local ones. */
static PyObject *
events_entered(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Scheduler *scheduler = this_scheduler;
    if (!preempt_concerns(scheduler) || !scheduler->preempt.counting)
        Py_RETURN_NONE;
    if (events_arm_code((PyCodeObject *)args[0]) < 0)
        return NULL;
    return events_instruction(self, args, count);
}

/* throw() into a generator enters it without an instruction. */
static PyObject *
events_thrown(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Scheduler *scheduler = this_scheduler;
    (void)self;
    (void)count;
    if (preempt_concerns(scheduler) && scheduler->preempt.counting && events_arm_code((PyCodeObject *)args[0]) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* ---- the source ---- */

/* Whether events could be had now: 0, or -1 with an exception set. */
static int
source_check(void)
{
    return events_init() < 0 || (events.users == 0 && events_free_tool() < 0) ? -1 : 0;
}

/* Count in this thread. -1 with an exception set. */
static int
source_count(Scheduler *scheduler)
{
    CodeList codes;
    (void)scheduler;
    if (events_acquire() < 0)
        return -1;
    if (events.counters++ > 0 || events.stay)
        return 0;
    events.changes++;
    codes = events_clear_local(events.tool); /* of expired slices, which will be armed again */
    if (events_callback(EVENT_START, events.tool, event_callbacks[EVENT_START]) == 0 &&
        events_callback(EVENT_RESUME, events.tool, event_callbacks[EVENT_RESUME]) == 0 &&
        events_callback(EVENT_THROW, events.tool, event_callbacks[EVENT_THROW]) == 0 &&
        events_call_bits(SET_EVENTS, events.tool, NULL,
                         event_bits[EVENT_START] | event_bits[EVENT_RESUME] | event_bits[EVENT_THROW]) == 0) {
        events_renew();
        codes_drop(codes);
        return 0;
    }
    PyObject *raised = error_take();
    for (int event = EVENT_START; event <= EVENT_THROW; event++)
        if (events_callback(event, events.tool, Py_None) < 0)
            PyErr_Clear();
    events.counters--;
    events_release();
    codes_drop(codes);
    error_raise(raised);
    return -1;
}

static void
source_count_end(Scheduler *scheduler)
{
    CodeList codes = {NULL, 0};
    (void)scheduler;
    if (--events.counters == 0 && !events.stay && events.changes + 1 >= WATCH_CHANGES) {
        events.stay = true;
        events.users++;
    } else if (events.counters == 0 && !events.stay) {
        events.changes++;
        codes = events_clear_local(events.tool);
        if (events_call_bits(SET_EVENTS, events.tool, NULL, 0) < 0)
            PyErr_WriteUnraisable(NULL);
        events_renew();
        for (int event = EVENT_START; event <= EVENT_THROW; event++)
            if (events_callback(event, events.tool, Py_None) < 0)
                PyErr_WriteUnraisable(NULL);
    }
    events_release();
    codes_drop(codes);
}

/* Count in the frames of the running tasklet too, which was suspended when they were entered. */
static void
source_cover(Scheduler *scheduler)
{
    if (events_arm_chain(scheduler->tstate, PY_SSIZE_T_MAX) < 0)
        PyErr_WriteUnraisable(NULL);
}

#define ARM_AT_ONCE 64 /* the innermost; who returns to further ones meanwhile is met at the next look */

/* The slice of a thread, maybe another one, is over: get an event at its next instruction. -1 with an exception set. */
static int
source_arm(Scheduler *scheduler)
{
    if (!scheduler->preempt.armed) {
        if (events_acquire() < 0)
            return -1;
        scheduler->preempt.armed = true;
    }
    return events_arm_chain(scheduler->tstate, ARM_AT_ONCE);
}

static void
source_disarm(Scheduler *scheduler)
{
    (void)scheduler;
    events_release();
}

#endif
