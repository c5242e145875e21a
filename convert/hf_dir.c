#include "convert/hf_dir.h"

#include "convert/gguf_checkpoint.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/model/whatis.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_SMALL_FILE = 512 << 20, MAX_SHARDS = 4096 };

static char *join(const char *dir, const char *name)
{
    char *p = malloc(strlen(dir) + strlen(name) + 2);
    if (p) sprintf(p, "%s/%s", dir, name);
    return p;
}

static int open_gguf(struct hf_dir *d, const char *path, int as_numbers, struct err *e)
{
    if (!(d->path = strdup(path)) || !(d->gguf = calloc(1, sizeof *d->gguf))) return err_memory(e);
    return gguf_checkpoint_open(d->gguf, path, as_numbers, e);
}

int hfd_open(struct hf_dir *d, const char *path, int as_numbers, struct err *e)
{
    struct stat sb;
    memset(d, 0, sizeof *d);
    if (stat(path, &sb)) return err_sys(e, "%s", path);
    if (S_ISREG(sb.st_mode) && file_name_ends(path, ".gguf"))
        return open_gguf(d, path, as_numbers, e);
    if (!S_ISDIR(sb.st_mode))
        return err_set(e,
                       "%s: is not a directory (give the directory that holds config.json and the "
                       ".safetensors files)",
                       path);
    d->path = strdup(path);
    if (!d->path) return err_memory(e);
    for (size_t n = strlen(d->path); n > 1 && d->path[n - 1] == '/'; n--) d->path[n - 1] = 0;
    return 0;
}

static int file_of_gguf(const struct hf_dir *d, const char *name, char **data, size_t *n,
                        struct err *e)
{
    const struct gguf_text *t = gguf_checkpoint_text(d->gguf, name);
    if (!t) return 0;
    if (!(*data = malloc(t->n + 1))) return err_memory(e);
    memcpy(*data, t->data, t->n + 1);
    *n = t->n;
    return 0;
}

int hfd_file(const struct hf_dir *d, const char *name, char **data, size_t *n, struct err *e)
{
    int rc = -1;
    char *buf = NULL;
    *data = NULL, *n = 0;
    if (d->gguf) return file_of_gguf(d, name, data, n, e);
    struct st_file f = {.fd = -1, .path = join(d->path, name)};
    if (!f.path) return err_memory(e);
    if (file_open(&f.fd, f.path, &f.file_bytes, e)) {
        if (errno == ENOENT) rc = 0;
        goto fail;
    }
    if (f.file_bytes > MAX_SMALL_FILE) {
        err_set(e, "%s: %" PRIu64 " bytes is too much for such a file", f.path, f.file_bytes);
        goto fail;
    }
    buf = malloc(f.file_bytes + 1);
    if (!buf) {
        err_memory_for(e, "%s: out of memory", f.path);
        goto fail;
    }
    if (st_read(&f, buf, 0, f.file_bytes, e)) goto fail;
    buf[f.file_bytes] = 0;
    *data = buf, *n = f.file_bytes;
    buf = NULL;
    rc = 0;
fail:
    free(buf);
    st_close(&f);
    return rc;
}

/* Says what the file is, if it is known and no such file. Returns -1. */
static int format_of(const struct hf_dir *d, const char *name, struct err *e)
{
    char *p = join(d->path, name);
    if (!p) return err_memory(e);
    whatis_format(p, e);
    free(p);
    return -1;
}

int hfd_json(const struct hf_dir *d, const char *name, json_t **j, struct err *e)
{
    char *text;
    size_t n;
    json_error_t je;
    *j = NULL;
    if (hfd_file(d, name, &text, &n, e)) return -1;
    if (!text) return 0;
    *j = json_read_python(text, n, 0, &je, e);
    free(text);
    if (!*j && err_is_memory(e)) return err_prefix(e, "%s/%s", d->path, name);
    if (!*j) {
        err_set(e, "%s/%s: is not JSON: line %d: %s", d->path, name, je.line, json_why(&je));
        return format_of(d, name, e);
    }
    if (!json_is_object(*j)) {
        json_decref(*j);
        *j = NULL;
        return err_set(e, "%s/%s: is not a JSON object", d->path, name);
    }
    return 0;
}

/* Adds a shard's name if it is new; the file is opened later. */
static int add_shard(struct hf_dir *d, const char *name, struct err *e)
{
    for (size_t i = 0; i < d->n_shards; i++)
        if (!strcmp(d->shard_names[i], name)) return 0;
    if (d->n_shards == MAX_SHARDS)
        return err_set(e, "%s: more than %d shards", d->path, MAX_SHARDS);
    char **names = realloc(d->shard_names, (d->n_shards + 1) * sizeof *names);
    if (!names) return err_memory(e);
    d->shard_names = names;
    if (!(names[d->n_shards] = strdup(name))) return err_memory(e);
    d->n_shards++;
    return 0;
}

