/* How many operands a suspended frame has on its stack, worked out from the bytecode: the eval loop of 3.11 to 3.13 keeps the stack
   pointer in a register while an instruction calls C; and on any version it says whether a frame that was saved fits its code, and
   which of its operands belong to the instruction that it executes. Nothing here runs Python code. */
#ifndef ROAMLET_CPYTHON_BYTECODE_H
#define ROAMLET_CPYTHON_BYTECODE_H

#include <opcode.h>

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

/* How many operands an instruction takes off the stack or changes, from its first effect until the next instruction is
   noted in the frame; -1 where operands below may change hands as well, or where it has not been looked up.

   Left out on purpose: STORE_FAST, which 3.11 and 3.12 run together with the instruction behind it; RERAISE and
   RAISE_VARARGS, which drop operands without a traceback entry; all that cannot run foreign code. */
static int
instruction_takes(int opcode, int oparg)
{
    switch (opcode) {
    case CALL:
#ifdef PRECALL
    case PRECALL:
#endif
        return oparg + 2;
#ifdef CALL_KW
    case CALL_KW:
        return oparg + 3;
#endif
    case CALL_FUNCTION_EX:
#if PY_VERSION_HEX >= 0x030E0000 /* without keywords their slot is empty */
        return 4;
#else
        return 3 + (oparg & 1);
#endif
#ifdef BINARY_SLICE
    case STORE_SLICE:
        return 4;
    case BINARY_SLICE:
#endif
#ifdef LOAD_SUPER_ATTR
    case LOAD_SUPER_ATTR:
#endif
    case MATCH_CLASS:
    case STORE_SUBSCR:
        return 3;
    case BINARY_OP:
#ifdef BINARY_SUBSCR
    case BINARY_SUBSCR:
#endif
    case COMPARE_OP:
    case CONTAINS_OP:
    case DELETE_SUBSCR:
    case IMPORT_NAME:
    case MAP_ADD:
    case MATCH_KEYS:
    case SEND:
    case STORE_ATTR:
        return 2;
#ifdef BEFORE_WITH
    case BEFORE_ASYNC_WITH:
    case BEFORE_WITH:
#else
    case LOAD_SPECIAL:
#endif
    case DELETE_ATTR:
    case DICT_MERGE:
    case DICT_UPDATE:
    case FOR_ITER:
    case GET_AITER:
    case GET_ANEXT:
    case GET_AWAITABLE:
    case GET_ITER:
    case GET_LEN:
    case GET_YIELD_FROM_ITER:
    case IMPORT_FROM:
    case LIST_APPEND:
    case LIST_EXTEND:
    case LOAD_ATTR:
    case POP_TOP:
    case SET_ADD:
    case SET_UPDATE:
    case STORE_GLOBAL:
    case STORE_NAME:
    case UNARY_INVERT:
    case UNARY_NEGATIVE:
    case UNARY_NOT:
    case UNPACK_EX:
    case UNPACK_SEQUENCE:
#ifdef LOAD_METHOD
    case LOAD_METHOD:
#endif
#ifdef TO_BOOL
    case TO_BOOL:
#endif
#ifdef CALL_INTRINSIC_1
    case CALL_INTRINSIC_1:
#endif
        return 1;
#ifdef FORMAT_VALUE
    case FORMAT_VALUE:
        return (oparg & 4) ? 2 : 1;
#else
    case FORMAT_WITH_SPEC:
        return 2;
    case FORMAT_SIMPLE:
    case CONVERT_VALUE:
        return 1;
#endif
    case BUILD_MAP:
        return 2 * oparg;
    case BUILD_SET:
        return oparg;
    case JUMP_BACKWARD:
    case LOAD_BUILD_CLASS:
    case LOAD_GLOBAL:
    case LOAD_NAME:
    case RESUME:
        return 0;
    default:
        return -1;
    }
}

