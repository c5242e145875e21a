#include "core/session.h"

#include <stdlib.h>
#include <string.h>

int session_open(struct session *s, struct forward *f, int n_ctx, struct err *e)
{
    memset(s, 0, sizeof *s);
    s->forward = f;
    s->n_ctx = n_ctx;
    int rows = f->options.max_rows, pages = (n_ctx + KV_PAGE - 1) / KV_PAGE;
    CHECK(pages <= f->options.n_pages);
    struct batch *b = &s->batch;
    b->n_seqs = 1;
    b->table_stride = pages;
    /* one block: token, pos, seq, slot [rows]; logit_row [rows]; seq_start [2], kv_len [1]; block_table [pages] */
    int32_t *p = calloc((size_t)rows * 5 + 3 + (size_t)pages, sizeof *p);
    s->logits = malloc((size_t)f->options.max_logits * (size_t)f->model->config.vocab * sizeof *s->logits);
    b->token = p;
    if (!p || !s->logits) {
        session_close(s);
        return err_set(e, "out of memory");
    }
    b->pos = p += rows;
    b->seq = p += rows;
    b->slot = p += rows;
    b->logit_row = p += rows;
    b->seq_start = p += rows;
    b->kv_len = p += 2;
    b->block_table = p += 1;
    for (int i = 0; i < pages; i++) b->block_table[i] = i;
    return 0;
}

void session_close(struct session *s)
{
    free(s->batch.token);
    free(s->logits);
    memset(s, 0, sizeof *s);
}

/* Rows for n tokens at the next positions; the last n_logits of them want logits. */
static int step(struct session *s, const int32_t *token, int n, int n_logits, int decode, struct err *e)
{
    struct batch *b = &s->batch;
    CHECK(s->n_computed + n <= s->n_ctx);
    b->n_rows = n;
    b->n_decode = decode ? n : 0;
    b->n_logits = n_logits;
    b->n_decode_logits = decode ? n_logits : 0;
    for (int i = 0; i < n; i++) {
        int pos = s->n_computed + i;
        CHECK(token[i] >= 0 && token[i] < s->forward->model->config.vocab);
        b->token[i] = token[i];
        b->pos[i] = pos;
        b->slot[i] = b->block_table[pos / KV_PAGE] * KV_PAGE + pos % KV_PAGE;
    }
    for (int i = 0; i < n_logits; i++) b->logit_row[i] = n - n_logits + i;
    b->seq_start[1] = n;
    b->kv_len[0] = s->n_computed + n;
    if (forward_step(s->forward, b, s->logits, e)) return -1;
    s->n_computed += n;
    return 0;
}

int session_prompt(struct session *s, const int32_t *token, int n, logits_fn *each, void *arg, struct err *e)
{
    int max = s->forward->options.max_rows;
    if (each && s->forward->options.max_logits < max) max = s->forward->options.max_logits;
    for (int i = 0; i < n;) {
        if (s->stop && *s->stop) return 1;
        int c = n - i < max ? n - i : max, pos = s->n_computed;
        if (step(s, token + i, c, each ? c : i + c == n, 0, e)) return -1;
        if (each && each(arg, s->logits, c, pos, e)) return -1;
        i += c;
    }
    return 0;
}

int session_decode(struct session *s, int32_t token, struct err *e) { return step(s, &token, 1, 1, 1, e); }
