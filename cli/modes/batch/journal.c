#include "cli/modes/batch/journal.h"

#include "cli/modes/batch/durable.h"
#include "core/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { CHUNK = 64 << 10, CRC_AT = 33, MAX_NOTE = 256, LOCK_TRIES = 30, LOCK_MICROSECONDS = 100000 };

struct slot {
    uint64_t offset; /* of the frame */
    uint32_t bytes;  /* of the payload; 0: no answer yet */
};

struct journal {
    char *path; /* NULL: temporary */
    int fd;
    uint64_t end, synced; /* bytes written; known to be on the medium */
    double oldest;        /* when the first byte after `synced` was written; 0: none */
    struct slot *slot;    /* [n_slots] */
    uint64_t n_slots, n_held, n_errors;
    struct out manifest, completion, frame;
};

struct frame {
    char type, is_error;
    uint64_t slot, bytes;
    uint32_t crc;
};

static void format_header(char text[JOURNAL_HEADER + 1], const struct frame *f)
{
    snprintf(text, JOURNAL_HEADER + 1, "#%c %016llx %c %010llx %08x\n", f->type,
             (unsigned long long)f->slot, f->is_error ? '1' : '0',
             (unsigned long long)f->bytes & 0xffffffffffu, f->crc);
}

static uint32_t header_crc(const char *text)
{
    return (uint32_t)crc32(0, (const unsigned char *)text, CRC_AT);
}

/* 1 when TEXT is exactly what format_header would write. */
static int parse_header(const char *text, struct frame *f)
{
    char copy[JOURNAL_HEADER + 1], again[JOURNAL_HEADER + 1], is_error;
    unsigned long long slot, bytes;
    memcpy(copy, text, JOURNAL_HEADER);
    copy[JOURNAL_HEADER] = 0;
    if (sscanf(copy, "#%c %16llx %c %10llx %8x", &f->type, &slot, &is_error, &bytes, &f->crc) != 5)
        return 0;
    f->slot = slot;
    f->bytes = bytes;
    f->is_error = is_error == '1';
    format_header(again, f);
    return !memcmp(again, text, JOURNAL_HEADER);
}

/* What a frame of its type may be: only nothing may be empty. */
static int is_plausible(const struct frame *f)
{
    return (f->type == 'x' || f->bytes) && f->bytes <= UINT32_MAX && memchr("mrcx", f->type, 4);
}

/* Up to N bytes at AT; fewer only at the end of the file. */
static int read_at(const struct journal *j, void *p, size_t n, uint64_t at, size_t *got,
                   struct err *e)
{
    for (*got = 0; *got < n;) {
        ssize_t r = pread(j->fd, (char *)p + *got, n - *got, (off_t)(at + *got));
        if (r < 0 && errno == EINTR) continue;
        if (r < 0) return err_sys(e, "%s", j->path ? j->path : "temporary file");
        if (r == 0) break;
        *got += (size_t)r;
    }
    return 0;
}

/* The frame at AT: 1 sound (the checksum fits, the payload is a line), 0 not, -1 failed. The
 * payload is appended to *o unless NULL. SIZE is the file's. */
static int read_frame(const struct journal *j, uint64_t at, uint64_t size, struct frame *f,
                      struct out *o, struct err *e)
{
    char text[JOURNAL_HEADER], chunk[CHUNK];
    size_t got;
    if (read_at(j, text, sizeof text, at, &got, e)) return -1;
    if (got < sizeof text || !parse_header(text, f) || !is_plausible(f) ||
        f->bytes > size - at - JOURNAL_HEADER)
        return 0;
    uint32_t crc = header_crc(text);
    uint64_t first_end = 0; /* of the payload's first line */
    for (uint64_t i = 0; i < f->bytes; i += got) {
        size_t want = f->bytes - i < CHUNK ? (size_t)(f->bytes - i) : CHUNK;
        if (read_at(j, chunk, want, at + JOURNAL_HEADER + i, &got, e)) return -1;
        if (got < want) return 0;
        crc = (uint32_t)crc32(crc, (const unsigned char *)chunk, (unsigned)got);
        const char *newline = first_end ? NULL : memchr(chunk, '\n', got);
        if (newline) first_end = i + (uint64_t)(newline - chunk) + 1;
        if (o) out_bytes(o, chunk, got);
    }
    if (o && out_failed(o)) return err_memory(e);
    return crc == f->crc && (f->type == 'x' || first_end == f->bytes);
}

