#include "quantize/export.h"

#include "convert/gguf_checkpoint.h"
#include "core/base/json.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

/* All tensors of the result. */
struct contents {
    struct shard_tensor *t;
    size_t n;
    struct st_file *unit; /* [n_units] open */
    int n_units;
};

static void add(struct contents *c, const struct st_file *file, const struct st_tensor *from)
{
    struct shard_tensor *t = &c->t[c->n++];
    *t = (struct shard_tensor){.name = from->name,
                               .dtype = from->dtype,
                               .n_dims = from->n_dims,
                               .bytes = from->bytes,
                               .file = file,
                               .offset = from->offset};
    memcpy(t->shape, from->shape, sizeof t->shape);
}

/* "model.layers.10.x" behind "model.layers.9.y". */
static int by_name(const void *a, const void *b)
{
    return strverscmp(((const struct shard_tensor *)a)->name,
                      ((const struct shard_tensor *)b)->name);
}

static int gather(struct contents *c, const struct work *w, const struct export_from *from,
                  json_t *reports, struct err *e)
{
    size_t n = from->dir->n_tensors;
    c->unit = calloc((size_t)from->n_units + 1, sizeof *c->unit);
    if (!c->unit) return err_memory(e);
    for (; c->n_units < from->n_units; c->n_units++) {
        int there;
        if (unit_find(&c->unit[c->n_units], w, c->n_units, &there, e)) return -1;
        CHECK(there);
        n += c->unit[c->n_units].n_tensors;
    }
    if (!(c->t = malloc((n + 1) * sizeof *c->t))) return err_memory(e);
    for (size_t i = 0; i < from->dir->n_tensors; i++)
        if (!from->modules->replaced[i])
            add(c, from->dir->tensors[i].shard, from->dir->tensors[i].t);
    for (int u = 0; u < c->n_units; u++) {
        for (size_t i = 0; i < c->unit[u].n_tensors; i++)
            add(c, &c->unit[u], &c->unit[u].tensors[i]);
        const char *text = st_meta(&c->unit[u], "report");
        json_t *of_unit = text ? json_loads(text, 0, NULL) : NULL;
        if (of_unit) json_array_extend(reports, of_unit);
        json_decref(of_unit);
    }
    qsort(c->t, c->n, sizeof *c->t, by_name);
    return json_check(e);
}

static void drop(struct contents *c)
{
    for (int i = 0; i < c->n_units; i++) st_close(&c->unit[i]);
    free(c->unit);
    free(c->t);
}

/* The first tensor that is no longer in the shard that begins with `first`. */
static size_t shard_end(const struct contents *c, size_t first, uint64_t most)
{
    uint64_t bytes = 0;
    size_t i = first;
    for (; i < c->n && (i == first || bytes + c->t[i].bytes <= most); i++) bytes += c->t[i].bytes;
    return i;
}

static int write_json(const char *dir, const char *name, const json_t *j, struct err *e)
{
    char path[PATH_BYTES];
    char *text = json_dumps(j, JSON_INDENT(2));
    if (!text) return err_memory(e);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int rc = shard_write_text(path, text, strlen(text), e);
    free(text);
    return rc;
}

static int write_shards(const struct contents *c, const struct export_from *from, const char *dir,
                        struct err *e)
{
    uint64_t most = from->shard_bytes ? from->shard_bytes : 4000000000u, total = 0;
    int n = 0, i = 0, rc = 0;
    json_t *map = json_object(), *meta = json_pack("{s:s}", "format", "pt");
    for (size_t at = 0; at < c->n; at = shard_end(c, at, most)) n++;
    for (size_t at = 0, end; at < c->n && !rc; at = end) {
        char name[64], path[PATH_BYTES];
        end = shard_end(c, at, most);
        if (n == 1) snprintf(name, sizeof name, "model.safetensors");
        else snprintf(name, sizeof name, "model-%05d-of-%05d.safetensors", ++i, n);
        snprintf(path, sizeof path, "%s/%s", dir, name);
        rc = shard_write(path, c->t + at, end - at, meta, from->stop, e);
        for (size_t k = at; k < end; k++) {
            json_object_set_new(map, c->t[k].name, json_string(name));
            total += c->t[k].bytes;
        }
    }
    json_t *index = json_pack("{s:{s:I}, s:O}", "metadata", "total_size", (json_int_t)total,
                              "weight_map", map);
    if (!rc && n > 1) rc = write_json(dir, "model.safetensors.index.json", index, e);
    json_decref(index);
    json_decref(map);
    json_decref(meta);
    return rc ? -1 : json_check(e);
}

