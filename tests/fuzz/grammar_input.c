#include "tests/fuzz/grammar_input.h"

#include "tests/fuzz/byte_vocab.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Every byte, and texts of several. */
static const char *const texts[] = {"{\"", "\":", "\"}", "}}", "],", "\"a", "true",     "12",  "ab",
                                    "aab", "\\u", "  ",  "00", "bc", "a\"", "\xc3\xa9", "\xa9"};
enum { N_TOKENS = 256 + sizeof texts / sizeof *texts };

static struct vocab *vocab_of_bytes(void) { return byte_vocab(texts, N_TOKENS - 256); }

static double processor_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* An error says something, in one line. */
static const char *wrong_error(const struct err *e)
{
    size_t n = strnlen(e->msg, sizeof e->msg);
    if (n == 0 || n == sizeof e->msg) return "an error without a message";
    if (strchr(e->msg, '\n')) return "an error of several lines";
    return NULL;
}

/* Tokens by the masks, as PICK [n] says. */
static const char *walk(struct grammar_cursor *c, const uint8_t *pick, size_t n, double *slowest)
{
    uint32_t bits[(N_TOKENS + 31) / 32];
    struct err e = {0};
    for (size_t i = 0; i < GRAMMAR_INPUT_STEPS; i++) {
        int n_allowed = 0, n_found = 0, must_end = grammar_must_end(c);
        int32_t only = -1, chosen = -1, first = -1;
        double began = processor_time();
        if (grammar_mask(c, bits, &n_allowed, &only, &e)) return wrong_error(&e);
        double took = processor_time() - began;
        if (took > *slowest) *slowest = took;
        int left = n_allowed ? (n ? pick[i % n] : (int)i * 7) % n_allowed : 0;
        for (int32_t id = 0; id < N_TOKENS; id++) {
            if (!(bits[id / 32] >> id % 32 & 1)) continue;
            if (first < 0) first = id;
            if (n_found++ == left) chosen = id;
        }
        if (n_found != n_allowed) return "a mask of another number of tokens than it says";
        if (n_allowed && only != first) return "another lowest token than the mask's";
        if (must_end != (n_allowed == 0)) return "an end, and tokens; or neither";
        if (n_allowed == 0) return grammar_may_end(c) ? NULL : "a dead end";
        if (grammar_accept_token(c, chosen, &e) != 1) return "a token of the mask is not read";
    }
    return NULL;
}

static const char *use(struct grammar *g, const uint8_t *pick, size_t n, double *slowest)
{
    struct grammar_cursor *c;
    struct err e = {0};
    if (grammar_cursor_open(&c, g, &e)) return wrong_error(&e);
    const char *why = walk(c, pick, n, slowest);
    grammar_cursor_reset(c);
    for (size_t i = 0; i < n && i < 2000 && !why; i++) {
        int rc = grammar_accept(c, (const char *)pick + i, 1, &e);
        if (rc < 0) why = wrong_error(&e);
        if (rc != 1) break;
    }
    grammar_cursor_close(c);
    return why;
}

int grammar_input_try(const uint8_t *data, size_t n, struct grammar_cost *cost, const char **why)
{
    static const enum grammar_kind kinds[] = {GRAMMAR_SCHEMA, GRAMMAR_REGEX, GRAMMAR_GBNF,
                                              GRAMMAR_SCHEMA};
    struct grammar *g = NULL;
    struct err e = {0};
    *cost = (struct grammar_cost){0};
    *why = NULL;
    if (n == 0) return 0;
    const uint8_t *text = data + 1, *end = memchr(text, 255, n - 1);
    size_t bytes = end ? (size_t)(end - text) : n - 1, rest = end ? n - 2 - bytes : 0;
    char *own = malloc(bytes + 1); /* of its length, so that a read beyond it is found */
    if (!own) abort();
    own = realloc(own, bytes ? bytes : 1);
    memcpy(own, text, bytes);
    const struct grammar_spec spec = {.kind = kinds[data[0] & 3],
                                      .text = own,
                                      .bytes = bytes,
                                      .order = (data[0] >> 2 & 3) % 3,
                                      .space = (data[0] >> 4 & 3) % 3};
    double began = processor_time();
    cost->is_served = grammar_open(&g, &spec, vocab_of_bytes(), &e) == 0;
    cost->open = processor_time() - began;
    if (cost->is_served) {
        *why = use(g, end ? end + 1 : NULL, rest, &cost->step);
        grammar_close(g);
    } else {
        *why = wrong_error(&e);
        if (err_is_memory(&e)) *why = "more memory than there is";
        memcpy(cost->refusal, e.msg, sizeof cost->refusal);
    }
    free(own);
    return *why ? -1 : 0;
}
