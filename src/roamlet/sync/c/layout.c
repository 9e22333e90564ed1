/* This module's table for readers outside of the process: what a tasklet that waits for one of its objects waits for. core/c/layout.h has
   the form. */
#include "../../core/c/layout.h"

#define SYNC_NUMBERS                                                                                                      \
    {                                                                                                                     \
        LAYOUT_AT("Lock.locked", Lock, locked), LAYOUT_AT("RLock.owner", RLock, owner),                                   \
        LAYOUT_AT("RLock.count", RLock, count), LAYOUT_AT("Condition.lock", Condition, lock),                             \
        LAYOUT_AT("Semaphore.value", Semaphore, value), LAYOUT_AT("Event.is_set", Event, is_set),                         \
    }

/* Those without an address are heap types: layout_of_types(). */
#define SYNC_ADDRESSES                                                                                                    \
    {                                                                                                                     \
        {"type.Lock", &Lock_Type}, {"type.RLock", &RLock_Type}, {"type.SimpleQueue", &SimpleQueue_Type},                  \
        {"type.Condition", NULL}, {"type.Semaphore", NULL}, {"type.BoundedSemaphore", NULL}, {"type.Event", NULL},        \
    }

LAYOUT_TABLE("sync", "", SYNC_NUMBERS, SYNC_ADDRESSES);

/* Once, when they have been made, in the order of above. */
static void
layout_of_types(void)
{
    const void *types[] = {Condition_Type, Semaphore_Type, BoundedSemaphore_Type, Event_Type};
    for (size_t i = 0, place = 0; i < sizeof types / sizeof types[0]; place++)
        if (roamlet_layout.addresses[place].address == NULL)
            roamlet_layout.addresses[place].address = types[i++];
}
