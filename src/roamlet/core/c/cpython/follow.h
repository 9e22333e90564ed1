/* Following a code object from its beginning, and what a frame has in its slots where it can be. steps.h describes the
   instructions. Nothing here runs Python code. */
#ifndef ROAMLET_CPYTHON_FOLLOW_H
#define ROAMLET_CPYTHON_FOLLOW_H

#include "steps.h"

static inline bool
code_is_generator(PyCodeObject *code)
{
    return (code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) != 0;
}

/* How a frame is at an instruction. */
enum {
    STANDS_BEFORE, /* this instruction */
    STANDS_WITHIN, /* one that has its operands and whose result, a value, is still to come */
    STANDS_YIELDED /* a generator's: to be sent a value */
};

/* Where a frame was found to be. */
typedef struct {
    Decoded instruction;
    Py_ssize_t goes_on; /* at this unit */
} Standing;

/* Where control may come together: the slots before the instruction that begins there. */
typedef struct {
    Py_ssize_t unit;
    int count;        /* -1: it was not reached */
    bool waits;       /* to be followed from here */
} Join;

typedef struct {
    Py_ssize_t units;   /* 0: the code was not understood */
    Py_ssize_t begins;  /* the unit of its RETURN_GENERATOR; -1: it has none */
    int variables, width;
    bool goes_through;
    bool kept;          /* with the code */
    int count;          /* of joins, in their order */
    Join *joins;        /* in the same memory, like their slots: `width` for each */
    Kind *slots;
    struct {            /* the place that was asked for last: most frames of a deep chain are in one */
        int how, offset;
        Py_ssize_t unit;
        Slots now;      /* count -1: there is no such place */
        Standing standing;
    } last;
} Kinds;

typedef struct {
    Kinds *kinds;
    PyCodeObject *code;
    const uint8_t *bytes; /* without specialisation and instrumentation */
    Py_ssize_t units;
    int32_t *joins;       /* by unit: the number of the join there; -1: none */
    int32_t *handlers;    /* by unit: the offset of its entry in the exception table; -1: it has none */
    const uint8_t *table, *table_end;
    Kind *other;          /* room for one more set of slots */
    int waiting;          /* how many joins are to be followed */
} Following;

static bool
following_join(Following *following, Py_ssize_t unit, const Slots *now, int count)
{
    Kinds *kinds = following->kinds;
    int32_t number = unit >= 0 && unit < following->units ? following->joins[unit] : -1;
    Join *join = &kinds->joins[number];
    Kind *slots = &kinds->slots[(Py_ssize_t)number * kinds->width];
    bool changed = false;
    if (number < 0)
        return false;
    if (join->count < 0) {
        memcpy(slots, now->slots, (size_t)count * sizeof *slots);
        join->count = count;
        changed = true;
    } else if (join->count != count)
        return false;
    else
        for (int i = 0; i < count; i++) {
            Kind either = kind_either(now, slots[i], now->slots[i]);
            changed |= either != slots[i];
            slots[i] = either;
        }
    if (changed && !join->waits) {
        join->waits = true;
        following->waiting++;
    }
    return true;
}

/* An exception of the instruction that begins at `unit` comes to its handler, with the operands below that. */
static bool
following_raise(Following *following, Py_ssize_t unit, const Decoded *read, const Slots *now)
{
    const uint8_t *at;
    Slots there = *now;
    TableEntry entry;
    for (Py_ssize_t part = unit + 1; part < read->next; part++) /* the interpreter asks for the unit that it has come to */
        if (following->handlers[part] != following->handlers[unit])
            return false;
    if (following->handlers[unit] < 0)
        return true;
    at = following->table + following->handlers[unit];
    entry = table_entry(&at, following->table_end);
    if (entry.depth >> 1 > now->count - now->variables) /* what a generator expression ends with is in its table, without its operands */
        return instruction_never_raises(read->opcode);
    there.slots = following->other;
    there.count = now->variables + (entry.depth >> 1);
    memcpy(there.slots, now->slots, (size_t)there.count * sizeof *there.slots);
    return ((entry.depth & 1) == 0 || kinds_push(&there, KIND_LASTI)) && kinds_push(&there, KIND_EXCEPTION) &&
           following_join(following, entry.target, &there, there.count);
}

