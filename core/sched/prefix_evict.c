#include "core/sched/prefix_evict.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* "KEY-PARENT.page" and ".state": the first bytes of both keys in hexadecimal. */
enum { OWN = 16, PARENT = 8, STALE_SECONDS = 3600 };
static const char *const ending[PREFIX_KINDS] = {".page", ".state"};
static const char new_ending[] = ".new";

/* ---- names */

static char *put_hex(char *to, const uint8_t *p, int n)
{
    static const char digit[] = "0123456789abcdef";
    for (int i = 0; i < n; i++) {
        *to++ = digit[p[i] >> 4];
        *to++ = digit[p[i] & 15];
    }
    return to;
}

void prefix_name(char name[PREFIX_NAME], const struct prefix_item *item)
{
    char *to = put_hex(name, item->key.byte, OWN);
    *to++ = '-';
    to = put_hex(to, item->parent.byte, PARENT);
    strcpy(to, ending[item->kind]);
}

void prefix_new_name(char name[PREFIX_NAME], uint64_t random)
{
    snprintf(name, PREFIX_NAME, "%08x-%016llx%s", (unsigned)getpid(), (unsigned long long)random,
             new_ending);
}

/* Reads 2 n hexadecimal digits; NULL: there are others. */
static const char *take_hex(const char *from, uint8_t *p, int n)
{
    for (int i = 0; i < 2 * n; i++) {
        const char *digits = "0123456789abcdef", *at = from[i] ? strchr(digits, from[i]) : NULL;
        if (!at) return NULL;
        p[i / 2] = (uint8_t)(p[i / 2] << 4 | (at - digits));
    }
    return from + 2 * n;
}

uint64_t prefix_file_bytes(uint64_t bytes) { return (bytes + 4095) / 4096 * 4096; }

/* ---- a listing */

struct entry {
    uint8_t own[OWN], parent[PARENT];
    int kind;     /* PREFIX_KINDS: a file that is being written */
    int is_new;   /* not there yet */
    int before;   /* the page before it, or that states are behind; -1: none is listed */
    int64_t used; /* nanoseconds; later than that of every entry behind it */
    uint64_t bytes;
};

struct listing {
    struct entry *entry; /* [room] */
    size_t n, room;
    uint64_t bytes;
};

static int read_name(const char *name, struct entry *x)
{
    const char *at = take_hex(name, x->own, OWN);
    if (at && *at == '-' && (at = take_hex(at + 1, x->parent, PARENT)))
        for (x->kind = 0; x->kind < PREFIX_KINDS; x->kind++)
            if (!strcmp(at, ending[x->kind])) return 1;
    uint8_t process[4], random[8];
    at = take_hex(name, process, 4);
    x->kind = PREFIX_KINDS;
    return at && *at == '-' && (at = take_hex(at + 1, random, 8)) && !strcmp(at, new_ending);
}

static int keep(struct listing *l, const struct entry *x, struct err *e)
{
    l->bytes += x->bytes;
    if (x->kind == PREFIX_KINDS) return 0; /* counted, and nothing to remove */
    if (l->n == l->room) {
        size_t room = l->room ? 2 * l->room : 1024;
        struct entry *more = realloc(l->entry, room * sizeof *more);
        if (!more) return err_memory(e);
        l->entry = more;
        l->room = room;
    }
    l->entry[l->n++] = *x;
    return 0;
}

static int take_file(struct listing *l, int dir_fd, const char *name, time_t now, struct err *e)
{
    struct entry x = {.before = -1};
    struct stat st;
    if (!read_name(name, &x) || fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) ||
        !S_ISREG(st.st_mode))
        return 0;
    if (x.kind == PREFIX_KINDS && st.st_mtim.tv_sec < now - STALE_SECONDS &&
        !unlinkat(dir_fd, name, 0))
        return 0;
    x.used = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    x.bytes = prefix_file_bytes((uint64_t)st.st_size);
    return keep(l, &x, e);
}

static int list(int dir_fd, struct listing *l, struct err *e)
{
    *l = (struct listing){0};
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        err_sys(e, "cannot be listed");
        if (fd >= 0) close(fd);
        return -1;
    }
    time_t now = time(NULL);
    int rc = 0;
    for (struct dirent *f; !rc && (f = readdir(d));) rc = take_file(l, dir_fd, f->d_name, now, e);
    closedir(d);
    if (rc) free(l->entry);
    return rc;
}

