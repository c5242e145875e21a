#include "convert/plan_layers.h"
#include "convert/plan_linear.h"

#include "convert/gguf_checkpoint.h"
#include "core/base/units.h"
#include "core/model/modelfile.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MAX_BYTES = 256 };

static int grow(void **array, size_t n, size_t item, struct err *e)
{
    if (n & (n - 1)) return 0; /* the capacity is a power of two: grow when n is 0 or one */
    void *more = realloc(*array, (n ? 2 * n : 1) * item);
    if (!more) return err_memory(e);
    *array = more;
    return 0;
}

int plan_tensor(struct plan *p, size_t *index, const char *name, enum dtype type,
                struct tensor_shape shape, size_t n_pieces, struct err *e)
{
    if (grow((void **)&p->tensors, p->n_tensors, sizeof *p->tensors, e)) return -1;
    struct out_tensor *t = &p->tensors[ *index = p->n_tensors];
    *t = (struct out_tensor){.name = strdup(name),
                             .dtype = type,
                             .n_dims = shape.n_dims,
                             .bytes = dtype_bytes(type),
                             .n_pieces = n_pieces};
    t->crc = calloc(n_pieces + 1, sizeof *t->crc);
    t->crc_bytes = calloc(n_pieces + 1, sizeof *t->crc_bytes);
    p->n_tensors++;
    if (!t->name || !t->crc || !t->crc_bytes) return err_memory(e);
    for (int i = 0; i < shape.n_dims; i++)
        t->shape[i] = shape.size[i], t->bytes *= (uint64_t)shape.size[i];
    return 0;
}

int plan_add_job(struct plan *p, const struct plan_job *j, struct err *e)
{
    if (grow((void **)&p->jobs, p->n_jobs, sizeof *p->jobs, e)) return -1;
    p->jobs[p->n_jobs++] = *j;
    return 0;
}

int plan_data(struct plan *p, const char *name, enum dtype type, struct tensor_shape shape,
              void *data, struct err *e)
{
    struct plan_job j = {.kind = JOB_MEMORY, .data = data};
    if (grow((void **)&p->blobs, p->n_blobs, sizeof *p->blobs, e)) {
        free(data);
        return -1;
    }
    p->blobs[p->n_blobs++] = data;
    if (plan_tensor(p, &j.tensor, name, type, shape, 1, e)) return -1;
    return plan_add_job(p, &j, e);
}

int plan_memory(struct plan *p, const char *name, enum dtype type, int64_t n, void *data,
                struct err *e)
{
    return plan_data(p, name, type, (struct tensor_shape){1, {n}}, data, e);
}

const struct hf_tensor *plan_find(struct plan *p, const char *module, const char *what)
{
    char name[NAME_MAX_BYTES + 32];
    snprintf(name, sizeof name, "%s%s%s", module, *what ? "." : "", what);
    const struct hf_tensor *t = hfd_find(p->dir, name);
    if (t) p->used[t - p->dir->tensors] = 1;
    return t;
}

int plan_is_float(const struct hf_tensor *t, struct err *e)
{
    enum dtype type = t->t->dtype;
    if (type == DT_F16 || type == DT_BF16 || type == DT_F32) return 0;
    return err_set(e, "%s: tensor '%s' is %s, must be F16, BF16 or F32", t->shard->path, t->t->name,
                   st_dtype_name(type));
}

int plan_numbers_at(const struct hf_tensor *t, int64_t first, int64_t n, float **out, struct err *e)
{
    enum dtype type = t->t->dtype;
    *out = NULL;
    if (plan_is_float(t, e)) return -1;
    uint64_t at = (uint64_t)first * dtype_bytes(type), bytes = (uint64_t)n * dtype_bytes(type);
    CHECK(at + bytes <= t->t->bytes);
    void *raw = malloc(bytes + 1);
    float *f = malloc((size_t)n * sizeof *f + 1);
    int rc = raw && f ? st_read(t->shard, raw, t->t->offset + at, bytes, e) : err_memory(e);
    for (int64_t i = 0; i < n && !rc; i++) {
        f[i] = f32_at(raw, type, (size_t)i);
        if (!isfinite(f[i]))
            rc = err_set(e, "%s: tensor '%s' holds %s at %" PRId64 ": the checkpoint is damaged",
                         t->shard->path, t->t->name, isnan(f[i]) ? "NaN" : "infinity", first + i);
    }
    free(raw);
    if (rc) free(f);
    else *out = f;
    return rc;
}

