#include "convert/gguf.h"

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/safetensors.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIRST_READ = 1 << 20, MAX_HEADER = 1 << 30, MAX_NESTED = 2, ALIGNMENT = 32 };
enum kind { U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 };

/* The header while it is read. */
struct cursor {
    const uint8_t *p; /* [n] */
    uint64_t n, at;
    int is_short; /* more of the file is needed */
    const char *path;
};

static const uint8_t *take(struct cursor *c, uint64_t bytes)
{
    if (c->n - c->at < bytes) {
        c->is_short = 1;
        return NULL;
    }
    c->at += bytes;
    return c->p + c->at - bytes;
}

/* An unsigned number of so many bytes. */
static int number(struct cursor *c, int bytes, uint64_t *x)
{
    const uint8_t *p = take(c, (uint64_t)bytes);
    *x = 0;
    for (int i = 0; p && i < bytes; i++) *x |= (uint64_t)p[i] << 8 * i;
    return p ? 0 : -1;
}

static int text(struct cursor *c, json_t **v, struct err *e)
{
    uint64_t n;
    const uint8_t *p = number(c, 8, &n) ? NULL : take(c, n);
    if (!p) return err_set(e, "%s: ends within its header", c->path);
    *v = json_stringn((const char *)p, n);
    if (!*v && json_check(e)) return -1; /* no memory */
    return *v ? 0 : err_set(e, "%s: a text of its header is not UTF-8", c->path);
}

static int value(struct cursor *c, enum kind kind, int depth, json_t **v, struct err *e);

static int array(struct cursor *c, int depth, json_t **v, struct err *e)
{
    uint64_t kind, n;
    if (number(c, 4, &kind) || number(c, 8, &n))
        return err_set(e, "%s: ends within its header", c->path);
    if (depth == MAX_NESTED)
        return err_set(e, "%s: an array of its header is nested too deep", c->path);
    if (n > MAX_HEADER) return err_set(e, "%s: an array of its header is too long", c->path);
    if (!(*v = json_array())) return err_memory(e);
    for (uint64_t i = 0; i < n; i++) {
        json_t *x = NULL;
        if (value(c, (enum kind)kind, depth + 1, &x, e)) {
            json_decref(x);
            return -1;
        }
        if (json_array_append_new(*v, x)) return err_memory(e);
    }
    return 0;
}

static int real(struct cursor *c, int bytes, json_t **v, struct err *e)
{
    uint64_t x;
    double d;
    float f;
    if (number(c, bytes, &x)) return err_set(e, "%s: ends within its header", c->path);
    uint32_t low = (uint32_t)x;
    memcpy(&f, &low, 4);
    memcpy(&d, &x, 8);
    if (bytes == 4) d = (double)f;
    if (!isfinite(d)) return err_set(e, "%s: a number of its header is not finite", c->path);
    return (*v = json_real(d)) ? 0 : err_memory(e);
}

static int integer(struct cursor *c, enum kind kind, json_t **v, struct err *e)
{
    static const int bytes[] = {
        [U8] = 1, [I8] = 1, [U16] = 2, [I16] = 2, [U32] = 4, [I32] = 4, [U64] = 8, [I64] = 8};
    uint64_t x;
    if (number(c, bytes[kind], &x)) return err_set(e, "%s: ends within its header", c->path);
    int is_signed = kind == I8 || kind == I16 || kind == I32 || kind == I64,
        shift = 64 - 8 * bytes[kind];
    if (kind == U64 && x > INT64_MAX)
        return err_set(e, "%s: a number of its header is too large", c->path);
    int64_t s = is_signed ? (int64_t)(x << shift) >> shift : (int64_t)x;
    return (*v = json_integer(s)) ? 0 : err_memory(e);
}

