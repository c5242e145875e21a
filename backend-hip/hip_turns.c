#include "backend-hip/hip_turns.h"

#include "backend-hip/hip_memory.h"

#include <stdlib.h>

enum { SERVED = EXCHANGE_DEVICES * EXCHANGE_FLAG };

static const struct hip_api *api_of(const struct hip *h) { return &h->device->library->api; }

/* Whether streams, or threads of kernels, can wait for a word whose value is known when a launch is
 * issued: graphs of launches keep their arguments. */
int hip_can_take_turns(const struct hip *h)
{
    return h->device->library->is_cuda ? api_of(h)->cuda_wait_value && api_of(h)->cuda_write_value
                                       : api_of(h)->stream_open && hip_has(h, K_exchange_word);
}

int hip_turns_open(struct hip *h, const struct hip *lender, const uint32_t *stop, struct err *e)
{
    if (!hip_can_take_turns(h)) return 0;
    struct hip_turns *t = calloc(1, sizeof *t);
    if (!t) return err_memory(e);
    t->words = hip_common_memory(h, TURN_WORDS * sizeof *t->words);
    if (!t->words) {
        free(t);
        return err_set(e, "%s: no memory for the turns of microbatches", h->device->name);
    }
    t->stop = stop;
    t->served = lender ? lender->turns->served : t->words + SERVED;
    t->n_asked = lender ? lender->turns->n_asked : &t->n_asked_here;
    h->turns = t;
    return 0;
}

void hip_turns_close(struct hip *h)
{
    if (h->turns && !h->device->hung) api_of(h)->host_free(h->turns->words);
    free(h->turns);
    h->turns = NULL;
}

/* In order with the launches: waits until a word has come to the value, or sets it. */
static void reach(struct hip *h, uint32_t *word, unsigned value, int waits)
{
    const struct hip_api *api = api_of(h);
    if (h->failed.msg[0]) return;
    if (!h->device->library->is_cuda) {
        const struct word_args a = {word, h->turns->stop, value, waits};
        hip_launch_rows(h, K_exchange_word, 1, &a, sizeof a);
        return;
    }
    hip_flush(h);
    hip_fail(h,
             waits ? api->cuda_wait_value(hip_stream_handle(h->stream), word, value, 0)
                   : api->cuda_write_value(hip_stream_handle(h->stream), word, value, 0),
             "the turns of microbatches");
}

void hip_take_turn(struct hip *h)
{
    struct hip_turns *t = h->turns;
    if (t->has_turn) return;
    t->ticket = (*t->n_asked)++;
    t->has_turn = 1;
    reach(h, t->served, t->ticket, 1);
}

void hip_give_turn(struct hip *h)
{
    struct hip_turns *t = h->turns;
    if (t->has_turn) reach(h, t->served, t->ticket + 1, 0);
    t->has_turn = 0;
}

void hip_await_messages(struct hip *h, int q, unsigned n)
{
    struct hip_turns *t = h->turns;
    t->n_arrived[q] += n;
    if (n) reach(h, t->words + q * EXCHANGE_FLAG, t->n_arrived[q] - n + 1, 1);
}
