/* Tasklets that nothing can wake: the collector finds them, and they end in their own thread. Built with -DPINNED_COLLECT alone.

   A tasklet that waits in a channel is owned by the channel's queue, and the channel shows it; any other is owned by what the collector does
   not see, and lives. What the collector finds to be garbage loses its deferral, so that counts alone keep it; but a tasklet that was found goes
   on, to end. Its slots without a count are made owning ones before it does: by its finalizer, in the thread that collects, or by its own
   thread where the finalizer of another object has woken it first. */

#if defined(PINNED_COLLECT) && defined(Py_GIL_DISABLED)
#define COLLECTS 1

/* Whether the queue that a tasklet is in has the only reference that keeps it. Called with the world stopped. */
static bool
tasklet_is_shown(const Tasklet *tasklet)
{
    const Scheduler *scheduler = tasklet->scheduler;
    return tasklet->state == TASKLET_STARTED && !tasklet->found && tasklet != scheduler->main && tasklet != scheduler->current &&
           !scheduler->over;
}

/* Make one slot own what it refers to without a count, unless it is borrowed from an owning one between `first` and `end`: C code that is
   under way may have a copy of that, and would not drop the count. */
static void
ref_own(_PyStackRef *ref, const _PyStackRef *first, const _PyStackRef *end)
{
    if (PyStackRef_IsNullOrInt(*ref) || (ref->bits & Py_TAG_BITS) == 0)
        return;
    for (; first < end; first++)
        if (first->bits == (ref->bits & ~(uintptr_t)Py_TAG_REFCNT))
            return;
    *ref = PyStackRef_AsStrongReference(*ref);
}

/* Make all that a suspended tasklet's frames refer to theirs. `slots` is locked, or the tasklet is this thread's and not running. */
static void
slots_own(Tasklet *tasklet)
{
    _PyInterpreterFrame *frame = tasklet->sw.fields.version.frame;
#ifdef PINNED_OWN_NOTHING
    return;
#endif
    for (; frame != NULL; frame = frame->previous) {
        if (frame->owner != FRAME_OWNED_BY_THREAD)
            continue; /* the collector does it for generators */
        ref_own(&frame->f_executable, NULL, NULL);
        ref_own(&frame->f_funcobj, NULL, NULL);
        for (_PyStackRef *ref = frame->localsplus; ref < frame->stackpointer; ref++)
            ref_own(ref, frame->localsplus, frame->stackpointer);
    }
    for (struct _PyCStackRef *ref = tasklet->c_stack_refs; ref != NULL; ref = ref->next)
        ref_own(&ref->ref, NULL, NULL);
}

/* The finalizer of a generator that executes in a suspended tasklet would complain: until the tasklet goes on it counts as done. */
static inline void
generator_veil(Tasklet *tasklet, _PyInterpreterFrame *frame)
{
    tasklet->veiled = true;
    _PyGC_SET_FINALIZED((PyObject *)frame_generator(frame));
}

/* This thread is about to go on with one of its tasklets. May block, before anything was changed for the switch. */
static inline void
tasklet_resumes(Tasklet *tasklet)
{
    if (unlikely(_PyObject_HAS_GC_BITS((PyObject *)tasklet, _PyGC_BITS_UNREACHABLE))) {
        PyMutex_Lock(&tasklet->slots);
        if (tasklet->suspended)
            slots_own(tasklet);
        tasklet->suspended = false;
        PyMutex_Unlock(&tasklet->slots);
    }
    tasklet->suspended = false;
    if (unlikely(tasklet->veiled)) {
        for (_PyInterpreterFrame *frame = tasklet->sw.fields.version.frame; frame != NULL; frame = frame->previous)
            if (frame->owner == FRAME_OWNED_BY_GENERATOR)
                _PyGC_CLEAR_FINALIZED((PyObject *)frame_generator(frame));
        tasklet->veiled = false;
    }
}

static inline void
tasklet_suspended(Tasklet *tasklet)
{
    __atomic_store_n(&tasklet->suspended, true, __ATOMIC_RELEASE);
}

static void inbox_post(Scheduler *to, Tasklet *tasklet, bool kill);

/* It is garbage. In the thread that collects, with the world running: have its own thread kill it. That is a new reference, so it lives. */
static void
tasklet_finalize(Tasklet *self)
{
    bool suspended;
    PyMutex_Lock(&self->slots);
    suspended = __atomic_load_n(&self->suspended, __ATOMIC_ACQUIRE);
    if (suspended)
        slots_own(self);
    PyMutex_Unlock(&self->slots);
    if (suspended) {
        self->found = true; /* if it waits again it lives on */
        inbox_post(self->scheduler, self, true);
    }
}

#else
#define COLLECTS 0
#define tasklet_is_shown(tasklet) ((void)(tasklet), false)
#define generator_veil(tasklet, frame) ((void)0)
#define tasklet_resumes(tasklet) ((void)0)
#define tasklet_suspended(tasklet) ((void)0)
#endif