/* ---- opening */

/* A run that was just killed holds its lock until the system has taken its memory back: waits a
 * little for that. */
static int try_lock(int fd)
{
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (!flock(fd, LOCK_EX | LOCK_NB)) return 0;
        if (errno != EWOULDBLOCK) return -1;
        usleep(LOCK_MICROSECONDS);
    }
    errno = EWOULDBLOCK;
    return -1;
}

/* A lock on the file that has the name now: a run that is completing replaces it. */
static int open_locked(struct journal *j, char *note, struct err *e)
{
    for (;;) {
        struct stat ours, named;
        if (dur_open(&j->fd, j->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, e))
            return errno == ELOOP
                       ? err_set(e, "%s: is a symbolic link: the journal must be a file", j->path)
                       : -1;
        if (fstat(j->fd, &ours)) return err_sys(e, "%s", j->path);
        if (!S_ISREG(ours.st_mode)) return err_set(e, "%s: is not a file", j->path);
        if (try_lock(j->fd)) {
            if (errno == EWOULDBLOCK) return err_set(e, "%s: another run is writing it", j->path);
            if (errno != ENOSYS && errno != ENOLCK && errno != EOPNOTSUPP)
                return err_sys(e, "%s", j->path);
            snprintf(
                note, MAX_NOTE,
                "%s: this file system has no locks: do not run the same command twice at a time",
                j->path);
            return 0;
        }
        if (!stat(j->path, &named) && named.st_ino == ours.st_ino && named.st_dev == ours.st_dev)
            return 0;
        close(j->fd);
        j->fd = -1;
    }
}

static int open_temporary(struct journal *j, struct err *e)
{
    char name[] = "/tmp/opt4gptq-run.answers-XXXXXX";
    j->fd = mkostemp(name, O_CLOEXEC);
    if (j->fd < 0) return err_sys(e, "%s", name);
    unlink(name);
    return 0;
}

static int all_zero(const struct journal *j, uint64_t size, struct err *e)
{
    char chunk[CHUNK];
    size_t got;
    for (uint64_t at = 0; at < size; at += got) {
        if (read_at(j, chunk, sizeof chunk, at, &got, e)) return -1;
        for (size_t i = 0; i < got; i++)
            if (chunk[i]) return 0;
        if (!got) break;
    }
    return 1;
}

/* The first frame is not sound. A crash while it was written leaves a beginning of it, or zeros:
 * nothing is lost then. */
static int check_beginning(const struct journal *j, uint64_t size, const struct frame *f,
                           struct err *e)
{
    char text[JOURNAL_HEADER + 1] = "";
    size_t got;
    int zero = all_zero(j, size, e);
    if (zero) return zero < 0 ? -1 : 0;
    if (read_at(j, text, JOURNAL_HEADER, 0, &got, e)) return -1;
    if (memcmp(text, "#m ", got < 3 ? got : 3))
        return err_set(e, "%s: is not a journal of this program", j->path);
    if (got < JOURNAL_HEADER) return 0;
    struct frame again;
    if (parse_header(text, &again) && size <= JOURNAL_HEADER + f->bytes) return 0;
    return err_set(e, "%s: its beginning is damaged: remove it to start over", j->path);
}

/* A frame's header at the beginning of a line of the journal, from FROM on, at *at. 1: found; 0:
 * none. The header may lie. */
static int find_header(const struct journal *j, uint64_t from, uint64_t size, uint64_t *at,
                       struct err *e)
{
    char chunk[CHUNK];
    size_t got;
    for (uint64_t base = from; base + JOURNAL_HEADER < size; base += CHUNK - JOURNAL_HEADER) {
        if (read_at(j, chunk, sizeof chunk, base, &got, e)) return -1;
        for (const char *p = chunk;
             got >= JOURNAL_HEADER + 1 && p <= chunk + got - JOURNAL_HEADER - 1; p++) {
            struct frame f;
            p = memchr(p, '\n', (size_t)(chunk + got - JOURNAL_HEADER - p));
            if (!p) break;
            if (p[1] != '#' || !parse_header(p + 1, &f)) continue;
            *at = base + (uint64_t)(p + 1 - chunk);
            return 1;
        }
    }
    return 0;
}

/* The first sound frame behind the damage at AT, far enough from it for an x frame: *next. 1:
 * found; 0: none. *lost: answers between, as far as their headers can be seen. */
