/* grammar_input.h: one stranger's grammar: opened, asked for masks, walked, closed. Owns: how an
 * input's bytes are a grammar and a walk. Must not know: where inputs come from.
 *
 * The first byte says what the text is: its lowest two bits 0 or 3 a JSON schema, 1 a regular
 * expression, 2 GBNF; bits 2 and 3 the order of members, 4 and 5 the
 * white space (3 is 0 each). The text goes up to the first byte 255;
 * behind it each byte chooses a token of a mask, and all of them are read as text, too. */
#ifndef FUZZ_GRAMMAR_INPUT_H
#define FUZZ_GRAMMAR_INPUT_H

#include <stddef.h>
#include <stdint.h>

enum { GRAMMAR_INPUT_SCHEMA = '0', GRAMMAR_INPUT_REGEX = '1', GRAMMAR_INPUT_GBNF = '2' };
enum { GRAMMAR_INPUT_STEPS = 24 };

struct grammar_cost {
    int is_served;
    double open, step; /* seconds of processor time; the slowest mask */
    char refusal[512];
};

/* 0: all is as it should be; -1: *why says what is not. */
int grammar_input_try(const uint8_t *data, size_t n, struct grammar_cost *cost, const char **why);

#endif
