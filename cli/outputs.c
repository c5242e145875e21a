#include "cli/outputs.h"

#include "cli/modes/batch/shard.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- which file a name means */

struct place {
    int exists;
    dev_t dev; /* of the file, or of the folder in which it would be made */
    ino_t ino;
    char name[NAME_MAX + 1]; /* in that folder */
};

enum { MAX_LINKS = 40 };

/* 0; 1: cannot be compared: no regular file, or none that could be made. Follows links, also those
 * that lead nowhere yet. */
static int find(const char *path, struct place *p)
{
    char at[PATH_MAX], target[PATH_MAX];
    struct stat st;
    *p = (struct place){0};
    if (!stat(path, &st)) {
        *p = (struct place){1, st.st_dev, st.st_ino, ""};
        return !S_ISREG(st.st_mode);
    }
    if (strlen(path) >= sizeof at) return 1;
    strcpy(at, path);
    for (int i = 0; i < MAX_LINKS; i++) {
        ssize_t n = readlink(at, target, sizeof target - 1);
        char *slash = strrchr(at, '/');
        if (n < 0) {
            const char *name = slash ? slash + 1 : at;
            if (strlen(name) > NAME_MAX) return 1;
            strcpy(p->name, name);
            if (slash) slash[slash == at] = 0;
            if (stat(slash ? at : ".", &st)) return 1;
            p->dev = st.st_dev;
            p->ino = st.st_ino;
            return 0;
        }
        target[n] = 0;
        size_t folder = target[0] != '/' && slash ? (size_t)(slash - at) + 1 : 0;
        if (folder + (size_t)n >= sizeof at) return 1;
        memcpy(at + folder, target, (size_t)n + 1);
    }
    return 1;
}

/* Names that are not there yet are one where they differ in the case of letters alone: some file
 * systems do not tell that. */
static int same(const struct place *a, const struct place *b)
{
    return a->exists == b->exists && a->dev == b->dev && a->ino == b->ino &&
           !strcasecmp(a->name, b->name);
}

/* ---- all that a run reads and writes */

enum { MAX_FILES = 64, MAX_ENDING = 32 };

struct file {
    const char *what; /* the option, or the standard stream */
    char path[PATH_MAX + MAX_ENDING];
    int written, is_stream; /* streams may be one file among each other */
    struct place place;
};

struct files {
    struct file *file; /* [MAX_FILES] */
    int n;
};

static void add(struct files *f, const char *what, const char *path, const char *ending,
                int written)
{
    CHECK(f->n < MAX_FILES);
    struct file *x = &f->file[f->n];
    *x = (struct file){.what = what, .written = written};
    if ((size_t)snprintf(x->path, sizeof x->path, "%s%s", path, ending) < sizeof x->path &&
        !find(x->path, &x->place))
        f->n++;
}

/* The file and those that come with it: ENDINGS separated by blanks, or NULL. */
static void add_written(struct files *f, const char *what, const char *path, const char *endings)
{
    add(f, what, path, "", 1);
    for (const char *at = endings ? endings : ""; *at; at += strspn(at, " ")) {
        char ending[MAX_ENDING];
        size_t n = strcspn(at, " ");
        CHECK(n < sizeof ending);
        snprintf(ending, sizeof ending, "%.*s", (int)n, at);
        add(f, what, path, ending, 1);
        at += n;
    }
}

static void add_stream(struct files *f, const char *what, int fd, int written)
{
    struct stat st;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode)) return;
    f->file[f->n++] = (struct file){
        .what = what, .written = written, .is_stream = 1, .place = {1, st.st_dev, st.st_ino, ""}};
}

/* What -o makes. A link of that name is followed, as the batch does. */
static int add_answers(struct files *f, const struct options *o, const char *endings, struct err *e)
{
    char path[PATH_MAX];
    struct shard s;
    if (shard_parse(&s, o->shard, e)) return -1;
    int n = s.n > 1 ? snprintf(path, sizeof path, "%s.%llu-of-%llu", o->output,
                               (unsigned long long)s.i, (unsigned long long)s.n)
                    : snprintf(path, sizeof path, "%s", o->output);
    if (n >= (int)sizeof path) return err_set(e, "-o: the name is too long");
    struct stat st;
    char *target = !lstat(path, &st) && S_ISLNK(st.st_mode) ? realpath(path, NULL) : NULL;
    add_written(f, "-o", target ? target : path, endings);
    free(target);
    return 0;
}