static int find_sound(const struct journal *j, uint64_t at, uint64_t size, uint64_t *next,
                      uint64_t *lost, struct err *e)
{
    char text[JOURNAL_HEADER];
    struct frame f;
    size_t got;
    int rc;
    uint64_t last = at;
    if (read_at(j, text, sizeof text, at, &got, e)) return -1;
    if (got == sizeof text && parse_header(text, &f) &&
        f.bytes < size - at - JOURNAL_HEADER) { /* where its header says */
        *next = at + JOURNAL_HEADER + f.bytes;
        *lost = 1;
        if ((rc = read_frame(j, *next, size, &f, NULL, e))) return rc;
        *lost = 0;
    }
    for (uint64_t from = at + 1; (rc = find_header(j, from, size, next, e)) == 1; from = *next) {
        int sound = read_frame(j, *next, size, &f, NULL, e);
        if (sound < 0) return -1;
        if (last < *next) ++*lost;
        last = *next;
        if (sound && *next - at >= JOURNAL_HEADER) return 1;
    }
    if (!rc) ++*lost;
    return rc;
}

/* Whether the bytes from AT to the end look as a crash leaves them: less than a frame, or zeros at
 * the end. */
static int is_torn(const struct journal *j, uint64_t at, uint64_t size, struct err *e)
{
    char text[JOURNAL_HEADER], last = 0;
    struct frame f;
    size_t got;
    if (read_at(j, text, sizeof text, at, &got, e)) return -1;
    if (got < sizeof text) return 1;
    if (read_at(j, &last, 1, size - 1, &got, e)) return -1;
    return !last || (parse_header(text, &f) && f.bytes > size - at - JOURNAL_HEADER);
}

/* Puts an x frame over the bytes from AT to NEXT. */
static int cover(const struct journal *j, uint64_t at, uint64_t next, struct err *e)
{
    char text[JOURNAL_HEADER + 1], chunk[CHUNK];
    struct frame f = {.type = 'x', .bytes = next - at - JOURNAL_HEADER};
    memset(chunk, '\n', sizeof chunk);
    format_header(text, &f);
    f.crc = header_crc(text);
    for (int write = 0; write < 2; write++) {
        for (uint64_t i = 0; i < f.bytes; i += CHUNK) {
            size_t n = f.bytes - i < CHUNK ? (size_t)(f.bytes - i) : CHUNK;
            if (!write) f.crc = (uint32_t)crc32(f.crc, (const unsigned char *)chunk, (unsigned)n);
            else if (dur_write(j->fd, chunk, n, (int64_t)(at + JOURNAL_HEADER + i), j->path, e))
                return -1;
        }
        format_header(text, &f);
    }
    return dur_write(j->fd, text, JOURNAL_HEADER, (int64_t)at, j->path, e);
}

/* What was found wrong with a journal. */
struct harm {
    uint64_t at, n_lost, n_torn; /* first damaged byte and answers lost to damage; bytes cut off */
};

/* The frame at AT is not sound: covers it up to the next one that is, or cuts it off. *next is
 * where reading goes on. */
static int mend(struct journal *j, uint64_t at, uint64_t size, uint64_t *next, struct harm *h,
                struct err *e)
{
    uint64_t lost = 0;
    int found = find_sound(j, at, size, next, &lost, e), torn = found ? 0 : is_torn(j, at, size, e);
    if (found < 0 || torn < 0) return -1;
    if (torn) h->n_torn = size - at;
    else if (!h->n_lost) h->at = at;
    if (!torn) h->n_lost += lost;
    if (found) return cover(j, at, *next, e);
    *next = size;
    return dur_truncate(j->fd, (int64_t)at, j->path, e);
}

static void describe(const struct harm *h, const char *path, char *note)
{
    if (!h->n_lost && !h->n_torn) return;
    int n = snprintf(note, MAX_NOTE, "%.100s: ", path);
    if (h->n_lost)
        n += snprintf(note + n, (size_t)(MAX_NOTE - n),
                      "damaged at byte %llu: %llu answer%s computed again, the others are kept%s",
                      (unsigned long long)h->at, (unsigned long long)h->n_lost,
                      h->n_lost == 1 ? " is" : "s are", h->n_torn ? "; " : "");
    if (h->n_torn)
        snprintf(note + n, (size_t)(MAX_NOTE - n),
                 "%llu bytes that a crash left unfinished are cut off",
                 (unsigned long long)h->n_torn);
}

