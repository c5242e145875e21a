/* constraint_text.h: what the options of the command line ask of answers. Owns: the text that they
 * name. Must not know: grammars' notations, records. */
#ifndef CLI_TEXT_CONSTRAINT_TEXT_H
#define CLI_TEXT_CONSTRAINT_TEXT_H

#include "cli/options.h"
#include "engine/constraint.h"

/* What an option asks for; zero-initialize. */
struct constraint_text {
    struct grammar_spec spec;
    const char *name; /* of the option; NULL: answers are free */
    char *owned;      /* the spec's text, if it is not the command line's */
};
int constraint_read(struct constraint_text *t, const struct options *o, struct err *e);
void constraint_text_close(struct constraint_text *t);

/* The grammar of one prompt or of a conversation; zero-initialize. */
struct constraint_one {
    struct constraint_text text;
    struct constraints *all;
    struct constraint *constraint;
};
/* *g is NULL when the options ask for none. */
int constraint_one_open(struct constraint_one *one, const struct options *o,
                        const struct vocabulary_source *source, struct grammar **g, struct err *e);
void constraint_one_close(struct constraint_one *one);

#endif
