/* What a thread state holds of an event loop that runs, whichever backend switches. Every loop installs hooks of asynchronous generators
   while it runs, so these tell whether there is one. On a version that is not known no tasklet has a loop of its own. */
#ifndef ROAMLET_RUNNING_LOOP_H
#define ROAMLET_RUNNING_LOOP_H

#if PY_VERSION_HEX < 0x03100000
#define LOOP_HOOK(tstate) ((tstate)->async_gen_firstiter)
#define LOOP_LAST_HOOK(tstate) ((tstate)->async_gen_finalizer)
#define LOOP_ORIGINS(tstate) ((tstate)->coroutine_origin_tracking_depth)
#define LOOP_KNOWN 1
#else
#define LOOP_KNOWN 0
#endif

/* The task that runs is kept beside the loop since 3.14; until then asyncio has a table of them by loop. */
#define LOOP_HAS_TASK (PY_VERSION_HEX >= 0x030E0000)

/* Not 0 while an event loop runs in this thread. */
static inline uintptr_t
tstate_loop(PyThreadState *tstate)
{
#if LOOP_KNOWN
    return (uintptr_t)LOOP_HOOK(tstate);
#else
    (void)tstate;
    return 0;
#endif
}

#endif
