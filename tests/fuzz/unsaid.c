/* unsaid.c: what a checkpoint does not say is not read into it. Every key of every small file of
 * the checkpoints in DATA_DIR goes, comes twice, or gets a value of another type; every tensor
 * goes, comes twice, or gets another type. What then converts has the logits of the checkpoint as
 * it is, or says in a warning what it lacks, or is one of the cases that are known (the table
 * below, with the reason).
 *
 * usage: unsaid DATA_DIR [--every N] [--from N] [--keys N] [--only NAME] [--show]
 *        N: each N-th change of a tensor, from the given one on; each N-th of a key; --show: what
 *        each leads to */
#include "tests/fuzz/checkpoint.h"

#include "backend-cpu/cpu.h"
#include "bench/batches.h"
#include "convert/convert.h"
#include "core/run/forward.h"
#include "tests/harness.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROWS = 10, N_LOGITS = ROWS * 512, MAX_PATH = 600 };

/* What a key means that is missing or null, as transformers has it: its default, which need not be
 * the checkpoint's value. HOW begins with this: "number dropped", "number" (dropped or null). */
static const struct known {
    const char *key, *how; /* the key's last part */
} known[] = {
    /* of the family: LlamaConfig 1e-6, .. */
    {"rms_norm_eps", "number"},
    {"norm_epsilon", "number"},
    {"layer_norm_eps", "number"},
    {"num_experts_per_tok", "number"},
    {"max_position_embeddings", "number"},
    {"norm_topk_prob", "boolean"},
    {"moe_k", "number"},
    {"moe_topk", "array"},
    {"topk_method", "string"},
    {"no_rope_layers", "array"},
    {"sliding_window", "number null"},
    {"rotary_dim", "number"},
    {"position_embedding_type", "string"},
    {"topk_group", "number"},
    {"n_group", "number"},
    {"routed_scaling_factor", "number"},
    {"swiglu_limit", "number dropped"},
    {"query_pre_attn_scalar", "number dropped"},
    {"sliding_window_pattern", "number"},
    {"attn_logit_softcapping", "number"},
    {"final_logit_softcapping", "number"},
    /* factors of Granite, Cohere and Falcon-H1, 1 where they are missing */
    {"embedding_multiplier", "number dropped"},
    {"residual_multiplier", "number dropped"},
    {"attention_multiplier", "number dropped"},
    {"logits_scaling", "number dropped"},
    {"logit_scale", "number dropped"},
    {"lm_head_multiplier", "number dropped"},
    {"attention_in_multiplier", "number dropped"},
    {"attention_out_multiplier", "number dropped"},
    {"key_multiplier", "number dropped"},
    {"mlp_multipliers", "array"},
    {"ssm_multipliers", "array"},
    {"ssm_in_multiplier", "number dropped"},
    {"ssm_out_multiplier", "number dropped"},
    /* theta of the family; no scaling, or that of the family (gpt-oss) */
    {"rope_theta", "number"},
    {"rope_scaling", "object"},
    {"rope_parameters", "object"},
    {"full_attention", "object {}"},
    {"rope_interleave", "boolean"},
    {"partial_rotary_factor", "number"},
    /* of yarn: the context; factor: the ratio of both contexts; the scale by the factor alone */
    {"original_max_position_embeddings", "number"},
    {"factor", "number"},
    {"alpha", "number"},
    {"mscale", "number"},
    {"mscale_all_dim", "number"},
    {"truncate", "boolean dropped"},
    /* GPTQ's first format */
    {"checkpoint_format", "string"},
};

struct outcome {
    int is_refused, is_warned, n;
    float logits[N_LOGITS]; /* [n] */
    char said[1000];
};

static char dir[] = "/dev/shm/opt4gptq-unsaid-XXXXXX", from[MAX_PATH], to[MAX_PATH];
static long every = 1, first, every_key = 1, n_key_changes, n_changes;
static const char *only;
static int shows, n_refused, n_same, n_warned, n_known;

/* Everything that is said on stderr meanwhile. */
static int heard = -1, before = -1;

static void listen_begin(void)
{
    fflush(stderr);
    if (heard < 0) heard = memfd_create("heard", 0);
    if (ftruncate(heard, 0)) abort();
    lseek(heard, 0, SEEK_SET);
    before = dup(2);
    dup2(heard, 2);
}

