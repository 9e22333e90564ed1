/* How many operands a suspended frame has on its stack, worked out from the bytecode: the eval loop of 3.11 to 3.13 keeps the stack
   pointer in a register while an instruction calls C; and on any version it says whether a frame that was saved fits its code, and
   which of its operands belong to the instruction that it executes. Nothing here runs Python code. */
#ifndef ROAMLET_CPYTHON_BYTECODE_H
#define ROAMLET_CPYTHON_BYTECODE_H

#include "instructions.h"

/* What is known of one code unit. `depth`: operands before its instruction, -1: unreachable or no instruction. `below`: of
   those, how many the instruction leaves alone from its beginning to its end, -1 where that is not known. */
typedef struct {
    int16_t depth, below;
    enum { PLACE_OTHER, PLACE_CALL, PLACE_CALL_NAMES, PLACE_FOR_ITER, PLACE_SEND } kind;
} Place;

typedef struct {
    Py_ssize_t units; /* 0: the code was not understood */
    Place places[];
} Places;

typedef struct {
    const uint8_t *code; /* without specialisation and instrumentation */
    Py_ssize_t units;
    int limit; /* of the stack's depth */
    Place *places;
    Py_ssize_t *todo;
    Py_ssize_t count;
} Analysis;

/* The instruction at `unit` begins at `depth`. False when that cannot be. */
static bool
analysis_reach(Analysis *analysis, Py_ssize_t unit, int depth)
{
    if (unit < 0 || unit >= analysis->units || depth < 0 || depth > analysis->limit)
        return false;
    if (analysis->places[unit].depth >= 0)
        return analysis->places[unit].depth == depth;
    analysis->places[unit].depth = (int16_t)depth;
    analysis->todo[analysis->count++] = unit;
    return true;
}

/* Whether the instruction calls with positional arguments alone, or on 3.11 prepares that. */
static inline bool
instruction_calls(int opcode)
{
#ifdef PRECALL
    if (opcode == PRECALL)
        return true;
#endif
    return opcode == CALL;
}

/* Follow the instruction at `unit`, whose depth is known, to those that can come next. */
static bool
analysis_step(Analysis *analysis, Py_ssize_t unit)
{
    int opcode, oparg, depth = analysis->places[unit].depth, takes, effect;
    Py_ssize_t target;
    Decoded read;
    Place *place;
    if (!instruction_decode(analysis->code, analysis->units, unit, &read))
        return false;
    opcode = read.opcode;
    oparg = read.oparg;
    place = &analysis->places[read.own];
    place->depth = (int16_t)depth;
    takes = instruction_takes(opcode, oparg);
    place->below = (int16_t)(takes < 0 || takes > depth ? -1 : depth - takes);
    if (opcode == FOR_ITER)
        place->kind = PLACE_FOR_ITER;
    else if (opcode == SEND)
        place->kind = PLACE_SEND;
    else if (instruction_calls(opcode))
        place->kind = PLACE_CALL;
#ifdef CALL_KW
    else if (opcode == CALL_KW)
        place->kind = PLACE_CALL_NAMES;
#endif
    if ((target = instruction_target(&read)) >= 0) {
        effect = instruction_effect(opcode, oparg, true);
        if (effect == INT_MAX || !analysis_reach(analysis, target, depth + effect))
            return false;
    }
    if (!instruction_falls_through(opcode))
        return true;
    effect = instruction_effect(opcode, oparg, false);
    return effect != INT_MAX && analysis_reach(analysis, read.next, depth + effect);
}

/* Every handler begins with what its entry of the exception table says. */
static bool
analysis_handlers(Analysis *analysis, PyObject *table)
{
    const uint8_t *at = (const uint8_t *)PyBytes_AS_STRING(table), *end = at + PyBytes_GET_SIZE(table);
    while (at < end) {
        TableEntry entry = table_entry(&at, end);
        if (!analysis_reach(analysis, entry.target, (entry.depth >> 1) + (entry.depth & 1) + 1))
            return false;
    }
    return true;
}

/* Work out the depth at each instruction of the code. False when anything in it is not as expected. */
static bool
analysis_run(Analysis *analysis, PyCodeObject *code)
{
    bool generator = (code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) != 0;
    /* Where RETURN_GENERATOR is counted as pushing nothing, the compiler starts generators one higher. */
    int start = generator && PyCompile_OpcodeStackEffectWithJump(RETURN_GENERATOR, 0, 0) == 0;
    if (!analysis_reach(analysis, 0, start) || !analysis_handlers(analysis, code->co_exceptiontable))
        return false;
    while (analysis->count > 0)
        if (!analysis_step(analysis, analysis->todo[--analysis->count]))
            return false;
    return true;
}

/* The places of a code object, from malloc; NULL when memory is out. */
static Places *
places_make(PyCodeObject *code)
{
    PyObject *bytes = PyCode_GetCode(code);
    Py_ssize_t units = bytes != NULL ? PyBytes_GET_SIZE(bytes) / 2 : 0;
    Places *places = malloc(offsetof(Places, places) + (size_t)units * sizeof(Place));
    Py_ssize_t *todo = malloc((size_t)units * sizeof *todo);
    if (bytes == NULL)
        PyErr_Clear();
    else if (places != NULL && todo != NULL) {
        Analysis analysis = {.code = (const uint8_t *)PyBytes_AS_STRING(bytes), .units = units, .limit = code->co_stacksize,
                             .places = places->places, .todo = todo};
        for (Py_ssize_t i = 0; i < units; i++)
            places->places[i] = (Place){-1, -1, PLACE_OTHER};
        places->units = code->co_stacksize <= INT16_MAX && analysis_run(&analysis, code) ? units : 0;
        if (places->units == 0) { /* remember just that */
            Places *less = realloc(places, sizeof *places);
            places = less != NULL ? less : places;
        }
    }
    free(todo);
    Py_XDECREF(bytes);
    return places;
}

static Py_ssize_t places_index = -1; /* of the places in a code object's extra data */

/* What is known of the unit of the code; NULL: nothing. The first question about a code object analyses it; the answer is
   kept with it and goes with it. */
static const Place *
code_place(PyCodeObject *code, Py_ssize_t unit)
{
    void *extra = NULL;
    Places *places;
    if (places_index < 0 && (places_index = PyUnstable_Eval_RequestCodeExtraIndex(free)) < 0)
        return NULL;
    if (PyUnstable_Code_GetExtra((PyObject *)code, places_index, &extra) < 0) {
        PyErr_Clear();
        return NULL;
    }
    places = extra;
    if (places == NULL) {
        if ((places = places_make(code)) == NULL)
            return NULL;
        if (PyUnstable_Code_SetExtra((PyObject *)code, places_index, places) < 0) {
            PyErr_Clear();
            free(places);
            return NULL;
        }
    }
    return unit >= 0 && unit < places->units && places->places[unit].depth >= 0 ? &places->places[unit] : NULL;
}

#endif
