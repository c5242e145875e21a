#include "engine/split_table.h"

#include "engine/costs.h"

#include <stdio.h>
#include <stdlib.h>

enum { GPU, HOST, MOST_CHOICES = 6, DEPTH = 512 };

static const double mib = 1 << 20;

static int n_microbatches(const struct forward_options *f)
{
    return f->n_microbatches > 1 ? f->n_microbatches : 1;
}

/* Pages of each microbatch. */
static double gpu_bytes_of(const struct forward_need *n, const struct forward_options *f,
                           int n_pages)
{
    uint64_t each = n->page * (uint64_t)n_pages + n->state * (uint64_t)forward_n_states(f) +
                    n->steps;
    return (double)n->weights + (double)each * n_microbatches(f);
}

/* Layers with experts of those from first to end - 1. */
static int count_experts(const struct model *m, int first, int end)
{
    int n = 0;
    for (int i = 0, last = -1; i < m->plan.n_ops; i++) {
        const struct op *op = &m->plan.op[i];
        if (op->kind != OP_EXPERTS || op->in[1] < 0 || op->layer == last) continue;
        last = op->layer;
        n += last >= first && last < end;
    }
    return n;
}

static void say_places(const struct placement *p, const struct model *m,
                       const struct engine_options *o, const struct forward_options *f)
{
    engine_note(
        o, "split   layers      experts of      weights     KV cache       states        steps");
    const double each = (double)n_microbatches(f) / mib;
    for (int q = 0; q < p->n; q++) {
        const struct forward_need *n = &p->need[q];
        const int is_host = !p->has_gpus && q;
        int layers = is_host ? p->n_layers - p->n_gpu_layers : p->n_gpu_layers,
            experts = is_host ? p->n_experts - p->n_gpu_experts : p->n_gpu_experts;
        if (p->has_gpus && p->want.rule == SPLIT_LAYERS) {
            const int *first = p->want.first_layer, end = q + 1 < p->n ? first[q + 1] : p->n_layers;
            layers = end - first[q];
            experts = count_experts(m, first[q], end);
        }
        engine_note(o, "%s  %3d of %3d  %3d of %3d  %9.0f MiB %8.0f MiB %8.0f MiB %8.0f MiB",
                    p->entry[q]->probe ? "GPU" : "CPU", layers, p->n_layers, experts, p->n_experts,
                    (double)(n->weights ? n->weights : n->mapped) / mib,
                    (double)(n->page * (uint64_t)f->n_pages) * each,
                    (double)(n->state * (uint64_t)forward_n_states(f)) * each,
                    (double)n->steps * each);
    }
    if (p->want.streams)
        engine_note(
            o,
            "experts of the CPU come to the GPU for steps of many tokens: %.0f MiB of it, and %.0f "
            "MiB of the host's memory, page-locked where the system allows it",
            (double)p->need[GPU].slots / mib, (double)p->need[GPU].away / mib);
}

/* The numbers of layers, or of layers with experts, from 0 to n in quarters, and the chosen one,
 * ascending, each once. */
static int choices(int n, int chosen, int of[MOST_CHOICES])
{
    int count = 0;
    for (int i = 0; i <= 4; i++) {
        int next = n * i / 4;
        if (count && of[count - 1] < chosen && chosen < next) of[count++] = chosen;
        if (!count || of[count - 1] < next) of[count++] = next;
    }
    return count;
}

enum { ONE, MANY, PROMPT, N_STEPS };
/* One sequence and many, a prompt. */
static const struct costs_step steps[N_STEPS] = {{1, DEPTH},
                                                 {FORWARD_MANY, FORWARD_MANY *DEPTH},
                                                 {1024, 0}};

/* Milliseconds of the steps [N_STEPS], of each 1 / `share`. */
static int times(const struct placement *p, const struct model *m, const struct engine_options *o,
                 int share, double *ms, struct err *e)
{
    const struct costs c = costs_of(o);
    for (int i = 0; i < N_STEPS; i++) {
        const int rows = (steps[i].rows + share - 1) / share;
        const struct costs_step part = {rows, steps[i].positions * rows / steps[i].rows};
        if (costs_seconds(&c, p, m, &part, &ms[i], e)) return -1;
        ms[i] *= 1e3;
    }
    return 0;
}

static int say_choices(const struct placement *p, const struct model *m,
                       const struct engine_options *o, const struct forward_options *f,
                       struct err *e)
{
    const struct costs c = costs_of(o);
    /* layers are what is split */
    const int whole = p->n_gpu_layers < p->n_layers || !p->n_experts,
              chosen = whole ? p->n_gpu_layers : p->n_gpu_experts;
    int of[MOST_CHOICES], n = choices(whole ? p->n_layers : p->n_experts, chosen, of), rc = 0;
    double ms[N_STEPS];
    struct placement t = *p;
    t.lists = calloc(2, (size_t)p->n_layers + 1);
    if (!t.lists) return err_memory(e);
    engine_note(
        o,
        "%s on the GPU: its memory; by a model of time (GPU %.0f GB/s, CPU %.0f GB/s, %.0f us a "
        "change of place), not measured, a step of 1 and of %d sequences at %d positions",
        whole ? "layers" : "experts of layers", c.gpu_bytes / 1e9, c.host_bytes / 1e9, c.turn * 1e6,
        FORWARD_MANY, DEPTH);
    for (int i = 0; i < n && !rc; i++) {
        if (whole) placement_set(&t, m, of[i], p->n_gpu_experts);
        else placement_set(&t, m, p->n_layers, of[i]);
        rc = placement_need(&t, m, f, e) || times(&t, m, o, 1, ms, e) ? -1 : 0;
        if (!rc)
            engine_note(o, "%4d %9.0f MiB %9.2f ms %9.2f ms%s", of[i],
                        gpu_bytes_of(&t.need[GPU], f, f->n_pages) / mib, ms[ONE], ms[MANY],
                        of[i] == chosen ? "  (this run)" : "");
    }
    free(t.lists);
    return rc;
}

