/* What each instruction requires of the slots and does to them, by the names that opcode.h has in each version. Code with an instruction
   that is described neither here nor in instructions.h is not understood at all. The table of instructions is one concept, and is why
   this file is long. Nothing here runs Python code. */
#ifndef ROAMLET_CPYTHON_STEPS_H
#define ROAMLET_CPYTHON_STEPS_H

#include "instructions.h"
#include "kinds.h"

#ifdef CALL_INTRINSIC_1
#include "internal/pycore_intrinsics.h"
#endif
#ifdef LOAD_COMMON_CONSTANT
#include "internal/pycore_ceval.h"
#include "internal/pycore_opcode_utils.h"
#endif

#ifndef IMPORT_NAME_SHIFT
#define IMPORT_NAME_SHIFT 0
#endif

/* How many keywords of a call this constant names; -1: it is no tuple of names. */
static Py_ssize_t
constant_keywords(PyCodeObject *code, size_t number)
{
    PyObject *names = kinds_constant(code, number);
    if (names == NULL || !PyTuple_CheckExact(names))
        return -1;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++)
        if (!PyUnicode_CheckExact(PyTuple_GET_ITEM(names, i)))
            return -1;
    return PyTuple_GET_SIZE(names);
}

#ifdef CALL_KW
/* Whether the tuple on top with the names of a call's keywords can be that of so many arguments. */
static bool
kinds_names_keywords(const Slots *now, int arguments)
{
    Py_ssize_t keywords = kind_is(kinds_top(now, 1)) == KIND_CONSTANT ? constant_keywords(now->code, kind_more(kinds_top(now, 1))) : -1;
    return keywords >= 0 && keywords <= arguments;
}
#else
/* Note the names that KW_NAMES sets aside for the call that follows. */
static bool
kinds_set_keywords(Slots *now, int number)
{
    Py_ssize_t keywords = constant_keywords(now->code, (size_t)number);
    now->keywords = (int)keywords;
    return keywords >= 0 && keywords <= INT_MAX;
}

/* Let a call use them up. False when it has fewer arguments. */
static bool
kinds_use_keywords(Slots *now, int arguments)
{
    bool fit = now->keywords <= arguments;
    now->keywords = 0;
    return fit;
}
#endif

/* Whether what an instruction names by its number exists: the interpreter does not check this. */
static bool
number_fits(PyCodeObject *code, int opcode, int oparg)
{
    Py_ssize_t names = PyTuple_GET_SIZE(code->co_names);
    switch (opcode) {
    case LOAD_ATTR:
#ifdef LOAD_SUPER_ATTR
        return oparg >> 1 < names;
    case LOAD_SUPER_ATTR:
        return oparg >> 2 < names;
    case LOAD_FROM_DICT_OR_GLOBALS:
#else
    case LOAD_METHOD:
#endif
    case DELETE_ATTR:
    case DELETE_GLOBAL:
    case DELETE_NAME:
    case IMPORT_FROM:
    case LOAD_NAME:
    case STORE_ATTR:
    case STORE_GLOBAL:
    case STORE_NAME:
        return oparg < names;
    case IMPORT_NAME:
        return oparg >> IMPORT_NAME_SHIFT < names;
    case LOAD_GLOBAL:
        return oparg >> 1 < names;
#ifdef RETURN_CONST
    case RETURN_CONST:
        return kinds_constant(code, (size_t)oparg) != NULL;
#endif
    case BINARY_OP:
#ifdef NB_SUBSCR
        return oparg <= NB_SUBSCR;
#else
        return oparg <= NB_INPLACE_XOR;
#endif
    case COMPARE_OP:
        return oparg >> (PY_VERSION_HEX >= 0x030D0000 ? 5 : PY_VERSION_HEX >= 0x030C0000 ? 4 : 0) <= Py_GE;
#ifdef CONVERT_VALUE
    case CONVERT_VALUE:
        return oparg >= 1 && oparg <= 3;
#endif
#ifdef LOAD_COMMON_CONSTANT
    case LOAD_COMMON_CONSTANT:
        return oparg < NUM_COMMON_CONSTANTS;
    case LOAD_SPECIAL:
        return oparg <= SPECIAL_MAX;
#endif
#ifdef CALL_INTRINSIC_1
    case CALL_INTRINSIC_1:
        return oparg <= MAX_INTRINSIC_1;
    case CALL_INTRINSIC_2:
        return oparg <= MAX_INTRINSIC_2;
#endif
    default:
        return true;
    }
}

