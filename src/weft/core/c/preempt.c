/* The watchdog's event sources: what calls scheduler_expired when a budget of opcodes or a slice of time is used up. */

static int
preempt_start(Scheduler *scheduler, int64_t opcodes, int64_t slice_ns)
{
    (void)scheduler;
    (void)opcodes;
    (void)slice_ns;
    (void)scheduler_expired;
    PyErr_SetString(NoCore, "this build of weft's core cannot interrupt tasklets");
    return -1;
}

static inline void
preempt_restart(Scheduler *scheduler)
{
    (void)scheduler;
}

static void
preempt_stop(Scheduler *scheduler)
{
    (void)scheduler;
}

static int
preempt_nesting(Scheduler *scheduler)
{
    (void)scheduler;
    return 0;
}
