/* answers.c: what the parts of the programs make of a line of JSON each, for scripts/differential,
 * which compares it with other implementations. Owns: how a question and its answer are written.
 * Must not know: which answer is right.
 *
 * A question is an object whose "ask" is
 *   tokenizer   "json": text of a tokenizer.json, which later questions encode with
 *   encode      "text": {"ids", "special"} with and without what a prompt gets, {"text", "plain"}:
 *               the ids decoded, with and without special tokens
 *   decode      "ids": {"text", "plain", "streamed"}
 *   variables   "variables": what templates see from then on
 *   render      "template", "now": {"text"}
 *   grammar     "kind": schema or regex, "text", "candidates": [texts], "seed", "walks", "tokens":
 *               {"taken": [0 or 1 for each candidate], "walked": [texts at which random walks by
 *               the masks may end]}
 * What is refused gives {"error": why}. */
#include "core/base/json.h"
#include "core/base/json_long.h"
#include "core/text/jinja.h"
#include "core/text/tokenizer.h"
#include "tests/fuzz/byte_vocab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *refused(const struct err *e) { return json_pack("{s:s}", "error", e->msg); }

static const char *text_of(const json_t *q, const char *key, size_t *n)
{
    const json_t *t = json_object_get(q, key);
    *n = json_string_length(t);
    return json_is_string(t) ? json_string_value(t) : "";
}

/* ---- tokenizers */

static struct tokenizer *tokenizer;

static json_t *ask_tokenizer(const json_t *q)
{
    struct tok_source source = {0};
    struct err e;
    source.json = text_of(q, "json", &source.json_bytes);
    tok_close(tokenizer);
    tokenizer = NULL;
    if (tok_open(&tokenizer, &source, &e)) return refused(&e);
    return json_pack("{s:i}", "n", (int)tok_n_ids(tokenizer));
}

static int put_decoded(json_t *a, const char *key, const struct tok_ids *ids, int skip,
                       struct err *e)
{
    char *text;
    size_t n;
    if (tok_decode(tokenizer, ids->id, ids->n, skip, &text, &n, e)) return -1;
    json_object_set_new(a, key, json_stringn(text, n));
    free(text);
    return 0;
}

static int put_streamed(json_t *a, const struct tok_ids *ids, struct err *e)
{
    struct tok_stream *s;
    char *text = NULL;
    size_t n = 0, bytes;
    const char *piece;
    FILE *f = open_memstream(&text, &n);
    if (!f || tok_stream_open(&s, tokenizer, 0, e)) return -1;
    for (size_t i = 0; i <= ids->n; i++) {
        int rc = i < ids->n ? tok_stream_push(s, ids->id[i], &piece, &bytes, e)
                            : tok_stream_flush(s, &piece, &bytes, e);
        if (rc) return -1;
        fwrite(piece, 1, bytes, f);
    }
    tok_stream_close(s);
    fclose(f);
    json_object_set_new(a, "streamed", json_stringn(text, n));
    free(text);
    return 0;
}

static json_t *json_ids(const struct tok_ids *ids)
{
    json_t *a = json_array();
    for (size_t i = 0; i < ids->n; i++) json_array_append_new(a, json_integer(ids->id[i]));
    return a;
}

static json_t *ask_encode(const json_t *q)
{
    struct tok_ids ids = {0}, special = {0};
    struct err e;
    size_t n;
    const char *text = text_of(q, "text", &n);
    json_t *a = json_object();
    int rc = tok_encode(tokenizer, text, n, 0, &ids, &e) ||
             tok_encode(tokenizer, text, n, 1, &special, &e) ||
             put_decoded(a, "text", &ids, 0, &e) || put_decoded(a, "plain", &ids, 1, &e);
    json_object_set_new(a, "ids", json_ids(&ids));
    json_object_set_new(a, "special", json_ids(&special));
    tok_ids_free(&ids);
    tok_ids_free(&special);
    if (!rc) return a;
    json_decref(a);
    return refused(&e);
}

