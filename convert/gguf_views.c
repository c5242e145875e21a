/* gguf_views.c: the tensors of a GGUF file under the names and in the layouts of a checkpoint.
 * Bytes of a view are made when they are read, row by row. */
#include "convert/gguf_checkpoint.h"

#include "core/base/dtype.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VIEW_ALIGN = 64, NAME_BYTES = 320 };

enum shows { SHOWS_NUMBERS, SHOWS_CODES, SHOWS_SCALES, SHOWS_LEAST };

enum { BLOCK = 256, GROUP = 32 }; /* numbers of the largest block; codes of a scale */

struct gguf_view {
    const struct gguf_tensor *t;
    enum shows shows;
    enum dtype dtype;
    int64_t n_rows;
    uint64_t row_bytes; /* of the view */
    int64_t head_rows;  /* rows of a head whose halves were mixed; 0: rows are in order */
    int minus_1;
};

static const struct {
    const char *stem, *name;
} names[] =
    {
        {"attn_norm", "input_layernorm"},
        {"attn_q", "self_attn.q_proj"},
        {"attn_k", "self_attn.k_proj"},
        {"attn_v", "self_attn.v_proj"},
        {"attn_output", "self_attn.o_proj"},
        {"attn_q_norm", "self_attn.q_norm"},
        {"attn_k_norm", "self_attn.k_norm"},
        {"ffn_gate", "mlp.gate_proj"},
        {"ffn_up", "mlp.up_proj"},
        {"ffn_down", "mlp.down_proj"},
        {"ffn_norm", "post_attention_layernorm"},
},
  of_gemma[] = {
      /* before the above */
      {"ffn_norm", "pre_feedforward_layernorm"},
      {"post_attention_norm", "post_attention_layernorm"},
      {"post_ffw_norm", "post_feedforward_layernorm"},
};

static const char *layer_name(const struct gguf_checkpoint *k, const char *stem)
{
    for (size_t i = 0; i < sizeof of_gemma / sizeof *of_gemma && k->arch->gemma; i++)
        if (!strcmp(of_gemma[i].stem, stem)) return of_gemma[i].name;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i].stem, stem)) return names[i].name;
    return NULL;
}

int gguf_name(const struct gguf_checkpoint *k, const char *name, char *room, struct err *e)
{
    static const char *const outer[][2] = {{"token_embd.weight", "model.embed_tokens.weight"},
                                           {"output_norm.weight", "model.norm.weight"},
                                           {"output.weight", "lm_head.weight"},
                                           {"output.bias", "lm_head.bias"}};
    int layer, at = 0;
    char stem[64];
    for (size_t i = 0; i < sizeof outer / sizeof *outer; i++)
        if (!strcmp(name, outer[i][0])) {
            snprintf(room, NAME_BYTES, "%s", outer[i][1]);
            return 0;
        }
    if (sscanf(name, "blk.%d.%63[a-z0-9_].%n", &layer, stem, &at) == 2 && at && layer >= 0) {
        const char *own = layer_name(k, stem), *end = name + at;
        if (own && (!strcmp(end, "weight") || !strcmp(end, "bias"))) {
            snprintf(room, NAME_BYTES, "model.layers.%d.%s.%s", layer, own, end);
            return 0;
        }
    }
    return err_set(e, "%s: tensor '%s' has no place in architecture '%s'", k->file.path, name,
                   k->arch->name);
}

int gguf_is_coded(const struct gguf_checkpoint *k, const struct gguf_tensor *t)
{
    return !k->as_numbers && t->type->bits && t->n_dims == 2 &&
           strcmp(t->name, "token_embd.weight") != 0;
}

/* ---- reading */

/* The row of the file that holds row r: of a head's first half 0, 2, 4, .., of its second 1, 3, ..
 */
static int64_t row_in_file(const struct gguf_view *v, int64_t r)
{
    if (!v->head_rows) return r;
    int64_t in_head = r % v->head_rows, half = v->head_rows / 2;
    return r - in_head + in_head % half * 2 + in_head / half;
}

static void numbers(const struct gguf_view *v, const uint8_t *block, uint8_t *out)
{
    float y[BLOCK];
    v->t->type->floats(block, y);
    for (int i = 0; i < v->t->type->per; i++)
        if (v->minus_1) y[i] -= 1;
    memcpy(out, y, (size_t)v->t->type->per * sizeof *y);
}

