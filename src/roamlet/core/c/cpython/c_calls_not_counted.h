/* What 3.11 and 3.14 have in common: C calls have no counter of their own, so tasklets inherit none from their thread. */

typedef struct {
    char unused;
} VersionThread;

static inline void
version_thread(VersionThread *thread, PyThreadState *tstate)
{
    (void)thread;
    (void)tstate;
}

/* Instead: tasklets start on C stacks of their own, as threads do. */
static inline UNUSED void
version_thread_own(VersionThread *thread)
{
    (void)thread;
}
