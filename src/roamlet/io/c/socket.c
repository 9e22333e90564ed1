/* The socket: a subclass of the standard one whose calls block one tasklet only. Its life, its time-out, and how it waits.
   Receiving, sending and connecting are in files of their own.

   The system calls are made while the GIL is kept: they cannot block, as the descriptor is non-blocking always and what
   they copy is limited. The time-out is ours alone; to the standard class the socket is a non-blocking one. */

typedef struct {
    Descriptor *descriptor; /* owned; NULL before the first wait */
    double seconds;         /* the time-out; < 0: none */
    int fd;                 /* -1: closed, detached or never opened */
    int family, type, proto;
} Socket;

#define UNSET (-2) /* a deadline that is not needed before the first wait */

static PyTypeObject *standard, *standard_base; /* socket.socket and _socket.socket */
static PyObject *socket_type; /* what accept() makes: roamlet.io.socket */
static PyObject *name_io_refs, *name_closed;
static PyObject *look_up;                      /* callable(family, type, proto, address) -> a numeric address, where there is one */
static Py_ssize_t socket_offset;               /* where a Socket lies in an instance */

/* socket(2), whose name is that of a variable almost everywhere here. */
static int
socket_system(int family, int type, int proto)
{
    return socket(family, type, proto);
}

static inline Socket *
socket_of(PyObject *self)
{
    return (Socket *)((char *)self + socket_offset);
}

/* ---- calling the standard class ---- */

/* Call a method of _socket.socket itself, none of which takes more than five arguments. A new reference, NULL with an exception
   set. */
static PyObject *
base_call(PyObject *self, const char *name, PyObject *const *args, size_t count, PyObject *names)
{
    enum { MOST = 8 };
    size_t total = count + (names != NULL ? (size_t)PyTuple_GET_SIZE(names) : 0);
    PyObject *all[MOST + 1] = {self}, *method, *result;
    if (total > MOST)
        return PyErr_Format(PyExc_TypeError, "%s() takes no %zu arguments", name, total);
    for (size_t i = 0; i < total; i++)
        all[i + 1] = args[i];
    method = PyObject_GetAttrString((PyObject *)standard_base, name);
    result = method != NULL ? PyObject_Vectorcall(method, all, count + 1, names) : NULL;
    Py_XDECREF(method);
    return result;
}

/* Set up the standard part around the descriptor in `fileno`, borrowed, which stays the caller's on failure. With
   SOCK_NONBLOCK in its type it takes 0 for its time-out. 0, or -1 with an exception set. */
static int
base_open(PyObject *self, int family, int type, int proto, PyObject *fileno)
{
    PyObject *args = Py_BuildValue("iiiO", family, type, proto, fileno), *zero = PyLong_FromLong(0);
    int result = args != NULL && zero != NULL ? standard_base->tp_init(self, args, NULL) : -1;
    if (result == 0 && (PyObject_SetAttr(self, name_io_refs, zero) < 0 || PyObject_SetAttr(self, name_closed, Py_False) < 0)) {
        PyObject *raised, *value, *traceback;
        PyErr_Fetch(&raised, &value, &traceback);
        Py_XDECREF(base_call(self, "detach", NULL, 0, NULL));
        PyErr_Restore(raised, value, traceback);
        result = -1;
    }
    Py_XDECREF(zero);
    Py_XDECREF(args);
    return result;
}

/* The same for a non-blocking descriptor of ours, which is closed on failure. */
static int
socket_set_up(PyObject *self, int family, int type, int proto, int fd)
{
    PyObject *fileno = PyLong_FromLong(fd);
    Socket *socket = socket_of(self);
    int result = fileno != NULL ? base_open(self, family, type | SOCK_NONBLOCK, proto, fileno) : -1;
    Py_XDECREF(fileno);
    if (result < 0) {
        close(fd);
        return -1;
    }
    socket->fd = fd;
    socket->family = family;
    socket->type = type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC);
    socket->proto = proto;
    return 0;
}

/* ---- waiting ---- */