/* All files that the options name, as the table says which do. */
static int add_all(struct files *f, const struct options *o, struct err *e)
{
    add_stream(f, "stdin", 0, 0);
    add_stream(f, "stdout", 1, 1);
    add_stream(f, "stderr", 2, 1);
    for (int i = 0; i < run_program.n_rows; i++) {
        const struct args_row *r = &run_program.rows[i];
        if (r->file == ARGS_NO_FILE) continue;
        const char *path = options_text(o, r->names[0]);
        if (!path || !strcmp(path, "-")) continue;
        if (r->file == ARGS_READS) add(f, r->names[0], path, "", 0);
        else if (r->offset != offsetof(struct options, output))
            add_written(f, r->names[0], path, r->beside);
        else if (add_answers(f, o, r->beside, e)) return -1;
    }
    return 0;
}

static int compare(const struct file *a, const struct file *b, struct err *e)
{
    if ((!a->written && !b->written) || (a->is_stream && b->is_stream) ||
        !same(&a->place, &b->place))
        return 0;
    const struct file *out = b->written && !b->is_stream ? b
                             : a->written                ? a
                                                         : b,
                      *other = out == a ? b : a;
    if (out->is_stream)
        return err_set(e, "%s is the file of %s: it would be written over", out->what, other->what);
    const char *more = strcmp(out->place.name, other->place.name)
                           ? " where upper and lower case are one"
                       : other->written ? ""
                                        : ", which would be written over";
    return err_set(e, "%s %s: is also the file of %s%s", out->what, out->path, other->what, more);
}

/* Compares the files from FIRST on with those before them. */
static int compare_from(const struct files *f, int first, struct err *e)
{
    for (int i = first; i < f->n; i++)
        for (int j = 0; j < i; j++)
            if (compare(&f->file[j], &f->file[i], e)) return -1;
    return 0;
}

int outputs_check(const struct options *o, struct err *e)
{
    struct files f = {calloc(MAX_FILES, sizeof *f.file), 0};
    if (!f.file) return err_memory(e);
    int rc = add_all(&f, o, e) || compare_from(&f, 0, e) ? -1 : 0;
    free(f.file);
    return rc;
}

int outputs_check_one(const struct options *o, const char *what, const char *path, struct err *e)
{
    struct files f = {calloc(MAX_FILES, sizeof *f.file), 0};
    if (!f.file) return err_memory(e);
    int rc = add_all(&f, o, e), n = f.n;
    if (!rc) {
        add(&f, what, path, "", 1);
        rc = compare_from(&f, n, e);
    }
    free(f.file);
    return rc;
}

/* ---- files beside the answers */

static ssize_t write_all(void *fd, const char *p, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t w = write((int)(intptr_t)fd, p + at, n - at);
        if (w < 0 && errno != EINTR) return 0; /* fopencookie's word for an error */
        if (w > 0) at += (size_t)w;
    }
    return (ssize_t)n;
}

static int close_fd(void *fd) { return close((int)(intptr_t)fd); }

int side_open(struct side_file *s, const char *option, const char *path, struct err *e)
{
    *s = (struct side_file){.option = option, .path = path};
    if (!path) return 0;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    s->created = fd >= 0;
    if (fd < 0)
        fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC,
                  0666); /* there already, or a link to what is not */
    if (fd < 0) return err_sys(e, "%s %s", option, path);
    s->fd = fd;
    if ((s->f = fopencookie((void *)(intptr_t)fd, "w",
                            (cookie_io_functions_t){.write = write_all, .close = close_fd})))
        return 0;
    close(fd);
    return err_memory(e);
}

FILE *side_begin(struct side_file *s)
{
    s->created = 0;
    int ignored = ftruncate(s->fd, 0); /* what cannot be emptied is a pipe or a device */
    (void)ignored;
    return s->f;
}

int side_close(struct side_file *s, struct err *e)
{
    if (!s->f) return 0;
    int bad = ferror(s->f);
    if (s->created) unlink(s->path);
    if (fclose(s->f)) bad = err_sys(e, "%s %s", s->option, s->path);
    else if (bad) bad = err_set(e, "%s %s: not all of it could be written", s->option, s->path);
    s->f = NULL;
    return bad;
}
