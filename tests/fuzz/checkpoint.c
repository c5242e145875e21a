#include "tests/fuzz/checkpoint.h"

#include "core/base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char changed_mark[] = "\"@changed@\"";

static int ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && !strcmp(name + n - m, end);
}

static int load_text(struct checkpoint_copy *c, const char *path, const char *name, struct err *e)
{
    struct checkpoint_text *t = &c->text[c->n_texts];
    json_error_t why;
    if (c->n_texts == CHECKPOINT_TEXTS) return err_set(e, "%s: too many files", path);
    t->json = json_load_file(path, 0, &why);
    if (!t->json) return err_set(e, "%s: %s", path, why.text);
    snprintf(t->name, sizeof t->name, "%.63s", name);
    c->n_texts++;
    return 0;
}

static void take_tensor(struct checkpoint_tensor *to, const struct st_tensor *t, int shard,
                        uint64_t data_at)
{
    snprintf(to->name, sizeof to->name, "%s", t->name);
    snprintf(to->dtype, sizeof to->dtype, "%s", st_dtype_name(t->dtype));
    to->shard = shard;
    to->n_dims = t->n_dims;
    memcpy(to->shape, t->shape, sizeof to->shape);
    to->offset = t->offset - data_at;
    to->bytes = t->bytes;
}

static int load_shard(struct checkpoint_copy *c, const char *path, const char *name, struct err *e)
{
    struct st_file s;
    uint64_t header = 0;
    int i = c->n_shards, rc = -1;
    if (i == CHECKPOINT_SHARDS) return err_set(e, "%s: too many files", path);
    if (st_open(&s, path, e)) return -1;
    if (st_read(&s, &header, 0, 8, e)) goto end;
    uint64_t at = 8 + header;
    c->data_bytes[i] = s.file_bytes - at;
    c->data[i] = malloc(c->data_bytes[i] + 1);
    struct checkpoint_tensor *all = realloc(c->tensor, (c->n_tensors + s.n_tensors) * sizeof *all);
    if (all) c->tensor = all;
    c->n_shards++;
    if (!all || !c->data[i]) {
        rc = err_memory(e);
        goto end;
    }
    memset(all + c->n_tensors, 0, s.n_tensors * sizeof *all);
    for (size_t k = 0; k < s.n_tensors; k++)
        take_tensor(&all[c->n_tensors++], &s.tensors[k], i, at);
    snprintf(c->shard[i], sizeof c->shard[i], "%.63s", name);
    rc = st_read(&s, c->data[i], at, c->data_bytes[i], e);
end:
    st_close(&s);
    return rc;
}

static int is_wanted(const struct dirent *f)
{
    return f->d_name[0] != '.' && strcmp(f->d_name, "expected.safetensors") != 0 &&
           strcmp(f->d_name, "expected.json") != 0;
}

int checkpoint_load(struct checkpoint_copy *c, const char *dir, struct err *e)
{
    struct dirent **f;
    int rc = 0, n = scandir(dir, &f, is_wanted, alphasort);
    memset(c, 0, sizeof *c);
    if (n < 0) return err_sys(e, "%s", dir);
    for (int i = 0; i < n; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", dir, f[i]->d_name);
        if (!rc && ends_with(path, ".json")) rc = load_text(c, path, f[i]->d_name, e);
        if (!rc && ends_with(path, ".safetensors")) rc = load_shard(c, path, f[i]->d_name, e);
        free(f[i]);
    }
    free(f);
    if (rc) checkpoint_free(c);
    return rc;
}

void checkpoint_free(struct checkpoint_copy *c)
{
    for (int i = 0; i < c->n_texts; i++) json_decref(c->text[i].json);
    for (int i = 0; i < c->n_shards; i++) free(c->data[i]);
    free(c->tensor);
    memset(c, 0, sizeof *c);
}

static int write_file(const char *dir, const char *name, const char *head, size_t n,
                      const void *data, size_t bytes, struct err *e)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    if (!f) return err_sys(e, "%s", path);
    size_t done = fwrite(head, 1, n, f) + (bytes ? fwrite(data, 1, bytes, f) : 0);
    return fclose(f) || done != n + bytes ? err_sys(e, "%s", path) : 0;
}

