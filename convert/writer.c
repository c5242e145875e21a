#include "convert/writer.h"

#include "convert/job.h"
#include "convert/notes.h"
#include "core/base/clock.h"
#include "core/base/json.h"
#include "core/model/modelfile.h"
#include "core/base/progress.h"
#include "core/base/units.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static uint64_t data_bytes(const struct plan *p)
{
    const struct out_tensor *last = &p->tensors[p->n_tensors - 1];
    return last->offset + last->bytes;
}

static json_t *entry(const char *dtype, json_t *shape, uint64_t begin, uint64_t end)
{
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype, "shape", shape, "data_offsets",
                     (json_int_t)begin, (json_int_t)end);
}

/* Builds the JSON of the header: *text is malloc'd. */
static int header_text(const struct plan *p, const json_t *meta, char **text, struct err *e)
{
    json_t *h = json_object(), *m = json_deep_copy(meta), *crcs = json_object();
    uint64_t at = 0;
    int pads = 0;
    json_object_set(h, "__metadata__", m);
    for (size_t i = 0; i < p->n_tensors; i++) {
        const struct out_tensor *t = &p->tensors[i];
        char name[32];
        if (t->offset > at) { /* the container allows no holes */
            snprintf(name, sizeof name, "pad.%d", pads++);
            json_object_set_new(
                h, name,
                entry("U8", json_pack("[I]", (json_int_t)(t->offset - at)), at, t->offset));
        }
        json_t *shape = json_array();
        for (int d = 0; d < t->n_dims; d++) json_array_append_new(shape, json_integer(t->shape[d]));
        json_object_set_new(
            h, t->name,
            entry(st_dtype_name(t->dtype), shape, t->offset, at = t->offset + t->bytes));
        uLong crc = t->crc[0];
        for (size_t k = 1; k < t->n_pieces; k++)
            crc = crc32_combine(crc, t->crc[k], (z_off_t)t->crc_bytes[k]);
        char digits[32];
        snprintf(digits, sizeof digits, "%08lx", crc);
        json_object_set_new(crcs, t->name, json_string(digits));
    }
    char *crc_text = json_dumps(crcs, JSON_COMPACT);
    json_object_set_new(m, "opt4gptq.crc32", json_string(crc_text));
    json_object_set_new(m, "opt4gptq.header_crc32", json_string("00000000"));
    *text = json_dumps(h, JSON_COMPACT);
    size_t n_entries = json_object_size(h);
    free(crc_text);
    json_decref(h);
    json_decref(m);
    json_decref(crcs);
    int rc = json_check(e);
    if (!rc && (!*text || n_entries != 1 + (size_t)pads + p->n_tensors))
        rc = err_set(e, "the header cannot be written as JSON");
    if (rc) free(*text);
    return rc;
}

/* Builds the start of the file: length, JSON, spaces up to a multiple of 64. Checksums have a fixed
 * width, so the size is the same before and after the jobs. The caller frees *out. */
static int make_header(const struct plan *p, const json_t *meta, char **out, size_t *n,
                       struct err *e)
{
    char *text, digits[9];
    uint32_t crc;
    size_t digits_at;
    if (header_text(p, meta, &text, e)) return -1;
    size_t len = strlen(text), padded = (8 + len + MF_ALIGN - 1) / MF_ALIGN * MF_ALIGN;
    uint64_t json_bytes = padded - 8;
    char *h = malloc(padded);
    if (h) {
        memset(h, ' ', padded);
        memcpy(h, &json_bytes, 8);
        memcpy(h + 8, text, len);
    }
    free(text);
    if (!h) return err_memory(e);
    if (mf_header_crc(h + 8, json_bytes, &crc, &digits_at)) {
        free(h);
        return err_set(e, "the header has no room for its own checksum");
    }
    snprintf(digits, sizeof digits, "%08x", crc);
    memcpy(h + 8 + digits_at, digits, 8);
    *out = h, *n = padded;
    return 0;
}

struct workers {
    struct plan *plan;
    const struct writer_options *options;
    struct job_output output;
    pthread_mutex_t lock; /* guards the following members */
    size_t next;
    int failed;
    struct err err;
    uint64_t done, total;
    struct progress progress;
};

/* Draws the progress line; the lock is held. */
static void show_progress(struct workers *c)
{
    char percent[32], left[PROGRESS_TEXT], bytes[80], speed[48], a[UNITS_TEXT], b[UNITS_TEXT];
    if (!c->options->progress || !c->done || !progress_due(&c->progress)) return;
    double done = (double)c->done, total = (double)c->total;
    snprintf(percent, sizeof percent, "converting %.0f%%", 100 * done / total);
    snprintf(bytes, sizeof bytes, "%s of %s", units_bytes(c->done, a), units_bytes(c->total, b));
    snprintf(speed, sizeof speed, "%s/s",
             units_bytes((uint64_t)(done / (clock_now() - c->progress.start)), a));
    const char *const part[] = {percent, progress_left(&c->progress, done, total, left), bytes,
                                speed};
    progress_show(&c->progress, part, 4);
}

