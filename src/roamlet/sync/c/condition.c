/* Condition: wait until another tasklet or thread says that something has changed.

   Each wait() is in the list of its condition with a slot of its own, which notify() takes out and marks. So a notification
   belongs to those who waited when it was made: when the tasklet that got it is killed before it goes on, it passes to the next of
   those, and never to one that came later. And who gives a lock of somebody else back, whose release() may run any code, is in the
   list before it does. Moving those who are notified into the lock's own queue was rejected: with the GIL held the lock is nearly
   always given back before any of them can run. */

static Slot *
slot_add(Condition *self)
{
    Slot *slot = PyMem_Calloc(1, sizeof *slot);
    if (slot == NULL)
        return (Slot *)PyErr_NoMemory();
    slot->came = self->clock++;
    slot->prev = self->last;
    *(self->last != NULL ? &self->last->next : &self->first) = slot;
    self->last = slot;
    return slot;
}

static void
slot_unlink(Condition *self, Slot *slot)
{
    *(slot->prev != NULL ? &slot->prev->next : &self->first) = slot->next;
    *(slot->next != NULL ? &slot->next->prev : &self->last) = slot->prev;
    slot->next = slot->prev = NULL;
}

/* Notify up to `count` of those who came before `before`, the first first. One that something else has woken, a time-out or a kill, is left
   out: it could not make use of it. Never switches, runs no Python code. */
static void
condition_notify_before(Condition *self, Py_ssize_t count, uint64_t before)
{
    Slot *slot = self->first, *next;
    for (; slot != NULL && count > 0 && slot->came < before; slot = next) {
        next = slot->next;
        if (slot->waits && !api->wake_one(&slot->queue))
            continue;
        slot_unlink(self, slot);
        slot->notified = before;
        count--;
    }
}

static inline void
condition_notify(Condition *self, Py_ssize_t count)
{
    if (self->first != NULL)
        condition_notify_before(self, count, ++self->clock);
}

/* ---- its lock, whatever it is ---- */

/* Whether the caller holds the lock, as well as can be known. 1, 0, or -1 with an exception set. */
static int
condition_is_owned(Condition *self)
{
    PyObject *result, *me;
    int owned;
    if (self->kind == OURS_LOCK)
        return ((Lock *)self->lock)->locked;
    if (self->kind == OURS_RLOCK) {
        me = api->current();
        return me != NULL ? ((RLock *)self->lock)->owner == me : -1;
    }
    result = PyObject_CallMethod(self->lock, "_is_owned", NULL);
    if (result == NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
        result = PyObject_CallMethod(self->lock, "acquire", "O", Py_False);
        owned = result != NULL ? PyObject_IsTrue(result) : -1;
        Py_XDECREF(result);
        if (owned <= 0) /* it is held: by the caller, as far as can be known */
            return owned < 0 ? -1 : 1;
        result = PyObject_CallMethod(self->lock, "release", NULL);
        Py_XDECREF(result);
        return result != NULL ? 0 : -1;
    }
    owned = result != NULL ? PyObject_IsTrue(result) : -1;
    Py_XDECREF(result);
    return owned;
}

static int
condition_check_owned(Condition *self, const char *call)
{
    int owned = condition_is_owned(self);
    if (unlikely(owned == 0))
        PyErr_Format(PyExc_RuntimeError, "cannot %s on un-acquired lock: take the condition first, as in `with condition: "
                                         "condition.%s()`", call, call);
    return owned == 1 ? 0 : -1;
}

/* Give the lock back altogether. *saved: what condition_take_back needs, owned by the caller, NULL for our own locks, which say it in
   *count. -1 with an exception set. May run Python code and switch if the lock is not ours. */
