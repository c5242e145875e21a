#include "engine/backends.h"

#include "backend-cpu/cpu.h"
#include "backend-cpu/kernels.h"
#include "backend-hip/hip.h"
#include "backend-hip/runtime/hip_compile.h"

#include <stddef.h>
#include <string.h>

/* ---- cpu */

static const char *cpu_variant(int i) { return cpu_ladder[i] ? cpu_ladder[i]->name : NULL; }

static int cpu_knows(const char *name)
{
    int known = !strcmp(name, "auto");
    for (int i = 0; cpu_ladder[i]; i++) known |= !strcmp(name, cpu_ladder[i]->name);
    return known;
}

static int cpu_check(const char *name, struct err *e)
{
    char note[256];
    return cpu_choose(cpu_ladder, name, note, sizeof note, e) ? 0 : -1;
}

/* Integer sums are exact; the reference adds in double precision. */
static int cpu_is_exact(enum act act, const char *variant)
{
    return act != ACT_F32 && strcmp(variant, "ref");
}

static void cpu_identify(const struct be *be, char *out, size_t cap)
{
    snprintf(out, cap, "cpu %s", cpu_variant_of(be));
}

static void cpu_print_version(FILE *f)
{
    fprintf(f, "backends: cpu (");
    for (int i = 0; cpu_ladder[i]; i++)
        fprintf(f, i ? " %s%s" : "%s%s", cpu_ladder[i]->name,
                cpu_ladder[i]->unusable() ? " [not on this processor]" : "");
    fprintf(f, ")\n");
}

/* ---- hip */

static void hip_write_own(const struct backend_own *o, char *out, size_t cap)
{
    _Static_assert((int)BACKEND_OWN_BYTES == (int)HIP_OPTIONS_BYTES, "room for hip's text");
    static const char *const way[] = {"auto", "peer", "host"};
    struct hip_options own = {
        .wait_seconds = o->wait_seconds, .query_halves = o->query_halves, .library = o->library};
    for (int i = HIP_EXCHANGE_AUTO; o->exchange && i <= HIP_EXCHANGE_HOST; i++)
        if (!strcmp(o->exchange, way[i])) own.exchange = (enum hip_exchange)i;
    hip_options_write(&own, out, cap);
}

/* The integer arithmetics have the CPU's order. */
static int hip_is_exact(enum act act, const char *variant)
{
    (void)variant;
    return act_is_integer(act);
}

/* The device's name up to what may follow it there. */
static void hip_identify(const struct be *be, char *out, size_t cap)
{
    const char *name = hip_device_name(be);
    snprintf(out, cap, "%.*s", (int)strcspn(name, ",("), name);
}

static void hip_print_version(FILE *f)
{
    if (!hip_image_name(0))
        fprintf(f, "not in this build: GPU kernels for the backend hip (`make` compiles them where "
                   "clang-19 is)\n");
    for (int i = 0; hip_image_name(i); i++)
        fprintf(f, i ? " %s" : "backends: hip (%s", hip_image_name(i));
    if (hip_image_name(0)) fprintf(f, ")\n");
}

/* ---- */

