/* local: threading.local for tasklets, an object whose attributes each tasklet has for itself.

   As in CPython, the object owns the dictionaries, one for each tasklet that has used it, and so a value that refers to the object is
   an ordinary cycle. An Entry is in two places: in the object's hash table, by its tasklet, and in the list of its tasklet, so
   that the end of either one takes it out of the other. */

typedef struct Local Local;

struct LocalEntry {
    LocalEntry *chain;        /* the next one in its bucket */
    LocalEntry *next, **link; /* the tasklet's list */
    Local *local;
    Tasklet *tasklet;
    PyObject *dict;           /* owned */
};

struct Local {
    PyObject_HEAD
    PyObject *dict;        /* borrowed: that of the tasklet `owner`; where object's own functions look for attributes */
    Tasklet *owner;        /* the tasklet that has used it last; compared, never followed. NULL: none */
    LocalEntry **buckets;
    size_t size, used;     /* how many buckets, a power of two or 0; how many entries */
    PyObject *args, *kwargs; /* of __init__, which runs once in each tasklet */
    PyObject *weakrefs;
};

static PyTypeObject Local_Type;

#define LOCAL_BUCKETS 8 /* the first table */

static inline size_t
local_bucket(Tasklet *tasklet, size_t size)
{
    uintptr_t address = (uintptr_t)tasklet;
    return (size_t)((address >> 4) ^ (address >> 12)) & (size - 1);
}

/* Put the entries into a table of `size` buckets. -1, without an exception and with nothing changed, when memory is out. */
static int
local_resize(Local *self, size_t size)
{
    LocalEntry **buckets = PyMem_Calloc(size, sizeof(void *));
    if (buckets == NULL)
        return -1;
    for (size_t i = 0; i < self->size; i++)
        for (LocalEntry *entry = self->buckets[i], *next; entry != NULL; entry = next) {
            size_t bucket = local_bucket(entry->tasklet, size);
            next = entry->chain;
            entry->chain = buckets[bucket];
            buckets[bucket] = entry;
        }
    PyMem_Free(self->buckets);
    self->buckets = buckets;
    self->size = size;
    return 0;
}

static LocalEntry *
local_find(Local *self, Tasklet *tasklet)
{
    LocalEntry *entry = self->size ? self->buckets[local_bucket(tasklet, self->size)] : NULL;
    while (entry != NULL && entry->tasklet != tasklet)
        entry = entry->chain;
    return entry;
}

/* Make the entry of a tasklet. Its dictionary, borrowed, or NULL with an exception set. May run code: a collection's. */
static PyObject *
local_add(Local *self, Tasklet *tasklet)
{
    PyObject *dict = PyDict_New(); /* first: a collection in it may run code that uses this object */
    LocalEntry *entry = dict != NULL ? local_find(self, tasklet) : NULL;
    size_t bucket;
    if (unlikely(entry != NULL)) {
        Py_DECREF(dict);
        return entry->dict;
    }
    entry = PyMem_Malloc(sizeof *entry);
    if (dict == NULL || entry == NULL || (self->used >= self->size && local_resize(self, self->size ? self->size * 2 : LOCAL_BUCKETS) < 0)) {
        Py_XDECREF(dict);
        PyMem_Free(entry);
        return PyErr_NoMemory();
    }
    bucket = local_bucket(tasklet, self->size);
    *entry = (LocalEntry){self->buckets[bucket], tasklet->locals, &tasklet->locals, self, tasklet, dict};
    if (entry->next != NULL)
        entry->next->link = &entry->next;
    tasklet->locals = self->buckets[bucket] = entry;
    self->used++;
    return dict;
}

