#include "core/sched/prefix_store.h"

#include "core/sched/prefix_evict.h"
#include "core/base/printable.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

/* A change of the file's form changes the version. */
enum { VERSION = 1, LOOKS = 16 };

/* The bytes of a file in front of its contents. */
struct header {
    char magic[8];
    uint32_t version, kind;
    uint64_t n_bytes; /* of the contents */
    struct prefix_key root, key, parent;
    int32_t token[KV_PAGE];
    uint32_t contents_crc, header_crc; /* the latter of all in front of it */
};
_Static_assert(sizeof(struct header) == 192, "no padding");

static const char magic[8] = {'o', '4', 'p', 'r', 'e', 'f', 'i', 'x'};

struct prefix_store {
    struct prefix_store_options o;
    char *dir;
    int fd;
    struct prefix_key root;
    int said_damage, said_failure; /* the caller's thread's */
    /* the writer's */
    pthread_t thread;
    uint64_t known_bytes, since_look; /* of all files; written since it looked at the directory */
    int has_looked;
    uint64_t random;
    /* what both threads use */
    pthread_mutex_t lock;
    pthread_cond_t asked, done; /* a job or the end; a job is done */
    struct prefix_job *first, **last;
    int n_jobs; /* in the list and with the writer */
    int ends, fails;
    struct err failure; /* while `fails` */
    struct prefix_store_stats stats;
};

/* ---- keys */

struct prefix_item prefix_item_of(const struct prefix_item *parent, const int32_t *token)
{
    struct prefix_item item = {
        .kind = PREFIX_PAGE, .parent = parent->key, .before = parent->parent};
    SHA2_CTX h;
    memcpy(item.token, token, sizeof item.token);
    SHA256Init(&h);
    SHA256Update(&h, parent->key.byte, sizeof parent->key.byte);
    SHA256Update(&h, (const uint8_t *)item.token, sizeof item.token);
    SHA256Final(item.key.byte, &h);
    return item;
}

static struct prefix_key root_of(const struct prefix_store_options *o)
{
    struct prefix_key key;
    SHA2_CTX h;
    char form[96];
    int n = snprintf(form, sizeof form, "opt4gptq prefix %d; page %zu, states %zu bytes; ", VERSION,
                     o->bytes[PREFIX_PAGE], o->bytes[PREFIX_STATE]);
    SHA256Init(&h);
    SHA256Update(&h, (const uint8_t *)form, (size_t)n);
    SHA256Update(&h, (const uint8_t *)o->depends, strlen(o->depends));
    SHA256Final(key.byte, &h);
    return key;
}

struct prefix_item prefix_store_root(const struct prefix_store *s)
{
    return (struct prefix_item){.key = s->root};
}

/* ---- notes */

__attribute__((format(printf, 2, 3))) static void note(const struct prefix_store *s,
                                                       const char *fmt, ...)
{
    char line[1024], name[PRINTABLE], text[640];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    snprintf(line, sizeof line, "note: --prefix-cache-dir %s: %s", printable_text(s->dir, name),
             text);
    if (s->o.note) s->o.note(s->o.note_arg, line);
}

/* Says once why nothing is written any more. */
static void say_failure(struct prefix_store *s)
{
    char why[sizeof s->failure.msg];
    pthread_mutex_lock(&s->lock);
    int say = s->fails && !s->said_failure;
    memcpy(why, s->failure.msg, sizeof why);
    pthread_mutex_unlock(&s->lock);
    if (!say) return;
    s->said_failure = 1;
    note(s, "%s: no more prompts are kept there, the run goes on", why);
}

/* The file is not what it should be: gone, so that it is written again, and said once. One that
 * this user may not read stays. */
static void drop_damaged(struct prefix_store *s, const char *name, const char *why)
{
    int ignored = errno == EACCES ? 0 : unlinkat(s->fd, name, 0);
    (void)ignored;
    pthread_mutex_lock(&s->lock);
    s->stats.n_damaged++;
    pthread_mutex_unlock(&s->lock);
    if (!s->said_damage)
        note(s, "%s %s: what files like this one held is computed again", name, why);
    s->said_damage = 1;
}

/* ---- reading */

static uint32_t crc_of(const void *p, size_t n)
{
    return (uint32_t)crc32_z(0, (const unsigned char *)p, n);
}

static uint32_t header_crc(const struct header *h)
{
    return crc_of(h, offsetof(struct header, header_crc));
}