static int
condition_give_back(Condition *self, Py_ssize_t *count, PyObject **saved)
{
    *saved = NULL;
    *count = 1;
    if (self->kind == OURS_LOCK) {
        lock_free((Lock *)self->lock);
        return 0;
    }
    if (self->kind == OURS_RLOCK) {
        *count = ((RLock *)self->lock)->count;
        rlock_free((RLock *)self->lock);
        return 0;
    }
    *saved = PyObject_CallMethod(self->lock, "_release_save", NULL);
    if (*saved == NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
        PyObject *result = PyObject_CallMethod(self->lock, "release", NULL);
        Py_XDECREF(result);
        return result != NULL ? 0 : -1;
    }
    return *saved != NULL ? 0 : -1;
}

/* A scope that keeps cancellation off what is done inside, entered: a new reference, or NULL with an exception set. */
static PyObject *
shield_enter(void)
{
    PyObject *empty = PyTuple_New(0), *keywords = Py_BuildValue("{s:O}", "shield", Py_True);
    PyObject *scope = empty != NULL && keywords != NULL ? PyObject_Call(CancelScope, empty, keywords) : NULL;
    PyObject *entered = scope != NULL ? PyObject_CallMethod(scope, "__enter__", NULL) : NULL;
    Py_XDECREF(empty);
    Py_XDECREF(keywords);
    if (entered == NULL)
        Py_CLEAR(scope);
    Py_XDECREF(entered);
    return scope;
}

/* Try once to take the lock back as it was; saved is borrowed. 1, or -1 with an exception set. Switches. */
static int
condition_try_take_back(Condition *self, Py_ssize_t count, PyObject *saved)
{
    PyObject *result;
    int levels;
    if (self->kind != FOREIGN) {
        PyObject *lock = Py_NewRef(self->lock); /* __init__() may be called again while it is waited for */
        int taken = self->kind == OURS_LOCK ? lock_take((Lock *)lock, ROAMLET_NEVER, NULL)
                                            : rlock_take((RLock *)lock, api->current(), count, ROAMLET_NEVER, NULL);
        Py_DECREF(lock);
        return taken;
    }
    levels = api->atomic_leave(); /* a lock that is not ours may block the thread */
    result = saved != NULL ? PyObject_CallMethod(self->lock, "_acquire_restore", "(O)", saved)
                           : PyObject_CallMethod(self->lock, "acquire", NULL);
    api->atomic_return(levels);
    Py_XDECREF(result);
    return result != NULL ? 1 : -1;
}

/* Whether the exception that is set is of the kind after which the lock must still be taken back: of our own locks any but a Deadlock, after
   which no tasklet can ever give it back; of another lock TaskletExit, as what else it raises is for it to say. */
static bool
condition_tries_again(Condition *self)
{
    if (self->kind == FOREIGN)
        return PyErr_ExceptionMatches(TaskletExit);
    return !PyErr_ExceptionMatches(Deadlock) && !PyErr_ExceptionMatches(PyExc_MemoryError);
}

/* Take the lock back as it was. Steals saved. What is set on entry, or raised meanwhile, is raised when the lock is held, the last of them
   as in a finally block. 0, or -1 when there is such an exception. Switches. */
static int
condition_take_back(Condition *self, Py_ssize_t count, PyObject *saved)
{
    PyObject *type, *value, *traceback, *shield = NULL;
    PyErr_Fetch(&type, &value, &traceback);
    while (condition_try_take_back(self, count, saved) < 0) {
        bool again = condition_tries_again(self), cancelled = PyErr_ExceptionMatches(Cancelled);
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
        PyErr_Fetch(&type, &value, &traceback);
        if (!again || (cancelled && (shield != NULL || (shield = shield_enter()) == NULL)))
            break;
    }
    Py_XDECREF(saved);
    if (shield != NULL) {
        PyObject *left = PyObject_CallMethod(shield, "__exit__", "OOO", Py_None, Py_None, Py_None);
        if (left == NULL)
            PyErr_WriteUnraisable(shield);
        Py_XDECREF(left);
        Py_DECREF(shield);
    }
    PyErr_Restore(type, value, traceback);
    return type != NULL ? -1 : 0;
}