const struct backend_entry backend_entries[] = {
    {
        .ops = &backend_cpu,
        .options = "--cpu --threads --numa",
        .bench_options = "--cpu --threads --numa --cpu-time --probe",
        .variant_option = "--cpu",
        .variant_field = offsetof(struct engine_options, cpu),
        .act = {ACT_I16, ACT_F32, ACT_F16, ACT_INT8, ACT_INT4, ACT_INT8_TOKEN},
        .n_acts = 6,
        .timed_act = {ACT_F32, ACT_I16, ACT_INT8},
        .n_timed_acts = 3,
        .n_batch = 512,
        .n_seqs = 16,
        .variant = cpu_variant,
        .knows_variant = cpu_knows,
        .check_variant = cpu_check,
        .is_exact = cpu_is_exact,
        .identify = cpu_identify,
        .print_version = cpu_print_version,
    },
    {
        .ops = &backend_hip,
        .also = "gpu",
        .options = "--variant --hip-library --device --devices --query-halves",
        .bench_options = "--variant --hip-library --device --query-halves",
        .variant_option = "--variant",
        .variant_field = offsetof(struct engine_options, variant),
        .act = {ACT_F16, ACT_F32, ACT_I16, ACT_INT8, ACT_INT4},
        .n_acts = 5,
        .timed_act = {ACT_F16},
        .n_timed_acts = 1,
        .n_batch = 2048,
        .n_seqs = 256,
        .most_seqs = 512,
        .paper = 1,
        .write_own = hip_write_own,
        .best_act = hip_best_act,
        .probe = hip_probe,
        .variant = hip_variant_name,
        .is_exact = hip_is_exact,
        .identify = hip_identify,
        .print_version = hip_print_version,
        .print_variants = hip_print_variants,
        .list_devices = hip_list_devices,
        .count_devices = hip_count_devices,
    },
    {0},
};

int backend_asked(int argc, char **argv, int *status)
{
    return hip_compile_asked(argc, argv, status);
}

const char *backend_name(const char *name)
{
    for (const struct backend_entry *b = backend_entries; b->ops; b++)
        if (b->also && !strcmp(b->also, name)) return b->ops->name;
    return name;
}

const struct backend_entry *backend_find(const char *name)
{
    const struct backend_entry *b = backend_entries;
    name = backend_name(name);
    while (b->ops && strcmp(b->ops->name, name)) b++;
    CHECK(b->ops);
    return b;
}

/* Whether it has the arithmetic; every backend has that of "auto". */
static int has_act(const struct backend_entry *b, const char *act)
{
    int has = !strcmp(act, "auto");
    for (int i = 0; i < b->n_acts; i++) has |= !strcmp(act, act_formats[b->act[i]].name);
    return has;
}

const struct backend_entry *backend_best(const char *act)
{
    const struct backend_entry *best = backend_entries;
    for (const struct backend_entry *b = backend_entries; b->ops; b++) {
        struct err why;
        if (has_act(b, act) && (!b->probe || !b->probe(NULL, 0, &why))) best = b;
    }
    return best;
}

const char *backend_own_text(const struct backend_entry *b, const struct backend_own *o, char *out)
{
    if (!b->write_own) return NULL;
    b->write_own(o, out, BACKEND_OWN_BYTES);
    return out;
}

const char *backend_best_act(const struct backend_entry *b, const char *library, int device,
                             const char *variant)
{
    return act_formats[b->best_act ? b->best_act(library, device, variant) : b->act[0]].name;
}

const char *backend_variant(const struct backend_entry *b, const struct engine_options *o)
{
    return *(const char *const *)((const char *)o + b->variant_field);
}

enum act backend_act(const char *name)
{
    int i = 0;
    while (act_formats[i].name && strcmp(act_formats[i].name, name)) i++;
    CHECK(act_formats[i].name);
    return (enum act)i;
}

enum kv_type backend_kv(const char *name)
{
    int i = 0;
    while (kv_formats[i].name && strcmp(kv_formats[i].name, name)) i++;
    CHECK(kv_formats[i].name);
    return (enum kv_type)i;
}

int backend_check_names(const struct engine_options *o, struct err *e)
{
    int act = !strcmp(o->act, "auto"), kv = !strcmp(o->kv, "auto");
    for (int i = 0; act_formats[i].name; i++) act |= !strcmp(o->act, act_formats[i].name);
    for (int i = 0; kv_formats[i].name; i++) kv |= !strcmp(o->kv, kv_formats[i].name);
    if (!act) return err_set(e, "there is no arithmetic %s", o->act);
    if (!kv) return err_set(e, "there is no storage of keys and values %s", o->kv);
    return 0;
}