static json_t *ask_decode(const json_t *q)
{
    const json_t *list = json_object_get(q, "ids");
    struct tok_ids ids = {.n = json_array_size(list)};
    struct err e;
    json_t *a = json_object();
    ids.id = malloc((ids.n + 1) * sizeof *ids.id);
    if (!ids.id) abort();
    for (size_t i = 0; i < ids.n; i++)
        ids.id[i] = (int32_t)json_integer_value(json_array_get(list, i));
    int rc = put_decoded(a, "text", &ids, 0, &e) || put_decoded(a, "plain", &ids, 1, &e) ||
             put_streamed(a, &ids, &e);
    free(ids.id);
    if (!rc) return a;
    json_decref(a);
    return refused(&e);
}

/* ---- templates */

static json_t *variables;

static json_t *ask_variables(const json_t *q)
{
    json_decref(variables);
    variables = json_incref(json_object_get(q, "variables"));
    return json_object();
}

static json_t *ask_render(const json_t *q)
{
    struct jinja *t;
    struct err e;
    size_t n, bytes;
    char *text;
    const char *source = text_of(q, "template", &n);
    if (jinja_open(&t, source, n, &e)) return refused(&e);
    int64_t now = json_integer_value(json_object_get(q, "now"));
    int rc = jinja_render(t, variables, now, &text, &bytes, &e);
    jinja_close(t);
    if (rc) return refused(&e);
    json_t *a = json_pack("{s:o}", "text", json_stringn(text, bytes));
    free(text);
    return a;
}

/* ---- grammars: the vocabulary has every byte, and texts of several */

static const char *const parts[] = {
    "{\"", "\":", "\",\"", "\"}", "\"}}", "}}",  "}]",  "],", "\"a\"", "a\":", "true",  "12",
    "[[",  "[\"", "\"\"",  "ab",  "0.5",  "aab", "\\u", "  ", "bc",    "\xa9", "null,", "\xc3\xa9"};
enum { N_TOKENS = 256 + sizeof parts / sizeof *parts, WALK_BYTES = 1000 };

static struct vocab *vocab_of_bytes(void) { return byte_vocab(parts, N_TOKENS - 256); }

static uint64_t dice;

static unsigned roll(unsigned n)
{
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    uint64_t x = dice >> 33;
    return (unsigned)((x ^ x >> 13) % n);
}

static int is_set(const uint32_t *bits, int32_t id) { return bits[id / 32] >> id % 32 & 1; }

/* A token of the mask; IS_CLOSING: one that ends what is open, often. */
static int32_t choose(const uint32_t *bits, int n_allowed, int is_closing)
{
    static const char closing[] = "\"}]:", liked[] = "{}[]\",:ab01\"-. \n";
    for (const char *p = closing; is_closing && *p && roll(100) < 90; p++)
        if (is_set(bits, *p)) return *p;
    for (int tries = 0; tries < 8; tries++) {
        int32_t id = roll(100) < 50 ? liked[roll(sizeof liked - 1)] : (int32_t)roll(N_TOKENS);
        if (is_set(bits, id)) return id;
    }
    for (int32_t id = 0, left = (int32_t)roll((unsigned)n_allowed);; id++)
        if (is_set(bits, id) && left-- == 0) return id;
}

/* A walk of at most TOKENS tokens; the text at its end, where an answer may end, is appended to
 * WALKED. -1: a token of the mask is not taken, or a place that has neither tokens nor an end. */