static struct header header_of(const struct prefix_store *s, const struct prefix_item *item)
{
    struct header h = {.version = VERSION,
                       .kind = (uint32_t)item->kind,
                       .n_bytes = s->o.bytes[item->kind],
                       .root = s->root,
                       .key = item->key,
                       .parent = item->parent};
    memcpy(h.magic, magic, sizeof magic);
    memcpy(h.token, item->token, sizeof h.token);
    return h;
}

/* 0: all N bytes; 1: the file ends before; -1: errno. */
static int read_all(int fd, void *to, size_t n)
{
    for (char *at = to; n;) {
        ssize_t got = read(fd, at, n);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return got ? -1 : 1;
        at += got;
        n -= (size_t)got;
    }
    return 0;
}

/* NULL: `to` has the contents; else what is wrong with the file. */
static const char *read_file(const struct prefix_store *s, int fd, const struct prefix_item *item,
                             void *to)
{
    struct header h, want = header_of(s, item);
    struct stat st;
    size_t n = s->o.bytes[item->kind];
    if (fstat(fd, &st)) return "cannot be read";
    if (!S_ISREG(st.st_mode)) return "is no file";
    if ((uint64_t)st.st_size != sizeof h + n) return "has another length than it should have";
    int rc = read_all(fd, &h, sizeof h);
    if (rc) return rc < 0 ? "cannot be read" : "is cut off";
    if (h.header_crc != header_crc(&h)) return "is damaged";
    want.contents_crc = h.contents_crc;
    want.header_crc = h.header_crc;
    if (memcmp(&h, &want, sizeof h)) return "is of another model, prompt or arithmetic";
    rc = read_all(fd, to, n);
    if (rc) return rc < 0 ? "cannot be read" : "is cut off";
    return crc_of(to, n) == h.contents_crc ? NULL : "is damaged";
}

int prefix_store_has(const struct prefix_store *s, const struct prefix_item *item)
{
    char name[PREFIX_NAME];
    prefix_name(name, item);
    return !faccessat(s->fd, name, R_OK, AT_EACCESS);
}

int prefix_store_read(struct prefix_store *s, const struct prefix_item *item, void *to)
{
    char name[PREFIX_NAME];
    say_failure(s);
    prefix_name(name, item);
    int fd = openat(s->fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0 && (errno == ENOENT || errno == EMFILE || errno == ENFILE)) return 0;
    const char *wrong = "cannot be opened";
    if (fd >= 0) {
        wrong = read_file(s, fd, item, to);
        close(fd);
        errno = 0;
    }
    if (wrong) {
        drop_damaged(s, name, wrong);
        return 0;
    }
    pthread_mutex_lock(&s->lock);
    s->stats.n_read++;
    pthread_mutex_unlock(&s->lock);
    return 1;
}

/* Without the right to it, the file keeps its time. */
static void touch(const struct prefix_store *s, const char *name)
{
    int ignored = utimensat(s->fd, name, NULL, AT_SYMLINK_NOFOLLOW);
    (void)ignored;
}

void prefix_store_touch(struct prefix_store *s, const struct prefix_item *item)
{
    char name[PREFIX_NAME];
    prefix_name(name, item);
    touch(s, name);
}

/* ---- writing, on a thread of its own */

static int write_all(int fd, struct iovec *v, int n)
{
    while (n) {
        ssize_t w = writev(fd, v, n);
        if (w < 0 && errno == EINTR) continue;
        if (w < 0) return -1;
        for (; n && (size_t)w >= v->iov_len; v++, n--) w -= (ssize_t)v->iov_len;
        if (n) {
            v->iov_base = (char *)v->iov_base + w;
            v->iov_len -= (size_t)w;
        }
    }
    return 0;
}

/* The page that it is behind is not there: nobody would find it. */
static int is_alone(const struct prefix_store *s, const struct prefix_item *item)
{
    struct prefix_item parent = {.key = item->parent, .parent = item->before};
    char name[PREFIX_NAME];
    if (item->kind == PREFIX_STATE)
        parent = (struct prefix_item){.key = item->key, .parent = item->parent};
    else if (!memcmp(&item->parent, &s->root, sizeof s->root)) return 0;
    prefix_name(name, &parent);
    return faccessat(s->fd, name, F_OK, AT_SYMLINK_NOFOLLOW) != 0;
}

