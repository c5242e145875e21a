#include "quantize/work.h"

#include "core/base/json.h"
#include "quantize/pack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_BYTES = 400 };

char *work_path(const struct work *w, const char *name)
{
    char *path;
    return asprintf(&path, "%s/%s", w->dir, name) < 0 ? NULL : path;
}

/* ---- the folder */

static int remove_at(int dir, const char *name, int depth)
{
    if (!unlinkat(dir, name, 0)) return 0;
    if ((errno != EISDIR && errno != EPERM) || depth > 8) return -1;
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), bad = 0;
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) return -1;
    for (struct dirent *x; !bad && (x = readdir(d));)
        if (strcmp(x->d_name, ".") && strcmp(x->d_name, ".."))
            bad = remove_at(fd, x->d_name, depth + 1);
    closedir(d);
    return bad ? -1 : unlinkat(dir, name, AT_REMOVEDIR);
}

int work_remove(const char *path, struct err *e)
{
    if (!remove_at(AT_FDCWD, path, 0) || errno == ENOENT) return 0;
    return err_sys(e, "%s: cannot remove", path);
}

/* 1 if a unit is finished. */
static int has_units(const struct work *w)
{
    DIR *d = opendir(w->dir);
    int any = 0;
    for (struct dirent *x; d && !any && (x = readdir(d));)
        any = !strncmp(x->d_name, "unit-", 5) && !strchr(x->d_name, '.');
    if (d) closedir(d);
    return any;
}

static int write_json(const char *path, const json_t *j, struct err *e)
{
    char *text = json_dumps(j, JSON_INDENT(1) | JSON_SORT_KEYS);
    int rc = text ? shard_write_text(path, text, strlen(text), e) : err_memory(e);
    free(text);
    return rc;
}

int work_check(const struct work *w, const char *name, const json_t *j, struct err *e)
{
    char *path = work_path(w, name);
    const char *key;
    const json_t *value;
    int rc = 0;
    if (!path) return err_memory(e);
    json_t *old = has_units(w) ? json_load_file(path, 0, NULL) : NULL;
    if (!has_units(w)) rc = write_json(path, j, e);
    else if (!json_is_object(old))
        rc = err_set(e, "%s: is damaged: remove the folder to begin anew", path);
    json_object_foreach ((json_t *)(uintptr_t)j, key, value)
        if (!rc && old && !json_equal(value, json_object_get(old, key)))
            rc = err_set(e,
                         "%s: holds a part of another quantization (%s is not the same): remove "
                         "the folder, or repeat the command that made it",
                         w->dir, key);
    json_decref(old);
    free(path);
    return rc;
}

