/* args_table.h: how a table of options is written: the parts of a struct args_row, as
 *     {NAMES("-c", "--ctx-size"), INT(n_ctx, 0, 1 << 24), .help = "context in tokens"},
 * For the file of a table, which defines ARGS_STRUCT as the program's struct of options. */
#ifndef CORE_ARGS_TABLE_H
#define CORE_ARGS_TABLE_H

#include "core/base/args.h"

#define ARGS_AT(field) offsetof(ARGS_STRUCT, field)
#define HEADING(text) .help = text
#define NAMES(...) .names = {__VA_ARGS__}
#define FLAG(field) .kind = ARGS_IS_FLAG, .offset = ARGS_AT(field)
#define TEXT(field, what) .kind = ARGS_IS_TEXT, .arg = what, .offset = ARGS_AT(field)
#define READS(field, what) TEXT(field, what), .file = ARGS_READS
#define WRITES(field, what) TEXT(field, what), .file = ARGS_WRITES
#define STRINGS(field, what) .kind = ARGS_IS_STRINGS, .arg = what, .offset = ARGS_AT(field)
#define SEED(field) .kind = ARGS_IS_SEED, .arg = "N", .offset = ARGS_AT(field)
#define INT(field, low, high)                                                                      \
    .kind = ARGS_IS_INT, .arg = "N", .offset = ARGS_AT(field), .lo = low, .hi = high
#define REAL(field, low, high)                                                                     \
    .kind = ARGS_IS_REAL, .arg = "X", .offset = ARGS_AT(field), .lo = low, .hi = high
#define INTS(field, low, high)                                                                     \
    .kind = ARGS_IS_INTS, .arg = "N,..", .offset = ARGS_AT(field), .lo = low, .hi = high
#define TEXTS(field, what) .kind = ARGS_IS_TEXTS, .arg = what, .offset = ARGS_AT(field)
#define VALUES(...)                                                                                \
    .allowed = (const char *const[]) { __VA_ARGS__, NULL }
#define OFFERS(...)                                                                                \
    .offered = (const char *const[]) { __VA_ARGS__, NULL }
#define MODE(m) (1u << (m))
#define DECIDES(what) .decides = what
#define DECIDES_NOTHING .decides = ""

/* The options of every program; `field` is a struct args_common. */
#define ARGS_COMMON_ROWS(field, of_version)                                                        \
    {NAMES("--version"), FLAG(field.version), .help = of_version},                                 \
        {NAMES("-h", "--help", "--usage"), FLAG(field.help), .help = "this text"},                 \
        {NAMES("--print-man"), FLAG(field.man)},                                                   \
    {                                                                                              \
        NAMES("--print-completion"), TEXT(field.completion, "SHELL"), VALUES("bash", "zsh")        \
    }

#endif
