/* main.c: opt4gptq-bench: opens the model, says what it is, calls the mode. */
#include "bench/bench.h"
#include "bench/setup.h"
#include "bench/shape.h"
#include "engine/backends.h"
#include "core/base/process.h"

#include <stdio.h>
#include <string.h>

enum { EXIT_USAGE = 2 };

static void read_cpu_info(char *out, size_t n)
{
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "r");
    snprintf(out, n, "unknown processor");
    while (f && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) || !colon) continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(out, n, "%s", colon + 1 + strspn(colon + 1, " "));
        break;
    }
    if (f) fclose(f);
}

static void describe_model(struct bench_facts *f, const struct model *m, const char *filename)
{
    const struct linear *w = NULL; /* the first 4-bit one */
    char quantized[32] = "unquantized";
    cost_model(m, &f->model_bytes, &f->n_params);
    f->filename = filename;
    for (int i = 0; i < m->plan.n_weights && !w; i++)
        if (!m->plan.weight[i].vector && m->plan.weight[i].linear.codes)
            w = &m->plan.weight[i].linear;
    if (w) snprintf(quantized, sizeof quantized, "4-bit g%d", w->group);
    snprintf(f->model_type, sizeof f->model_type,
             f->n_params < 1e8 ? "%s %.0fM %s%s" : "%s %.1fB %s%s", m->config.architecture,
             f->n_params * (f->n_params < 1e8 ? 1e-6 : 1e-9), quantized,
             m->file.map ? "" : " (made up)");
}

/* Whether there are such variants, here or elsewhere. */
static int check_variants(const struct bench_options *o, struct err *e)
{
    for (const struct backend_entry *b = backend_entries; b->ops; b++) {
        const struct args_texts *v = bench_options_variants(o, b);
        for (int i = 0; i < v->n && b->knows_variant; i++)
            if (!b->knows_variant(v->v[i]))
                return err_set(e, "%s %s: unknown (opt4gptq-run --version lists them)",
                               b->variant_option, v->v[i]);
    }
    return 0;
}

/* Whether this machine runs them. */
static int check_machine(const struct bench_options *o, struct err *e)
{
    const struct backend_entry *b = backend_find(o->backend);
    const struct args_texts *v = bench_options_variants(o, b);
    for (int i = 0; i < v->n && b->check_variant; i++)
        if (b->check_variant(v->v[i], e)) return -1;
    return 0;
}

static int measure(const struct bench_options *o, struct out *out, struct err *e)
{
    struct bench_facts facts = {0};
    struct model m = {0};
    read_cpu_info(facts.cpu_info, sizeof facts.cpu_info);
    if (check_machine(o, e)) return -1;
    if (o->probe) return bench_probe(o, &facts, out, e);
    if (o->ablation) return bench_ablation(o, &facts, out, e);
    const struct shape *shape = &shapes[0];
    if (o->shape.n && shape_find(o->shape.v[0], &shape, e)) return -1;
    if (o->model ? model_open(&m, o->model, e) : shape_open(&m, shape, o->layers, e)) return -1;
    const char *name = shape == &shapes[0] ? "TinyLlama-1.1B" : shape->name;
    if (o->schemas) {
        int rc = bench_schemas(o, &m, out, e);
        model_close(&m);
        return rc;
    }
    char made[64];
    snprintf(made, sizeof made, "made-up %s", name);
    describe_model(&facts, &m, o->model ? o->model : made);
    if (!o->model)
        fprintf(stderr,
                "opt4gptq-bench: made-up weights of %s's shape, %.2f GB (-m FILE "
                "measures a model)%s",
                name, facts.model_bytes * 1e-9, o->ops || o->roofline ? "\n" : ": ");
    int rc = (o->ops        ? bench_ops
              : o->roofline ? bench_roofline
                            : bench_runs)(o, &m, &facts, out, e);
    if (o->model) model_close(&m);
    else shape_close(&m);
    return rc;
}

int main(int argc, char **argv)
{
    struct bench_options o;
    struct out out;
    struct err e = {0};
    int rc = EXIT_USAGE;
    if (backend_asked(argc, argv, &rc)) return rc;
    process_begin("opt4gptq-bench");
    if (!bench_options_parse(&o, argc, argv, &e)) {
        if (args_asks(&o.common)) {
            if (!args_print(&bench_program, &o.common, stdout))
                args_version(&bench_program, stdout);
            return fflush(stdout) ? 1 : 0;
        }
        if (!check_variants(&o, &e)) {
            out_open(&out, o.output);
            rc = bench_options_settle(&o, &e) || measure(&o, &out, &e) || out_close(&out, &e);
        }
    }
    if (e.msg[0]) fprintf(stderr, "opt4gptq-bench: %s\n", e.msg);
    return rc;
}