/* Follow from this join to the next ones. */
static bool
following_from(Following *following, const Join *join, Slots *now)
{
    Kinds *kinds = following->kinds;
    Py_ssize_t unit = join->unit, target;
    Decoded read;
    memcpy(now->slots, &kinds->slots[(join - kinds->joins) * kinds->width], (size_t)join->count * sizeof *now->slots);
    now->count = join->count;
    now->copied = false;
    now->keywords = 0;
    for (;;) {
        if (!instruction_decode(following->bytes, following->units, unit, &read) || !following_raise(following, unit, &read, now) ||
            !kinds_are_met(now, read.opcode, read.oparg) || !number_fits(now->code, read.opcode, read.oparg))
            return false;
        if ((target = instruction_target(&read)) >= 0) {
            Slots there = *now;
            there.slots = following->other;
            memcpy(there.slots, now->slots, (size_t)now->count * sizeof *there.slots);
            if (!kinds_step(&there, read.opcode, read.oparg, true) || !following_join(following, target, &there, there.count))
                return false;
        }
        if (!instruction_falls_through(read.opcode))
            return true;
        if (!kinds_step(now, read.opcode, read.oparg, false) || read.next >= following->units)
            return false;
        unit = read.next;
        if (following->joins[unit] >= 0)
            return now->keywords == 0 && following_join(following, unit, now, now->count);
    }
}

/* What the variables have when the code begins, and an operand where the compiler counts one. */
static void
following_begin(const Following *following, Slots *now)
{
    PyCodeObject *code = following->code;
    int arguments = code->co_argcount + code->co_kwonlyargcount + ((code->co_flags & CO_VARARGS) != 0) + ((code->co_flags & CO_VARKEYWORDS) != 0);
    for (int number = 0; number < now->variables; number++) {
        PyObject *name = PyTuple_GET_ITEM(code->co_localsplusnames, number);
        now->slots[number] = number >= arguments ? KIND_EMPTY : KIND_ASSIGNED;
        if (number < arguments && PyUnicode_CompareWithASCIIString(name, ".0") == 0)
            now->slots[number] = KIND_ITEMS;
        else if (number < arguments && PyUnicode_CompareWithASCIIString(name, ".defaults") == 0)
            now->slots[number] = kind_with(KIND_TUPLE, KIND_MANY);
    }
    now->count = now->variables;
    if (code_is_generator(code) && PyCompile_OpcodeStackEffectWithJump(RETURN_GENERATOR, 0, 0) == 0) /* see analysis_run() */
        now->slots[now->count++] = KIND_VALUE;
}

/* Note where joins are, and which handler each unit has. How many joins; -1 where no compiler makes such code. */
static int
following_prepare(Following *following, Py_ssize_t *begins)
{
    const uint8_t *at = following->table;
    int count = 0;
    Py_ssize_t target, first = following->units, covered = 0; /* the first target; the end of the last entry of the table */
    Decoded read;
    *begins = -1;
    for (Py_ssize_t unit = 0; unit < following->units; unit++)
        following->joins[unit] = following->handlers[unit] = -1;
    following->joins[0] = 0;
    for (Py_ssize_t unit = 0; unit < following->units; unit = read.next) {
        if (!instruction_decode(following->bytes, following->units, unit, &read))
            return -1;
        if ((target = instruction_target(&read)) >= following->units)
            return -1;
        if (target >= 0) {
            following->joins[target] = 0;
            first = target < first ? target : first;
        }
        if (read.opcode == RETURN_GENERATOR) {
            if (*begins >= 0)
                return -1;
            *begins = read.own;
        } else if (read.opcode == YIELD_VALUE && (*begins < 0 || !code_is_generator(following->code)))
            return -1;
    }
    if (!table_is_whole(at, following->table_end))
        return -1;
    while (at < following->table_end) {
        int32_t offset = (int32_t)(at - following->table);
        TableEntry entry = table_entry(&at, following->table_end);
        if (entry.target >= following->units || entry.start < covered || entry.end > following->units)
            return -1; /* the interpreter takes the first entry that fits, and searches where there are many */
        following->joins[entry.target] = 0;
        first = entry.target < first ? entry.target : first;
        for (covered = entry.start; covered < entry.end; covered++)
            following->handlers[covered] = offset;
    }
    if (*begins >= 0 && (first <= *begins || !code_is_generator(following->code)))
        return -1;
    for (Py_ssize_t unit = 0; unit < following->units; unit++)
        if (following->joins[unit] == 0)
            following->joins[unit] = count++;
    return count;
}

