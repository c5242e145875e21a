/* checkop.c: compares every variant of every operation with the reference.
 * usage: checkop [--backend NAME] [--hip-library PATH] [--device N] [--variant NAME,..]
 *                [--op NAME,..] [--act i16|int8|int4] [--seed N] [--quick] [--first] [--mutate]
 * [--list]
 * --act: --backend hip alone in this arithmetic, to the bit as the CPU's variant scalar
 * --quick: the small cases, and no mutants; --first: an operation ends with its first failure;
 * --mutate: only mutants */
#include "tests/checkop/checkop.h"

#include "backend-cpu/cpu.h"
#include "backend-hip/hip.h"
#include "engine/backends.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const struct operation ops[] = {
    {"linear", check_linear},
    {"f16", check_linear_f16},
    {"i16", check_linear_i16},
    {"int8", check_linear_int8},
    {"int4", check_linear_int4},
    {"token", check_linear_token},
    {"paper", check_paper},
    {"outlier", check_outlier},
    {"embed", check_embed},
    {"norm", check_norm},
    {"add", check_add},
    {"rope", check_rope},
    {"attend", check_attend},
    {"latent", check_latent},
    {"choose", check_choose},
    {"glu", check_glu},
    {"softcap", check_softcap},
    {"sums", check_sums},
    {"conv", check_conv},
    {"delta", check_delta},
    {"mamba", check_mamba},
    {"scan", check_scan},
    {"channels", check_channels},

    {"gather", check_gather},
    {"route", check_route},
    {"experts", check_experts},
    {"mix", check_mix},
    {"argmax", check_argmax},
    {"top", check_top},
    {"score", check_score},
    {"sample", check_sample},
    {"fuse", check_fuse},
    {"many", check_linear_many},
    {"gptq", check_gptq}, /* of no step */
    {NULL, NULL},
};

static int has_act(const struct backend_entry *b, enum act act)
{
    int has = 0;
    for (int i = 0; i < b->n_acts; i++) has |= b->act[i] == act;
    return has;
}

struct args {
    const char *backend, *variant, *op;
    uint64_t seed;
    int quick, first, mutate, list;
};

static int usage(const char *why)
{
    fprintf(stderr,
            "checkop: %s\nusage: checkop [--backend " BACKEND_CHOICE
            "] [--hip-library PATH] [--device N] "
            "[--variant NAME,..] [--op NAME,..] [--act i16|int8] [--seed N] "
            "[--quick] [--first] [--mutate] [--list]\n",
            why);
    return 2;
}

struct gpu_choice gpu;

/* Operations that are not listed here exist in every backend. */
int has(const struct variant *v, const char *op)
{
    const struct backend_entry *b = backend_find(v->ops->name);
    if (!strcmp(op, "i16")) return has_act(b, ACT_I16);
    if (!strcmp(op, "int8")) return has_act(b, ACT_INT8);
    if (!strcmp(op, "int4")) return has_act(b, ACT_INT4);
    if (!strcmp(op, "token")) return has_act(b, ACT_INT8_TOKEN);
    if (!strcmp(op, "f16")) return has_act(b, ACT_F16);
    if (!strcmp(op, "many")) return has_act(b, ACT_F16) && strcmp(b->ops->name, "cpu");
    if (!strcmp(op, "outlier")) return has_act(b, ACT_I16) && has_act(b, ACT_INT8);
    if (!strcmp(op, "gptq")) return b->ops->gptq || gpu.act != ACT_F32;
    if (!strcmp(op, "paper")) return b->paper;
    if (!strcmp(op, "route")) return b->ops->kinds >> OP_ROUTE & 1;
    if (!strcmp(op, "choose")) return b->ops->kinds >> OP_CHOOSE & 1;
    if (!strcmp(op, "experts")) return b->ops->kinds >> OP_EXPERTS & 1;
    if (!strcmp(op, "mix")) return b->ops->kinds >> OP_MIX & 1;
    if (!strcmp(op, "conv")) return b->ops->kinds >> OP_CONV & 1;
    if (listed("delta,mamba,scan,channels", op)) return b->ops->kinds >> OP_DELTA & 1;
    if (!strcmp(op, "top")) return b->ops->kinds >> OP_TOP & 1;
    if (!strcmp(op, "score")) return b->ops->kinds >> OP_SCORE & 1;
    if (!strcmp(op, "sample")) return b->ops->kinds >> OP_SAMPLE & 1;
    if (!strcmp(op, "add")) return b->ops->kinds >> OP_ADD & 1;
    return 1;
}

int in_this_arithmetic(const char *op)
{
    return gpu.act == ACT_F32 ||
           !listed(gpu.act == ACT_INT4 ? "f16,many,i16,int8,token,paper,outlier"
                                       : "f16,many,i16,int8,token,int4,paper,outlier",
                   op);
}

int listed(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = list; (at = strstr(at, name)) != NULL; at++)
        if ((at == list || at[-1] == ',') && (!at[n] || at[n] == ',')) return 1;
    return 0;
}