int prefix_measure(int dir_fd, uint64_t *bytes, struct err *e)
{
    struct listing l;
    if (list(dir_fd, &l, e)) return -1;
    *bytes = l.bytes;
    free(l.entry);
    return 0;
}

/* ---- what goes first */

/* Pages by their own keys; states stand behind all of them. */
static int by_own(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->kind != y->kind) return x->kind - y->kind;
    return memcmp(x->own, y->own, OWN);
}

/* The page whose key begins with these N bytes; -1: none. */
static int find_page(const struct listing *l, const uint8_t *key, size_t n)
{
    size_t low = 0, high = l->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const struct entry *x = &l->entry[mid];
        if (x->kind == PREFIX_PAGE && memcmp(x->own, key, n) < 0) low = mid + 1;
        else high = mid;
    }
    return low < l->n && l->entry[low].kind == PREFIX_PAGE && !memcmp(l->entry[low].own, key, n)
               ? (int)low
               : -1;
}

struct order {
    int64_t used;
    int entry;
};

static int latest_first(const void *a, const void *b)
{
    int64_t x = ((const struct order *)a)->used, y = ((const struct order *)b)->used;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* A page was used later than all that is behind it. From the latest on, so that hardly any page is
 * visited twice; N steps at most end a circle, which only made-up names have. */
static void use_before(struct listing *l, const struct order *order)
{
    for (size_t i = 0; i < l->n; i++) {
        int at = order[i].entry;
        for (size_t step = 0; step < l->n; step++) {
            const struct entry *x = &l->entry[at];
            if (x->before < 0 || l->entry[x->before].used > x->used) break;
            l->entry[x->before].used = x->used + 1;
            at = x->before;
        }
    }
}

static void set_order(const struct listing *l, struct order *order)
{
    for (size_t i = 0; i < l->n; i++) order[i] = (struct order){l->entry[i].used, (int)i};
    qsort(order, l->n, sizeof *order, latest_first);
}

static void remove_file(int dir_fd, struct listing *l, const struct entry *x, uint64_t *n_evicted)
{
    struct prefix_item item = {.kind = (enum prefix_kind)x->kind};
    char name[PREFIX_NAME];
    memcpy(item.key.byte, x->own, OWN);
    memcpy(item.parent.byte, x->parent, PARENT);
    prefix_name(name, &item);
    int rc = unlinkat(dir_fd, name, 0);
    if (rc && errno != ENOENT) return; /* ENOENT: another process was faster */
    l->bytes -= x->bytes;
    *n_evicted += !rc;
}

/* It is used after all that is there. */
static int list_newcomer(struct listing *l, const struct prefix_item *item, struct err *e)
{
    struct entry x = {.kind = (int)item->kind, .is_new = 1};
    memcpy(x.own, item->key.byte, OWN);
    memcpy(x.parent, item->parent.byte, PARENT);
    for (size_t i = 0; i < l->n; i++)
        if (l->entry[i].used >= x.used) x.used = l->entry[i].used + 1;
    return keep(l, &x, e);
}

static void find_before(struct listing *l)
{
    if (l->n) qsort(l->entry, l->n, sizeof *l->entry, by_own);
    for (size_t i = 0; i < l->n; i++) {
        struct entry *x = &l->entry[i];
        x->before = x->kind == PREFIX_STATE ? find_page(l, x->own, OWN)
                                            : find_page(l, x->parent, PARENT);
    }
}

/* ORDER [l->n] is room for it. 1: what is left stands in front of the newcomer. */
static int make_room(int dir_fd, uint64_t most, struct listing *l, struct order *order,
                     uint64_t *n_evicted)
{
    find_before(l);
    set_order(l, order);
    use_before(l, order);
    set_order(l, order);
    for (size_t i = l->n; i-- && l->bytes > most;) {
        const struct entry *x = &l->entry[order[i].entry];
        if (x->is_new) return 1;
        remove_file(dir_fd, l, x, n_evicted);
    }
    return 0;
}

int prefix_evict(int dir_fd, uint64_t most, const struct prefix_item *newcomer, uint64_t *bytes,
                 uint64_t *n_evicted, struct err *e)
{
    struct listing l;
    struct order *order = NULL;
    int rc = list(dir_fd, &l, e);
    if (rc) return rc;
    if (newcomer) rc = list_newcomer(&l, newcomer, e);
    if (!rc && !(order = malloc((l.n + 1) * sizeof *order))) rc = err_memory(e);
    if (!rc && l.bytes > most) rc = make_room(dir_fd, most, &l, order, n_evicted);
    *bytes = l.bytes;
    free(order);
    free(l.entry);
    return rc;
}