/* Memory for what is known of a code object, from malloc; NULL when it is out. */
static Kinds *
kinds_alloc(PyCodeObject *code, int count, int width)
{
    size_t joins = (size_t)count * sizeof(Join), slots = (size_t)count * (size_t)width * sizeof(Kind);
    Kinds *kinds = malloc(sizeof *kinds + joins + slots + (size_t)width * sizeof(Kind));
    if (kinds == NULL)
        return NULL;
    *kinds = (Kinds){.count = count, .variables = code->co_nlocalsplus, .width = width, .begins = -1, .last.how = -1};
    kinds->joins = (Join *)(kinds + 1);
    kinds->slots = (Kind *)((char *)kinds->joins + joins);
    kinds->last.now.slots = (Kind *)((char *)kinds->slots + slots);
    return kinds;
}

static bool
following_all(Following *following, Slots *now)
{
    Kinds *kinds = following->kinds;
    for (Py_ssize_t unit = 0; unit < following->units; unit++)
        if (following->joins[unit] >= 0)
            kinds->joins[following->joins[unit]] = (Join){.unit = unit, .count = -1};
    following_begin(following, now);
    if (!following_join(following, 0, now, now->count))
        return false;
    while (following->waiting > 0)
        for (int number = 0; number < kinds->count; number++)
            if (kinds->joins[number].waits) {
                kinds->joins[number].waits = false;
                following->waiting--;
                if (!following_from(following, &kinds->joins[number], now))
                    return false;
            }
    return true;
}

/* What is known of a code object; NULL when memory is out. */
static Kinds *
kinds_make(PyCodeObject *code)
{
    PyObject *bytes = PyCode_GetCode(code);
    Py_ssize_t units = bytes != NULL ? PyBytes_GET_SIZE(bytes) / 2 : 0, begins = -1;
    bool usual = units > 0 && code->co_stacksize >= 0 && code->co_stacksize <= INT16_MAX;
    int count, width = usual ? code->co_nlocalsplus + code->co_stacksize + 1 : 1; /* a generator of 3.11 has one that its depth does not count */
    int32_t *notes = malloc(2 * (size_t)(units + 1) * sizeof *notes);
    Kind *room = malloc(2 * (size_t)width * sizeof *room);
    Kinds *kinds = NULL;
    if (bytes == NULL)
        PyErr_Clear();
    else if (notes != NULL && room != NULL) {
        PyObject *table = code->co_exceptiontable;
        Slots now = {.code = code, .slots = room, .variables = code->co_nlocalsplus, .width = width};
        Following following = {.code = code, .bytes = (const uint8_t *)PyBytes_AS_STRING(bytes), .units = units, .joins = notes,
                               .handlers = notes + units + 1, .table = (const uint8_t *)PyBytes_AS_STRING(table),
                               .table_end = (const uint8_t *)PyBytes_AS_STRING(table) + PyBytes_GET_SIZE(table), .other = room + width};
        count = usual ? following_prepare(&following, &begins) : -1;
        if ((kinds = following.kinds = kinds_alloc(code, count > 0 ? count : 0, width)) != NULL && count > 0 && following_all(&following, &now))
            kinds->units = units;
        if (kinds != NULL) {
            kinds->begins = begins;
            kinds->goes_through = now.goes_through;
        }
    }
    free(room);
    free(notes);
    Py_XDECREF(bytes);
    return kinds;
}

#define KINDS_KEPT 65536 /* bytes; what is known of larger code is worked out whenever it is asked for */

static Py_ssize_t kinds_index = -1; /* in a code object's extra data */

