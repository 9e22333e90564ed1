/* The ways to ask the kernel which descriptors are ready: epoll where there is one, poll(2) everywhere. */

static int
directions_of(int events)
{
    int directions = 0;
    if (events & (POLLIN | POLLPRI | POLLHUP | POLLERR | POLLNVAL
#ifdef POLLRDHUP
                  | POLLRDHUP
#endif
                  ))
        directions |= BIT(READ);
    if (events & (POLLOUT | POLLHUP | POLLERR | POLLNVAL))
        directions |= BIT(WRITE);
    if (events & ~(POLLIN | POLLOUT))
        directions |= STRANGE;
    return directions;
}

/* In ms, rounded up: a caller that asks again too early asks twice. */
static int
milliseconds(int64_t timeout)
{
    int64_t ms = timeout < 0 ? -1 : timeout / 1000000 + (timeout % 1000000 != 0);
    return ms > INT_MAX ? INT_MAX : (int)ms;
}

static bool poller_is_coarse; /* it knows milliseconds only */

#ifdef __linux__

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

/* Their numbers are those of poll(2). */
_Static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT && EPOLLHUP == POLLHUP && EPOLLERR == POLLERR && EPOLLPRI == POLLPRI,
               "directions_of serves both");

/* The doorbell is edge-triggered too: each write to it is an event, and it need not be read. */
static int
epoll_open(Hub *hub)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u64 = 0};
    hub->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (hub->epoll < 0)
        return -1;
    return epoll_ctl(hub->epoll, EPOLL_CTL_ADD, hub->doorbell, &event);
}

static void
epoll_close(Hub *hub)
{
    if (hub->epoll >= 0)
        close(hub->epoll);
    hub->epoll = -1;
}

static int
epoll_watch(Hub *hub, Descriptor *descriptor, int directions, bool once)
{
    struct epoll_event event = {.events = once ? EPOLLONESHOT : EPOLLET, .data.u64 = descriptor_key(descriptor)};
    if (directions & BIT(READ))
        event.events |= EPOLLIN | EPOLLRDHUP | EPOLLPRI;
    if (directions & BIT(WRITE))
        event.events |= EPOLLOUT;
    if (!once && descriptor->armed == 0) {
        if (epoll_ctl(hub->epoll, EPOLL_CTL_ADD, descriptor->fd, &event) == 0)
            return 0;
        if (errno != EEXIST) /* waited for by number before it was a socket's, or closed behind our back with a duplicate left */
            return -1;
    }
    if (epoll_ctl(hub->epoll, EPOLL_CTL_MOD, descriptor->fd, &event) == 0)
        return 0;
    if (errno == ENOENT && epoll_ctl(hub->epoll, EPOLL_CTL_ADD, descriptor->fd, &event) == 0)
        return 0;
    return errno == EPERM ? 1 : -1; /* a regular file */
}

static void
epoll_forget(Hub *hub, Descriptor *descriptor)
{
    if (hub->process == getpid()) /* else its parent would not hear of it any more */
        epoll_ctl(hub->epoll, EPOLL_CTL_DEL, descriptor->fd, NULL); /* fails for what was closed behind our back */
}

static int
epoll_sleep(int epoll, struct epoll_event *events, int64_t timeout)
{
#ifdef SYS_epoll_pwait2
    if (timeout > 0 && !poller_is_coarse) {
        struct timespec limit = {.tv_sec = timeout / 1000000000, .tv_nsec = timeout % 1000000000};
        int count = (int)syscall(SYS_epoll_pwait2, epoll, events, HUB_BATCH, &limit, NULL, 0);
        if (count >= 0 || (errno != ENOSYS && errno != EPERM))
            return count;
        poller_is_coarse = true; /* before Linux 5.11 */
    }
#else
    poller_is_coarse = true;
#endif
    return epoll_wait(epoll, events, HUB_BATCH, milliseconds(timeout));
}

static int
epoll_look(Hub *hub, int64_t timeout)
{
    struct epoll_event events[HUB_BATCH];
    int count = epoll_sleep(hub->epoll, events, timeout);
    for (int i = 0; i < count; i++) {
        hub->found[i].key = events[i].data.u64;
        hub->found[i].directions = directions_of((int)events[i].events);
    }
    return count;
}

static const Poller epoll_poller = {true, epoll_open, epoll_close, epoll_watch, epoll_forget, NULL, epoll_look};

#endif

