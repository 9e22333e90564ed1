/* The core's table for readers outside of this process: schedulers, tasklets, channels and their like. Its form is in layout.h, the
   numbers of CPython are in cpython/layout.h, those of the backend in switch/. A number that is added here needs no other change. */

/* What Python code names for those readers: a dictionary, which this module has as `published`. */
static PyObject *published;

#define CORE_NUMBERS                                                                                                      \
    {                                                                                                                     \
        {"scheduler.size", sizeof(Scheduler)},                                                                            \
        LAYOUT_AT("scheduler.next", Scheduler, registered_next), LAYOUT_AT("scheduler.tstate", Scheduler, tstate),        \
        LAYOUT_AT("scheduler.pid", Scheduler, pid), LAYOUT_AT("scheduler.current", Scheduler, current),                   \
        LAYOUT_AT("scheduler.main", Scheduler, main), LAYOUT_AT("scheduler.first", Scheduler, first),                     \
        LAYOUT_AT("scheduler.started", Scheduler, started), LAYOUT_AT("scheduler.timers", Scheduler, timers),             \
        LAYOUT_AT("scheduler.timer_count", Scheduler, timer_count), LAYOUT_AT("scheduler.idle", Scheduler, idle),         \
        LAYOUT_AT("scheduler.service", Scheduler, service), LAYOUT_AT("scheduler.tasklets", Scheduler, tasklets),         \
        LAYOUT_AT("scheduler.last_tick", Scheduler, last_tick), LAYOUT_AT("scheduler.ticks", Scheduler, ticks),           \
        LAYOUT_AT("scheduler.ticks_given", Scheduler, ticks_given),                                                       \
        LAYOUT_AT("scheduler.ticks_before", Scheduler, ticks_before),                                                     \
        LAYOUT_AT("scheduler.messages", Scheduler, messages),                                                             \
        {"task.size", sizeof(Tasklet)},                                                                                   \
        LAYOUT_AT("task.next", Tasklet, next), LAYOUT_AT("task.scheduler", Tasklet, scheduler),                           \
        LAYOUT_AT("task.waiting_on", Tasklet, waiting_on), LAYOUT_AT("task.queue", Tasklet, queue),                       \
        LAYOUT_AT("task.function", Tasklet, function), LAYOUT_AT("task.timer", Tasklet, timer),                           \
        LAYOUT_AT("task.started_next", Tasklet, started_next), LAYOUT_AT("task.blocked", Tasklet, blocked),               \
        LAYOUT_AT("task.state", Tasklet, state), LAYOUT_AT("task.preempted", Tasklet, preempted),                         \
        LAYOUT_AT("task.atomic", Tasklet, atomic), LAYOUT_AT("task.scope", Tasklet, scope),                               \
        LAYOUT_AT("task.loop", Tasklet, loop), LAYOUT_AT("task.since", Tasklet, since),                                   \
        {"timer.size", sizeof(Timer)},                                                                                    \
        LAYOUT_AT("timer.when", Timer, when), LAYOUT_AT("timer.task", Timer, tasklet),                                    \
        LAYOUT_AT("channel.balance", Channel, balance), LAYOUT_AT("channel.head", Channel, head),                         \
        LAYOUT_AT("channel.buffer", Channel, buffer), LAYOUT_AT("channel.buffered", Channel, buffered),                   \
        LAYOUT_AT("select.count", Select, ob_base.ob_size), LAYOUT_AT("select.cases", Select, cases),                     \
        {"case.size", sizeof(SelectCase)},                                                                                \
        LAYOUT_AT("case.channel", SelectCase, channel), LAYOUT_AT("case.value", SelectCase, value),                       \
        LAYOUT_AT("scope.outer", CancelScope, outer), LAYOUT_AT("scope.name", CancelScope, name),                         \
        LAYOUT_AT("scope.owner", CancelScope, owner), LAYOUT_AT("module_lock.name", ModuleLock, name),                    \
        LAYOUT_AT("module_lock.owner", ModuleLock, owner), SWITCH_LAYOUT FRAMES_LAYOUT OBJECTS_LAYOUT                     \
    }

#define CORE_ADDRESSES                                                                                                    \
    {                                                                                                                     \
        {"schedulers", &schedulers}, {"test_clock", &clock_now}, {"published", &published},                               \
        {"type.tasklet", &Tasklet_Type},                                                                                  \
        {"type.channel", &Channel_Type}, {"type.Waiter", &Waiter_Type}, {"type.select", &Select_Type},                    \
        {"type.CancelScope", &CancelScope_Type}, {"type.ModuleLock", &ModuleLock_Type}, GIL_ADDRESSES OBJECTS_ADDRESSES                 \
    }

LAYOUT_TABLE("core", BACKEND, CORE_NUMBERS, CORE_ADDRESSES);
