/* Recording what tasklets do, for roamlet.diagnose.trace(): one event for each switch, message, wake-up and end, in a ring for each thread.

   A ring keeps the newest events and counts the ones that they replace. While no trace is taken nothing is paid for: a switch looks at
   scheduler->attention anyway, send and receive at channel_attention. Events are written with the GIL held. They name tasklets by
   numbers, and code, types and labels by numbers of one table that holds references to them; starting, stopping and reading
   are in trace_session.c. */

#ifndef TRACE_PLACES
#define TRACE_PLACES 65536 /* how many places, types and labels are told apart; further ones are number 0 */
#endif
#define TRACE_DEPTH 64 /* how many frames of roamlet's own are passed over */

enum {
    TRACE_SWITCH = 1, /* `from` left for `reason`, at `place` called by `caller`; `to` goes on, 0: no tasklet can */
    TRACE_GOES_ON,    /* after that `to` does */
    TRACE_BORN,       /* `from` has made `to`, 0: no tasklet did */
    TRACE_ENDS,       /* `from`, whose label is `place`, has ended; reason: by an error */
    TRACE_MESSAGE,    /* `from` gives a value to `to` over the channel `object`; 0 for one of them: its buffer, which
                         then has `value` of them; reason: it comes to the front */
    TRACE_WAKES,      /* `from`, 0: the hub, a timer or a thread without tasklets, makes `to` runnable; reason: its time was over */
};

/* Why a tasklet left. */
enum {
    LEFT_YIELDED,
    LEFT_PREEMPTED,
    LEFT_MEETS,   /* a partner met at a channel goes first */
    LEFT_PAUSED,  /* out of the run queue, until it is inserted */
    LEFT_ENDED,
    LEFT_RECEIVE, /* waits at a channel */
    LEFT_SEND,
    LEFT_QUEUE,   /* waits for an object of the type `type`: a lock, a select, a descriptor (its number is `value`) */
    LEFT_WAITER,
    LEFT_SLEEP,
    LEFT_RUN,     /* inside run() */
};

typedef struct {
    int64_t at; /* ns on the machine's monotonic clock */
    uint64_t object;
    uint32_t from, to;
    uint32_t place, caller;
    uint32_t type;
    int32_t value;
    uint8_t kind, reason;
    uint16_t unused;
    uint32_t reserved;
} TraceEvent;

struct TraceRing {
    TraceRing *next;
    unsigned long thread;
    bool ended;         /* its thread has */
    uint32_t running;   /* the tasklet that runs, 0: none */
    int64_t since;
    uint64_t count;     /* of all events so far; the last `capacity` of them are kept */
    uint32_t capacity;  /* a power of two */
    TraceEvent events[];
};

typedef struct {
    PyObject *object; /* owned: a code object, a type, or a str that is a label */
    int32_t offset;   /* of the instruction; negative for types and labels */
    uint32_t number;  /* 0: the slot is free */
} TracePlace;

#define TRACE_INTERNAL 0x80000000u /* in `number`: code of roamlet's own, which is passed over */

static struct {
    TraceRing *rings;       /* newest thread first */
    TracePlace *places;     /* a hash table of 2 * TRACE_PLACES slots; NULL: no trace is being taken */
    uint32_t place_count;
    uint64_t places_missed;
    uint32_t capacity;      /* of each ring */
    int ring_count, ring_limit;
    uint64_t lost;          /* events of threads whose ring was given to a newer one, or that got none */
    PyObject *internal;     /* owned: roamlet's folder, with the separator at its end */
    int64_t started;
} trace;

static uint32_t trace_last, trace_base; /* numbers of tasklets: the last that was given; those up to `base` are of earlier traces */
static unsigned channel_attention;      /* not 0: channel operations are announced to a callback or recorded */
enum { CHANNEL_CALLBACK = 1, CHANNEL_TRACE = 2 };

/* Whether it is code of roamlet or of the import system, where no user looks for the reason of a wait. */
static bool
trace_is_internal(PyObject *object)
{
    static const char frozen[] = "<frozen ";
    PyObject *name;
    if (!PyCode_Check(object))
        return false;
    name = ((PyCodeObject *)object)->co_filename;
    if (PyUnicode_GET_LENGTH(name) >= (Py_ssize_t)sizeof frozen && PyUnicode_READ_CHAR(name, 0) == '<') {
        Py_ssize_t i = 1;
        while (frozen[i] != 0 && PyUnicode_READ_CHAR(name, i) == (Py_UCS4)frozen[i])
            i++;
        return frozen[i] == 0;
    }
    return PyUnicode_Tailmatch(name, trace.internal, 0, PY_SSIZE_T_MAX, -1) == 1;
}

