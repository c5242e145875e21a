/* hip_open.c: the open pages of KV_INT4 (core/step/kv_open.h) on a GPU: step pages, the page that
 * each row stores and reads, and the jobs of OP_ROPE_STORE (kernels/common/open_pages.hip). Must
 * not know: what attention does with them. */
#include "backend-hip/hip_args.h"
#include "backend-hip/hip_attend.h"
#include "backend-hip/hip_open.h"
#include "backend-hip/hip_splits.h"
#include "core/step/kv_open.h"

static size_t step_pages(const struct be_config *c)
{
    return kv_has_open(c->kv) ? (size_t)kv_most_step_pages(c->max_rows, c->max_seqs) : 0;
}

size_t hip_open_set_bytes(const struct be_config *c, const struct step_plan *p)
{
    size_t most = 0;
    for (int i = 0; i < p->n_kv; i++)
        if (kv_open_bytes(c->kv, &p->kv[i]) > most) most = kv_open_bytes(c->kv, &p->kv[i]);
    return step_pages(c) * most;
}

size_t hip_open_ints(const struct be_config *c)
{
    size_t seqs = (size_t)c->max_seqs;
    return kv_has_open(c->kv) ? (size_t)c->max_rows + seqs + 8 * (seqs + step_pages(c) + 1) : 0;
}

/* Ends a list of n jobs. */
static int pad(int32_t *jobs, int n)
{
    const int all = hip_round_up(n, 1);
    for (; n < all; n++) jobs[2 * n] = jobs[2 * n + 1] = -1;
    return n;
}

/* Whether all positions of page number `page` of sequence q are prompt rows of this step. */
static int of_prompt_rows(const struct batch *b, int q, int page)
{
    int from = page * PAGE - b->pos[b->seq_start[q]];
    return from >= 0 && b->seq_start[q] + from >= b->n_decode;
}

/* Lists the pages that sequences begin .. end - 1 fill, of prompt rows alone or others. Returns how
 * many they are. */
static int list_packs(const struct batch *b, int begin, int end, const int32_t *first,
                      int of_prompts, int32_t *packs)
{
    int n = 0;
    for (int q = begin; q < end; q++) {
        struct kv_stored p = kv_stored_pages(b, q);
        const int32_t *table = b->block_table + (size_t)q * (size_t)b->table_stride;
        for (int page = p.first; page < p.end / PAGE; page++) {
            if (of_prompt_rows(b, q, page) != of_prompts) continue;
            packs[2 * n] = page == p.last ? b->seat[q] : ~(first[q] + page - p.first);
            packs[2 * n++ + 1] = table[page];
        }
    }
    return n;
}

size_t hip_fill_open(struct hip *h, const struct batch *b, int32_t *ints, const int32_t *d_ints)
{
    struct hip_shape *s = &h->shape;
    if (!kv_has_open(h->config.kv)) return 0;
    int32_t *own = ints, *first = own + b->n_rows, *copies = first + b->n_seqs;
    CHECK((size_t)kv_number_step_pages(b, first) <= step_pages(&h->config));
    for (int q = 0; q < b->n_seqs; q++) {
        struct kv_stored p = kv_stored_pages(b, q);
        for (int i = b->seq_start[q]; i < b->seq_start[q + 1]; i++) {
            int page = b->pos[i] / PAGE;
            own[i] = page == p.last ? b->seat[q] : ~(first[q] + page - p.first);
        }
        if (!p.begun || p.first == p.last) continue;
        copies[2 * s->n_copies] = b->seat[q];
        copies[2 * s->n_copies++ + 1] = first[q];
    }
    s->n_copies = pad(copies, s->n_copies);
    int32_t *packs = copies + 2 * s->n_copies;
    int alone = s->single_rows ? b->n_decode : 0; /* sequences of one decode row: the first ones */
    if (h->stores_apart)
        s->n_row_packs = pad(packs, list_packs(b, 0, alone, first, 0, packs));
    int32_t *part = packs + 2 * s->n_row_packs;
    s->n_part_packs = s->n_row_packs + pad(part, list_packs(b, alone, b->n_seqs, first, 0, part));
    int32_t *whole = packs + 2 * s->n_part_packs;
    s->n_packs = s->n_part_packs + pad(whole, list_packs(b, alone, b->n_seqs, first, 1, whole));
    s->d_own = d_ints;
    s->d_copies = d_ints + (copies - ints);
    s->d_packs = d_ints + (packs - ints);
    return (size_t)(packs - ints) + 2 * (size_t)s->n_packs;
}

/* Jobs of an OP_ROPE_STORE, number begin .. end - 1. */
static void launch_jobs(struct hip *h, const struct be_plan *p, int op, int packs, int begin,
                        int end)
{
    const struct op *o = hip_op(p, op);
    if (!kv_has_open(h->config.kv) || o->in[1] < 0) return;
    struct open_job_args a = {
        .open = hip_open_pages(h, p, o->as.rope.kv, o->as.rope.step_set),
        .pages = p->memory->kv[o->as.rope.kv],
        .jobs = (packs ? h->shape.d_packs : h->shape.d_copies) + 2 * begin,
        .n_kv_heads = o->as.rope.heads.n_kv_heads,
        .head_dim = o->as.rope.heads.head_dim,
        .packs = packs,
    };
    int latent = heads_are_latent(&o->as.rope.heads);
    hip_launch(h, latent ? K_latent_page_jobs : K_open_page_jobs,
               (struct hip_blocks){(size_t)(end - begin), (size_t)a.n_kv_heads, 1, 0}, &a,
               sizeof a);
}

void hip_open_begin(struct hip *h, const struct be_plan *p, int op)
{
    launch_jobs(h, p, op, 0, 0, h->shape.n_copies);
}

void hip_open_pack(struct hip *h, const struct be_plan *p, int op, int by_attention, int by_pages)
{
    launch_jobs(h, p, op, 1, by_attention ? h->shape.n_row_packs : 0,
                by_pages ? h->shape.n_part_packs : h->shape.n_packs);
}