static void *work(void *arg)
{
    struct workers *c = arg;
    struct job_buffers b;
    struct err e;
    uint64_t n = 0;
    int rc = job_buffers_init(&b, c->plan, &e);
    for (;;) {
        pthread_mutex_lock(&c->lock);
        c->done += n;
        if (rc && !c->failed) c->failed = 1, c->err = e;
        show_progress(c);
        size_t i = c->failed || *c->options->stop ? c->plan->n_jobs : c->next++;
        pthread_mutex_unlock(&c->lock);
        if (i >= c->plan->n_jobs) break;
        rc = job_run(c->plan, &c->plan->jobs[i], &b, &c->output, &n, &e);
    }
    job_buffers_free(&b);
    return NULL;
}

static int run_jobs(struct workers *c, struct err *e)
{
    int n = c->options->n_threads, started = 0;
    pthread_t *t = calloc((size_t)n, sizeof *t);
    pthread_mutex_init(&c->lock, NULL);
    for (; t && started < n - 1; started++)
        if (pthread_create(&t[started], NULL, work, c)) break; /* run with fewer threads */
    work(c);
    for (int i = 0; i < started; i++) pthread_join(t[i], NULL);
    if (c->options->progress) progress_clear();
    pthread_mutex_destroy(&c->lock);
    free(t);
    if (c->failed) *e = c->err;
    return c->failed ? -1 : 0;
}