/* The variants asked for that this machine can run; the others are reported. */
static void find_variants(struct check *c, const struct args *a, int *n_skipped)
{
    for (const struct backend_entry *b = backend_entries; b->ops; b++)
        for (int i = 0; b->variant(i); i++) {
            /* the reference adds in double precision */
            struct variant v = {b->ops, b->variant(i), strcmp(b->variant(i), "ref") != 0};
            struct be_config config = plain_config(1);
            struct be *be;
            struct err e;
            if (strcmp(a->backend, v.ops->name)) continue;
            if (a->variant && !listed(a->variant, v.name)) continue;
            if (gpu.act != ACT_F32 && i > 0) continue;
            config.variant = v.name;
            config.n_threads = 1;
            config.own = gpu_own(0);
            config.device = gpu.device;
            if (v.ops->open(&be, &config, &e)) {
                printf("SKIP %s %s: %s\n", v.ops->name, v.name, e.msg);
                ++*n_skipped;
                continue;
            }
            v.ops->close(be);
            if (a->list) printf("%s %s\n", v.ops->name, v.name);
            CHECK(c->n < MAX_VARIANTS);
            c->v[c->n++] = v;
        }
}

/* Whether the images of the device have the paper's kernels (ABLATION in images.h); the reason why
 * not is printed. */
static int has_ablation(const struct variant *v)
{
    struct be_config config = plain_config(1);
    struct be *be;
    struct err e;
    config.variant = hip_paper_variant_name(0);
    config.own = gpu_own(0);
    config.device = gpu.device;
    config.act = ACT_F16;
    if (v->ops->open(&be, &config, &e)) {
        printf("SKIP paper: %s\n", e.msg);
        return 0;
    }
    v->ops->close(be);
    return 1;
}

static int report(const struct check *c, const char *variant, const struct tally *t,
                  const char *against)
{
    printf("%-4s %-8s %-7s %4ld cases, largest error %.4f of its bound%s%s\n",
           t->n_failed ? "FAIL" : "ok", variant, c->op, t->n_cases, t->worst, *against ? " " : "",
           against);
    if (t->n_failed) printf("     %d comparisons failed\n", t->n_failed);
    fflush(stdout);
    return t->n_failed != 0;
}

int main(int argc, char **argv)
{
    struct args a = {.backend = "cpu", .seed = 1};
    int rc;
    /* buffers come and go by the thousand: the kernel need not clear pages for each */
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    if (backend_asked(argc, argv, &rc)) return rc;
    for (int i = 1; i < argc; i++) {
        const char *o = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(o, "--quick")) a.quick = 1; /* the small cases, no mutants */
        else if (!strcmp(o, "--first")) a.first = 1;
        else if (!strcmp(o, "--mutate")) a.mutate = 1;
        else if (!strcmp(o, "--list")) a.list = 1;
        else if (!value) return usage(o);
        else if (!strcmp(o, "--backend")) a.backend = value, i++;
        else if (!strcmp(o, "--variant")) a.variant = value, i++;
        else if (!strcmp(o, "--hip-library")) gpu.library = value, i++;
        else if (!strcmp(o, "--device")) gpu.device = atoi(value), i++;
        else if (!strcmp(o, "--op")) a.op = value, i++;
        else if (!strcmp(o, "--act") && listed("i16,int8,int4", value))
            gpu.act = backend_act(value), i++;
        else if (!strcmp(o, "--seed")) a.seed = strtoull(value, NULL, 10), i++;
        else return usage(o);
    }
    struct check c = {.ref = {&backend_cpu, "ref", 0},
                      .seed = a.seed,
                      .quick = a.quick,
                      .first = a.first,
                      .act = gpu.act};
    int n_skipped = 0, n_failed = 0, n_passed = 0, n_ops = 0;
    find_variants(&c, &a, &n_skipped);
    if (!c.n) return usage("no such backend or variant here");
    if (gpu.act != ACT_F32) c.v[c.n++] = (struct variant){&backend_cpu, "scalar", 1};
    for (int i = 0; a.list && ops[i].name; i++) printf("op %s\n", ops[i].name);
    if (a.list) return 0;
    struct timespec t0, t1;
    clock_gettime(CLOCK_MONOTONIC, &t0);
    for (int i = 0; ops[i].name && !a.mutate; i++) {
        if ((a.op && !listed(a.op, ops[i].name)) || !has(&c.v[0], ops[i].name) ||
            !has(&c.v[c.n - 1], ops[i].name) || !in_this_arithmetic(ops[i].name))
            continue;
        if (!strcmp(ops[i].name, "paper") && !has_ablation(&c.v[0])) {
            n_skipped++;
            n_ops++;
            continue;
        }
        c.op = ops[i].name;
        memset(&c.ref_tally, 0, sizeof c.ref_tally);
        memset(c.tally, 0, sizeof c.tally);
        ops[i].check(&c);
        n_ops++;
        int bad = 0, n = c.n;
        if (c.ref_tally.n_cases)
            bad += report(&c, "ref", &c.ref_tally, "(against the harness's own arithmetic)"), n++;
        for (int v = 0; v < c.n; v++) bad += report(&c, c.v[v].name, &c.tally[v], "");
        n_failed += bad;
        n_passed += n - bad;
    }
    if (!a.mutate && !n_ops) return usage("no such operation");
    if (a.mutate || (!a.op && !a.quick)) {
        int of = gpu.act != ACT_F32 ? 0 : c.n - 1;
        int n_mutants, missed = check_mutants(&c, &c.v[of], a.op, &n_mutants);
        n_failed += missed;
        n_passed += n_mutants - missed;
    }
    clock_gettime(CLOCK_MONOTONIC, &t1);
    printf("seed %llu, %.1f s\n", (unsigned long long)a.seed,
           (double)(t1.tv_sec - t0.tv_sec) + (double)(t1.tv_nsec - t0.tv_nsec) * 1e-9);
    printf("checkop: %d passed, %d failed, %d skipped\n", n_passed, n_failed, n_skipped);
    return n_failed != 0;
}