static void listen_end(char *text, size_t cap)
{
    fflush(stderr);
    dup2(before, 2);
    close(before);
    ssize_t n = pread(heard, text, cap - 1, 0);
    text[n > 0 ? n : 0] = 0;
}

/* Logits of a made-up prompt, computed by the plain C of the CPU's backend. */
static int compute(const char *path, struct outcome *o, struct err *e)
{
    struct model m;
    struct forward f;
    struct batch b = {0};
    int32_t table[4] = {0, 1, 2, 3}, memory[1024];
    uint8_t wanted[ROWS];
    const struct span span = {0, 0, ROWS};
    const struct page_map map = {4, 4, table};
    if (model_open(&m, path, e)) return -1;
    if (m.config.vocab > 512) {
        model_close(&m);
        return err_set(e, "a vocabulary of %d", m.config.vocab);
    }
    const struct forward_options options = {.variant = "auto",
                                            .n_threads = 1,
                                            .act = ACT_I16,
                                            .kv = KV_F16,
                                            .n_pages = 4,
                                            .max_rows = ROWS,
                                            .max_logits = ROWS,
                                            .max_seqs = 1,
                                            .max_pages = 4};
    int rc = forward_open(&f, &m, &backend_cpu, &options, e);
    if (!rc) {
        batch_place(&b, memory, ROWS, 1, ROWS, 4);
        batch_set(&b, &map, &span, 1, 0);
        for (int i = 0; i < ROWS; i++) {
            b.token[i] = (i * 7919 + 17) % m.config.vocab;
            b.logit_row[b.n_logits++] = i;
        }
        memset(wanted, 1, sizeof wanted);
        forward_begin(&f, &b, wanted);
        rc = forward_end(&f, e);
        o->n = ROWS * m.config.vocab;
        if (!rc) memcpy(o->logits, f.logits, (size_t)o->n * sizeof *o->logits);
        forward_close(&f);
    }
    model_close(&m);
    return rc;
}

static void convert(struct outcome *o)
{
    struct err e = {0};
    static const volatile sig_atomic_t no_stop;
    const struct convert_options c = {.dir = from,
                                      .out = {to, 1, 0, &no_stop},
                                      .notes = {.quiet = 1},
                                      .plan = {.no_tokenizer = 1}};
    memset(o, 0, sizeof *o);
    listen_begin();
    int rc = convert_run(&c, &e);
    listen_end(o->said, sizeof o->said);
    o->is_warned = o->said[0] != 0;
    if (!rc) rc = compute(to, o, &e);
    unlink(to);
    if (!rc) return;
    o->is_refused = 1;
    snprintf(o->said, sizeof o->said, "%s", e.msg);
}

/* A key that goes or is null means the default; so does an object of options without any. */
static int is_known(const char *key, const char *how)
{
    const char *last = strrchr(key, '.') ? strrchr(key, '.') + 1 : key, *then = strchr(how, ' ');
    if (!then || (strcmp(then, " dropped") && strcmp(then, " null") && strcmp(how, "object {}") &&
                  strcmp(how, "array []")))
        return 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].key, last) && !strncmp(how, known[i].how, strlen(known[i].how)))
            return 1;
    return 0;
}

static void judge(const char *checkpoint, const char *file, const char *key, const char *how,
                  const struct outcome *is)
{
    struct outcome o;
    convert(&o);
    int same = !o.is_refused && o.n == is->n && !memcmp(o.logits, is->logits, (size_t)is->n * 4);
    int k = is_known(key, how);
    const char *what = o.is_refused  ? "refused"
                       : same        ? "same"
                       : o.is_warned ? "warned"
                       : k           ? "known"
                                     : "silent";
    n_refused += o.is_refused;
    n_same += same;
    n_warned += !o.is_refused && !same && o.is_warned;
    n_known += !o.is_refused && !same && !o.is_warned && k;
    if (shows || !strcmp(what, "silent"))
        printf("%s\t%s\t%s\t%s\t%s\t%s\n", what, checkpoint, file, key, how, o.said);
    char name[400];
    snprintf(name, sizeof name, "%s: %s: %s %s", checkpoint, file, key, how);
    int line = o.is_refused && (!*o.said || strchr(o.said, '\n') != NULL);
    check(strcmp(what, "silent") != 0 && !line, name, NULL);
}

