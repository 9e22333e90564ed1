/* Memory for Python frames: the first data-stack chunk of each tasklet. What CPython adds is in arena.c.

   CPython never frees a chunk that it did not push, so a tasklet starts in a chunk of our own: no mmap to create one.
   Most need 1 KiB. Which functions need more is learnt when one of their tasklets is suspended with frames beyond its
   first chunk; only a size is remembered, in a fixed table, never the function. */

#include <structmember.h>

#ifndef CHUNK_POOL
#define CHUNK_POOL 1024 /* free first chunks kept per thread and size */
#endif
#ifndef CHUNK_SIZES     /* malloc's own header makes each of them a multiple of 16 that wastes nothing */
#define CHUNK_SIZES {1000, 1512, 2024, 3048, 4072, 8168}
#endif

static const uint16_t chunk_sizes[CHUNK_CLASSES] = CHUNK_SIZES;
static uint8_t chunk_hints[256];

struct RootChunk {
    RootChunk *next;
    uint64_t size_class;
    _PyStackChunk chunk; /* `size` bytes from here */
};

static inline RootChunk *
chunk_root(_PyStackChunk *chunk)
{
    return (RootChunk *)((char *)chunk - offsetof(RootChunk, chunk));
}

/* The Python function that a call of `callable` runs, as far as that can be told without running Python: of a bound method, or what
   an object keeps in a slot named `function`, as a Body of roamlet.spawn() does. Else `callable` itself. Borrows, returns borrowed. */
static PyObject *
chunk_function(PyObject *callable)
{
    static PyObject *name;
    PyObject *slot, *kept = NULL;
    if (PyMethod_Check(callable))
        return PyMethod_GET_FUNCTION(callable);
    if (name == NULL && (name = PyUnicode_InternFromString("function")) == NULL)
        PyErr_Clear();
    else if ((slot = _PyType_Lookup(Py_TYPE(callable), name)) != NULL && Py_IS_TYPE(slot, &PyMemberDescr_Type) &&
             PyObject_TypeCheck(callable, PyDescr_TYPE(slot))) { /* else the slot of some other class, which the object does not have */
        PyMemberDef *member = ((PyMemberDescrObject *)slot)->d_member;
        if (member->type == T_OBJECT_EX)
            kept = *(PyObject **)((char *)callable + member->offset);
    }
    return kept == NULL ? callable : PyMethod_Check(kept) ? PyMethod_GET_FUNCTION(kept) : kept;
}

/* Where the size for tasklets of this function is remembered. Borrows function, which may be NULL. */
static inline uint8_t
chunk_hint(PyObject *function)
{
    if (function != NULL && !PyFunction_Check(function))
        function = chunk_function(function);
    uintptr_t key = (uintptr_t)function;
    if (function != NULL && PyFunction_Check(function))
        key = (uintptr_t)PyFunction_GET_CODE(function);
    return (uint8_t)(key >> 4 ^ key >> 12 ^ key >> 20);
}

/* A first chunk of the class that `hint` asks for. Memory running out here ends the process: nothing could be undone. */
static _PyStackChunk *
chunk_take(SwitchThread *thread, uint8_t hint, uint8_t *size_class)
{
    uint8_t class = chunk_hints[hint];
    RootChunk *root = thread->pool[class];
    *size_class = class;
    if (likely(root != NULL)) {
        thread->pool[class] = root->next;
        thread->pooled[class]--;
        return &root->chunk;
    }
    root = malloc(offsetof(RootChunk, chunk) + chunk_sizes[class]);
    if (root == NULL)
        Py_FatalError("roamlet: out of memory while starting a tasklet");
    root->size_class = class;
    root->chunk.previous = NULL;
    root->chunk.size = chunk_sizes[class];
    root->chunk.top = 0;
    return &root->chunk;
}

static void
chunk_give(SwitchThread *thread, _PyStackChunk *chunk)
{
    RootChunk *root = chunk_root(chunk);
    if (unlikely(thread->pooled[root->size_class] >= CHUNK_POOL)) {
        free(root);
        return;
    }
    root->next = thread->pool[root->size_class];
    thread->pool[root->size_class] = root;
    thread->pooled[root->size_class]++;
}

static void
chunk_pool_free(SwitchThread *thread)
{
    for (int class = 0; class < CHUNK_CLASSES; class++) {
        while (thread->pool[class] != NULL) {
            RootChunk *root = thread->pool[class];
            thread->pool[class] = root->next;
            free(root);
        }
        thread->pooled[class] = 0;
    }
}

/* A tasklet of this function was suspended with more frames than its first chunk holds: the next start larger. */
static void
chunk_learn(uint8_t hint, uint8_t size_class)
{
    if (chunk_hints[hint] == size_class && size_class + 1 < CHUNK_CLASSES)
        chunk_hints[hint]++;
}