/* Its descriptor, made when it first waits: borrowed, NULL with an exception set. */
static Descriptor *
socket_descriptor(Socket *socket)
{
    if (socket->descriptor != NULL && unlikely(socket->descriptor->closed)) /* by number, or lost by its hub */
        Py_CLEAR(socket->descriptor);
    if (unlikely(socket->descriptor == NULL)) {
        Descriptor *descriptor = descriptor_get(socket->fd);
        if (descriptor != NULL) {
            descriptor->owned = true;
            descriptor->armed = 0; /* its number may have been that of something else */
            descriptor->maybe = BOTH;
            descriptor->strange = false;
        }
        socket->descriptor = descriptor;
    }
    return socket->descriptor;
}

/* Whether a call in this direction would find nothing to do: the hub of this thread would have heard of it. */
static inline bool
socket_is_idle(const Socket *socket, int direction)
{
    const Descriptor *descriptor = socket->descriptor;
    if (descriptor == NULL || descriptor->maybe & BIT(direction) || !(descriptor->armed & BIT(direction)) || descriptor->closed)
        return false;
    const RoamletHub *hub = api->hub();
    return hub != NULL && hub->poll == hub_poll && ((const Hub *)hub)->id == descriptor->home;
}

static inline void
socket_set_idle(const Socket *socket, int direction)
{
    if (socket->descriptor != NULL)
        socket->descriptor->maybe &= (uint8_t)~BIT(direction);
}

/* A system call failed with errno. Returns NULL. */
static PyObject *
socket_failed(void)
{
    return PyErr_SetFromErrno(PyExc_OSError);
}

/* Fill in *deadline, unless it was before. 0, or -1 with an exception set. */
static int
socket_deadline(const Socket *socket, int64_t *deadline)
{
    if (*deadline != UNSET)
        return 0;
    *deadline = ROAMLET_NEVER;
    if (socket->seconds < 0 || socket->seconds > 1e9)
        return 0;
    int64_t now = api->now();
    *deadline = now + (int64_t)(socket->seconds * 1e9);
    return now < 0 ? -1 : 0;
}

/* Set the TimeoutError of the standard library, to whose text callers compare, with a note that says more. */
static void
socket_set_timed_out(const Socket *socket, const char *what)
{
    PyObject *seconds = PyFloat_FromDouble(socket->seconds), *note = NULL, *error = NULL, *added = NULL;
    if (seconds != NULL && (note = PyUnicode_FromFormat("%s within %R seconds (settimeout)", what, seconds)) != NULL &&
        (error = PyObject_CallFunction(PyExc_TimeoutError, "s", "timed out")) != NULL &&
        (added = PyObject_CallMethod(error, "add_note", "O", note)) != NULL)
        PyErr_SetObject(PyExc_TimeoutError, error);
    Py_XDECREF(seconds);
    Py_XDECREF(note);
    Py_XDECREF(error);
    Py_XDECREF(added);
}

/* Before a call: let others run when it is time, as a call that always finds something to do would hold them up. 0, or -1 with an
   exception set. May switch. */
static inline int
socket_checkpoint(const Socket *socket, int flags)
{
    return api->checkpoint(socket->seconds != 0 && !(flags & MSG_DONTWAIT));
}

/* Nothing could be done now. Block the current tasklet until trying again makes sense. `deadline` is UNSET at first. 0, or -1
   with an exception set; `what` is for a TimeoutError. Switches. */
static int
socket_wait_saying(Socket *socket, int direction, int64_t *deadline, const char *what)
{
    if (socket->seconds == 0) {
        errno = EAGAIN;
        socket_failed();
        return -1;
    }
    Descriptor *descriptor = socket_descriptor(socket);
    if (descriptor == NULL || socket_deadline(socket, deadline) < 0)
        return -1;
    Py_INCREF(descriptor);
    int how = descriptor_wait(descriptor, direction, *deadline, 0);
    if (how == 0 && came_in_time(descriptor, direction, deadline))
        how = 1;
    else if (how == 0)
        socket_set_timed_out(socket, what);
    Py_DECREF(descriptor);
    return how > 0 ? 0 : -1;
}

static int
socket_wait(Socket *socket, int direction, int64_t *deadline)
{
    return socket_wait_saying(socket, direction, deadline, direction == READ ? "nothing could be received" : "nothing could be sent");
}

