/* The import system's lock of one module: held while its body runs, by the tasklet that imports it. Stands where CPython has a
   lock of the same protocol whose owner is a thread (importlib._bootstrap._ModuleLock), so that a tasklet never sees what another
   one of its thread has half imported. _imports.py puts it there.

   The owner is a tasklet, or its thread where that is the main tasklet or has no tasklets at all: a thread that begins to
   use tasklets in the middle of an import keeps what it holds. */

typedef struct ModuleWait ModuleWait;

typedef struct {
    PyObject_HEAD
    PyObject *name;
    uintptr_t owner;      /* who holds it, see module_lock_self; an address that is compared and never followed */
    unsigned long thread; /* the owner's */
    Py_ssize_t count;     /* how often the owner has taken it; 0: free */
    RoamletQueue queue;   /* tasklets that wait */
    ModuleWait *bells;    /* threads that wait where no tasklet can */
    PyObject *weakrefs;
} ModuleLock;

/* One wait; not on its C stack, which is not there while its tasklet is suspended. */
struct ModuleWait {
    ModuleWait *next;     /* all waits */
    ModuleWait *next_bell; /* in lock->bells */
    uintptr_t who;
    unsigned long thread; /* that it is in */
    ModuleLock *lock;
    PyThread_type_lock bell; /* what the whole thread waits on; NULL: the tasklet waits alone */
    bool seen; /* by the search for a cycle */
};

static ModuleWait *module_waits;

static PyTypeObject ModuleLock_Type;

/* Who runs now: the address of its tasklet, or its thread's id, which is an address too where threads are POSIX's. */
static inline uintptr_t
module_lock_self(void)
{
    Scheduler *scheduler = this_scheduler;
    return scheduler == NULL || scheduler->current == scheduler->main ? (uintptr_t)PyThread_get_thread_ident()
                                                                       : (uintptr_t)scheduler->current;
}

/* The tasklet of that owner, borrowed; NULL when its thread has none. */
static Tasklet *
module_lock_tasklet(uintptr_t owner, unsigned long thread)
{
    Scheduler *scheduler;
    Tasklet *tasklet;
    if (!thread_find(thread, &scheduler) || scheduler == NULL)
        return NULL;
    if (owner == (uintptr_t)thread)
        return scheduler->main;
    for (tasklet = scheduler->started; tasklet != NULL && (uintptr_t)tasklet != owner;)
        tasklet = tasklet->started_next;
    return tasklet;
}

/* The run() that the owner, in that thread, is in: it waits for all others of its thread. NULL: it is in none. Borrowed. */
static Tasklet *
module_lock_run(uintptr_t owner, unsigned long thread)
{
    Scheduler *scheduler;
    Tasklet *run;
    if (!thread_find(thread, &scheduler) || scheduler == NULL)
        return NULL;
    if (owner == (uintptr_t)thread)
        owner = (uintptr_t)scheduler->main;
    for (run = scheduler->runs; run != NULL && (uintptr_t)run != owner;)
        run = run->run_outer;
    return run;
}

/* Whether the wait keeps the lock's owner, which is in `run` or in no run() (NULL), from going on: it is its own, or that of its
   thread, or one in another thread's favour that its run() waits for. */
static bool
module_lock_held_up(ModuleLock *lock, Tasklet *run, ModuleWait *wait)
{
    if (wait->who == lock->owner)
        return true;
    return wait->thread == lock->thread && (wait->bell != NULL || (run != NULL && run->run_hub && wait->lock->thread != wait->thread));
}

/* Whether the lock's owner waits for `self`, directly or through others' module locks; or, where `blocked` is not 0, for any tasklet of
   that thread, as none runs while it blocks as a whole. Marks the waits that it has seen. */
static bool
module_lock_leads(ModuleLock *lock, uintptr_t self, unsigned long blocked)
{
    Tasklet *run = module_lock_run(lock->owner, lock->thread);
    if (lock->owner == self || lock->thread == blocked || (run != NULL && run->scheduler == this_scheduler))
        return true;
    for (ModuleWait *wait = module_waits; wait != NULL; wait = wait->next)
        if (!wait->seen && wait->lock->count > 0 && module_lock_held_up(lock, run, wait)) {
            wait->seen = true;
            if (module_lock_leads(wait->lock, self, blocked))
                return true;
        }
    return false;
}

