/* State of the native backend: a thread has several C stacks, a tasklet belongs to one of them, and its slice of that stack is copied
   away when another tasklet of the same stack runs. See slices.c. */

typedef struct {
    char *sp; /* these three are known by offset to stack_jump */
    void *bp;
    void *ip;
    char *base;       /* the slice is [sp, base) */
    char *buffer;
    uint32_t length;  /* bytes saved in the buffer; 0 while they lie on the stack */
    uint32_t capacity;
} CStack;

#include "machine.h"
#include "sanitizer.h"

typedef struct Exposure Exposure;
typedef struct Stack Stack;
typedef struct Region Region;

typedef struct {
    CStack stack;
    FloatControl control; /* as it was when the tasklet was suspended */
    bool here;            /* its slice lies on its stack: it can be jumped to */
    bool veiled;          /* generators in its frames are marked: see visit.c */
    uint8_t hint;         /* of the size of its first chunk */
    uint8_t size_class;
    ThreadFields fields;
    _PyStackChunk *chunk; /* where its first Python frame lies; main: the thread's own */
    Stack *home;          /* the stack that it belongs to; NULL: not started, or ended */
    Exposure *exposed;    /* links between frames that were bent around the C stack; NULL: none */
    _PyErr_StackItem exc_base;
    VersionRoot root;
    SanitizedStack sanitized;
} SwitchState;

/* For layout.c: the frames of a tasklet: where they begin, and where its slice is. */
#define SWITCH_LAYOUT                                                                                                     \
    SAVED_FRAME_LAYOUT, LAYOUT_AT("task.chunk", Tasklet, sw.chunk), LAYOUT_AT("task.sp", Tasklet, sw.stack.sp),           \
        LAYOUT_AT("task.base", Tasklet, sw.stack.base), LAYOUT_AT("task.buffer", Tasklet, sw.stack.buffer),               \
        LAYOUT_AT("task.length", Tasklet, sw.stack.length),

#define CHUNK_CLASSES 6

typedef struct RootChunk RootChunk;

/* One of the C stacks of a thread. */
struct Stack {
    Tasklet *resident; /* borrowed: the tasklet whose slice lies on it, or that runs on it; NULL: none */
    char *base;        /* where each of its tasklets begins */
    char *low;         /* its end, above the guard; NULL: the thread's own */
    Stack *next;       /* in `free` */
    uint32_t members;  /* how many tasklets belong to it */
    uint32_t uses;
    VersionThread version;
    VersionLimits limits;
};

typedef struct {
    Stack own;           /* the thread's own C stack, below where main usually is: main belongs to it */
    Stack *free;         /* those that no tasklet belongs to */
    Region *regions;     /* the newest first */
    Stack *common;       /* of those that begin when there are no more stacks; NULL: not needed yet */
    Region *looking;     /* where the next stack to be shared is looked for */
    uint32_t looking_slot;
    uint32_t stacks;     /* how many there are in all regions */
    uint32_t refused;    /* so many tasklets more begin before another stack is asked for */
    size_t page;
    size_t stride;       /* from one stack to the next; 0: no region yet */
    RootChunk *pool[CHUNK_CLASSES];
    int pooled[CHUNK_CLASSES];
} SwitchThread;
