#include "bench/batches.h"

#include <string.h>

size_t batch_ints(int rows, int seqs, int logits, int stride)
{
    return 4 * (size_t)rows + 5 * (size_t)seqs + 1 + (size_t)seqs * (size_t)stride +
           2 * (size_t)logits;
}

void batch_place(struct batch *b, int32_t *memory, int rows, int seqs, int logits, int stride)
{
    *b = (struct batch){.table_stride = stride};
    int32_t **const array[] = {&b->token,       &b->pos,       &b->seq,
                               &b->slot,        &b->seq_start, &b->kv_len,
                               &b->block_table, &b->state_from, &b->state_to,
                               &b->seat,        &b->logit_row,  &b->top_row};
    const size_t n[] = {(size_t)rows,
                        (size_t)rows,
                        (size_t)rows,
                        (size_t)rows,
                        (size_t)seqs + 1,
                        (size_t)seqs,
                        (size_t)seqs * (size_t)stride,
                        (size_t)seqs,
                        (size_t)seqs,
                        (size_t)seqs,
                        (size_t)logits,
                        (size_t)logits};
    for (size_t i = 0; i < sizeof n / sizeof *n; i++) {
        *array[i] = memory;
        memory += n[i];
    }
}

void batch_set(struct batch *b, const struct page_map *m, const struct span *span, int n,
               int n_decode)
{
    int row = 0;
    for (int i = 0; i < n; i++) {
        const int32_t *table = m->table + span[i].seq * m->stride;
        memcpy(b->block_table + i * b->table_stride, table, (size_t)m->stride * sizeof *table);
        b->seq_start[i] = row;
        b->kv_len[i] = span[i].pos0 + span[i].rows;
        b->state_from[i] = span[i].pos0 ? span[i].seq : -1;
        b->state_to[i] = b->seat[i] = span[i].seq;
        for (int k = 0; k < span[i].rows; k++, row++) {
            b->pos[row] = span[i].pos0 + k;
            b->seq[row] = i;
            b->slot[row] = table[b->pos[row] / KV_PAGE] * KV_PAGE + b->pos[row] % KV_PAGE;
        }
    }
    b->seq_start[n] = row;
    b->n_rows = row;
    b->n_seqs = n;
    b->n_decode = n_decode;
    b->n_logits = b->n_decode_logits = b->n_top = 0;
}