/* Refuse to wait: importlib goes on with the module as it is, where it knows it already, as for threads. */
static void
module_lock_deadlock(ModuleLock *lock)
{
    PyObject *importlib = PyImport_AddModule("_frozen_importlib"); /* borrowed */
    PyObject *class = importlib != NULL ? PyObject_GetAttrString(importlib, "_DeadlockError") : NULL;
    if (class != NULL)
        PyErr_Format(class, "deadlock detected by %R: what holds it waits for this import", lock);
    Py_XDECREF(class);
}

/* Block the OS thread, where no tasklet can be switched, until the lock is released. Gives atomic up meanwhile. 0, or -1 with what a
   signal handler raised. Releases the GIL; may run Python code, which cannot switch. */
static int
module_lock_wait_bell(ModuleLock *lock, ModuleWait *wait)
{
    PyLockStatus status;
    ModuleWait **link;
    int levels;
    wait->bell = PyThread_allocate_lock();
    if (wait->bell == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    levels = atomic_give_up();
    PyThread_acquire_lock(wait->bell, WAIT_LOCK);
    wait->next_bell = lock->bells;
    lock->bells = wait;
    Py_BEGIN_ALLOW_THREADS
    status = PyThread_acquire_lock_timed(wait->bell, -1, 1);
    Py_END_ALLOW_THREADS
    for (link = &lock->bells; *link != NULL && *link != wait;)
        link = &(*link)->next_bell;
    if (*link != NULL)
        *link = wait->next_bell;
    PyThread_release_lock(wait->bell);
    PyThread_free_lock(wait->bell);
    wait->bell = NULL;
    atomic_return(levels);
    return status == PY_LOCK_INTR ? PyErr_CheckSignals() : 0;
}

/* Let all that wait look again: the first of them alone might be in a thread that is blocked as a whole, by a wait for what another of them
   holds. Never switches, runs no Python code. */
static void
module_lock_wake(ModuleLock *lock)
{
    queue_wake_all(&lock->queue);
    while (lock->bells != NULL) {
        ModuleWait *wait = lock->bells;
        lock->bells = wait->next_bell;
        PyThread_release_lock(wait->bell);
    }
}

/* Whether a wait here blocks the whole thread, since no tasklet can be switched. */
static bool
module_lock_blocks(void)
{
    Scheduler *scheduler = this_scheduler;
    return scheduler == NULL || scheduler->fixed != 0 || collection_forbids(scheduler);
}

/* Wait until the lock may be free; `blocks`: as a thread. 0, or -1 with an exception set. Switches, or releases the GIL; runs Python
   code. */
static int
module_lock_wait(ModuleLock *lock, uintptr_t self, bool blocks)
{
    unsigned long thread = PyThread_get_thread_ident();
    ModuleWait *wait = PyMem_Calloc(1, sizeof *wait), **link;
    int outcome;
    if (wait == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    *wait = (ModuleWait){.next = module_waits, .who = self, .thread = thread, .lock = lock};
    module_waits = wait;
    if (blocks)
        outcome = module_lock_wait_bell(lock, wait);
    else
        outcome = queue_wait(&lock->queue, (PyObject *)lock, ROAMLET_NEVER, lock->thread != thread ? ROAMLET_WAIT_HUB : 0, NULL);
    for (link = &module_waits; *link != wait;)
        link = &(*link)->next;
    *link = wait->next;
    PyMem_Free(wait);
    return outcome < 0 ? -1 : 0;
}

static PyObject *
ModuleLock_acquire(PyObject *self, PyObject *Py_UNUSED(unused))
{
    ModuleLock *lock = (ModuleLock *)self;
    uintptr_t me = module_lock_self();
    while (lock->count > 0 && lock->owner != me) {
        bool blocks = module_lock_blocks(), deadlock = module_lock_leads(lock, me, blocks ? PyThread_get_thread_ident() : 0);
        for (ModuleWait *wait = module_waits; wait != NULL; wait = wait->next)
            wait->seen = false;
        if (deadlock) {
            module_lock_deadlock(lock);
            return NULL;
        }
        if (module_lock_wait(lock, me, blocks) < 0)
            return NULL;
        me = module_lock_self(); /* the wait of a thread may have run code that gave it its first tasklets */
    }
    lock->owner = me;
    lock->thread = PyThread_get_thread_ident();
    lock->count++;
    Py_RETURN_TRUE;
}

/* An import has ended, with an error perhaps: many programs try to import greenlet where it is not installed. If it was greenlet's, and
   the module is there, tasklets begin on one stack from now on. Runs no Python code. */
static void
module_lock_greenlet(ModuleLock *lock)
{
    PyObject *module;
    if (single_stack || !PyUnicode_Check(lock->name) || PyUnicode_CompareWithASCIIString(lock->name, "greenlet") != 0)
        return;
    module = PyImport_GetModule(lock->name);
    if (module != NULL)
        single_stack = true;
    else
        PyErr_Clear();
    Py_XDECREF(module);
}

static PyObject *
ModuleLock_release(PyObject *self, PyObject *Py_UNUSED(unused))
{
    ModuleLock *lock = (ModuleLock *)self;
    if (lock->count == 0 || lock->owner != module_lock_self())
        return PyErr_Format(PyExc_RuntimeError, "cannot release un-acquired lock: %R is not this tasklet's", lock);
    if (--lock->count == 0) {
        module_lock_greenlet(lock);
        module_lock_wake(lock);
    }
    Py_RETURN_NONE;
}

static PyObject *
ModuleLock_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"name", NULL};
    PyObject *name;
    ModuleLock *lock;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:ModuleLock", names, &name))
        return NULL;
    lock = (ModuleLock *)type->tp_alloc(type, 0);
    if (lock != NULL)
        lock->name = Py_NewRef(name);
    return (PyObject *)lock;
}