/* ---- waiting ---- */

/* Give the lock, which the caller holds, back, wait to be notified until `deadline`, and take the lock again. 1 notified, 0 time is up, -1
   with an exception set; the lock is held in any case but that of a Deadlock over it. Switches. */
static int
condition_wait(Condition *self, int64_t deadline, PyObject *const *operands)
{
    Slot *slot = slot_add(self);
    PyObject *saved;
    Py_ssize_t count;
    int how = LOOK_AGAIN;
    bool failed, notified;
    if (slot == NULL)
        return -1;
    if (condition_give_back(self, &count, &saved) < 0) {
        if (slot->notified)
            condition_notify_before(self, 1, slot->notified);
        else
            slot_unlink(self, slot);
        PyMem_Free(slot);
        return -1;
    }
    slot->waits = !slot->notified && !api->interrupts_wait();
    while (how == LOOK_AGAIN && !slot->notified)
        how = wait_in(&slot->queue, (PyObject *)self, deadline, wait_flags, operands);
    failed = condition_take_back(self, count, saved) < 0;
    notified = slot->notified != 0;
    if (!notified)
        slot_unlink(self, slot);
    else if (failed)
        condition_notify_before(self, 1, slot->notified);
    PyMem_Free(slot);
    return failed ? -1 : notified;
}

static PyObject *
Condition_wait(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const char *const keywords[] = {"timeout"};
    Condition *self = (Condition *)object;
    PyObject *given[1] = {Py_None};
    int64_t deadline;
    int notified;
    if (arguments_take("wait", keywords, 1, given, args, count, names) < 0 || condition_check_owned(self, "wait") < 0 ||
        wait_deadline(given[0], "Condition.wait()", &deadline) < 0)
        return NULL;
    notified = condition_wait(self, deadline, arguments_end(args, count, names));
    return notified >= 0 ? PyBool_FromLong(notified) : NULL;
}

static PyObject *
Condition_wait_for(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const char *const keywords[] = {"predicate", "timeout"};
    Condition *self = (Condition *)object;
    PyObject *given[2] = {NULL, Py_None}, *result;
    int64_t deadline = ROAMLET_NEVER;
    int notified = 1;
    if (arguments_take("wait_for", keywords, 2, given, args, count, names) < 0)
        return NULL;
    if (given[0] == NULL)
        return PyErr_Format(PyExc_TypeError, "wait_for() missing 1 required argument: 'predicate', a function that says whether to go on");
    if (wait_deadline(given[1], "Condition.wait_for()", &deadline) < 0)
        return NULL;
    for (;;) {
        int truth;
        result = PyObject_CallNoArgs(given[0]);
        truth = result != NULL ? PyObject_IsTrue(result) : -1;
        if (truth != 0 || notified == 0) {
            if (truth < 0)
                Py_CLEAR(result);
            return result;
        }
        Py_DECREF(result);
        if (condition_check_owned(self, "wait") < 0 || (notified = condition_wait(self, deadline, NULL)) < 0)
            return NULL;
    }
}

static PyObject *
Condition_notify(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const char *const keywords[] = {"n"};
    PyObject *given[1] = {NULL};
    Py_ssize_t n = 1;
    if (arguments_take("notify", keywords, 1, given, args, count, names) < 0 ||
        (given[0] != NULL && (n = PyNumber_AsSsize_t(given[0], NULL)) == -1 && PyErr_Occurred()) ||
        condition_check_owned((Condition *)object, "notify") < 0)
        return NULL;
    condition_notify((Condition *)object, n);
    Py_RETURN_NONE;
}

static PyObject *
Condition_notify_all(PyObject *object, PyObject *Py_UNUSED(unused))
{
    if (condition_check_owned((Condition *)object, "notify_all") < 0)
        return NULL;
    condition_notify((Condition *)object, PY_SSIZE_T_MAX);
    Py_RETURN_NONE;
}

