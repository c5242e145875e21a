#include "engine/prefix.h"

#include "core/base/args.h"
#include "core/base/memory.h"
#include "core/base/progress.h"
#include "core/run/parts.h"

#include <sha2.h>
#include <stdio.h>
#include <string.h>

static const uint64_t default_bytes = (uint64_t)8 << 30;

int prefix_size(const struct engine_options *o, uint64_t *bytes, struct err *e)
{
    *bytes = default_bytes;
    return o->prefix_size ? memory_parse(bytes, o->prefix_size, e) : 0;
}

/* A note may come while a line of progress is drawn. */
static void note(void *arg, const char *line)
{
    const struct engine_options *o = arg;
    progress_clear();
    if (o->note) o->note(o->note_arg, line);
}

/* The model file's header, which has the crc32 of every tensor, as hexadecimal digits. */
static void hash_model(const struct modelfile *m, char hex[SHA256_DIGEST_STRING_LENGTH])
{
    uint64_t n = 0;
    SHA2_CTX h;
    for (int i = 0; i < 8; i++) n |= (uint64_t)m->map[i] << 8 * i;
    CHECK(n <= m->st.file_bytes - 8);
    SHA256Init(&h);
    SHA256Update(&h, m->map, 8 + (size_t)n);
    SHA256End(&h, hex);
}

/* 1: the run's context chooses the long frequencies of a model that has two sets. */
static int is_long(const struct engine *g)
{
    const struct step_plan *p = &g->model.plan;
    for (int i = 0; i < p->n_weights; i++)
        if (p->weight[i].longer && g->forward.options.context > p->weight[i].longer_from) return 1;
    return 0;
}

/* Whatever may change a bit of keys, values or states, or their place in a page: the program, as
 * its commit; the model; arithmetic and storage; where the sums are not exact, instructions or
 * device. A GPU's pages are those of its own kind, a CPU's those of any. */
static void say_depends(const struct engine *g, const char *sums, char *text, size_t cap)
{
    const struct engine_options *o = g->o;
    const char *backend = g->entry->ops->name;
    const int is_cpu = !strcmp(backend, "cpu");
    char model[SHA256_DIGEST_STRING_LENGTH];
    hash_model(&g->model.file, model);
    int n = snprintf(text, cap,
                     "program %s %s; model %s; act %s; kv %s; backend %s; layout %s; sums %s; "
                     "variant %s; query halves %d; long %d; places %d by %s",
                     OPT4GPTQ_VERSION, args_commit(), model, o->act, o->kv, backend,
                     is_cpu ? backend : g->identity, sums ? sums : "exact",
                     is_cpu ? "any" : o->variant, o->query_halves, is_long(g), g->placement.n,
                     g->placement.want.rule == SPLIT_OUTPUTS ? "outputs" : "layers");
    CHECK(n > 0 && (size_t)n < cap);
}

int prefix_open(struct engine *g, const char *sums, struct err *e)
{
    const struct engine_options *o = g->o;
    char depends[1024];
    struct prefix_store_options s = {.dir = o->prefix_dir,
                                     .trims = o->prefix_size != NULL,
                                     .depends = depends,
                                     .note = note,
                                     .note_arg = (void *)(uintptr_t)o};
    if (!o->prefix_dir) return 0;
    if (prefix_size(o, &s.most_bytes, e)) return err_prefix(e, "--prefix-cache-size");
    s.bytes[PREFIX_PAGE] = part_bytes(&g->forward, PART_PAGE);
    s.bytes[PREFIX_STATE] = part_bytes(&g->forward, PART_STATES);
    say_depends(g, sums, depends, sizeof depends);
    return prefix_store_open(&g->store, &s, e);
}