static int
ModuleLock_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(((ModuleLock *)self)->name);
    return queue_traverse(&((ModuleLock *)self)->queue, visit, arg);
}

/* No reference is left, so none waits: each wait has one. */
static void
ModuleLock_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    if (((ModuleLock *)self)->weakrefs != NULL)
        PyObject_ClearWeakRefs(self);
    assert(((ModuleLock *)self)->queue.head == NULL && ((ModuleLock *)self)->bells == NULL);
    Py_CLEAR(((ModuleLock *)self)->name);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *
ModuleLock_repr(PyObject *self)
{
    ModuleLock *lock = (ModuleLock *)self;
    Tasklet *tasklet;
    if (lock->count == 0)
        return PyUnicode_FromFormat("<import lock of module %R>", lock->name);
    tasklet = module_lock_tasklet(lock->owner, lock->thread);
    if (tasklet == NULL)
        return PyUnicode_FromFormat("<import lock of module %R, held by thread %lu>", lock->name, lock->thread);
    return PyUnicode_FromFormat("<import lock of module %R, held by %R>", lock->name, tasklet);
}

PyDoc_STRVAR(module_lock_doc, "ModuleLock(name)\n--\n\n"
"The import system's lock of the module `name`, which belongs to a tasklet.\n\n"
"acquire() raises importlib's _DeadlockError where the owner waits for the calling tasklet.");
PyDoc_STRVAR(module_lock_acquire_doc, "acquire($self, /)\n--\n\n"
"Take the lock, once more if it is the calling tasklet's; wait while another has it. Returns True.\n\n"
"Blocks this tasklet only; the thread where tasklets cannot be switched. Thread-safe.");
PyDoc_STRVAR(module_lock_release_doc, "release($self, /)\n--\n\n"
"Undo one acquire(). Never switches. RuntimeError when the lock is not the calling tasklet's.");

static PyMethodDef ModuleLock_methods[] = {
    {"acquire", ModuleLock_acquire, METH_NOARGS, module_lock_acquire_doc},
    {"release", ModuleLock_release, METH_NOARGS, module_lock_release_doc},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject ModuleLock_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "roamlet.core.ModuleLock",
    .tp_doc = module_lock_doc,
    .tp_basicsize = sizeof(ModuleLock),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = ModuleLock_new,
    .tp_dealloc = ModuleLock_dealloc,
    .tp_traverse = ModuleLock_traverse,
    .tp_repr = ModuleLock_repr,
    .tp_weaklistoffset = offsetof(ModuleLock, weakrefs),
    .tp_methods = ModuleLock_methods,
};
