/* State of the sliced backend: all tasklets of a thread run at the same addresses of its own C stack; the slice that a
   suspended one uses is copied to its buffer. See sliced.c. */

typedef struct {
    char *sp; /* these three are known by offset to stack_jump */
    void *bp;
    void *ip;
    char *base;       /* the slice is [low, base) */
    char *buffer;
    uint32_t length;  /* bytes saved in the buffer; 0 while it runs */
    uint32_t capacity;
} CStack;

#include "machine.h"

typedef struct Exposure Exposure;

typedef struct {
    CStack stack;
    FloatControl control; /* as it was when the tasklet was suspended */
    ThreadFields fields;
    _PyErr_StackItem exc_base;
    VersionRoot root;
    _PyStackChunk *chunk; /* where its first Python frame lies; main: the thread's own */
    Exposure *exposed;    /* links between frames that were bent around the C stack; NULL: none */
    uint8_t hint;         /* of the size of its first chunk */
    uint8_t size_class;
    bool veiled;          /* generators in its frames are marked: see visit.c */
} SwitchState;

/* For layout.c: the frames of a tasklet: where they begin, and where its slice is. */
#define SWITCH_LAYOUT                                                                                                     \
    SAVED_FRAME_LAYOUT, LAYOUT_AT("task.chunk", Tasklet, sw.chunk), LAYOUT_AT("task.sp", Tasklet, sw.stack.sp),           \
        LAYOUT_AT("task.base", Tasklet, sw.stack.base), LAYOUT_AT("task.buffer", Tasklet, sw.stack.buffer),               \
        LAYOUT_AT("task.length", Tasklet, sw.stack.length),

#define CHUNK_CLASSES 6

typedef struct RootChunk RootChunk;

typedef struct {
    char *base; /* where each tasklet's stack begins */
    VersionThread version;
    RootChunk *pool[CHUNK_CLASSES];
    int pooled[CHUNK_CLASSES];
} SwitchThread;