static int walk(struct grammar_cursor *c, int tokens, json_t *walked, struct err *e)
{
    uint32_t bits[(N_TOKENS + 31) / 32];
    char text[WALK_BYTES];
    size_t n = 0, bytes;
    int n_allowed;
    grammar_cursor_reset(c);
    for (int step = 0;; step++) {
        int may_end = grammar_may_end(c), is_closing = step > tokens / 4;
        if (grammar_mask(c, bits, &n_allowed, NULL, e)) return -1;
        if (!n_allowed && !may_end) return err_set(e, "a dead end behind '%.*s'", (int)n, text);
        if (may_end && (!n_allowed || is_closing || roll(100) < 30)) break;
        if (step == tokens || n + 32 > WALK_BYTES) return 0;
        int32_t id = choose(bits, n_allowed, is_closing);
        const char *t = vocab_token(vocab_of_bytes(), id, &bytes);
        memcpy(text + n, t, bytes);
        n += bytes;
        if (grammar_accept_token(c, id, e) != 1)
            return err_set(e, "a token of the mask is not taken: '%.*s'", (int)n, text);
    }
    json_t *s = json_stringn(text, n);
    if (!s) return err_set(e, "a walk ends in a text that is no UTF-8");
    json_array_append_new(walked, s);
    return 0;
}

/* 1: TEXT [n] is a whole answer. */
static int takes(struct grammar_cursor *c, const char *text, size_t n)
{
    struct err e;
    grammar_cursor_reset(c);
    return grammar_accept(c, text, n, &e) == 1 && grammar_may_end(c);
}

static json_t *use_grammar(const json_t *q, struct grammar *g)
{
    json_t *taken = json_array(), *walked = json_array(), *one;
    struct grammar_cursor *c;
    struct err e;
    size_t i;
    int rc = 0, tokens = (int)json_integer_value(json_object_get(q, "tokens"));
    if (grammar_cursor_open(&c, g, &e)) abort();
    json_array_foreach (json_object_get(q, "candidates"), i, one)
        json_array_append_new(
            taken, json_integer(takes(c, json_string_value(one), json_string_length(one))));
    dice = (uint64_t)json_integer_value(json_object_get(q, "seed")) * 0x9e3779b97f4a7c15u;
    for (int64_t n = json_integer_value(json_object_get(q, "walks")); n > 0 && !rc; n--)
        rc = walk(c, tokens, walked, &e);
    grammar_cursor_close(c);
    json_t *a = json_pack("{s:o, s:o}", "taken", taken, "walked", walked);
    if (rc) json_object_set_new(a, "broken", json_text(e.msg));
    return a;
}

static json_t *ask_grammar(const json_t *q)
{
    size_t n;
    const char *kind = text_of(q, "kind", &n), *text = text_of(q, "text", &n);
    const struct grammar_spec spec = {.kind = strcmp(kind, "schema") ? GRAMMAR_REGEX
                                                                     : GRAMMAR_SCHEMA,
                                      .text = text,
                                      .bytes = n,
                                      .order = JSON_ORDER_ANY,
                                      .space = JSON_SPACE_NONE};
    struct grammar *g;
    struct err e;
    if (grammar_open(&g, &spec, vocab_of_bytes(), &e)) return refused(&e);
    json_t *a = use_grammar(q, g);
    grammar_close(g);
    return a;
}

int main(void)
{
    static const struct {
        const char *name;
        json_t *(*ask)(const json_t *q);
    } asks[] = {{"tokenizer", ask_tokenizer}, {"encode", ask_encode}, {"decode", ask_decode},
                {"variables", ask_variables}, {"render", ask_render}, {"grammar", ask_grammar}};
    char *line = NULL;
    size_t room = 0;
    struct err e;
    for (ssize_t n; (n = getline(&line, &room, stdin)) > 0;) {
        json_t *q = json_read_long(line, (size_t)n, &e), *a = NULL;
        const char *what = json_string_value(json_object_get(q, "ask"));
        for (size_t i = 0; what && i < sizeof asks / sizeof *asks; i++)
            if (!strcmp(what, asks[i].name)) a = asks[i].ask(q);
        if (!a) a = json_pack("{s:s}", "error", "no such question");
        json_dumpf(a, stdout, JSON_COMPACT);
        putchar('\n');
        fflush(stdout);
        json_decref(a);
        json_decref(q);
    }
    free(line);
    tok_close(tokenizer);
    json_decref(variables);
    return 0;
}