int plan_floats(const struct hf_tensor *t, int64_t n, float **out, struct err *e)
{
    *out = NULL;
    if (plan_is_float(t, e)) return -1;
    uint64_t have = t->t->bytes / dtype_bytes(t->t->dtype);
    if (have != (uint64_t)n || t->t->n_dims < 1 || t->t->shape[t->t->n_dims - 1] != n)
        return err_set(e, "%s: tensor '%s' holds %" PRIu64 " numbers, must be a vector of %" PRId64,
                       t->shard->path, t->t->name, have, n);
    return plan_numbers_at(t, 0, n, out, e);
}

const char *plan_shape(const struct hf_tensor *t, char text[128])
{
    int n = snprintf(text, 128, "[");
    for (int i = 0; i < t->t->n_dims && n < 100; i++)
        n += snprintf(text + n, 128 - (size_t)n, "%s%" PRId64, i ? ", " : "", t->t->shape[i]);
    snprintf(text + n, 128 - (size_t)n, "]");
    return text;
}

/* 1 if a checkpoint without head was made for embeddings: it then needs none. */
static int find_headless(const struct plan *p, int *headless, struct err *e)
{
    char module[NAME_MAX_BYTES], *modules = NULL;
    size_t n;
    snprintf(module, sizeof module, "%s%s", p->head_prefix, p->head);
    *headless = 0;
    if (p->config->tied || plan_linear_exists(p, module)) return 0;
    if (hfd_file(p->dir, "modules.json", &modules, &n, e)) return -1;
    *headless = p->config->may_lack_head || modules;
    free(modules);
    return 0;
}

/* *same: 1 if the tensors hold the same bytes. */
static int compare(const struct hf_tensor *a, const struct hf_tensor *b, int *same, struct err *e)
{
    enum { STEP = 1 << 15 };
    char x[STEP], y[STEP];
    uint64_t bytes = a->t->bytes;
    *same = a == b || (a->t->dtype == b->t->dtype && bytes == b->t->bytes);
    for (uint64_t at = 0, n; *same && a != b && at < bytes; at += n) {
        n = bytes - at < STEP ? bytes - at : STEP;
        if (st_read(a->shard, x, a->t->offset + at, n, e) ||
            st_read(b->shard, y, b->t->offset + at, n, e))
            return -1;
        *same = !memcmp(x, y, n);
    }
    return 0;
}

/* A tied head is the embedding, and needs no tensors; with --plain 8bit it gets codes of its own.
 * Where the checkpoint has another head, that one is taken, as by transformers 5. */
static int add_head(struct plan *p, const struct hf_tensor *embed, struct err *e)
{
    const struct hf_config *c = p->config;
    char module[NAME_MAX_BYTES];
    struct linear_from from = {.part = {{.module = module, .out = c->vocab}}, .in = c->dim};
    snprintf(module, sizeof module, "%s%s", p->head_prefix, p->head);
    const struct hf_tensor *plain = plan_find(p, module, "weight");
    int there = plan_linear_exists(p, module), copy = !there;
    if (c->tied && plain && compare(plain, embed, &copy, e)) return -1;
    if (c->tied && !copy)
        note_info(p->notes, "config.json says tie_word_embeddings, but the checkpoint has a head "
                            "of its own: using that");
    if (c->tied && copy) {
        if (!p->options.plain8) return 0;
        snprintf(module, sizeof module, "%s", embed->t->name);
        *strrchr(module, '.') = 0;
        from.bias = BIAS_IGNORED;
    } else if (c->headless) {
        note_detail(p->notes,
                    "the checkpoint has no lm_head: the model file makes embeddings only");
        return 0;
    } else if (!there) {
        return err_set(e,
                       "%s: tensor '%s.weight' is missing and config.json does not say "
                       "tie_word_embeddings",
                       p->dir->path, module);
    }
    return plan_linear(p, &from, "lm_head", e);
}