/* ---- what is said of a run that is not begun */

/* Of the CPU, or of a GPU that has room for all: what less on it would cost. */
static int say_alone(const struct placement *p, const struct model *m,
                     const struct engine_options *o, const struct forward_options *f, struct err *e)
{
    struct placement two = *p;
    double ms[N_STEPS];
    if (p->entry[GPU]->probe) {
        int rc = placement_add_host(&two, o, m, e) ? -1 : say_choices(&two, m, o, f, e);
        free(two.lists);
        return rc;
    }
    if (times(p, m, o, 1, ms, e)) return -1;
    engine_note(o,
                "by a model of time (CPU %.0f GB/s), not measured, a step of 1 and of %d "
                "sequences at %d positions: %.2f ms and %.2f ms; --gpu-memory SIZE says what a GPU "
                "would compute",
                costs_of(o).host_bytes / 1e9, FORWARD_MANY, DEPTH, ms[ONE], ms[MANY]);
    return 0;
}

/* How several GPUs may share the work. */
static const struct {
    const char *name;
    enum parallel mode;
} ways[] = {{"one GPU", PARALLEL_AUTO},
            {"tensor", PARALLEL_TENSOR},
            {"layers", PARALLEL_LAYERS},
            {"data", PARALLEL_DATA}};
enum { N_WAYS = sizeof ways / sizeof *ways };

/* Opens *t as that way has it; by data it is one GPU. */
static int open_way(struct placement *t, int way, const struct placement *p, const struct model *m,
                    const struct engine_options *o, const struct forward_options *f, struct err *e)
{
    const enum parallel mode = ways[way].mode;
    if (mode == PARALLEL_TENSOR || mode == PARALLEL_LAYERS)
        return placement_open_gpus(t, o, m, p->entry[GPU], f, mode, e);
    *t = *p;
    t->lists = NULL;
    t->n = 1;
    t->has_gpus = 0;
    return placement_need(t, m, f, e);
}

static enum parallel mode_of(const struct placement *p)
{
    if (!p->has_gpus) return PARALLEL_DATA;
    return p->want.rule == SPLIT_LAYERS ? PARALLEL_LAYERS : PARALLEL_TENSOR;
}

static int say_way(int way, const struct placement *p, const struct model *m,
                   const struct engine_options *o, const struct forward_options *f, struct err *e)
{
    const enum parallel mode = ways[way].mode;
    const int share = mode == PARALLEL_DATA ? o->n_devices : 1;
    struct forward_options own = *f;
    struct placement t;
    double ms[N_STEPS], most = 0;
    own.n_microbatches = mode == PARALLEL_LAYERS ? o->n_devices : 1;
    if (open_way(&t, way, p, m, o, &own, e) || times(&t, m, o, share, ms, e)) return -1;
    for (int q = 0; q < t.n; q++) {
        double bytes = gpu_bytes_of(&t.need[q], &own, own.max_pages);
        if (bytes > most) most = bytes;
    }
    const uint64_t limit = placement_gpu_memory(o);
    engine_note(o, "%-8s %9.0f MiB %9.2f ms %9.2f ms %9.2f ms%s%s", ways[way].name, most / mib,
                ms[ONE], ms[MANY], ms[PROMPT],
                limit && most > (double)limit ? "  (more than --gpu-memory)" : "",
                mode == mode_of(p) ? "  (this run)" : "");
    return 0;
}

static int say_ways(const struct placement *p, const struct model *m,
                    const struct engine_options *o, const struct forward_options *f, struct err *e)
{
    const struct costs c = costs_of(o);
    engine_note(o,
                "%d GPUs: memory of each with one context; by a model of time (%.0f GB/s, %.0f "
                "Tflop/s, %.0f us an exchange and %.0f for each further GPU, %.0f GB/s), not "
                "measured, a step of 1 and of %d sequences at %d positions, %d tokens of prompts",
                o->n_devices, c.gpu_bytes / 1e9, c.gpu_ops / 1e12, c.exchange * 1e6,
                c.further * 1e6, c.link / 1e9, FORWARD_MANY, DEPTH, steps[PROMPT].rows);
    for (int i = 0; i < N_WAYS; i++) {
        if (ways[i].mode == PARALLEL_LAYERS && o->n_devices > p->n_layers) continue;
        if (say_way(i, p, m, o, f, e)) return -1;
    }
    return 0;
}

int split_table_say(const struct placement *p, const struct model *m,
                    const struct engine_options *o, const struct forward_options *f, struct err *e)
{
    const int is_split = p->n > 1 && !p->has_gpus;
    if (!is_split && !o->survey) return 0;
    if (is_split && !placement_is_exact(p))
        engine_note(
            o,
            "note: with --act %s, the CPU's part in %s, bytes of answers are those of this split; "
            "--same-bits has the same ones in every split and on one device",
            o->act, act_formats[p->place[HOST].act].name);
    if (o->quiet) return 0;
    say_places(p, m, o, f);
    if (o->n_devices > 1) return say_ways(p, m, o, f, e);
    return is_split ? say_choices(p, m, o, f, e) : say_alone(p, m, o, f, e);
}