/* Codes of a block as words: the first one in the lowest bits. */
static void words(const struct gguf_view *v, const uint8_t *block, uint8_t *out)
{
    uint8_t q[BLOCK];
    v->t->type->codes(block, q);
    for (int i = 0; i < v->t->type->per; i++) {
        if (v->t->type->bits == 8) out[i] = q[i];
        else if (i % 2) out[i / 2] |= (uint8_t)(q[i] << 4);
        else out[i / 2] = q[i];
    }
}

/* Scales of a block's groups, or their least values, of the view's type. */
static void one_of_pairs(const struct gguf_view *v, const uint8_t *block, uint8_t *out)
{
    float scale[BLOCK / GROUP], least[BLOCK / GROUP];
    const float *x = v->shows == SHOWS_LEAST ? least : scale;
    v->t->type->pairs(block, scale, least);
    for (int i = 0; i < v->t->type->per / GROUP; i++) {
        uint16_t half = f16_from_f32(x[i]);
        if (v->dtype == DT_F16) memcpy(out + 2 * i, &half, 2);
        else memcpy(out + 4 * i, &x[i], 4);
    }
}

/* raw: a row of the file; out: the row of the view. */
static void show_row(const struct gguf_view *v, const uint8_t *raw, uint8_t *out)
{
    const struct gguf_type *t = v->t->type;
    uint64_t blocks = (uint64_t)(v->t->size[0] / t->per), step = v->row_bytes / blocks;
    if (v->shows == SHOWS_NUMBERS && v->dtype != DT_F32) {
        memcpy(out, raw, v->row_bytes);
        return;
    }
    for (uint64_t i = 0; i < blocks; i++, raw += t->bytes, out += step) {
        if (v->shows == SHOWS_NUMBERS) numbers(v, raw, out);
        else if (v->shows == SHOWS_CODES) words(v, raw, out);
        else if (t->pairs) one_of_pairs(v, raw, out);
        else memcpy(out, raw, 2);
    }
}

static int read_rows(const struct gguf_checkpoint *k, const struct gguf_view *v, uint64_t at,
                     uint8_t *dst, uint64_t bytes, struct err *e)
{
    uint64_t file_row = (uint64_t)(v->t->size[0] / v->t->type->per * v->t->type->bytes);
    uint8_t *raw = malloc(file_row + v->row_bytes), *row = raw + file_row;
    int rc = raw ? 0 : err_memory(e);
    while (bytes && !rc) {
        uint64_t r = at / v->row_bytes, from = at % v->row_bytes, n = v->row_bytes - from;
        if (n > bytes) n = bytes;
        rc = gguf_read(&k->file, raw,
                       v->t->offset + (uint64_t)row_in_file(v, (int64_t)r) * file_row, file_row, e);
        if (rc) break;
        show_row(v, raw, n == v->row_bytes ? dst : row);
        if (n < v->row_bytes) memcpy(dst, row + from, n);
        at += n, dst += n, bytes -= n;
    }
    free(raw);
    return rc;
}

static int read_view(const void *self, void *dst, uint64_t offset, uint64_t bytes, struct err *e)
{
    const struct gguf_checkpoint *k = self;
    size_t lo = 0, hi = k->shard.n_tensors;
    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;
        if (k->shard.tensors[mid].offset <= offset) lo = mid;
        else hi = mid;
    }
    const struct st_tensor *t = &k->shard.tensors[lo];
    CHECK(offset >= t->offset && bytes <= t->bytes - (offset - t->offset));
    return read_rows(k, &k->views[lo], offset - t->offset, dst, bytes, e);
}

/* ---- the list */

static int add(struct gguf_checkpoint *k, const char *name, const struct gguf_view *v,
               int64_t width, struct err *e)
{
    struct st_file *s = &k->shard;
    json_t *own = json_string(name);
    if (!own || json_array_append_new(s->header, own)) return err_memory(e);
    struct st_tensor *t = &s->tensors[s->n_tensors];
    *t = (struct st_tensor){.name = json_string_value(own),
                            .dtype = v->dtype,
                            .n_dims = v->t->n_dims,
                            .offset = s->file_bytes,
                            .bytes = (uint64_t)v->n_rows * v->row_bytes};
    t->shape[v->t->n_dims - 1] = width;
    if (v->t->n_dims == 2) t->shape[0] = v->n_rows;
    k->views[s->n_tensors++] = *v;
    s->file_bytes = (s->file_bytes + t->bytes + VIEW_ALIGN - 1) / VIEW_ALIGN * VIEW_ALIGN;
    return 0;
}

