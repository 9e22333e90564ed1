/* Memory for Python frames: the 16 KiB chunks that CPython adds when a tasklet's first one is full. */

#define LARGE_CHUNK 16384 /* what CPython asks of the arena allocator for more frames: DATA_STACK_CHUNK_SIZE */
#ifndef LARGE_POOL
#define LARGE_POOL 64     /* free large chunks kept per process: 1 MiB at most */
#endif

/* CPython maps a large chunk when a call passes the end of the one in use and unmaps it when that call returns: several
   microseconds for each call in a loop at that depth. A free list in front of the arena allocator, through the public
   hook for it, makes that a few nanoseconds. It must not trust the GIL: interpreters with their own share it. */
static PyObjectArenaAllocator arena;
static void *large_free;
static int large_count;
static char large_busy;

static void *
large_alloc(void *context, size_t size)
{
    void **block = NULL;
    if (size == LARGE_CHUNK && !__atomic_test_and_set(&large_busy, __ATOMIC_ACQUIRE)) {
        block = large_free;
        if (block != NULL) {
            large_free = *block;
            large_count--;
        }
        __atomic_clear(&large_busy, __ATOMIC_RELEASE);
    }
    return block != NULL ? block : arena.alloc(context, size);
}

static void
large_give(void *context, void *block, size_t size)
{
    if (size == LARGE_CHUNK && !__atomic_test_and_set(&large_busy, __ATOMIC_ACQUIRE)) {
        bool kept = large_count < LARGE_POOL;
        if (kept) {
            *(void **)block = large_free;
            large_free = block;
            large_count++;
        }
        __atomic_clear(&large_busy, __ATOMIC_RELEASE);
        if (kept)
            return;
    }
    arena.free(context, block, size);
}

static void
large_pool_free(void)
{
    if (__atomic_test_and_set(&large_busy, __ATOMIC_ACQUIRE))
        return;
    while (large_free != NULL) {
        void *block = large_free;
        large_free = *(void **)block;
        arena.free(arena.ctx, block, LARGE_CHUNK);
    }
    large_count = 0;
    __atomic_clear(&large_busy, __ATOMIC_RELEASE);
}

static void
large_pool_install(void)
{
    PyObjectArenaAllocator ours;
    PyObject_GetArenaAllocator(&arena);
    ours = arena;
    ours.alloc = large_alloc;
    ours.free = large_give;
    PyObject_SetArenaAllocator(&ours);
}