/* Makes room for a file of so many bytes. 1: there is none, but that of the pages before it. */
static int make_room(struct prefix_store *s, const struct prefix_item *item, uint64_t bytes,
                     struct err *e)
{
    uint64_t most = s->o.most_bytes, n_evicted = 0;
    if (!s->has_looked || s->since_look > most / LOOKS) {
        if (prefix_measure(s->fd, &s->known_bytes, e)) return -1;
        s->has_looked = 1;
        s->since_look = 0;
    }
    if (s->known_bytes + bytes <= most) return 0;
    /* further than needed, so that not every file asks for a listing */
    uint64_t aim = most - most / LOOKS;
    int rc = prefix_evict(s->fd, aim > bytes ? aim - bytes : 0, item, &s->known_bytes, &n_evicted,
                          e);
    if (rc < 0) return -1;
    pthread_mutex_lock(&s->lock);
    s->stats.n_evicted += n_evicted;
    pthread_mutex_unlock(&s->lock);
    if (s->known_bytes + bytes <= most) return 0;
    return rc ? 1 : err_set(e, "is full, and files in it cannot be removed");
}

static int write_new(const struct prefix_store *s, const char *name, const struct header *h,
                     const struct prefix_job *job, struct err *e)
{
    struct iovec v[] = {{(void *)(uintptr_t)h, sizeof *h},
                        {(void *)(uintptr_t)job->data, (size_t)h->n_bytes}};
    int fd = openat(s->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0) return err_sys(e, "cannot be written to");
    int rc = write_all(fd, v, 2) ? err_sys(e, "cannot be written to") : 0;
    if (close(fd) && !rc) rc = err_sys(e, "cannot be written to");
    return rc;
}

/* The file goes on with these bytes. */
static int goes_on_with(int fd, const void *bytes, size_t n)
{
    char part[4096];
    for (const char *at = bytes; n;) {
        size_t take = n < sizeof part ? n : sizeof part;
        if (read_all(fd, part, take) || memcmp(part, at, take) != 0) return 0;
        at += take;
        n -= take;
    }
    return 1;
}

enum { THERE, SPOILED, MISSING };

/* What has the name: the file that would be written, or one that this user may not read (THERE),
 * anything else (SPOILED), nothing (MISSING). */
