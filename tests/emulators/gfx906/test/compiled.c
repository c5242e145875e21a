/* Kernels compiled by clang-19 (kernels.hip), at -O3 and at -O0, against the same computation here;
 * and each s_barrier and s_waitcnt of the machine code taken out in turn, which must be noticed. */
#include "tests/emulators/gfx906/test/harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *module;
static const char *level;
static uint32_t seed = 1;

static uint32_t next(void) { return seed = seed * 1664525 + 1013904223; }
static float next_float(void) { return (float)(int32_t)next() * 0x1p-29f; }

/* While a mutant runs, what is wrong is counted and not reported. */
static int mutant, n_wrong;
#define verify(ok, ...) (mutant ? (void)(n_wrong += !(ok)) : check(ok, __VA_ARGS__))

static void *up(const void *p, size_t bytes)
{
    void *d = NULL;
    if (gpu.alloc(&d, bytes) || gpu.to_device(d, p, bytes)) verify(0, "memory for %s", level);
    return d;
}

/* Launches and reads the last argument back. */
static int run(const char *name, unsigned grid, unsigned bx, unsigned by, unsigned bz, void **args,
               int n, void *out, size_t bytes)
{
    void *f, *params[4];
    for (int k = 0; k < n; k++) params[k] = &args[k];
    int rc = gpu.function(&f, module, name);
    if (!rc) rc = gpu.launch(f, grid, 1, 1, bx, by, bz, 0, NULL, params, NULL);
    if (!rc) rc = gpu.sync();
    if (!rc) rc = gpu.to_host(out, args[n - 1], bytes);
    for (int k = 0; k < n; k++) gpu.free(args[k]);
    if (rc) verify(0, "%s %s: %d %s", name, level, rc, gpu.last_fault());
    return rc;
}

static void rotate_sum(void)
{
    static float in[1024], out[4];
    float want[4] = {0};
    for (int k = 0; k < 1024; k++) in[k] = (float)(int)(next() >> 20), want[k / 256] += in[k];
    if (run("rotate_sum", 4, 256, 1, 1, (void *[]){up(in, sizeof in), up(out, sizeof out)}, 2, out,
            sizeof out))
        return;
    verify(!memcmp(out, want, sizeof out), "rotate_sum %s: %g %g %g %g", level, out[0], out[1],
           out[2], out[3]);
}

static void divide(void)
{
    static int32_t in[512], out[1024], want[1024];
    for (int k = 0; k < 512; k++) in[k] = (int32_t)(next() >> next() % 24);
    in[1] = 0, in[2] = -7, in[3] = 2, in[5] = -3;
    for (int i = 0; i < 256; i++) {
        int64_t a = in[2 * i], b = in[2 * i + 1];
        want[4 * i] = b ? (int32_t)(a / b) : 0, want[4 * i + 1] = b ? (int32_t)(a % b) : 0;
        want[4 * i + 2] = b ? (int32_t)((uint64_t)(uint32_t)a * 1000003 / (uint32_t)b) : 0,
                     want[4 * i + 3] = (int32_t)((a * b) >> 13);
    }
    if (run("divide", 4, 64, 1, 1, (void *[]){up(in, sizeof in), up(out, sizeof out)}, 2, out,
            sizeof out))
        return;
    verify(!memcmp(out, want, sizeof out), "divide %s", level);
}

/* to an ulp and a half: double sums may be fused */
static int close_to(float x, float y) { return x == y || fabsf(x - y) <= 0x1.8p-23f * fabsf(y); }

static void floats(void)
{
    static float in[200], out[400];
    int good = 1;
    for (int k = 0; k < 200; k++)
        in[k] = next_float() * (k % 10 == 3 ? 1e20f : k % 10 == 6 ? 1e-30f : 1);
    if (run("floats", 1, 100, 1, 1, (void *[]){up(in, sizeof in), up(out, sizeof out)}, 2, out,
            sizeof out))
        return;
    for (int i = 0; i < 100; i++) {
        float a = in[2 * i], b = in[2 * i + 1];
        good &= close_to(out[4 * i], a / b) && close_to(out[4 * i + 1], sqrtf(b * b));
        if (fabsf(a) < 2e7f && fabsf(b) < 65536)
            good &= out[4 * i + 2] == (float)(int32_t)(a * 100) + (float)(uint32_t)(b * b);
        good &= close_to(out[4 * i + 3], (float)((double)a * (double)b + 1.0 / 3));
    }
    verify(good, "floats %s", level);
}

static void stack(void)
{
    static int32_t in[64], out[64];
    int32_t want[64] = {0};
    for (int k = 0; k < 64; k++) in[k] = (int32_t)(next() >> 12);
    for (int t = 0; t < 64; t++) {
        int32_t table[16];
        for (int k = 0; k < 16; k++) table[k] = in[(t + k) & 63];
        for (int k = 0; k < 16; k++) table[table[k] & 15] += k;
        for (int k = 0; k < 16; k++) want[t] += table[k] * (k + 1);
    }
    if (run("stack", 1, 64, 1, 1, (void *[]){up(in, sizeof in), up(out, sizeof out)}, 2, out,
            sizeof out))
        return;
    verify(!memcmp(out, want, sizeof out), "stack %s", level);
}

static void transpose(void)
{
    static int32_t in[96], out[96], want[96];
    for (int k = 0; k < 96; k++) in[k] = (int32_t)(next() >> 4);
    for (int i = 0; i < 96; i++) {
        int vx = i % 8, vy = i / 8 % 4, vz = i / 32, j = (vx * 4 + vy) * 3 + vz;
        want[i] = in[j] + (uint8_t)in[95 - j] + (uint16_t)(in[j] >> 8);
    }
    if (run("transpose", 1, 8, 4, 3, (void *[]){up(in, sizeof in), up(out, sizeof out)}, 2, out,
            sizeof out))
        return;
    verify(!memcmp(out, want, sizeof out), "transpose %s", level);
}

