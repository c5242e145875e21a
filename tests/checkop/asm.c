/* asm.c: checks the compiled inner loops of the CPU variants, read from `objdump -d` of the object
 * files. usage: asm BUILD_DIR [TOOL_PREFIX]   (aarch64-linux-gnu- for the objects of a cross build)
 * A loop is the set of instructions on the paths from the target of a backward jump to that jump;
 * an inner loop contains no other loop. Inner loops that multiply and add vectors must have no
 * gather, no call, no division (except silu's and softplus's) and no vector register stored on the
 * stack (a spill); they may reload constants and addresses from the stack. Their instruction counts
 * are printed. asm_sample.c has one loop with each fault, which must be found. Must not know: the
 * kernels; every function of a variant's object is searched. */
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_INSNS = 65536, MAX_LOOPS = 1024 };

struct insn {
    unsigned long at;
    char op[16], args[96];
};

static struct insn insn[MAX_INSNS]; /* of the function being read */
/* jumps to an instruction as a list; -1 ends it */
static int first_jump[MAX_INSNS], next_jump[MAX_INSNS];
static int n_insns, n_passed, n_failed, n_skipped;

static const struct variant {
    const char *name, *format;
    const char *need[2]; /* instructions that must occur in some inner loop */
    int only_q4i;        /* q4i is its only kernel of its own */
    int spills;          /* known spills of gcc 12 in all inner loops together; the aim is 0 */
} variants[] = {
    {"avx2", "elf64-x86-64", {"vfmadd", "vpmaddubsw"}, 0, 4},
    {"avx512", "elf64-x86-64", {"vfmadd", "vpmaddubsw"}, 0, 0},
    {"vnni", "elf64-x86-64", {"vpdpbusd", "vpdpbusd"}, 1, 0},
    {"amx", "elf64-x86-64", {"tdpbssd", "tdpbssd"}, 1, 0},
    {"neon", "elf64-littleaarch64", {"fmla", "smlal"}, 0, 0},
    {"dotprod", "elf64-littleaarch64", {"sdot", "sdot"}, 1, 0},
    {"i8mm", "elf64-littleaarch64", {"smmla", "smmla"}, 1, 0},
};

enum { N_VARIANTS = sizeof variants / sizeof *variants };

struct facts {
    int n, products, weights;              /* instructions, multiply-adds, codes decoded */
    int spills, gathers, calls, divisions; /* faults */
    int reloads;                           /* from the stack */
    const struct insn *bad;                /* the first such instruction, reloads aside */
};

static int starts(const char *s, const char *with) { return !strncmp(s, with, strlen(with)); }

/* Bits of the widest vector register named. */
static int width(const struct insn *i)
{
    if (strstr(i->args, "%zmm")) return 512;
    if (strstr(i->args, "%ymm")) return 256;
    if (i->args[0] == 'q') return 128;
    return strstr(i->args, "%xmm") || strstr(i->args, ".4s") || strstr(i->args, ".16b") ||
                   strstr(i->args, ".8h")
               ? 128
               : 0;
}

/* Products of an instruction that multiplies and adds vectors of floats (*integers = 0) or
 * integers, else 0. */
static int products(const struct insn *i, int *integers)
{
    const char *o = i->op;
    int w = width(i);
    *integers = 0;
    if ((starts(o, "vfmadd") || starts(o, "vfnmadd")) && strstr(o, "ps")) return w / 32;
    if (!strcmp(o, "fmla") && w) return w / 32;
    *integers = 1;
    if (starts(o, "vpmaddubsw") || starts(o, "vpdpbusd")) return w / 8;
    if (!strcmp(o, "tdpbssd")) return 16 * 16 * 64;
    if (!strcmp(o, "sdot")) return w / 8;
    if (!strcmp(o, "smmla")) return w / 4;
    return !strcmp(o, "smlal") || !strcmp(o, "smlal2") ? 8 : 0;
}

/* 4-bit codes that an instruction turns into what is multiplied: into floats by a conversion or a
 * permutation, into bytes by a mask or (arm64) a shift of bytes. */
static int decodes(const struct insn *i, int integers)
{
    const char *o = i->op;
    int w = width(i);
    if (!integers)
        return !strcmp(o, "vcvtdq2ps") || !strcmp(o, "scvtf") || (!strcmp(o, "vpermps") && w == 512)
                   ? w / 32
                   : 0;
    return starts(o, "vpand") || !strcmp(o, "and") || !strcmp(o, "ushr") ? w / 8 : 0;
}

