#include "core/run/parts.h"

#include "core/run/place.h"
#include "core/run/places.h"

#include <stdlib.h>

/* A place of the run: its part of a plan on its backend. */
struct part_place {
    struct be *be;
    const struct step_plan *p;
    const struct plan_memory *m;
};

static struct part_place place_at(const struct forward *f, int q)
{
    const struct places *s = f->places;
    return s ? (struct part_place){s->be[q], &s->split.plan[q], &s->memory[q]}
             : (struct part_place){f->be, &f->plan, &f->memory};
}

size_t part_bytes(const struct forward *f, enum part part)
{
    uint64_t bytes = 0;
    for (int q = 0; q < forward_n_places(f); q++) {
        const struct part_place x = place_at(f, q);
        bytes += part == PART_PAGE ? place_kv_bytes(x.p, x.be->ops, f->options.kv, 1)
                                   : place_state_bytes(x.p);
    }
    return (size_t)bytes;
}

void *part_memory(struct forward *f, size_t bytes)
{
    const struct backend *ops = f->be->ops;
    return ops->asynchronous ? ops->view(f->be, NULL, bytes) : malloc(bytes);
}

void part_memory_free(struct forward *f, void *memory)
{
    const struct backend *ops = f->be->ops;
    if (ops->asynchronous) ops->drop_view(f->be, memory);
    else free(memory);
}

/* One cache or state of a place: bytes of a page or slot, 0 where it has none; *memory is that of
 * all of them. */
static size_t piece(const struct forward *f, const struct part_place *x, enum part part, int k,
                    char **memory)
{
    *memory = part == PART_PAGE ? x->m->kv[k] : x->m->state[k];
    return part == PART_PAGE ? place_page_bytes(x->p, x->be->ops, f->options.kv, k)
                             : place_slot_bytes(x->p, k);
}

static int n_pieces(const struct part_place *x, enum part part)
{
    return part == PART_PAGE ? x->p->n_kv : x->p->n_states;
}

void part_save(struct forward *f, enum part part, int i, void *to)
{
    char *memory, *at = to;
    for (int q = 0; q < forward_n_places(f); q++) {
        const struct part_place x = place_at(f, q);
        for (int k = 0; k < n_pieces(&x, part); k++) {
            size_t bytes = piece(f, &x, part, k, &memory);
            if (bytes) x.be->ops->download(x.be, at, memory + (size_t)i * bytes, bytes);
            at += bytes;
        }
    }
}

void part_load(struct forward *f, enum part part, int i, const void *from)
{
    char *memory;
    const char *at = from;
    for (int q = 0; q < forward_n_places(f); q++) {
        const struct part_place x = place_at(f, q);
        for (int k = 0; k < n_pieces(&x, part); k++) {
            size_t bytes = piece(f, &x, part, k, &memory);
            if (bytes) x.be->ops->upload(x.be, memory + (size_t)i * bytes, at, bytes);
            at += bytes;
        }
    }
}

int part_sync(struct forward *f, struct err *e)
{
    int rc = 0;
    for (int q = 0; q < forward_n_places(f); q++) {
        const struct part_place x = place_at(f, q);
        struct err one;
        if (!x.be->ops->sync(x.be, &one)) continue;
        if (!rc) *e = one;
        rc = -1;
    }
    return rc;
}
