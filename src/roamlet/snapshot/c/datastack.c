/* The thread's data stack, where the interpreter keeps frames: taking memory for some there as it does, and giving it back. */

/* Room that is left after the frames, in words: for the bridge's frame, which must not begin a new chunk of the data stack. */
#define BRIDGE_ROOM 128

typedef struct {
    _PyStackChunk *chunk;
    PyObject **top, **limit;
} DataStack;

static DataStack
data_stack(PyThreadState *tstate)
{
    return (DataStack){tstate->datastack_chunk, tstate->datastack_top, tstate->datastack_limit};
}

/* Give back what has been taken since; its frames hold nothing yet. */
static void
data_stack_rewind(PyThreadState *tstate, const DataStack *before)
{
    PyObjectArenaAllocator allocator;
    PyObject_GetArenaAllocator(&allocator);
    while (tstate->datastack_chunk != before->chunk) {
        _PyStackChunk *chunk = tstate->datastack_chunk;
        tstate->datastack_chunk = chunk->previous;
        allocator.free(allocator.ctx, chunk, chunk->size);
    }
    tstate->datastack_top = before->top;
    tstate->datastack_limit = before->limit;
}

/* Memory for a frame of so many words on the thread's data stack, as the interpreter takes it. NULL with a MemoryError set. */
static Frame *
data_stack_take(PyThreadState *tstate, Py_ssize_t words)
{
    PyObjectArenaAllocator allocator;
    _PyStackChunk *chunk;
    size_t bytes = 16 * 1024;
    PyObject **place = tstate->datastack_top;
    if (place != NULL && words + BRIDGE_ROOM < tstate->datastack_limit - place) {
        tstate->datastack_top += words;
        return (Frame *)place;
    }
    PyObject_GetArenaAllocator(&allocator);
    while (bytes < sizeof(PyObject *) * ((size_t)words + BRIDGE_ROOM + 1000))
        bytes *= 2;
    chunk = allocator.alloc(allocator.ctx, bytes);
    if (chunk == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    chunk->previous = tstate->datastack_chunk;
    chunk->size = bytes;
    chunk->top = 0;
    if (tstate->datastack_chunk != NULL)
        tstate->datastack_chunk->top = (size_t)(tstate->datastack_top - &tstate->datastack_chunk->data[0]);
    tstate->datastack_chunk = chunk;
    tstate->datastack_limit = (PyObject **)((char *)chunk + bytes);
    place = &chunk->data[chunk->previous == NULL]; /* the interpreter never pops the first slot of the first chunk */
    tstate->datastack_top = place + words;
    return (Frame *)place;
}
