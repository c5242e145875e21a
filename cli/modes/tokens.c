/* tokens.c: the modes --tokenize and --detokenize. */
#include "cli/run.h"
#include "cli/text/show.h"
#include "engine/vocabulary.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int run_keep_id(struct tok_ids *ids, int32_t id, struct err *e)
{
    if (ids->n == ids->cap) {
        size_t cap = ids->cap ? 2 * ids->cap : 64;
        int32_t *grown = realloc(ids->id, cap * sizeof *grown);
        if (!grown) return err_memory(e);
        ids->id = grown;
        ids->cap = cap;
    }
    ids->id[ids->n++] = id;
    return 0;
}

int run_parse_ids(const char *text, struct tok_ids *ids, struct err *e)
{
    for (const char *p = text;;) {
        p += strspn(p, ", \t\r\n");
        if (!*p) return 0;
        char *end;
        errno = 0;
        long v = strtol(p, &end, 10);
        if (end == p || errno || v < 0 || v > INT32_MAX || (*end && !strchr(", \t\r\n", *end)))
            return err_set(e, "'%.*s' is not a token id", (int)strcspn(p, ", \t\r\n"), p);
        if (run_keep_id(ids, (int32_t)v, e)) return -1;
        p = end;
    }
}

static int print_ids(const struct tokenizer *t, const struct options *o, const char *text,
                     size_t bytes, struct err *e)
{
    struct tok_ids ids = {0};
    int rc = tok_encode(t, text, bytes, o->special && !o->chat, &ids,
                        e); /* a chat template writes its special tokens itself */
    for (size_t i = 0; i < ids.n && !rc; i++) printf(i ? " %d" : "%d", ids.id[i]);
    if (!rc) printf("\n");
    tok_ids_free(&ids);
    return rc;
}

static int print_text(const struct tokenizer *t, const struct options *o, const char *text,
                      struct err *e)
{
    struct tok_ids ids = {0};
    char *out = NULL;
    size_t n = 0;
    int rc = run_parse_ids(text, &ids, e);
    for (size_t i = 0; i < ids.n && !rc; i++)
        if (ids.id[i] >= tok_n_ids(t))
            rc = err_set(e, "token id %d: the tokenizer ends at %d", ids.id[i], tok_n_ids(t) - 1);
    if (!rc) rc = tok_decode(t, ids.id, ids.n, !o->special, &out, &n, e);
    if (!rc) rc = show_put(out, n, e) || show_put("\n", 1, e) ? -1 : 0;
    free(out);
    tok_ids_free(&ids);
    return rc;
}

int run_tokens(const struct options *o, struct err *e)
{
    struct modelfile m;
    struct tokenizer *t = NULL;
    char *text = NULL;
    size_t bytes;
    if (mf_open(&m, o->model, e)) return 1;
    int rc = vocabulary_tokenizer(&t, &m, e);
    if (!rc && !t)
        rc = err_set(e, "%s: has no tokenizer: its checkpoint came without one", o->model);
    if (!rc)
        rc = o->chat ? run_chat_prompt(o, &m, &text, &bytes, NULL, e)
                     : run_read_text(o, &text, &bytes, e);
    if (!rc) rc = o->tokenize ? print_ids(t, o, text, bytes, e) : print_text(t, o, text, e);
    if (!rc && fflush(stdout)) rc = err_sys(e, "cannot write to stdout");
    free(text);
    tok_close(t);
    mf_close(&m);
    return rc ? 1 : 0;
}