/* Take an entry out of both places and free it. Its dictionary, whose reference passes to the caller. Runs no Python code. */
static PyObject *
local_remove(LocalEntry *entry)
{
    Local *self = entry->local;
    PyObject *dict = entry->dict;
    LocalEntry **place = &self->buckets[local_bucket(entry->tasklet, self->size)];
    while (*place != entry)
        place = &(*place)->chain;
    *place = entry->chain;
    *entry->link = entry->next;
    if (entry->next != NULL)
        entry->next->link = entry->link;
    if (self->dict == dict) {
        self->dict = NULL;
        self->owner = NULL;
    }
    self->used--;
    PyMem_Free(entry);
    if (unlikely(self->size > LOCAL_BUCKETS && self->used < self->size / 8))
        (void)local_resize(self, self->size / 4); /* without memory it stays as large as it is */
    return dict;
}

/* Drop all that the tasklet has in such objects, `rounds` times at most: that runs code, which may make it have some again. */
static __attribute__((noinline)) void
locals_drop(Tasklet *tasklet, int rounds)
{
    PyObject *raised = error_take();
    for (; tasklet->locals != NULL && rounds > 0; rounds--) {
        size_t count = 0;
        for (LocalEntry *entry = tasklet->locals; entry != NULL; entry = entry->next)
            count++;
        for (; count > 0 && tasklet->locals != NULL; count--)
            Py_DECREF(local_remove(tasklet->locals));
    }
    error_restore(raised);
}

/* Whether the tasklet has an attribute in any such object. */
static bool
locals_any(Tasklet *tasklet)
{
    for (LocalEntry *entry = tasklet->locals; entry != NULL; entry = entry->next)
        if (PyDict_GET_SIZE(entry->dict) > 0)
            return true;
    return false;
}

/* Move what the tasklet has to the end of the list `dead`, NULL for none. Runs no Python code; without memory it is lost. */
static void
locals_bury(Tasklet *tasklet, PyObject *dead)
{
    while (tasklet->locals != NULL) {
        PyObject *dict = local_remove(tasklet->locals);
        if (dead == NULL || PyList_Append(dead, dict) < 0)
            PyErr_Clear();
        else
            Py_DECREF(dict);
    }
}

/* ---- the type ---- */

static inline bool
local_has_init(PyTypeObject *type)
{
    return type->tp_init != PyBaseObject_Type.tp_init;
}

/* The dictionary is not there, or not at hand. Makes it, and calls __init__, which may switch. */
static __attribute__((noinline)) PyObject *
local_enter(Local *self, Tasklet *current)
{
    LocalEntry *entry = local_find(self, current);
    PyObject *dict;
    if (entry != NULL)
        dict = entry->dict;
    else {
        PyTypeObject *type = Py_TYPE(self);
        if ((dict = local_add(self, current)) == NULL)
            return NULL;
        if (local_has_init(type) && self->args != NULL) { /* NULL: the collector has cleared this object */
            int failed = type->tp_init((PyObject *)self, self->args, self->kwargs);
            entry = local_find(self, current); /* gone if this object has been cleared */
            if (failed) {
                PyObject *raised = error_take();
                if (entry != NULL)
                    Py_DECREF(local_remove(entry));
                error_restore(raised);
                return NULL;
            }
            if ((dict = entry != NULL ? entry->dict : local_add(self, current)) == NULL)
                return NULL;
        }
    }
    self->dict = dict;
    self->owner = current;
    return dict;
}

/* The dictionary of the tasklet that runs, borrowed and in self->dict; NULL with an exception set. May run code, and switch, when
   this tasklet uses the object for the first time. */
static inline PyObject *
local_here(Local *self)
{
    Scheduler *scheduler = scheduler_get();
    if (unlikely(scheduler == NULL))
        return NULL;
    return likely(self->owner == scheduler->current) ? self->dict : local_enter(self, scheduler->current);
}

static PyObject *
Local_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    Scheduler *scheduler = scheduler_get();
    Local *self;
    if (scheduler == NULL)
        return NULL;
    if (!local_has_init(type) && (PyTuple_GET_SIZE(args) > 0 || (kwargs != NULL && PyDict_GET_SIZE(kwargs) > 0)))
        return PyErr_Format(PyExc_TypeError, "Initialization arguments are not supported: %s has no __init__ that would take them", type->tp_name);
    self = (Local *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->args = Py_NewRef(args);
    self->kwargs = Py_XNewRef(kwargs);
    if (local_add(self, scheduler->current) == NULL) /* its __init__ is called by the caller of this */
        Py_CLEAR(self);
    return (PyObject *)self;
}

