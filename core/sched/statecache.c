#include "core/sched/statecache.h"

#include <stdlib.h>
#include <string.h>

int states_open(struct states *s, int n_slots, struct err *e)
{
    *s = (struct states){
        .n_slots = n_slots, .n_buckets = 1, .first = n_slots ? 0 : -1, .last = n_slots - 1};
    while (s->n_buckets < n_slots && s->n_buckets < 1 << 30) s->n_buckets *= 2;
    s->slot = calloc((size_t)n_slots + 1, sizeof *s->slot);
    s->bucket = malloc((size_t)s->n_buckets * sizeof *s->bucket);
    if (!s->slot || !s->bucket) {
        states_close(s);
        return err_memory_for(e, "out of memory for %d state slots", n_slots);
    }
    for (int32_t i = 0; i < s->n_buckets; i++) s->bucket[i] = -1;
    for (int i = 0; i < n_slots; i++)
        s->slot[i] =
            (struct state_slot){.prev = i - 1, .next = i + 1 < n_slots ? i + 1 : -1, .chain = -1};
    return 0;
}

void states_close(struct states *s)
{
    free(s->slot);
    free(s->bucket);
    memset(s, 0, sizeof *s);
}

int states_n_free(const struct states *s) { return s->n_slots - s->n_used; }

static int32_t *bucket_of(const struct states *s, uint64_t serial)
{
    uint64_t h = serial * 0x9e3779b97f4a7c15u;
    return &s->bucket[(h ^ h >> 32) & (uint64_t)(s->n_buckets - 1)];
}

static void list_remove(struct states *s, int32_t i)
{
    struct state_slot *p = &s->slot[i];
    *(p->prev < 0 ? &s->first : &s->slot[p->prev].next) = p->next;
    *(p->next < 0 ? &s->last : &s->slot[p->next].prev) = p->prev;
}

static void list_add(struct states *s, int32_t i, int at_end)
{
    struct state_slot *p = &s->slot[i];
    p->prev = at_end ? s->last : -1;
    p->next = at_end ? -1 : s->first;
    *(p->prev < 0 ? &s->first : &s->slot[p->prev].next) = i;
    *(p->next < 0 ? &s->last : &s->slot[p->next].prev) = i;
}

static void unpublish(struct states *s, int32_t i)
{
    int32_t *at = bucket_of(s, s->slot[i].serial);
    while (*at != i) at = &s->slot[*at].chain;
    *at = s->slot[i].chain;
    s->slot[i].serial = 0;
}

int32_t states_take(struct states *s)
{
    int32_t i = s->first;
    if (i < 0) return -1;
    list_remove(s, i);
    if (s->slot[i].serial) unpublish(s, i);
    s->slot[i].n_refs = 1;
    s->n_used++;
    return i;
}

void states_release(struct states *s, int32_t i)
{
    struct state_slot *p = &s->slot[i];
    CHECK(p->n_refs > 0);
    if (--p->n_refs) return;
    s->n_used--;
    list_add(s, i, p->serial != 0); /* slots without a snapshot are taken first */
}

int32_t states_find(const struct states *s, uint64_t serial)
{
    int32_t i = *bucket_of(s, serial);
    while (i >= 0 && s->slot[i].serial != serial) i = s->slot[i].chain;
    return i;
}

void states_hold(struct states *s, int32_t i)
{
    CHECK(s->slot[i].serial);
    if (s->slot[i].n_refs++) return;
    list_remove(s, i);
    s->n_used++;
}

void states_publish(struct states *s, int32_t i, uint64_t serial)
{
    CHECK(s->slot[i].n_refs > 0 && !s->slot[i].serial && serial);
    if (states_find(s, serial) >= 0) return;
    int32_t *at = bucket_of(s, serial);
    s->slot[i].serial = serial;
    s->slot[i].chain = *at;
    *at = i;
}
