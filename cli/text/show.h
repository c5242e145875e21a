/* show.h: an answer on its way to a person: tokens become text, stop strings end it, reasoning and
 * answer are told apart and go to stdout as they come. Owns: what is held back meanwhile, the
 * texts. Must not know: where tokens come from, prompts, conversations. */
#ifndef CLI_TEXT_SHOW_H
#define CLI_TEXT_SHOW_H

#include "cli/options.h"
#include "cli/text/out.h"
#include "core/text/reasoning.h"
#include "core/text/stop.h"
#include "core/text/tokenizer.h"

/* --reasoning. SHOW_RAW: it is not looked for. */
enum show_reasoning { SHOW_RAW, SHOW_KEEP, SHOW_HIDE, SHOW_ONLY };

struct show_how {
    const struct tokenizer *tokenizer;
    int special; /* special tokens are part of the text */
    const struct args_strings *stop;
    enum show_reasoning reasoning;
    const struct reasoning_tags *tags; /* NULL: those of most models */
    int terminal;                      /* reasoning is dimmed */
};

struct show {
    struct show_how how;
    struct tok_stream *stream;
    struct stop stop;
    struct reasoning parts;
    struct out answer, thoughts; /* the whole text, by part, without tags */
    int dim;                     /* the terminal is set to dim letters */
    int began;                   /* something of the answer was printed */
    int parted;                  /* reasoning was printed and has ended */
};

/* How --reasoning and the kind of prompt say it. */
enum show_reasoning show_reasoning_of(const struct options *o);
/* The text continues that of PROMPT's ids; TEXT [n] is that prompt as text, or NULL.
 * Zero-initialize S; show_close may be called in every case. */
int show_open(struct show *s, const struct show_how *how, const struct tok_ids *prompt,
              const char *text, size_t n, struct err *e);
void show_close(struct show *s);
/* Adds a token. 1: a stop string ended the text. */
int show_token(struct show *s, int32_t id, struct err *e);
/* Prints what was held back, unless a stop string has ended the text, and a newline. */
int show_end(struct show *s, int stopped, struct err *e);
/* Bytes to stdout, at once: as they are, but on a terminal without control characters that it
 * would obey (out_shown). */
int show_put(const char *text, size_t n, struct err *e);

#endif
