/* poll(2) and epoll_wait(2) with a time-out of 0, for the patched select module: they only look, so the GIL is kept. The originals release it, which
   beside a thread that computes costs a switch interval. */

#ifdef __linux__
#include <sys/epoll.h>
#endif

#define LOOK_BATCH 64 /* so many descriptors need no memory of their own */

/* (fd, events) appended to `found`. -1 with an exception set. */
static int
look_found(PyObject *found, int fd, unsigned int events)
{
    PyObject *pair = Py_BuildValue("iI", fd, events);
    int failed = pair != NULL ? PyList_Append(found, pair) : -1;
    Py_XDECREF(pair);
    return failed;
}

/* What select.poll.poll(0) would find: a list of (fd, events). `interest`: events by descriptor. Runs no Python code but that of ints. */
static PyObject *
io_poll_now(PyObject *Py_UNUSED(module), PyObject *interest)
{
    struct pollfd few[LOOK_BATCH], *set = few;
    PyObject *key, *value, *found = NULL;
    Py_ssize_t position = 0, count = 0;
    if (!PyDict_CheckExact(interest))
        return PyErr_Format(PyExc_TypeError, "poll_now() takes a dict of events by descriptor, not %R", interest);
    if (PyDict_GET_SIZE(interest) > LOOK_BATCH && (set = PyMem_New(struct pollfd, (size_t)PyDict_GET_SIZE(interest))) == NULL)
        return PyErr_NoMemory();
    while (PyDict_Next(interest, &position, &key, &value)) {
        long fd = PyLong_Check(key) ? PyLong_AsLong(key) : -1, events = PyLong_Check(value) ? PyLong_AsLong(value) : -1;
        if (PyErr_Occurred() || fd < 0 || fd > INT_MAX || events < 0) {
            if (!PyErr_Occurred())
                PyErr_Format(PyExc_ValueError, "poll_now(): %R: %R is no descriptor with events", key, value);
            goto done;
        }
        set[count].fd = (int)fd;
        set[count].events = (short)events;
        set[count++].revents = 0;
    }
    if (poll(set, (nfds_t)count, 0) < 0 && errno != EINTR) {
        PyErr_SetFromErrno(PyExc_OSError);
        goto done;
    }
    found = PyList_New(0);
    for (Py_ssize_t i = 0; found != NULL && i < count; i++)
        if (set[i].revents != 0 && look_found(found, set[i].fd, (unsigned short)set[i].revents) < 0)
            Py_CLEAR(found);
done:
    if (set != few)
        PyMem_Free(set);
    return found;
}

#ifdef __linux__
/* What select.epoll.poll(0, most) would find on an epoll that is open. */
static PyObject *
io_epoll_now(PyObject *Py_UNUSED(module), PyObject *args)
{
    struct epoll_event few[LOOK_BATCH], *events = few;
    PyObject *found = NULL;
    int fd, most, count;
    if (!PyArg_ParseTuple(args, "ii:epoll_now", &fd, &most))
        return NULL;
    if (most < 1)
        return PyErr_Format(PyExc_ValueError, "epoll_now(): at most %d events make no sense", most);
    if (most > LOOK_BATCH && (events = PyMem_New(struct epoll_event, (size_t)most)) == NULL)
        return PyErr_NoMemory();
    count = epoll_wait(fd, events, most, 0);
    if (count < 0 && errno != EINTR)
        PyErr_SetFromErrno(PyExc_OSError);
    else
        found = PyList_New(0);
    for (int i = 0; found != NULL && i < count; i++)
        if (look_found(found, events[i].data.fd, events[i].events) < 0)
            Py_CLEAR(found);
    if (events != few)
        PyMem_Free(events);
    return found;
}
#endif