struct loop {
    int head, n;   /* instructions */
    uint8_t *body; /* [n_insns] */
};

/* Of an instruction that accesses the stack: stores a vector register. */
static int is_spill(const struct insn *i)
{
    const char *a = i->args;
    return width(i) && (a[strlen(a) - 1] == ')' || starts(i->op, "st"));
}

static struct facts look(const struct loop *l, int frame_pointer, int may_divide)
{
    struct facts f = {.n = l->n};
    int integers = 0, any = 0, words = 0;
    for (int i = 0; i < n_insns; i++) {
        if (!l->body[i]) continue;
        int n = products(&insn[i], &integers);
        f.products += n;
        any |= n && integers;
        words += !strcmp(insn[i].op, "vpmaddwd") ? width(&insn[i]) / 16 : 0;
    }
    if (!f.products)
        f.products = words, any = words > 0; /* else vpmaddwd only widens the sums of vpmaddubsw */
    for (int i = 0; i < n_insns; i++) {
        if (!l->body[i]) continue;
        const char *o = insn[i].op, *a = insn[i].args;
        int stack = strstr(a, "(%rsp") || strstr(a, "[sp") || (frame_pointer && strstr(a, "(%rbp")),
            spill = stack && is_spill(&insn[i]);
        int gather = strstr(o, "gather") != NULL,
            division = !may_divide && strstr(o, "div") != NULL;
        int call = starts(o, "call") || !strcmp(o, "bl") || !strcmp(o, "blr");
        f.weights += f.products == words
                         ? 0
                         : decodes(&insn[i], any); /* masks of words do not show how many codes */
        f.spills += spill, f.reloads += stack && !spill, f.gathers += gather, f.calls += call,
            f.divisions += division;
        if (!f.bad && (spill || gather || call || division)) f.bad = &insn[i];
    }
    return f;
}

/* Where a jump leads, as an index; -1 for other instructions and for jumps out of the function. */
static int jump_target(const struct insn *i)
{
    const char *o = i->op, *t = i->args;
    int jump = o[0] == 'j' || !strcmp(o, "b") || starts(o, "b.") || starts(o, "cbz") ||
               starts(o, "cbnz") || starts(o, "tbz") || starts(o, "tbnz");
    if (!jump || strchr(t, '*')) return -1;
    for (const char *comma; (comma = strchr(t, ',')) != NULL;) t = comma + 1; /* cbz x0, target */
    unsigned long to = strtoul(t, NULL, 16);
    int low = 0, high = n_insns - 1;
    while (low < high) {
        int middle = (low + high) / 2;
        if (insn[middle].at < to) low = middle + 1;
        else high = middle;
    }
    return insn[low].at == to ? low : -1;
}

static int falls_through(const struct insn *i)
{
    return strcmp(i->op, "jmp") && strcmp(i->op, "b") && strcmp(i->op, "br") &&
           !starts(i->op, "ret") && !strstr(i->args, "jmp ");
}

/* Adds to l what can come from its head to instruction `latch`, going back from there. Returns 0
 * when that leads out of the function's beginning, so that the head is not the only way in. */
static int grow(struct loop *l, int latch)
{
    static int stack[MAX_INSNS];
    int depth = 0;
    if (!l->body[latch]) stack[depth++] = latch, l->body[latch] = 1, l->n++;
    while (depth) {
        int i = stack[--depth];
        if (i == 0 && l->head) return 0;
        if (i > 0 && falls_through(&insn[i - 1]) && !l->body[i - 1])
            stack[depth++] = i - 1, l->body[i - 1] = 1, l->n++;
        for (int j = first_jump[i]; j >= 0; j = next_jump[j])
            if (!l->body[j]) stack[depth++] = j, l->body[j] = 1, l->n++;
    }
    return 1;
}