/* What is known of the code, to be given back with kinds_release(); NULL with an exception set. It is kept with the code and goes with it. */
static Kinds *
code_kinds(PyCodeObject *code)
{
    void *extra = NULL;
    Kinds *kinds;
    if (kinds_index < 0 && (kinds_index = PyUnstable_Eval_RequestCodeExtraIndex(free)) < 0) {
        PyErr_SetString(PyExc_RuntimeError, "no room is left for what extensions note of code objects");
        return NULL;
    }
    if (PyUnstable_Code_GetExtra((PyObject *)code, kinds_index, &extra) < 0)
        PyErr_Clear();
    if ((kinds = extra) != NULL)
        return kinds;
    if ((kinds = kinds_make(code)) == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    if ((size_t)kinds->count * (size_t)kinds->width * sizeof(Kind) <= KINDS_KEPT) {
        kinds->kept = PyUnstable_Code_SetExtra((PyObject *)code, kinds_index, kinds) == 0;
        if (!kinds->kept)
            PyErr_Clear(); /* memory is out */
    }
    return kinds;
}

static inline void
kinds_release(Kinds *kinds)
{
    if (!kinds->kept)
        free(kinds);
}

/* ---- where a frame can be ---- */

/* Whether a frame with this unit and offset is within the instruction, and if so where it goes on: 0 after it, 1 where it jumps to.
   -1: no. `offset` is frame_offset(). */
static int
stands_within(const Decoded *instruction, Py_ssize_t unit, int offset)
{
    bool jumps = instruction->opcode == FOR_ITER || instruction->opcode == SEND;
    Py_ssize_t behind = FRAME_KEEPS_NEXT ? instruction->next - instruction->own : 0;
    if (unit != (FRAME_KEEPS_NEXT ? instruction->own : instruction->next - 1) || !instruction_falls_through(instruction->opcode))
        return -1;
    if (offset == behind)
        return 0;
    return FRAME_HAS_OFFSET && jumps && offset == behind + instruction->oparg ? 1 : -1;
}

/* Whether a frame stands within the instruction when it has yielded in it. */
static bool
stands_yielded(const Decoded *instruction, Py_ssize_t unit)
{
    return unit == (FRAME_KEEPS_NEXT ? instruction->next : instruction->next - 1) &&
           (instruction->opcode == YIELD_VALUE || instruction->opcode == RETURN_GENERATOR);
}

/* Work out what a frame has that stands so: kinds->last, but for what it was asked. False when there is no such place. */
static bool
kinds_find(Kinds *kinds, PyCodeObject *code, const uint8_t *bytes, int how, Py_ssize_t unit, int offset)
{
    int low = 0, high = kinds->count;
    const Join *join;
    Slots *now = &kinds->last.now;
    Decoded *read = &kinds->last.standing.instruction;
    if (unit < 0 || unit >= kinds->units)
        return false;
    while (low < high) { /* the last join that is not after the unit */
        int middle = (low + high) / 2;
        if (kinds->joins[middle].unit <= unit - (how == STANDS_YIELDED && FRAME_KEEPS_NEXT))
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || (join = &kinds->joins[low - 1])->count < 0)
        return false;
    *now = (Slots){.code = code, .slots = now->slots, .variables = kinds->variables, .width = kinds->width, .count = join->count,
                   .goes_through = kinds->goes_through};
    memcpy(now->slots, &kinds->slots[(Py_ssize_t)(low - 1) * kinds->width], (size_t)join->count * sizeof *now->slots);
    for (Py_ssize_t here = join->unit; here <= unit; here = read->next) {
        int jumps = -1;
        if (!instruction_decode(bytes, kinds->units, here, read))
            return false;
        if (how == STANDS_BEFORE && here == unit) {
            kinds->last.standing.goes_on = here;
            return true;
        }
        if (how == STANDS_WITHIN)
            jumps = stands_within(read, unit, offset);
        else if (how == STANDS_YIELDED && stands_yielded(read, unit))
            jumps = 0;
        if (jumps >= 0) {
            kinds->last.standing.goes_on = jumps ? instruction_target(read) : read->next;
            return kinds_step(now, read->opcode, read->oparg, jumps);
        }
        if (!instruction_falls_through(read->opcode) || !kinds_step(now, read->opcode, read->oparg, false))
            return false;
    }
    return false;
}

/* What a frame has that stands so: good until the next question about this code. NULL when there is no such place, or memory is out. */
static const Slots *
kinds_at(Kinds *kinds, PyCodeObject *code, int how, Py_ssize_t unit, int offset, Standing *standing)
{
    if (kinds->last.how != how || kinds->last.unit != unit || kinds->last.offset != offset) {
        PyObject *bytes = PyCode_GetCode(code);
        if (bytes == NULL) {
            PyErr_Clear();
            return NULL;
        }
        kinds->last.how = how;
        kinds->last.unit = unit;
        kinds->last.offset = offset;
        if (!kinds_find(kinds, code, (const uint8_t *)PyBytes_AS_STRING(bytes), how, unit, offset))
            kinds->last.now.count = -1;
        Py_DECREF(bytes);
    }
    *standing = kinds->last.standing;
    return kinds->last.now.count >= 0 ? &kinds->last.now : NULL;
}

#endif
