/* Reading, writing, waiting and closing by a descriptor's number, blocking or not, also where other code may close it. */

#define WRITE_AT_ONCE 4096    /* what a blocking descriptor that is ready takes without blocking (PIPE_BUF) */
#define COPY_AT_ONCE (1 << 18) /* what one call may copy while it keeps the GIL */
#define SCRATCH (1 << 16)

static char scratch[SCRATCH]; /* what is read goes here first; the GIL is kept until it has been copied */

/* ---- arguments ---- */

/* arguments_take, where the first `needed` must be given. */
static int
arguments(const char *name, const char *const *keywords, Py_ssize_t needed, Py_ssize_t most, PyObject **given, PyObject *const *args,
          Py_ssize_t count, PyObject *names)
{
    if (arguments_take(name, keywords, most, given, args, count, names) < 0)
        return -1;
    for (Py_ssize_t i = 0; i < needed; i++)
        if (given[i] == NULL) {
            PyErr_Format(PyExc_TypeError, "%s() needs the argument '%s'", name, keywords[i]);
            return -1;
        }
    return 0;
}

/* 0 with a C int in *value, or -1 with an exception set. */
static int
int_argument(PyObject *object, int *value)
{
    long number = PyLong_AsLong(object);
    if (number == -1 && PyErr_Occurred())
        return -1;
    if (number < INT_MIN || number > INT_MAX) {
        PyErr_Format(PyExc_OverflowError, "%ld does not fit into a C int", number);
        return -1;
    }
    *value = (int)number;
    return 0;
}

/* The number in `object`; -1 with an exception set. */
static int
descriptor_number(PyObject *object)
{
    if (!PyLong_Check(object)) {
        PyErr_Format(PyExc_TypeError, "expected a file descriptor's number, not %R: pass its fileno()", object);
        return -1;
    }
    long number = PyLong_AsLong(object);
    if (number == -1 && PyErr_Occurred())
        return -1;
    if (number < 0 || number > INT_MAX) {
        PyErr_Format(PyExc_ValueError, "%ld is no file descriptor: is what it belonged to closed?", number);
        return -1;
    }
    return (int)number;
}

/* ---- waiting ---- */

/* Whether a call would not block now; -1 with an exception set. Having been woken does not say so: others may have been
   woken with us. */
