/* The form of the tables by which another process finds what this one's tasklets do: `roamlet ps` reads them, and what they point to,
   with process_vm_readv or from a core file, while nothing runs here. Each extension module exports one as the symbol roamlet_layout.

   A table says by itself what it says, numbers and addresses by their names, so that a reader of another version of roamlet, or for
   another version of CPython, takes what it knows. Nothing in this process reads it, and no code path of a switch knows of it.
   It is not const: a page of a file that was never written is left out of core files. */
#ifndef ROAMLET_LAYOUT_H
#define ROAMLET_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#define LAYOUT_MAGIC "roamlet.layout.1" /* another number for what a reader of this one would misread */

typedef struct {
    char name[24]; /* ended by a 0, as that of a LayoutAddress */
    uint64_t value;
} LayoutNumber;

typedef struct {
    char name[24];
    const void *address;
} LayoutAddress;

typedef struct {
    char magic[16];
    const void *self; /* the table's own address: it can be found without symbols, and is not mistaken for a copy */
    uint32_t size;    /* of this struct: the numbers follow it, and the addresses those */
    uint32_t python;  /* PY_VERSION_HEX that this module was built with */
    uint32_t numbers, addresses; /* how many there are */
    char part[16];    /* "core", "sync" or "io" */
    char backend[16]; /* of the core: "native" or "greenlet" */
} LayoutHead;

#define LAYOUT_AT(name, type, member) {name, offsetof(type, member)}
#define LAYOUT_COUNT(array) (uint32_t)(sizeof(array) / sizeof((array)[0]))

/* Exported although the module's other names are not, and its own even where modules share their symbols. */
#define LAYOUT_EXPORTED __attribute__((visibility("protected"), used, aligned(64)))

/* The table `roamlet_layout` of a module, from its arrays of numbers and addresses, which are initialisers in braces. */
/* NOLINTBEGIN(bugprone-macro-parentheses): no parentheses are allowed around those */
#define LAYOUT_TABLE(PART, BACKEND_NAME, NUMBERS, ADDRESSES)                                                              \
    LAYOUT_EXPORTED struct {                                                                                              \
        LayoutHead head;                                                                                                  \
        LayoutNumber numbers[sizeof((LayoutNumber[])NUMBERS) / sizeof(LayoutNumber)];                                     \
        LayoutAddress addresses[sizeof((LayoutAddress[])ADDRESSES) / sizeof(LayoutAddress)];                              \
    } roamlet_layout = {                                                                                                  \
        .head = {.magic = LAYOUT_MAGIC,                                                                                   \
                 .self = &roamlet_layout,                                                                                 \
                 .size = sizeof(LayoutHead),                                                                              \
                 .python = PY_VERSION_HEX,                                                                                \
                 .numbers = LAYOUT_COUNT(roamlet_layout.numbers),                                                         \
                 .addresses = LAYOUT_COUNT(roamlet_layout.addresses),                                                     \
                 .part = PART,                                                                                            \
                 .backend = BACKEND_NAME},                                                                                \
        .numbers = NUMBERS,                                                                                               \
        .addresses = ADDRESSES,                                                                                           \
    }
/* NOLINTEND(bugprone-macro-parentheses) */

#endif