/* ---- files beside the weights */

static int ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), m = strlen(tail);
    return n >= m && !strcmp(s + n - m, tail);
}

static int is_copied(const char *name)
{
    static const char *const tails[] = {".json", ".jinja", ".model", ".txt", ".py", ".tiktoken"};
    if (name[0] == '.' || !strcmp(name, "config.json") || ends_with(name, ".index.json")) return 0;
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++)
        if (ends_with(name, tails[i])) return 1;
    return !strncmp(name, "LICENSE", 7) || !strncmp(name, "NOTICE", 6);
}

/* What a GGUF file has in place of files. */
static int write_texts(const struct gguf_checkpoint *k, const char *to, struct err *e)
{
    char path[PATH_BYTES];
    for (int i = 0; i < k->n_texts; i++) {
        const struct gguf_text *t = &k->text[i];
        if (!is_copied(t->name)) continue;
        if (snprintf(path, sizeof path, "%s/%s", to, t->name) >= PATH_BYTES)
            return err_set(e, "%s: the name is too long", t->name);
        if (shard_write_text(path, t->data, t->n, e)) return -1;
    }
    return 0;
}

/* FOLDER of the source, "" or "x/". */
static int copy_files(const struct hf_dir *d, const char *folder, const char *to, struct err *e)
{
    char path[PATH_BYTES], name[PATH_BYTES];
    if (d->gguf) return *folder ? 0 : write_texts(d->gguf, to, e);
    snprintf(path, sizeof path, "%s/%s", d->path, folder);
    DIR *dir = opendir(path);
    if (!dir) return *folder && errno == ENOENT ? 0 : err_sys(e, "%s", path);
    snprintf(path, sizeof path, "%s/%s", to, folder);
    int rc = *folder && mkdir(path, 0777) && errno != EEXIST ? err_sys(e, "%s", path) : 0;
    for (struct dirent *x; !rc && (x = readdir(dir));) {
        char *data;
        size_t n;
        struct stat sb;
        if (!is_copied(x->d_name) || fstatat(dirfd(dir), x->d_name, &sb, 0) || !S_ISREG(sb.st_mode))
            continue;
        snprintf(name, sizeof name, "%s%s", folder, x->d_name);
        rc = hfd_file(d, name, &data, &n, e);
        if (rc || !data) continue;
        if (snprintf(path, sizeof path, "%s/%s", to, name) >= PATH_BYTES)
            rc = err_set(e, "%s: the name is too long", name);
        else rc = shard_write_text(path, data, n, e);
        free(data);
    }
    closedir(dir);
    return rc;
}

static int write_configs(const struct export_from *from, const char *dir, struct err *e)
{
    json_t *own = settings_json(from->settings, from->modules->plain),
           *config = json_deep_copy(from->config);
    json_object_set(config, "quantization_config", own);
    int rc = json_check(e) || write_json(dir, "quantize_config.json", own, e) ||
             write_json(dir, "config.json", config, e);
    json_decref(own);
    json_decref(config);
    return rc ? -1 : 0;
}

int export_write(const struct work *w, const struct export_from *from, const char *dir,
                 json_t **reports, struct err *e)
{
    struct contents c = {0};
    *reports = json_array();
    int rc = work_remove(dir, e);
    if (!rc && mkdir(dir, 0777)) rc = err_sys(e, "%s", dir);
    if (!rc) rc = gather(&c, w, from, *reports, e);
    if (!rc) rc = write_shards(&c, from, dir, e);
    if (!rc) rc = copy_files(from->dir, "", dir, e);
    if (!rc) rc = copy_files(from->dir, "additional_chat_templates/", dir, e);
    if (!rc) rc = copy_files(from->dir, "1_Pooling/", dir, e);
    if (!rc) rc = write_configs(from, dir, e);
    if (!rc) rc = shard_sync_dir(dir, e);
    drop(&c);
    return rc;
}