/* Whether this change's turn has come. */
static int is_turn(void)
{
    static long turn;
    long k = turn++;
    int now = k >= first && (k - first) % every == 0;
    n_changes += now;
    return now;
}

static const char *type_of(const json_t *v)
{
    return json_is_boolean(v)  ? "boolean"
           : json_is_number(v) ? "number"
           : json_is_string(v) ? "string"
           : json_is_array(v)  ? "array"
           : json_is_object(v) ? "object"
                               : "null";
}

/* What V may not be taken for: others of another type, where V is 3 "3", where it is true 1. */
static const char *const *values_for(const json_t *v)
{
    static char quoted[64];
    static const char
        *const yes[] = {"1", "\"true\"", "\"false\"", "null", "1e400", "[]", NULL},
               *const no[] = {"0", "\"true\"", "\"false\"", "null", "1e400", "[]", NULL},
               *const number[] = {quoted, "true", "null", "Infinity", "NaN", "1e400",
                                  "-1",   "[]",   "[2]",  "{}",       NULL},
               *const string[] = {"1", "null", "true", "\"\"", "\"unheard\"", "[]", "{}", NULL},
               *const none[] = {"\"true\"", "[]", "{}", NULL}, *const other[] = {"1",        "null",
                                                                                 "\"true\"", "true",
                                                                                 "[]",       "{}",
                                                                                 "[null]",   NULL};
    if (json_is_boolean(v)) return json_is_true(v) ? yes : no;
    if (json_is_string(v)) return string;
    if (json_is_null(v)) return none; /* a number is what it may be */
    if (!json_is_number(v)) return other;
    char *text = json_dumps(v, JSON_ENCODE_ANY);
    snprintf(quoted, sizeof quoted, "\"%.60s\"", text ? text : "");
    free(text);
    return number;
}

struct place {
    const char *checkpoint;
    struct checkpoint_copy *c;
    const struct outcome *is;
};

static void change_key(const struct place *p, int i, json_t *object, const char *path,
                       const char *key)
{
    struct checkpoint_text *t = &p->c->text[i];
    struct err e;
    const json_t *v = json_object_get(object, key);
    const char *const *value = values_for(v);
    char name[300];
    snprintf(name, sizeof name, "%.150s%.99s", path, key);
    t->object = object;
    t->key = key;
    for (int k = -2; k < 0 || value[k]; k++) {
        char how[64];
        t->is_dropped = k == -2, t->is_twice = k == -1;
        t->value = k < 0 ? "\"twice\"" : value[k];
        snprintf(how, sizeof how, "%s %s", type_of(v),
                 k == -2   ? "dropped"
                 : k == -1 ? "twice"
                           : value[k]);
        if (n_key_changes++ % every_key) continue;
        n_changes++;
        if (checkpoint_write_text(p->c, i, from, &e)) abort();
        judge(p->checkpoint, t->name, name, how, p->is);
    }
    t->key = NULL;
    t->is_dropped = t->is_twice = 0;
    if (checkpoint_write_text(p->c, i, from, &e)) abort();
}

static void change_object(const struct place *p, int i, json_t *object, const char *path, int depth)
{
    enum { MOST_KEYS = 100 };
    char keys[MOST_KEYS][100]; /* first: changes move a key to the end */
    int n = 0;
    const char *key;
    json_t *v;
    json_object_foreach (object, key, v)
        if (n < MOST_KEYS) snprintf(keys[n++], sizeof *keys, "%s", key);
    for (int k = 0; k < n; k++) {
        char inner[300];
        change_key(p, i, object, path, keys[k]);
        v = json_object_get(object, keys[k]);
        snprintf(inner, sizeof inner, "%.150s%.99s.", path, keys[k]);
        if (depth < 3 && json_is_object(v) && json_object_size(v) < 40)
            change_object(p, i, v, inner, depth + 1);
    }
}