/* The index may name files in sub-folders, but none outside the directory. */
static int is_inside(const char *rel)
{
    if (!*rel || *rel == '/' || strlen(rel) > 1000) return 0;
    for (const char *p = rel; p; p = strchr(p, '/') ? strchr(p, '/') + 1 : NULL)
        if (p[0] == '.' && p[1] == '.' && (p[2] == '/' || !p[2])) return 0;
    return 1;
}

static int shards_of_index(struct hf_dir *d, const char *index, const json_t *j, struct err *e)
{
    const json_t *map = json_object_get(j, "weight_map");
    const char *tensor;
    json_t *file;
    if (!json_is_object(map) || !json_object_size(map))
        return err_set(e, "%s/%s: has no weight_map", d->path, index);
    json_object_foreach ((json_t *)(uintptr_t)map, tensor, file) {
        if (!json_is_string(file) || !is_inside(json_string_value(file)))
            return err_set(e, "%s/%s: weight_map: '%s' is not in a file inside the directory",
                           d->path, index, tensor);
        if (!file_name_ends(json_string_value(file), ".safetensors"))
            return err_set(e, "%s/%s: '%s' is not a safetensors file", d->path, index,
                           json_string_value(file));
        if (add_shard(d, json_string_value(file), e)) return -1;
    }
    return 0;
}

/* *yes: the file opens as safetensors and holds a model's weights (and is not a model file of
 * ours). Fails only for lack of memory. */
