/* hip_exchange.c: links devices. Every device has a region of memory that the others write
 * (exchange.hip), its own or the host's; a test at the opening writes patterns all ways at once and
 * compares what arrives, because peers' memory is broken on some machines. */
#include "backend-hip/hip_exchange.h"

#include "backend-hip/hip_experts.h"
#include "backend-hip/hip_memory.h"
#include "backend-hip/hip_turns.h"
#include "core/base/clock.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)EXCHANGE_DEVICES == (int)PLACES, "kernels and core agree");

struct hip_link {
    struct hip *member[PLACES];
    int n, place;
    enum hip_exchange way;
    unsigned senders[PLACES]; /* of be_traffic */
    unsigned most_senders, slots;
    void *region; /* of this device */
    int is_fine;  /* of hip_alloc_fine, not of hip_alloc */
    unsigned *d_count;
    uint32_t *stop; /* of this device's launches, on the host */
};

static const struct hip_api *api_of(const struct hip *h) { return &h->device->library->api; }

const char *hip_link_text(const struct hip *h)
{
    return !h->link                            ? ""
           : h->link->way == HIP_EXCHANGE_PEER ? ", exchange of rows through peers' memory"
                                               : ", exchange of rows through the host's memory";
}

/* ---- memory */

enum { COUNT_BYTES = 2 * sizeof(unsigned) * EXCHANGE_DEVICES * EXCHANGE_BLOCKS };

static void free_region(struct hip *h)
{
    struct hip_link *l = h->link;
    if (!l->region || h->device->hung) return;
    if (l->way == HIP_EXCHANGE_HOST) api_of(h)->host_free(l->region);
    else if (l->is_fine) api_of(h)->free(l->region);
    else hip_free(&h->be, l->region);
    l->region = NULL;
}

/* The region of a device, zeroed. AMD's devices see what others write while they run in
 * fine-grained memory alone. */
static int make_region(struct hip *h, enum hip_exchange way)
{
    struct hip_link *l = h->link;
    size_t bytes = EXCHANGE_REGION(l->most_senders, l->slots);
    l->way = way;
    l->is_fine = 0;
    if (way == HIP_EXCHANGE_HOST) {
        l->region = hip_common_memory(h, bytes);
    } else if (h->device->library->is_cuda) {
        l->region = hip_alloc(&h->be, bytes);
    } else if (!api_of(h)->hip_alloc_fine(&l->region, bytes, HIP_FINE_GRAINED) && l->region) {
        l->is_fine = 1;
        hip_fail(h, api_of(h)->fill(l->region, 0, bytes), "clearing memory");
    }
    return l->region && !h->failed.msg[0] ? 0 : -1;
}

static unsigned most_senders(const struct be_traffic *t, int n)
{
    unsigned most = 1;
    for (int q = 0; q < n; q++) {
        unsigned senders = (unsigned)__builtin_popcount(t->senders[q]);
        if (senders > most) most = senders;
    }
    return most;
}

/* Messages of a ring: those of two steps where there is to be room for them. */
static unsigned slots_of(const struct be_traffic *t)
{
    uint64_t slice = t->floats / EXCHANGE_BLOCKS + 4,
             step = (slice + EXCHANGE_FLOATS - 1) / EXCHANGE_FLOATS + (uint64_t)t->n_exchanges - 1,
             slots = EXCHANGE_SLOTS;
    while (t->floats && slots < 2 * step) slots *= 2;
    return (unsigned)slots;
}

/* Regions of all devices, for such traffic. */
static int make_regions(struct hip *const *h, int n, enum hip_exchange way,
                        const struct be_traffic *t, struct err *e)
{
    for (int q = 0; q < n; q++) {
        struct hip_link *l = h[q]->link;
        memcpy(l->senders, t->senders, sizeof l->senders);
        l->most_senders = most_senders(t, n);
        l->slots = slots_of(t);
    }
    for (int q = 0; q < n; q++) {
        if (hip_device_use(h[q]->device, e)) return -1;
        free_region(h[q]);
        if (way == HIP_EXCHANGE_PEER && !h[q]->device->library->is_cuda &&
            !api_of(h[q])->hip_alloc_fine)
            return err_set(e, "%s: has no fine-grained memory", h[q]->device->library->path);
        if (make_region(h[q], way))
            return err_set(e, "%s: no memory for the exchange of rows", h[q]->device->name);
    }
    for (int q = 0; q < n; q++) {
        struct hip_link *l = h[q]->link;
        *l->stop = 0;
        if (hip_device_use(h[q]->device, e)) return -1;
        hip_clear(h[q], l->d_count, COUNT_BYTES);
        if (hip_sync(&h[q]->be, e)) return -1;
    }
    return 0;
}

