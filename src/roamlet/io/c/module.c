/* roamlet.io._native: the hub of a thread, calls on descriptors by number, and the socket. One translation unit: the others are
   included here. Independent of the switching backend: what it needs of the core it gets through a table. */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "native.h"

#include "descriptor.c"
#include "pollers.c"
#include "hub.c"
#include "responsive.c"
#include "numbers.c"
#include "looking.c"
#include "watch.c"
#include "address.c"
#include "socket.c"
#include "transfer.c"
#include "connect.c"
#include "layout.c"

/* ---- the socket's type ---- */

#define FAST(function) (PyCFunction)(void (*)(void))(function)

static PyMethodDef Socket_methods[] = {
    {"recv", FAST(Socket_recv), METH_FASTCALL,
     PyDoc_STR("recv($self, bufsize, flags=0, /)\n--\n\n"
               "Return what has come, at most `bufsize` bytes (of a stream 64 kB at once); b\"\" at the end.")},
    {"recv_into", FAST(Socket_recv_into), METH_FASTCALL | METH_KEYWORDS,
     PyDoc_STR("recv_into($self, buffer, nbytes=0, flags=0)\n--\n\n"
               "Receive into a buffer; return how many bytes.")},
    {"recvfrom", FAST(Socket_recvfrom), METH_FASTCALL,
     PyDoc_STR("recvfrom($self, bufsize, flags=0, /)\n--\n\n"
               "Return what has come, and from which address.")},
    {"recvfrom_into", FAST(Socket_recvfrom_into), METH_FASTCALL | METH_KEYWORDS,
     PyDoc_STR("recvfrom_into($self, buffer, nbytes=0, flags=0)\n--\n\n"
               "Receive into a buffer; return how many bytes, and from which address.")},
    {"recvmsg", FAST(Socket_recvmsg), METH_FASTCALL | METH_KEYWORDS,
     PyDoc_STR("recvmsg($self, bufsize, ancbufsize=0, flags=0, /)\n--\n\n"
               "Return data, ancillary data, flags and address.")},
    {"recvmsg_into", FAST(Socket_recvmsg_into), METH_FASTCALL | METH_KEYWORDS,
     PyDoc_STR("recvmsg_into($self, buffers, ancbufsize=0, flags=0, /)\n--\n\n"
               "Receive into several buffers; return how many bytes, ancillary data, flags and address.")},
    {"send", FAST(Socket_send), METH_FASTCALL,
     PyDoc_STR("send($self, data, flags=0, /)\n--\n\n"
               "Send what there is room for (of a stream at most 256 kB); return how many bytes.")},
    {"sendall", FAST(Socket_sendall), METH_FASTCALL,
     PyDoc_STR("sendall($self, data, flags=0, /)\n--\n\n"
               "Send all of it. The time-out limits the whole call; how much was sent is not known after an exception.")},
    {"sendto", FAST(Socket_sendto), METH_FASTCALL,
     PyDoc_STR("sendto(data, [flags,] address)\n\n"
               "Send a datagram to an address; return how many bytes.")},
    {"sendmsg", FAST(Socket_sendmsg), METH_FASTCALL | METH_KEYWORDS,
     PyDoc_STR("sendmsg($self, buffers, ancdata=(), flags=0, address=None, /)\n--\n\n"
               "Send several buffers and ancillary data; return how many bytes.")},
    {"accept", Socket_accept, METH_NOARGS,
     PyDoc_STR("accept($self, /)\n--\n\n"
               "Wait for a connection; return its socket and the address of the other side.")},
    {"connect", Socket_connect, METH_O,
     PyDoc_STR("connect($self, address, /)\n--\n\n"
               "Connect. Names of hosts are looked up on a worker thread.")},
    {"connect_ex", Socket_connect_ex, METH_O,
     PyDoc_STR("connect_ex($self, address, /)\n--\n\n"
               "Connect; return 0 or the errno of what failed.")},
    {"shutdown", Socket_shutdown, METH_O,
     PyDoc_STR("shutdown($self, how, /)\n--\n\n"
               "End one direction or both; a tasklet that waits there goes on.")},
    {"detach", Socket_detach, METH_NOARGS,
     PyDoc_STR("detach($self, /)\n--\n\n"
               "Close the socket but not its descriptor, and return that; calls that wait for it raise OSError.\n\n"
               "The descriptor blocks if the socket had no time-out.")},
    {"_real_close", FAST(Socket_real_close), METH_FASTCALL, NULL},
    {"_until_done", FAST(Socket_until_done), METH_FASTCALL,
     PyDoc_STR("_until_done($self, name, operation, /, *args)\n--\n\n"
               "Return operation(*args), called again whenever it raised SSLWantReadError or SSLWantWriteError and the wait is over.\n\n"
               "Raises TimeoutError as ssl.SSLSocket does: \"The <name> operation timed out\". With a time-out of 0 it is called once.")},
    {"settimeout", Socket_settimeout, METH_O,
     PyDoc_STR("settimeout($self, seconds, /)\n--\n\n"
               "Let calls raise TimeoutError after so many seconds; None: never; 0: BlockingIOError at once.")},
    {"gettimeout", Socket_gettimeout, METH_NOARGS,
     PyDoc_STR("gettimeout($self, /)\n--\n\n"
               "The time-out in seconds, or None.")},
    {"setblocking", Socket_setblocking, METH_O,
     PyDoc_STR("setblocking($self, flag, /)\n--\n\n"
               "settimeout(None) if true, settimeout(0) if not. The descriptor itself never blocks.")},
    {"getblocking", Socket_getblocking, METH_NOARGS,
     PyDoc_STR("getblocking($self, /)\n--\n\n"
               "Whether the time-out is not 0.")},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef Socket_getset[] = {
    {"timeout", Socket_get_timeout, NULL, "The time-out in seconds, or None.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyDoc_STRVAR(socket_doc, "A socket whose calls block one tasklet only; otherwise the standard library's, which it is a subclass of.\n\n"
                         "See roamlet.io.socket.");

static PyType_Slot Socket_slots[] = {
    {Py_tp_doc, (void *)socket_doc},
    {Py_tp_new, Socket_new},
    {Py_tp_init, Socket_init},
    {Py_tp_finalize, Socket_finalize},
    {Py_tp_methods, Socket_methods},
    {Py_tp_getset, Socket_getset},
    {0, NULL},
};

/* Make the type below the standard library's. 0, or -1 with an exception set. */
static int
socket_type_add(PyObject *module)
{
    PyType_Spec spec = {.name = "roamlet.io._native.Socket", .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, .slots = Socket_slots};
    PyObject *library = PyImport_ImportModule("socket");
    standard = library != NULL ? (PyTypeObject *)PyObject_GetAttrString(library, "socket") : NULL;
    Py_XDECREF(library);
    if (standard == NULL)
        return -1;
    standard_base = standard->tp_base;
    size_t size = (size_t)standard->tp_basicsize, alignment = _Alignof(Socket);
    socket_offset = (Py_ssize_t)((size + alignment - 1) / alignment * alignment);
    spec.basicsize = (int)(socket_offset + (Py_ssize_t)sizeof(Socket));
    PyObject *type = PyType_FromSpecWithBases(&spec, (PyObject *)standard);
    name_io_refs = PyUnicode_InternFromString("_io_refs");
    name_closed = PyUnicode_InternFromString("_closed");
    if (type == NULL || name_io_refs == NULL || name_closed == NULL)
        return -1;
    socket_type = Py_NewRef(type);
    return PyModule_AddObject(module, "Socket", type); /* steals it */
}

static PyObject *
io_configure(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *type, *function;
    if (!PyArg_ParseTuple(args, "O!O:configure", &PyType_Type, &type, &function))
        return NULL;
    Py_XSETREF(socket_type, Py_NewRef(type));
    Py_XSETREF(look_up, Py_NewRef(function));
    Py_RETURN_NONE;
}

/* ---- the module ---- */

PyDoc_STRVAR(wait_readable_doc, "wait_readable($module, /, fd, timeout=None, daemon=False)\n--\n\n"
"Block this tasklet until reading from `fd` would not block: there is data, an end or an error.\n\n"
"Raises TimeoutError after `timeout` seconds, OSError when `fd` is not open or is closed (io.close) meanwhile.");
PyDoc_STRVAR(wait_writable_doc, "wait_writable($module, /, fd, timeout=None, daemon=False)\n--\n\n"
"Block this tasklet until writing to `fd` would not block. Otherwise like wait_readable.");
PyDoc_STRVAR(read_doc, "read($module, /, fd, size, timeout=None, daemon=False)\n--\n\n"
"Return what `fd` has, 1 to `size` bytes, waiting for the first; b\"\" at its end.\n\n"
"`fd` may be blocking or not. Blocks this tasklet only. Raises TimeoutError, OSError as os.read does.");
PyDoc_STRVAR(write_doc, "write($module, /, fd, data, timeout=None, daemon=False)\n--\n\n"
"Write all of `data` to `fd` and return its length in bytes. `timeout` limits each wait, not their sum.\n\n"
"`fd` may be blocking or not: it is written to as it can take it. Blocks this tasklet only. Raises TimeoutError or\n"
"OSError (BrokenPipeError when the reading end is closed) with part of the data written.");
PyDoc_STRVAR(close_doc, "close($module, fd, /)\n--\n\n"
"Close `fd`; tasklets that wait for it, of any thread, raise OSError (EBADF). Does not block or switch.");
PyDoc_STRVAR(may_be_ready_doc, "may_be_ready($module, fd, writing, timeout, /)\n--\n\n"
"Block this tasklet until a call on `fd` may find something to do: True, also when it is closed or was never open.\n\n"
"False after `timeout` seconds (None: never).");
PyDoc_STRVAR(let_go_doc, "let_go($module, fd, /)\n--\n\n"
"Let tasklets that wait for `fd`, of any thread, raise OSError (EBADF): the caller is about to close it. Does not switch.");
PyDoc_STRVAR(let_others_run_doc, "let_others_run($module, /)\n--\n\n"
"Let other tasklets run now and then: called by what has found something to do at once. May switch; obeys cancelled scopes.");
PyDoc_STRVAR(poll_now_doc, "poll_now($module, interest, /)\n--\n\n"
"Return what select.poll.poll(0) would find for `interest`, events by descriptor. Keeps the GIL; does not block or switch.");
PyDoc_STRVAR(epoll_now_doc, "epoll_now($module, fd, most, /)\n--\n\n"
"Return what select.epoll.poll(0, most) would find on the open epoll `fd`. Keeps the GIL; does not block or switch. Linux.");
PyDoc_STRVAR(set_responsive_doc, "set_responsive($module, on, /)\n--\n\n"
"Begin or end once to want a short switch interval; see roamlet.responsive.");
PyDoc_STRVAR(configure_doc, "configure($module, socket_type, look_up, /)\n--\n\n"
"Say what accept() makes, and what finds the numeric form of an address with a name in it.");
PyDoc_STRVAR(forked_doc, "forked($module, /)\n--\n\n"
"Called in a forked child: make this thread's hub anew.");

static PyMethodDef methods[] = {
    {"wait_readable", FAST(io_wait_readable), METH_FASTCALL | METH_KEYWORDS, wait_readable_doc},
    {"wait_writable", FAST(io_wait_writable), METH_FASTCALL | METH_KEYWORDS, wait_writable_doc},
    {"read", FAST(io_read), METH_FASTCALL | METH_KEYWORDS, read_doc},
    {"write", FAST(io_write), METH_FASTCALL | METH_KEYWORDS, write_doc},
    {"close", io_close, METH_O, close_doc},
    {"may_be_ready", FAST(io_may_be_ready), METH_FASTCALL, may_be_ready_doc},
    {"let_go", io_let_go, METH_O, let_go_doc},
    {"let_others_run", io_let_others_run, METH_NOARGS, let_others_run_doc},
    {"poll_now", io_poll_now, METH_O, poll_now_doc},
#ifdef __linux__
    {"epoll_now", io_epoll_now, METH_VARARGS, epoll_now_doc},
#endif
    {"set_responsive", io_set_responsive, METH_O, set_responsive_doc},
    {"configure", io_configure, METH_VARARGS, configure_doc},
    {"forked", hub_forked, METH_NOARGS, forked_doc},
    {NULL, NULL, 0, NULL},
};

static int
interval_find(void)
{
    PyObject *sys = PyImport_ImportModule("sys");
    switch_getter = sys != NULL ? PyObject_GetAttrString(sys, "getswitchinterval") : NULL;
    switch_setter = sys != NULL ? PyObject_GetAttrString(sys, "setswitchinterval") : NULL;
    Py_XDECREF(sys);
    return switch_getter != NULL && switch_setter != NULL ? 0 : -1;
}

PyDoc_STRVAR(module_doc, "The hub of a thread, calls on descriptors, and the socket, in C.");

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "roamlet.io._native", .m_doc = module_doc, .m_size = -1, .m_methods = methods,
};

PyMODINIT_FUNC
PyInit__native(void)
{
    PyObject *module;
    api = roamlet_import_api();
    if (api == NULL || PyType_Ready(&Descriptor_Type) < 0 || interval_find() < 0 || (module = PyModule_Create(&definition)) == NULL)
        return NULL;
    if (PyModule_AddIntConstant(module, "QUEUE_OF_WRITERS", offsetof(Descriptor, waiting) + WRITE * sizeof(RoamletQueue)) < 0 || socket_type_add(module) < 0 || PyModule_AddType(module, &Watch_Type) < 0)
        Py_CLEAR(module);
    return module;
}