/* Call a method of the standard class, which does not block, until it finds something to do. `flags_at`: which of its arguments
   are flags, if it is given, -1: none. Switches. */
static PyObject *
socket_retry(PyObject *self, const char *name, int direction, PyObject *const *args, size_t count, PyObject *names, int flags_at)
{
    Socket *socket = socket_of(self);
    int64_t deadline = UNSET;
    int flags = 0;
    if (flags_at >= 0 && (size_t)flags_at < count && PyLong_Check(args[flags_at]) && int_argument(args[flags_at], &flags) < 0)
        return NULL;
    if (socket_checkpoint(socket, flags) < 0)
        return NULL;
    for (;;) {
        PyObject *result = base_call(self, name, args, count, names);
        if (result != NULL || socket->seconds == 0 || flags & MSG_DONTWAIT || !PyErr_ExceptionMatches(PyExc_BlockingIOError))
            return result;
        PyErr_Clear();
        socket_set_idle(socket, direction);
        if (socket_wait(socket, direction, &deadline) < 0)
            return NULL;
    }
}

/* ssl.SSLWantReadError or SSLWantWriteError: borrowed, NULL with an exception set. */
static PyObject *
want_error(int direction)
{
    static PyObject *errors[2];
    static const char *const names[2] = {"SSLWantReadError", "SSLWantWriteError"};
    if (errors[direction] == NULL) {
        PyObject *module = PyImport_ImportModule("_ssl");
        errors[direction] = module != NULL ? PyObject_GetAttrString(module, names[direction]) : NULL;
        Py_XDECREF(module);
    }
    return errors[direction];
}

/* Which direction OpenSSL wants to be possible, as the exception that is set says: -1 for any other. Clears it if it waits for one. */
static int
wanted_direction(void)
{
    PyObject *raised, *value, *traceback, *errors[2];
    int wanted = -1;
    PyErr_Fetch(&raised, &value, &traceback);
    if ((errors[READ] = want_error(READ)) == NULL || (errors[WRITE] = want_error(WRITE)) == NULL) {
        Py_XDECREF(raised);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
        return -1;
    }
    for (int direction = READ; direction <= WRITE; direction++)
        if (PyErr_GivenExceptionMatches(raised, errors[direction]))
            wanted = direction;
    if (wanted < 0) {
        PyErr_Restore(raised, value, traceback);
        return -1;
    }
    Py_XDECREF(raised);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return wanted;
}

/* Call what OpenSSL does on the descriptor until it has nothing more to wait for. The arguments: its name, the callable and what
   that is called with. With a time-out of 0 it is called once. Switches. */
static PyObject *
Socket_until_done(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Socket *socket = socket_of(self);
    int64_t deadline = UNSET;
    if (count < 2)
        return PyErr_Format(PyExc_TypeError, "_until_done() takes a name and a callable (%zd given)", count);
    if (socket_checkpoint(socket, 0) < 0)
        return NULL;
    for (;;) {
        PyObject *result = PyObject_Vectorcall(args[1], args + 2, (size_t)count - 2, NULL);
        if (result != NULL || socket->seconds == 0)
            return result;
        int direction = wanted_direction();
        if (direction < 0)
            return NULL;
        Descriptor *descriptor = socket_descriptor(socket);
        if (descriptor == NULL || socket_deadline(socket, &deadline) < 0)
            return NULL;
        socket_set_idle(socket, direction);
        Py_INCREF(descriptor);
        int how = descriptor_wait(descriptor, direction, deadline, 0);
        if (how == 0 && came_in_time(descriptor, direction, &deadline))
            how = 1;
        Py_DECREF(descriptor);
        if (how == 0)
            PyErr_Format(PyExc_TimeoutError, "The %U operation timed out", args[0]);
        if (how <= 0)
            return NULL;
    }
}

/* ---- its life ---- */

static PyObject *
Socket_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *self = standard->tp_new(type, args, kwargs);
    if (self != NULL) {
        Socket *socket = socket_of(self);
        socket->fd = -1;
        socket->seconds = -1;
        socket->descriptor = NULL;
    }
    return self;
}