static int holds_weights(const struct hf_dir *d, const char *name, int *yes, struct err *e)
{
    struct st_file s;
    struct err why;
    char *p = join(d->path, name);
    int rc = 0;
    *yes = 0;
    if (!p) return err_memory(e);
    if (!st_open(&s, p, &why)) {
        for (size_t i = 0; i < s.n_tensors && !*yes; i++)
            *yes = file_name_ends(s.tensors[i].name, ".qweight") ||
                   file_name_ends(s.tensors[i].name, "embed_tokens.weight");
        if (st_meta(&s, "opt4gptq.version")) *yes = 0;
        st_close(&s);
    } else if (err_is_memory(&why)) {
        *e = why;
        rc = -1;
    }
    free(p);
    return rc;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names of a directory's files. */
struct listing {
    char **name; /* [n] ends in .safetensors, in the order of the alphabet, at most MAX_SHARDS */
    size_t n;
    char *pickle; /* one that holds Python pickles, or NULL */
};

static void free_listing(struct listing *l)
{
    for (size_t i = 0; i < l->n; i++) free(l->name[i]);
    free(l->name);
    free(l->pickle);
}

static int add_name(struct listing *l, const char *name, struct err *e)
{
    char **more = realloc(l->name, (l->n + 1) * sizeof *more);
    if (!more) return err_memory(e);
    l->name = more;
    if (!(more[l->n] = strdup(name))) return err_memory(e);
    l->n++;
    return 0;
}

static int read_listing(struct listing *l, const char *path, struct err *e)
{
    int rc = 0;
    DIR *dir = opendir(path);
    if (!dir) return err_sys(e, "%s", path);
    for (struct dirent *x; !rc && (x = readdir(dir));) {
        int is_pickle = file_name_ends(x->d_name, ".bin") || file_name_ends(x->d_name, ".pt") ||
                        file_name_ends(x->d_name, ".pth");
        if (is_pickle && !l->pickle && !(l->pickle = strdup(x->d_name))) rc = err_memory(e);
        else if (file_name_ends(x->d_name, ".safetensors") && l->n < MAX_SHARDS)
            rc = add_name(l, x->d_name, e);
    }
    closedir(dir);
    if (l->n) qsort(l->name, l->n, sizeof *l->name, by_text);
    return rc;
}

/* 1 for a name like model-00001-of-00003.safetensors. */
static int is_numbered(const char *name, int *total)
{
    int i;
    return sscanf(name, "model-%d-of-%d.safetensors", &i, total) == 2;
}

/* Adds the files with such names, of which there are n; the last one says `total`. */
static int numbered_shards(struct hf_dir *d, const struct listing *l, size_t n, int total,
                           struct err *e)
{
    if ((size_t)total != n)
        return err_set(e,
                       "%s: %zu of %d shards named model-*-of-*.safetensors are there, and no "
                       "model.safetensors.index.json: the download is "
                       "incomplete",
                       d->path, n, total);
    for (size_t i = 0; i < l->n; i++)
        if (is_numbered(l->name[i], &total) && add_shard(d, l->name[i], e)) return -1;
    return 0;
}

/* Adds the only file that is named gptq_model* or else the only one with weights. */
static int one_shard(struct hf_dir *d, const struct listing *l, struct err *e)
{
    const char *one = NULL;
    size_t n_gptq = 0, n_weights = 0;
    for (size_t i = 0; i < l->n; i++)
        if (!strncmp(l->name[i], "gptq_model", 10)) n_gptq++, one = l->name[i];
    for (size_t i = 0; i < l->n && n_gptq != 1; i++) {
        int weights;
        if (holds_weights(d, l->name[i], &weights, e)) return -1;
        if (weights) n_weights++, one = l->name[i];
    }
    if (n_gptq == 1 || n_weights == 1) return add_shard(d, one, e);
    if (n_weights > 1)
        return err_set(e,
                       "%s: %zu .safetensors files hold weights and none is called "
                       "model.safetensors: leave one in the directory, or give it that name",
                       d->path, n_weights);
    if (l->pickle)
        return err_set(e,
                       "%s: holds no .safetensors file, only Python pickles such as %s, which are "
                       "not read because loading one can run code: "
                       "save it again with save_pretrained(safe_serialization=True)",
                       d->path, l->pickle);
    err_set(e, "%s: holds no .safetensors file with a model's weights", d->path);
    if (l->n == 1) format_of(d, l->name[0], e);
    return -1;
}

/* Searches the directory when no usual name exists: for model-00001-of-00003.safetensors and so on
 * without an index, gptq_model-4bit-128g.safetensors, or the only file with weights. */
static int shards_of_listing(struct hf_dir *d, struct err *e)
{
    struct listing l = {0};
    int rc = read_listing(&l, d->path, e), last_total = 0;
    size_t n_numbered = 0;
    for (size_t i = 0; i < l.n; i++) {
        if (is_numbered(l.name[i], &last_total)) n_numbered++;
    }
    if (!rc)
        rc = n_numbered ? numbered_shards(d, &l, n_numbered, last_total, e) : one_shard(d, &l, e);
    free_listing(&l);
    return rc;
}

/* *yes: the directory has the file, or a link of that name; its target is checked when it is
 * opened.
 */
static int has_file(const struct hf_dir *d, const char *name, int *yes, struct err *e)
{
    struct stat sb;
    char *path = join(d->path, name);
    if (!path) return err_memory(e);
    *yes = !lstat(path, &sb);
    free(path);
    return 0;
}

static void forget_shards(struct hf_dir *d)
{
    for (size_t i = 0; i < d->n_shards; i++) free(d->shard_names[i]);
    d->n_shards = 0;
}

/* Without the files that the index names, the directory may hold another set of weights: the index
 * was left from another upload. Takes that set if it is whole. */
static int other_shards(struct hf_dir *d, struct err *e)
{
    struct err why = {0};
    size_t n_there = 0;
    int there = 0, total = 0;
    for (size_t i = 0; i < d->n_shards; i++) {
        if (has_file(d, d->shard_names[i], &there, e)) return -1;
        n_there += (size_t)there;
    }
    if (n_there == d->n_shards) return 0;
    struct hf_dir other = {.path = d->path};
    int rc = shards_of_listing(&other, &why);
    if (!rc && (!n_there || is_numbered(other.shard_names[0], &total))) {
        forget_shards(d);
        free(d->shard_names);
        d->shard_names = other.shard_names, d->n_shards = other.n_shards;
        return 0;
    }
    forget_shards(&other);
    free(other.shard_names);
    if (rc && err_is_memory(&why)) return *e = why, -1;
    return 0;
}

/* The shards of the index NAME. One file SINGLE has priority, as in transformers, unless the index
 * names it: the index of the unquantized model was left beside it. */
static int shards_of_one_index(struct hf_dir *d, const char *name, const char *single,
                               const json_t *j, struct err *e)
{
    int there = 0;
    struct err why = {0};
    if (has_file(d, single, &there, e)) return -1;
    int rc = shards_of_index(d, name, j, there ? &why : e);
    if (rc && (!there || err_is_memory(&why))) {
        if (there) *e = why;
        return -1;
    }
    for (size_t i = 0; i < d->n_shards && there; i++)
        if (!strcmp(d->shard_names[i], single)) there = 0;
    if (!there) return other_shards(d, e);
    forget_shards(d);
    return add_shard(d, single, e);
}

static int choose_shards(struct hf_dir *d, const char *base, struct err *e)
{
    static const char *const usual = "model";
    const char *bases[2] = {usual, base && is_inside(base) ? base : NULL};
    char name[1200], single[1200];
    for (int i = 0; i < 2; i++) {
        if (!bases[i]) continue;
        json_t *j;
        int found = 0;
        snprintf(name, sizeof name, "%s.safetensors.index.json", bases[i]);
        snprintf(single, sizeof single, "%s.safetensors", bases[i]);
        if (hfd_json(d, name, &j, e)) return -1;
        if (j) {
            int rc = shards_of_one_index(d, name, single, j, e);
            json_decref(j);
            return rc;
        }
        if (has_file(d, single, &found, e)) return -1;
        if (found) return add_shard(d, single, e);
    }
    return shards_of_listing(d, e);
}

/* 1 for the three-line text that a clone without git-lfs has in place of a large file. */
static int is_lfs_pointer(const char *path)
{
    static const char begins[] = "version https://git-lfs";
    char head[sizeof begins - 1];
    struct err why;
    uint64_t n;
    int fd, yes = 0;
    if (file_open(&fd, path, &n, &why)) return 0; /* st_open reports the error */
    yes = read(fd, head, sizeof head) == (ssize_t)sizeof head && !memcmp(head, begins, sizeof head);
    close(fd);
    return yes;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct hf_tensor *)a)->t->name, ((const struct hf_tensor *)b)->t->name);
}