static int scan(struct journal *j, char *note, struct err *e)
{
    struct stat st;
    struct frame f = {0};
    struct harm harm = {0};
    if (fstat(j->fd, &st)) return err_sys(e, "%s", j->path);
    uint64_t size = (uint64_t)st.st_size, at = 0, next;
    int rc = size ? read_frame(j, 0, size, &f, &j->manifest, e) : 0;
    if (rc < 0) return -1;
    if (!rc || f.type != 'm') {
        out_clear(&j->manifest);
        return size ? check_beginning(j, size, &f, e) : 0;
    }
    j->end = JOURNAL_HEADER + f.bytes;
    for (at = j->end; at < size; at = next) {
        rc = read_frame(j, at, size, &f, NULL, e);
        if (rc < 0) return -1;
        if (!rc) {
            if (mend(j, at, size, &next, &harm, e)) return -1;
            if (next < size) j->end = next;
            continue;
        }
        j->end = next = at + JOURNAL_HEADER + f.bytes;
        if (f.type == 'c') {
            out_clear(&j->completion);
            if (read_frame(j, at, size, &f, &j->completion, e) < 0) return -1;
        } else if (f.type == 'r' && f.slot < j->n_slots && !journal_has(j, f.slot)) {
            /* A slot beyond the input belongs to another input, which the manifest tells. */
            j->n_held++;
            j->n_errors += f.is_error != 0;
            j->slot[f.slot] = (struct slot){at, (uint32_t)f.bytes};
        }
    }
    describe(&harm, j->path, note);
    return 0;
}

int journal_open(struct journal **result, const char *path, uint64_t n_slots, char note[256],
                 struct err *e)
{
    struct journal *j = calloc(1, sizeof *j);
    note[0] = 0;
    if (!j) return err_memory(e);
    j->fd = -1;
    j->n_slots = n_slots;
    j->slot = calloc(n_slots + 1, sizeof *j->slot);
    int rc = 0;
    if (!j->slot || (path && !(j->path = strdup(path)))) rc = err_memory(e);
    if (!rc) rc = path ? open_locked(j, note, e) : open_temporary(j, e);
    if (!rc && path) rc = scan(j, note, e);
    if (rc) {
        if (j->fd >= 0) close(j->fd); /* not ours to remove */
        j->fd = -1;
        journal_close(j);
        return -1;
    }
    *result = j;
    return 0;
}

int journal_take_mode(struct journal *j, const char *answers, struct err *e)
{
    return j->path ? file_take_mode(j->fd, answers, e) : 0;
}

void journal_close(struct journal *j)
{
    if (!j) return;
    struct err ignored;
    struct stat st;
    if (j->fd >= 0 && j->path && !fstat(j->fd, &st) && st.st_nlink && !st.st_size)
        dur_remove(j->path, &ignored);
    if (j->fd >= 0) close(j->fd);
    free(j->slot);
    free(j->path);
    out_free(&j->manifest);
    out_free(&j->completion);
    out_free(&j->frame);
    free(j);
}

const char *journal_manifest(const struct journal *j, size_t *n)
{
    *n = j->manifest.n;
    return j->manifest.n ? j->manifest.p : NULL;
}

const char *journal_completion(const struct journal *j, size_t *n)
{
    *n = j->completion.n;
    return j->completion.n ? j->completion.p : NULL;
}

/* ---- writing */

static int make_frame(struct out *o, char type, uint64_t slot, int is_error, const char *payload,
                      size_t n, struct err *e)
{
    struct frame f = {.type = type, .is_error = (char)is_error, .slot = slot, .bytes = n};
    char text[JOURNAL_HEADER + 1];
    format_header(text, &f);
    f.crc = (uint32_t)crc32_z(header_crc(text), (const unsigned char *)payload, n);
    format_header(text, &f);
    out_bytes(o, text, JOURNAL_HEADER);
    out_bytes(o, payload, n);
    return out_failed(o) ? err_memory(e) : 0;
}