static int make_link(struct hip *const *h, int n, int place, struct err *e)
{
    struct hip_link *l = calloc(1, sizeof *l);
    if (!l) return err_memory(e);
    h[place]->link = l;
    memcpy(l->member, h, (size_t)n * sizeof *h);
    l->n = n;
    l->place = place;
    if (hip_device_use(h[place]->device, e)) return -1;
    l->stop = hip_common_memory(h[place], sizeof *l->stop);
    l->d_count = hip_alloc(&h[place]->be, COUNT_BYTES);
    return l->stop && l->d_count
               ? 0
               : err_set(e, "%s: no memory for the exchange of rows", h[place]->device->name);
}

void hip_unlink(struct hip *h)
{
    struct hip_link *l = h->link;
    if (!l) return;
    for (int q = 0; q < l->n; q++) {
        struct hip *other = l->member[q];
        if (!other || !other->link) continue;
        other->link->member[l->place] = NULL;
        other->stop[l->place] = NULL;
        other->words[l->place] = other->served[l->place] = NULL;
    }
    if (!h->device->hung) {
        free_region(h);
        hip_free(&h->be, l->d_count);
        if (l->stop) api_of(h)->host_free(l->stop);
    }
    hip_turns_close(h);
    h->link = NULL;
    free(l);
}

/* ---- launches */

/* Number of a sender's ring in the region of `to`: they are in order of the devices. */
static unsigned char number_of(const struct hip_link *l, int to, int sender)
{
    return (unsigned char)__builtin_popcount(l->senders[to] & ((1u << sender) - 1));
}

/* Completes what a launch is told. */
static void complete(const struct hip *h, struct exchange_args *a)
{
    size_t most = 0;
    for (int q = 0; q < a->devices; q++) {
        size_t n = (size_t)a->n * (size_t)(a->at[q + 1] - a->at[q]);
        CHECK(n < 1u << 31);
        if (n > most) most = n;
    }
    size_t blocks = (most + EXCHANGE_OF_BLOCK - 1) / EXCHANGE_OF_BLOCK;
    a->blocks = blocks < EXCHANGE_BLOCKS ? (int)blocks : EXCHANGE_BLOCKS;
    a->is_marked = most <= EXCHANGE_BLOCKS * (size_t)(EXCHANGE_MARKED - 4);
    for (int q = 0; q < a->devices; q++) a->region[q] = h->link->member[q]->link->region;
    for (int q = 0; q < a->devices; q++) {
        a->ring_there[q] = number_of(h->link, q, h->link->place);
        a->ring_here[q] = number_of(h->link, h->link->place, q);
    }
    a->slots = h->link->slots;
    a->marked_at = EXCHANGE_RINGS(h->link->most_senders, h->link->slots);
    a->count = h->link->d_count;
    a->stop = h->link->stop;
    a->device = h->link->place;
    for (int q = 0; q < a->devices && h->turns; q++)
        a->arrivals[q] = h->link->member[q]->turns->words;
}

int hip_check_exchange(const struct hip *h, const struct op *op, struct err *e)
{
    if (h->link && h->link->n == op->as.exchange.n_places &&
        h->link->place == op->as.exchange.place)
        return 0;
    return err_set(e, "--backend hip: an exchange of rows with devices that are not linked");
}

/* Arguments of an operation; 0: there are no rows. */
static int arguments(struct hip *h, const struct be_plan *p, int op, struct exchange_args *a)
{
    const struct op *o = hip_op(p, op);
    int n_decode, rows = hip_rows(h, p, o->out[0] >= 0 ? o->out[0] : o->in[0], &n_decode);
    *a = (struct exchange_args){.own = hip_in(p, op, 0),
                                .out = hip_out(p, op, 0),
                                .n = (unsigned)(rows * o->as.exchange.groups),
                                .width = (unsigned)o->as.exchange.at[o->as.exchange.n_places],
                                .to = o->as.exchange.to,
                                .devices = o->as.exchange.n_places};
    memcpy(a->at, o->as.exchange.at, sizeof a->at);
    complete(h, a);
    return rows;
}

