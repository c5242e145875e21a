/* args.h: the words of a command line, and a program's help, both from its table of options.
 * A name is a whole word: never taken apart letter by letter, never abbreviated. The value is the
 * next word, or follows a long name and "="; in long names "_" is read as "-".
 * Must not know: what an option means. */
#ifndef CORE_ARGS_H
#define CORE_ARGS_H

#include "core/base/err.h"

#include <stdio.h>

enum { ARGS_NAMES = 6, ARGS_NOTES = 32 };

/* The first member of a row of a program's table. */
struct args_row {
    const char *names[ARGS_NAMES]; /* "-n", "--predict", ..; a heading has none */
    const char *arg;               /* stands for the value in the help; NULL: takes none */
    const char *help;              /* NULL: the help has no such option; of a heading: its text */
};

/* Names that other programs have, and what is said of them. */
enum args_answer {
    ARGS_REFUSED,     /* wrong usage; `says` is what to do instead */
    ARGS_ACCEPTED,    /* takes no value and changes nothing; `says` is why */
    ARGS_WITH_VALUE,  /* the same with a value */
    ARGS_WITH_SWITCH, /* the same, and the next word is its value if it is on, off, auto, 0, 1 */
};

struct args_other {
    const char *names; /* separated by blanks; NULL ends the table */
    enum args_answer answer;
    const char *says;
};

struct args_note {
    const char *word; /* an option as it was given: [n] */
    int n;
    const char *says;
};

struct args {
    const void *rows; /* [n_rows] each of `stride` bytes, that begin with a struct args_row */
    size_t stride;
    int n_rows;
    const struct args_other *others;
    char **argv; /* [argc] */
    int argc, at, words_only;
    struct args_note note[ARGS_NOTES]; /* accepted options that change nothing */
    int n_notes;
};

struct args_word {
    int row;           /* of the option; -1: a word that is none */
    const char *name;  /* the name that was given, as the table has it */
    const char *value; /* NULL for an option without; else the word itself */
};

void args_open(struct args *a, const void *rows, size_t stride, int n_rows,
               const struct args_other *others, int argc, char **argv);
/* 1 and the next option or word, 0 at the end, -1 on wrong usage. */
int args_next(struct args *a, struct args_word *w, struct err *e);
/* The rows, wrapped at 80 columns. */
void args_help(const void *rows, size_t stride, int n_rows, FILE *f);
/* One line for each note. */
void args_say(const struct args_note *note, int n, FILE *f);

#endif