/* The object with its changed key as text: jansson can write no Infinity and no key twice. AT: the
 * mark; the key goes with the comma before or behind it. */
static char *put_value(const struct checkpoint_text *t, char *text, char *at, const json_t *old)
{
    char *begin = at, *end = at + strlen(changed_mark), *out = NULL;
    char *first = t->is_twice ? json_dumps(old, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    while (t->is_dropped && *begin != ',' && *begin != '{') begin--;
    int n;
    if (t->is_dropped) {
        if (*begin == '{') begin++, end += *end == ',';
        n = asprintf(&out, "%.*s%s", (int)(begin - text), text, end);
    } else if (first) {
        n = asprintf(&out, "%.*s%s,\"%s\":%s%s", (int)(at - text), text, first, t->key, t->value,
                     end);
    } else {
        n = asprintf(&out, "%.*s%s%s", (int)(at - text), text, t->value, end);
    }
    free(first);
    free(text);
    return n < 0 ? NULL : out;
}

static char *changed_text(const struct checkpoint_text *t)
{
    json_t *old = json_incref(json_object_get(t->object, t->key));
    json_object_set_new(t->object, t->key, json_string("@changed@")); /* it keeps its place */
    char *text = json_dumps(t->json, JSON_COMPACT);
    char *at = text ? strstr(text, changed_mark) : NULL;
    json_object_set(t->object, t->key, old);
    if (at) text = put_value(t, text, at, old);
    json_decref(old);
    return text;
}

int checkpoint_write_text(const struct checkpoint_copy *c, int i, const char *dir, struct err *e)
{
    const struct checkpoint_text *t = &c->text[i];
    char *text = t->key ? changed_text(t) : json_dumps(t->json, JSON_COMPACT);
    if (!text) return err_memory(e);
    int rc = write_file(dir, t->name, text, strlen(text), NULL, 0, e);
    free(text);
    return rc;
}

static void add_tensor(FILE *f, const struct checkpoint_tensor *t, uint64_t at, const char **comma)
{
    json_t *name = json_string_nocheck(t->name);
    char *quoted = name ? json_dumps(name, JSON_ENCODE_ANY) : NULL;
    json_decref(name);
    for (int k = 0; k <= t->twin; k++, *comma = ",") {
        fprintf(f, "%s%s:{\"dtype\":\"%s\",\"shape\":[", *comma, quoted ? quoted : "\"\"",
                t->dtype);
        for (int d = 0; d < t->n_dims; d++) fprintf(f, "%s%" PRId64, d ? "," : "", t->shape[d]);
        fprintf(f, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at, at + t->bytes);
    }
    free(quoted);
}

/* The container allows no gaps: what follows a dropped tensor takes its place. */
int checkpoint_write_shard(const struct checkpoint_copy *c, int i, const char *dir, struct err *e)
{
    char *head = NULL;
    size_t n = 0;
    uint64_t at = 0, length;
    const char *comma = "{";
    unsigned char *data = malloc(c->data_bytes[i] + 1);
    FILE *f = data ? open_memstream(&head, &n) : NULL;
    if (!f) {
        free(data);
        return err_memory(e);
    }
    fwrite("12345678", 1, 8, f); /* the length, later */
    for (size_t k = 0; k < c->n_tensors; k++) {
        const struct checkpoint_tensor *t = &c->tensor[k];
        if (t->shard != i || t->is_dropped) continue;
        add_tensor(f, t, at, &comma);
        memcpy(data + at, c->data[i] + t->offset, t->bytes);
        at += t->bytes;
    }
    fprintf(f, "%s}", *comma == '{' ? "{" : "");
    fclose(f);
    length = n - 8;
    memcpy(head, &length, 8);
    int rc = write_file(dir, c->shard[i], head, n, data, at, e);
    free(head);
    free(data);
    return rc;
}

int checkpoint_write(const struct checkpoint_copy *c, const char *dir, struct err *e)
{
    for (int i = 0; i < c->n_texts; i++)
        if (checkpoint_write_text(c, i, dir, e)) return -1;
    for (int i = 0; i < c->n_shards; i++)
        if (checkpoint_write_shard(c, i, dir, e)) return -1;
    return 0;
}
