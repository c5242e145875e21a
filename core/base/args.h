/* args.h: the parser of a command line and the text of --help, both driven by a program's table of
 * options. An option name is a whole word: letters are not combined, names are not abbreviated. Its
 * value is the next word, or follows a long name and "="; long names accept "_" for "-". Must not
 * know: what an option means. */
#ifndef CORE_ARGS_H
#define CORE_ARGS_H

#include "core/base/err.h"

#include <stdio.h>

enum { ARGS_NAMES = 6, ARGS_NOTES = 32 };

/* The first member of a row of a program's table. */
struct args_row {
    const char *names[ARGS_NAMES]; /* "-n", "--predict", ..; none: a heading */
    const char *arg;  /* placeholder of the value in the help; NULL: the option takes none */
    const char *help; /* NULL: left out of the help; for a heading: its text */
};

/* Options of other programs, and how the parser answers them. */
enum args_answer {
    ARGS_REFUSED,     /* wrong usage; `says` names the replacement */
    ARGS_ACCEPTED,    /* takes no value and changes nothing; `says` tells why */
    ARGS_WITH_VALUE,  /* the same, with a value */
    ARGS_WITH_SWITCH, /* the same; the next word is its value if it is on, off, auto, 0 or 1 */
};

struct args_other {
    const char *names; /* separated by blanks; NULL ends the table */
    enum args_answer answer;
    const char *says;
};

struct args_note {
    const char *word; /* the option as given, [n] bytes */
    int n;
    const char *says;
};

struct args {
    const void *rows; /* [n_rows], each of `stride` bytes, beginning with a struct args_row */
    size_t stride;
    int n_rows;
    const struct args_other *others;
    char **argv; /* [argc] */
    int argc, at, words_only;
    struct args_note note[ARGS_NOTES]; /* accepted options that change nothing */
    int n_notes;
};

struct args_word {
    int row;           /* index of the option; -1: the word is no option */
    const char *name;  /* the option's name as the table spells it */
    const char *value; /* the option's value (NULL: none), or the word itself */
};

void args_open(struct args *a, const void *rows, size_t stride, int n_rows,
               const struct args_other *others, int argc, char **argv);
/* Returns 1 with the next option or word, 0 at the end, -1 on wrong usage. */
int args_next(struct args *a, struct args_word *w, struct err *e);
/* Prints the rows, wrapped at 80 columns. */
void args_help(const void *rows, size_t stride, int n_rows, FILE *f);
/* Prints one line for each note. */
void args_say(const struct args_note *note, int n, FILE *f);

#endif