/* Whether a function of the code that is this constant can have what is at this place as its closure. */
static bool
kinds_closes(const Slots *now, size_t number, int place)
{
    PyObject *code = kinds_constant(now->code, number);
    Kind cells = kinds_top(now, place);
    return kind_is(cells) == KIND_CELLS && kind_more(cells) == (size_t)((PyCodeObject *)code)->co_nfreevars;
}

/* Whether a function can have what is at this place for the attribute of this number: 1 defaults, 2 those of keywords, 4
   annotations, 8 the closure. */
static bool
kinds_fits_function(const Slots *now, size_t code, int attribute, int place)
{
    if (attribute == 8)
        return kinds_closes(now, code, place);
    return attribute == 1 ? kind_is_tuple(now, kinds_top(now, place)) : kind_is_filled(kinds_top(now, place));
}

/* What the instruction takes for granted of operands, beyond there being something. */
static bool
kinds_are_met(Slots *now, int opcode, int oparg)
{
    Kind top = kinds_top(now, 1);
    switch (opcode) {
    case RETURN_VALUE:
        return kind_is_filled(top);
    case RAISE_VARARGS:
        return oparg <= 2 && (oparg < 1 || kind_is_filled(top)) && (oparg < 2 || kind_is_filled(kinds_top(now, 2)));
    case FOR_ITER:
#if LOOPS_HAVE_INDEX
        return kind_is(kinds_top(now, 2)) == (kind_is(top) == KIND_INDEX ? KIND_ITERATOR : KIND_GENERATOR) && kind_is_index_or_empty(top);
#else
        now->goes_through |= kind_is(top) == KIND_ITEMS;
        return kind_is(top) == KIND_ITERATOR || kind_is(top) == KIND_ITEMS || kind_is(top) == KIND_GENERATOR;
#endif
#if LOOPS_HAVE_INDEX
    case SEND:
        return kind_is_index_or_empty(kinds_top(now, 2));
#endif
    case RERAISE:
        return kind_is(top) == KIND_EXCEPTION && (oparg == 0 || kind_is(kinds_top(now, 1 + oparg)) == KIND_LASTI);
    case WITH_EXCEPT_START:
        return kind_is(top) == KIND_EXCEPTION && kind_is(kinds_top(now, 3)) == KIND_LASTI && kind_is_filled(kinds_top(now, WITH_EXCEPT_OPERANDS)) &&
               now->count - now->variables >= WITH_EXCEPT_OPERANDS;
#ifdef CLEANUP_THROW
    case CLEANUP_THROW:
#endif
    case END_ASYNC_FOR:
    case PUSH_EXC_INFO:
        return kind_is(top) == KIND_EXCEPTION;
    case POP_EXCEPT:
        return kind_may_be_exception(now, top);
    case CHECK_EXC_MATCH:
        return kind_is(kinds_top(now, 2)) == KIND_EXCEPTION;
    case CHECK_EG_MATCH:
        return kind_may_be_exception(now, kinds_top(now, 2));
    case LIST_APPEND:
        if (kind_is(kinds_top(now, oparg + 1)) == KIND_EXCEPTIONS)
            return kind_may_be_exception(now, top);
        return kind_is(kinds_top(now, oparg + 1)) == KIND_LIST;
    case LIST_EXTEND:
        return kind_is(kinds_top(now, oparg + 1)) == KIND_LIST;
    case SET_ADD:
    case SET_UPDATE:
        return kind_is(kinds_top(now, oparg + 1)) == KIND_SET;
    case MAP_ADD:
        return kind_is(kinds_top(now, oparg + 2)) == KIND_DICT;
    case DICT_MERGE:
    case DICT_UPDATE:
        return kind_is(kinds_top(now, oparg + 1)) == KIND_DICT;
    case MATCH_CLASS:
    case MATCH_KEYS:
        return kind_is_tuple(now, top);
#ifdef LIST_TO_TUPLE
    case LIST_TO_TUPLE:
        return kind_is(top) == KIND_LIST;
    case PREP_RERAISE_STAR:
        return kind_is(top) == KIND_EXCEPTIONS && kind_is(kinds_top(now, 2)) == KIND_EXCEPTION;
#else
    case CALL_INTRINSIC_1:
        return (oparg != INTRINSIC_LIST_TO_TUPLE || kind_is(top) == KIND_LIST) &&
               (oparg != INTRINSIC_STOPITERATION_ERROR || kind_is(top) == KIND_EXCEPTION);
    case CALL_INTRINSIC_2:
        if (oparg == INTRINSIC_PREP_RERAISE_STAR)
            return kind_is(top) == KIND_EXCEPTIONS && kind_is(kinds_top(now, 2)) == KIND_EXCEPTION;
        return oparg != INTRINSIC_SET_FUNCTION_TYPE_PARAMS || kind_is(kinds_top(now, 2)) == KIND_FUNCTION;
#endif
    default:
        return true;
    }
}

