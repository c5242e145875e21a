#include "backend-hip/hip_kernels.h"

#include "backend-hip/hip.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define COLUMNS(n, set, of, t, b, s)                                                               \
    .name = #n, .images = IMAGES_##set, .op = of, .threads = t, .blocks = b, .shared = s

const struct hip_kernel_row hip_kernels[K_COUNT] = {
#define KERNEL_ROW(n, set, of, t, b, s, of_row, most)                                              \
    [K_##n] = {COLUMNS(n, set, of, t, b, s), .pieces = of_row, .spread = most},
#define LINEAR(n, set, of, t, b, s, ...) [K_##n] = {COLUMNS(n, set, of, t, b, s), __VA_ARGS__},
#include "backend-hip/kernels/kernel_list.h"
};

int hip_image_family(const char *arch)
{
    static const struct {
        const char *prefix;
        int family;
    } family[] = {{"gfx906", IMAGES_GFX906}, {"gfx908", IMAGES_MFMA}, {"gfx90a", IMAGES_MFMA},
                  {"gfx94", IMAGES_MFMA},    {"gfx95", IMAGES_MFMA},  {"gfx9-4", IMAGES_MFMA},
                  {"gfx11", IMAGES_WMMA},    {"gfx12", IMAGES_WMMA12}, {"sm_80", IMAGES_SM80},
                  {"sm_90a", IMAGES_SM90}};
    for (size_t i = 0; i < sizeof family / sizeof *family; i++)
        if (!strncmp(arch, family[i].prefix, strlen(family[i].prefix))) return family[i].family;
    return IMAGES_VECTOR;
}

/* Linear kernel number i of an operation, or NULL. */
static const char *linear_name(enum kernel_op op, int i)
{
    for (int k = 0; k < K_COUNT; k++)
        if (hip_kernels[k].op == op && hip_kernels[k].rows && i-- == 0) return hip_kernels[k].name;
    return NULL;
}

const char *hip_variant_name(int i) { return i == 0 ? "auto" : linear_name(FOR_LINEAR, i - 1); }

const char *hip_paper_variant_name(int i) { return linear_name(FOR_PAPER, i); }

/* A text [size] and its length before any cut. */
struct text {
    char *at;
    size_t size, length;
};

static void __attribute__((format(printf, 2, 3))) add(struct text *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    size_t from = t->length < t->size ? t->length : t->size;
    int n = vsnprintf(t->at + from, t->size - from, fmt, ap);
    va_end(ap);
    if (n > 0) t->length += (size_t)n;
}

/* The length of a name without its last word. */
static int stem(const char *name) { return (int)(strrchr(name, '_') + 1 - name); }

static int same_stem(const char *a, const char *b)
{
    return a && b && stem(a) == stem(b) && !strncmp(a, b, (size_t)stem(a));
}

static int next_linear(int images, int k)
{
    while (++k < K_COUNT)
        if (hip_kernels[k].rows && hip_kernels[k].op == FOR_LINEAR &&
            hip_kernels[k].images & images)
            return k;
    return K_COUNT;
}

/* The paper's kernels, which an image has with 1 to 8 rows or not: "paper_{base,smb}_{1..8}". */
static void add_papers(struct text *t)
{
    const int prefix = (int)strlen("paper_");
    const char *before = "";
    for (int k = 0; k < K_COUNT; k++) {
        const char *name = hip_kernels[k].name;
        if (hip_kernels[k].op != FOR_PAPER || hip_kernels[k].rows != 1) continue;
        add(t, "%s%.*s", *before ? "," : ", paper_{", stem(name) - 1 - prefix, name + prefix);
        before = name;
    }
    add(t, "}_{1..8}");
}

size_t hip_variant_names(int images, char *text, size_t size)
{
    struct text t = {text, size, 0};
    const char *before = NULL;
    add(&t, "auto");
    for (int k = next_linear(images, -1); k < K_COUNT;) {
        int after = next_linear(images, k);
        const char *name = hip_kernels[k].name,
                   *next = after < K_COUNT ? hip_kernels[after].name : NULL;
        int goes_on = same_stem(name, next);
        if (same_stem(before, name)) add(&t, ",%s", name + stem(name));
        else
            add(&t, ", %.*s%s%s", stem(name), name, goes_on ? "{" : "", name + stem(name));
        if (same_stem(before, name) && !goes_on) add(&t, "}");
        before = name;
        k = after;
    }
    if (images & IMAGES_ABLATION) add_papers(&t);
    return t.length;
}

int hip_find_variant(const char *name, int images, int *k, struct err *e)
{
    char names[512];
    *k = -1;
    if (!name || !strcmp(name, "auto")) return 0;
    for (int i = 0; i < K_COUNT; i++)
        if (hip_kernels[i].rows && hip_kernels[i].op != FOR_EXPERTS &&
            hip_kernels[i].op != FOR_GEMV && !strcmp(hip_kernels[i].name, name)) {
            *k = i;
            return 0;
        }
    CHECK(hip_variant_names(images, names, sizeof names) < sizeof names);
    return err_set(e, "--variant %.16s: is not %s", name, names);
}