static int value(struct cursor *c, enum kind kind, int depth, json_t **v, struct err *e)
{
    uint64_t x;
    if (kind > F64)
        return err_set(e, "%s: a value of its header has the unknown kind %d", c->path, (int)kind);
    if (kind == STRING) return text(c, v, e);
    if (kind == ARRAY) return array(c, depth, v, e);
    if (kind == F32 || kind == F64) return real(c, kind == F32 ? 4 : 8, v, e);
    if (kind != BOOL) return integer(c, kind, v, e);
    if (number(c, 1, &x)) return err_set(e, "%s: ends within its header", c->path);
    if (x > 1) return err_set(e, "%s: a boolean of its header is %d", c->path, (int)x);
    return (*v = json_boolean((int)x)) ? 0 : err_memory(e);
}

static int keys(struct gguf *g, struct cursor *c, uint64_t n, struct err *e)
{
    for (uint64_t i = 0; i < n; i++) {
        json_t *key = NULL, *v = NULL;
        uint64_t kind = 0;
        int rc = text(c, &key, e);
        if (!rc && number(c, 4, &kind)) rc = err_set(e, "%s: ends within its header", c->path);
        if (!rc) rc = value(c, (enum kind)kind, 0, &v, e);
        if (!rc && json_object_get(g->keys, json_string_value(key)))
            rc = err_set(e, "%s: key '%s' stands twice", c->path, json_string_value(key));
        if (!rc && json_object_set(g->keys, json_string_value(key), v)) rc = err_memory(e);
        json_decref(key);
        json_decref(v);
        if (rc) return -1;
    }
    return 0;
}

/* A tensor's name, type and sizes; its offset is one from the data's beginning. */
static int tensor(struct gguf *g, struct cursor *c, struct gguf_tensor *t, struct err *e)
{
    json_t *name = NULL;
    uint64_t n_dims = 0, id = 0, rows = 1;
    if (text(c, &name, e)) return -1;
    t->name = json_string_value(name);
    if (json_object_get(g->names, t->name)) {
        err_set(e, "%s: tensor '%s' stands twice", c->path, t->name);
        json_decref(name);
        return -1;
    }
    int full = json_object_set_new(g->names, t->name, name);
    if (full) return err_memory(e);
    if (number(c, 4, &n_dims)) return err_set(e, "%s: ends within its header", c->path);
    if (n_dims < 1 || n_dims > 4)
        return err_set(e, "%s: tensor '%s' has %d dimensions", c->path, t->name, (int)n_dims);
    t->n_dims = (int)n_dims;
    for (int i = 0; i < t->n_dims; i++) {
        uint64_t size;
        if (number(c, 8, &size)) return err_set(e, "%s: ends within its header", c->path);
        if (!size || size > INT32_MAX || rows > (UINT64_C(1) << 48) / size)
            return err_set(e, "%s: tensor '%s' has an impossible size", c->path, t->name);
        t->size[i] = (int64_t)size;
        rows *= i ? size : 1;
    }
    if (number(c, 4, &id) || number(c, 8, &t->offset))
        return err_set(e, "%s: ends within its header", c->path);
    if (!(t->type = gguf_type((uint32_t)id)))
        return err_set(e,
                       "%s: tensor '%s' is of type %s, which is not read: take a file in F16, "
                       "Q4_0, Q8_0, or the model's GPTQ or AWQ export",
                       c->path, t->name, gguf_type_name((uint32_t)id));
    if (t->size[0] % t->type->per)
        return err_set(e, "%s: tensor '%s': rows of %" PRId64 " are no whole blocks of %s", c->path,
                       t->name, t->size[0], t->type->name);
    t->bytes = (uint64_t)(t->size[0] / t->type->per * t->type->bytes) * rows;
    return 0;
}