/* The number of (object, offset) in the table, maybe with TRACE_INTERNAL; 0 when that is full. Borrows object; runs no Python code. */
static inline uint32_t
trace_place(PyObject *object, int32_t offset)
{
    uint64_t hash = ((uint64_t)(uintptr_t)object >> 4 ^ (uint64_t)(uint32_t)offset << 20) * 0x9E3779B97F4A7C15u;
    uint32_t slot = (uint32_t)(hash >> 40) & (2 * TRACE_PLACES - 1);
    for (;; slot = (slot + 1) & (2 * TRACE_PLACES - 1)) {
        TracePlace *place = &trace.places[slot];
        if (likely(place->object == object && place->offset == offset))
            return place->number;
        if (place->number != 0)
            continue;
        if (trace.place_count >= TRACE_PLACES - 1) {
            trace.places_missed++;
            return 0;
        }
        place->object = Py_NewRef(object);
        place->offset = offset;
        place->number = ++trace.place_count | (trace_is_internal(object) ? TRACE_INTERNAL : 0);
        return place->number;
    }
}

/* The places of the two innermost frames that are not roamlet's own, the callee's in places[0]; 0: no such frame. */
static inline void
trace_stack(PyThreadState *tstate, uint32_t places[2])
{
    int found = 0;
    places[0] = places[1] = 0;
#if WATCH_BY_MONITORING || WATCH_BY_TRACING
    WatchFrame *frame = tstate_frame(tstate);
    for (int depth = 0; frame != NULL && depth < TRACE_DEPTH && found < 2; frame = frame->previous, depth++) {
        PyCodeObject *code = watch_frame_code(frame);
        uint32_t number;
        if (code == NULL)
            continue;
        number = trace_place((PyObject *)code, (int32_t)watch_frame_offset(frame, code));
        if ((number & TRACE_INTERNAL) == 0)
            places[found++] = number;
    }
#else
    (void)tstate;
    (void)found;
#endif
}

static inline TraceEvent *
trace_next(TraceRing *ring, int kind, uint32_t from, uint32_t to)
{
    TraceEvent *event = &ring->events[ring->count++ & (ring->capacity - 1)];
    event->at = monotonic_ns();
    event->object = 0;
    event->from = from;
    event->to = to;
    event->place = event->caller = event->type = 0;
    event->value = 0;
    event->kind = (uint8_t)kind;
    event->reason = 0;
    return event;
}

/* The tasklet's number in this trace, given when it is first met. */
static inline uint32_t
trace_id(Tasklet *tasklet)
{
    if (unlikely(tasklet->trace_id <= trace_base))
        tasklet->trace_id = ++trace_last;
    return tasklet->trace_id;
}

/* Whose turn it is in this thread: the number of the tasklet, 0 for the hub and for threads without tasklets. */
static inline uint32_t
trace_actor(void)
{
    Scheduler *scheduler = this_scheduler;
    return scheduler == NULL || scheduler->idle || scheduler->polling ? 0 : trace_id(scheduler->current);
}

static inline int
trace_reason(Tasklet *from, bool meeting)
{
    switch (from->blocked) {
    case BLOCKED_RECEIVE:
        return LEFT_RECEIVE;
    case BLOCKED_SEND:
        return LEFT_SEND;
    case BLOCKED_WAIT:
        return from->waiting_on != NULL ? LEFT_WAITER : LEFT_SLEEP;
    case BLOCKED_RUN:
        return LEFT_RUN;
    case BLOCKED_QUEUE:
        return LEFT_QUEUE;
    }
    if (from->state == TASKLET_UNBOUND)
        return LEFT_ENDED;
    if (from->preempted)
        return LEFT_PREEMPTED;
    if (from->next == NULL)
        return LEFT_PAUSED;
    return meeting ? LEFT_MEETS : LEFT_YIELDED;
}

/* The current tasklet, `from`, leaves; `to` goes on, NULL: none can. `meeting`: for a partner at a channel. Runs no Python code. */
static __attribute__((noinline)) void
trace_departs(Scheduler *scheduler, Tasklet *from, Tasklet *to, bool meeting)
{
    TraceRing *ring = scheduler->trace;
    int reason = trace_reason(from, meeting);
    uint32_t places[2] = {0, 0};
    TraceEvent *event;
    if (reason != LEFT_ENDED)
        trace_stack(scheduler->tstate, places);
    event = trace_next(ring, TRACE_SWITCH, trace_id(from), to != NULL ? trace_id(to) : 0);
    event->reason = (uint8_t)reason;
    event->place = places[0];
    event->caller = places[1];
    event->object = (uint64_t)(uintptr_t)from->waiting_on;
    if (reason == LEFT_QUEUE && from->waiting_on != NULL) {
        PyTypeObject *type = Py_TYPE(from->waiting_on);
        event->type = trace_place((PyObject *)type, -1);
        if (type->tp_as_number != NULL && type->tp_as_number->nb_index != NULL && !PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) {
            PyObject *number = type->tp_as_number->nb_index(from->waiting_on); /* of C code: a descriptor */
            event->value = number != NULL ? (int32_t)PyLong_AsLong(number) : -1;
            Py_XDECREF(number);
        }
    }
    ring->running = event->to;
    ring->since = event->at;
}

