/* What the kernels for 4-bit linears execute on a gfx906, counted by the interpreter: instructions
 * of all units, bank conflicts of LDS, bytes, for a linear of IN x OUT with groups of 128. As a
 * test against limits; and as a table for scripts/kernel-model. */
#include "backend-hip/kernels/args.h"
#include "tests/emulators/gfx906/test/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP = 128, PREFILL_ROWS = 128 };

/* valu: vector instructions for each weight and row, of a wave's 64 lanes; conflicts: cycles lost
 * for each access to LDS */
static const struct counted {
    const char *name;
    int rows, outputs, inputs, threads; /* of a block; inputs 0: all */
    double valu, conflicts;             /* at most; valu 0: no limit */
    int digits; /* of integer activations; 0: fp16 or fp32 ones */
    int low;    /* 1: of 4 bits, but in the last two groups (ACT_INT4) */
} counted[] = {
    {"q4_decode_f16_1", 1, PANEL, 0, 256, 1.90, 0, 0, 0},
    {"q4_decode_f16_2", 2, PANEL, 0, 256, 1.26, 0, 0, 0},
    {"q4_decode_f16_4", 4, PANEL, 0, 256, 0.93, 0, 0, 0},
    {"q4_decode_f16_8", 8, PANEL, 0, 256, 0.78, 0, 0, 0},
    {"q4_decode_f32_1", 1, PANEL, 0, 256, 2.45, 0, 0, 0},
    {"q4_decode_f32_4", 4, PANEL, 0, 256, 1.50, 0, 0, 0},
    {"q4_prefill_f16", PREFILL_ROWS, 64, 0, 256, 0.65, 0, 0, 0},
    {"exact_q4_1", 1, EXACT_OUTPUTS, 0, 256, 0.59, 0, 1, 0},
    {"exact_q4_1", 1, EXACT_OUTPUTS, 0, 256, 0.86, 0, 2, 0},
    {"exact_q4_4", 4, EXACT_OUTPUTS, 0, 256, 0.39, 0, 1, 0},
    {"exact_q4_4", 4, EXACT_OUTPUTS, 0, 256, 0.66, 0, 2, 0},
    {"exact_q4_8", 8, EXACT_OUTPUTS, 0, 256, 0.35, 0, 1, 0},
    {"exact_q4_8", 8, EXACT_OUTPUTS, 0, 256, 0.63, 0, 2, 0},
    {"exact_q4_8", 16, EXACT_OUTPUTS, 0, 256, 0.35, 0, 1, 0},
    {"exact_q4_8", 16, EXACT_OUTPUTS, 0, 256, 0.62, 0, 2, 0},
    {"exact_q4_8", 32, EXACT_OUTPUTS, 0, 256, 0.35, 0, 1, 0},
    {"exact_q4_1", 1, EXACT_OUTPUTS, 0, 256, 0.39, 0, 1, 1},
    {"exact_q4_4", 4, EXACT_OUTPUTS, 0, 256, 0.24, 0, 1, 1},
    {"exact_q4_8", 8, EXACT_OUTPUTS, 0, 256, 0.21, 0, 1, 1},
    {"exact_q4_8", 32, EXACT_OUTPUTS, 0, 256, 0.20, 0, 1, 1},
    {"exact_q4_8", 32, EXACT_OUTPUTS, 0, 256, 0.62, 0, 2, 0},
#define PAPER(name, images, of_block, smb, vml, ila)                                               \
    {#name, of_block, PAPER_OUTPUTS(smb), PAPER_INPUTS * PAPER_SLICES(smb), PAPER_THREADS, 0, 8,   \
     0,     0},
#include "backend-hip/kernels/kernel_list.h"
};

/* Device memory for a launch; codes, scales and activations of no matter which values. */
struct memory {
    void *weight, *meta, *x, *scale, *y;
};

static int fill(struct memory *m, int in, int out)
{
    const size_t bytes[] = {(size_t)in * (size_t)out / 2, (size_t)in / GROUP * (size_t)out * 4,
                            (size_t)in * PREFILL_ROWS * 4, PREFILL_ROWS * 4,
                            (size_t)out * PREFILL_ROWS * 4};
    void **const d[] = {&m->weight, &m->meta, &m->x, &m->scale, &m->y};
    const uint32_t word[] = {0x12345678, 0x48002c00, 0x3c003c00, 0x3f800000,
                             0}; /* zero 8, scale 2^-4; ones */
    for (int k = 0; k < COUNT(bytes); k++) {
        uint32_t *p = malloc(bytes[k]);
        for (size_t i = 0; p && i < bytes[k] / 4; i++) p[i] = word[k];
        int rc = !p || gpu.alloc(d[k], bytes[k]) || gpu.to_device(*d[k], p, bytes[k]);
        free(p);
        if (rc) return -1;
    }
    return 0;
}