/* Take what a call has on the stack: `arguments` above what is called and its self, one of which may be empty. */
static bool
kinds_pop_call(Slots *now, int arguments)
{
    bool filled = kinds_pop(now, arguments) && now->count - now->variables >= 2 &&
                  kind_is_filled(kinds_top(now, CALLABLE_BELOW_SELF ? 2 : 1));
    now->count -= filled ? 2 : 0;
    return filled;
}

/* What a call with so many arguments returns. */
static inline Kind
kinds_returned(const Slots *now, int arguments)
{
    Kind called = CALLABLE_BELOW_SELF ? kinds_top(now, arguments + 2) : KIND_ANY;
    PyObject *code = kind_is(called) == KIND_FUNCTION ? kinds_constant(now->code, kind_more(called)) : NULL;
    return code != NULL && (((PyCodeObject *)code)->co_flags & CO_GENERATOR) != 0 ? KIND_GENERATOR : KIND_VALUE;
}

/* Push what is called, a method or any other attribute, and its self or nothing. */
static bool
kinds_push_method(Slots *now)
{
    return kinds_push(now, CALLABLE_BELOW_SELF ? KIND_VALUE : KIND_ANY) && kinds_push(now, CALLABLE_BELOW_SELF ? KIND_ANY : KIND_VALUE);
}

static bool
kinds_make_function(Slots *now, int oparg)
{
    Kind code = kinds_top(now, 1);
    if (!kind_is_constant(now, code, &PyCode_Type) || !kinds_pop(now, 1))
        return false;
#ifndef SET_FUNCTION_ATTRIBUTE
    for (int attribute = 8; attribute > 0; attribute >>= 1)
        if ((oparg & attribute) != 0 && !(kinds_fits_function(now, kind_more(code), attribute, 1) && kinds_pop(now, 1)))
            return false;
    if ((oparg & 8) == 0 && ((PyCodeObject *)kinds_constant(now->code, kind_more(code)))->co_nfreevars > 0)
        return false;
#else
    (void)oparg;
#endif
    return kinds_push(now, kind_with(KIND_FUNCTION, kind_more(code)));
}

static bool
kinds_build_tuple(Slots *now, int items)
{
    int cells = 0;
    for (int place = 1; place <= items; place++)
        cells += kind_is(kinds_top(now, place)) == KIND_CELL;
    return kinds_pop(now, items) && kinds_push(now, kind_with(items > 0 && cells == items ? KIND_CELLS : KIND_TUPLE, (size_t)items));
}

/* A list; an `except*` makes its own above the exception and a copy of it. */
static bool
kinds_build_list(Slots *now, int items)
{
    bool collects = items == 0 && kind_is(kinds_top(now, 1)) == KIND_EXCEPTION && kind_is(kinds_top(now, 2)) == KIND_EXCEPTION;
    return kinds_pop(now, items) && kinds_push(now, collects ? KIND_EXCEPTIONS : KIND_LIST);
}