static int add_coded(struct gguf_checkpoint *k, const char *name, struct gguf_view v, struct err *e)
{
    const struct gguf_type *t = v.t->type;
    static const char *const what[] = {"packed", "scale", "least"};
    int64_t groups = v.t->size[0] / GROUP;
    int stem = (int)(strlen(name) - strlen(".weight"));
    for (int i = 0; i < (t->pairs ? 3 : 2); i++) {
        char full[NAME_BYTES + 16];
        int64_t n = i ? groups : groups * t->bits;
        v.shows = i == 0 ? SHOWS_CODES : i == 1 ? SHOWS_SCALES : SHOWS_LEAST;
        v.dtype = i == 0 ? DT_I32 : t->per > GROUP ? DT_F32 : DT_F16;
        v.row_bytes = (uint64_t)n * dtype_bytes(v.dtype);
        snprintf(full, sizeof full, "%.*s.weight_%s", stem, name, what[i]);
        if (add(k, full, &v, n, e)) return -1;
    }
    return 0;
}

static int add_tensor(struct gguf_checkpoint *k, const struct gguf_tensor *t, struct err *e)
{
    char name[NAME_BYTES];
    int64_t heads, rows = t->n_dims == 2 ? t->size[1] : 1;
    if (t->n_dims > 2)
        return err_set(e, "%s: tensor '%s' has %d dimensions", k->file.path, t->name, t->n_dims);
    if (gguf_name(k, t->name, name, e)) return -1;
    struct gguf_view v = {.t = t, .dtype = DT_F32, .n_rows = rows};
    const char *end = strrchr(name, '.');
    int is_q = strstr(name, ".q_proj.") != NULL, is_k = strstr(name, ".k_proj.") != NULL;
    v.minus_1 = k->arch->plus_1 && !strcmp(end, ".weight") && strstr(name, "norm.weight");
    if (k->arch->turns && (is_q || is_k)) {
        if (gguf_integer(k, ".attention.head_count", -1, &heads, e) ||
            (is_k && gguf_integer(k, ".attention.head_count_kv", heads, &heads, e)))
            return -1;
        if (!heads || rows % (2 * heads))
            return err_set(e, "%s: tensor '%s' has %" PRId64 " rows, for %" PRId64 " heads",
                           k->file.path, t->name, rows, heads);
        v.head_rows = rows / heads;
    }
    if (gguf_is_coded(k, t)) return add_coded(k, name, v, e);
    if (t->type->per == 1 && !v.minus_1) {
        v.dtype = t->type->bytes == 4 ? DT_F32 : !strcmp(t->type->name, "F16") ? DT_F16 : DT_BF16;
    } else if (t->n_dims == 2 && !strncmp(t->name, "blk.", 4)) {
        if (t->type->per == 256 && !k->k_quant) k->k_quant = t;
        k->n_wide++;
    }
    v.row_bytes = (uint64_t)t->size[0] * dtype_bytes(v.dtype);
    return add(k, name, &v, t->size[0], e);
}

int gguf_views(struct gguf_checkpoint *k, struct err *e)
{
    struct st_file *s = &k->shard;
    const size_t most = 3 * k->file.n_tensors + 1;
    *s = (struct st_file){.fd = dup(k->file.fd),
                          .path = strdup(k->file.path),
                          .header = json_array(),
                          .tensors = calloc(most, sizeof *s->tensors),
                          .read = read_view,
                          .self = k};
    k->views = calloc(most, sizeof *k->views);
    if (s->fd < 0) return err_sys(e, "%s", k->file.path);
    if (!s->path || !s->header || !s->tensors || !k->views) return err_memory(e);
    for (size_t i = 0; i < k->file.n_tensors; i++) {
        const struct gguf_tensor *t = &k->file.tensors[i];
        if (strcmp(t->name, "rope_freqs.weight") != 0 && add_tensor(k, t, e)) return -1;
    }
    return 0;
}
