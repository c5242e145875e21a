#include "engine/split_table.h"

#include "core/base/pool.h"

#include <stdio.h>
#include <stdlib.h>

enum { GPU, HOST, MOST_CHOICES = 6 };

/* Assumed rates: bytes a second that a GPU and a thread of the CPU read, and all threads at most;
 * seconds of a change of place. */
static const double gpu_rate = 1e12, thread_rate = 8e9, most_rate = 1.5e11, turn = 3e-5,
                    mib = 1 << 20;

static uint64_t bytes_of(const struct forward_need *n, const struct forward_options *f)
{
    return n->weights + n->page * (uint64_t)f->n_pages + n->state * (uint64_t)forward_n_states(f) +
           n->steps;
}

static double host_rate(const struct engine_options *o)
{
    int n = o->threads ? o->threads : pool_n_cores();
    return n * thread_rate < most_rate ? n * thread_rate : most_rate;
}

/* Seconds of a step: weights are read once, a layer that both compute changes places twice. */
static double seconds(const struct placement *p, const struct engine_options *o, int many)
{
    int turns = p->n_gpu_layers < p->n_layers ? 2 : 0;
    for (int l = 0; l < p->n_layers; l++)
        turns += p->n > 1 && p->want.of_experts[l] != p->want.of_layer[l] ? 2 : 0;
    double s = (double)p->need[GPU].read[many] / gpu_rate + turns * turn;
    if (p->n > 1) s += (double)p->need[HOST].read[many] / host_rate(o);
    return s;
}

static void say_places(const struct placement *p, const struct engine_options *o,
                       const struct forward_options *f)
{
    static const char *const name[] = {"GPU", "CPU"};
    engine_note(
        o, "split   layers      experts of      weights     KV cache       states        steps");
    for (int q = 0; q < p->n; q++) {
        const struct forward_need *n = &p->need[q];
        int layers = q ? p->n_layers - p->n_gpu_layers : p->n_gpu_layers,
            experts = q ? p->n_experts - p->n_gpu_experts : p->n_gpu_experts;
        engine_note(o, "%s  %3d of %3d  %3d of %3d  %9.0f MiB %8.0f MiB %8.0f MiB %8.0f MiB",
                    name[q], layers, p->n_layers, experts, p->n_experts,
                    (double)(n->weights ? n->weights : n->mapped) / mib,
                    (double)(n->page * (uint64_t)f->n_pages) / mib,
                    (double)(n->state * (uint64_t)forward_n_states(f)) / mib,
                    (double)n->steps / mib);
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

static int say_choices(const struct placement *p, const struct model *m,
                       const struct engine_options *o, const struct forward_options *f,
                       struct err *e)
{
    const int whole = p->n_gpu_layers < p->n_layers; /* layers are what is split */
    int of[MOST_CHOICES], n = whole ? choices(p->n_layers, p->n_gpu_layers, of)
                                    : choices(p->n_experts, p->n_gpu_experts, of);
    struct placement t = *p;
    t.lists = calloc(2, (size_t)p->n_layers + 1);
    if (!t.lists) return err_memory(e);
    engine_note(
        o,
        "%s on the GPU: its memory; by a model of time (GPU %.0f GB/s, CPU %.0f GB/s, %.0f us a "
        "change of place), not measured, a step of 1 and of %d sequences",
        whole ? "layers" : "experts of layers", gpu_rate / 1e9, host_rate(o) / 1e9, turn * 1e6,
        FORWARD_MANY);
    int rc = 0;
    for (int i = 0; i < n && !rc; i++) {
        if (whole) placement_set(&t, m, of[i], p->n_gpu_experts);
        else placement_set(&t, m, p->n_layers, of[i]);
        rc = placement_need(&t, m, f, e);
        if (!rc)
            engine_note(o, "%4d %9.0f MiB %9.2f ms %9.2f ms%s", of[i],
                        (double)bytes_of(&t.need[GPU], f) / mib, seconds(&t, o, 0) * 1e3,
                        seconds(&t, o, 1) * 1e3,
                        of[i] == (whole ? p->n_gpu_layers : p->n_gpu_experts) ? "  (this run)"
                                                                              : "");
    }
    free(t.lists);
    return rc;
}

int split_table_say(const struct placement *p, const struct model *m,
                    const struct engine_options *o, const struct forward_options *f, struct err *e)
{
    if (p->n == 1 || p->has_gpus) return 0;
    if (!placement_is_exact(p))
        engine_note(
            o,
            "note: with --act %s, the CPU's part in %s, bytes of answers are those of this split; "
            "--same-bits has the same ones in every split and on one device",
            o->act, act_formats[p->place[HOST].act].name);
    if (o->quiet) return 0;
    say_places(p, o, f);
    return say_choices(p, m, o, f, e);
}