/* Offsets from the file's beginning; the data begin at a multiple of general.alignment. */
static int place(struct gguf *g, uint64_t header, struct err *e)
{
    const json_t *a = json_object_get(g->keys, "general.alignment");
    json_int_t align = a ? json_integer_value(a) : ALIGNMENT;
    if (align < 1 || align > 1 << 20 || align & (align - 1))
        return err_set(e, "%s: general.alignment is no power of two", g->path);
    uint64_t data = (header + (uint64_t)align - 1) / (uint64_t)align * (uint64_t)align;
    for (size_t i = 0; i < g->n_tensors; i++) {
        struct gguf_tensor *t = &g->tensors[i];
        if (data > g->file_bytes || t->offset > g->file_bytes - data ||
            t->bytes > g->file_bytes - data - t->offset)
            return err_set(e, "%s: tensor '%s' ends behind the file's end: the file is cut",
                           g->path, t->name);
        t->offset += data;
    }
    return 0;
}

static int parse(struct gguf *g, struct cursor *c, struct err *e)
{
    uint64_t version = 0, n_tensors = 0, n_keys = 0;
    const uint8_t *magic = take(c, 4);
    if (!magic || memcmp(magic, "GGUF", 4)) return err_set(e, "%s: is no GGUF file", c->path);
    if (number(c, 4, &version) || (version != 2 && version != 3))
        return err_set(e, "%s: is GGUF of version %d, 2 and 3 are read", c->path, (int)version);
    if (number(c, 8, &n_tensors) || number(c, 8, &n_keys))
        return err_set(e, "%s: ends within its header", c->path);
    if (n_tensors > 1 << 20 || n_keys > 1 << 20)
        return err_set(e, "%s: has too many tensors or keys", c->path);
    if (keys(g, c, n_keys, e)) return -1;
    if (!(g->tensors = calloc(n_tensors + 1, sizeof *g->tensors))) return err_memory(e);
    for (; g->n_tensors < n_tensors; g->n_tensors++)
        if (tensor(g, c, &g->tensors[g->n_tensors], e)) return -1;
    return place(g, c->at, e);
}

static void forget(struct gguf *g)
{
    json_decref(g->keys);
    json_decref(g->names);
    free(g->tensors);
    g->keys = g->names = NULL;
    g->tensors = NULL, g->n_tensors = 0;
}

int gguf_read(const struct gguf *g, void *dst, uint64_t offset, uint64_t bytes, struct err *e)
{
    return st_read(&(struct st_file){.path = g->path, .fd = g->fd}, dst, offset, bytes, e);
}

/* The header's length is not said: twice as much of the file is read until it is whole. */
static int header(struct gguf *g, struct err *e)
{
    for (uint64_t size = FIRST_READ;; size *= 2) {
        struct cursor c = {.n = size < g->file_bytes ? size : g->file_bytes, .path = g->path};
        uint8_t *p = malloc(c.n + 1);
        if (!p || !(g->keys = json_object()) || !(g->names = json_object())) {
            free(p);
            return err_memory(e);
        }
        c.p = p;
        int rc = gguf_read(g, p, 0, c.n, e) || parse(g, &c, e) ? -1 : 0;
        free(p);
        if (!rc || !c.is_short || c.n == g->file_bytes || size >= MAX_HEADER) return rc;
        forget(g);
    }
}

int gguf_open(struct gguf *g, const char *path, struct err *e)
{
    *g = (struct gguf){.fd = -1, .path = strdup(path)};
    if (!g->path) return err_memory(e);
    if (file_open(&g->fd, path, &g->file_bytes, e) || header(g, e)) {
        gguf_close(g);
        return -1;
    }
    return 0;
}

void gguf_close(struct gguf *g)
{
    forget(g);
    if (g->fd >= 0) close(g->fd);
    free(g->path);
    *g = (struct gguf){.fd = -1};
}

const struct gguf_tensor *gguf_find(const struct gguf *g, const char *name)
{
    for (size_t i = 0; i < g->n_tensors; i++)
        if (!strcmp(g->tensors[i].name, name)) return &g->tensors[i];
    return NULL;
}
