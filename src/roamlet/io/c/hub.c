/* The hub of a thread: waits for descriptors on behalf of the thread's tasklets. Knows nothing of what is read or written.

   The core calls `poll` when no tasklet can run, and now and then while tasklets do. A hub appears in a thread when something
   first waits there, and goes with the thread. */

static Hub *hubs; /* of all threads */
static uint32_t last_hub;

static int64_t responsive_limit(int64_t timeout);
static void responsive_slept(bool crowded);
static void responsive_restore(void);

/* The live hub with this id: NULL when its thread has ended. */
static Hub *
hub_find(uint32_t id)
{
    Hub *hub = hubs;
    while (hub != NULL && hub->id != id)
        hub = hub->next;
    return hub;
}

/* ---- waiting ---- */

#define CROWDED_NS 100000 /* a longer wait for the GIL is a wait for a thread that computes */
#define LINGER_NS 50000
#define LINGER_CREDIT 8

static bool
other_threads(void)
{
    PyThreadState *first = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
    return first != NULL && PyThreadState_Next(first) != NULL;
}

/* Sleep with the GIL released. How many were found, -1 with errno. */
static int
hub_sleep(Hub *hub, int64_t timeout)
{
    int64_t limit = responsive_limit(timeout), since;
    int count, error;
    PyThreadState *tstate = api->gil_leave();
    count = hub->poller->wait(hub, limit);
    error = errno;
    since = monotonic_ns();
    api->gil_return(tstate);
    hub->crowded = monotonic_ns() - since > CROWDED_NS && other_threads();
    responsive_slept(hub->crowded && (count != 0 || limit == timeout));
    errno = error;
    return count;
}

/* Beside a thread that computes, sleep for a moment with the GIL kept: giving it up costs a switch interval, and a client
   that has just been answered often asks again within microseconds. The other thread asks for the GIL meanwhile and gets it at the next
   instruction. Not for long where that is seldom worth it. How many were found, -1 with errno. */
static int
hub_linger(Hub *hub, int64_t timeout)
{
    int count;
    if (!hub->poller->edges || poller_is_coarse)
        return 0;
    if (hub->credit < 0) { /* try again now and then */
        hub->credit++;
        return 0;
    }
    count = hub->poller->wait(hub, timeout >= 0 && timeout < LINGER_NS ? timeout : LINGER_NS);
    if (count > 0)
        hub->credit = LINGER_CREDIT;
    else if (hub->credit-- == 0)
        hub->credit = -LINGER_CREDIT;
    return count;
}

/* Wake whom it concerns. What was closed meanwhile has another key, if any. */
static void
hub_deliver(Hub *hub, int count)
{
    for (int i = 0; i < count; i++) {
        uint64_t key = hub->found[i].key;
        Descriptor *descriptor = key != 0 ? descriptor_find((int)(uint32_t)key) : NULL;
        if (descriptor == NULL || descriptor_key(descriptor) != key)
            continue;
        descriptor_news(descriptor, hub->found[i].directions);
        if (descriptor->home != hub->id) { /* it was there for one event: others may wait for the other direction */
            int waited = (anybody_waits(descriptor, READ) ? BIT(READ) : 0) | (anybody_waits(descriptor, WRITE) ? BIT(WRITE) : 0);
            if (waited != 0 && hub->poller->watch(hub, descriptor, waited, true) < 0)
                descriptor_close(descriptor); /* behind our back: who still waits finds that out */
        }
    }
}

/* The core's way in. Looks first, which takes a microsecond, and gives the GIL up only to sleep: beside a thread that
   computes that costs two switches of threads. Not where the thread has one tasklet: that has just seen for itself that there is nothing, as in
   programs with a thread for each connection. Lingering there would hold up the other threads' hubs. */
static int
hub_poll(RoamletHub *base, int64_t timeout)
{
    Hub *hub = (Hub *)base;
    if (hub->poller->prepare != NULL)
        hub->poller->prepare(hub);
    bool look = timeout == 0 || !hub->base.alone;
    int count = look ? hub->poller->wait(hub, 0) : 0;
    if (count == 0 && look && timeout != 0 && hub->crowded)
        count = hub_linger(hub, timeout);
    if (count == 0 && timeout != 0) {
        if (PyErr_CheckSignals() < 0) /* one that came just now would not interrupt the sleep */
            return -1;
        count = hub_sleep(hub, timeout);
    }
    if (likely(count >= 0)) {
        hub_deliver(hub, count);
        return 0;
    }
    if (errno == EINTR)
        return PyErr_CheckSignals();
    PyErr_SetFromErrno(PyExc_OSError);
    return -1;
}

