/* What the files of roamlet.snapshot's extension share. Frames are read and built here; which versions' frames that can be is
   core/c/cpython/snapshot.h's to say, and everything about tasklets the core's, through its table of functions. */
#ifndef ROAMLET_SNAPSHOT_NATIVE_H
#define ROAMLET_SNAPSHOT_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define UNUSED __attribute__((unused))
#define unlikely(x) __builtin_expect(!!(x), 0)
#define ROAMLET_SNAPSHOT 1 /* to be compiled on versions whose frames are not known, too */

#include "api.h"
#include "arguments.h"
#include "cpython/cpython.h"
#if ROAMLET_SNAPSHOT_KNOWN
#include "cpython/follow.h"
#endif

static const RoamletAPI *api;

/* Bits of the flags of a tasklet's state, in snapshots too; state.py has the same. */
enum {
    FLAG_RAISES = 1,
    FLAG_SENDS_ERROR = 2,
    FLAG_ITERATES = 4,
    FLAG_ENDED = 8,
    FLAG_ATOMIC = 16,
    FLAG_SCHEDULED = 32,
    FLAG_HAS_VALUE = 64,
};

/* What setup() was given by roamlet.snapshot.loading.helpers. */
static PyObject *CannotSave;         /* the error of what cannot be saved */
static PyCodeObject *base_code;      /* of the outermost frame of a restored tasklet */
static PyCodeObject *bridge_code;    /* of the frame that returns into the innermost restored one */
static PyObject *initialised;        /* a function: stands for type.__call__ above __init__ */
static PyObject *partial;            /* functools.partial */
static PyTypeObject *channel_type;
static PyObject *name_init, *name_call, *name_enter, *name_exit;

#endif
