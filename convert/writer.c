#include "convert/writer.h"

#include "convert/job.h"
#include "core/modelfile.h"
#include "core/progress.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t data_bytes(const struct plan *p)
{
    const struct out_tensor *last = &p->tensors[p->n_tensors - 1];
    return last->offset + last->bytes;
}

static json_t *entry(const char *dtype, json_t *shape, uint64_t begin, uint64_t end)
{
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype, "shape", shape, "data_offsets", (json_int_t)begin, (json_int_t)end);
}

/* The whole start of the file: length, JSON, spaces up to a multiple of 64. Checksums have a fixed width, so the size is
 * the same before and after the jobs have run. The caller frees *out. */
static int make_header(const struct plan *p, const json_t *meta, char **out, size_t *n, struct err *e)
{
    json_t *h = json_object(), *m = json_deep_copy(meta), *crcs = json_object();
    uint64_t at = 0;
    int pads = 0;
    json_object_set(h, "__metadata__", m);
    for (size_t i = 0; i < p->n_tensors; i++) {
        const struct out_tensor *t = &p->tensors[i];
        char text[32];
        if (t->offset > at) { /* the container allows no holes */
            snprintf(text, sizeof text, "pad.%d", pads++);
            json_object_set_new(h, text, entry("U8", json_pack("[I]", (json_int_t)(t->offset - at)), at, t->offset));
        }
        json_t *shape = json_array();
        for (int d = 0; d < t->n_dims; d++) json_array_append_new(shape, json_integer(t->shape[d]));
        json_object_set_new(h, t->name, entry(st_dtype_name(t->dtype), shape, t->offset, at = t->offset + t->bytes));
        uLong crc = t->crc[0];
        for (size_t k = 1; k < t->n_pieces; k++) crc = crc32_combine(crc, t->crc[k], (z_off_t)t->crc_bytes[k]);
        snprintf(text, sizeof text, "%08lx", crc);
        json_object_set_new(crcs, t->name, json_string(text));
    }
    char *crc_text = json_dumps(crcs, JSON_COMPACT), *text = NULL;
    if (crc_text) json_object_set_new(m, "opt4gptq.crc32", json_string(crc_text));
    json_object_set_new(m, "opt4gptq.header_crc32", json_string("00000000"));
    if (crc_text) text = json_dumps(h, JSON_COMPACT);
    size_t len = text ? strlen(text) : 0, padded = (8 + len + MF_ALIGN - 1) / MF_ALIGN * MF_ALIGN;
    *out = text ? malloc(padded) : NULL;
    if (*out) {
        uint64_t json_bytes = padded - 8;
        memset(*out, ' ', padded);
        memcpy(*out, &json_bytes, 8);
        memcpy(*out + 8, text, len);
        char digits[9];
        uint32_t crc;
        size_t digits_at;
        CHECK(!mf_header_crc((const char *)*out + 8, json_bytes, &crc, &digits_at));
        snprintf(digits, sizeof digits, "%08x", crc);
        memcpy(*out + 8 + digits_at, digits, 8);
        *n = padded;
    }
    free(crc_text);
    free(text);
    json_decref(h);
    json_decref(m);
    json_decref(crcs);
    return *out ? 0 : err_memory(e);
}

struct crew {
    struct plan *plan;
    const struct writer_options *options;
    struct job_output output;
    pthread_mutex_t lock; /* guards what follows */
    size_t next;
    int failed;
    struct err err;
    uint64_t done, total;
    double start, shown;
};

/* Called with the lock held. */
static void show_progress(struct crew *c, int last)
{
    double t = now(), spent = t - c->start;
    if (!c->options->progress || (!last && t - c->shown < 0.2)) return;
    c->shown = t;
    double part = c->total ? (double)c->done / (double)c->total : 1, left = part > 0 ? spent / part - spent : 0;
    char percent[32], bytes[64], speed[32], rest[64];
    if (last) progress_clear();
    else if (c->done) {
        snprintf(percent, sizeof percent, "converting %.0f%%", 100 * part);
        snprintf(rest, sizeof rest, "%d:%02d left", (int)left / 60, (int)left % 60);
        snprintf(bytes, sizeof bytes, "%.2f of %.2f GB", (double)c->done / 1e9, (double)c->total / 1e9);
        snprintf(speed, sizeof speed, "%.2f GB/s", (double)c->done / 1e9 / spent);
        progress_draw((const char *const[]){percent, rest, bytes, speed}, 4);
    }
}

static void *work(void *arg)
{
    struct crew *c = arg;
    struct job_buffers b;
    struct err e;
    uint64_t n = 0;
    int rc = job_buffers_init(&b, c->plan, &e);
    for (;;) {
        pthread_mutex_lock(&c->lock);
        c->done += n;
        if (rc && !c->failed) c->failed = 1, c->err = e;
        show_progress(c, 0);
        size_t i = c->failed || *c->options->stop ? c->plan->n_jobs : c->next++;
        pthread_mutex_unlock(&c->lock);
        if (i >= c->plan->n_jobs) break;
        rc = job_run(c->plan, &c->plan->jobs[i], &b, &c->output, &n, &e);
    }
    job_buffers_free(&b);
    return NULL;
}

