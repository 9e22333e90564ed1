/* Addresses of sockets, from Python and back, for the three families that almost everybody uses. What is written in another
   way (a host's name, a wrong type) is left to others, who look it up or say what is wrong with it. */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

typedef union {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un path;
    struct sockaddr_storage room;
} Address;

static bool
family_is_known(int family)
{
    return family == AF_INET || family == AF_INET6 || family == AF_UNIX;
}

/* The port in `object`: -1 if it is not a port, with no exception set. */
static long
port_of(PyObject *object)
{
    long port = PyLong_Check(object) ? PyLong_AsLong(object) : -1;
    if (port == -1 && PyErr_Occurred())
        PyErr_Clear();
    return port >= 0 && port <= 65535 ? port : -1;
}

/* As the kernel wants it: whether `object` is an address of this family that can be written without looking anything up.
   Runs no Python code, sets no exception. */
static bool
address_parse(int family, PyObject *object, Address *address, socklen_t *length)
{
    memset(address, 0, sizeof *address);
    if (family == AF_UNIX) {
        PyObject *encoded = PyUnicode_Check(object) ? PyUnicode_EncodeFSDefault(object) : PyBytes_Check(object) ? Py_NewRef(object) : NULL;
        if (encoded == NULL) {
            PyErr_Clear();
            return false;
        }
        size_t size = (size_t)PyBytes_GET_SIZE(encoded);
        const char *path = PyBytes_AS_STRING(encoded);
        bool abstract = size > 0 && path[0] == '\0';
        bool fits = size > 0 && size + !abstract <= sizeof address->path.sun_path && (abstract || strlen(path) == size);
        if (fits) {
            address->path.sun_family = AF_UNIX;
            memcpy(address->path.sun_path, path, size);
            *length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size + !abstract);
        }
        Py_DECREF(encoded);
        return fits;
    }
    if (!PyTuple_Check(object) || PyTuple_GET_SIZE(object) < 2 || !PyUnicode_Check(PyTuple_GET_ITEM(object, 0)))
        return false;
    const char *host = PyUnicode_AsUTF8(PyTuple_GET_ITEM(object, 0));
    long port = port_of(PyTuple_GET_ITEM(object, 1));
    if (host == NULL)
        PyErr_Clear();
    if (host == NULL || port < 0)
        return false;
    if (family == AF_INET && PyTuple_GET_SIZE(object) == 2 && inet_pton(AF_INET, host, &address->v4.sin_addr) == 1) {
        address->v4.sin_family = AF_INET;
        address->v4.sin_port = htons((uint16_t)port);
        *length = sizeof address->v4;
        return true;
    }
    if (family == AF_INET6 && PyTuple_GET_SIZE(object) <= 4 && inet_pton(AF_INET6, host, &address->v6.sin6_addr) == 1) {
        unsigned long further[2] = {0, 0}; /* flow information and scope */
        for (Py_ssize_t i = 2; i < PyTuple_GET_SIZE(object); i++) {
            further[i - 2] = PyLong_Check(PyTuple_GET_ITEM(object, i)) ? PyLong_AsUnsignedLong(PyTuple_GET_ITEM(object, i)) : ULONG_MAX;
            if (further[i - 2] > (i == 2 ? 0xfffff : UINT32_MAX)) {
                PyErr_Clear();
                return false;
            }
        }
        address->v6.sin6_flowinfo = htonl((uint32_t)further[0]);
        address->v6.sin6_scope_id = (uint32_t)further[1];
        address->v6.sin6_family = AF_INET6;
        address->v6.sin6_port = htons((uint16_t)port);
        *length = sizeof address->v6;
        return true;
    }
    return false;
}

/* As Python writes it: a new reference, NULL with an exception set. */
static PyObject *
address_object(const Address *address, socklen_t length)
{
    char host[INET6_ADDRSTRLEN];
    if (length == 0) /* received by a socket that is connected */
        Py_RETURN_NONE;
    switch (address->any.sa_family) {
    case AF_INET:
        inet_ntop(AF_INET, &address->v4.sin_addr, host, sizeof host);
        return Py_BuildValue("sH", host, ntohs(address->v4.sin_port));
    case AF_INET6:
        inet_ntop(AF_INET6, &address->v6.sin6_addr, host, sizeof host);
        return Py_BuildValue("sHII", host, ntohs(address->v6.sin6_port), ntohl(address->v6.sin6_flowinfo), address->v6.sin6_scope_id);
    default: {
        Py_ssize_t size = (Py_ssize_t)length - (Py_ssize_t)offsetof(struct sockaddr_un, sun_path);
        if (size <= 0)
            return PyUnicode_FromString("");
        if (address->path.sun_path[0] == '\0') /* Linux's abstract names */
            return PyBytes_FromStringAndSize(address->path.sun_path, size);
        return PyUnicode_DecodeFSDefaultAndSize(address->path.sun_path, (Py_ssize_t)strnlen(address->path.sun_path, (size_t)size));
    }
    }
}
