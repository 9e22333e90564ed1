/* This module's table for readers outside of the process: what a tasklet that waits for one of its objects waits for. core/c/layout.h has
   the form. */
#include "../../core/c/layout.h"

#define SYNC_NUMBERS                                                                                                      \
    {                                                                                                                     \
        LAYOUT_AT("Lock.locked", Lock, locked), LAYOUT_AT("RLock.owner", RLock, owner),                                   \
        LAYOUT_AT("RLock.count", RLock, count), LAYOUT_AT("Condition.lock", Condition, lock),                             \
        LAYOUT_AT("Semaphore.value", Semaphore, value), LAYOUT_AT("Event.is_set", Event, is_set),                         \
    }

#define SYNC_ADDRESSES                                                                                                    \
    {                                                                                                                     \
        {"type.Lock", &Lock_Type}, {"type.RLock", &RLock_Type}, {"type.Condition", &Condition_Type},                      \
        {"type.Semaphore", &Semaphore_Type}, {"type.BoundedSemaphore", &BoundedSemaphore_Type},                           \
        {"type.Event", &Event_Type}, {"type.SimpleQueue", &SimpleQueue_Type},                                             \
    }

LAYOUT_TABLE("sync", "", SYNC_NUMBERS, SYNC_ADDRESSES);