/* The thread has slept; its current tasklet goes on. */
static __attribute__((noinline)) void
trace_goes_on(Scheduler *scheduler)
{
    TraceEvent *event = trace_next(scheduler->trace, TRACE_GOES_ON, 0, trace_id(scheduler->current));
    scheduler->trace->running = event->to;
    scheduler->trace->since = event->at;
}

static __attribute__((noinline)) void
trace_wakes(Tasklet *tasklet)
{
    TraceEvent *event = trace_next(tasklet->scheduler->trace, TRACE_WAKES, trace_actor(), trace_id(tasklet));
    event->reason = tasklet->timed_out;
}

/* A value passes in this thread. */
static __attribute__((noinline)) void
trace_message(Scheduler *scheduler, Tasklet *sender, Tasklet *receiver, Channel *channel)
{
    TraceEvent *event;
    if (scheduler->trace == NULL)
        return;
    event = trace_next(scheduler->trace, TRACE_MESSAGE, trace_id(sender), trace_id(receiver));
    event->object = (uint64_t)(uintptr_t)channel;
}

/* A value goes into the channel's buffer, `first`: before the others; or, with NULL for the sender, out of it. */
static __attribute__((noinline)) void
trace_buffered(Scheduler *scheduler, Tasklet *sender, Channel *channel, bool first)
{
    TraceEvent *event;
    if (scheduler->trace == NULL)
        return;
    event = trace_next(scheduler->trace, TRACE_MESSAGE, sender != NULL ? trace_id(sender) : 0, sender == NULL ? trace_id(scheduler->current) : 0);
    event->object = (uint64_t)(uintptr_t)channel;
    event->value = (int32_t)channel->buffered;
    event->reason = first;
}

static __attribute__((noinline)) void
trace_born(Tasklet *tasklet)
{
    uint32_t actor = trace_actor();
    tasklet->trace_id = ++trace_last; /* a new one when it was bound anew after its end */
    (void)trace_next(tasklet->scheduler->trace, TRACE_BORN, actor, tasklet->trace_id);
}

/* What a tasklet is called: the __qualname__ of its function. A new reference to a str, or NULL. May run Python code. */
static PyObject *
trace_label(Tasklet *tasklet)
{
    static PyObject *name;
    PyObject *function = tasklet->function, *label = NULL;
    if (tasklet == tasklet->scheduler->main)
        return PyUnicode_InternFromString("main");
    if (function != NULL && name_interned(&name, "__qualname__") != NULL)
        label = PyObject_GetAttr(function, name);
    if (label == NULL || !PyUnicode_CheckExact(label)) {
        PyErr_Clear();
        Py_XSETREF(label, function != NULL ? PyUnicode_InternFromString(Py_TYPE(function)->tp_name) : NULL);
    } else
        PyUnicode_InternInPlace(&label);
    return label;
}

/* The current tasklet has ended, `failed`: by an error. May run Python code. */
static __attribute__((noinline)) void
trace_ends(Scheduler *scheduler, Tasklet *tasklet, bool failed)
{
    PyObject *label = trace_label(tasklet);
    PyErr_Clear();
    if (scheduler->trace != NULL) { /* that code may have stopped the trace */
        TraceEvent *event = trace_next(scheduler->trace, TRACE_ENDS, trace_id(tasklet), 0);
        event->place = label != NULL ? trace_place(label, -1) : 0;
        event->reason = failed;
    }
    Py_XDECREF(label);
}

/* ---- rings ---- */

/* Give the thread of this scheduler a ring, if there is one for it. Without it nothing of the thread is recorded. */
static void
trace_thread(Scheduler *scheduler)
{
    TraceRing *ring = NULL, **link;
    if (trace.places == NULL || scheduler->trace != NULL)
        return;
    if (trace.ring_count < trace.ring_limit) {
        ring = PyMem_RawMalloc(sizeof *ring + trace.capacity * sizeof(TraceEvent)); /* touched only as far as it fills */
        if (ring != NULL)
            trace.ring_count++;
    } else
        for (link = &trace.rings; *link != NULL; link = &(*link)->next)
            ring = (*link)->ended ? *link : ring; /* the last of them in the list is of the thread that began first */
    if (ring == NULL) {
        trace.lost++;
        return;
    }
    for (link = &trace.rings; *link != NULL; link = &(*link)->next)
        if (*link == ring) {
            *link = ring->next;
            trace.lost += ring->count;
            break;
        }
    *ring = (TraceRing){.next = trace.rings, .thread = scheduler->tstate->thread_id,
                        .running = scheduler->idle ? 0 : trace_id(scheduler->current), .since = monotonic_ns(), .capacity = trace.capacity};
    trace.rings = ring;
    scheduler->trace = ring;
    scheduler->attention |= ATTEND_TRACE;
}

/* Record nothing more of this thread. */
static void
trace_detach(Scheduler *scheduler)
{
    scheduler->trace = NULL;
    scheduler->attention &= (uint8_t)~ATTEND_TRACE;
}

static void
trace_thread_ends(Scheduler *scheduler)
{
    if (scheduler->trace != NULL)
        scheduler->trace->ended = true;
    trace_detach(scheduler);
}
