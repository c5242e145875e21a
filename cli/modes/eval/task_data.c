#include "cli/modes/eval/task_data.h"

#include "cli/modes/batch/input.h"
#include "core/base/json.h"
#include "core/base/printable.h"

#include <errno.h>
#include <fcntl.h>
#include <lzma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int task_data_open(struct task_data *d, const char *dir, struct err *e)
{
    struct stat st;
    *d = (struct task_data){.dir = dir};
    if (stat(dir, &st)) return err_sys(e, "--eval-data %s", dir);
    return S_ISDIR(st.st_mode) ? 0 : err_set(e, "--eval-data %s: is not a folder", dir);
}

static void free_file(struct task_file *f)
{
    for (int i = 0; i < f->n; i++) json_decref(f->doc[i].json);
    free(f->doc);
    free(f->path);
    free(f);
}

void task_data_close(struct task_data *d)
{
    for (int i = 0; i < d->n; i++) free_file(d->file[i]);
    free(d->file);
    *d = (struct task_data){0};
}

void task_docs_free(struct task_docs *docs)
{
    free(docs->doc);
    *docs = (struct task_docs){0};
}

/* ---- a packed file */

enum { ROOM = 1 << 16 };

struct unpacking {
    lzma_stream z;
    FILE *f;
    int fd; /* of what is unpacked */
    uint8_t in[ROOM], out[ROOM];
};

static int unpack(struct unpacking *u, const char *path, struct err *e)
{
    lzma_ret rc = LZMA_OK;
    while (rc == LZMA_OK) {
        if (!u->z.avail_in && !feof(u->f)) {
            u->z.next_in = u->in;
            u->z.avail_in = fread(u->in, 1, ROOM, u->f);
            if (ferror(u->f)) return err_sys(e, "%s", path);
        }
        u->z.next_out = u->out;
        u->z.avail_out = ROOM;
        rc = lzma_code(&u->z, feof(u->f) ? LZMA_FINISH : LZMA_RUN);
        for (size_t at = 0, n = ROOM - u->z.avail_out; at < n;) {
            ssize_t got = write(u->fd, u->out + at, n - at);
            if (got < 0 && errno != EINTR) return err_sys(e, "%s: unpacked", path);
            if (got > 0) at += (size_t)got;
        }
    }
    if (rc == LZMA_MEM_ERROR) return err_memory(e);
    return rc == LZMA_STREAM_END ? 0 : err_set(e, "%s: damaged or cut xz file", path);
}

/* *fd: a file in memory with the text of an xz file. */
static int open_unpacked(int *fd, const char *path, struct err *e)
{
    struct unpacking *u = calloc(1, sizeof *u);
    if (!u) return err_memory(e);
    u->z = (lzma_stream)LZMA_STREAM_INIT;
    u->f = fopen(path, "re");
    u->fd = u->f ? memfd_create("opt4gptq-eval", MFD_CLOEXEC) : -1;
    int rc = u->fd < 0 ? err_sys(e, "%s", path) : 0;
    if (!rc && lzma_stream_decoder(&u->z, UINT64_MAX, LZMA_CONCATENATED) != LZMA_OK)
        rc = err_memory(e);
    if (!rc) rc = unpack(u, path, e);
    lzma_end(&u->z);
    if (u->f) fclose(u->f);
    if (rc && u->fd >= 0) close(u->fd);
    *fd = rc ? -1 : u->fd;
    free(u);
    return rc;
}

/* ---- lines */

static int add_line(struct task_file *f, int *cap, const struct input_line *line, struct err *e)
{
    if (line->too_long) return err_set(e, "the line is longer than 64 MiB");
    if (line->number > INT32_MAX) return err_set(e, "more than 2^31 lines");
    json_error_t why;
    json_t *j = json_read(line->text, line->n, JSON_REJECT_DUPLICATES, &why, e);
    if (!j) return err_is_memory(e) ? -1 : err_set(e, "not JSON: %s", json_why(&why));
    if (!json_is_object(j)) {
        json_decref(j);
        return err_set(e, "is not a JSON object");
    }
    if (f->n == *cap) {
        int grown = *cap ? 2 * *cap : 256;
        struct task_doc *doc = realloc(f->doc, (size_t)grown * sizeof *doc);
        if (!doc) return json_decref(j), err_memory(e);
        f->doc = doc;
        *cap = grown;
    }
    f->doc[f->n++] = (struct task_doc){j, (int)line->number};
    return 0;
}

static int read_lines(struct task_file *f, const char *path, struct err *e)
{
    struct input *in;
    struct input_line line;
    int more = 0, cap = 0;
    if (input_open(&in, path, NULL, e)) return -1;
    int rc = input_check_text(in, e);
    while (!rc && (more = input_next(in, &line, e)) == 1)
        if ((rc = add_line(f, &cap, &line, e)))
            err_prefix(e, "%s line %llu", f->path, (unsigned long long)line.number);
    input_close(in);
    return rc || more < 0 ? -1 : 0;
}

