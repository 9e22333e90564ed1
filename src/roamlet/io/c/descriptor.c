/* Descriptors: the calls that wait for a file descriptor, found by its number. Waking them, and what happens when it is closed.

   One table serves all threads, so that the tasklets of several may wait for one descriptor, whichever hub hears of it
   first, and closing it reaches them all. */

static Descriptor **table; /* by number; NULL where no call has waited yet. Each is owned. */
static int table_size;
static uint32_t last_generation;
static PyTypeObject Descriptor_Type;

static Hub *hub_get(void);
static Hub *hub_find(uint32_t id);

/* The one with this number: borrowed, NULL if it has none. */
static Descriptor *
descriptor_find(int fd)
{
    return fd >= 0 && fd < table_size ? table[fd] : NULL;
}

static int
table_grow(int fd)
{
    int size = table_size > 0 ? table_size : 64;
    while (size <= fd)
        size *= 2;
    Descriptor **grown = PyMem_Realloc(table, (size_t)size * sizeof(void *));
    if (grown == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    memset(grown + table_size, 0, (size_t)(size - table_size) * sizeof(void *));
    table = grown;
    table_size = size;
    return 0;
}

/* The one with this number, made if need be. A new reference; NULL with an exception set. */
static Descriptor *
descriptor_get(int fd)
{
    Descriptor *found = descriptor_find(fd);
    if (found == NULL) {
        if (fd < 0 || fd >= table_size) {
            if (fcntl(fd, F_GETFD) < 0) /* a number out of the blue must not make the table large */
                return (Descriptor *)PyErr_SetFromErrno(PyExc_OSError);
            if (table_grow(fd) < 0)
                return NULL;
        }
        found = PyObject_New(Descriptor, &Descriptor_Type);
        if (found == NULL)
            return NULL;
        memset((char *)found + sizeof(PyObject), 0, sizeof *found - sizeof(PyObject));
        if (++last_generation == 0)
            last_generation = 1;
        found->generation = last_generation;
        found->fd = fd;
        found->maybe = BOTH;
        table[fd] = found;
    }
    Py_INCREF(found);
    return found;
}

/* Its number is about to belong to something else: waiting calls go on and find it closed. Runs no Python code. */
static void
descriptor_close(Descriptor *descriptor)
{
    if (descriptor->closed)
        return;
    Hub *home = descriptor->home != 0 ? hub_find(descriptor->home) : NULL;
    if (home != NULL) /* a duplicate would keep it there */
        home->poller->forget(home, descriptor);
    descriptor->closed = true;
    api->wake_all(&descriptor->waiting[READ]);
    api->wake_all(&descriptor->waiting[WRITE]);
    assert(table[descriptor->fd] == descriptor);
    table[descriptor->fd] = NULL;
    Py_DECREF(descriptor);
}

static void
descriptor_set_closed(const Descriptor *descriptor)
{
    PyObject *error = PyObject_CallFunction(PyExc_OSError, "iN", EBADF,
                                            PyUnicode_FromFormat("descriptor %d was closed while a tasklet waited for it", descriptor->fd));
    if (error != NULL)
        PyErr_SetObject(PyExc_OSError, error);
    Py_XDECREF(error);
}

/* The hub has heard that something may be done in these directions: wake the tasklets concerned. A tasklet that found nothing to do
   is in its queue before the hub is asked again. Runs no Python code. */
static void
descriptor_news(Descriptor *descriptor, int directions)
{
    descriptor->maybe |= (uint8_t)(directions & BOTH);
    if (directions & STRANGE)
        descriptor->strange = true;
    for (int direction = READ; direction <= WRITE; direction++)
        if (directions & BIT(direction))
            api->wake_all(&descriptor->waiting[direction]);
}

/* Have the hub look at one more direction. A socket stays in the set of one hub, where nothing needs to be done again; it moves
   to the hub of the waiting tasklet when no other one waits. 0; 1 when it is always ready; -1 with errno. */
static int
descriptor_watch(Hub *hub, Descriptor *descriptor, int direction)
{
    int waited = 0;
    for (int other = READ; other <= WRITE; other++)
        if (anybody_waits(descriptor, other))
            waited |= BIT(other);
    if (descriptor->owned && hub->poller->edges) {
        if (descriptor->home != hub->id) {
            Hub *before = descriptor->home != 0 ? hub_find(descriptor->home) : NULL;
            if (before != NULL && waited == 0) {
                before->poller->forget(before, descriptor);
                before = NULL;
            }
            if (before == NULL) {
                descriptor->home = hub->id;
                descriptor->armed = 0;
            }
        }
        if (descriptor->home == hub->id) {
            int wanted = descriptor->armed | waited | BIT(direction), result = 0;
            if (wanted != descriptor->armed && (result = hub->poller->watch(hub, descriptor, wanted, false)) == 0)
                descriptor->armed = (uint8_t)wanted;
            return result;
        }
    }
    return hub->poller->watch(hub, descriptor, waited | BIT(direction), true);
}

/* Block the current tasklet until a call in this direction may succeed, which it then tries. The caller holds a reference.
   1, or 0 when `deadline` came first, or -1 with an exception set. Switches. */
static int
descriptor_wait(Descriptor *descriptor, int direction, int64_t deadline, int flags)
{
    Hub *hub = descriptor->closed ? NULL : hub_get();
    if (hub == NULL) {
        if (descriptor->closed)
            descriptor_set_closed(descriptor);
        return -1;
    }
    int watched = descriptor_watch(hub, descriptor, direction);
    if (watched < 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    if (watched > 0)
        return 1;
    int how = api->wait(&descriptor->waiting[direction], (PyObject *)descriptor, deadline, flags & ROAMLET_WAIT_DAEMON ? flags : ROAMLET_WAIT_HUB, NULL);
    if (how < 0)
        return -1;
    if (descriptor->closed) {
        descriptor_set_closed(descriptor);
        return -1;
    }
    return how == ROAMLET_TIMED_OUT ? 0 : 1;
}

static PyObject *
Descriptor_repr(PyObject *self)
{
    const Descriptor *descriptor = (Descriptor *)self;
    return PyUnicode_FromFormat("<%sdescriptor %d>", descriptor->closed ? "closed " : "", descriptor->fd);
}

/* Its number: a trace asks what a tasklet waits for, see core/c/trace_events.c. */
static PyObject *
Descriptor_index(PyObject *self)
{
    return PyLong_FromLong(((Descriptor *)self)->fd);
}

static PyNumberMethods Descriptor_number = {.nb_index = Descriptor_index};

static PyTypeObject Descriptor_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "roamlet.io.Descriptor",
    .tp_basicsize = sizeof(Descriptor),
    .tp_as_number = &Descriptor_number,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_repr = Descriptor_repr,
    .tp_dealloc = (destructor)PyObject_Free,
};
