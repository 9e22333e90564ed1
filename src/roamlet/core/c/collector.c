/* Tasklets that only the cyclic collector finds: which ones it may take for garbage, and how they end.

   A collection keeps lists whose heads lie on its C stack, and tasklets that are switched inside it would write to them
   while another tasklet's data stands there. So a tasklet that is found, or whose last reference goes, inside a collection is
   made runnable with TaskletExit pending. It runs as soon as the collection is over, from our callback in gc.callbacks; or, where
   no tasklet may be switched then, when the run queue gets to it.

   Until then all that it holds must stay as it is. CPython finalizes garbage in the order of its age, without regard to who
   uses what; so what is reached from a tasklet is spared in that collection, and freed and finalized as the frames that hold
   it end. What is older than the tasklet (an argument) may have been finalized all the same, before it was found. */

static PyObject *collector_found;     /* a list: the tasklets that the collection under way ends; NULL: none */
static PyObject *collector_spared;    /* a list: what is spared in it */

/* Whether all that a started tasklet holds must count as reachable. */
static bool
tasklet_hidden(Tasklet *tasklet)
{
    return tasklet == tasklet->scheduler->current /* it runs, or sleeps on behalf of all: its frames are in use */
           || tasklet == tasklet->scheduler->main /* its scheduler owns it: looking through it would find nothing */
           || tasklet->timer >= 0                 /* time wakes it */
           || tasklet->in_run                     /* it is woken when no tasklet can run */
           || PyObject_GC_IsFinalized((PyObject *)tasklet)           /* the collector would cut what it holds and not */
           || Py_TYPE(tasklet)->tp_finalize != Tasklet_finalize; /* end it: a second time, or where a subclass has __del__ */
}

/* Whether the collector may look through the frames of a started tasklet that is not hidden. One in the run queue is
   reachable in any case. A channel or Waiter owns whom it blocks, and who can wake it holds the channel or Waiter. */
static inline bool
tasklet_transparent(Tasklet *tasklet)
{
    return tasklet->state == TASKLET_STARTED && !ring_holds(tasklet);
}

/* Let a tasklet that is runnable with an exception pending run now, if that is possible. What is meant for the current
   one meanwhile waits until it switches next. Switches. */
static void
collector_end(Scheduler *scheduler, Tasklet *tasklet)
{
    PyObject *value;
    if (scheduler->fixed != 0 || scheduler->current->atomic > 0 || tasklet->scheduler != scheduler ||
        tasklet == scheduler->current || !ring_holds(tasklet) || !tasklet->raises)
        return;
    if (switch_guard(scheduler, scheduler->current) < 0) { /* inside a foreign greenlet, or out of memory */
        PyErr_Clear();
        return;
    }
    value = tasklet_run_now(scheduler, tasklet);
    if (value == NULL) {
        tasklet_set_error(scheduler->current, error_take());
        ticks_set(scheduler, 0);
    }
    Py_XDECREF(value);
}

/* Called by the collector at the beginning and at the end of a collection. Switches at the end, when it has found tasklets. */
static PyObject *
collector_event(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    PyObject *phase = count > 0 ? args[0] : Py_None, *found = collector_found, *spared = collector_spared;
    if (PyUnicode_Check(phase) && PyUnicode_CompareWithASCIIString(phase, "start") == 0)
        collection_begins();
    if (!PyUnicode_Check(phase) || PyUnicode_CompareWithASCIIString(phase, "stop") != 0)
        Py_RETURN_NONE;
    collection.thread = 0;
    collection.over = true;
    collector_found = collector_spared = NULL;
    for (Py_ssize_t i = 0; found != NULL && i < PyList_GET_SIZE(spared); i++)
        garbage_spare_no_longer(PyList_GET_ITEM(spared, i));
    Py_XDECREF(spared); /* the tasklets still hold all of it */
    for (Py_ssize_t i = 0; found != NULL && i < PyList_GET_SIZE(found) && this_scheduler != NULL; i++)
        collector_end(this_scheduler, (Tasklet *)PyList_GET_ITEM(found, i));
    Py_XDECREF(found);
    collection.over = false;
    Py_RETURN_NONE;
}

static PyMethodDef collector_event_def = {"note_collection", (PyCFunction)(void (*)(void))collector_event, METH_FASTCALL, NULL};

/* Once a process: have the collector call us. -1 with an exception set. */
static int
collector_prepare(void)
{
    PyObject *gc;
    if (collection.callbacks != NULL)
        return 0;
    gc = PyImport_ImportModule("gc");
    collection.callback = PyCFunction_New(&collector_event_def, NULL);
    collection.callbacks = gc != NULL ? PyObject_GetAttrString(gc, "callbacks") : NULL;
    Py_XDECREF(gc);
    if (collection.callback == NULL || collection.callbacks == NULL)
        return -1;
    return PyList_Append(collection.callbacks, collection.callback); /* TypeError: a program has put something else there */
}

static int
collector_spare(PyObject *object, void *Py_UNUSED(unused))
{
    return garbage_spare(object) && PyList_Append(collector_spared, object) < 0 ? -1 : 0;
}

/* Spare all garbage that can be reached from the tasklet; other tasklets among it are to be finalized nevertheless. Stops
   where memory runs out. */
static void
collector_spare_all(Tasklet *tasklet)
{
    Py_ssize_t i = PyList_GET_SIZE(collector_spared), kept = i;
    int failed = tasklet_visit(tasklet, tasklet_transparent(tasklet), collector_spare, NULL);
    for (; !failed && i < PyList_GET_SIZE(collector_spared); i++) {
        PyObject *object = PyList_GET_ITEM(collector_spared, i);
        if (PyObject_TypeCheck(object, &Tasklet_Type) && ((Tasklet *)object)->state == TASKLET_STARTED)
            failed = tasklet_visit((Tasklet *)object, tasklet_transparent((Tasklet *)object), collector_spare, NULL);
        else
            failed = Py_TYPE(object)->tp_traverse(object, collector_spare, NULL);
    }
    for (i = kept; i < PyList_GET_SIZE(collector_spared); i++)
        if (PyObject_TypeCheck(PyList_GET_ITEM(collector_spared, i), &Tasklet_Type))
            garbage_spare_no_longer(PyList_GET_ITEM(collector_spared, i));
}

/* `tasklet` ends when the collection under way is over. What fails here only means that it ends later. */
static void
collector_note(Tasklet *tasklet)
{
    if (collector_found == NULL) {
        collector_found = PyList_New(0);
        collector_spared = PyList_New(0);
        if (collector_found == NULL || collector_spared == NULL) {
            Py_CLEAR(collector_found);
            Py_CLEAR(collector_spared);
        }
    }
    if (collector_found != NULL) {
        collector_spare_all(tasklet);
        (void)PyList_Append(collector_found, (PyObject *)tasklet);
    }
    PyErr_Clear();
}
