/* args.h: the command line of a program, from one table of options: parsing, ranges, the modes that
 * an option belongs to, the help, the manual page and shell completion. Owns: the rules of the
 * words. Must not know: what an option does.
 *
 * A name is a whole word: never taken apart letter by letter, never abbreviated. The value is the
 * next word, or follows a long name and "="; in long names "_" is read as "-". */
#ifndef CORE_ARGS_H
#define CORE_ARGS_H

#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
    ARGS_NAMES = 6,    /* of one option */
    ARGS_ROWS = 160,   /* of a table */
    ARGS_NOTES = 32,   /* of one command line */
    ARGS_WORDS = 2,    /* that are no options */
    ARGS_LIST = 16,    /* elements of a list with commas */
    ARGS_REPEATS = 64, /* of an option that may be repeated */
};

struct args_ints {
    int n, is_default, v[ARGS_LIST];
};

struct args_texts {
    int n, is_default;
    char v[ARGS_LIST][32];
};

struct args_strings {
    int n;
    const char *v[ARGS_REPEATS];
};

/* -1 asks for one that differs from run to run: the program draws it. */
struct args_seed {
    uint64_t value;
    int is_random;
};

/* The type of an option's field, and how its value is written. */
enum args_kind {
    ARGS_IS_FLAG,    /* int; takes no value */
    ARGS_IS_INT,     /* int */
    ARGS_IS_REAL,    /* double */
    ARGS_IS_SEED,    /* struct args_seed */
    ARGS_IS_TEXT,    /* const char * */
    ARGS_IS_STRINGS, /* struct args_strings: one value each time */
    ARGS_IS_INTS,    /* struct args_ints: a list with commas; each time adds to it */
    ARGS_IS_TEXTS,   /* struct args_texts: the same */
};

/* What becomes of the file that a TEXT names. */
enum args_file { ARGS_NO_FILE, ARGS_READS, ARGS_WRITES };

/* One option, or a heading of the help, which has a help text and no names. */
struct args_row {
    const char *names[ARGS_NAMES]; /* "-n", "--predict", .. */
    const char *arg;               /* stands for the value in the help; NULL: takes none */
    const char *help;              /* NULL: the help has no such option */
    enum args_kind kind;
    size_t offset;              /* of the field in the program's struct of options */
    double lo, hi;              /* INT, REAL, INTS */
    const char *const *allowed; /* TEXT, TEXTS: NULL allows all, else NULL ends */
    const char *const *offered; /* by completion, where others are allowed, too; or NULL */
    enum args_file file;        /* TEXT: its value is the path of a file that is read or written */
    const char *beside;         /* endings of the files that come with a written one, or NULL */
    unsigned modes;             /* bits of the modes that it belongs to; 0: all */
    int chooses;                /* the mode that it chooses; 0: none */
    int group;                  /* options of one group exclude each other; 0: none */
    const char *needs;          /* names of options; without any of them it is refused; or NULL */
    const char *decides;        /* what of a run's description it decides (a batch is continued with
                                   the same one); "": nothing of an answer; NULL: not said */
};

/* Options of every program (ARGS_COMMON_ROWS in args_table.h). */
struct args_common {
    int help, version, man;
    const char *completion; /* of which shell, or NULL */
};

/* A mode of a program: what it does as a whole. Mode 0 is that of no option. */
struct args_mode {
    const char *needed; /* the option that chooses it, in "--x needs -i FILE" */
    const char *why;    /* why it excludes options: ends such a message; or NULL */
    int alone;          /* excludes nothing and needs nothing: other options have no part in it */
};

/* Options of other programs, and how the parser answers them. */
enum args_answer {
    ARGS_REFUSED,     /* wrong usage; `says` names the replacement */
    ARGS_ACCEPTED,    /* takes no value and changes nothing; `says` tells why */
    ARGS_WITH_VALUE,  /* the same, with a value */
    ARGS_WITH_SWITCH, /* the same; the next word is its value if it is on, off, auto, 0 or 1 */
};

struct args_other {
    const char *names; /* separated by blanks, also words without dashes; NULL ends the table */
    enum args_answer answer;
    const char *says;
};

struct args_program {
    const char *name;            /* "opt4gptq-run" */
    const char *purpose;         /* a phrase: the line NAME of the manual page */
    const char *const *usage;    /* command lines behind the name; NULL ends */
    const char *about;           /* text before the options, or NULL */
    const char *description;     /* the manual page's, where it says more than that; or NULL */
    const char *more;            /* text behind them, or NULL */
    const char *exits;           /* "0 ok, 1 failed, .." */
    const struct args_row *rows; /* [n_rows] */
    const struct args_other *others, *others_too; /* of two other programs, or NULL */
    const char *const *examples; /* command lines behind the name, for the manual page; NULL ends */
    const char *files, *see_also; /* of the manual page, or NULL */
    const struct args_mode *modes; /* [n_modes], or NULL: there is only one */
    int n_rows, n_modes;
    int n_words; /* most words that are no options, at most ARGS_WORDS */
};

struct args_note {
    const char *word; /* the option as given, [n] bytes */
    int n;
    const char *says;
};

/* How a command line was written. */
struct args_given {
    const char *name[ARGS_ROWS]; /* the name by which each row was given, or NULL */
    const char *word[ARGS_WORDS];
    int n_words, mode;
    struct args_note note[ARGS_NOTES]; /* accepted options that change nothing */
    int n_notes;
};

/* Sets the fields of *options, which holds the defaults, and *g. -1: wrong usage. */
int args_parse(const struct args_program *p, void *options, struct args_given *g, int argc,
               char **argv, struct err *e);
/* Whether the options given go together, by the columns modes, chooses, group and needs. */
int args_check(const struct args_program *p, const struct args_given *g, struct err *e);
/* The name by which the option with the field at `offset` was given; NULL: it was not. */
const char *args_name_given(const struct args_program *p, const struct args_given *g,
                            size_t offset);
/* The row that has this name, in any of its spellings; NULL: none. */
const struct args_row *args_find(const struct args_program *p, const char *name);
/* The first of the named options ("-a --b", separated by blanks) that was given, or NULL. */
const char *args_any_given(const struct args_program *p, const struct args_given *g,
                           const char *names);
/* One line for each note, on stderr. */
void args_say(const struct args_given *g);

/* 1 when only a text is asked for: the help, version, manual page or completion. */
int args_asks(const struct args_common *c);
/* Prints the text asked for; 0: none was, or it is the version, which is the program's. */
int args_print(const struct args_program *p, const struct args_common *c, FILE *f);
/* The commit that this program was built from, as the version says it. */
const char *args_commit(void);
/* The version, the commit with its date, the compiler. */
void args_version(const struct args_program *p, FILE *f);
/* The usage and all rows, wrapped at 80 columns on a terminal and at 100 elsewhere. */
void args_help(const struct args_program *p, FILE *f);
/* The manual page (section 1) in the macros of man(7). */
void args_man(const struct args_program *p, FILE *f);
/* A function for bash's programmable completion. */
void args_completion_bash(const struct args_program *p, FILE *f);
/* The same for zsh: the text of a file _NAME of its fpath. */
void args_completion_zsh(const struct args_program *p, FILE *f);

#endif