static int ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), m = strlen(tail);
    return n >= m && !strcmp(s + n - m, tail);
}

/* 1 if the tensor's module is used and not quantized: a leftover g_idx there has no meaning. */
static int is_plain(const struct plan *p, const char *tensor)
{
    char weight[NAME_MAX_BYTES];
    int n = (int)(strrchr(tensor, '.') - tensor);
    if (snprintf(weight, sizeof weight, "%.*s.weight", n, tensor) >= (int)sizeof weight) return 0;
    const struct hf_tensor *t = hfd_find(p->dir, weight);
    return t && p->used[t - p->dir->tensors];
}

static int begins(const char *s, const char *head) { return !strncmp(s, head, strlen(head)); }

/* 1 for tensors that no text model has: of the parts that see and hear, and of the layers that
 * draft tokens, as far as plan_draft_layer() has not taken them. */
static int is_skipped(const struct plan *p, const char *name, const char *layers)
{
    static const char *const outer[] = {"model.", "language_model.", "thinker.", NULL};
    static const char *const parts[] = {
        "visual.",     "vision_",      "vision.",   "audio",  "speech",  "embed_vision",
        "embed_audio", "multi_modal_", "mm_",       "image_", "img_",    "patch_merger.",
        "vpm.",        "resampler.",   "perceiver", "mtp.",   "talker.", "code2wav.",
        "token2wav.",  "connector.",   NULL};
    char draft[NAME_MAX_BYTES];
    if (begins(name, layers)) {
        int layer = atoi(name + strlen(layers));
        snprintf(draft, sizeof draft, "%s%d.eh_proj", layers, layer);
        return layer >= p->config->n_layers && plan_linear_exists(p, draft);
    }
    for (int again = 1; again;) {
        again = 0;
        for (const char *const *o = outer; *o && !again; o++)
            if (begins(name, *o)) name += strlen(*o), again = 1;
    }
    for (const char *const *x = parts; *x; x++)
        if (begins(name, *x)) return 1;
    return 0;
}

/* An unused tensor of a layer is an error, because the answers would be silently wrong; elsewhere
 * it is a note. */
static int check_unused(struct plan *p, struct err *e)
{
    /* scales and zero points of keys, values and queries in 8 bits, by all their names */
    static const char *const harmless[] = {"rotary_emb.inv_freq",
                                           ".k_scale",
                                           ".v_scale",
                                           ".q_scale",
                                           ".kv_scale",
                                           ".prob_scale",
                                           ".k_zero_point",
                                           ".v_zero_point",
                                           ".q_zero_point",
                                           ".k_proj.output_scale",
                                           ".v_proj.output_scale",
                                           ".q_proj.output_scale",
                                           ".k_proj.output_zero_point",
                                           ".v_proj.output_zero_point",
                                           ".q_proj.output_zero_point",
                                           ".k_global_scale",
                                           ".v_global_scale",
                                           ".q_global_scale",
                                           NULL};
    const char *first = NULL;
    char layers[64];
    size_t n = 0;
    snprintf(layers, sizeof layers, "%slayers.", p->prefix);
    for (size_t i = 0; i < p->dir->n_tensors; i++) {
        const char *name = p->dir->tensors[i].t->name;
        int ok = p->used[i] || !strncmp(name, "gptq_", 5);
        for (const char *const *h = harmless; *h && !ok; h++)
            if (ends_with(name, *h)) p->facts.n_kv_scales += h > harmless, ok = 1;
        if (!ok && ends_with(name, ".g_idx")) ok = is_plain(p, name);
        if (!ok && is_skipped(p, name, layers)) p->facts.n_skipped++, ok = 1;
        if (ok) continue;
        if (!strncmp(name, layers, strlen(layers)))
            return err_set(e,
                           "%s: tensor '%s' is not part of a %s model of %d layer%s: leaving it "
                           "out would change the answers",
                           p->dir->tensors[i].shard->path, name, p->config->architecture,
                           p->config->n_layers, units_s((uint64_t)p->config->n_layers));
        if (!first) first = name;
        n++;
    }
    if (p->facts.n_skipped)
        note_info(p->notes,
                  "%zu tensor%s of a vision tower, an audio tower or draft layers left out: only "
                  "the text model%s is converted",
                  p->facts.n_skipped, units_s(p->facts.n_skipped),
                  p->config->draft ? " with one draft layer" : "");
    if (p->facts.n_kv_scales)
        note_info(p->notes,
                  "%zu scale%s of keys and values in 8 bits left out: it changes nothing where the "
                  "cache has another format",
                  p->facts.n_kv_scales, units_s(p->facts.n_kv_scales));
    if (n)
        note_warn(p->notes, "%zu tensor%s not used, such as '%s'", n, n == 1 ? " is" : "s are",
                  first);
    return 0;
}