/* Copy an operand. Later versions let an `except*` copy the exception only when its list is there. */
static bool
kinds_copy(Slots *now, int place)
{
    Kind copied = kinds_top(now, place);
    if (place == 2 && kind_is(copied) == KIND_EXCEPTION && kind_is(kinds_top(now, 1)) == KIND_LIST)
        now->slots[now->count - 1] = KIND_EXCEPTIONS;
    return kind_is_filled(copied) && kinds_push(now, copied);
}

static bool
kinds_swap(Slots *now, int place)
{
    Kind top;
    if (place < 1 || place > now->count - now->variables)
        return false;
    kinds_part(now, 1);
    kinds_part(now, place);
    top = kinds_top(now, 1);
    now->slots[now->count - 1] = now->slots[now->count - place];
    now->slots[now->count - place] = top;
    return true;
}

/* How many operands it takes that leaves some objects in their place; -1: it is not one of those. */
static int
kinds_taken(int opcode, int oparg, bool jumps)
{
    switch (opcode) {
    case COPY_FREE_VARS:
    case DELETE_GLOBAL:
    case DELETE_NAME:
    case JUMP_BACKWARD_NO_INTERRUPT:
    case JUMP_FORWARD:
    case NOP:
    case RETURN_GENERATOR:
    case SETUP_ANNOTATIONS:
    case WITH_EXCEPT_START:
#ifdef LOAD_ASSERTION_ERROR
    case LOAD_ASSERTION_ERROR:
#endif
#ifdef LOAD_COMMON_CONSTANT
    case LOAD_COMMON_CONSTANT:
    case LOAD_SMALL_INT:
#endif
#ifdef LOAD_LOCALS
    case LOAD_LOCALS:
#endif
#ifdef NOT_TAKEN
    case NOT_TAKEN:
#endif
        return 0;
#ifdef JUMP_IF_FALSE_OR_POP
    case JUMP_IF_FALSE_OR_POP:
    case JUMP_IF_TRUE_OR_POP:
        return jumps ? 0 : 1;
#endif
#ifdef POP_JUMP_FORWARD_IF_TRUE
    case ASYNC_GEN_WRAP:
    case IMPORT_STAR:
    case POP_JUMP_BACKWARD_IF_FALSE:
    case POP_JUMP_BACKWARD_IF_NONE:
    case POP_JUMP_BACKWARD_IF_NOT_NONE:
    case POP_JUMP_BACKWARD_IF_TRUE:
    case POP_JUMP_FORWARD_IF_FALSE:
    case POP_JUMP_FORWARD_IF_NONE:
    case POP_JUMP_FORWARD_IF_NOT_NONE:
    case POP_JUMP_FORWARD_IF_TRUE:
    case PRINT_EXPR:
    case UNARY_POSITIVE:
#else
    case LOAD_FROM_DICT_OR_DEREF:
    case LOAD_FROM_DICT_OR_GLOBALS:
    case POP_JUMP_IF_FALSE:
    case POP_JUMP_IF_NONE:
    case POP_JUMP_IF_NOT_NONE:
    case POP_JUMP_IF_TRUE:
#endif
    case CHECK_EXC_MATCH:
    case MATCH_MAPPING:
    case MATCH_SEQUENCE:
    case POP_EXCEPT:
    case RETURN_VALUE:
    case STORE_DEREF:
    case YIELD_VALUE:
        return 1;
#ifdef CALL_INTRINSIC_2
    case CALL_INTRINSIC_2:
#endif
#ifdef BUILD_INTERPOLATION
    case BUILD_TEMPLATE:
#endif
    case END_ASYNC_FOR:
    case IS_OP:
        return 2;
    case BUILD_SLICE:
        return oparg == 3 ? 3 : 2;
    case BUILD_STRING:
        return oparg;
#ifdef BUILD_CONST_KEY_MAP
    case BUILD_CONST_KEY_MAP:
        return oparg + 1;
#endif
#ifdef BUILD_INTERPOLATION
    case BUILD_INTERPOLATION:
        return 2 + (oparg & 1);
#endif
    default:
        (void)jumps;
        return instruction_takes(opcode, oparg);
    }
}