void hip_exchange(struct hip *h, const struct be_plan *p, int op)
{
    struct exchange_args a;
    if (arguments(h, p, op, &a)) hip_launch_rows(h, K_exchange, a.blocks, &a, sizeof a);
    if (a.out) hip_forget_grouping(h); /* it may have been other experts' choice */
}

/* Messages of device q's block 0 (exchange.hip has the slices). */
static unsigned messages(const struct exchange_args *a, int q)
{
    unsigned n = a->n * (unsigned)(a->at[q + 1] - a->at[q]),
             slice = (n / 4 + (unsigned)a->blocks) / (unsigned)a->blocks * 4;
    return ((slice < n ? slice : n) + EXCHANGE_FLOATS - 1) / EXCHANGE_FLOATS;
}

int hip_exchange_awaits(struct hip *h, const struct be_plan *p, int op)
{
    struct exchange_args a;
    int awaits = 0;
    if (!arguments(h, p, op, &a) || !(a.to >> a.device & 1)) return 0;
    for (int q = 0; q < a.devices; q++) awaits |= q != a.device && messages(&a, q);
    return awaits;
}

int hip_exchange_sends(struct hip *h, const struct be_plan *p, int op)
{
    struct exchange_args a;
    return arguments(h, p, op, &a) && a.at[a.device + 1] > a.at[a.device] &&
           (a.to & ~(1u << a.device));
}

void hip_await_exchange(struct hip *h, const struct be_plan *p, int op)
{
    struct exchange_args a;
    arguments(h, p, op, &a);
    for (int q = 0; q < a.devices; q++)
        if (q != a.device) hip_await_messages(h, q, messages(&a, q));
}

/* ---- the test */

enum { TEST_ROWS = 512, TEST_COLUMNS = 1024, TEST_ROUNDS = 4, TEST_SECONDS = 20 };

/* All to all, which may wait for one another. */
static struct be_traffic test_traffic(int n)
{
    struct be_traffic t = {.n_exchanges = 1};
    for (int q = 0; q < n; q++) t.senders[q] = ((1u << n) - 1) & ~(1u << q);
    return t;
}

/* The region of a run, or that of the test and its rows, which are given back. */
uint64_t hip_link_bytes(int n, const struct be_traffic *t)
{
    const struct be_traffic all = test_traffic(n);
    uint64_t test = EXCHANGE_REGION(most_senders(&all, n), slots_of(&all)) +
                    (uint64_t)(n + 1) * TEST_ROWS * TEST_COLUMNS * sizeof(float),
             run = EXCHANGE_REGION(most_senders(t, n), slots_of(t));
    return COUNT_BYTES + (test > run ? test : run);
}

/* A device's part of the test, on a thread of its own. */
struct trial {
    struct hip *h;
    int n, q, round, rc;
    uint32_t *host;      /* [TEST_ROWS][n][TEST_COLUMNS] */
    void *d_own, *d_out; /* columns of device q; those of all */
    struct err e;
    pthread_t thread;
};

static uint32_t pattern(int round, int q, size_t i)
{
    uint32_t x = (uint32_t)i * 0x9e3779b9u + (uint32_t)(round * PLACES + q) * 0x85ebca6bu;
    x = (x ^ x >> 16) * 0x7feb352du;
    return x ^ x >> 15;
}

/* Few and many: messages are of two kinds. */
static size_t rows_of(int round) { return round % 2 ? TEST_ROWS : TEST_ROWS / 16; }

/* Waits for the launch, or gives up what it waits for. */
static int ends(struct hip *h, struct err *e)
{
    double end = clock_now() + TEST_SECONDS;
    int late = 0;
    hip_flush(h);
    if (!h->failed.msg[0])
        hip_fail(h, api_of(h)->event_record(h->all_done, hip_stream_handle(h->stream)),
                 "a kernel failed");
    while (!h->failed.msg[0] && api_of(h)->event_query(h->all_done) == HIP_NOT_READY && !late) {
        late = clock_now() >= end;
        clock_rest(0);
    }
    if (late) hip_stop_peers(h);
    if (hip_sync(&h->be, e)) return -1;
    return late ? err_set(e, "device %d waits for rows that do not arrive", h->device->ordinal) : 0;
}