/* All tensors of the open shards, by name. */
static int list_tensors(struct hf_dir *d, struct err *e)
{
    size_t n = 0;
    for (size_t i = 0; i < d->n_shards; i++) n += d->shards[i].n_tensors;
    d->tensors = calloc(n + 1, sizeof *d->tensors);
    if (!d->tensors) return err_memory(e);
    for (size_t i = 0; i < d->n_shards; i++) {
        if (st_meta(&d->shards[i], "opt4gptq.version"))
            return err_set(e, "%s: is a model file of opt4gptq-convert already, not a checkpoint",
                           d->shards[i].path);
        for (size_t k = 0; k < d->shards[i].n_tensors; k++)
            d->tensors[d->n_tensors++] = (struct hf_tensor){&d->shards[i],
                                                            &d->shards[i].tensors[k]};
    }
    if (n) qsort(d->tensors, n, sizeof *d->tensors, by_name);
    for (size_t i = 1; i < n; i++)
        if (!strcmp(d->tensors[i - 1].t->name, d->tensors[i].t->name))
            return err_set(e, "tensor '%s' is in two files: %s and %s", d->tensors[i].t->name,
                           d->tensors[i - 1].shard->path, d->tensors[i].shard->path);
    return 0;
}

int hfd_open_shards(struct hf_dir *d, const char *base, struct err *e)
{
    if (d->gguf) {
        const char *slash = strrchr(d->path, '/');
        if (add_shard(d, slash ? slash + 1 : d->path, e)) return -1;
        d->shards = &d->gguf->shard;
        return list_tensors(d, e);
    }
    if (choose_shards(d, base, e)) return -1;
    size_t n_named = d->n_shards;
    d->n_shards = 0; /* counts open shards from here on, for hfd_close */
    d->shards = calloc(n_named + 1, sizeof *d->shards);
    int rc = d->shards ? 0 : err_memory(e);
    for (size_t i = 0; i < n_named && !rc; i++) {
        char *p = join(d->path, d->shard_names[i]);
        if (!p) rc = err_memory(e);
        else if (access(p, F_OK) && errno == ENOENT)
            rc = err_set(e, "%s: is not there: the download is incomplete", p);
        else if (is_lfs_pointer(p))
            rc = err_set(e,
                         "%s: is a git-lfs pointer, not the file itself: run 'git lfs pull' in the "
                         "directory",
                         p);
        else if ((rc = st_open(&d->shards[i], p, e))) whatis_format(p, e);
        free(p);
        if (!rc) d->n_shards++;
    }
    for (size_t i = d->n_shards; i < n_named; i++) free(d->shard_names[i]);
    return rc ? -1 : list_tensors(d, e);
}

void hfd_close(struct hf_dir *d)
{
    for (size_t i = 0; i < d->n_shards; i++) {
        if (d->shards && !d->gguf) st_close(&d->shards[i]);
        free(d->shard_names[i]);
    }
    if (d->gguf) gguf_checkpoint_close(d->gguf);
    else free(d->shards);
    free(d->gguf);
    free(d->shard_names);
    free(d->tensors);
    free(d->path);
    memset(d, 0, sizeof *d);
}

const struct hf_tensor *hfd_find(const struct hf_dir *d, const char *name)
{
    struct st_tensor key = {.name = name};
    struct hf_tensor k = {NULL, &key};
    return d->n_tensors ? bsearch(&k, d->tensors, d->n_tensors, sizeof k, by_name) : NULL;
}