static int find(const struct prefix_store *s, const char *name, const struct header *h,
                const void *data)
{
    struct stat st;
    int fd = openat(s->fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? MISSING : errno == ELOOP || errno == ENXIO ? SPOILED : THERE;
    int same = !fstat(fd, &st) && S_ISREG(st.st_mode) &&
               (uint64_t)st.st_size == sizeof *h + h->n_bytes && goes_on_with(fd, h, sizeof *h) &&
               goes_on_with(fd, data, (size_t)h->n_bytes);
    close(fd);
    return same ? THERE : SPOILED;
}

/* 1: written; 0: it is there already, what has its name cannot be replaced, or there is no room but
 * that of what stands in front of it. */
static int write_job(struct prefix_store *s, const struct prefix_job *job, struct err *e)
{
    char name[PREFIX_NAME], new_name[PREFIX_NAME];
    uint64_t bytes = prefix_file_bytes(sizeof(struct header) + s->o.bytes[job->item.kind]);
    struct header h = header_of(s, &job->item);
    h.contents_crc = crc_of(job->data, (size_t)h.n_bytes);
    h.header_crc = header_crc(&h);
    prefix_name(name, &job->item);
    int there = find(s, name, &h, job->data);
    if (there == THERE) {
        touch(s, name);
        return 0;
    }
    int no_room = is_alone(s, &job->item) ? 1 : make_room(s, &job->item, bytes, e);
    if (no_room) return no_room < 0 ? -1 : 0;
    prefix_new_name(new_name, s->random++);
    int rc = write_new(s, new_name, &h, job, e);
    int lost = rc || renameat(s->fd, new_name, s->fd, name);
    if (lost && !rc && there == MISSING) rc = err_sys(e, "cannot be written to");
    if (lost) {
        int ignored = unlinkat(s->fd, new_name, 0);
        (void)ignored;
        return rc;
    }
    s->known_bytes += bytes;
    s->since_look += bytes;
    return 1;
}

/* After a failure the jobs that are left are given back as they are. */
static void *write_jobs(void *arg)
{
    struct prefix_store *s = arg;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (!s->first && !s->ends) pthread_cond_wait(&s->asked, &s->lock);
        struct prefix_job *job = s->first;
        if (!job) break;
        if (!(s->first = job->next)) s->last = &s->first;
        int rc = -1, fails = s->fails;
        struct err e = {0};
        pthread_mutex_unlock(&s->lock);
        if (!fails) rc = write_job(s, job, &e);
        pthread_mutex_lock(&s->lock);
        if (!fails && rc < 0) {
            s->fails = 1;
            s->failure = e;
        }
        s->stats.n_written += rc > 0;
        s->n_jobs--;
        atomic_store(&job->busy, 0);
        pthread_cond_signal(&s->done);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

int prefix_store_put(struct prefix_store *s, struct prefix_job *job)
{
    say_failure(s);
    if (s->said_failure) return 0;
    atomic_store(&job->busy, 1);
    job->next = NULL;
    pthread_mutex_lock(&s->lock);
    *s->last = job;
    s->last = &job->next;
    s->n_jobs++;
    pthread_cond_signal(&s->asked);
    pthread_mutex_unlock(&s->lock);
    return 1;
}

void prefix_store_wait(struct prefix_store *s)
{
    pthread_mutex_lock(&s->lock);
    if (s->n_jobs) pthread_cond_wait(&s->done, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

struct prefix_store_stats prefix_store_stats(struct prefix_store *s)
{
    pthread_mutex_lock(&s->lock);
    struct prefix_store_stats stats = s->stats;
    pthread_mutex_unlock(&s->lock);
    return stats;
}

/* ---- opening */

static int open_dir(struct prefix_store *s, struct err *e)
{
    int made = mkdir(s->dir, 0777) ? errno : 0;
    s->fd = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->fd >= 0) return 0;
    if (made && made != EEXIST) errno = made;
    return err_sys(e,
                   made && made != EEXIST ? "--prefix-cache-dir %s: cannot be made"
                                          : "--prefix-cache-dir %s",
                   s->dir);
}

static int check_size(const struct prefix_store_options *o, struct err *e)
{
    for (int k = 0; k < PREFIX_KINDS; k++) {
        uint64_t bytes = prefix_file_bytes(sizeof(struct header) + o->bytes[k]);
        if (bytes > o->most_bytes)
            return err_set(e,
                           "--prefix-cache-size: %llu bytes do not hold one %s of this model (%llu "
                           "bytes)",
                           (unsigned long long)o->most_bytes,
                           k == PREFIX_PAGE ? "page of keys and values" : "copy of the states",
                           (unsigned long long)bytes);
    }
    return 0;
}

/* Signals are the main thread's. */
static int start_writer(struct prefix_store *s, struct err *e)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&s->thread, NULL, write_jobs, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc ? err_set(e, "cannot start a thread: %s", strerror(rc)) : 0;
}

static void free_store(struct prefix_store *s)
{
    if (s->fd >= 0) close(s->fd);
    free(s->dir);
    free(s);
}

int prefix_store_open(struct prefix_store **out, const struct prefix_store_options *o,
                      struct err *e)
{
    struct prefix_store *s = calloc(1, sizeof *s);
    struct timespec now;
    if (!s || !(s->dir = strdup(o->dir))) {
        free(s);
        return err_memory(e);
    }
    s->o = *o;
    s->fd = -1;
    s->root = root_of(o);
    s->last = &s->first;
    clock_gettime(CLOCK_REALTIME, &now);
    s->random = ((uint64_t)now.tv_sec << 30 ^ (uint64_t)now.tv_nsec) * 0x9e3779b97f4a7c15u;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->asked, NULL);
    pthread_cond_init(&s->done, NULL);
    if (check_size(o, e) || open_dir(s, e) || start_writer(s, e)) {
        free_store(s);
        return -1;
    }
    *out = s;
    return 0;
}

/* What an earlier run left may be more than this one wants. */
static void trim(struct prefix_store *s)
{
    struct err ignored;
    uint64_t bytes;
    if (!prefix_measure(s->fd, &bytes, &ignored) && bytes > s->o.most_bytes)
        (void)prefix_evict(s->fd, s->o.most_bytes, NULL, &bytes, &s->stats.n_evicted, &ignored);
}

void prefix_store_close(struct prefix_store *s)
{
    if (!s) return;
    pthread_mutex_lock(&s->lock);
    s->ends = 1;
    pthread_cond_signal(&s->asked);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    if (s->o.trims && !s->has_looked) trim(s);
    say_failure(s);
    free_store(s);
}