int journal_start(struct journal *j, const char *manifest, size_t n, struct err *e)
{
    CHECK(j->path);
    if (dur_truncate(j->fd, 0, j->path, e)) return -1;
    memset(j->slot, 0, (size_t)(j->n_slots + 1) * sizeof *j->slot);
    j->end = j->synced = j->n_held = j->n_errors = 0;
    out_clear(&j->manifest);
    out_clear(&j->completion);
    out_clear(&j->frame);
    out_bytes(&j->manifest, manifest, n);
    if (out_failed(&j->manifest)) return err_memory(e);
    if (make_frame(&j->frame, 'm', 0, 0, manifest, n, e) ||
        dur_write(j->fd, j->frame.p, j->frame.n, 0, j->path, e))
        return -1;
    j->end = j->synced = j->frame.n;
    return dur_sync(j->fd, j->path, e) || dur_sync_dir(j->path, e) ? -1 : 0;
}

int journal_has(const struct journal *j, uint64_t slot)
{
    return slot < j->n_slots && j->slot[slot].bytes;
}
uint64_t journal_count(const struct journal *j) { return j->n_held; }
uint64_t journal_errors(const struct journal *j) { return j->n_errors; }

int journal_add(struct journal *j, uint64_t slot, int is_error, const char *payload, size_t n,
                struct err *e)
{
    CHECK(slot < j->n_slots && n && !journal_has(j, slot));
    if (n > UINT32_MAX) return err_set(e, "an answer of %zu bytes is too long for the journal", n);
    out_clear(&j->frame);
    if (make_frame(&j->frame, 'r', slot, is_error, payload, n, e)) return -1;
    if (dur_write(j->fd, j->frame.p, j->frame.n, (int64_t)j->end,
                  j->path ? j->path : "temporary file", e))
        return -1;
    j->slot[slot] = (struct slot){j->end, (uint32_t)n};
    j->end += j->frame.n;
    j->n_held++;
    j->n_errors += is_error != 0;
    return 0;
}

int journal_sync(struct journal *j, double now, int force, struct err *e)
{
    if (!j->path || j->synced == j->end) return 0;
    if (!j->oldest) j->oldest = now;
    if (!force && now - j->oldest < JOURNAL_SYNC_SECONDS && j->end - j->synced < JOURNAL_SYNC_BYTES)
        return 0;
    if (dur_sync(j->fd, j->path, e)) return -1;
    j->synced = j->end;
    j->oldest = 0;
    return 0;
}

/* ---- reading back */

int journal_read(struct journal *j, uint64_t slot, struct out *o, struct err *e)
{
    CHECK(journal_has(j, slot));
    struct frame f;
    int rc = read_frame(j, j->slot[slot].offset, j->end, &f, o, e);
    if (rc == 0)
        return err_set(e, "%s: an answer in it changed on disk: remove it to start over",
                       j->path ? j->path : "temporary file");
    return rc < 0 ? -1 : 0;
}

int journal_walk(struct journal *j, uint64_t *offset, struct out *o, struct err *e)
{
    if (!*offset && j->path) *offset = JOURNAL_HEADER + j->manifest.n;
    for (; *offset < j->end;) {
        struct frame f;
        uint64_t at = *offset;
        size_t before = o->n;
        int rc = read_frame(j, at, j->end, &f, o, e);
        if (rc == 0)
            return err_set(e, "%s: an answer in it changed on disk: remove it to start over",
                           j->path ? j->path : "temporary file");
        if (rc < 0) return -1;
        *offset += JOURNAL_HEADER + f.bytes;
        if (f.type == 'r' && f.slot < j->n_slots && j->slot[f.slot].offset == at) return 1;
        o->n = before;
    }
    return 0;
}

int journal_complete(struct journal *j, const char *payload, size_t n, struct err *e)
{
    char *temp = NULL;
    int fd = -1, rc = 0;
    if (asprintf(&temp, "%s.tmp", j->path) < 0) return err_memory(e);
    out_clear(&j->frame);
    if (make_frame(&j->frame, 'm', 0, 0, j->manifest.p, j->manifest.n, e) ||
        make_frame(&j->frame, 'c', 0, 0, payload, n, e))
        rc = -1;
    if (!rc) rc = dur_create(&fd, temp, j->path, e);
    if (!rc) rc = dur_write(fd, j->frame.p, j->frame.n, 0, temp, e);
    if (!rc) rc = dur_sync(fd, temp, e);
    if (fd >= 0) close(fd);
    if (!rc) rc = dur_rename(temp, j->path, e);
    if (!rc) rc = dur_sync_dir(j->path, e);
    free(temp);
    return rc;
}
