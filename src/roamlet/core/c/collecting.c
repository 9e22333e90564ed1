/* Which tasklet a collection of the cyclic collector runs in.

   A collection keeps lists whose heads lie on its C stack while it calls Python code: __del__ methods, callbacks of weak
   references. The tasklet that collects must not be switched away by moving that stack. Every other tasklet may be, whatever is
   under way: the interpreter only says that there is a collection, so a callback in gc.callbacks notes whose it is. */

#define COLLECTION_UNKNOWN UINT64_MAX

static struct {
    PyObject *callbacks, *callback; /* gc.callbacks, and ours in it */
    uint64_t thread;  /* the id of the collecting thread's state; 0: none collects, or we have not been told */
    Tasklet *tasklet; /* that collects; borrowed, to be compared only; NULL: the thread's main, which does not exist yet */
    bool over;        /* our callback ends the tasklets that were found: nothing is kept on the C stack any more */
} collection;

/* Told by the collector before it begins, in the tasklet that collects. */
static void
collection_begins(void)
{
    PyThreadState *tstate = PyThreadState_Get();
    collector_alone(tstate);
    collection.thread = tstate->id;
    collection.tasklet = this_scheduler != NULL ? this_scheduler->current : NULL;
}

/* A program may have emptied gc.callbacks: then we are not told of the collection under way, but of the next one again. */
static void
collection_listen(void)
{
    PyObject *raised;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(collection.callbacks); i++)
        if (PyList_GET_ITEM(collection.callbacks, i) == collection.callback)
            return;
    collection.thread = COLLECTION_UNKNOWN;
    raised = error_take();
    if (PyList_Append(collection.callbacks, collection.callback) < 0)
        PyErr_Clear(); /* this is tried again */
    error_restore(raised);
}

/* Whether the collection under way is made by this thread's current tasklet; true also where that cannot be known. */
static __attribute__((noinline, cold)) bool
collection_inside(void)
{
    if (collection.over)
        return false;
    collection_listen();
    if (collection.thread == COLLECTION_UNKNOWN)
        return true;
    if (collection.thread == 0) /* the last collections of a process are not announced */
        return python_finalizes();
    if (collection.thread != PyThreadState_Get()->id)
        return false;
    return this_scheduler == NULL ||
           this_scheduler->current == (collection.tasklet != NULL ? collection.tasklet : this_scheduler->main);
}

/* Whether the running code is called by a collection. */
static inline bool
collection_calls(PyThreadState *tstate)
{
    return unlikely(collector_runs(tstate, collection.thread != 0)) && collection_inside();
}

/* The slow half of collection_forbids. Not inlined, because a function that asks for its own frame's address is compiled with a frame pointer, and
   not cold, because gcc takes all that follows the call for cold then: each made a switch a tenth slower. */
static __attribute__((noinline)) bool
collection_holds_stack(Scheduler *scheduler)
{
    return switch_moves_stack(scheduler) && collection_inside();
}

/* Whether this thread's current tasklet must not be switched away because a collection calls it. */
static inline bool
collection_forbids(Scheduler *scheduler)
{
    return unlikely(collector_runs(scheduler->tstate, collection.thread != 0)) && collection_holds_stack(scheduler);
}

static __attribute__((cold)) void
collection_error(void)
{
    PyErr_SetString(PyExc_RuntimeError, "this call would switch tasklets inside a collection (in a __del__ method or the callback of a "
                                        "weak reference), which keeps its state on the C stack: start a tasklet that does the work");
}
