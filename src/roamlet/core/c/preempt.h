/* State of the watchdog's sources of expiry in each scheduler. See preempt.c. */
#ifndef ROAMLET_PREEMPT_H
#define ROAMLET_PREEMPT_H

typedef struct {
    int64_t budget;     /* opcodes of a budget; 0: they are not counted */
    int64_t left;       /* of it; at 0 the next instruction expires */
    int64_t slice;      /* ns; 0: no slices */
    bool counting;      /* budget > 0 and the events for it are set */
    bool expired;       /* the slice is over: its tasklet is asked at each event. Guarded by the GIL */
    bool armed;         /* events are set because of `expired` */
    bool reported;      /* that events could not be set, once per run() */
    int64_t deadline;   /* of the slice, on the monotonic clock; atomic */
    /* The rest belongs to the watcher thread and is guarded by its lock, except where something else is said. */
    bool dozing;        /* atomic: the slice ran out while its thread slept: it is not watched until a tasklet goes on there */
    int looks;          /* how often the watcher has asked for this deadline */
    int64_t looked_for, look; /* that deadline, and when to ask again */
    uint64_t round;     /* guarded by the GIL: the last sweep through all schedulers that saw this one */
    Scheduler *next;    /* of those with slices */
    PyFrameObject *marked; /* on 3.11, while armed: owned, the frame that was innermost */
    Py_tracefunc user_trace, user_profile; /* on 3.11: whom ours hands events on to */
} Preempt;

#endif
