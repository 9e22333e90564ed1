/* The seam between tasklets and what carries them. A backend defines SwitchState (in each tasklet), SwitchThread (in
   each scheduler) and the functions declared below; everything above it is the same for all backends.

   The caller of switch_to has settled the run queue already: scheduler->current is the tasklet to go on with. */
#ifndef ROAMLET_SWITCH_H
#define ROAMLET_SWITCH_H

#if defined(ROAMLET_SWITCH_NATIVE)
#include "slices.h"
#elif defined(ROAMLET_SWITCH_GREENLET)
#include "greenlet.h"
#else
#error "no switching backend chosen: define ROAMLET_SWITCH_NATIVE or ROAMLET_SWITCH_GREENLET"
#endif

/* Whether tasklets that begin from now on all do so on their thread's own C stack, since somebody's greenlets are about. */
static bool single_stack;

/* Once a process, when the module is imported. -1 with an exception set when this backend cannot serve here. */
static int switch_module_init(void);
/* Once a thread: the running C stack becomes main's. -1 with an exception set. */
static int switch_thread_init(Scheduler *scheduler);
/* The thread ends, or its pools are to be given back (`roamlet.trim`): frees what is pooled. May run Python code. */
static void switch_thread_trim(Scheduler *scheduler);
static void switch_thread_end(Scheduler *scheduler);
/* Before anything is changed for a switch away from `tasklet`: 0, or -1 with an exception set when it must not happen
   (inside a foreign greenlet) or cannot (out of memory). */
static inline int switch_guard(Scheduler *scheduler, Tasklet *tasklet);
/* Whether a switch now would take the running tasklet's C stack away from where it lies. */
static inline bool switch_moves_stack(Scheduler *scheduler);
/* Leave `from`, go on with `to` (new or suspended), come back at the next switch to `from`. Cannot fail. */
static inline void switch_to(Scheduler *scheduler, Tasklet *from, Tasklet *to);
/* Just before the tasklet's function is called: its context is entered. -1 with an exception set. */
static inline int switch_body_begin(Scheduler *scheduler, Tasklet *tasklet);
/* The tasklet's function has returned; its context and exception state are let go. May run Python code. */
static void switch_body_done(Scheduler *scheduler);
/* The context that the tasklet is in, or will start in; an empty one is made when it has none yet. A new reference, or
   NULL with an exception set. */
static PyObject *switch_context(Tasklet *tasklet);
/* Put `context` (borrowed) in its place. -1 with an exception set. */
static int switch_set_context(Tasklet *tasklet, PyObject *context);
/* Of a started tasklet: how many Python calls deep it is; and how many C calls stand between its frames, -1: unknown. */
static int switch_depth(Tasklet *tasklet);
static int switch_nesting(Tasklet *tasklet);
/* The innermost frame of a started tasklet that is not running: a new reference, None, or NULL with an exception. */
static PyObject *switch_frame(Tasklet *tasklet);
/* See `frames` in api.h. */
static int switch_frames(Tasklet *tasklet, RoamletFrameVisit each, void *arg);
/* The context of a suspended tasklet, and the exception that its outermost frames handle: borrowed, NULL for none. */
static void switch_saved(Tasklet *tasklet, PyObject **context, PyObject **handled);
/* See `silence` in api.h. */
static void switch_silence(Tasklet *tasklet);
/* See `operands` in api.h. */
static bool switch_operands(PyCodeObject *code, Py_ssize_t unit, int *depth, int *below);
/* Visit what the backend holds for a tasklet; with `frames` also what its suspended frames own, if the backend sees them. */
static int switch_traverse(Tasklet *tasklet, bool frames, visitproc visit, void *arg);

/* Visit what the frames of a suspended tasklet refer to in variables and operands, frame by frame from the innermost, in the order
   of their slots; what they only borrow too, so it is no use for a collector. Nothing where they are not to be seen. */
static int switch_slots(Tasklet *tasklet, visitproc visit, void *arg);
/* What tells the collector that the call with this return address is FOR_ITER's; NULL for any other. */
static PyObject *const *switch_iterated(const void *site);
/* Free what a tasklet that is not started holds. */
static inline void switch_free(Tasklet *tasklet);
/* A tasklet that is not started may begin a new life, in another thread perhaps: forget what is left of one whose frames are lost. Runs no
   Python code. */
static inline void switch_renew(Tasklet *tasklet);

/* Above the seam: whether the context is inside Context.run(), which must find it in place when it ends: 0, or -1 with an
   exception set. */
static int context_entered(PyObject *context);
/* Above the seam: run `tasklet` from its first instruction to its end. Returns the tasklet to go on with, which is
   current already. Switches; runs Python code. */
static Tasklet *tasklet_main(Scheduler *scheduler, Tasklet *tasklet);

#endif