/* A GPTQ module without g_idx beside others with an order of their inputs has lost its own. */
static int check_orders(const struct plan *p, struct err *e)
{
    if (!p->facts.no_g_idx || !p->facts.n_act_order) return 0;
    return err_set(
        e,
        "%s: module '%s' has no usable g_idx, but %d others have their inputs in an order of "
        "their own: its order is not known",
        p->dir->path, p->facts.no_g_idx, p->facts.n_act_order);
}

static void report(const struct plan *p)
{
    const struct plan_facts *f = &p->facts;
    const int n_wide = p->dir->gguf ? p->dir->gguf->n_wide : 0;
    if (n_wide && !p->options.plain8)
        note_warn(p->notes,
                  "%s: %d of its linears are stored as numbers of 32 bits (--plain 8bit rounds "
                  "them, opt4gptq-quantize makes 4 bits of the file)",
                  p->dir->path, n_wide);
    else if (!f->n_quantized)
        note_warn(p->notes,
                  "%s: no module has a qweight: the checkpoint is not quantized, its weights are "
                  "%s",
                  p->dir->path,
                  f->n_rounded ? "rounded to 8 bits (--plain 8bit)"
                               : "copied as they are (--plain 8bit makes half of it)");
    if (f->n_label_wrong)
        note_warn(p->notes,
                  "the zero points of %d symmetric modules contradict checkpoint_format '%s': they "
                  "are stored as %s, and read so",
                  f->n_label_wrong, p->quant->label == LABEL_V2 ? "gptq_v2" : "gptq",
                  p->quant->label == LABEL_V2 ? "gptq does (minus one)"
                                              : "gptq_v2 does (as they are)");
    const char *rule = f->word_plus ? "as GPTQModel writes them (one added to whole words)"
                                    : "as AutoGPTQ does (one added to each field)";
    if (f->n_asymmetric && f->n_v1 && f->n_all_ones)
        note_info(p->notes,
                  "zero points of %d asymmetric modules are stored minus one (checkpoint_format "
                  "gptq), read %s; %" PRIu64 " fields are all ones, where programs differ",
                  f->n_asymmetric, rule, f->n_all_ones);
    else if (f->n_asymmetric && f->n_v1)
        note_detail(p->notes,
                    "zero points of %d asymmetric modules are stored minus one (checkpoint_format "
                    "gptq), read %s",
                    f->n_asymmetric, rule);
    if (f->n_unordered)
        note_warn(p->notes,
                  "desc_act is true, but %d modules have no usable g_idx: the order of their "
                  "inputs is not known, "
                  "consecutive groups are assumed",
                  f->n_unordered);
    if (f->n_sorted)
        note_detail(p->notes,
                    "act-order: in %d of %d layers gate and up leave their results in the order "
                    "that down wants",
                    f->n_sorted, p->config->n_layers);
    if (p->quant->present && f->n_quantized && !p->quant->sym_said &&
        p->quant->method == QUANT_GPTQ)
        note_detail(p->notes, "the configuration does not say 'sym': true is assumed, as AutoGPTQ "
                              "does; the zero points decide");
}

/* The first of `names` that is a module behind the prefix; NULL: none. */
static const char *module_of(const struct plan *p, const char *prefix, const char *const *names)
{
    char name[96];
    for (; *names; names++) {
        snprintf(name, sizeof name, "%s%s", prefix, *names);
        if (plan_linear_exists(p, name)) return *names;
    }
    return NULL;
}

