/* A C stack for each tasklet, of its own and where it stays: what a tasklet and a thread have for it. Its memory is in regions.c. */

typedef struct {
    char *sp; /* these three are known by offset to stack_jump */
    void *bp;
    void *ip;
} CStack;

#include "switch/machine.h"

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
    VersionLimits limits; /* of `memory` */
} SwitchState;

typedef struct {
    VersionThread version;
    Stack *warm; /* free stacks whose pages are still there */
    int warm_count;
    Region *regions; /* the newest first */
    Region *open;    /* where the next new stack is looked for first */
    size_t page;
    size_t stride; /* from one stack to the next; 0: no region yet */
} SwitchThread;