static int is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* *yes: OUT, whose name without links is REAL, lies in the checkpoint's directory, or is one of its
 * files under another name (a hub's cache consists of links). */
static int is_of_checkpoint(const struct plan *p, const struct stat *out, const char *real,
                            int *yes, struct err *e)
{
    struct stat in;
    *yes = 0;
    for (size_t i = 0; i < p->dir->n_shards && !*yes; i++)
        *yes = !fstat(p->dir->shards[i].fd, &in) && is_same(&in, out);
    if (*yes || p->dir->gguf) return 0; /* one file */
    char *dir = realpath(p->dir->path, NULL);
    DIR *d = dir ? opendir(dir) : NULL;
    if (!d) {
        free(dir);
        return err_sys(e, "%s", p->dir->path);
    }
    size_t n = strlen(dir);
    *yes = !strncmp(real, dir, n) && real[n] == '/';
    for (struct dirent *x; !*yes && (x = readdir(d));)
        *yes = !fstatat(dirfd(d), x->d_name, &in, 0) && is_same(&in, out);
    closedir(d);
    free(dir);
    return 0;
}

/* Checks the file to be replaced: absent, or a regular file that is not part of the checkpoint.
 * *real: its name without symbolic links. */
static int check_target(const struct plan *p, const char *path, char **real, struct err *e)
{
    struct stat out;
    int is_input = 0;
    if (stat(path, &out)) {
        if (errno != ENOENT) return err_sys(e, "%s", path);
        if (!lstat(path, &out)) return err_set(e, "%s: is a symbolic link to nothing", path);
        *real = strdup(path);
        return *real ? 0 : err_memory(e);
    }
    if (S_ISDIR(out.st_mode))
        return err_set(e, "%s: is a directory (name a file, such as %s/model.safetensors)", path,
                       path);
    if (!S_ISREG(out.st_mode)) return err_set(e, "%s: is not a regular file", path);
    if (!(*real = realpath(path, NULL))) return err_sys(e, "%s", path);
    if (is_of_checkpoint(p, &out, *real, &is_input, e)) return -1;
    if (!is_input) return 0;
    struct modelfile m; /* an earlier result may be replaced */
    struct err why;
    if (!mf_open(&m, path, &why)) {
        mf_close(&m);
        return 0;
    }
    if (!err_is_memory(&why)) return err_set(e, "%s: is part of the checkpoint being read", path);
    *e = why;
    return -1;
}

/* The output file until it is complete: without a name where the file system supports that
 * (O_TMPFILE), so that a killed process leaves nothing behind. */
struct temp_file {
    const char *real; /* final name */
    char *dir, *temp; /* temp: temporary name in dir; `named`: the file has it */
    int fd, dir_fd, named;
    mode_t mode; /* of the file that is replaced, or 0 */
};

static void temp_file_free(struct temp_file *u)
{
    if (u->named) unlink(u->temp);
    if (u->fd >= 0) close(u->fd);
    if (u->dir_fd >= 0) close(u->dir_fd);
    free(u->dir);
    free(u->temp);
}

/* The /proc name of the descriptor: linkat by descriptor alone needs root. */
static const char *proc_name(const struct temp_file *u, char name[32])
{
    snprintf(name, 32, "/proc/self/fd/%d", u->fd);
    return name;
}

static int temp_file_open(struct temp_file *u, const char *real, struct err *e)
{
    static const char tail[] = ".XXXXXX.partial";
    const char *slash = strrchr(real, '/');
    char name[32];
    size_t n = slash ? (size_t)(slash - real) + (slash == real) : 1;
    struct stat old;
    *u = (struct temp_file){.real = real, .fd = -1, .dir_fd = -1};
    if (!stat(real, &old)) u->mode = old.st_mode & 0777;
    u->dir = strndup(slash ? real : ".", n);
    u->temp = malloc(strlen(real) + sizeof tail);
    if (!u->dir || !u->temp) return err_memory(e);
    strcpy(stpcpy(u->temp, real), tail);
    /* Opened now, so that a forbidden name is found before the work. */
    u->dir_fd = open(u->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (u->dir_fd < 0) return err_sys(e, "%s", u->dir);
    u->fd = open(u->dir, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    if (u->fd >= 0 && u->mode) fchmod(u->fd, u->mode);
    if (u->fd >= 0 && !access(proc_name(u, name), F_OK)) return 0;
    if (u->fd >= 0) close(u->fd);
    u->fd = mkostemps(u->temp, sizeof ".partial" - 1, O_CLOEXEC);
    if (u->fd < 0) return err_sys(e, "%s: cannot create a file beside it", real);
    u->named = 1;
    mode_t mask = umask(0);
    umask(mask);
    fchmod(u->fd, u->mode ? u->mode : 0666 & ~mask); /* in place of mkstemp's 0600 */
    return 0;
}

/* Links the nameless file under a temporary name. */
static int give_temporary_name(struct temp_file *u)
{
    char name[32], *x = strrchr(u->temp, '.') - 6;
    for (int i = 0; i < 100 && !u->named; i++) {
        uint32_t number = 0;
        if (getrandom(&number, 3, 0) < 0) return -1;
        char digits[7];
        snprintf(digits, sizeof digits, "%06x", number & 0xffffff);
        memcpy(x, digits, 6);
        u->named = !linkat(AT_FDCWD, proc_name(u, name), AT_FDCWD, u->temp, AT_SYMLINK_FOLLOW);
        if (!u->named && errno != EEXIST) return -1;
    }
    return u->named ? 0 : -1;
}

/* Syncs the file and gives it its final name, replacing a file of that name. */
static int temp_file_finish(struct temp_file *u, struct err *e)
{
    char name[32];
    if (fsync(u->fd)) return err_sys(e, "%s: cannot sync", u->real);
    int linked = !u->named &&
                 !linkat(AT_FDCWD, proc_name(u, name), AT_FDCWD, u->real, AT_SYMLINK_FOLLOW);
    if (!linked) { /* linkat() does not replace */
        if (!u->named && (errno != EEXIST || give_temporary_name(u)))
            return err_sys(e, "%s: cannot name the finished file", u->real);
        if (rename(u->temp, u->real))
            return err_sys(e, "%s: cannot rename the finished file", u->real);
        u->named = 0;
    }
    /* Some file systems cannot sync a directory and return EINVAL. */
    if (fsync(u->dir_fd) && errno != EINVAL)
        return err_sys(e, "%s: cannot sync its directory", u->real);
    return 0;
}

int writer_run(struct plan *p, const json_t *meta, const struct writer_options *o,
               struct writer_result *r, struct err *e)
{
    int rc = -1;
    size_t n_header, n_again;
    char *header = NULL, *real = NULL;
    struct temp_file u = {.fd = -1, .dir_fd = -1};
    struct workers c = {.plan = p, .options = o};
    progress_begin(&c.progress);
    if (check_target(p, o->path, &real, e) || make_header(p, meta, &header, &n_header, e) ||
        temp_file_open(&u, real, e))
        goto fail;
    c.output = (struct job_output){o->path, u.fd, n_header};
    c.total = data_bytes(p);
    /* Reserves the space where the file system can, so that a full disk is an error at the start.
     */
    if (fallocate(u.fd, 0, 0, (off_t)(n_header + c.total)) &&
        (errno == ENOSPC || errno == EFBIG || errno == EDQUOT)) {
        err_sys(e, "%s: needs %" PRIu64 " bytes", o->path, n_header + c.total);
        goto fail;
    }
    if (ftruncate(u.fd, (off_t)(n_header + c.total))) {
        err_sys(e, "%s: cannot write", o->path);
        goto fail;
    }
    if (run_jobs(&c, e)) goto fail;
    free(header);
    header = NULL;
    if (!*o->stop && make_header(p, meta, &header, &n_again, e)) goto fail;
    if (header && n_again != n_header) {
        err_set(e, "%s: the header has another size than before", o->path);
        goto fail;
    }
    if (!*o->stop && job_write(&c.output, header, n_header, 0, e)) goto fail;
    if (*o->stop) {
        err_set(e, "%s: stopped by a signal, nothing was written", o->path);
        goto fail;
    }
    char name[32];
    if (o->check && o->check(u.named ? u.temp : proc_name(&u, name), e)) goto fail;
    if (temp_file_finish(&u, e)) goto fail;
    *r = (struct writer_result){n_header + c.total, clock_now() - c.progress.start};
    rc = 0;
fail:
    temp_file_free(&u);
    free(header);
    free(real);
    return rc;
}
