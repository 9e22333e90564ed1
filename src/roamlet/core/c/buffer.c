/* The buffer of a channel: values that wait there without a receiver, the oldest first. What send and receive make of it is in channel.c.

   It is a ring of references, each with the mark BUFFER_ERROR where the receiver is to raise the value. Memory is taken as values
   come, so a large buffer costs nothing while it is empty. While a receiver waits it is empty; while a sender does it is full. */

#define BUFFER_ERROR ((uintptr_t)1) /* objects lie at even addresses */

enum {
    BUFFER_SLOTS = 8,     /* that the first value gets */
    BUFFER_KEPT = 4096,   /* slots that an empty buffer keeps */
};

/* Whether the short ways of send and receive serve the channel; to be called when what decides it has changed. */
static inline void
channel_settled(Channel *channel)
{
    channel->special = channel->closing || channel->cases != NULL || channel->buffer > 0 || channel->buffered > 0;
}

/* Make room for one more value in memory. 0, or -1 with MemoryError set and nothing changed. Runs no Python code. */
static __attribute__((noinline)) int
buffer_grow(Channel *channel)
{
    Py_ssize_t slots = channel->slots > 0 ? 2 * channel->slots : BUFFER_SLOTS;
    uintptr_t *values = slots <= PY_SSIZE_T_MAX / (Py_ssize_t)sizeof *values ? PyMem_Malloc((size_t)slots * sizeof *values) : NULL;
    if (values == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < channel->buffered; i++)
        values[i] = channel->values[(channel->first + i) & (channel->slots - 1)];
    PyMem_Free(channel->values);
    channel->values = values;
    channel->slots = slots;
    channel->first = 0;
    return 0;
}

/* Let a value (stolen) in as the last, where there is a slot. Runs no Python code. */
static inline void
buffer_put(Channel *channel, PyObject *value, bool is_error)
{
    assert(channel->buffered < channel->slots);
    channel->values[(channel->first + channel->buffered) & (channel->slots - 1)] = (uintptr_t)value | (is_error ? BUFFER_ERROR : 0);
    channel->buffered++;
}

/* Let a value (borrowed) in as the last. 0, or -1 with MemoryError set. Runs no Python code. */
static inline int
buffer_push(Channel *channel, PyObject *value, bool is_error)
{
    if (unlikely(channel->buffered == channel->slots) && buffer_grow(channel) < 0)
        return -1;
    buffer_put(channel, Py_NewRef(value), is_error);
    return 0;
}

/* Let a value (borrowed) in as the first, whether there is room or not. 0, or -1 with MemoryError set. Runs no Python code. */
static int
buffer_push_first(Channel *channel, PyObject *value, bool is_error)
{
    if (channel->buffered == channel->slots && buffer_grow(channel) < 0)
        return -1;
    channel->first = (channel->first - 1) & (channel->slots - 1);
    channel->values[channel->first] = (uintptr_t)Py_NewRef(value) | (is_error ? BUFFER_ERROR : 0);
    channel->buffered++;
    return 0;
}

/* Take the oldest value, of which there is one: its reference passes to the caller. Its slot stays: see buffer_trim. Runs no Python code. */
static inline PyObject *
buffer_pop(Channel *channel, bool *is_error)
{
    uintptr_t found = channel->values[channel->first];
    channel->first = (channel->first + 1) & (channel->slots - 1);
    channel->buffered--;
    *is_error = (found & BUFFER_ERROR) != 0;
    return (PyObject *)(found & ~BUFFER_ERROR);
}

/* Give the memory of a large buffer back that has become empty. */
static inline void
buffer_trim(Channel *channel)
{
    if (unlikely(channel->buffered == 0) && unlikely(channel->slots > BUFFER_KEPT)) {
        PyMem_Free(channel->values);
        channel->values = NULL;
        channel->first = channel->slots = 0;
    }
}

/* Value number `i`, borrowed. */
static inline PyObject *
buffer_at(Channel *channel, Py_ssize_t i, bool *is_error)
{
    uintptr_t found = channel->values[(channel->first + i) & (channel->slots - 1)];
    *is_error = (found & BUFFER_ERROR) != 0;
    return (PyObject *)(found & ~BUFFER_ERROR);
}

/* Drop all values. Runs Python code, to which the buffer is empty already. */
static void
buffer_clear(Channel *channel)
{
    uintptr_t *values = channel->values;
    Py_ssize_t count = channel->buffered, first = channel->first, slots = channel->slots;
    channel->values = NULL;
    channel->buffered = channel->first = channel->slots = 0;
    for (Py_ssize_t i = 0; i < count; i++)
        Py_DECREF((PyObject *)(values[(first + i) & (slots - 1)] & ~BUFFER_ERROR));
    PyMem_Free(values);
}

static int
buffer_traverse(Channel *channel, visitproc visit, void *arg)
{
    bool is_error;
    for (Py_ssize_t i = 0; i < channel->buffered; i++)
        Py_VISIT(buffer_at(channel, i, &is_error));
    return 0;
}

/* What waits, as a new tuple: each value, and after it whether the receiver is to raise it. NULL with an exception set. */
static PyObject *
buffer_list(Channel *channel)
{
    Py_ssize_t count;
    PyObject *list;
    do {
        count = channel->buffered;
        list = PyTuple_New(2 * count);
    } while (list != NULL && channel->buffered != count && (Py_DECREF(list), true)); /* a collection has run code that uses the channel */
    for (Py_ssize_t i = 0; list != NULL && i < count; i++) {
        bool is_error;
        PyTuple_SET_ITEM(list, 2 * i, Py_NewRef(buffer_at(channel, i, &is_error)));
        PyTuple_SET_ITEM(list, 2 * i + 1, Py_NewRef(is_error ? Py_True : Py_False));
    }
    return list;
}

/* Whether the tuple is one that buffer_list could have made: else ValueError is set. */
static bool
buffer_list_check(PyObject *list)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(list); i += 2) {
        PyObject *mark = i + 1 < PyTuple_GET_SIZE(list) ? PyTuple_GET_ITEM(list, i + 1) : NULL;
        if (mark == NULL || !PyBool_Check(mark) || (mark == Py_True && !PyExceptionInstance_Check(PyTuple_GET_ITEM(list, i)))) {
            PyErr_Format(PyExc_ValueError, "what waits in a channel's buffer is a tuple of values, with True after each that is an exception "
                                           "for the receiver to raise, and False after each other one");
            return false;
        }
    }
    return true;
}

/* Give a channel that nothing waits in a buffer of that size, and what buffer_list has made of another one. 0, or -1 with an exception
   set. May run Python code. */
static int
buffer_restore(Channel *channel, Py_ssize_t size, PyObject *list)
{
    if (size < 0) {
        PyErr_Format(PyExc_ValueError, "a buffer holds 0 or more values, not %zd", size);
        return -1;
    }
    if (!buffer_list_check(list))
        return -1;
    if (channel->balance != 0 || channel->buffered > 0 || channel->cases != NULL) {
        PyErr_Format(PyExc_ValueError, "the buffer of %R cannot be replaced: tasklets or values wait there", channel);
        return -1;
    }
    channel->buffer = size;
    channel->special = true;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(list); i += 2)
        if (buffer_push(channel, PyTuple_GET_ITEM(list, i), PyTuple_GET_ITEM(list, i + 1) == Py_True) < 0)
            return -1;
    channel_settled(channel);
    return 0;
}