/* What the tensors outside of layers are called, and what stands in front of them. */
static void find_names(struct plan *p)
{
    static const char *const layers[] = {"model.",
                                         "language_model.model.",
                                         "model.language_model.",
                                         "model.text_model.",
                                         "language_model.",
                                         "thinker.model.",
                                         "backbone.",
                                         "",
                                         NULL},
                             *const heads[] = {"",       "language_model.", "model.language_model.",
                                               "model.", "thinker.",        NULL},
                             *const embeds[] = {"embed_tokens", "tok_embeddings", "embeddings",
                                                NULL},
                             *const norms[] = {"norm", "norm_f", "final_layernorm",
                                               "embedding_norm", NULL},
                             *const head[] = {"lm_head", "output", NULL};
    p->prefix = "model.", p->head_prefix = "", p->norm = NULL, p->head = NULL;
    for (const char *const *x = layers; *x && !p->norm; x++)
        if ((p->norm = module_of(p, *x, norms))) p->prefix = *x;
    for (const char *const *x = heads; *x && !p->head; x++)
        if ((p->head = module_of(p, *x, head))) p->head_prefix = *x;
    if (!p->norm) p->norm = norms[0];
    if (!p->head) p->head = head[0];
    if (!(p->embed = module_of(p, p->prefix, embeds))) p->embed = embeds[0];
}

int plan_build(struct plan *p, const struct hf_dir *d, struct hf_config *c,
               const struct quant_config *q, const struct plan_options *o, const struct notes *n,
               struct err *e)
{
    char module[NAME_MAX_BYTES];
    memset(p, 0, sizeof *p);
    p->dir = d, p->config = c, p->quant = q, p->notes = n, p->options = *o;
    find_names(p);
    if (!(p->used = calloc(d->n_tensors + 1, 1))) return err_memory(e);
    snprintf(module, sizeof module, "%s%s", p->prefix, p->embed);
    const struct hf_tensor *embed = plan_find(p, module, "weight");
    if (!embed && c->tied) { /* saved under the other of the two names */
        char head[NAME_MAX_BYTES];
        snprintf(head, sizeof head, "%s%s", p->head_prefix, p->head);
        if ((embed = plan_find(p, head, "weight"))) memcpy(module, head, sizeof module);
    }
    if (!embed) return err_set(e, "%s: tensor '%s.weight' is missing", d->path, module);
    if (embed->t->n_dims == 2 && embed->t->shape[0] != c->vocab)
        return err_set(e, "%s: tensor '%s' has %" PRId64 " rows, vocab_size in config.json is %d",
                       embed->shard->path, embed->t->name, embed->t->shape[0], c->vocab);
    const struct linear_from table = {.part = {{.module = module, .out = c->vocab}},
                                      .in = c->dim,
                                      .keep_plain = 1,
                                      .bias = BIAS_IGNORED};
    if (plan_linear(p, &table, "embed_tokens", e)) return -1;
    p->facts.n_plain--; /* it is no linear */
    if (find_headless(p, &c->headless, e)) return -1;
    if (plan_layers(p, c, e) || plan_draft_layer(p, c, e) || plan_final_norm(p, e) ||
        add_head(p, embed, e) || plan_rope_tables(p, e))
        return -1;
    if (check_orders(p, e) || check_unused(p, e) || plan_texts(p, c, o->no_tokenizer, e)) return -1;
    uint64_t at = 0;
    for (size_t i = 0; i < p->n_tensors; i++) {
        p->tensors[i].offset = at;
        at += (p->tensors[i].bytes + MF_ALIGN - 1) / MF_ALIGN * MF_ALIGN;
    }
    report(p);
    return 0;
}

void plan_free(struct plan *p)
{
    for (size_t i = 0; i < p->n_tensors; i++) {
        free(p->tensors[i].name);
        free(p->tensors[i].crc);
        free(p->tensors[i].crc_bytes);
    }
    for (size_t i = 0; i < p->n_linears; i++) plan_linear_free(p->linears[i]);
    for (size_t i = 0; i < p->n_blobs; i++) free(p->blobs[i]);
    free(p->tensors);
    free(p->jobs);
    free(p->linears);
    free(p->blobs);
    free(p->used);
    memset(p, 0, sizeof *p);
}