/* Innermost loops of the function in insn[]; returns their number. The caller frees the bodies. */
static int find_loops(struct loop *inner)
{
    static struct loop all[MAX_LOOPS];
    static int holds_another[MAX_LOOPS];
    int n = 0, n_inner = 0;
    memset(first_jump, 0xff, sizeof first_jump);
    for (int i = 0; i < n_insns; i++) {
        int to = jump_target(&insn[i]);
        if (to >= 0) next_jump[i] = first_jump[to], first_jump[to] = i;
    }
    for (int head = 0; head < n_insns && n < MAX_LOOPS; head++) {
        struct loop l = {head, 1, NULL};
        for (int j = first_jump[head], ok = 1; j >= 0 && ok; j = next_jump[j]) {
            if (j < head) continue;
            if (!l.body) l.body = calloc((size_t)n_insns, 1), l.body[head] = 1;
            ok = grow(&l, j);
            if (!ok) free(l.body), l.body = NULL;
        }
        if (l.body) all[n++] = l;
    }
    for (int i = 0; i < n; i++) {
        holds_another[i] = 0;
        for (int j = 0; j < n; j++)
            holds_another[i] |= j != i && all[i].body[all[j].head] && all[j].n < all[i].n;
    }
    for (int i = 0; i < n; i++) {
        if (holds_another[i]) free(all[i].body);
        else inner[n_inner++] = all[i];
    }
    return n_inner;
}

/* Calls each(function name, facts, arg) for the inner loops with products of an object's functions.
 */
typedef void each_fn(const char *function, const struct loop *l, const struct facts *f, void *arg);

static void each_loop(const char *function, each_fn *each, void *arg)
{
    static struct loop loop[MAX_LOOPS];
    int frame_pointer = 0, n = find_loops(loop);
    for (int i = 0; i < n_insns && i < 16; i++)
        frame_pointer |= !strcmp(insn[i].op, "mov") && starts(insn[i].args, "%rsp,%rbp");
    for (int i = 0; i < n; i++) {
        int may_divide = strstr(function, "glu") || strstr(function, "softcap") ||
                         strstr(function, "conv") || strstr(function, "prepare");
        struct facts f = look(&loop[i], frame_pointer, may_divide);
        if (f.products) each(function, &loop[i], &f, arg);
        free(loop[i].body);
    }
    n_insns = 0;
}

/* Returns -1 when the object cannot be read, 1 when it is of another format. */
static int read_object(const char *tools, const char *path, const char *format, each_fn *each,
                       void *arg)
{
    char command[600], line[512], function[128] = "";
    int other = 1;
    snprintf(command, sizeof command, "%sobjdump -d --no-show-raw-insn '%s'", tools, path);
    FILE *p = popen(command, "r");
    if (!p) return -1;
    n_insns = 0;
    while (fgets(line, sizeof line, p)) {
        struct insn *i = &insn[n_insns];
        char *open = strchr(line, '<'), *name_end = strstr(line, ">:");
        line[strcspn(line, "\n")] = 0;
        if (strstr(line, "file format ")) {
            other = strcmp(strstr(line, "file format ") + 12, format) != 0;
        } else if (isxdigit((unsigned char)line[0]) && open && name_end) {
            each_loop(function, each, arg);
            snprintf(function, sizeof function, "%.*s", (int)(name_end - open - 1), open + 1);
        } else if (sscanf(line, " %lx:\t%15s %95[^\n]", &i->at, i->op, i->args) >= 2) {
            if (sscanf(line, " %lx:\t%15s %95[^\n]", &i->at, i->op, i->args) == 2) i->args[0] = 0;
            if (++n_insns == MAX_INSNS) break;
        }
    }
    each_loop(function, each, arg);
    return pclose(p) ? -1 : other;
}

/* gcc's major version from the object's comment; 0 when it is not gcc's. */
static int gcc_version(const char *tools, const char *path)
{
    char command[600], line[256];
    int version = 0;
    snprintf(command, sizeof command, "%sreadelf -p .comment '%s' 2>/dev/null", tools, path);
    FILE *p = popen(command, "r");
    while (p && fgets(line, sizeof line, p)) {
        char *gcc = strstr(line, "GCC: (");
        if (gcc && strchr(gcc, ')')) version = atoi(strchr(gcc, ')') + 1);
    }
    if (p) pclose(p);
    return version;
}

static void result(int ok, const char *what)
{
    if (!ok) printf("FAIL %s\n", what);
    if (ok) n_passed++;
    else n_failed++;
}

/* ---- the objects of the variants ---- */

struct judged {
    const struct variant *variant;
    int n_loops, n_bad, spills, has[2], kernels;
};