/* Whether the instruction goes where an operand is not None when it jumps as `jumps` says. */
static bool
kinds_is_not_none(int opcode, bool jumps)
{
    switch (opcode) {
#ifdef POP_JUMP_FORWARD_IF_TRUE
    case POP_JUMP_BACKWARD_IF_NONE:
    case POP_JUMP_FORWARD_IF_NONE:
#else
    case POP_JUMP_IF_NONE:
#endif
        return !jumps;
#ifdef POP_JUMP_FORWARD_IF_TRUE
    case POP_JUMP_BACKWARD_IF_NOT_NONE:
    case POP_JUMP_FORWARD_IF_NOT_NONE:
#else
    case POP_JUMP_IF_NOT_NONE:
#endif
        return jumps;
    default:
        return false;
    }
}

/* What an instruction does that takes some objects and leaves others: `effect` more. Of those that it leaves, `kind` is the last. */
static bool
kinds_replace(Slots *now, int taken, int effect, Kind kind)
{
    if (taken < 0 || taken + effect < 0 || !kinds_pop(now, taken))
        return false;
    for (int left = taken + effect; left > 0; left--)
        if (!kinds_push(now, left > 1 ? KIND_VALUE : kind))
            return false;
    return true;
}

/* The instructions that give or read variables. *known: it is one of them. */
static bool
kinds_of_variables(Slots *now, int opcode, int oparg, bool *known)
{
    *known = true;
    switch (opcode) {
#ifdef LOAD_FAST_CHECK
    case LOAD_FAST_CHECK:
        if (oparg < now->variables && !kind_is_filled(now->slots[oparg]))
            now->slots[oparg] = KIND_VALUE;
        return kinds_load(now, oparg);
    case LOAD_FAST_AND_CLEAR:
        return oparg < now->variables && kinds_push(now, now->slots[oparg]) && kinds_set_variable(now, oparg, KIND_EMPTY);
#endif
#ifdef LOAD_FAST_BORROW
    case LOAD_FAST_BORROW:
#endif
    case LOAD_FAST:
        return kinds_load(now, oparg);
#ifdef LOAD_FAST_LOAD_FAST
#ifdef LOAD_FAST_BORROW
    case LOAD_FAST_BORROW_LOAD_FAST_BORROW:
#endif
    case LOAD_FAST_LOAD_FAST:
        return kinds_load(now, oparg >> 4) && kinds_load(now, oparg & 15);
    case STORE_FAST_LOAD_FAST:
        return kinds_store(now, oparg >> 4) && kinds_load(now, oparg & 15);
    case STORE_FAST_STORE_FAST:
        return kinds_store(now, oparg >> 4) && kinds_store(now, oparg & 15);
#endif
    case STORE_FAST:
        return kinds_store(now, oparg);
    case DELETE_FAST:
        return kinds_set_variable(now, oparg, KIND_EMPTY);
    case MAKE_CELL:
        return kinds_set_variable(now, oparg, KIND_CELL);
    case COPY_FREE_VARS:
        if (oparg != now->code->co_nfreevars)
            return false;
        for (int number = now->variables - oparg; number < now->variables; number++)
            now->slots[number] = KIND_CELL;
        return true;
#ifdef LOAD_CLOSURE
    case LOAD_CLOSURE:
        return kinds_has_cell(now, oparg) && kinds_push(now, KIND_CELL);
#endif
#ifdef LOAD_CLASSDEREF
    case LOAD_CLASSDEREF:
#endif
    case LOAD_DEREF:
        return kinds_has_cell(now, oparg) && kinds_push(now, KIND_VALUE);
    case DELETE_DEREF:
        return kinds_has_cell(now, oparg);
    case STORE_DEREF:
#ifdef LOAD_FROM_DICT_OR_DEREF
    case LOAD_FROM_DICT_OR_DEREF:
#endif
        *known = false;
        return kinds_has_cell(now, oparg);
    default:
        *known = false;
        return true;
    }
}

#ifdef KW_NAMES
static inline bool
instruction_prepares_call(int opcode)
{
#ifdef PRECALL
    return opcode == PRECALL;
#else
    (void)opcode;
    return false;
#endif
}
#endif

