/* fixture.h: a small checkpoint converted and opened as a model, and steps of it, for capture.c and
 * places.c. Must not know: backends. */
#ifndef TESTS_FIXTURE_H
#define TESTS_FIXTURE_H

#include "bench/batches.h"
#include "core/run/forward.h"
#include "tests/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIXTURE_SEQS = 2, FIXTURE_PAGES = 4, FIXTURE_ROWS = 32 };

static char fixture_convert[512], fixture_file[64];

static void fixture_begin(const char *build)
{
    snprintf(fixture_convert, sizeof fixture_convert, "%s/opt4gptq-convert", build);
    snprintf(fixture_file, sizeof fixture_file, "/tmp/opt4gptq-fixture-%d", (int)getpid());
}

/* A checkpoint of tests/data/gptq. 0, or -1 and a failed check. */
static int fixture_open(struct model *m, const char *name)
{
    struct process p;
    struct err e;
    char dir[256], gguf[300];
    snprintf(dir, sizeof dir, "tests/data/gptq/%s", name);
    snprintf(gguf, sizeof gguf, "%s/model.gguf", dir);
    if (!access(gguf, R_OK)) snprintf(dir, sizeof dir, "tests/data/gptq/%s/model.gguf", name);
    process_run(&p, (char *[]){fixture_convert, dir, fixture_file, NULL}, NULL);
    int bad = p.code != 0 || model_open(m, fixture_file, &e);
    if (bad) check(0, name, &p);
    process_free(&p);
    unlink(fixture_file);
    return bad ? -1 : 0;
}

static struct forward_options fixture_options(enum act act, enum kv_type kv)
{
    return (struct forward_options){.variant = "auto",
                                    .n_threads = 2,
                                    .act = act,
                                    .kv = kv,
                                    .n_pages = FIXTURE_SEQS * FIXTURE_PAGES,
                                    .max_rows = FIXTURE_ROWS,
                                    .max_logits = FIXTURE_ROWS,
                                    .max_seqs = FIXTURE_SEQS,
                                    .max_pages = FIXTURE_PAGES};
}

/* A batch of at most two sequences, whose pages are one behind the other. */
struct fixture_batch {
    struct batch b;
    struct page_map map;
    int32_t table[FIXTURE_SEQS * FIXTURE_PAGES];
    int32_t memory[1024];
};

/* Rows of n spans, of sequence 0 and, of a second span, 1; logits of every sequence's last row, or
 * of all rows. */
static struct batch *fixture_batch(struct fixture_batch *f, const struct span *span, int n,
                                   int n_decode, int all_logits)
{
    struct batch *b = &f->b;
    CHECK(batch_ints(FIXTURE_ROWS, FIXTURE_SEQS, FIXTURE_ROWS, FIXTURE_PAGES) <= 1024);
    for (int i = 0; i < FIXTURE_SEQS * FIXTURE_PAGES; i++) f->table[i] = i;
    f->map = (struct page_map){FIXTURE_SEQS * FIXTURE_PAGES, FIXTURE_PAGES, f->table};
    memset(b, 0, sizeof *b);
    batch_place(b, f->memory, FIXTURE_ROWS, FIXTURE_SEQS, FIXTURE_ROWS, FIXTURE_PAGES);
    batch_set(b, &f->map, span, n, n_decode);
    for (int i = 0; i < n && !all_logits; i++)
        b->logit_row[b->n_logits++] = b->seq_start[i + 1] - 1;
    for (int i = 0; i < b->n_rows && all_logits; i++) b->logit_row[b->n_logits++] = i;
    for (int i = 0; i < n_decode && i < b->n_logits; i++) b->n_decode_logits++;
    return b;
}

/* A token of a made-up prompt. */
static int32_t fixture_token(const struct model *m, int seq, int pos)
{
    return (int32_t)((unsigned)(seq * 7919 + pos * 104729 + 17) % (unsigned)m->config.vocab);
}

#endif
