/* Kinds: what a slot of a frame, a variable or an operand, is known to hold when the interpreter reaches an instruction. The interpreter
   trusts its slots: it does not check that a loop's operand is an iterator, nor that a slot holds anything at all. steps.h says what
   each instruction does to the kinds; follow.h applies that to a whole code object, as a bytecode verifier does.
   Nothing here runs Python code. */
#ifndef ROAMLET_CPYTHON_KINDS_H
#define ROAMLET_CPYTHON_KINDS_H

#include <opcode.h>

/* What a slot has: one of these, and in the bits above KIND_BITS what is said there. */
typedef uint32_t Kind;

enum {
    KIND_ANY,               /* something or nothing */
    KIND_EMPTY,             /* nothing; of a variable: nothing that the code counts on */
    KIND_VALUE,             /* some object */
    KIND_ITERATOR,          /* below an index: or something that the index numbers the items of */
    KIND_INDEX,             /* of the item that comes next of what is below: a number, or nothing where that is an iterator */
    KIND_GENERATOR,         /* of a generator expression that only this code has: `all()`, `any()` and `tuple()` go through it in line */
    KIND_LEFTOVER,          /* an index that was moved away from there */
    KIND_ITEMS,             /* what a comprehension was given to go through: an iterator, or an asynchronous one */
    KIND_LIST,
    KIND_EXCEPTIONS,        /* a list of exceptions and None: what an `except*` collects */
    KIND_SET,
    KIND_DICT,
    KIND_TUPLE,             /* of so many items */
    KIND_CELLS,             /* a tuple of so many cells */
    KIND_CONSTANT,          /* that of this number */
    KIND_FUNCTION,          /* of the code that is the constant of this number */
    KIND_CELL,
    KIND_EXCEPTION,
    KIND_EXCEPTION_OR_NONE,
    KIND_LASTI,             /* where an exception was raised */
};

#define KIND_BITS 5
#define KIND_MANY ((1u << (32 - KIND_BITS)) - 1) /* of a tuple: of any number */

static inline Kind
kind_with(int kind, size_t more)
{
    return (Kind)kind | (Kind)more << KIND_BITS;
}

static inline int
kind_is(Kind kind)
{
    return (int)(kind & ((1u << KIND_BITS) - 1));
}

static inline size_t
kind_more(Kind kind)
{
    return kind >> KIND_BITS;
}

/* Up to 3.11 a variable without a value is noticed where it is read, and a trace function may delete one. */
#ifdef LOAD_FAST_CHECK
#define KIND_ASSIGNED KIND_VALUE
#else
#define KIND_ASSIGNED KIND_ANY
#endif

/* The slots while the code is followed. */
typedef struct {
    PyCodeObject *code;
    Kind *slots;         /* variables, then operands */
    int variables, width; /* how many there are of the former, and of both at most */
    int count;           /* in use now */
    int keywords;        /* how many names KW_NAMES has set for the call that follows; 0 elsewhere */
    bool copied;         /* the instruction before was COPY 1 */
    bool goes_through;   /* a FOR_ITER takes KIND_ITEMS */
} Slots;

/* The constant of this number; NULL: there are fewer. Borrowed. */
static inline PyObject *
kinds_constant(PyCodeObject *code, size_t number)
{
    return number < (size_t)PyTuple_GET_SIZE(code->co_consts) ? PyTuple_GET_ITEM(code->co_consts, number) : NULL;
}

/* Whether it is a constant of the type. */
static inline bool
kind_is_constant(const Slots *now, Kind kind, PyTypeObject *type)
{
    return kind_is(kind) == KIND_CONSTANT && Py_IS_TYPE(kinds_constant(now->code, kind_more(kind)), type);
}

static inline bool
kind_is_tuple(const Slots *now, Kind kind)
{
    return kind_is(kind) == KIND_TUPLE || kind_is(kind) == KIND_CELLS || kind_is_constant(now, kind, &PyTuple_Type);
}

static inline bool
kind_is_filled(Kind kind)
{
    return kind_is(kind) != KIND_ANY && kind_is(kind) != KIND_EMPTY && kind_is(kind) != KIND_INDEX && kind_is(kind) != KIND_LEFTOVER;
}

static inline bool
kind_may_be_exception(const Slots *now, Kind kind)
{
    return kind_is(kind) == KIND_EXCEPTION || kind_is(kind) == KIND_EXCEPTION_OR_NONE || kind_is_constant(now, kind, Py_TYPE(Py_None));
}

