/* Connecting, listening, and shutting down. */

/* ---- accept ---- */

static PyObject *
Socket_accept(PyObject *self, PyObject *Py_UNUSED(none))
{
    Socket *socket = socket_of(self);
    Address address = {0};
    int64_t deadline = UNSET;
    if (socket_checkpoint(socket, 0) < 0)
        return NULL;
    if (!family_is_known(socket->family)) {
        PyObject *pair = socket_retry(self, "_accept", READ, NULL, 0, NULL, -1), *made;
        if (pair == NULL)
            return NULL;
        made = socket_accepted(socket, (int)PyLong_AsLong(PyTuple_GET_ITEM(pair, 0)));
        Py_SETREF(pair, Py_BuildValue("NO", made, PyTuple_GET_ITEM(pair, 1)));
        return pair;
    }
    for (;;) {
        socklen_t length = sizeof address;
        int fd = accept4(socket->fd, &address.any, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0)
            return with_address(socket_accepted(socket, fd), &address, length);
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN && errno != EWOULDBLOCK)
            return socket_failed();
        socket_set_idle(socket, READ);
        if (socket_wait_saying(socket, READ, &deadline, "no client connected") < 0)
            return NULL;
    }
}

/* ---- connect ---- */

#define FIRST_PAUSE 1000000 /* ns; doubled up to the longest one */
#define LONGEST_PAUSE 50000000

/* Wait until the connection under way is made or has failed: 0 or its errno, -1 with an exception set. Switches. */
static int
connect_finish(Socket *socket, int64_t *deadline)
{
    int error, ready;
    socklen_t length = sizeof error;
    while ((ready = ready_now(socket->fd, WRITE)) == 0)
        if (socket_wait_saying(socket, WRITE, deadline, "the connection was not made") < 0)
            return -1;
    if (ready < 0)
        return -1;
    return getsockopt(socket->fd, SOL_SOCKET, SO_ERROR, &error, &length) < 0 ? errno : error;
}

/* A listener of the family AF_UNIX whose queue is full says so and never when there is room: try again at growing intervals.
   0, or -1 with an exception set. Switches. */
static int
connect_pause(Socket *socket, int64_t *pause, int64_t *deadline)
{
    Descriptor *descriptor = socket_descriptor(socket);
    int64_t now = api->now();
    if (descriptor == NULL || now < 0 || socket_deadline(socket, deadline) < 0)
        return -1;
    if (*deadline != ROAMLET_NEVER && now >= *deadline) {
        socket_set_timed_out(socket, "the listener's queue was full all the time");
        return -1;
    }
    int64_t until = *deadline != ROAMLET_NEVER && *deadline < now + *pause ? *deadline : now + *pause;
    *pause = *pause * 2 < LONGEST_PAUSE ? *pause * 2 : LONGEST_PAUSE;
    Py_INCREF(descriptor);
    int how = api->wait(&descriptor->waiting[WRITE], (PyObject *)descriptor, until, ROAMLET_WAIT_HUB, NULL);
    if (how >= 0 && descriptor->closed) {
        descriptor_set_closed(descriptor);
        how = -1;
    }
    Py_DECREF(descriptor);
    return how < 0 ? -1 : 0;
}

/* 0 or an errno, -1 with an exception set. Switches. */
static int
connect_to(Socket *socket, const Address *address, socklen_t length)
{
    int64_t deadline = UNSET, pause = FIRST_PAUSE;
    if (socket_checkpoint(socket, 0) < 0)
        return -1;
    for (;;) {
        if (connect(socket->fd, &address->any, length) == 0)
            return 0;
        bool full = errno == EAGAIN && socket->family == AF_UNIX;
        if (socket->seconds == 0 || !(full || errno == EINPROGRESS || errno == EINTR))
            return errno;
        if (!full)
            return connect_finish(socket, &deadline);
        if (connect_pause(socket, &pause, &deadline) < 0)
            return -1;
    }
}

/* The same for an address that the standard class understands. */
static int
connect_by_base(PyObject *self, PyObject *address)
{
    Socket *socket = socket_of(self);
    int64_t deadline = UNSET;
    PyObject *number = base_call(self, "connect_ex", &address, 1, NULL);
    int error = number != NULL ? (int)PyLong_AsLong(number) : -1;
    Py_XDECREF(number);
    return error == EINPROGRESS && socket->seconds != 0 ? connect_finish(socket, &deadline) : error;
}

static int
socket_connect(PyObject *self, PyObject *object)
{
    Socket *socket = socket_of(self);
    Address address;
    socklen_t length;
    PyObject *numeric;
    int known = socket_address(socket, object, &address, &length, &numeric), error = -1;
    if (known == 0)
        error = connect_by_base(self, numeric);
    else if (known > 0 && PySys_Audit("socket.connect", "OO", self, object) == 0)
        error = connect_to(socket, &address, length);
    Py_XDECREF(numeric);
    return error;
}

static PyObject *
Socket_connect(PyObject *self, PyObject *address)
{
    int error = socket_connect(self, address);
    if (error < 0)
        return NULL;
    if (error > 0) {
        errno = error;
        return socket_failed();
    }
    Py_RETURN_NONE;
}

static PyObject *
Socket_connect_ex(PyObject *self, PyObject *address)
{
    int error = socket_connect(self, address);
    if (error < 0) {
        if (!PyErr_ExceptionMatches(PyExc_TimeoutError))
            return NULL;
        PyErr_Clear();
        error = EAGAIN; /* as the standard's says it */
    }
    return PyLong_FromLong(error);
}

static PyObject *
Socket_shutdown(PyObject *self, PyObject *how)
{
    int which;
    if (int_argument(how, &which) < 0)
        return NULL;
    if (shutdown(socket_of(self)->fd, which) < 0)
        return socket_failed();
    Py_RETURN_NONE;
}