/* Do to the slots what the instruction does. False when it cannot be done there, or is not known. */
static bool
kinds_step(Slots *now, int opcode, int oparg, bool jumps)
{
    int effect = instruction_effect(opcode, oparg, jumps), before = now->count;
    bool known, copied = now->copied;
    now->copied = opcode == COPY && oparg == 1;
#ifdef KW_NAMES
    if (now->keywords > 0 && opcode != CALL && !instruction_prepares_call(opcode))
        return false;
#endif
    if (effect == INT_MAX || !kinds_of_variables(now, opcode, oparg, &known))
        return false;
    if (known)
        return now->count == before + effect;
    switch (opcode) {
    case LOAD_CONST:
        return kinds_constant(now->code, (size_t)oparg) != NULL && kinds_push(now, kind_with(KIND_CONSTANT, (size_t)oparg));
    case PUSH_NULL:
        return kinds_push(now, KIND_EMPTY);
    case LOAD_GLOBAL:
        if (effect == 1)
            return kinds_push(now, KIND_VALUE);
        return kinds_push(now, CALLABLE_BELOW_SELF ? KIND_VALUE : KIND_EMPTY) && kinds_push(now, CALLABLE_BELOW_SELF ? KIND_EMPTY : KIND_VALUE);
#ifdef LOAD_SPECIAL
    case LOAD_SPECIAL:
        return kinds_pop(now, 1) && kinds_push_method(now);
#endif
#ifdef LOAD_SUPER_ATTR
    case LOAD_SUPER_ATTR:
        return kinds_pop(now, 3) && (effect == -1 ? kinds_push_method(now) : kinds_push(now, KIND_VALUE));
#endif
#ifdef LOAD_METHOD
    case LOAD_METHOD:
#endif
    case LOAD_ATTR:
        return kinds_pop(now, 1) && (effect == 1 ? kinds_push_method(now) : kinds_push(now, KIND_VALUE));
    case COPY:
        return kinds_copy(now, oparg);
    case SWAP:
        return kinds_swap(now, oparg);
#ifdef PRECALL
    case PRECALL:
        return true;
#endif
#ifdef CALL_KW
    case CALL_KW:
        return kinds_names_keywords(now, oparg) && kinds_pop(now, 1) && kinds_pop_call(now, oparg) && kinds_push(now, KIND_VALUE);
#endif
#ifdef KW_NAMES
    case KW_NAMES:
        return kinds_set_keywords(now, oparg);
    case CALL:
        return kinds_use_keywords(now, oparg) && kinds_pop_call(now, oparg) && kinds_push(now, KIND_VALUE);
#else
    case CALL: {
        Kind returned = kinds_returned(now, oparg);
        return kinds_pop_call(now, oparg) && kinds_push(now, returned);
    }
#endif
    case CALL_FUNCTION_EX:
        if (effect == -3 || (oparg & 1) != 0) { /* from 3.14 on their slot is empty where there are no keywords */
            if (kind_is(kinds_top(now, 1)) != KIND_DICT && !(PY_VERSION_HEX >= 0x030E0000 && kind_is(kinds_top(now, 1)) == KIND_EMPTY))
                return false;
            now->count--;
        }
        return kinds_pop_call(now, 1) && kinds_push(now, KIND_VALUE);
    case MAKE_FUNCTION:
        return kinds_make_function(now, oparg);
#ifdef SET_FUNCTION_ATTRIBUTE
    case SET_FUNCTION_ATTRIBUTE: {
        Kind function = kinds_top(now, 1);
        return kind_is(function) == KIND_FUNCTION && kinds_fits_function(now, kind_more(function), oparg, 2) && kinds_pop(now, 2) &&
               kinds_push(now, function);
    }
#endif
    case BUILD_TUPLE:
        return kinds_build_tuple(now, oparg);
    case BUILD_LIST:
        return kinds_build_list(now, oparg);
    case BUILD_SET:
        return kinds_replace(now, oparg, effect, KIND_SET);
#ifdef BUILD_CONST_KEY_MAP
    case BUILD_CONST_KEY_MAP:
#endif
    case BUILD_MAP:
        return kinds_replace(now, kinds_taken(opcode, oparg, jumps), effect, KIND_DICT);
    case GET_ITER:
#if LOOPS_HAVE_INDEX /* a number: of `yield from`, which can have a coroutine */
        return kinds_pop(now, 1) && kinds_push(now, oparg == 0 ? KIND_ITERATOR : KIND_VALUE) && kinds_push(now, KIND_INDEX);
#else
        return kinds_replace(now, 1, effect, KIND_ITERATOR);
#endif
    case FOR_ITER: /* where it ends, 3.11 takes the iterator off; later versions leave that to what comes there */
        if (effect < 0)
            return kinds_pop(now, 1);
        return kinds_push(now, KIND_VALUE);
    case SEND: /* where it ends, 3.11 takes the receiver off */
        return effect < 0 ? kinds_replace(now, 2, effect, KIND_VALUE) : kinds_replace(now, 1, effect, KIND_VALUE);
#ifdef END_FOR
    case END_FOR:
        return kinds_pop(now, -effect);
#endif
#ifdef POP_ITER
    case POP_ITER:
        return kinds_pop_loop(now, 0);
#endif
#ifdef END_SEND
    case END_SEND:
        return kinds_pop_loop(now, 1) && kinds_push(now, KIND_VALUE);
#endif
#ifdef CLEANUP_THROW
    case CLEANUP_THROW:
        if (!kinds_pop_loop(now, 2) || !kinds_push(now, KIND_VALUE))
            return false;
#if LOOPS_HAVE_INDEX
        return kinds_push(now, KIND_EMPTY) && kinds_push(now, KIND_VALUE);
#else
        return kinds_push(now, KIND_VALUE);
#endif
#endif
#ifdef LOAD_SPECIAL
    case POP_TOP: /* where there is nothing too: what a `with` block keeps may be a bound method alone */
        if (now->count <= now->variables)
            return false;
        kinds_part(now, 1);
        now->count--;
        return true;
#endif
#ifdef CONSTANT_NONE
    case LOAD_COMMON_CONSTANT:
        return kinds_push(now, oparg == CONSTANT_NONE ? KIND_EXCEPTION_OR_NONE : KIND_VALUE);
#endif
    case PUSH_EXC_INFO:
        return kinds_pop(now, 1) && kinds_push(now, KIND_EXCEPTION_OR_NONE) && kinds_push(now, KIND_EXCEPTION);
    case CHECK_EG_MATCH:
        return kinds_pop(now, 2) && kinds_push(now, KIND_EXCEPTION_OR_NONE) && kinds_push(now, KIND_EXCEPTION_OR_NONE);
    case DICT_MERGE:
    case DICT_UPDATE:
    case LIST_APPEND:
    case LIST_EXTEND:
    case SET_ADD:
    case SET_UPDATE:
        return kinds_pop(now, 1);
    case MAP_ADD:
        return kinds_pop(now, 2);
#ifdef LIST_TO_TUPLE
    case LIST_TO_TUPLE:
        return kinds_replace(now, 1, effect, kind_with(KIND_TUPLE, KIND_MANY));
    case PREP_RERAISE_STAR:
        return kinds_replace(now, 2, effect, KIND_EXCEPTION_OR_NONE);
#else
    case CALL_INTRINSIC_1:
        return kinds_replace(now, 1, effect,
                             oparg == INTRINSIC_LIST_TO_TUPLE ? kind_with(KIND_TUPLE, KIND_MANY)
                             : oparg == INTRINSIC_STOPITERATION_ERROR ? KIND_EXCEPTION : KIND_VALUE);
    case CALL_INTRINSIC_2:
        return kinds_replace(now, 2, effect,
                             oparg == INTRINSIC_SET_FUNCTION_TYPE_PARAMS ? kinds_top(now, 2)
                             : oparg == INTRINSIC_PREP_RERAISE_STAR ? KIND_EXCEPTION_OR_NONE : KIND_VALUE);
#endif
    default:
        if (!kinds_replace(now, kinds_taken(opcode, oparg, jumps), effect, KIND_VALUE))
            return false;
        if (copied && kinds_is_not_none(opcode, jumps) && kind_is(kinds_top(now, 1)) == KIND_EXCEPTION_OR_NONE)
            now->slots[now->count - 1] = KIND_EXCEPTION;
        return true;
    }
}

#endif