static PyObject *
Condition_notifyAll(PyObject *object, PyObject *Py_UNUSED(unused))
{
    if (deprecated("notifyAll", "notify_all") < 0)
        return NULL;
    return Condition_notify_all(object, NULL);
}

/* ---- what it hands on to its lock ---- */

static PyObject *
Condition_acquire(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    Condition *self = (Condition *)object;
    PyObject *lock = Py_NewRef(self->lock), *method, *result;
    int levels;
    if (self->kind == OURS_RLOCK)
        result = RLock_acquire(lock, args, count, names);
    else if (self->kind == OURS_LOCK)
        result = Lock_acquire(lock, args, count, names);
    else {
        method = PyObject_GetAttrString(lock, "acquire");
        levels = api->atomic_leave();
        result = method != NULL ? PyObject_Vectorcall(method, args, (size_t)count, names) : NULL;
        api->atomic_return(levels);
        Py_XDECREF(method);
    }
    Py_DECREF(lock);
    return result;
}

static PyObject *
Condition_release(PyObject *object, PyObject *Py_UNUSED(unused))
{
    Condition *self = (Condition *)object;
    if (self->kind == OURS_RLOCK)
        return RLock_release(self->lock, NULL);
    if (self->kind == OURS_LOCK)
        return Lock_release(self->lock, NULL);
    return PyObject_CallMethod(self->lock, "release", NULL);
}

static PyObject *
Condition_locked(PyObject *object, PyObject *Py_UNUSED(unused))
{
    return PyObject_CallMethod(((Condition *)object)->lock, "locked", NULL);
}

static PyObject *
Condition_enter(PyObject *object, PyObject *Py_UNUSED(unused))
{
    Condition *self = (Condition *)object;
    PyObject *lock = Py_NewRef(self->lock), *result;
    if (self->kind == FOREIGN) {
        int levels = api->atomic_leave();
        result = PyObject_CallMethod(lock, "__enter__", NULL);
        api->atomic_return(levels);
    } else
        result = self->kind == OURS_RLOCK ? RLock_enter(lock, NULL) : Lock_enter(lock, NULL);
    Py_DECREF(lock);
    return result;
}

static PyObject *
Condition_exit(PyObject *object, PyObject *const *args, Py_ssize_t count)
{
    Condition *self = (Condition *)object;
    PyObject *method, *result;
    if (self->kind != FOREIGN)
        return Condition_release(object, NULL);
    method = PyObject_GetAttrString(self->lock, "__exit__");
    result = method != NULL ? PyObject_Vectorcall(method, args, (size_t)count, NULL) : NULL;
    Py_XDECREF(method);
    return result;
}

static PyObject *
Condition_is_owned(PyObject *object, PyObject *Py_UNUSED(unused))
{
    int owned = condition_is_owned((Condition *)object);
    return owned >= 0 ? PyBool_FromLong(owned) : NULL;
}

static PyObject *
Condition_release_save(PyObject *object, PyObject *Py_UNUSED(unused))
{
    Condition *self = (Condition *)object;
    PyObject *saved;
    Py_ssize_t count;
    if (self->kind == OURS_RLOCK)
        return RLock_release_save(self->lock, NULL);
    if (self->kind == OURS_LOCK)
        return Lock_release(self->lock, NULL);
    if (condition_give_back(self, &count, &saved) < 0)
        return NULL;
    return saved != NULL ? saved : Py_NewRef(Py_None);
}

