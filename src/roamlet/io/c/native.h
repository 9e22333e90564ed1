/* What the parts of roamlet.io._native share: descriptors, the hub of a thread, and the ways to ask the kernel.
   All of it is used with the GIL held, except where a poller waits. */
#ifndef ROAMLET_IO_NATIVE_H
#define ROAMLET_IO_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include "api.h"
#include "arguments.h"

/* The two directions of a descriptor; sets of them are made of BIT(direction). */
enum { READ, WRITE };
#define BIT(direction) (1 << (direction))
#define BOTH (BIT(READ) | BIT(WRITE))
#define STRANGE 4 /* beside the two in what a poller finds: an end, an error or urgent data is there */

typedef struct Hub Hub;

/* The calls that wait for one file descriptor, in every thread of the process. It is found by its number, and lives until that is
   closed; each waiting call holds a reference. */
typedef struct Descriptor {
    PyObject_HEAD
    RoamletQueue waiting[2];
    uint32_t generation; /* tells it from all that had or will have the same number; never 0 */
    uint32_t home;       /* the hub in whose set it stays, edge-triggered; 0: none, each wait puts it there for one event */
    int fd;
    uint8_t armed;     /* the directions that home looks at */
    uint8_t maybe;     /* the directions in which a call may succeed as far as is known; kept by sockets at home */
    bool owned;        /* a socket's: no other code closes it */
    bool strange;      /* STRANGE was found: reading less than was asked for does not say that it is empty */
    bool closed;
} Descriptor;

/* Something that a poller has found. The key is that of a descriptor, or 0 for the doorbell. */
typedef struct {
    uint64_t key;
    int directions; /* with STRANGE */
} Found;

#ifndef HUB_BATCH
#define HUB_BATCH 256 /* how many events are taken at once */
#endif

/* A way to ask the kernel. */
typedef struct {
    bool edges; /* can keep a descriptor in the set, edge-triggered */
    int (*open)(Hub *hub); /* also puts the doorbell into the set. 0, or -1 with errno */
    void (*close)(Hub *hub);
    /* Look at these directions from now on, or for one event. 0; 1 when it is of a kind that is always ready; -1 with errno. */
    int (*watch)(Hub *hub, Descriptor *descriptor, int directions, bool once);
    void (*forget)(Hub *hub, Descriptor *descriptor);
    void (*prepare)(Hub *hub); /* before it waits, with the GIL held; NULL: nothing to do */
    /* Wait up to `timeout` ns (-1: no limit). How many were found, -1 with errno. Needs no GIL; only hub->found may be used. */
    int (*wait)(Hub *hub, int64_t timeout);
} Poller;

struct Hub {
    RoamletHub base;
    Hub *next; /* all hubs of the process */
    const Poller *poller;
    uint32_t id; /* never used twice, never 0 */
    pid_t process; /* whose it is: a forked child shares the sets of its parent until hub_forked */
    int doorbell; /* the end that is read; base.wake_fd is the same for an eventfd */
    int epoll;
    bool crowded; /* it had to wait for the GIL when it slept last */
    int credit;   /* how far lingering has been worth it lately, see hub_linger */
    struct pollfd *set; /* of the poller that uses poll(2) */
    uint64_t *keys;
    int count, capacity;
    Found found[HUB_BATCH];
};

static const RoamletAPI *api;

static inline uint64_t
descriptor_key(const Descriptor *descriptor)
{
    return (uint64_t)descriptor->generation << 32 | (uint32_t)descriptor->fd;
}

static inline bool
anybody_waits(const Descriptor *descriptor, int direction)
{
    return descriptor->waiting[direction].head != NULL;
}

static Descriptor *descriptor_find(int fd);

#endif