static int run_jobs(struct crew *c, struct err *e)
{
    int n = c->options->n_threads, started = 0;
    pthread_t *t = calloc((size_t)n, sizeof *t);
    pthread_mutex_init(&c->lock, NULL);
    for (; t && started < n - 1; started++)
        if (pthread_create(&t[started], NULL, work, c)) break; /* fewer hands then */
    work(c);
    for (int i = 0; i < started; i++) pthread_join(t[i], NULL);
    show_progress(c, 1);
    pthread_mutex_destroy(&c->lock);
    free(t);
    if (c->failed) *e = c->err;
    return c->failed ? -1 : 0;
}

/* The file to replace: absent, or a regular one that is not part of what is being read. *real: through symbolic links. */
static int check_target(const struct plan *p, const char *path, char **real, struct err *e)
{
    struct stat out, in;
    if (stat(path, &out)) {
        if (errno != ENOENT) return err_sys(e, "%s", path);
        if (!lstat(path, &out)) return err_set(e, "%s: is a symbolic link to nothing", path);
        *real = strdup(path);
        return *real ? 0 : err_memory(e);
    }
    if (S_ISDIR(out.st_mode)) return err_set(e, "%s: is a directory (name a file, such as %s/model.safetensors)", path, path);
    if (!S_ISREG(out.st_mode)) return err_set(e, "%s: is not a regular file", path);
    for (size_t i = 0; i < p->dir->n_shards; i++)
        if (!fstat(p->dir->shards[i].fd, &in) && in.st_dev == out.st_dev && in.st_ino == out.st_ino)
            return err_set(e, "%s: is part of the checkpoint being read", path);
    *real = realpath(path, NULL);
    return *real ? 0 : err_sys(e, "%s", path);
}

static int sync_directory(const char *path, struct err *e)
{
    char *dir = strdup(path);
    if (!dir) return err_memory(e);
    char *slash = strrchr(dir, '/');
    if (slash) slash[slash == dir] = 0;
    int fd = open(slash ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;
    /* Some file systems cannot sync a directory and say EINVAL: nothing more can be done there. */
    if (fd < 0 || (fsync(fd) && errno != EINVAL)) rc = err_sys(e, "%s: cannot sync its directory", path);
    if (fd >= 0) close(fd);
    free(dir);
    return rc;
}

int writer_run(struct plan *p, const json_t *meta, const struct writer_options *o, struct writer_result *r, struct err *e)
{
    int rc = -1, fd = -1;
    size_t n_header, n_again;
    char *header = NULL, *real = NULL, *temp = NULL;
    struct crew c = {.plan = p, .options = o, .start = now()};
    if (check_target(p, o->path, &real, e) || make_header(p, meta, &header, &n_header, e)) goto fail;
    if (asprintf(&temp, "%s.XXXXXX.partial", real) < 0) {
        temp = NULL;
        err_memory(e);
        goto fail;
    }
    fd = mkostemps(temp, 8, O_CLOEXEC);
    if (fd < 0) {
        free(temp);
        temp = NULL;
        err_sys(e, "%s: cannot create a file beside it", real);
        goto fail;
    }
    mode_t mask = umask(0);
    umask(mask);
    fchmod(fd, 0666 & ~mask); /* mkstemp's 0600 would surprise */
    c.output = (struct job_output){o->path, fd, n_header};
    c.total = data_bytes(p);
    /* Claims the space now where the file system can, so that a full disk is an error in the first second. */
    if (fallocate(fd, 0, 0, (off_t)(n_header + c.total)) && (errno == ENOSPC || errno == EFBIG || errno == EDQUOT)) {
        err_sys(e, "%s: needs %" PRIu64 " bytes", o->path, n_header + c.total);
        goto fail;
    }
    if (ftruncate(fd, (off_t)(n_header + c.total))) {
        err_sys(e, "%s: cannot write", o->path);
        goto fail;
    }
    if (run_jobs(&c, e)) goto fail;
    free(header);
    header = NULL;
    if (make_header(p, meta, &header, &n_again, e)) goto fail;
    CHECK(*o->stop || n_again == n_header);
    if (!*o->stop && job_write(&c.output, header, n_header, 0, e)) goto fail;
    if (!*o->stop && fsync(fd)) {
        err_sys(e, "%s: cannot sync", o->path);
        goto fail;
    }
    if (*o->stop) {
        err_set(e, "%s: stopped by a signal, nothing was written", o->path);
        goto fail;
    }
    if (rename(temp, real)) {
        err_sys(e, "%s: cannot rename the finished file", o->path);
        goto fail;
    }
    free(temp);
    temp = NULL;
    rc = sync_directory(real, e);
    *r = (struct writer_result){n_header + c.total, now() - c.start};
fail:
    if (temp) unlink(temp);
    if (fd >= 0) close(fd);
    free(temp);
    free(header);
    free(real);
    return rc;
}