static int
ready_now(int fd, int direction)
{
    struct pollfd one = {.fd = fd, .events = direction == READ ? POLLIN | POLLPRI : POLLOUT};
    int count = poll(&one, 1, 0);
    if (count > 0 && one.revents & POLLNVAL) {
        errno = EBADF;
        count = -1;
    }
    if (count < 0 && errno != EINTR) {
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    return count > 0;
}

#define LONG_OVER 0 /* a deadline after which it was tried once more */

/* The time of a wait is over. Timers are looked at before descriptors are, so that it may have become possible meanwhile: whether
   that is so, the first time that this is asked for a deadline. */
static bool
came_in_time(Descriptor *descriptor, int direction, int64_t *deadline)
{
    struct pollfd one = {.fd = descriptor->fd, .events = direction == READ ? POLLIN : POLLOUT};
    if (*deadline == LONG_OVER || descriptor->closed || poll(&one, 1, 0) <= 0 || one.revents & POLLNVAL)
        return false;
    descriptor->maybe |= BIT(direction);
    *deadline = LONG_OVER;
    return true;
}

/* How a call that waits for a number was called. */
typedef struct {
    const char *name;
    PyObject *timeout; /* borrowed */
    int64_t deadline;
    int fd, flags;
} Call;

/* Wait once. 0, or -1 with an exception set. Switches. */
static int
call_wait(Call *call, int direction)
{
    Descriptor *descriptor = descriptor_get(call->fd);
    int how = descriptor != NULL ? descriptor_wait(descriptor, direction, call->deadline, call->flags) : -1;
    if (how == 0 && came_in_time(descriptor, direction, &call->deadline))
        how = 1;
    Py_XDECREF(descriptor);
    if (how == 0)
        PyErr_Format(PyExc_TimeoutError, "%s(): descriptor %d was not ready for %s within %S seconds", call->name, call->fd,
                     direction == READ ? "reading" : "writing", call->timeout);
    return how > 0 ? 0 : -1;
}

/* Wait until a call in this direction would not block. 0, or -1 with an exception set. Switches. */
static int
call_until_ready(Call *call, int direction)
{
    for (;;) {
        int ready = ready_now(call->fd, direction);
        if (ready != 0)
            return ready < 0 ? -1 : 0;
        if (call_wait(call, direction) < 0)
            return -1;
    }
}

/* Fill in a call from its arguments fd, timeout and daemon. May run Python code and switch. 0, or -1 with an exception set. */
static int
call_begin(Call *call, const char *what, PyObject *fd, PyObject *timeout, PyObject *daemon)
{
    int is_daemon = PyObject_IsTrue(daemon);
    call->timeout = timeout;
    call->flags = is_daemon > 0 ? ROAMLET_WAIT_DAEMON : 0;
    if (is_daemon < 0 || (call->fd = descriptor_number(fd)) < 0 || api->deadline(timeout, what, &call->deadline) < 0)
        return -1;
    return api->checkpoint(true);
}

static PyObject *
wait_for_number(const char *name, const char *what, int direction, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const char *const keywords[] = {"fd", "timeout", "daemon"};
    PyObject *given[3] = {NULL, Py_None, Py_False};
    Call call = {.name = name};
    if (arguments(name, keywords, 1, 3, given, args, count, names) < 0 || call_begin(&call, what, given[0], given[1], given[2]) < 0 ||
        call_until_ready(&call, direction) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
io_wait_readable(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    return wait_for_number("wait_readable", "wait_readable(timeout)", READ, args, count, names);
}

static PyObject *
io_wait_writable(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    return wait_for_number("wait_writable", "wait_writable(timeout)", WRITE, args, count, names);
}

/* Wait for what another call will look at: only what is raised in the tasklet meanwhile is an error. */
static PyObject *
io_may_be_ready(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    Call call = {.name = "may_be_ready"};
    if (count != 3)
        return PyErr_Format(PyExc_TypeError, "may_be_ready() takes a descriptor, whether to write, and a time-out (%zd given)", count);
    int direction = PyObject_IsTrue(args[1]);
    if (direction < 0 || call_begin(&call, "may_be_ready(timeout)", args[0], args[2], Py_False) < 0)
        return NULL;
    int ready = ready_now(call.fd, direction);
    Descriptor *descriptor = ready == 0 ? descriptor_get(call.fd) : NULL;
    if (descriptor == NULL) {
        PyErr_Clear(); /* it is not open */
        Py_RETURN_TRUE;
    }
    int how = descriptor_wait(descriptor, direction, call.deadline, 0);
    if (how < 0 && descriptor->closed) {
        PyErr_Clear();
        how = 1;
    }
    Py_DECREF(descriptor);
    return how >= 0 ? PyBool_FromLong(how) : NULL;
}

/* ---- reading ---- */

/* Whether `fd` blocks; -1 with an exception set. */
static int
is_blocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    return (flags & O_NONBLOCK) == 0;
}

/* A blocking descriptor may block after all, a file on its disk: the GIL is released for it. */
static ssize_t
read_blocking(int fd, void *buffer, size_t size)
{
    ssize_t got;
    Py_BEGIN_ALLOW_THREADS
    got = read(fd, buffer, size);
    Py_END_ALLOW_THREADS
    return got;
}

/* Into `buffer`, waiting for the first byte. How many, -1 with an exception set. Switches. */
static ssize_t
call_read(Call *call, void *buffer, size_t size, bool blocking)
{
    for (;;) {
        if (blocking && call_until_ready(call, READ) < 0)
            return -1;
        ssize_t got = blocking ? read_blocking(call->fd, buffer, size) : read(call->fd, buffer, size);
        if (got >= 0)
            return got;
        if (errno == EINTR) {
            if (PyErr_CheckSignals() < 0)
                return -1;
        } else if (errno != EAGAIN && errno != EWOULDBLOCK) {
            PyErr_SetFromErrno(PyExc_OSError);
            return -1;
        } else if (call_wait(call, READ) < 0)
            return -1;
    }
}

static PyObject *
io_read(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const char *const keywords[] = {"fd", "size", "timeout", "daemon"};
    PyObject *given[4] = {NULL, NULL, Py_None, Py_False}, *data;
    Call call = {.name = "read"};
    if (arguments("read", keywords, 2, 4, given, args, count, names) < 0)
        return NULL;
    Py_ssize_t size = PyNumber_AsSsize_t(given[1], PyExc_OverflowError);
    if (size == -1 && PyErr_Occurred())
        return NULL;
    if (size < 0)
        return PyErr_Format(PyExc_ValueError, "read() takes a size from 0 on, not %zd", size);
    if (call_begin(&call, "read(timeout)", given[0], given[2], given[3]) < 0)
        return NULL;
    int blocking = is_blocking(call.fd);
    if (blocking < 0)
        return NULL;
    if (!blocking && size <= SCRATCH) {
        ssize_t got = call_read(&call, scratch, (size_t)size, false);
        return got >= 0 ? PyBytes_FromStringAndSize(scratch, got) : NULL;
    }
    if (!blocking && size > COPY_AT_ONCE)
        size = COPY_AT_ONCE;
    data = PyBytes_FromStringAndSize(NULL, size);
    if (data == NULL)
        return NULL;
    ssize_t got = call_read(&call, PyBytes_AS_STRING(data), (size_t)size, blocking > 0);
    if (got < 0)
        Py_CLEAR(data);
    else if (got != size)
        _PyBytes_Resize(&data, got);
    return data;
}

/* ---- writing ---- */

static ssize_t
write_blocking(int fd, const void *data, size_t size)
{
    ssize_t done;
    Py_BEGIN_ALLOW_THREADS
    done = write(fd, data, size);
    Py_END_ALLOW_THREADS
    return done;
}

/* All of it. 0, or -1 with an exception set. The time-out, which is `timeout` for each wait, is looked at again. Switches. */
static int
call_write(Call *call, const char *data, Py_ssize_t size, bool blocking)
{
    for (Py_ssize_t done = 0; done < size;) {
        if (api->deadline(call->timeout, "write(timeout)", &call->deadline) < 0 || (blocking && call_until_ready(call, WRITE) < 0))
            return -1;
        Py_ssize_t most = blocking ? WRITE_AT_ONCE : COPY_AT_ONCE;
        size_t part = (size_t)(size - done < most ? size - done : most);
        ssize_t written = blocking ? write_blocking(call->fd, data + done, part) : write(call->fd, data + done, part);
        if (written >= 0) {
            done += written;
            if (done < size && api->checkpoint(true) < 0)
                return -1;
        } else if (errno == EINTR) {
            if (PyErr_CheckSignals() < 0)
                return -1;
        } else if (errno != EAGAIN && errno != EWOULDBLOCK) {
            PyErr_SetFromErrno(PyExc_OSError);
            return -1;
        } else if (call_wait(call, WRITE) < 0)
            return -1;
    }
    return 0;
}

static PyObject *
io_write(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const char *const keywords[] = {"fd", "data", "timeout", "daemon"};
    PyObject *given[4] = {NULL, NULL, Py_None, Py_False}, *result = NULL;
    Call call = {.name = "write"};
    Py_buffer view;
    int blocking;
    if (arguments("write", keywords, 2, 4, given, args, count, names) < 0 ||
        call_begin(&call, "write(timeout)", given[0], given[2], given[3]) < 0 || PyObject_GetBuffer(given[1], &view, PyBUF_SIMPLE) < 0)
        return NULL;
    if ((blocking = is_blocking(call.fd)) >= 0 && call_write(&call, view.buf, view.len, blocking > 0) == 0)
        result = PyLong_FromSsize_t(view.len);
    PyBuffer_Release(&view);
    return result;
}

/* ---- closing ---- */

/* For what is closed by other code: tasklets that wait for it are told. */
static PyObject *
io_let_go(PyObject *Py_UNUSED(module), PyObject *number)
{
    int fd = descriptor_number(number);
    if (fd < 0)
        return NULL;
    if (descriptor_find(fd) != NULL)
        descriptor_close(descriptor_find(fd));
    Py_RETURN_NONE;
}

/* For a call that has found something to do at once, like those of the socket. */
static PyObject *
io_let_others_run(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    if (api->checkpoint(true) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
io_close(PyObject *Py_UNUSED(module), PyObject *number)
{
    int fd = descriptor_number(number), result;
    if (fd < 0)
        return NULL;
    Descriptor *descriptor = descriptor_find(fd);
    if (descriptor != NULL)
        descriptor_close(descriptor);
    Py_BEGIN_ALLOW_THREADS
    result = close(fd);
    Py_END_ALLOW_THREADS
    if (result < 0 && errno != EINTR)
        return PyErr_SetFromErrno(PyExc_OSError);
    Py_RETURN_NONE;
}