/* ---- poll(2): every descriptor in the set is there for one event ---- */

/* Put an entry after the others. 0, or -1 with errno. */
static int
pollset_append(Hub *hub, int fd, uint64_t key)
{
    if (hub->count == hub->capacity) {
        int capacity = hub->capacity > 0 ? hub->capacity * 2 : 16;
        struct pollfd *set = PyMem_Realloc(hub->set, (size_t)capacity * sizeof *set);
        if (set != NULL)
            hub->set = set;
        uint64_t *keys = set != NULL ? PyMem_Realloc(hub->keys, (size_t)capacity * sizeof *keys) : NULL;
        if (keys == NULL) {
            errno = ENOMEM;
            return -1;
        }
        hub->keys = keys;
        hub->capacity = capacity;
    }
    hub->set[hub->count] = (struct pollfd){.fd = fd};
    hub->keys[hub->count] = key;
    hub->count++;
    return 0;
}

static int
pollset_open(Hub *hub)
{
    hub->count = 0;
    if (pollset_append(hub, hub->doorbell, 0) < 0)
        return -1;
    hub->set[0].events = POLLIN;
    return 0;
}

static void
pollset_close(Hub *hub)
{
    PyMem_Free(hub->set);
    PyMem_Free(hub->keys);
    hub->set = NULL;
    hub->keys = NULL;
    hub->count = hub->capacity = 0;
}

static int
pollset_watch(Hub *hub, Descriptor *descriptor, int directions, bool Py_UNUSED(once))
{
    uint64_t key = descriptor_key(descriptor);
    int place = 1;
    if (fcntl(descriptor->fd, F_GETFD) < 0)
        return -1;
    while (place < hub->count && hub->keys[place] != key)
        place++;
    if (place == hub->count && pollset_append(hub, descriptor->fd, key) < 0)
        return -1;
    hub->set[place].events = (short)((directions & BIT(READ) ? POLLIN | POLLPRI : 0) | (directions & BIT(WRITE) ? POLLOUT : 0));
    return 0;
}

/* The hub's own thread may be asleep with the set in the kernel's hands: it drops what was closed itself. */
static void
pollset_forget(Hub *Py_UNUSED(hub), Descriptor *Py_UNUSED(descriptor))
{
}

static void
pollset_remove(Hub *hub, int place)
{
    hub->count--;
    hub->set[place] = hub->set[hub->count];
    hub->keys[place] = hub->keys[hub->count];
}

/* Before it waits, with the GIL held: leave out what was closed since, whose number may belong to something else. */
static void
pollset_prepare(Hub *hub)
{
    for (int place = hub->count - 1; place > 0; place--) {
        const Descriptor *descriptor = descriptor_find(hub->set[place].fd);
        if (descriptor == NULL || descriptor_key(descriptor) != hub->keys[place])
            pollset_remove(hub, place);
    }
}

static int
pollset_look(Hub *hub, int64_t timeout)
{
    int found = 0, count = poll(hub->set, (nfds_t)hub->count, milliseconds(timeout));
    if (count <= 0)
        return count;
    for (int place = hub->count - 1; place >= 0 && found < HUB_BATCH; place--) {
        if (hub->set[place].revents == 0)
            continue;
        hub->found[found].key = hub->keys[place];
        hub->found[found++].directions = directions_of(hub->set[place].revents);
        if (place > 0)
            pollset_remove(hub, place);
        else {
            char silenced[64];
            while (read(hub->doorbell, silenced, sizeof silenced) > 0)
                ;
        }
    }
    return found;
}

static const Poller pollset_poller = {false, pollset_open, pollset_close, pollset_watch, pollset_forget, pollset_prepare,
                                       pollset_look};

/* The one for a new hub. ROAMLET_POLLER=poll asks for the one that serves where there is no epoll. NULL with an exception set. */
static const Poller *
poller_choose(void)
{
    const char *asked = getenv("ROAMLET_POLLER");
    bool any = asked == NULL || *asked == '\0';
#ifdef __linux__
    if (any || strcmp(asked, "epoll") == 0)
        return &epoll_poller;
#endif
    if (any || strcmp(asked, "poll") == 0)
        return &pollset_poller;
    PyErr_Format(PyExc_ValueError, "ROAMLET_POLLER='%s' names no way to wait for descriptors: use one of %spoll, or unset it", asked,
#ifdef __linux__
                 "epoll, "
#else
                 ""
#endif
    );
    return NULL;
}
