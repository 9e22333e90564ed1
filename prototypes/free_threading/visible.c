/* What the cyclic collector of a free-threaded build must see of suspended tasklets.

   It finds what lives by two things: counts of references, and references without a count on the stacks of threads. For the latter
   it follows the frames and `c_stack_refs` of each thread state, and so finds those of the tasklet that runs. Those of the
   suspended ones are shown here, as a generator shows its frame. With a GIL a reference that is not shown keeps something alive;
   without one, where it has no count, what it refers to is freed while a frame uses it.

   A tasklet that has not ended has a reference that the collector does not see, so it is never garbage, and its frames are reached in each
   collection. collect.c tries the other way. */

static Py_ssize_t frames_unseen; /* met without a stack pointer: what their operands refer to without a count is not shown */

#ifdef Py_GIL_DISABLED

/* Visit one slot: always what it owns; what it refers to without a count where the collector marks, not where it subtracts. Only the
   collector knows which it does. */
static int
ref_visit(_PyStackRef *ref, visitproc visit, void *arg)
{
    if (PyStackRef_IsNullOrInt(*ref))
        return 0;
#if PY_VERSION_HEX >= 0x030F0000
    return _PyGC_VisitStackRef(ref, visit, arg);
#else
    /* 3.14 does not export that function. The traverse function of generators calls it, for a generator that has ended with its code
       object alone: so the slot is shown to it as that of a generator that is nowhere else. */
    PyGenObject lens;
    memset(&lens, 0, sizeof lens);
    lens.gi_frame_state = FRAME_CLEARED;
    lens.gi_iframe.f_executable = *ref;
    return PyGen_Type.tp_traverse((PyObject *)&lens, visit, arg);
#endif
}

/* Visit a frame of a Python function; generators show their own. */
static int
frame_show(_PyInterpreterFrame *frame, visitproc visit, void *arg)
{
    _PyStackRef *end = frame->stackpointer;
    int failed = ref_visit(&frame->f_executable, visit, arg);
    if (!failed)
        failed = ref_visit(&frame->f_funcobj, visit, arg);
    if (end == NULL) { /* with asserts alone: it drops an operand, whose finalizer has switched */
        __atomic_add_fetch(&frames_unseen, 1, __ATOMIC_RELAXED);
        end = frame->localsplus + ((PyCodeObject *)PyStackRef_AsPyObjectBorrow(frame->f_executable))->co_nlocalsplus;
    }
    for (_PyStackRef *ref = frame->localsplus; !failed && ref < end; ref++)
        failed = ref_visit(ref, visit, arg);
    if (failed)
        return failed;
    /* Not `frame_obj`: it refers to nothing while the frame is suspended, and the collector would change the slots of one that is garbage. */
    Py_VISIT(frame->f_locals);
    return 0;
}

static int
c_stack_refs_show(struct _PyCStackRef *ref, visitproc visit, void *arg)
{
    int failed = 0;
    for (; ref != NULL && !failed; ref = ref->next)
        failed = ref_visit(&ref->ref, visit, arg);
    return failed;
}

#else

#define frame_show frame_visit_stored
#define c_stack_refs_show(ref, visit, arg) ((void)(ref), 0)

#endif

/* Called with the world stopped: no thread is inside a switch, and `current` of its thread is what runs. */
static int
tasklet_traverse(Tasklet *self, visitproc visit, void *arg)
{
    Py_VISIT(self->function);
    Py_VISIT(self->args);
    Py_VISIT(self->value);
    if (self->state != TASKLET_STARTED || self->scheduler->current == self || self->scheduler->over)
        return 0;
#ifndef PINNED_HIDE_FRAMES
    _PyInterpreterFrame *frame = self->sw.fields.version.frame;
    int failed = c_stack_refs_show(self->c_stack_refs, visit, arg);
    for (; frame != NULL && !failed; frame = frame->previous)
        if (frame->owner == FRAME_OWNED_BY_THREAD)
            failed = frame_show(frame, visit, arg);
        else if (frame->owner == FRAME_OWNED_BY_GENERATOR)
            generator_veil(self, frame);
    if (failed)
        return failed;
#endif
    Py_VISIT(self->sw.fields.context);
    Py_VISIT(self->sw.exc_base.exc_value);
    return 0;
}
