/* What sockets receive and send. */

/* ---- receiving ---- */

/* What recvfrom() does. *rest: whether there may be more in a stream that has given less than was asked for. TCP's has no more; of
   the others AF_UNIX's, which ends a call behind a message that carries descriptors or credentials, as MSG_CTRUNC tells here. */
static ssize_t
receive_once(const Socket *socket, char *buffer, size_t size, int flags, Address *address, socklen_t *length, bool *rest)
{
    struct iovec part = {buffer, size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    ssize_t got;
    if (address != NULL)
        *length = sizeof *address;
    if (socket->family != AF_UNIX) {
        *rest = (socket->family != AF_INET && socket->family != AF_INET6) || (socket->proto != 0 && socket->proto != IPPROTO_TCP);
        return recvfrom(socket->fd, buffer, size, flags, address != NULL ? &address->any : NULL, length);
    }
    if (address != NULL) {
        message.msg_name = &address->any;
        message.msg_namelen = *length;
    }
    got = recvmsg(socket->fd, &message, flags);
    if (address != NULL)
        *length = message.msg_namelen;
    *rest = (message.msg_flags & MSG_CTRUNC) != 0;
    return got;
}

/* One system call's worth into `buffer`, waiting for the first of it; all of it with MSG_WAITALL. How much, -1 with an
   exception set. `address` may be NULL. Switches. */
static ssize_t
socket_receive(Socket *socket, char *buffer, size_t size, int flags, Address *address, socklen_t *length)
{
    int64_t deadline = UNSET;
    size_t done = 0;
    if (socket_checkpoint(socket, flags) < 0)
        return -1;
    for (;;) {
        /* The hub has heard of nothing; but it is asked when tasklets wait, so that who does not wait asks the kernel. */
        if (!socket_is_idle(socket, READ) || socket->seconds == 0 || flags & MSG_DONTWAIT) {
            bool rest;
            ssize_t got = receive_once(socket, buffer + done, size - done, flags | MSG_DONTWAIT, address, length, &rest);
            if (got >= 0) {
                if (got > 0 && (size_t)got < size - done && flags == 0 && socket->type == SOCK_STREAM && !rest && socket->descriptor != NULL &&
                    !socket->descriptor->strange)
                    socket_set_idle(socket, READ);
                done += (size_t)got;
                if (got == 0 || done == size || !(flags & MSG_WAITALL) || flags & MSG_PEEK || socket->type != SOCK_STREAM)
                    return (ssize_t)done;
                continue;
            }
            if (errno == EINTR)
                continue;
            if ((errno != EAGAIN && errno != EWOULDBLOCK) || flags & MSG_DONTWAIT) {
                if (done > 0) /* reported by the next call */
                    return (ssize_t)done;
                socket_failed();
                return -1;
            }
            socket_set_idle(socket, READ);
        }
        if (socket_wait(socket, READ, &deadline) < 0) {
            if (done > 0 && PyErr_ExceptionMatches(PyExc_OSError)) { /* no time left, or closed: what has come is not lost */
                PyErr_Clear();
                return (ssize_t)done;
            }
            return -1;
        }
    }
}

/* The size and flags that a receiving call was given; 0, or -1 with an exception set. */
static int
receive_arguments(const char *name, PyObject *const *args, Py_ssize_t count, Py_ssize_t *size, int *flags)
{
    if (count < 1 || count > 2) {
        PyErr_Format(PyExc_TypeError, "%s() takes a size and flags (%zd given)", name, count);
        return -1;
    }
    *size = PyNumber_AsSsize_t(args[0], PyExc_OverflowError);
    if (*size == -1 && PyErr_Occurred())
        return -1;
    *flags = 0;
    if (count > 1 && int_argument(args[1], flags) < 0)
        return -1;
    if (*size < 0) {
        PyErr_Format(PyExc_ValueError, "negative buffersize in %s: it takes a size from 0 on, not %zd", name, *size);
        return -1;
    }
    return 0;
}

/* What was received, as bytes. A stream gives at most SCRATCH at once; of a datagram the rest would be lost. */
static PyObject *
socket_receive_bytes(Socket *socket, Py_ssize_t size, int flags, Address *address, socklen_t *length)
{
    if (size > SCRATCH && socket->type == SOCK_STREAM && !(flags & MSG_WAITALL))
        size = SCRATCH;
    if (size <= SCRATCH && !(flags & MSG_WAITALL)) {
        ssize_t got = socket_receive(socket, scratch, (size_t)size, flags, address, length);
        return got >= 0 ? PyBytes_FromStringAndSize(scratch, got) : NULL;
    }
    PyObject *data = PyBytes_FromStringAndSize(NULL, size);
    ssize_t got = data != NULL ? socket_receive(socket, PyBytes_AS_STRING(data), (size_t)size, flags, address, length) : -1;
    if (got < 0)
        Py_CLEAR(data);
    else if (got != size)
        _PyBytes_Resize(&data, got);
    return data;
}

static PyObject *
Socket_recv(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Py_ssize_t size;
    int flags;
    if (receive_arguments("recv", args, count, &size, &flags) < 0)
        return NULL;
    return socket_receive_bytes(socket_of(self), size, flags, NULL, NULL);
}

/* (data, address), both stolen. */
static PyObject *
with_address(PyObject *data, const Address *address, socklen_t length)
{
    PyObject *from = data != NULL ? address_object(address, length) : NULL, *pair = from != NULL ? PyTuple_Pack(2, data, from) : NULL;
    Py_XDECREF(from);
    Py_XDECREF(data);
    return pair;
}

static PyObject *
Socket_recvfrom(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Socket *socket = socket_of(self);
    Address address = {0};
    socklen_t length = 0;
    Py_ssize_t size;
    int flags;
    if (!family_is_known(socket->family))
        return socket_retry(self, "recvfrom", READ, args, (size_t)count, NULL, 1);
    if (receive_arguments("recvfrom", args, count, &size, &flags) < 0)
        return NULL;
    PyObject *data = socket_receive_bytes(socket, size, flags, &address, &length);
    return with_address(data, &address, length);
}

/* Receive into a buffer of the caller's: how much, -1 with an exception set. */
static ssize_t
socket_receive_into(const char *name, Socket *socket, PyObject *const *args, Py_ssize_t count, PyObject *names, Address *address,
                    socklen_t *length)
{
    static const char *const keywords[] = {"buffer", "nbytes", "flags"};
    PyObject *given[3] = {NULL, NULL, NULL};
    Py_buffer view;
    if (arguments(name, keywords, 1, 3, given, args, count, names) < 0)
        return -1;
    Py_ssize_t size = given[1] != NULL ? PyNumber_AsSsize_t(given[1], PyExc_OverflowError) : 0;
    int flags = 0;
    if ((size == -1 && PyErr_Occurred()) || (given[2] != NULL && int_argument(given[2], &flags) < 0))
        return -1;
    if (PyObject_GetBuffer(given[0], &view, PyBUF_WRITABLE) < 0) {
        if (PyErr_ExceptionMatches(PyExc_BufferError))
            PyErr_Format(PyExc_TypeError, "%s() takes a buffer that can be written to, not %.100s", name, Py_TYPE(given[0])->tp_name);
        return -1;
    }
    ssize_t got = -1;
    if (size < 0)
        PyErr_Format(PyExc_ValueError, "negative buffersize in %s: it takes a size from 0 on, not %zd", name, size);
    else if (size > view.len)
        PyErr_Format(PyExc_ValueError, "nbytes is greater than the length of the buffer: %s() was to put %zd bytes into %zd", name, size,
                     view.len);
    else {
        size = size > 0 ? size : view.len;
        if (size > COPY_AT_ONCE && socket->type == SOCK_STREAM && !(flags & MSG_WAITALL))
            size = COPY_AT_ONCE;
        got = socket_receive(socket, view.buf, (size_t)size, flags, address, length);
    }
    PyBuffer_Release(&view);
    return got;
}

static PyObject *
Socket_recv_into(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    ssize_t got = socket_receive_into("recv_into", socket_of(self), args, count, names, NULL, NULL);
    return got >= 0 ? PyLong_FromSsize_t(got) : NULL;
}

static PyObject *
Socket_recvfrom_into(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    Socket *socket = socket_of(self);
    Address address = {0};
    socklen_t length = 0;
    if (!family_is_known(socket->family))
        return socket_retry(self, "recvfrom_into", READ, args, (size_t)count, names, 2);
    ssize_t got = socket_receive_into("recvfrom_into", socket, args, count, names, &address, &length);
    return got >= 0 ? with_address(PyLong_FromSsize_t(got), &address, length) : NULL;
}

static PyObject *
Socket_recvmsg(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    return socket_retry(self, "recvmsg", READ, args, (size_t)count, names, 2);
}

static PyObject *
Socket_recvmsg_into(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    return socket_retry(self, "recvmsg_into", READ, args, (size_t)count, names, 2);
}

/* ---- sending ---- */

/* One system call's worth of `data`, waiting until there is room. How much, -1 with an exception set. Switches. */
static ssize_t
socket_send(Socket *socket, const char *data, Py_ssize_t size, int flags, const Address *address, socklen_t length, int64_t *deadline)
{
    if (size > COPY_AT_ONCE && socket->type == SOCK_STREAM)
        size = COPY_AT_ONCE;
    if (socket_checkpoint(socket, flags) < 0)
        return -1;
    for (;;) {
        ssize_t sent = sendto(socket->fd, data, (size_t)size, flags | MSG_DONTWAIT | MSG_NOSIGNAL, address != NULL ? &address->any : NULL,
                              address != NULL ? length : 0);
        if (sent >= 0)
            return sent;
        if (errno == EINTR)
            continue;
        if ((errno != EAGAIN && errno != EWOULDBLOCK) || flags & MSG_DONTWAIT) {
            socket_failed();
            return -1;
        }
        socket_set_idle(socket, WRITE);
        if (socket_wait(socket, WRITE, deadline) < 0)
            return -1;
    }
}

/* The buffer and flags that a sending call was given; the buffer is released by the caller. 0, or -1 with an exception set. */
static int
send_arguments(const char *name, PyObject *const *args, Py_ssize_t count, Py_buffer *view, int *flags)
{
    if (count < 1 || count > 2) {
        PyErr_Format(PyExc_TypeError, "%s() takes data and flags (%zd given)", name, count);
        return -1;
    }
    *flags = 0;
    if (count > 1 && int_argument(args[1], flags) < 0)
        return -1;
    return PyObject_GetBuffer(args[0], view, PyBUF_SIMPLE);
}

static PyObject *
Socket_send(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Py_buffer view;
    int64_t deadline = UNSET;
    int flags;
    if (send_arguments("send", args, count, &view, &flags) < 0)
        return NULL;
    ssize_t sent = socket_send(socket_of(self), view.buf, view.len, flags, NULL, 0, &deadline);
    PyBuffer_Release(&view);
    return sent >= 0 ? PyLong_FromSsize_t(sent) : NULL;
}

static PyObject *
Socket_sendall(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Py_buffer view;
    int64_t deadline = UNSET;
    int flags;
    if (send_arguments("sendall", args, count, &view, &flags) < 0)
        return NULL;
    Py_ssize_t done = 0;
    ssize_t sent = 0;
    do {
        sent = socket_send(socket_of(self), (const char *)view.buf + done, view.len - done, flags, NULL, 0, &deadline);
        done += sent;
    } while (sent >= 0 && done < view.len);
    PyBuffer_Release(&view);
    if (sent < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* An address of a known family, after its name was looked up if it has one. Whether it could be written; it is left to the
   standard class otherwise, with what look_up returned in *numeric (a new reference). -1 with an exception set. May switch. */
static int
socket_address(const Socket *socket, PyObject *object, Address *address, socklen_t *length, PyObject **numeric)
{
    *numeric = NULL;
    if (family_is_known(socket->family) && address_parse(socket->family, object, address, length))
        return 1;
    *numeric = PyObject_CallFunction(look_up, "iiiO", socket->family, socket->type, socket->proto, object);
    if (*numeric == NULL)
        return -1;
    return family_is_known(socket->family) && address_parse(socket->family, *numeric, address, length);
}

static PyObject *
Socket_sendto(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Socket *socket = socket_of(self);
    PyObject *numeric, *result = NULL;
    Address address;
    socklen_t length;
    Py_buffer view;
    int64_t deadline = UNSET;
    int flags = 0;
    if (count < 2 || count > 3)
        return PyErr_Format(PyExc_TypeError, "sendto() takes data, flags if need be, and an address (%zd given)", count);
    if (count == 3 && int_argument(args[1], &flags) < 0)
        return NULL;
    int known = socket_address(socket, args[count - 1], &address, &length, &numeric);
    if (known == 0) {
        PyObject *all[] = {args[0], args[1], numeric};
        all[count - 1] = numeric;
        result = socket_retry(self, "sendto", WRITE, all, (size_t)count, NULL, count == 3 ? 1 : -1);
    } else if (known > 0 && PySys_Audit("socket.sendto", "OO", self, args[count - 1]) == 0 &&
               PyObject_GetBuffer(args[0], &view, PyBUF_SIMPLE) == 0) {
        ssize_t sent = socket_send(socket, view.buf, view.len, flags, &address, length, &deadline);
        PyBuffer_Release(&view);
        result = sent >= 0 ? PyLong_FromSsize_t(sent) : NULL;
    }
    Py_XDECREF(numeric);
    return result;
}

static PyObject *
Socket_sendmsg(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    return socket_retry(self, "sendmsg", WRITE, args, (size_t)count, names, 2);
}
