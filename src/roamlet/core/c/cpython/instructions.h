/* What each instruction of the compiler's does to the operand stack, and where the next one is: for all versions, by the names that opcode.h
   has in each. Opcodes are those without specialisation and instrumentation. Nothing here runs Python code. */
#ifndef ROAMLET_CPYTHON_INSTRUCTIONS_H
#define ROAMLET_CPYTHON_INSTRUCTIONS_H

#include <limits.h>
#include <opcode.h>

/* Whether GET_ITER leaves two operands: what a loop or `yield from` goes through, and a slot that is empty, or has the number of
   the next item where that needs no iterator. */
#ifndef LOOPS_HAVE_INDEX
#define LOOPS_HAVE_INDEX 0
#endif

/* How many operands an instruction takes off the stack or changes, from its first effect until the next instruction is
   noted in the frame; -1 where operands below may change hands as well, or where it has not been looked up.

   Left out on purpose: STORE_FAST, which 3.11 and 3.12 run together with the next instruction; RERAISE and
   RAISE_VARARGS, which drop operands without a traceback entry; all that cannot run foreign code. */
static inline int
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
    case STORE_ATTR:
        return 2;
    case SEND:
        return 2 + LOOPS_HAVE_INDEX;
    case FOR_ITER:
        return 1 + LOOPS_HAVE_INDEX;
#ifdef BEFORE_WITH
    case BEFORE_ASYNC_WITH:
    case BEFORE_WITH:
#else
    case LOAD_SPECIAL:
#endif
    case DELETE_ATTR:
    case DICT_MERGE:
    case DICT_UPDATE:
    case GET_AITER:
    case GET_ANEXT:
    case GET_AWAITABLE:
    case GET_ITER:
    case GET_LEN:
#ifdef GET_YIELD_FROM_ITER
    case GET_YIELD_FROM_ITER:
#endif
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
static inline int
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

/* Whether the next instruction is reached through it. */
static inline bool
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

/* Whether it is one of those that cannot raise, unless a tool that is told of events does. */
static inline bool
instruction_never_raises(int opcode)
{
    switch (opcode) {
    case LOAD_CONST:
    case RETURN_VALUE:
#ifdef LOAD_COMMON_CONSTANT
    case LOAD_COMMON_CONSTANT:
#endif
        return true;
    default:
        return false;
    }
}

/* What the instruction does to the depth; INT_MAX when it is not known. */
static inline int
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

/* A number of an exception table, INT_MAX when it is larger than the compiler's can be; `*at` moves on. */
static inline int
table_number(const uint8_t **at, const uint8_t *end)
{
    int value = 0;
    while (*at < end) {
        uint8_t byte = *(*at)++;
        value = value > INT_MAX >> 6 ? INT_MAX : value << 6 | (byte & 63);
        if ((byte & 64) == 0)
            break;
    }
    return value;
}

/* An entry of an exception table: an exception between the units `start` and `end` goes to the handler at `target`, with the operands
   below `depth >> 1`; `depth & 1`: and where it was raised. */
typedef struct {
    int start, target, depth;
    Py_ssize_t end;
} TableEntry;

/* Read an entry; `*at` moves on. */
static inline TableEntry
table_entry(const uint8_t **at, const uint8_t *end)
{
    TableEntry entry = {.start = table_number(at, end)};
    entry.end = (Py_ssize_t)entry.start + table_number(at, end);
    entry.target = table_number(at, end);
    entry.depth = table_number(at, end);
    return entry;
}

/* Whether the bytes are whole entries, each marked in its first byte alone: the interpreter reads on until it has four numbers, and looks
   for the mark when it searches. */
static inline bool
table_is_whole(const uint8_t *at, const uint8_t *end)
{
    while (at < end)
        for (int number = 0; number < 4; number++) {
            bool more = true;
            for (int length = 0; more; at++, length++) {
                if (at >= end || ((*at & 128) != 0) != (number == 0 && length == 0))
                    return false;
                more = (*at & 64) != 0;
            }
        }
    return true;
}

/* An instruction of the compiler's: `own` is its unit after its EXTENDED_ARGs, `next` the one after its inline caches. */
typedef struct {
    int opcode, oparg;
    Py_ssize_t own, next;
} Decoded;

/* Read the instruction that begins at `unit`, which may be an EXTENDED_ARG. False when no whole instruction begins there. */
static inline bool
instruction_decode(const uint8_t *code, Py_ssize_t units, Py_ssize_t unit, Decoded *found)
{
    int opcode = CACHE, oparg = 0;
    while (unit < units && (opcode = code[2 * unit]) == EXTENDED_ARG) {
        oparg |= code[2 * unit + 1];
        if (++unit >= units || oparg > 0xffff) /* shifted further, it could become negative */
            return false;
        oparg <<= 8;
    }
    if (unit >= units || opcode == CACHE)
        return false;
    *found = (Decoded){.opcode = opcode, .oparg = oparg | code[2 * unit + 1], .own = unit, .next = unit + 1};
    while (found->next < units && code[2 * found->next] == CACHE)
        found->next++;
    return true;
}

/* Where it jumps to, which may be outside of the code; -1: it does not jump. */
static inline Py_ssize_t
instruction_target(const Decoded *instruction)
{
    int direction = instruction_jumps(instruction->opcode);
    Py_ssize_t target = instruction->next + direction * (Py_ssize_t)instruction->oparg;
    return direction == 0 ? -1 : target >= 0 ? target : PY_SSIZE_T_MAX;
}

#endif
