#include "cli/modes/batch/result.h"

#include "cli/modes/batch/durable.h"
#include "cli/outputs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { CHUNK = 64 << 10, GZIP_LEVEL = 6, GZIP_WINDOW = 15 + 16 };

int result_is_stream(const char *path, struct err *e)
{
    struct stat st;
    if (!strcmp(path, "-")) return 1;
    if (stat(path, &st)) {
        if (errno == ENOENT) return 0;
        return err_sys(e, "%s", path);
    }
    if (S_ISDIR(st.st_mode)) return err_set(e, "%s: is a directory", path);
    return !S_ISREG(st.st_mode);
}

int result_open(struct result *r, const char *path, int stream, int gzip, int as_finished,
                struct err *e)
{
    *r = (struct result){.path = path, .fd = -1, .gzip = gzip, .as_finished = as_finished};
    if (gzip) {
        z_stream *z = calloc(1, sizeof *z);
        r->deflate = z;
        if (!z ||
            deflateInit2(z, GZIP_LEVEL, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
            free(z);
            r->deflate = NULL;
            return err_memory(e);
        }
    }
    if (!stream) {
        if (asprintf(&r->part, "%s.part", path) >= 0) return 0;
        r->part = NULL;
        return err_memory(e);
    }
    r->at = -1;
    if (!strcmp(path, "-")) {
        r->path = "stdout";
        r->fd = 1;
        return 0;
    }
    return dur_open(&r->fd, path, O_WRONLY, e);
}

static int show(struct result *r, const void *p, size_t n, struct err *e)
{
    struct out shown = {0};
    out_shown(&shown, p, n);
    int rc = out_failed(&shown) ? err_memory(e)
                                : dur_write(r->fd, shown.p, shown.n, -1, r->path, e);
    out_free(&shown);
    return rc;
}

static int put(struct result *r, const void *p, size_t n, struct err *e)
{
    const int terminal = !r->part && !r->gzip && isatty(r->fd);
    const char *path = r->part ? r->part : r->path;
    if (terminal ? show(r, p, n, e) : dur_write(r->fd, p, n, r->at, path, e)) return -1;
    if (r->at >= 0) r->at += (int64_t)n;
    r->bytes += n;
    r->crc = (uint32_t)crc32_z(r->crc, p, n);
    return 0;
}

/* Packs exactly N bytes; the calls always cut at the same places, so that the packed bytes are
 * always the same. */
static int pack(struct result *r, const char *p, size_t n, int last, struct err *e)
{
    unsigned char packed[CHUNK];
    z_stream *z = r->deflate;
    z->next_in = (unsigned char *)p;
    z->avail_in = (unsigned)n;
    do {
        z->next_out = packed;
        z->avail_out = sizeof packed;
        int rc = deflate(z, last ? Z_FINISH : Z_NO_FLUSH);
        CHECK(rc == Z_OK || rc == Z_STREAM_END || rc == Z_BUF_ERROR);
        if (sizeof packed - z->avail_out && put(r, packed, sizeof packed - z->avail_out, e))
            return -1;
    } while (!z->avail_out);
    return 0;
}

/* Hands on what is pending, in whole chunks unless this is the end. */
static int flush(struct result *r, int last, struct err *e)
{
    struct out *o = &r->pending;
    if (out_failed(o)) return err_memory(e);
    size_t at = 0;
    if (!r->gzip) {
        if (o->n && put(r, o->p, o->n, e)) return -1;
        at = o->n;
    } else {
        for (; o->n - at >= CHUNK; at += CHUNK)
            if (pack(r, o->p + at, CHUNK, 0, e)) return -1;
        if (last) {
            if (pack(r, o->p + at, o->n - at, 1, e)) return -1;
            at = o->n;
        }
    }
    if (at && at < o->n) memmove(o->p, o->p + at, o->n - at);
    o->n -= at;
    return 0;
}

int result_advance(struct result *r, struct journal *j, uint64_t n_slots, struct err *e)
{
    if (r->part) {
        if (journal_count(j) < n_slots) return 0;
        if (dur_create(&r->fd, r->part, r->path, e)) return -1;
    }
    if (r->as_finished) {
        int more;
        size_t before = r->pending.n;
        for (; (more = journal_walk(j, &r->offset, &r->pending, e)) == 1; before = r->pending.n) {
            if (r->unfolds) out_unfold(&r->pending, before);
            if (r->pending.n >= CHUNK && flush(r, 0, e)) return -1;
        }
        if (more < 0) return -1;
    } else {
        for (; journal_has(j, r->next); r->next++) {
            size_t before = r->pending.n;
            if (journal_read(j, r->next, &r->pending, e)) return -1;
            if (r->unfolds) out_unfold(&r->pending, before);
            if (r->pending.n >= CHUNK && flush(r, 0, e)) return -1;
        }
    }
    return flush(r, 0, e);
}

int result_finish(struct result *r, struct err *e)
{
    if (flush(r, 1, e)) return -1;
    if (!r->part) return 0;
    int fd = r->fd;
    r->fd = -1;
    if (dur_sync(fd, r->part, e)) {
        close(fd);
        return -1;
    }
    return dur_close(fd, r->part, e) || dur_rename(r->part, r->path, e) || dur_sync_dir(r->path, e)
               ? -1
               : 0;
}

void result_close(struct result *r)
{
    if (r->deflate) deflateEnd(r->deflate);
    free(r->deflate);
    if (r->fd > 1) close(r->fd);
    free(r->part);
    out_free(&r->pending);
    *r = (struct result){.fd = -1};
}

int result_checksum(const char *path, uint64_t *bytes, uint32_t *crc, struct err *e)
{
    unsigned char chunk[CHUNK];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    *bytes = 0;
    *crc = 0;
    if (fd < 0) return errno == ENOENT ? 1 : err_sys(e, "%s", path);
    for (;;) {
        ssize_t got = read(fd, chunk, sizeof chunk);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) err_sys(e, "%s", path);
        if (got <= 0) {
            close(fd);
            return got < 0 ? -1 : 0;
        }
        *crc = (uint32_t)crc32(*crc, chunk, (unsigned)got);
        *bytes += (uint64_t)got;
    }
}