/* Whether the instruction jumps, and from the end of the instruction, where to: 1 forward, -1 backward. */
static int
instruction_jumps(int opcode)
{
    switch (opcode) {
    case FOR_ITER:
    case JUMP_FORWARD:
    case SEND:
#ifdef POP_JUMP_FORWARD_IF_TRUE
    case JUMP_IF_FALSE_OR_POP:
    case JUMP_IF_TRUE_OR_POP:
    case POP_JUMP_FORWARD_IF_FALSE:
    case POP_JUMP_FORWARD_IF_NONE:
    case POP_JUMP_FORWARD_IF_NOT_NONE:
    case POP_JUMP_FORWARD_IF_TRUE:
#else
    case POP_JUMP_IF_FALSE:
    case POP_JUMP_IF_NONE:
    case POP_JUMP_IF_NOT_NONE:
    case POP_JUMP_IF_TRUE:
#endif
        return 1;
    case JUMP_BACKWARD:
    case JUMP_BACKWARD_NO_INTERRUPT:
#ifdef POP_JUMP_BACKWARD_IF_TRUE
    case POP_JUMP_BACKWARD_IF_FALSE:
    case POP_JUMP_BACKWARD_IF_NONE:
    case POP_JUMP_BACKWARD_IF_NOT_NONE:
    case POP_JUMP_BACKWARD_IF_TRUE:
#endif
        return -1;
    default:
        return 0;
    }
}

/* Whether the instruction behind it is reached through it. */
static bool
instruction_falls_through(int opcode)
{
    switch (opcode) {
    case JUMP_BACKWARD:
    case JUMP_BACKWARD_NO_INTERRUPT:
    case JUMP_FORWARD:
    case RAISE_VARARGS:
    case RERAISE:
    case RETURN_VALUE:
#ifdef RETURN_CONST
    case RETURN_CONST:
#endif
        return false;
    default:
        return true;
    }
}

/* What the instruction does to the depth; INT_MAX when it is not known. */
static int
instruction_effect(int opcode, int oparg, bool jumps)
{
#ifdef PRECALL
    /* The compiler counts the arguments as gone after PRECALL; they stay for CALL, which may be done in PRECALL's place. */
    if (opcode == PRECALL)
        return 0;
    if (opcode == CALL)
        return -(oparg + 1);
#endif
    return PyCompile_OpcodeStackEffectWithJump(opcode, oparg, jumps);
}

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

/* Follow the instruction at `unit`, whose depth is known, to those behind it. */
static bool
analysis_step(Analysis *analysis, Py_ssize_t unit)
{
    int opcode, oparg = 0, depth = analysis->places[unit].depth, takes, direction, effect;
    Py_ssize_t next;
    Place *place;
    while ((opcode = analysis->code[2 * unit]) == EXTENDED_ARG) {
        oparg = (oparg | analysis->code[2 * unit + 1]) << 8;
        if (++unit >= analysis->units || oparg > 0xffffff)
            return false;
    }
    oparg |= analysis->code[2 * unit + 1];
    place = &analysis->places[unit];
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
    for (next = unit + 1; next < analysis->units && analysis->code[2 * next] == CACHE; next++)
        ;
    if ((direction = instruction_jumps(opcode)) != 0) {
        effect = instruction_effect(opcode, oparg, true);
        if (effect == INT_MAX || !analysis_reach(analysis, next + direction * (Py_ssize_t)oparg, depth + effect))
            return false;
    }
    if (!instruction_falls_through(opcode))
        return true;
    effect = instruction_effect(opcode, oparg, false);
    return effect != INT_MAX && analysis_reach(analysis, next, depth + effect);
}

/* A number of an exception table; `*at` moves on. */
static int
table_number(const uint8_t **at, const uint8_t *end)
{
    int value = 0;
    while (*at < end) {
        uint8_t byte = *(*at)++;
        value = value << 6 | (byte & 63);
        if ((byte & 64) == 0)
            break;
    }
    return value;
}

/* Every handler begins with what its entry of the exception table says. */
static bool
analysis_handlers(Analysis *analysis, PyObject *table)
{
    const uint8_t *at = (const uint8_t *)PyBytes_AS_STRING(table), *end = at + PyBytes_GET_SIZE(table);
    while (at < end) {
        (void)table_number(&at, end); /* start */
        (void)table_number(&at, end); /* length */
        int target = table_number(&at, end), depth = table_number(&at, end);
        if (!analysis_reach(analysis, target, (depth >> 1) + (depth & 1) + 1))
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