/* Whether an index may be there, or nothing. */
static inline bool
kind_is_index(Kind kind)
{
    return kind_is(kind) == KIND_INDEX || kind_is(kind) == KIND_LEFTOVER;
}

/* Whether an index belongs there to what is below, or nothing is there. */
static inline bool
kind_is_index_or_empty(Kind kind)
{
    return kind_is(kind) == KIND_INDEX || kind_is(kind) == KIND_EMPTY;
}

/* What a slot has that has this or that. */
static Kind
kind_either(const Slots *now, Kind one, Kind other)
{
    if (one == other)
        return one;
    if ((kind_is_index(one) && (kind_is_index(other) || other == KIND_EMPTY)) || (one == KIND_EMPTY && kind_is_index(other)))
        return KIND_LEFTOVER;
    if (!kind_is_filled(one) || !kind_is_filled(other))
        return KIND_ANY;
    if (kind_is_tuple(now, one) && kind_is_tuple(now, other))
        return kind_with(KIND_TUPLE, KIND_MANY);
    if (kind_may_be_exception(now, one) && kind_may_be_exception(now, other))
        return KIND_EXCEPTION_OR_NONE;
    return KIND_VALUE;
}

/* The operand at this place from the top, which is 1; KIND_ANY beyond the operands. */
static inline Kind
kinds_top(const Slots *now, int place)
{
    return place >= 1 && place <= now->count - now->variables ? now->slots[now->count - place] : KIND_ANY;
}

static inline bool
kinds_push(Slots *now, Kind kind)
{
    if (now->count >= now->width)
        return false;
    now->slots[now->count++] = kind;
    return true;
}

/* Take operands off, each of which has to be something. */
static bool
kinds_pop(Slots *now, int count)
{
    if (count < 0 || count > now->count - now->variables)
        return false;
    for (int i = 0; i < count; i++)
        if (!kind_is_filled(now->slots[--now->count]))
            return false;
    return true;
}

/* The operand at this place from the top is about to move: an index above it does not belong to what comes there, nor does what is below an
   index to nothing. */
static inline void
kinds_part(Slots *now, int place)
{
    if (kind_is(kinds_top(now, place - 1)) == KIND_INDEX)
        now->slots[now->count - place + 1] = KIND_LEFTOVER;
    if (kind_is(kinds_top(now, place)) == KIND_INDEX) {
        now->slots[now->count - place] = KIND_LEFTOVER;
        now->slots[now->count - place - 1] = KIND_VALUE;
    }
}

/* Take off what a loop or `yield from` goes through, and the index above it; `above`: and so many operands above that. */
static inline bool
kinds_pop_loop(Slots *now, int above)
{
    if (!kinds_pop(now, above))
        return false;
#if LOOPS_HAVE_INDEX
    if (kind_is_filled(kinds_top(now, 1)) || kind_is(kinds_top(now, 1)) == KIND_ANY)
        return false;
    now->count--;
#endif
    return kinds_pop(now, 1);
}

/* Push what a variable has. */
static bool
kinds_load(Slots *now, int number)
{
    Kind kind;
    if (number >= now->variables)
        return false;
    kind = now->slots[number];
#ifdef LOAD_FAST_CHECK
    return kind_is_filled(kind) && kinds_push(now, kind);
#else
    return kinds_push(now, kind_is_filled(kind) ? kind : KIND_VALUE);
#endif
}

/* Give a variable what is on top; that may be nothing, where it had nothing before a comprehension that is part of this code. What a
   debugger may give it in its place is not told by its kind. */
static bool
kinds_store(Slots *now, int number)
{
    Kind kind = kinds_top(now, 1);
    if (number >= now->variables || now->count <= now->variables || kind_is_index(kind))
        return false;
    now->count--;
    now->slots[number] = !kind_is_filled(kind) || kind_is(kind) == KIND_CELL ? kind : KIND_ASSIGNED;
    return true;
}

static bool
kinds_set_variable(Slots *now, int number, Kind kind)
{
    if (number >= now->variables)
        return false;
    now->slots[number] = kind;
    return true;
}

static inline bool
kinds_has_cell(const Slots *now, int number)
{
    return number < now->variables && kind_is(now->slots[number]) == KIND_CELL;
}

#endif
