/* State of the greenlet backend. See greenlet.c. */

typedef struct {
    PyObject *greenlet; /* owned: the greenlet that runs the tasklet; main: the one its thread was in */
} SwitchState;

/* For layout.c: the frames of a tasklet: greenlet's own structs are its own, so they are not seen from outside. */
#define SWITCH_LAYOUT

#ifndef GREENLET_POOL
#define GREENLET_POOL 1024 /* at least 1: a greenlet that ends a tasklet is put there while it still runs */
#endif

typedef struct {
    PyObject *starter; /* starts greenlets from a fixed depth */
    PyObject *pool[GREENLET_POOL];
    int pooled;
} SwitchThread;
