#include "core/base/safetensors.h"

#include "core/base/file.h"
#include "core/base/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The reference implementation's limit; also bounds the allocation for a hostile length. */
enum { MAX_HEADER_BYTES = 100 * 1000 * 1000 };

static const char *const dtype_names[DT_COUNT] = {"BOOL", "U8",  "I8",  "I16",  "U16", "I32", "U32",
                                                  "I64",  "U64", "F16", "BF16", "F32", "F64"};

const char *st_dtype_name(enum dtype t) { return dtype_names[t]; }

static int dtype_of(const char *name)
{
    for (int i = 0; i < DT_COUNT; i++)
        if (!strcmp(name, dtype_names[i])) return i;
    return -1;
}

int st_read(const struct st_file *s, void *dst, uint64_t offset, uint64_t bytes, struct err *e)
{
    char *p = dst;
    if (s->read) return s->read(s->self, dst, offset, bytes, e);
    while (bytes) {
        ssize_t n = pread(s->fd, p, bytes > (1u << 30) ? 1u << 30 : bytes, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return err_sys(e, "%s: cannot read", s->path);
        if (n == 0)
            return err_set(e, "%s: file ends at byte %" PRIu64 ", while it is being read", s->path,
                           offset);
        p += n, offset += (uint64_t)n, bytes -= (uint64_t)n;
    }
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct st_tensor *)a)->name, ((const struct st_tensor *)b)->name);
}