static int read_file(struct task_file *f, struct err *e)
{
    size_t n = strlen(f->path);
    if (n < 3 || strcmp(f->path + n - 3, ".xz")) return read_lines(f, f->path, e);
    char name[64];
    int fd = -1;
    if (open_unpacked(&fd, f->path, e)) return -1;
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    int rc = read_lines(f, name, e);
    close(fd);
    return rc && !strncmp(e->msg, name, strlen(name)) ? err_prefix(e, "%s", f->path) : rc;
}

/* The file of that path, which becomes the data's. */
static const struct task_file *file_of(struct task_data *d, char *path, struct err *e)
{
    for (int i = 0; i < d->n; i++)
        if (!strcmp(d->file[i]->path, path)) {
            free(path);
            return d->file[i];
        }
    struct task_file **grown = realloc(d->file, (size_t)(d->n + 1) * sizeof *grown),
                     *f = grown ? calloc(1, sizeof *f) : NULL;
    if (grown) d->file = grown;
    if (!f) {
        free(path);
        err_memory(e);
        return NULL;
    }
    f->path = path;
    if (read_file(f, e)) {
        free_file(f);
        return NULL;
    }
    return d->file[d->n++] = f;
}

/* ---- names */

/* Splits go by several names. */
static const char *const split_names[][3] = {{"validation", "val", "dev"},
                                             {"train"},
                                             {"test"},
                                             {"dev"}};
static const char *const endings[] = {".jsonl",   ".json",     ".jsonl.gz",
                                      ".json.gz", ".jsonl.xz", ".json.xz"};

struct search {
    const char *dir;
    char *path; /* what was found; malloc'd */
};

/* DIR/NAME MIDDLE SPLIT with any ending. */
static int try_name(struct search *s, const char *name, const char *middle, const char *split,
                    struct err *e)
{
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        char *path;
        if (asprintf(&path, "%s/%s%s%s%s", s->dir, name, middle, split, endings[i]) < 0)
            return err_memory(e);
        if (access(path, F_OK)) {
            free(path);
        } else if (s->path) {
            err_set(e, "%s and %s: both may be meant: which one is it?", s->path, path);
            free(path);
            return -1;
        } else {
            s->path = path;
        }
    }
    return 0;
}

/* *path: NULL where no file fits. */
static int find_file(const char *dir, const char *name, const char *split, int plain, char **path,
                     struct err *e)
{
    struct search s = {dir, NULL};
    int rc = plain ? try_name(&s, name, "", "", e) : 0;
    for (size_t i = 0; i < sizeof split_names / sizeof *split_names; i++) {
        if (strcmp(split_names[i][0], split)) continue;
        for (int k = 0; k < 3 && split_names[i][k] && !rc; k++) {
            rc = try_name(&s, name, "_", split_names[i][k], e);
            if (!rc) rc = try_name(&s, name, "/", split_names[i][k], e);
        }
    }
    if (rc) free(s.path);
    *path = rc ? NULL : s.path;
    return rc;
}

/* Those lines of a file that are of the subject; SUBJECT NULL: all. OWN: none is of another. */
static int choose(struct task_docs *docs, const char *subject, int own, struct err *e)
{
    const struct task_file *f = docs->file;
    docs->doc = malloc((size_t)(f->n ? f->n : 1) * sizeof *docs->doc);
    if (!docs->doc) return err_memory(e);
    for (int i = 0; i < f->n; i++) {
        const json_t *is = json_object_get(f->doc[i].json, "subject");
        const char *text = json_string_value(is);
        char shown[PRINTABLE];
        if (subject && (own ? is && !text : !text))
            return err_set(e, "%s line %d: %s", f->path, f->doc[i].line,
                           is ? "\"subject\" is not a string" : "has no \"subject\"");
        int same = !subject || !text || !strcmp(text, subject);
        if (own && !same)
            return err_set(e, "%s line %d: is of subject %.40s", f->path, f->doc[i].line,
                           printable_text(text, shown));
        if (same) docs->doc[docs->n++] = &f->doc[i];
    }
    return 0;
}

int task_data_find(struct task_data *d, struct task_docs *docs, const char *name,
                   const char *subject, const char *split, int plain, struct err *e)
{
    char *path = NULL, *own = NULL;
    *docs = (struct task_docs){0};
    if (subject && asprintf(&own, "%s_%s", name, subject) < 0) return err_memory(e);
    int rc = own ? find_file(d->dir, own, split, plain, &path, e) : 0, has_own = path != NULL;
    if (!rc && !path) rc = find_file(d->dir, name, split, plain, &path, e);
    free(own);
    if (rc || !path) return rc;
    docs->file = file_of(d, path, e);
    rc = docs->file ? choose(docs, subject, has_own, e) : -1;
    if (rc) task_docs_free(docs);
    return rc;
}
