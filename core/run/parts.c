#include "core/run/parts.h"

#include "core/run/place.h"

#include <stdlib.h>

size_t part_bytes(const struct forward *f, enum part part)
{
    CHECK(!f->places);
    return part == PART_PAGE ? (size_t)place_kv_bytes(&f->plan, f->be->ops, f->options.kv, 1)
                             : (size_t)place_state_bytes(&f->plan);
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

/* One cache or state: bytes of a page or slot; *memory is that of all of them. */
static size_t piece(const struct forward *f, enum part part, int k, char **memory)
{
    const struct step_plan *p = &f->plan;
    *memory = part == PART_PAGE ? f->memory.kv[k] : f->memory.state[k];
    return part == PART_PAGE ? f->be->ops->kv_page_bytes(f->options.kv, &p->kv[k])
                             : p->state[k].bytes;
}

static int n_pieces(const struct forward *f, enum part part)
{
    return part == PART_PAGE ? f->plan.n_kv : f->plan.n_states;
}

void part_save(struct forward *f, enum part part, int i, void *to)
{
    char *memory, *at = to;
    for (int k = 0; k < n_pieces(f, part); k++) {
        size_t bytes = piece(f, part, k, &memory);
        f->be->ops->download(f->be, at, memory + (size_t)i * bytes, bytes);
        at += bytes;
    }
}

void part_load(struct forward *f, enum part part, int i, const void *from)
{
    char *memory;
    const char *at = from;
    for (int k = 0; k < n_pieces(f, part); k++) {
        size_t bytes = piece(f, part, k, &memory);
        f->be->ops->upload(f->be, memory + (size_t)i * bytes, at, bytes);
        at += bytes;
    }
}

int part_sync(struct forward *f, struct err *e) { return f->be->ops->sync(f->be, e); }