static int compare(const struct trial *t, struct err *e)
{
    const size_t row = (size_t)t->n * TEST_COLUMNS, all = rows_of(t->round) * row;
    hip_download(&t->h->be, t->host, t->d_out, all * sizeof *t->host);
    if (hip_sync(&t->h->be, e)) return -1;
    for (size_t i = 0; i < all; i++) {
        int from = (int)(i % row / TEST_COLUMNS);
        if (t->host[i] != pattern(t->round, from, i / row * TEST_COLUMNS + i % TEST_COLUMNS))
            return err_set(e, "what device %d writes for device %d arrives changed",
                           t->h->link->member[from]->device->ordinal, t->h->device->ordinal);
    }
    return 0;
}

static int send_pattern(struct trial *t, struct err *e)
{
    const size_t own = rows_of(t->round) * TEST_COLUMNS;
    struct exchange_args a = {.own = t->d_own,
                              .out = t->d_out,
                              .n = (unsigned)rows_of(t->round),
                              .width = (unsigned)t->n * TEST_COLUMNS,
                              .to = (1u << t->n) - 1,
                              .devices = t->n};
    for (int i = 0; i <= t->n; i++) a.at[i] = i * TEST_COLUMNS;
    for (size_t i = 0; i < own; i++) t->host[i] = pattern(t->round, t->q, i);
    hip_upload(&t->h->be, t->d_own, t->host, own * sizeof *t->host);
    complete(t->h, &a);
    hip_launch_rows(t->h, K_exchange, a.blocks, &a, sizeof a);
    return ends(t->h, e) || compare(t, e) ? -1 : 0;
}

static void *test_device(void *arg)
{
    struct trial *t = arg;
    hip_use(t->h);
    t->rc = send_pattern(t, &t->e);
    if (t->rc) hip_stop_peers(t->h);
    return NULL;
}

static int begin_trial(struct trial *t, struct err *e)
{
    const size_t own = (size_t)TEST_ROWS * TEST_COLUMNS * sizeof *t->host;
    t->host = malloc((size_t)t->n * own);
    t->d_own = hip_alloc(&t->h->be, own);
    t->d_out = hip_alloc(&t->h->be, (size_t)t->n * own);
    return t->host && t->d_own && t->d_out
               ? 0
               : err_set(e, "%s: no memory for the test of the exchange", t->h->device->name);
}

/* The error is the first device's that has one. */
static int test_round(struct trial *t, int n, int round, struct err *e)
{
    int rc = 0, n_threads = 0;
    while (!rc && n_threads < n) {
        t[n_threads].round = round;
        if (pthread_create(&t[n_threads].thread, NULL, test_device, &t[n_threads]))
            rc = err_set(e, "no thread for the test of the exchange");
        else n_threads++;
    }
    if (rc) hip_stop_peers(t->h);
    for (int q = 0; q < n_threads; q++) pthread_join(t[q].thread, NULL);
    for (int q = n - 1; q >= 0; q--)
        if (t[q].rc) *e = t[q].e, rc = -1;
    return rc;
}

/* Patterns all ways at once. */
static int test(struct hip *const *h, int n, struct err *e)
{
    struct trial t[PLACES];
    int rc = 0;
    memset(t, 0, sizeof t);
    for (int q = 0; q < n && !rc; q++) {
        t[q].h = h[q], t[q].n = n, t[q].q = q;
        rc = begin_trial(&t[q], e);
    }
    for (int round = 0; round < TEST_ROUNDS && !rc; round++) rc = test_round(t, n, round, e);
    for (int q = 0; q < n; q++) {
        hip_free(&h[q]->be, t[q].d_own);
        hip_free(&h[q]->be, t[q].d_out);
        free(t[q].host);
    }
    return rc;
}

/* ---- the choice */