/* The default time-out of new sockets: socket.setdefaulttimeout. 0, or -1 with an exception set. */
static int
default_timeout(double *seconds)
{
    static PyObject *getter;
    if (getter == NULL) {
        PyObject *module = PyImport_ImportModule("_socket");
        getter = module != NULL ? PyObject_GetAttrString(module, "getdefaulttimeout") : NULL;
        Py_XDECREF(module);
        if (getter == NULL)
            return -1;
    }
    PyObject *value = PyObject_CallNoArgs(getter);
    if (value == NULL)
        return -1;
    *seconds = value != Py_None ? PyFloat_AsDouble(value) : -1;
    Py_DECREF(value);
    return *seconds == -1 && PyErr_Occurred() ? -1 : 0;
}

/* Note what the standard part knows of an open descriptor, and make that non-blocking. 0, or -1 with an exception set. */
static int
socket_adopt(PyObject *self, Socket *socket)
{
    PyObject *number = base_call(self, "fileno", NULL, 0, NULL), *done = NULL;
    long values[3] = {0, 0, 0};
    static const char *const members[] = {"family", "type", "proto"};
    if (number == NULL)
        return -1;
    socket->fd = (int)PyLong_AsLong(number);
    Py_DECREF(number);
    for (int i = 0; i < 3; i++) {
        PyObject *member = PyObject_GetAttrString((PyObject *)standard_base, members[i]), *value = NULL;
        descrgetfunc get = member != NULL ? Py_TYPE(member)->tp_descr_get : NULL;
        if (get != NULL)
            value = get(member, self, (PyObject *)Py_TYPE(self));
        Py_XDECREF(member);
        if (value == NULL)
            return -1;
        values[i] = PyLong_AsLong(value);
        Py_DECREF(value);
    }
    socket->family = (int)values[0];
    socket->type = (int)values[1];
    socket->proto = (int)values[2];
    PyObject *no = Py_False;
    done = base_call(self, "setblocking", &no, 1, NULL);
    Py_XDECREF(done);
    return done != NULL ? 0 : -1;
}

static int
Socket_init(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = {"family", "type", "proto", "fileno", NULL};
    Socket *socket = socket_of(self);
    int family = -1, type = -1, proto = -1;
    PyObject *fileno = Py_None;
    if (socket->fd >= 0) {
        PyErr_SetString(PyExc_RuntimeError, "this socket is open: close it, and make a new one");
        return -1;
    }
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|iiiO:socket", keywords, &family, &type, &proto, &fileno) ||
        default_timeout(&socket->seconds) < 0)
        return -1;
    if (type != -1 && type & SOCK_NONBLOCK)
        socket->seconds = 0;
    if (fileno != Py_None)
        return base_open(self, family, type, proto, fileno) < 0 ? -1 : socket_adopt(self, socket);
    family = family != -1 ? family : AF_INET;
    type = type != -1 ? type : SOCK_STREAM;
    proto = proto != -1 ? proto : 0;
    int fd = socket_system(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, proto);
    if (fd < 0) {
        socket_failed();
        return -1;
    }
    return socket_set_up(self, family, type, proto, fd);
}

/* A new socket around what accept4 returned, which is closed on failure: a new reference, NULL with an exception set. */
static PyObject *
socket_accepted(const Socket *listener, int fd)
{
    static PyObject *nothing;
    PyTypeObject *type = (PyTypeObject *)socket_type;
    if (nothing == NULL)
        nothing = PyTuple_New(0);
    PyObject *made = nothing != NULL ? type->tp_new(type, nothing, NULL) : NULL;
    if (made == NULL || default_timeout(&socket_of(made)->seconds) < 0)
        close(fd);
    else if (socket_set_up(made, listener->family, listener->type, listener->proto, fd) == 0)
        return made;
    Py_XDECREF(made);
    return NULL;
}

/* The descriptor will be closed, or be another object's: calls that wait for it are told. Returns its number, -1 if it has none.
   Runs no Python code. */