/* In names of functions. Not q4: its register blocks may have become functions of another name. */
static const char *const kernels[] = {"_q4i", "_dense", "_attend"};

static void judge(const char *function, const struct loop *l, const struct facts *f, void *arg)
{
    struct judged *j = arg;
    printf("%-8s %-16s %4d instructions, %4d products (%.3f each)", j->variant->name, function,
           f->n, f->products, (double)f->n / f->products);
    if (f->weights) printf(", %4d weights (%.3f each)", f->weights, (double)f->n / f->weights);
    if (f->reloads) printf(", %d reloads", f->reloads);
    printf("\n");
    for (int i = 0; i < n_insns; i++)
        for (int k = 0; l->body[i] && k < 2; k++)
            j->has[k] |= starts(insn[i].op, j->variant->need[k]);
    j->n_loops++;
    for (int k = 0; k < 3; k++) j->kernels |= strstr(function, kernels[k]) ? 1 << k : 0;
    j->spills += f->spills;
    j->n_bad += f->gathers || f->calls || f->divisions;
    if (f->bad)
        printf("  at %lx: %d spills, %d gathers, %d calls, %d divisions; the first is %s %s\n",
               insn[l->head].at, f->spills, f->gathers, f->calls, f->divisions, f->bad->op,
               f->bad->args);
}

static void check_variant(const char *tools, const char *build, const struct variant *r)
{
    char path[512], what[700];
    struct judged j = {.variant = r};
    snprintf(path, sizeof path, "%s/backend-cpu/%s.o", build, r->name);
    int rc = read_object(tools, path, r->format, judge, &j);
    if (rc > 0) return; /* of another machine */
    if (rc < 0) printf("%s: cannot be disassembled\n", path);
    snprintf(what, sizeof what, "%s: inner loops without gathers, calls, divisions", r->name);
    result(!rc && j.n_loops && !j.n_bad, what);
    snprintf(what, sizeof what, "%s: %d spills in inner loops, at most %d", r->name, j.spills,
             r->spills);
    result(j.spills <= r->spills, what);
    snprintf(what, sizeof what, "%s: loops with %s and %s, in all of its kernels", r->name,
             r->need[0], r->need[1]);
    result(j.has[0] && j.has[1] && (r->only_q4i || j.kernels == 7), what);
}

/* ---- the samples ---- */

static void judge_sample(const char *function, const struct loop *l, const struct facts *f,
                         void *arg)
{
    int *seen = arg, good = !strcmp(function, "sample_good"),
        spill = !strcmp(function, "sample_spill");
    int gather = !strcmp(function, "sample_gather"), call = !strcmp(function, "sample_call"),
        division = !strcmp(function, "sample_division");
    char what[200];
    (void)l;
    snprintf(what, sizeof what, "%s: %d spills, %d gathers, %d calls, %d divisions", function,
             f->spills, f->gathers, f->calls, f->divisions);
    result(good       ? !f->bad
           : spill    ? f->spills > 0
           : gather   ? f->gathers == 1
           : call     ? f->calls == 1
           : division ? f->divisions == 1
                      : 0,
           what);
    ++*seen;
}

int main(int argc, char **argv)
{
    if (argc < 2) return 2;
    const char *tools = argc > 2 ? argv[2] : "";
    char path[512];
    snprintf(path, sizeof path, "%s/tests/checkop/asm_sample.o", argv[1]);
    int version = gcc_version(tools, path), seen = 0, sanitized = 0;
#ifdef __SANITIZE_ADDRESS__
    sanitized = 1;
#endif
    if (sanitized)
        printf("SKIP asm: sanitizers put calls and stack accesses of their own into the loops\n");
    else if (version != 12)
        printf("SKIP asm: what is asserted is what gcc 12 makes, this build is of gcc %d\n",
               version);
    n_skipped = sanitized || version != 12;
    if (!n_skipped) {
        for (int i = 0; i < N_VARIANTS; i++) check_variant(tools, argv[1], &variants[i]);
        int x86 = read_object(tools, path, "elf64-x86-64", judge_sample, &seen) == 0;
        result(seen == 4 + x86, "every loop of asm_sample.c is found");
    }
    printf("asm: %d passed, %d failed, %d skipped\n", n_passed, n_failed, n_skipped);
    return n_failed != 0;
}