static int by_offset(const void *a, const void *b)
{
    const struct st_tensor *x = *(const struct st_tensor *const *)a,
                           *y = *(const struct st_tensor *const *)b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static int parse_tensor(const struct st_file *s, struct st_tensor *t, const char *name,
                        const json_t *v, uint64_t data_start, struct err *e)
{
    t->name = name;
    const json_t *dtype = json_object_get(v, "dtype"), *shape = json_object_get(v, "shape"),
                 *offs = json_object_get(v, "data_offsets");
    if (!json_is_string(dtype) || !json_is_array(shape) || !json_is_array(offs) ||
        json_array_size(offs) != 2)
        return err_set(e,
                       "%s: tensor '%s': dtype, shape or data_offsets missing or of the wrong type",
                       s->path, name);
    int d = dtype_of(json_string_value(dtype));
    if (d < 0)
        return err_set(e, "%s: tensor '%s': unknown dtype '%.20s'", s->path, name,
                       json_string_value(dtype));
    t->dtype = (enum dtype)d;
    size_t n_dims = json_array_size(shape);
    if (n_dims > ST_MAX_DIMS)
        return err_set(e, "%s: tensor '%s': %zu dimensions (at most %d)", s->path, name, n_dims,
                       ST_MAX_DIMS);
    t->n_dims = (int)n_dims;
    uint64_t bytes = dtype_bytes(t->dtype);
    for (size_t i = 0; i < n_dims; i++) {
        const json_t *x = json_array_get(shape, i);
        if (!json_is_integer(x) || json_integer_value(x) < 0)
            return err_set(e, "%s: tensor '%s': shape is not a list of sizes", s->path, name);
        t->shape[i] = json_integer_value(x);
        if (__builtin_mul_overflow(bytes, (uint64_t)t->shape[i], &bytes))
            return err_set(e, "%s: tensor '%s': shape overflows", s->path, name);
    }
    const json_t *b = json_array_get(offs, 0), *x = json_array_get(offs, 1);
    if (!json_is_integer(b) || !json_is_integer(x) || json_integer_value(b) < 0 ||
        json_integer_value(x) < json_integer_value(b))
        return err_set(e, "%s: tensor '%s': bad data_offsets", s->path, name);
    uint64_t begin = (uint64_t)json_integer_value(b), end = (uint64_t)json_integer_value(x);
    if (end - begin != bytes)
        return err_set(
            e, "%s: tensor '%s': %" PRIu64 " bytes in the file, its shape and dtype need %" PRIu64,
            s->path, name, end - begin, bytes);
    if (end > s->file_bytes - data_start)
        return err_set(e,
                       "%s: tensor '%s' ends at byte %" PRIu64 " of %" PRIu64
                       " data bytes: the file is truncated or damaged",
                       s->path, name, end, s->file_bytes - data_start);
    t->offset = data_start + begin;
    t->bytes = bytes;
    return 0;
}

static int check_overlap(const struct st_file *s, struct err *e)
{
    const struct st_tensor **order = malloc((s->n_tensors + 1) * sizeof *order);
    if (!order) return err_memory_for(e, "%s: out of memory", s->path);
    for (size_t i = 0; i < s->n_tensors; i++) order[i] = &s->tensors[i];
    qsort(order, s->n_tensors, sizeof *order, by_offset);
    int rc = 0;
    for (size_t i = 1; i < s->n_tensors && !rc; i++)
        if (order[i]->offset < order[i - 1]->offset + order[i - 1]->bytes)
            rc = err_set(e, "%s: tensors '%s' and '%s' overlap", s->path, order[i - 1]->name,
                         order[i]->name);
    free(order);
    return rc;
}

static int parse_header(struct st_file *s, const char *text, size_t n, struct err *e)
{
    json_error_t why;
    s->header = json_read(text, n, JSON_REJECT_DUPLICATES, &why, e);
    if (!s->header && err_is_memory(e)) return err_prefix(e, "%s", s->path);
    if (!s->header)
        return err_set(e, "%s: header is not JSON: %s (at byte %d)", s->path, json_why(&why),
                       why.position);
    if (!json_is_object(s->header)) return err_set(e, "%s: header is not a JSON object", s->path);
    s->tensors = calloc(json_object_size(s->header) + 1, sizeof *s->tensors);
    if (!s->tensors) return err_memory_for(e, "%s: out of memory", s->path);
    const char *name;
    json_t *v;
    json_object_foreach (s->header, name, v) {
        if (!strcmp(name, "__metadata__")) {
            const char *key;
            json_t *text_value;
            if (!json_is_object(v)) return err_set(e, "%s: __metadata__ is not an object", s->path);
            json_object_foreach (v, key, text_value)
                if (!json_is_string(text_value))
                    return err_set(e, "%s: __metadata__ '%s' is not a string", s->path, key);
            s->metadata = v;
        } else if (parse_tensor(s, &s->tensors[s->n_tensors++], name, v, 8 + n, e)) {
            return -1;
        }
    }
    if (check_overlap(s, e)) return -1;
    qsort(s->tensors, s->n_tensors, sizeof *s->tensors, by_name);
    return 0;
}

int st_open(struct st_file *s, const char *path, struct err *e)
{
    char *text = NULL;
    memset(s, 0, sizeof *s);
    s->fd = -1;
    s->path = strdup(path);
    if (!s->path) return err_memory(e);
    if (file_open(&s->fd, path, &s->file_bytes, e)) goto fail;
    /* Little-endian in the file, as is every supported machine (modelfile.c checks it). */
    uint64_t n;
    if (s->file_bytes < 8) {
        err_set(e, "%s: is not a safetensors file (only %" PRIu64 " bytes)", path, s->file_bytes);
        goto fail;
    }
    if (st_read(s, &n, 0, 8, e)) goto fail;
    if (n > MAX_HEADER_BYTES || n > s->file_bytes - 8) {
        err_set(
            e, "%s: is not a safetensors file, or truncated: its header would be %" PRIu64 " bytes",
            path, n);
        goto fail;
    }
    text = malloc(n + 1);
    if (!text) {
        err_memory_for(e, "%s: out of memory", path);
        goto fail;
    }
    if (st_read(s, text, 8, n, e)) goto fail;
    if (parse_header(s, text, n, e)) goto fail;
    free(text);
    return 0;
fail:
    free(text);
    st_close(s);
    return -1;
}

void st_close(struct st_file *s)
{
    if (s->fd >= 0) close(s->fd);
    json_decref(s->header);
    free(s->tensors);
    free(s->path);
    memset(s, 0, sizeof *s);
    s->fd = -1;
}

const struct st_tensor *st_find(const struct st_file *s, const char *name)
{
    struct st_tensor key = {.name = name};
    return s->n_tensors ? bsearch(&key, s->tensors, s->n_tensors, sizeof key, by_name) : NULL;
}

const char *st_meta(const struct st_file *s, const char *key)
{
    return json_string_value(json_object_get(s->metadata, key));
}