static int
socket_let_go(Socket *socket)
{
    int fd = socket->fd;
    socket->fd = -1;
    if (socket->descriptor != NULL) {
        Descriptor *descriptor = socket->descriptor;
        socket->descriptor = NULL;
        descriptor_close(descriptor);
        Py_DECREF(descriptor);
    }
    if (fd >= 0 && descriptor_find(fd) != NULL) /* waited for by number alone */
        descriptor_close(descriptor_find(fd));
    return fd;
}

/* close() of a socket returns at once, unless it was told to wait for what is still to be sent. */
static int
close_socket(int fd)
{
    struct linger linger = {0};
    socklen_t length = sizeof linger;
    int result;
    if (getsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, &length) < 0 || (linger.l_onoff && linger.l_linger > 0)) {
        Py_BEGIN_ALLOW_THREADS
        result = close(fd);
        Py_END_ALLOW_THREADS
    } else
        result = close(fd);
    return result;
}

static PyObject *
Socket_real_close(PyObject *self, PyObject *const *Py_UNUSED(args), Py_ssize_t Py_UNUSED(count))
{
    if (socket_let_go(socket_of(self)) < 0)
        Py_RETURN_NONE;
    PyObject *number = base_call(self, "detach", NULL, 0, NULL);
    if (number == NULL)
        return NULL;
    int result = close_socket((int)PyLong_AsLong(number));
    Py_DECREF(number);
    if (result < 0 && errno != ECONNRESET && errno != EINTR)
        return socket_failed();
    Py_RETURN_NONE;
}

static PyObject *
Socket_detach(PyObject *self, PyObject *Py_UNUSED(none))
{
    const Socket *socket = socket_of(self);
    bool blocks = socket->seconds < 0;
    int fd = socket_let_go(socket_of(self));
    if (fd >= 0 && blocks) { /* its new owner expects what the time-out said */
        int flags = fcntl(fd, F_GETFL);
        if (flags >= 0)
            fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
    }
    PyObject *method = PyObject_GetAttrString((PyObject *)standard, "detach");
    PyObject *result = method != NULL ? PyObject_CallOneArg(method, self) : NULL;
    Py_XDECREF(method);
    return result;
}

/* No call waits: a waiting one holds a reference. The standard class warns of a socket that was not closed, and closes it. */
static void
Socket_finalize(PyObject *self)
{
    socket_let_go(socket_of(self));
    if (standard->tp_finalize != NULL)
        standard->tp_finalize(self);
}

/* ---- the time-out ---- */

/* Whether the socket is open, as the standard class asks in the system call that we do not make. Otherwise with an exception set. */
static bool
socket_is_open(const Socket *socket)
{
    if (socket->fd >= 0)
        return true;
    errno = EBADF;
    socket_failed();
    return false;
}

static PyObject *
Socket_settimeout(PyObject *self, PyObject *value)
{
    double seconds = value != Py_None ? PyFloat_AsDouble(value) : -1;
    if (value != Py_None) {
        if (seconds == -1 && PyErr_Occurred())
            return NULL;
        if (!(seconds >= 0))
            return PyErr_Format(PyExc_ValueError, "settimeout() takes a number of seconds from 0 on, or None, not %R", value);
    }
    if (!socket_is_open(socket_of(self)))
        return NULL;
    socket_of(self)->seconds = seconds;
    Py_RETURN_NONE;
}

static PyObject *
Socket_get_timeout(PyObject *self, void *Py_UNUSED(closure))
{
    double seconds = socket_of(self)->seconds;
    if (seconds < 0)
        Py_RETURN_NONE;
    return PyFloat_FromDouble(seconds);
}

static PyObject *
Socket_gettimeout(PyObject *self, PyObject *Py_UNUSED(none))
{
    return Socket_get_timeout(self, NULL);
}

static PyObject *
Socket_setblocking(PyObject *self, PyObject *flag)
{
    int blocking = PyObject_IsTrue(flag);
    if (blocking < 0 || !socket_is_open(socket_of(self)))
        return NULL;
    socket_of(self)->seconds = blocking ? -1 : 0;
    Py_RETURN_NONE;
}

static PyObject *
Socket_getblocking(PyObject *self, PyObject *Py_UNUSED(none))
{
    return PyBool_FromLong(socket_of(self)->seconds != 0);
}