/* fp16 of small integers and quarters, so that every result here is exact in fp32 and rounded once
 */
static void halves(void)
{
    static _Float16 in[600], out[400];
    static float dots[100];
    int good = 1;
    for (int k = 0; k < 600; k++) in[k] = (_Float16)((float)(int)(next() >> 22) * 0.03125f - 16);
    void *o = up(out, sizeof out), *d = up(dots, sizeof dots), *f = NULL, *a = up(in, sizeof in),
         *params[] = {&a, &o, &d};
    int rc = gpu.function(&f, module, "halves");
    if (!rc) rc = gpu.launch(f, 1, 1, 1, 100, 1, 1, 0, NULL, params, NULL);
    if (!rc) rc = gpu.sync();
    if (!rc) rc = gpu.to_host(out, o, sizeof out);
    if (!rc) rc = gpu.to_host(dots, d, sizeof dots);
    for (int i = 0; i < 100 && !rc; i++) {
        const _Float16 *p = &in[6 * i];
        float sum = (float)p[4];
        for (int k = 0; k < 2; k++) {
            float product = (float)p[k] * (float)p[2 + k], once = product + (float)p[4 + k];
            sum = fmaf((float)p[k], (float)p[2 + k], sum);
            good &= out[4 * i + k] == (_Float16)once ||
                    out[4 * i + k] ==
                        (_Float16)((float)(_Float16)product + (float)p[4 + k]); /* fused or not */
        }
        good &= out[4 * i + 2] == (_Float16)((float)p[1] - (float)p[4]) &&
                out[4 * i + 3] == (_Float16)((float)p[2] * 2) && dots[i] == sum;
    }
    verify(!rc && good, "halves %s: %d %s", level, rc, gpu.last_fault());
    gpu.free(a);
    gpu.free(o);
    gpu.free(d);
}

static void count(void)
{
    static float in[512];
    uint32_t n = 0, last = 0, positive = 0, before = 0;
    float sum = 0, want = 0;
    for (int k = 0; k < 512; k++) {
        in[k] = (float)((int)(next() >> 24) - 128);
        positive += in[k] > 0, want += in[k];
        if (k == 383) before = positive;
    }
    void *a = up(in, sizeof in), *b = up(&n, 4), *c = up(&sum, 4), *d = up(&last, 4), *f = NULL,
         *params[] = {&a, &b, &c, &d};
    int rc = gpu.function(&f, module, "count");
    if (!rc) rc = gpu.launch(f, 4, 1, 1, 128, 1, 1, 0, NULL, params, NULL);
    if (!rc) rc = gpu.sync();
    if (!rc) rc = gpu.to_host(&n, b, 4);
    if (!rc) rc = gpu.to_host(&sum, c, 4);
    if (!rc) rc = gpu.to_host(&last, d, 4);
    verify(!rc && n == positive && sum == want && last == before,
           "count %s: %d, %u of %u, %g of %g, %s", level, rc, n, positive, sum, want,
           gpu.last_fault());
}

static void run_all(void)
{
    static void (*const kernels[])(void) = {rotate_sum, divide, floats, stack,
                                            transpose,  halves, count};
    for (int k = 0; k < COUNT(kernels); k++) {
        gpu.reset();
        kernels[k]();
    }
    gpu.reset();
}

/* Replaces one instruction after the other by s_nop. A wait may be missing unnoticed where it is
 * for a path that these inputs do not take: one in twenty. */
static void run_mutants(const char *image, size_t bytes)
{
    static char changed[1 << 20];
    const uint32_t s_nop = 0xbf800000;
    int n_mutants[2] = {0}, n_noticed[2] = {0};
    mutant = 1;
    for (size_t at = 0; at + 4 <= bytes; at += 4) {
        uint32_t word;
        memcpy(&word, image + at, 4);
        int barrier = word == 0xbf8a0000, wait = word >> 16 == 0xbf8c && at > 0x1000;
        if (!barrier && !wait) continue;
        memcpy(changed, image, bytes);
        memcpy(changed + at, &s_nop, 4);
        if (gpu.load(&module, changed)) continue;
        n_wrong = 0;
        run_all();
        gpu.unload(module);
        n_mutants[barrier]++;
        n_noticed[barrier] += n_wrong > 0;
    }
    mutant = 0;
    check(n_mutants[1] > 5 && n_noticed[1] == n_mutants[1], "%d of %d missing barriers are noticed",
          n_noticed[1], n_mutants[1]);
    check(n_mutants[0] > 30 && 20 * n_noticed[0] >= 19 * n_mutants[0],
          "%d of %d missing waits are noticed", n_noticed[0], n_mutants[0]);
}

void test_compiled(const char *build_dir)
{
    static const char *const levels[] = {"O3", "O0"};
    for (int k = 0; k < COUNT(levels); k++) {
        char path[4096];
        level = levels[k];
        snprintf(path, sizeof path, "%s/tests/bin/gfx906-kernels-%s.co", build_dir, level);
        FILE *f = fopen(path, "rb");
        if (!f) {
            skip("kernels compiled for gfx906: no clang-19 when the tests were built");
            continue;
        }
        static char image[1 << 20];
        size_t n = fread(image, 1, sizeof image, f);
        fclose(f);
        gpu.reset();
        if (n == 0 || n == sizeof image || gpu.load(&module, image)) {
            check(0, "%s cannot be loaded", path);
            continue;
        }
        run_all();
        gpu.unload(module);
        if (!strcmp(level, "O3")) run_mutants(image, n);
    }
}
