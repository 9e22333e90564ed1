/* What the native backend knows of a tasklet beside its C stack (slices.c): its context, depth and frames, which are in CPython's thread
   state while it runs; and that a switch is inside a foreign greenlet, by the chunk that its Python frames begin in. */

#include <pthread.h>
#include <sys/syscall.h>

#include "arena.c"
#include "frames.c"
#include "visit.c"

/* The part of switch_module_init that is not about stacks. */
static int
native_init(void)
{
    static bool installed;
    if (!installed && visit_init() < 0)
        return -1;
    if (!installed)
        large_pool_install();
    installed = true;
    return 0;
}

/* The size of this thread's C stack; 0 for the main thread, whose stack grows up to a limit. */
static UNUSED size_t
thread_stack_bytes(void)
{
    pthread_attr_t attributes;
    size_t size = 0;
    if (syscall(SYS_gettid) == getpid() || pthread_getattr_np(pthread_self(), &attributes) != 0)
        return 0;
    if (pthread_attr_getstacksize(&attributes, &size) != 0)
        size = 0;
    pthread_attr_destroy(&attributes);
    return size;
}

static _PyStackChunk *
root_of(_PyStackChunk *chunk)
{
    while (chunk != NULL && chunk->previous != NULL)
        chunk = chunk->previous;
    return chunk;
}

/* Whether this thread is inside a greenlet that is not its main one: 1, 0, or -1 with an exception set. */
static int
inside_greenlet(void)
{
    static PyObject *greenlet, *getcurrent, *parent_name;
    PyObject *module, *current, *parent;
    int inside = -1;
    if (name_interned(&greenlet, "greenlet") == NULL || name_interned(&getcurrent, "getcurrent") == NULL ||
        name_interned(&parent_name, "parent") == NULL)
        return -1;
    module = PyImport_GetModule(greenlet);
    if (module == NULL)
        return PyErr_Occurred() ? -1 : 0;
    current = PyObject_CallMethodNoArgs(module, getcurrent);
    parent = current != NULL ? PyObject_GetAttr(current, parent_name) : NULL;
    if (parent != NULL)
        inside = parent != Py_None;
    Py_XDECREF(parent);
    Py_XDECREF(current);
    Py_DECREF(module);
    return inside;
}

/* Let main be known by the chunk that the thread's frames begin in; by none yet when roamlet is first used inside a foreign
   greenlet, which may end before the thread does. -1 with an exception set. */
static int
main_chunk(Scheduler *scheduler)
{
    int inside = inside_greenlet();
    scheduler->main->sw.chunk = inside == 0 ? root_of(scheduler->tstate->datastack_chunk) : NULL;
    return inside < 0 ? -1 : 0;
}

/* The slow half of switch_guard: the running frames do not begin in the chunk that is in use. 0 when they begin in the
   tasklet's own all the same, or -1 with an exception set. */
static __attribute__((noinline, cold)) int
guard_root(Scheduler *scheduler, Tasklet *tasklet)
{
    _PyStackChunk *root = root_of(scheduler->tstate->datastack_chunk);
    if (likely(root == tasklet->sw.chunk && root != NULL))
        return 0;
    if (tasklet == scheduler->main && tasklet->sw.chunk == NULL) { /* not known yet: see main_chunk */
        int inside = inside_greenlet();
        if (inside < 0)
            return -1;
        if (!inside) {
            tasklet->sw.chunk = root;
            return 0;
        }
    }
    PyErr_SetString(PyExc_RuntimeError,
                    "this call would switch tasklets inside a greenlet that roamlet did not make, which would mix up two "
                    "C stacks: let the greenlet return to its parent first, or call it from a thread of its own");
    return -1;
}

static inline int
switch_body_begin(Scheduler *scheduler, Tasklet *tasklet)
{
    (void)scheduler;
    (void)tasklet;
    return 0;
}

static void
switch_body_done(Scheduler *scheduler)
{
    PyThreadState *tstate = scheduler->tstate;
    if (tstate->context != NULL) {
        PyObject *context = tstate->context;
        tstate->context = NULL;
        tstate->context_ver++;
        Py_DECREF(context);
    }
    Py_CLEAR(scheduler->current->sw.exc_base.exc_value);
}