static PyObject *
Condition_acquire_restore(PyObject *object, PyObject *saved)
{
    Condition *self = (Condition *)object;
    if (self->kind == OURS_RLOCK) {
        PyObject *lock = Py_NewRef(self->lock), *result = RLock_acquire_restore(lock, saved);
        Py_DECREF(lock);
        return result;
    }
    if (self->kind == OURS_LOCK ? condition_try_take_back(self, 1, NULL) < 0
                                : condition_take_back(self, 1, saved != Py_None ? Py_NewRef(saved) : NULL) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* Forget those who waited in threads that are no more; their slots are lost with their stacks. Tasklets of this thread wait on. */
static PyObject *
Condition_at_fork_reinit(PyObject *object, PyObject *Py_UNUSED(unused))
{
    Condition *self = (Condition *)object;
    return PyObject_CallMethod(self->lock, "_at_fork_reinit", NULL);
}

static PyObject *
Condition_repr(PyObject *object)
{
    Condition *self = (Condition *)object;
    Py_ssize_t waiting = 0;
    for (Slot *slot = self->first; slot != NULL; slot = slot->next)
        waiting += slot->queue.head != NULL;
    return PyUnicode_FromFormat("<Condition(%R, %zd)>", self->lock, waiting);
}

/* Let the condition stand on `lock` (borrowed). */
static void
condition_stand_on(Condition *self, PyObject *lock)
{
    self->kind = Py_IS_TYPE(lock, &RLock_Type) ? OURS_RLOCK : Py_IS_TYPE(lock, &Lock_Type) ? OURS_LOCK : FOREIGN;
    Py_XSETREF(self->lock, Py_NewRef(lock));
}

static PyObject *
Condition_new(PyTypeObject *type, PyObject *Py_UNUSED(args), PyObject *Py_UNUSED(kwargs))
{
    PyObject *self = type->tp_alloc(type, 0), *lock = NULL;
    if (self != NULL && (lock = RLock_Type.tp_alloc(&RLock_Type, 0)) == NULL)
        Py_CLEAR(self);
    if (self != NULL)
        condition_stand_on((Condition *)self, lock);
    Py_XDECREF(lock);
    return self;
}

static int
Condition_init(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"lock", NULL};
    Condition *self = (Condition *)object;
    PyObject *lock = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:Condition", names, &lock))
        return -1;
    if (lock == Py_None)
        return 0;
    if (!PyObject_HasAttrString(lock, "acquire") || !PyObject_HasAttrString(lock, "release")) {
        PyErr_Format(PyExc_TypeError, "Condition() stands on a lock, something with acquire() and release(), not on %R", lock);
        return -1;
    }
    if (self->first != NULL) {
        PyErr_Format(PyExc_RuntimeError, "%R cannot be given another lock while somebody waits", object);
        return -1;
    }
    condition_stand_on(self, lock);
    return 0;
}

static int
Condition_traverse(PyObject *object, visitproc visit, void *arg)
{
    Condition *self = (Condition *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->dict);
    Py_VISIT(self->lock);
    for (Slot *slot = self->first; slot != NULL; slot = slot->next) {
        int result = queue_visit(&slot->queue, visit, arg);
        if (result)
            return result;
    }
    return 0;
}

static int
Condition_clear(PyObject *object)
{
    Py_CLEAR(((Condition *)object)->dict);
    return 0;
}

static void
Condition_dealloc(PyObject *object)
{
    Condition *self = (Condition *)object;
    PyObject_GC_UnTrack(object);
    if (self->weakrefs != NULL)
        PyObject_ClearWeakRefs(object);
    Condition_clear(object);
    Py_CLEAR(self->lock);
    object_free(object);
}

PyDoc_STRVAR(condition_doc, "Condition(lock=None)\n--\n\n"
"Wait until another tasklet says that something has changed, as threading.Condition.\n\n"
"Stands on `lock`, by default an RLock of its own: a lock of roamlet.sync, or anything with acquire() and release(), which then\n"
"blocks as it does. TypeError for what is no lock. Thread-safe.");
PyDoc_STRVAR(condition_wait_doc, "wait($self, /, timeout=None)\n--\n\n"
"Give the lock back, wait to be notified, at most `timeout` seconds, take the lock again; False when time was up.\n\n"
"Blocks this tasklet. Whatever is raised in it, TaskletExit too, is raised when it holds the lock again, but a Deadlock:\n"
"no tasklet can give the lock back then. A notification that it got and can make no use of passes to the next of those who waited\n"
"by then. RuntimeError when the caller does not hold the lock.");
PyDoc_STRVAR(condition_wait_for_doc, "wait_for($self, /, predicate, timeout=None)\n--\n\n"
"wait() until predicate() is true, or `timeout` seconds have passed in all; return what it returned last.");
PyDoc_STRVAR(condition_notify_doc, "notify($self, /, n=1)\n--\n\n"
"Wake up to `n` of those who wait now, the first first. Never switches.\n\nRuntimeError when the caller does not hold the lock.");
PyDoc_STRVAR(condition_notify_all_doc, "notify_all($self, /)\n--\n\nWake all who wait now. Otherwise like notify.");
PyDoc_STRVAR(condition_notifyAll_doc, "notifyAll($self, /)\n--\n\nDeprecated: notify_all().");
PyDoc_STRVAR(condition_acquire_doc, "acquire($self, /, *args, **kwargs)\n--\n\nThe lock's acquire().");
PyDoc_STRVAR(condition_release_doc, "release($self, /)\n--\n\nThe lock's release().");
PyDoc_STRVAR(condition_locked_doc, "locked($self, /)\n--\n\nThe lock's locked().");
PyDoc_STRVAR(condition_at_fork_reinit_doc, "_at_fork_reinit($self, /)\n--\n\nIn a forked child: free the lock.");

static PyMethodDef Condition_methods[] = {
    {"acquire", (PyCFunction)(void (*)(void))Condition_acquire, METH_FASTCALL | METH_KEYWORDS, condition_acquire_doc},
    {"release", Condition_release, METH_NOARGS, condition_release_doc},
    {"locked", Condition_locked, METH_NOARGS, condition_locked_doc},
    {"wait", (PyCFunction)(void (*)(void))Condition_wait, METH_FASTCALL | METH_KEYWORDS, condition_wait_doc},
    {"wait_for", (PyCFunction)(void (*)(void))Condition_wait_for, METH_FASTCALL | METH_KEYWORDS, condition_wait_for_doc},
    {"notify", (PyCFunction)(void (*)(void))Condition_notify, METH_FASTCALL | METH_KEYWORDS, condition_notify_doc},
    {"notify_all", Condition_notify_all, METH_NOARGS, condition_notify_all_doc},
    {"notifyAll", Condition_notifyAll, METH_NOARGS, condition_notifyAll_doc},
    {"__enter__", Condition_enter, METH_NOARGS, enter_doc},
    {"__exit__", (PyCFunction)(void (*)(void))Condition_exit, METH_FASTCALL, exit_doc},
    {"_is_owned", Condition_is_owned, METH_NOARGS, is_owned_doc},
    {"_release_save", Condition_release_save, METH_NOARGS, release_save_doc},
    {"_acquire_restore", Condition_acquire_restore, METH_O, acquire_restore_doc},
    {"_at_fork_reinit", Condition_at_fork_reinit, METH_NOARGS, condition_at_fork_reinit_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef Condition_getset[] = {
    {"_lock", get_object, NULL, "The lock that it stands on.", FIELD(Condition, lock)},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef Condition_members[] = {
    OFFSETS(Condition),
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot Condition_slots[] = {
    {Py_tp_doc, (void *)condition_doc},
    {Py_tp_new, Condition_new},
    {Py_tp_init, Condition_init},
    {Py_tp_dealloc, Condition_dealloc},
    {Py_tp_traverse, Condition_traverse},
    {Py_tp_clear, Condition_clear},
    {Py_tp_repr, Condition_repr},
    {Py_tp_methods, Condition_methods},
    {Py_tp_members, Condition_members},
    {Py_tp_getset, Condition_getset},
    {0, NULL},
};

static PyType_Spec Condition_spec = {
    .name = "roamlet.sync.Condition",
    .basicsize = sizeof(Condition),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = Condition_slots,
};