/* Launches it once and reads the counts. */
static int count(void *module, const struct counted *k, const struct memory *m, int in, int out,
                 struct gfx906_stats *s)
{
    struct linear_args a = {.x = m->x,
                            .scale = m->scale,
                            .n_parts = 1,
                            .rows = k->rows,
                            .n_chunks = in / CHUNK,
                            .n_blocks = out / k->outputs};
    struct paper_args p = {m->weight, m->meta, m->x, m->scale, m->y, k->rows, in, out, GROUP};
    a.part[0] = (struct linear_part){.weight = m->weight,
                                     .meta = m->meta,
                                     .y = m->y,
                                     .out = out,
                                     .group_chunks = GROUP / CHUNK,
                                     .group_shift = 2,
                                     .last_group = in / GROUP - 1,
                                     .whole_items = 1};
    struct exact_linear_args e = {
        .linear = a,
        .of = {m->x, (struct exact_scaled *)((char *)m->x + in * k->digits * k->rows), in,
               k->digits, k->rows, 0, k->low, k->low ? in / GROUP - 2 : 0},
        .groups = {GROUP / CHUNK, 1, in / GROUP, in / CHUNK, 0},
        .tiles = k->rows > 8 ? k->rows / 8 : 1};
    size_t bytes = k->inputs ? sizeof p : k->digits ? sizeof e : sizeof a;
    void *args = k->inputs ? (void *)&p : k->digits ? (void *)&e : (void *)&a, *f,
         *extra[] = {(void *)1, args, (void *)2, &bytes, (void *)3};
    gpu.stats_reset();
    return gpu.function(&f, module, k->name) ||
           gpu.launch(f, k->digits ? 1 : (unsigned)(out / k->outputs),
                      k->digits ? (unsigned)(out / k->outputs) : 1,
                      k->inputs ? (unsigned)((in + k->inputs - 1) / k->inputs) : 1,
                      (unsigned)k->threads, 1, 1, 0, NULL, NULL, extra) ||
           gpu.sync() || gpu.stats(k->name, s);
}

void *gfx906_module(const char *build_dir)
{
    static char image[4 << 20];
    char path[4096];
    void *module = NULL;
    snprintf(path, sizeof path, "%s/gpu/gfx906.co", build_dir);
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(image, 1, sizeof image, f) : 0;
    if (f) fclose(f);
    gpu.reset();
    return n == 0 || n == sizeof image || gpu.load(&module, image) ? NULL : module;
}

int print_counts(const char *build_dir, int in, int out)
{
    struct memory m;
    void *module = NULL;
    if (in > 0 && in % GROUP == 0 && out > 0 && out % 512 == 0) module = gfx906_module(build_dir);
    if (!module || fill(&m, in, out)) {
        fprintf(stderr, "gfx906: --count: needs a build with clang-19, IN a multiple of 128 and "
                        "OUT one of 512\n");
        return 1;
    }
    printf("kernel\trows\tblocks\twaves\tvalu\tsalu\tsmem\tvmem\tlds\tother\tloaded\tstored\tatomic"
           "s\tlds_"
           "bytes\tconflicts\tbarriers\tvgprs\tlds_size\n");
    for (int i = 0; i < COUNT(counted); i++) {
        struct gfx906_stats s;
        if (count(module, &counted[i], &m, in, out, &s)) {
            fprintf(stderr, "gfx906: %s: %s\n", counted[i].name, gpu.last_fault());
            return 1;
        }
        const uint64_t n[] = {s.blocks,        s.waves,        s.valu,    s.salu,
                              s.smem,          s.vmem,         s.lds,     s.branch + s.other,
                              s.bytes_loaded,  s.bytes_stored, s.atomics, s.lds_bytes,
                              s.lds_conflicts, s.barriers};
        printf("%s", counted[i].name);
        if (counted[i].low) printf("/int4/%d", counted[i].rows);
        else if (counted[i].digits) printf("/%d/%d", counted[i].digits, counted[i].rows);
        printf("\t%d", counted[i].rows);
        for (int k = 0; k < COUNT(n); k++) printf("\t%llu", (unsigned long long)n[k]);
        printf("\t%u\t%u\n", s.vgprs, s.lds_size);
    }
    return 0;
}

void test_kernel_counts(const char *build_dir)
{
    enum { IN = 4096, OUT = 512 };
    struct memory m;
    void *module = gfx906_module(build_dir);
    if (!module) {
        skip("counts of the kernels: no code object for gfx906 in this build");
        return;
    }
    if (fill(&m, IN, OUT)) {
        check(0, "memory for the counts");
        return;
    }
    for (int i = 0; i < COUNT(counted); i++) {
        const struct counted *k = &counted[i];
        struct gfx906_stats s;
        if (count(module, k, &m, IN, OUT, &s)) {
            check(0, "%s: %s", k->name, gpu.last_fault());
            continue;
        }
        double valu = (double)s.valu * 64 / IN / OUT / k->rows,
               conflicts = (double)s.lds_conflicts / (double)s.lds;
        check(k->valu == 0 || valu <= k->valu,
              "%s: %.3f vector instructions a weight and row, at most %.2f", k->name, valu,
              k->valu);
        check(conflicts <= k->conflicts,
              "%s: %.2f cycles of bank conflicts for each access to LDS, at most %.2f", k->name,
              conflicts, k->conflicts);
    }
    gpu.unload(module);
}