/* Lets each device reach the memory of all others. */
static int reach_peers(struct hip *const *h, int n, struct err *e)
{
    for (int q = 0; q < n; q++)
        for (int p = 0; p < n; p++) {
            const struct hip_device *d = h[q]->device, *peer = h[p]->device;
            const struct hip_api *api = api_of(h[q]);
            int can = 0, code = 0;
            if (d == peer) continue;
            if (!api->can_access_peer || !(api->cuda_enable_peer || api->hip_enable_peer))
                return err_set(e, "%s: has no access to peers", d->library->path);
            if (hip_device_use(d, e)) return -1;
            if (api->can_access_peer(&can, d->handle, peer->handle) || !can)
                return err_set(e, "device %d cannot reach the memory of device %d", d->ordinal,
                               peer->ordinal);
            if (d->library->is_cuda) {
                code = api->cuda_enable_peer(peer->context, 0);
            } else {
                code = api->hip_enable_peer(peer->ordinal, 0);
            }
            if (code && code != HIP_PEER_ALREADY)
                return err_set(e, "device %d cannot reach the memory of device %d: error %d",
                               d->ordinal, peer->ordinal, code);
        }
    return 0;
}

/* AMD's devices reach each other reliably over xGMI alone. */
static int is_trusted(struct hip *const *h, int n)
{
    for (int q = 0; q < n; q++)
        for (int p = 0; p < n; p++) {
            unsigned type = 0, hops;
            const struct hip_api *api = api_of(h[q]);
            if (h[q]->device->library->is_cuda || h[p]->device == h[q]->device) continue;
            if (!api->hip_link_type ||
                api->hip_link_type(h[q]->device->ordinal, h[p]->device->ordinal, &type, &hops) ||
                type != HIP_LINK_XGMI)
                return 0;
        }
    return 1;
}

static int try_way(struct hip *const *h, int n, enum hip_exchange way, const struct be_traffic *t,
                   struct err *e)
{
    const struct be_traffic all = test_traffic(n);
    return (way == HIP_EXCHANGE_PEER && reach_peers(h, n, e)) || make_regions(h, n, way, &all, e) ||
                   test(h, n, e) || make_regions(h, n, way, t, e)
               ? -1
               : 0;
}

static const char *say(enum hip_exchange way)
{
    return way == HIP_EXCHANGE_PEER ? "--exchange peer" : "--exchange host";
}

/* The way that the options name, or the best one that can be taken. */
static int choose_way(struct hip *const *h, int n, const struct be_traffic *t, struct err *e)
{
    const enum hip_exchange asked = h[0]->options.exchange;
    if (asked != HIP_EXCHANGE_AUTO)
        return try_way(h, n, asked, t, e) ? err_prefix(e, "%s", say(asked)) : 0;
    if (is_trusted(h, n) && !try_way(h, n, HIP_EXCHANGE_PEER, t, e)) return 0;
    return try_way(h, n, HIP_EXCHANGE_HOST, t, e) ? err_prefix(e, "%s", say(HIP_EXCHANGE_HOST)) : 0;
}

static int open_turns(struct hip *const *h, int n, struct be *const *lender, struct err *e)
{
    for (int q = 0; q < n; q++)
        if (hip_turns_open(h[q], lender ? (const struct hip *)lender[q] : NULL, h[q]->link->stop,
                           e))
            return -1;
    for (int q = 0; q < n * n && h[0]->turns; q++) {
        h[q / n]->words[q % n] = h[q % n]->turns->words;
        h[q / n]->served[q % n] = h[q % n]->turns->served;
    }
    return 0;
}

int hip_link(struct be *const *be, int n, const struct be_traffic *t, struct err *e)
{
    struct hip *h[PLACES];
    CHECK(n >= 2 && n <= PLACES);
    for (int q = 0; q < n; q++) {
        h[q] = (struct hip *)be[q];
        if (h[q]->device->library != h[0]->device->library)
            return err_set(e, "devices of two libraries cannot exchange rows");
    }
    for (int q = 0; q < n; q++)
        if (make_link(h, n, q, e)) return -1;
    for (int q = 0; q < n * n; q++) h[q / n]->stop[q % n] = h[q % n]->link->stop;
    return choose_way(h, n, t, e) ||
                   (h[0]->config.n_microbatches > 1 && open_turns(h, n, t->lender, e))
               ? -1
               : 0;
}