/* Where the reference to the tasklet's context is kept. */
static PyObject **
context_slot(Tasklet *tasklet)
{
    if (tasklet->state != TASKLET_STARTED)
        return &tasklet->context;
    if (tasklet == tasklet->scheduler->current)
        return &tasklet->scheduler->tstate->context;
    return &tasklet->sw.fields.context;
}

static PyObject *
switch_context(Tasklet *tasklet)
{
    PyObject **slot = context_slot(tasklet);
    if (*slot == NULL)
        *slot = PyContext_New();
    return Py_XNewRef(*slot);
}

static int
switch_set_context(Tasklet *tasklet, PyObject *context)
{
    PyObject **slot = context_slot(tasklet), *old = *slot;
    if (old != NULL && context_entered(old) != 0)
        return -1;
    *slot = Py_NewRef(context);
    tasklet->scheduler->tstate->context_ver++;
    Py_XDECREF(old);
    return 0;
}

static int
switch_depth(Tasklet *tasklet)
{
    PyThreadState *tstate = tasklet->scheduler->tstate;
    if (tasklet == tasklet->scheduler->current)
        return tstate->RECURSION_LIMIT - tstate->RECURSION_REMAINING;
    return tasklet->sw.fields.depth;
}

/* What `frame` of a suspended tasklet, to be read at `read`, was called from, also while links are bent around entry frames:
   `bent` counts those that were met so far. */
static _PyInterpreterFrame *
frame_previous(SwitchState *sw, _PyInterpreterFrame *frame, _PyInterpreterFrame *read, int *bent)
{
#if ENTRY_FRAMES_ON_C_STACK
    if (sw->exposed != NULL && *bent < sw->exposed->count && sw->exposed->link[*bent].frame == frame)
        return sw->exposed->link[(*bent)++].previous;
#else
    (void)sw;
    (void)frame;
    (void)bent;
#endif
    return read->previous;
}

static int
switch_nesting(Tasklet *tasklet)
{
    SwitchState *sw = &tasklet->sw;
    bool runs = tasklet == tasklet->scheduler->current;
    _PyInterpreterFrame *frame =
        runs ? tstate_frame(tasklet->scheduler->tstate) : version_frame(&sw->fields.version, saved_at, &sw->stack);
    int entries = 0, bent = 0;
    while (frame != NULL) {
        _PyInterpreterFrame *read = runs ? frame : saved_at(&sw->stack, frame);
        entries += frame_is_entry(read);
        frame = runs ? read->previous : frame_previous(sw, frame, read, &bent);
    }
    return entries > 0 ? entries - 1 : 0;
}

static int
switch_frames(Tasklet *tasklet, RoamletFrameVisit each, void *arg)
{
    SwitchState *sw = &tasklet->sw;
    _PyInterpreterFrame *frame = version_frame(&sw->fields.version, saved_at, &sw->stack), *previous;
    int stopped = 0, bent = 0;
    for (; frame != NULL && !stopped; frame = previous) {
        _PyInterpreterFrame *read = saved_at(&sw->stack, frame);
        previous = frame_previous(sw, frame, read, &bent);
#if ENTRY_FRAMES_ON_C_STACK
        if (!frame_is_entry(read) && !FRAME_IS_END(read))
            stopped = each(frame, previous == NULL || frame_is_entry(saved_at(&sw->stack, previous)), arg);
#else
        stopped = each(frame, frame_is_entry(read), arg);
#endif
    }
    return stopped;
}

static void
switch_saved(Tasklet *tasklet, PyObject **context, PyObject **handled)
{
    *context = tasklet->sw.fields.context;
    *handled = tasklet->sw.exc_base.exc_value;
}

static void
switch_silence(Tasklet *tasklet)
{
    tasklet->sw.fields.tracing++; /* as inside a trace function */
}

static bool
switch_operands(PyCodeObject *code, Py_ssize_t unit, int *depth, int *below)
{
#if !ROAMLET_SNAPSHOT_KNOWN
    (void)code;
    (void)unit;
    *depth = *below = -1;
    return false;
#else
    const Place *place = code_place(code, unit);
    if (place == NULL)
        return false;
    *depth = place->depth;
    *below = place->below;
    return true;
#endif
}