int work_open(struct work *w, const char *out, const json_t *manifest, struct err *e)
{
    *w = (struct work){.lock = -1};
    size_t n = strlen(out);
    while (n > 1 && out[n - 1] == '/') n--;
    if (asprintf(&w->dir, "%.*s.work", (int)n, out) < 0) return w->dir = NULL, err_memory(e);
    if (mkdir(w->dir, 0777)) {
        if (errno != EEXIST) return err_sys(e, "%s", w->dir);
        w->resumed = 1;
    }
    char *path = work_path(w, "lock");
    if (!path) return err_memory(e);
    w->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    int rc = w->lock < 0 ? err_sys(e, "%s", path) : 0;
    free(path);
    if (rc) return -1;
    if (flock(w->lock, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
        close(w->lock);
        w->lock = -1;
        return err_set(e, "%s: another process is at work there", w->dir);
    }
    if (work_check(w, "manifest.json", manifest, e)) return -1;
    w->resumed = w->resumed && has_units(w);
    if (w->resumed) return 0;
    char *plain = work_path(w, "plain.safetensors"); /* perhaps of other weights */
    rc = plain ? work_remove(plain, e) : err_memory(e);
    free(plain);
    return rc;
}

int work_close(struct work *w, int finished, struct err *e)
{
    int own = w->lock >= 0, rc = own && (finished || !has_units(w)) ? work_remove(w->dir, e) : 0;
    if (own) close(w->lock);
    free(w->dir);
    *w = (struct work){.lock = -1};
    return rc;
}

/* ---- units */

int unit_open(struct unit *u, int n, struct err *e)
{
    *u = (struct unit){.n = n, .part = calloc((size_t)n + 1, sizeof *u->part)};
    return u->part ? 0 : err_memory(e);
}

void unit_close(struct unit *u)
{
    for (int i = 0; i < u->n && u->part; i++) {
        struct unit_module *p = &u->part[i];
        free(p->qweight);
        free(p->qzeros);
        free(p->scales);
        free(p->g_idx);
        free(p->bias);
        json_decref(p->report);
    }
    free(u->part);
    *u = (struct unit){0};
}

struct packing {
    const struct solver_matrix *x;
    uint32_t *words;
    int bits;
};

enum { PACK_COLUMNS = 512 };

static void pack_some(void *arg, int task, int thread)
{
    const struct packing *p = arg;
    size_t out = (size_t)p->x->out, first = (size_t)task * PACK_COLUMNS, end = first + PACK_COLUMNS;
    const struct pack_columns c = {(size_t)p->x->in, out, first, end < out ? end : out, p->bits};
    (void)thread;
    pack_codes(p->words, p->x->codes, &c);
}

int unit_put(struct unit_module *u, const struct unit_solved *from, struct pool *p, struct err *e)
{
    const struct module *m = from->module;
    const struct solver_matrix *x = from->x;
    const struct factor *f = from->f;
    size_t in = (size_t)x->in, out = (size_t)x->out, groups = (size_t)x->n_groups;
    int bits = m->to.bits;
    u->module = m;
    u->qweight = malloc(in * (size_t)bits / 32 * out * sizeof *u->qweight);
    u->qzeros = malloc(groups * (out * (size_t)bits / 32) * sizeof *u->qzeros);
    u->scales = malloc(groups * out * sizeof *u->scales);
    u->g_idx = malloc(in * sizeof *u->g_idx);
    if (!u->qweight || !u->qzeros || !u->scales || !u->g_idx) return err_memory(e);
    struct packing words = {x, u->qweight, bits};
    pool_run(p, (int)((out + PACK_COLUMNS - 1) / PACK_COLUMNS), pack_some, &words);
    pack_zeros(u->qzeros, x->zeros, groups, out, bits);
    memcpy(u->scales, x->scales, groups * out * sizeof *u->scales);
    for (int g = 0; g < f->n_groups; g++)
        for (int i = 0; i < f->groups[g].n; i++)
            u->g_idx[f->order[f->groups[g].first + i]] = f->groups[g].number;
    return module_bias(m, &u->bias, e);
}

static struct shard_tensor tensor(char name[NAME_BYTES], const struct module *m, const char *what,
                                  enum dtype type, int64_t a, int64_t b, const void *data)
{
    snprintf(name, NAME_BYTES, "%s.%s", m->name, what);
    return (struct shard_tensor){.name = name,
                                 .dtype = type,
                                 .n_dims = b ? 2 : 1,
                                 .shape = {a, b},
                                 .bytes = (uint64_t)(a * (b ? b : 1)) * dtype_bytes(type),
                                 .data = data};
}

static void unit_name(char name[32], int number) { snprintf(name, 32, "unit-%05d", number); }

int unit_write(const struct unit *u, const struct work *w, int number, struct err *e)
{
    enum { EACH = 5 };
    size_t n = 0, most = (size_t)u->n * EACH;
    struct shard_tensor *t = calloc(most, sizeof *t);
    char(*name)[NAME_BYTES] = calloc(most, sizeof *name), file[32];
    json_t *reports = json_array(), *meta = json_object();
    for (int i = 0; i < u->n && t && name; i++) {
        const struct unit_module *p = &u->part[i];
        const struct module *m = p->module;
        int64_t in = m->from.in, out = m->from.n_rows, bits = m->to.bits, g = module_n_groups(m);
        t[n] = tensor(name[n], m, "g_idx", DT_I32, in, 0, p->g_idx), n++;
        t[n] = tensor(name[n], m, "qweight", DT_I32, in * bits / 32, out, p->qweight), n++;
        t[n] = tensor(name[n], m, "qzeros", DT_I32, g, out * bits / 32, p->qzeros), n++;
        t[n] = tensor(name[n], m, "scales", DT_F16, g, out, p->scales), n++;
        if (p->bias) t[n] = tensor(name[n], m, "bias", DT_F32, out, 0, p->bias), n++;
        json_array_append(reports, p->report);
    }
    char *text = json_dumps(reports, JSON_COMPACT);
    if (text) json_object_set_new(meta, "report", json_string(text));
    unit_name(file, number);
    char *path = work_path(w, file);
    int rc = !t || !name || !path || !text ? err_memory(e) : shard_write(path, t, n, meta, NULL, e);
    json_decref(reports);
    json_decref(meta);
    free(text);
    free(path);
    free(t);
    free(name);
    return rc ? -1 : json_check(e);
}

int unit_find(struct st_file *s, const struct work *w, int number, int *there, struct err *e)
{
    char name[32];
    struct stat sb;
    unit_name(name, number);
    char *path = work_path(w, name);
    if (!path) return err_memory(e);
    *there = !stat(path, &sb);
    int rc = *there ? st_open(s, path, e) : 0;
    free(path);
    return rc;
}

/* A tensor of a unit in memory; NULL with *e set. */
static void *read_tensor(const struct st_file *s, const struct module *m, const char *what,
                         uint64_t bytes, struct err *e)
{
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s.%s", m->name, what);
    const struct st_tensor *t = st_find(s, name);
    if (!t || t->bytes != bytes) {
        err_set(e, "%s: is damaged: remove the folder to begin anew", s->path);
        return NULL;
    }
    void *data = malloc(bytes);
    if (!data) err_memory(e);
    if (data && st_read(s, data, t->offset, bytes, e)) {
        free(data);
        data = NULL;
    }
    return data;
}

int unit_codes(const struct st_file *s, const struct module *m, struct module_codes *c,
               struct err *e)
{
    size_t in = (size_t)m->from.in, out = (size_t)m->from.n_rows,
           groups = (size_t)module_n_groups(m), bits = (size_t)m->to.bits;
    uint32_t *qweight = read_tensor(s, m, "qweight", in * bits / 32 * out * 4, e),
             *qzeros = qweight ? read_tensor(s, m, "qzeros", groups * out * bits / 32 * 4, e)
                               : NULL;
    *c = (struct module_codes){0};
    c->scales = qzeros ? read_tensor(s, m, "scales", groups * out * 2, e) : NULL;
    c->g_idx = c->scales ? read_tensor(s, m, "g_idx", in * 4, e) : NULL;
    c->codes = c->g_idx ? malloc(in * out) : NULL;
    c->zeros = c->g_idx ? malloc(groups * out) : NULL;
    int rc = c->codes && c->zeros ? 0 : -1;
    if (c->g_idx && rc) err_memory(e);
    if (!rc) {
        unpack_all_codes(c->codes, qweight, in, out, (int)bits);
        unpack_all_zeros(c->zeros, qzeros, groups, out, (int)bits);
    }
    for (size_t i = 0; i < in && !rc; i++)
        if ((uint32_t)c->g_idx[i] >= groups) rc = err_set(e, "%s: is damaged", s->path);
    free(qweight);
    free(qzeros);
    if (rc) module_codes_free(c);
    return rc;
}