static PyObject *dict_name; /* "__dict__" */

static inline bool
local_means_dict(PyObject *name)
{
    return name == dict_name || unlikely(PyUnicode_Check(name) && PyUnicode_GET_LENGTH(name) == 8 && PyUnicode_Compare(name, dict_name) == 0);
}

static PyObject *
Local_getattro(PyObject *self, PyObject *name)
{
    PyObject *dict = local_here((Local *)self), *value;
    if (unlikely(dict == NULL))
        return NULL;
    if (unlikely(local_means_dict(name)))
        return Py_NewRef(dict);
    if (likely(Py_IS_TYPE(self, &Local_Type) && PyUnicode_CheckExact(name))) { /* no attribute of the class hides what is there */
        value = PyDict_GetItemWithError(dict, name);
        if (likely(value != NULL))
            return Py_NewRef(value);
        if (PyErr_Occurred())
            return NULL;
    }
    return PyObject_GenericGetAttr(self, name);
}

static int
Local_setattro(PyObject *self, PyObject *name, PyObject *value)
{
    if (unlikely(local_here((Local *)self) == NULL))
        return -1;
    if (unlikely(local_means_dict(name))) {
        PyErr_Format(PyExc_AttributeError, "'%.100s' object attribute '__dict__' is read-only", Py_TYPE(self)->tp_name);
        return -1;
    }
    return PyObject_GenericSetAttr(self, name, value);
}

static int
Local_traverse(PyObject *object, visitproc visit, void *arg)
{
    Local *self = (Local *)object;
    Py_VISIT(self->args);
    Py_VISIT(self->kwargs);
    for (size_t i = 0; i < self->size; i++)
        for (LocalEntry *entry = self->buckets[i]; entry != NULL; entry = entry->chain)
            Py_VISIT(entry->dict);
    return 0;
}

static int
Local_clear(PyObject *object)
{
    Local *self = (Local *)object;
    Py_CLEAR(self->args);
    Py_CLEAR(self->kwargs);
    for (size_t count = self->used, i = 0; count > 0 && self->used > 0; count--) { /* what is dropped may use this object */
        while (self->buckets[i & (self->size - 1)] == NULL)
            i++;
        Py_DECREF(local_remove(self->buckets[i & (self->size - 1)]));
    }
    return 0;
}

static void
Local_dealloc(PyObject *object)
{
    Local *self = (Local *)object;
    PyObject_GC_UnTrack(object);
    if (self->weakrefs != NULL)
        PyObject_ClearWeakRefs(object);
    Local_clear(object);
    PyMem_Free(self->buckets);
    Py_TYPE(object)->tp_free(object);
}

PyDoc_STRVAR(local_doc, "local(*args, **kwargs)\n--\n\n"
"An object whose attributes each tasklet has for itself, as threading.local has them for each thread.\n\n"
"They go when their tasklet ends; a tasklet begins with none, whatever its creator has. A subclass's __init__ runs once in\n"
"each tasklet that uses the object, with the arguments that it was made with. A thread without tasklets has its own, as its\n"
"main tasklet. Thread-safe.");

static PyTypeObject Local_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "roamlet.sync.local",
    .tp_doc = local_doc,
    .tp_basicsize = sizeof(Local),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_new = Local_new,
    .tp_dealloc = Local_dealloc,
    .tp_traverse = Local_traverse,
    .tp_clear = Local_clear,
    .tp_getattro = Local_getattro,
    .tp_setattro = Local_setattro,
    .tp_dictoffset = offsetof(Local, dict),
    .tp_weaklistoffset = offsetof(Local, weakrefs),
};

/* Once a process. -1 with an exception set. */
static int
local_prepare(void)
{
    return name_interned(&dict_name, "__dict__") != NULL ? 0 : -1;
}
