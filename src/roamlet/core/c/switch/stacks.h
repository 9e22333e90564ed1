/* State of the backend with a C stack for each tasklet, of its own and where it stays. See stacks.c. */

typedef struct {
    char *sp; /* these three are known by offset to stack_jump */
    void *bp;
    void *ip;
} CStack;

#include "machine.h"
#include "sanitizer.h"

typedef struct Stack Stack;
typedef struct Region Region;

typedef struct {
    CStack stack;
    FloatControl control; /* as it was when the tasklet was suspended */
    ThreadFields fields;
    _PyErr_StackItem exc_base;
    VersionRoot root;
    _PyStackChunk *chunk; /* where its first Python frame lies; main: the thread's own */
    Stack *memory;        /* what it runs on; NULL: main, or not started */
    bool veiled;          /* generators in its frames are marked: see visit.c */
    SanitizedStack sanitized;
} SwitchState;

/* For layout.c: the frames of a tasklet. */
#define SWITCH_LAYOUT SAVED_FRAME_LAYOUT, LAYOUT_AT("task.chunk", Tasklet, sw.chunk),

typedef struct {
    VersionThread version;
    Stack *warm; /* free stacks whose pages are still there */
    int warm_count;
    bool spare_used;
    Stack *spare;    /* on which a tasklet hears that there is no memory for a stack */
    Stack *waiting;  /* for foreign greenlets to end on them */
    int left;        /* how many of those no greenlet is left on */
    Region *regions; /* the newest first */
    Region *open;    /* where the next new stack is looked for first */
    size_t page;
    size_t stride; /* from one stack to the next; 0: no region yet */
} SwitchThread;