static void change_tensor(const struct place *p, struct checkpoint_tensor *t)
{
    static const char *const types[] = {"F16", "BF16", "F32", "I32", "I64", "U8", "BOOL"};
    struct checkpoint_tensor old = *t;
    struct err e;
    for (int k = -4; k < (int)(sizeof types / sizeof *types); k++) {
        char how[64];
        *t = old;
        t->is_dropped = k == -4;
        t->twin = k == -3;
        if (k == -2) t->n_dims = 1, t->shape[0] = old.n_dims ? old.shape[0] : 1;
        for (int d = 1; k == -2 && d < old.n_dims; d++) t->shape[0] *= old.shape[d];
        if (k == -1) snprintf(t->name, sizeof t->name, "%.150s.x", old.name);
        if (k >= 0) snprintf(t->dtype, sizeof t->dtype, "%s", types[k]);
        snprintf(how, sizeof how, "%s",
                 k == -4   ? "dropped"
                 : k == -3 ? "twice"
                 : k == -2 ? "flat"
                 : k == -1 ? "renamed"
                           : types[k]);
        /* of two bytes each: nothing tells one from the other */
        if (k >= 0 && strstr(types[k], "F16") && strstr(old.dtype, "F16")) continue;
        if ((k >= 0 && !strcmp(types[k], old.dtype)) || (k == -2 && old.n_dims == 1) || !is_turn())
            continue;
        if (checkpoint_write_shard(p->c, t->shard, from, &e)) abort();
        judge(p->checkpoint, "tensor", old.name, how, p->is);
    }
    *t = old;
    if (checkpoint_write_shard(p->c, t->shard, from, &e)) abort();
}

static void forget(const char *name)
{
    char path[MAX_PATH + 70];
    snprintf(path, sizeof path, "%s/%s", from, name);
    unlink(path);
}

static void try_checkpoint(const char *data, const char *name)
{
    static struct outcome is;
    struct checkpoint_copy c;
    struct err e = {0};
    char path[MAX_PATH];
    const struct place p = {name, &c, &is};
    snprintf(path, sizeof path, "%s/%s", data, name);
    if (checkpoint_load(&c, path, &e) || checkpoint_write(&c, from, &e)) {
        check_that(0, "%s", e.msg);
        return;
    }
    convert(&is);
    check_that(!is.is_refused, "%s: %s", name, is.said);
    for (int i = 0; i < c.n_texts && !is.is_refused; i++)
        change_object(&p, i, c.text[i].json, "", 0);
    for (size_t i = 0; i < c.n_tensors && !is.is_refused; i++) change_tensor(&p, &c.tensor[i]);
    for (int i = 0; i < c.n_texts; i++) forget(c.text[i].name);
    for (int i = 0; i < c.n_shards; i++) forget(c.shard[i]);
    checkpoint_free(&c);
}

static int is_checkpoint(const struct dirent *f)
{
    return f->d_name[0] != '.' && !strchr(f->d_name + 1, '.');
}

int main(int argc, char **argv)
{
    struct dirent **f;
    for (int i = 2; i < argc; i++) {
        if (!strcmp(argv[i], "--show")) shows = 1;
        else if (i + 1 < argc && !strcmp(argv[i], "--every")) every = atol(argv[++i]);
        else if (i + 1 < argc && !strcmp(argv[i], "--from")) first = atol(argv[++i]);
        else if (i + 1 < argc && !strcmp(argv[i], "--keys")) every_key = atol(argv[++i]);
        else if (i + 1 < argc && !strcmp(argv[i], "--only")) only = argv[++i];
        else argc = 0;
    }
    if (argc < 2 || every < 1 || every_key < 1 || !mkdtemp(dir)) {
        fprintf(stderr, "usage: unsaid DATA_DIR [--every N] [--from N] [--keys N] [--only NAME] "
                        "[--show]\n");
        return 2;
    }
    snprintf(from, sizeof from, "%s/from", dir);
    snprintf(to, sizeof to, "%s/to.safetensors", dir);
    if (mkdir(from, 0755)) return 2;
    int n = scandir(argv[1], &f, is_checkpoint, alphasort);
    for (int i = 0; i < n; i++) {
        char config[1024];
        snprintf(config, sizeof config, "%s/%.255s/config.json", argv[1], f[i]->d_name);
        if (access(config, R_OK) == 0 && (!only || !strcmp(only, f[i]->d_name)))
            try_checkpoint(argv[1], f[i]->d_name);
        free(f[i]);
    }
    if (n >= 0) free(f);
    rmdir(from);
    rmdir(dir);
    printf("%ld changes: %d refused, %d without effect, %d with a warning, %d known\n", n_changes,
           n_refused, n_same, n_warned, n_known);
    return report("unsaid");
}