/* ---- its life ---- */

/* What another thread rings when it made a tasklet of this one runnable: an eventfd, or a pipe. 0, or -1 with errno. */
static int
doorbell_open(Hub *hub)
{
#ifdef __linux__
    hub->doorbell = hub->base.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return hub->doorbell < 0 ? -1 : 0;
#else
    int ends[2];
    if (pipe(ends) < 0)
        return -1;
    for (int i = 0; i < 2; i++) {
        fcntl(ends[i], F_SETFD, FD_CLOEXEC);
        fcntl(ends[i], F_SETFL, O_NONBLOCK);
    }
    hub->doorbell = ends[0];
    hub->base.wake_fd = ends[1];
    return 0;
#endif
}

static void
hub_close_descriptors(Hub *hub)
{
    hub->poller->close(hub);
    if (hub->doorbell >= 0)
        close(hub->doorbell);
    if (hub->base.wake_fd >= 0 && hub->base.wake_fd != hub->doorbell)
        close(hub->base.wake_fd);
    hub->doorbell = hub->base.wake_fd = -1;
}

/* 0, or -1 with an exception set and nothing left open. */
static int
hub_open(Hub *hub)
{
    if (++last_hub == 0)
        last_hub = 1;
    hub->id = last_hub;
    hub->process = getpid();
    hub->epoll = hub->doorbell = hub->base.wake_fd = -1;
    if (doorbell_open(hub) == 0 && hub->poller->open(hub) == 0)
        return 0;
    PyErr_SetFromErrno(PyExc_OSError);
    hub_close_descriptors(hub);
    return -1;
}

static void
hub_free(Hub *hub)
{
    for (Hub **link = &hubs; *link != NULL; link = &(*link)->next)
        if (*link == hub) {
            *link = hub->next;
            break;
        }
    hub_close_descriptors(hub);
    PyMem_Free(hub);
}

/* The thread ends. */
static void
hub_close(RoamletHub *base)
{
    hub_free((Hub *)base);
    responsive_restore();
}

static Hub *
hub_make(void)
{
    const Poller *poller = poller_choose();
    Hub *hub = poller != NULL ? PyMem_Calloc(1, sizeof *hub) : NULL;
    if (hub == NULL)
        return poller != NULL ? (Hub *)PyErr_NoMemory() : NULL;
    hub->base.poll = hub_poll;
    hub->base.close = hub_close;
    hub->poller = poller;
    if (hub_open(hub) < 0) {
        PyMem_Free(hub);
        return NULL;
    }
    hub->next = hubs;
    hubs = hub;
    if (api->install_hub(&hub->base) < 0) {
        hub_free(hub);
        return NULL;
    }
    return hub;
}

/* This thread's, made when first needed: borrowed, NULL with an exception set. */
static Hub *
hub_get(void)
{
    RoamletHub *installed = api->hub();
    return likely(installed != NULL && installed->poll == hub_poll) ? (Hub *)installed : hub_make();
}

/* In a forked child, which shares neither the parent's sets nor its doorbells: this thread's hub is made anew, those of other
   threads are gone. NULL with an exception set. */
static PyObject *
hub_forked(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    RoamletHub *installed = api->hub();
    Hub *own = installed != NULL && installed->poll == hub_poll ? (Hub *)installed : NULL, *next;
    for (Hub *hub = hubs; hub != NULL; hub = next) {
        next = hub->next;
        if (hub != own)
            hub_free(hub);
    }
    responsive_restore();
    if (own != NULL) {
        hub_close_descriptors(own);
        if (hub_open(own) < 0)
            return NULL;
    }
    for (int fd = 0; fd < table_size; fd++) {
        Descriptor *descriptor = table[fd];
        if (descriptor == NULL)
            continue;
        descriptor->home = descriptor->armed = 0;
        descriptor->maybe = BOTH;
        for (int direction = READ; direction <= WRITE && own != NULL; direction++)
            if (anybody_waits(descriptor, direction) && descriptor_watch(own, descriptor, direction) < 0) {
                descriptor_close(descriptor);
                break;
            }
    }
    Py_RETURN_NONE;
}
