/* unit_prefix_store.c: the files of prompts: what comes back, what does not: every cut, every
 * flipped bit, files of other models and prompts; two processes in one directory; what is removed
 * first; a disk that is full, a directory that cannot be written or is gone. System calls that
 * write are this file's own and fail when asked to. */
#include "core/sched/prefix_evict.h"
#include "core/sched/prefix_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { PAGE = 700, STATES = 90, CHAIN = 6 };

/* ---- system calls that fail */

static atomic_int writes_left = -1;  /* bytes that the disk still takes; -1: any */
static atomic_int renames_left = -1; /* then a rename fails */

ssize_t writev(int fd, const struct iovec *v, int n)
{
    int left = atomic_load(&writes_left), take = left;
    if (left < 0) return syscall(SYS_writev, fd, v, n);
    if (!left) {
        errno = ENOSPC;
        return -1;
    }
    if ((size_t)take > v->iov_len) take = (int)v->iov_len;
    atomic_store(&writes_left, left - take);
    return write(fd, v->iov_base, (size_t)take);
}

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    if (!atomic_load(&renames_left)) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, 0);
}

/* ---- a directory and what is put there */

static char dir[64], said[2048];
static int n_said;

static void hear(void *arg, const char *line)
{
    (void)arg;
    n_said++;
    snprintf(said, sizeof said, "%s", line);
}

static int make_dir(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/opt4gptq-store-XXXXXX");
    n_said = 0;
    said[0] = 0;
    atomic_store(&writes_left, -1);
    atomic_store(&renames_left, -1);
    return !mkdtemp(dir);
}

static int remove_dir(void **state)
{
    (void)state;
    char command[200];
    snprintf(command, sizeof command, "chmod -Rf u+w %s; rm -rf %s", dir, dir);
    return system(command) ? -1 : 0;
}

static struct prefix_store_options options(const char *depends)
{
    return (struct prefix_store_options){.dir = dir,
                                         .most_bytes = 1 << 30,
                                         .depends = depends,
                                         .bytes = {PAGE, STATES},
                                         .note = hear};
}

static struct prefix_store *open_store(const char *depends)
{
    struct prefix_store *s;
    struct err e;
    struct prefix_store_options o = options(depends);
    if (prefix_store_open(&s, &o, &e)) fail_msg("%s", e.msg);
    return s;
}

/* Pages and states of other sizes are other prompts, whatever else is the same. */
static void sizes_are_part_of_the_name(void **state)
{
    struct prefix_item root[4];
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct prefix_store *s;
        struct err e;
        struct prefix_store_options o = options(i == 3 ? "b" : "a");
        o.bytes[PREFIX_PAGE] += i == 1 ? 64 : 0;
        o.bytes[PREFIX_STATE] += i == 2 ? 64 : 0;
        if (prefix_store_open(&s, &o, &e)) fail_msg("%s", e.msg);
        root[i] = prefix_store_root(s);
        prefix_store_close(s);
        for (int k = 0; k < i; k++) assert_memory_not_equal(&root[k], &root[i], sizeof *root);
    }
}

/* The first n pages of a prompt, and the contents that they have. */
static void make_chain(const struct prefix_store *s, int seed, struct prefix_item *item, int n)
{
    struct prefix_item before = prefix_store_root(s);
    for (int i = 0; i < n; i++) {
        int32_t token[KV_PAGE];
        for (int k = 0; k < KV_PAGE; k++) token[k] = seed + i * 31 + k * k;
        before = item[i] = prefix_item_of(&before, token);
    }
}

static void fill(const struct prefix_item *item, unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) p[i] = (unsigned char)(item->key.byte[i % 32] + i * 7);
}

static void put(struct prefix_store *s, const struct prefix_item *item)
{
    static unsigned char data[PAGE];
    struct prefix_job job = {.item = *item, .data = data};
    fill(item, data, item->kind == PREFIX_PAGE ? PAGE : STATES);
    if (!prefix_store_put(s, &job)) return;
    while (atomic_load(&job.busy)) prefix_store_wait(s);
}

/* 1: it is there, with the right contents; other contents fail. */
static int get(struct prefix_store *s, const struct prefix_item *item)
{
    unsigned char want[PAGE], got[PAGE + 16];
    size_t n = item->kind == PREFIX_PAGE ? PAGE : STATES;
    memset(got, 0xa5, sizeof got);
    fill(item, want, n);
    if (!prefix_store_read(s, item, got)) return 0;
    assert_memory_equal(got, want, n);
    for (int i = 0; i < 16; i++) assert_int_equal(got[n + (size_t)i], 0xa5);
    return 1;
}

static char *path_of(const struct prefix_item *item)
{
    static char path[200];
    char name[PREFIX_NAME];
    prefix_name(name, item);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static int count_files(void)
{
    int n = 0;
    DIR *d = opendir(dir);
    for (struct dirent *f; d && (f = readdir(d));) n += f->d_name[0] != '.';
    if (d) closedir(d);
    return n;
}

static size_t read_whole(const char *path, unsigned char *p, size_t room)
{
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(p, 1, room, f) : 0;
    if (f) fclose(f);
    return n;
}

static void write_whole(const char *path, const unsigned char *p, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    fclose(f);
}

/* ---- tests */

static void what_is_put_comes_back(void **state)
{
    (void)state;
    struct prefix_store *s = open_store("a");
    struct prefix_item item[CHAIN], other[CHAIN], states;
    make_chain(s, 1, item, CHAIN);
    make_chain(s, 2, other, CHAIN);
    for (int i = 0; i < CHAIN; i++) assert_false(get(s, &item[i]));
    for (int i = 0; i < CHAIN; i++) put(s, &item[i]);
    states = item[CHAIN - 1];
    states.kind = PREFIX_STATE;
    assert_false(prefix_store_has(s, &states));
    put(s, &states);
    put(s, &states); /* is there */
    assert_int_equal(prefix_store_stats(s).n_written, CHAIN + 1);
    prefix_store_close(s);
    s = open_store("a");
    for (int i = 0; i < CHAIN; i++) {
        assert_true(prefix_store_has(s, &item[i]) && get(s, &item[i]));
        assert_false(prefix_store_has(s, &other[i]) || get(s, &other[i]));
    }
    assert_true(get(s, &states));
    prefix_store_close(s);
    s = open_store("b"); /* another model: these are not its keys */
    make_chain(s, 1, item, CHAIN);
    for (int i = 0; i < CHAIN; i++) assert_false(get(s, &item[i]));
    prefix_store_close(s);
    assert_int_equal(n_said, 0);
    assert_int_equal(count_files(), CHAIN + 1);
}

/* Every bit flipped, every length. */
static void damage_is_noticed(void **state)
{
    (void)state;
    struct prefix_store *s = open_store("a");
    struct prefix_item item[2];
    unsigned char whole[PAGE + 300], bad[PAGE + 301];
    make_chain(s, 1, item, 2);
    put(s, &item[0]);
    size_t n = read_whole(path_of(&item[0]), whole, sizeof whole);
    assert_int_equal(n, PAGE + 192);
    uint64_t n_damaged = 0;
    for (size_t bit = 0; bit < 8 * n; bit++) {
        memcpy(bad, whole, n);
        bad[bit / 8] ^= (unsigned char)(1 << bit % 8);
        write_whole(path_of(&item[0]), bad, n);
        if (get(s, &item[0])) fail_msg("bit %zu", bit);
        n_damaged++;
        assert_int_not_equal(access(path_of(&item[0]), F_OK), 0); /* it is gone */
    }
    for (size_t k = 0; k <= n + 1; k++) {
        if (k == n) continue;
        memcpy(bad, whole, n);
        bad[n] = 0;
        write_whole(path_of(&item[0]), bad, k);
        if (get(s, &item[0])) fail_msg("%zu bytes", k);
        n_damaged++;
    }
    for (size_t k = 0; k < n; k += 13) { /* as a loss of power leaves it: zeros from some byte on */
        memcpy(bad, whole, n);
        memset(bad + k, 0, n - k);
        write_whole(path_of(&item[0]), bad, n);
        if (get(s, &item[0])) fail_msg("zeros from %zu", k);
        n_damaged++;
    }
    assert_int_equal(prefix_store_stats(s).n_damaged, n_damaged);
    assert_int_equal(n_said, 1); /* once, not for each file */
    assert_non_null(strstr(said, "computed again"));
    put(s, &item[0]);
    assert_true(get(s, &item[0]));
    prefix_store_close(s);
}

/* Nobody reads the pages behind a damaged one: they are mended as they are computed again. What is
 * sound stays the file that it is. */
static void what_is_written_again_is_mended(void **state)
{
    (void)state;
    struct prefix_item item[CHAIN];
    struct prefix_store *s = open_store("a");
    struct stat was, is;
    unsigned char bad[PAGE + 300];
    make_chain(s, 1, item, CHAIN);
    for (int i = 0; i < CHAIN; i++) put(s, &item[i]);
    for (int i = 1; i < CHAIN; i++) { /* header, contents, their ends, and the length */
        size_t n = read_whole(path_of(&item[i]), bad, sizeof bad);
        const size_t at[CHAIN] = {0, 0, 191, 192, n - 1, 0};
        bad[at[i]] ^= 1;
        write_whole(path_of(&item[i]), bad, i == CHAIN - 1 ? 0 : n);
    }
    assert_int_equal(stat(path_of(&item[0]), &was), 0);
    for (int i = 0; i < CHAIN; i++) put(s, &item[i]);
    assert_int_equal(stat(path_of(&item[0]), &is), 0);
    assert_int_equal(was.st_ino, is.st_ino);
    for (int i = 0; i < CHAIN; i++) assert_true(get(s, &item[i]));
    assert_int_equal(prefix_store_stats(s).n_written, 2 * CHAIN - 1);
    assert_int_equal(prefix_store_stats(s).n_damaged, 0);
    assert_int_equal(unlink(path_of(&item[1])), 0);
    assert_int_equal(mkfifo(path_of(&item[1]), 0644), 0);
    assert_int_equal(unlink(path_of(&item[2])), 0);
    assert_int_equal(symlink("/dev/zero", path_of(&item[2])), 0);
    assert_int_equal(unlink(path_of(&item[3])), 0);
    assert_int_equal(mkdir(path_of(&item[3]), 0755), 0); /* no file takes its place */
    for (int i = 0; i < CHAIN; i++) put(s, &item[i]);
    for (int i = 0; i < CHAIN; i++)
        if (i != 3) assert_true(get(s, &item[i]));
    assert_int_equal(n_said, 0);
    assert_int_equal(count_files(), CHAIN);
    prefix_store_close(s);
}

/* Files of the right name with sound contents of something else. */
static void foreign_files_are_not_taken(void **state)
{
    (void)state;
    struct prefix_store *a = open_store("a"), *b = open_store("b");
    struct prefix_item one[2], two[2], of_b[2], states;
    unsigned char whole[PAGE + 300];
    make_chain(a, 1, one, 2);
    make_chain(a, 2, two, 2);
    make_chain(b, 1, of_b, 2);
    states = one[0];
    states.kind = PREFIX_STATE;
    put(a, &one[0]), put(a, &one[1]), put(a, &two[0]), put(a, &two[1]), put(b, &of_b[0]);
    put(a, &states);
    const struct prefix_item *from[] = {&two[0], &one[1], &of_b[0], &states};
    for (size_t i = 0; i < sizeof from / sizeof *from; i++) {
        size_t n = read_whole(path_of(from[i]), whole, sizeof whole);
        write_whole(path_of(&one[0]), whole, n);
        assert_false(get(a, &one[0]));
        assert_true(i == 3 || strstr(said, "of another model, prompt or arithmetic"));
        put(a, &one[0]);
        assert_true(get(a, &one[0]));
    }
    assert_int_equal(n_said, 1);
    prefix_store_close(a);
    prefix_store_close(b);
}

/* What is no file: nothing hangs, nothing is an error. */
static void names_of_other_things(void **state)
{
    (void)state;
    struct prefix_item item[3];
    struct prefix_store *s = open_store("a");
    make_chain(s, 1, item, 3);
    assert_int_equal(mkdir(path_of(&item[0]), 0755), 0);
    assert_int_equal(mkfifo(path_of(&item[1]), 0644), 0);
    assert_int_equal(symlink("/dev/zero", path_of(&item[2])), 0);
    for (int i = 0; i < 3; i++) assert_false(get(s, &item[i]));
    put(s, &item[1]), put(s, &item[2]);
    assert_true(get(s, &item[1]) && get(s, &item[2]));
    put(s, &item[0]); /* the name stays a directory's */
    assert_false(get(s, &item[0]));
    prefix_store_close(s);
    assert_int_equal(n_said, 1);
}

static uint64_t bytes_there(void)
{
    uint64_t bytes;
    struct err e;
    int fd = open(dir, O_RDONLY | O_DIRECTORY);
    assert_int_equal(prefix_measure(fd, &bytes, &e), 0);
    close(fd);
    return bytes;
}

static void set_age(const struct prefix_item *item, int seconds)
{
    struct timespec t[2];
    clock_gettime(CLOCK_REALTIME, &t[0]);
    t[0].tv_sec -= seconds;
    t[1] = t[0];
    assert_int_equal(utimensat(AT_FDCWD, path_of(item), t, 0), 0);
}

/* The bound holds; what was used last stays, and all that is in front of it. */
static void the_oldest_go_first(void **state)
{
    (void)state;
    enum { CHAINS = 8, MOST = CHAINS * CHAIN * 4096 };
    struct prefix_item item[CHAINS][CHAIN], more[CHAIN];
    struct prefix_store_options o = options("a");
    struct prefix_store *s;
    struct err e;
    o.most_bytes = MOST;
    assert_int_equal(prefix_store_open(&s, &o, &e), 0);
    for (int c = 0; c < CHAINS; c++) {
        make_chain(s, c * 1000, item[c], CHAIN);
        for (int i = 0; i < CHAIN; i++) put(s, &item[c][i]);
        /* the pages in front are older, as those of a long prompt are */
        for (int i = 0; i < CHAIN; i++) set_age(&item[c][i], 1000 * (CHAINS - c) - i);
    }
    assert_int_equal(bytes_there(), MOST);
    prefix_store_touch(s, &item[0][CHAIN - 1]); /* the oldest is used again: all of it */
    make_chain(s, 99, more, CHAIN);
    for (int i = 0; i < CHAIN; i++) {
        put(s, &more[i]);
        assert_true(bytes_there() <= MOST);
    }
    for (int i = 0; i < CHAIN; i++) assert_true(get(s, &item[0][i]) && get(s, &more[i]));
    for (int i = 0; i < CHAIN; i++) assert_true(get(s, &item[CHAINS - 1][i]));
    int left = 0; /* what is left of the oldest is its beginning */
    while (left < CHAIN && get(s, &item[1][left])) left++;
    assert_true(left < CHAIN);
    for (int i = left; i < CHAIN; i++) assert_false(get(s, &item[1][i]));
    assert_true(prefix_store_stats(s).n_evicted >= CHAIN);
    for (int c = 100; c < 130; c++) { /* many more than fit */
        make_chain(s, c * 1000, more, CHAIN);
        for (int i = 0; i < CHAIN; i++) put(s, &more[i]);
        assert_true(bytes_there() <= MOST);
    }
    assert_true(get(s, &more[0]) && get(s, &more[CHAIN - 1]));
    prefix_store_close(s);
    o.most_bytes = MOST / 2;
    for (o.trims = 0; o.trims < 2; o.trims++) { /* a run that only reads */
        assert_int_equal(prefix_store_open(&s, &o, &e), 0);
        assert_true(get(s, &more[0]));
        prefix_store_close(s);
        assert_int_equal(bytes_there() <= MOST / 2, o.trims);
    }
    assert_int_equal(n_said, 0);
    o.most_bytes = 4095;
    assert_int_equal(prefix_store_open(&s, &o, &e), -1);
    assert_non_null(strstr(e.msg, "--prefix-cache-size"));
}

/* Of a prompt that is longer than the bound its beginning stays, run after run, whatever is behind
 * it; another prompt takes its place from the end on. */
static void a_long_prompt_keeps_its_beginning(void **state)
{
    (void)state;
    enum { LONG = 40, ROOM = 8 };
    struct prefix_item item[LONG], other[4], states;
    struct prefix_store_options o = options("a");
    o.most_bytes = ROOM * 4096;
    for (int run = 0; run < 3; run++) {
        struct prefix_store *s;
        struct err e;
        int n_found = 0;
        assert_int_equal(prefix_store_open(&s, &o, &e), 0);
        make_chain(s, 1, item, LONG);
        while (n_found < LONG && get(s, &item[n_found])) n_found++;
        assert_true(run ? n_found >= ROOM - 1 && n_found <= ROOM : !n_found);
        if (n_found) prefix_store_touch(s, &item[n_found - 1]);
        for (int i = n_found; i < LONG; i++) put(s, &item[i]);
        states = item[LONG - 1]; /* behind a page that is not there */
        states.kind = PREFIX_STATE;
        put(s, &states);
        assert_true(bytes_there() <= o.most_bytes && count_files() >= ROOM - 1);
        for (int i = 0; i < ROOM - 1; i++) assert_true(get(s, &item[i]));
        assert_false(get(s, &item[ROOM]) || get(s, &item[LONG - 1]) || get(s, &states));
        if (run == 2) {
            make_chain(s, 5000, other, 4);
            for (int i = 0; i < 4; i++) put(s, &other[i]);
            for (int i = 0; i < 4; i++) assert_true(get(s, &other[i]));
            assert_true(get(s, &item[0]) && get(s, &item[2]) && !get(s, &item[ROOM - 1]));
        }
        prefix_store_close(s);
    }
    assert_int_equal(n_said, 0);
}

/* States go before the page that they are behind; other files are nobody's business; what a process
 * left half written goes after an hour. */
static void only_own_files_are_removed(void **state)
{
    (void)state;
    struct prefix_item item[CHAIN], states;
    struct prefix_store *s = open_store("a");
    char path[200], name[PREFIX_NAME];
    struct err e;
    uint64_t bytes, n = 0;
    make_chain(s, 1, item, CHAIN);
    for (int i = 0; i < CHAIN; i++) put(s, &item[i]);
    states = item[2];
    states.kind = PREFIX_STATE;
    put(s, &states);
    for (int i = 0; i < CHAIN; i++) set_age(&item[i], 5000);
    set_age(&states, 50);
    snprintf(path, sizeof path, "%s/notes.txt", dir);
    write_whole(path, (const unsigned char *)"mine", 4);
    for (int i = 0; i < 2; i++) {
        prefix_new_name(name, (uint64_t)i);
        snprintf(path, sizeof path, "%s/%s", dir, name);
        write_whole(path, (const unsigned char *)"half", 4);
    }
    const struct timespec old[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
    int fd = open(dir, O_RDONLY | O_DIRECTORY);
    assert_int_equal(prefix_measure(fd, &bytes, &e), 0);
    assert_int_equal(bytes, (CHAIN + 2) * 4096); /* with one half */
    assert_int_equal(prefix_evict(fd, 5 * 4096, NULL, &bytes, &n, &e), 0);
    assert_int_equal(n, 3); /* the last three pages: the states keep the first three */
    for (int i = 0; i < 3; i++) assert_true(get(s, &item[i]));
    assert_true(get(s, &states));
    assert_int_equal(prefix_evict(fd, 4 * 4096, NULL, &bytes, &n, &e), 0);
    assert_false(get(s, &states));
    assert_true(get(s, &item[2]));
    assert_int_equal(prefix_evict(fd, 0, NULL, &bytes, &n, &e), 0);
    assert_int_equal(count_files(), 2); /* the notes, and what is being written */
    close(fd);
    prefix_store_close(s);
    assert_int_equal(n_said, 0);
}

/* Names that nobody made: pages in a circle. */
static void a_circle_ends(void **state)
{
    (void)state;
    struct prefix_item item[3] = {{.kind = PREFIX_PAGE}};
    struct err e;
    uint64_t bytes, n = 0;
    for (int i = 0; i < 3; i++) {
        item[i] = (struct prefix_item){.kind = PREFIX_PAGE};
        memset(item[i].key.byte, i + 1, SHA256_DIGEST_LENGTH);
        memset(item[i].parent.byte, (i + 1) % 3 + 1, SHA256_DIGEST_LENGTH);
        write_whole(path_of(&item[i]), (const unsigned char *)"x", 1);
    }
    int fd = open(dir, O_RDONLY | O_DIRECTORY);
    assert_int_equal(prefix_evict(fd, 4096, NULL, &bytes, &n, &e), 0);
    assert_int_equal(n, 2);
    close(fd);
}

static void one_note_and_the_run_goes_on(struct prefix_store *s, const char *why)
{
    struct prefix_item item[CHAIN];
    make_chain(s, 7, item, CHAIN);
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < CHAIN; i++) put(s, &item[i]);
    prefix_store_close(s);
    assert_int_equal(n_said, 1);
    if (!strstr(said, why)) fail_msg("%s", said);
}

/* Full after any number of bytes: what is there is whole, and read. */
static void a_full_disk_is_said_once(void **state)
{
    for (int room = 0; room < 3 * (PAGE + 192); room += 97) {
        struct prefix_store *s = open_store("a");
        struct prefix_item item[CHAIN];
        make_chain(s, 7, item, CHAIN);
        atomic_store(&writes_left, room);
        one_note_and_the_run_goes_on(s, "No space left on device");
        s = open_store("a");
        for (int i = 0; i < CHAIN; i++) assert_int_equal(get(s, &item[i]), i < room / (PAGE + 192));
        assert_int_equal(count_files(), room / (PAGE + 192)); /* no half file is left */
        assert_int_equal(prefix_store_stats(s).n_damaged, 0);
        prefix_store_close(s);
        remove_dir(state);
        make_dir(state);
    }
    atomic_store(&renames_left, 0);
    one_note_and_the_run_goes_on(open_store("a"), "Input/output error");
    assert_int_equal(count_files(), 0);
}

static void a_directory_that_is_gone(void **state)
{
    (void)state;
    struct prefix_store *s = open_store("a");
    assert_int_equal(rmdir(dir), 0);
    one_note_and_the_run_goes_on(s, "No such file or directory");
}

static void a_directory_that_cannot_be_written(void **state)
{
    (void)state;
    struct prefix_store *s = open_store("a");
    struct prefix_item item[CHAIN];
    make_chain(s, 1, item, CHAIN);
    put(s, &item[0]);
    prefix_store_close(s);
    const int is_root = !geteuid(); /* who may write anywhere */
    assert_int_equal(chmod(dir, 0555), 0);
    assert_int_equal(is_root ? seteuid(65534) : 0, 0);
    s = open_store("a");
    assert_true(get(s, &item[0]));
    one_note_and_the_run_goes_on(s, "Permission denied");
    assert_int_equal(is_root ? seteuid(0) : 0, 0);
}

/* Where a directory is made, and where not. */
static void directories_are_made(void **state)
{
    (void)state;
    char inner[100], deep[120];
    struct prefix_store_options o = options("a");
    struct prefix_store *s;
    struct err e;
    snprintf(inner, sizeof inner, "%s/in", dir);
    snprintf(deep, sizeof deep, "%s/no/in", dir);
    o.dir = inner;
    assert_int_equal(prefix_store_open(&s, &o, &e), 0);
    prefix_store_close(s);
    assert_int_equal(access(inner, F_OK), 0);
    o.dir = deep;
    assert_int_equal(prefix_store_open(&s, &o, &e), -1);
    assert_non_null(strstr(e.msg, "cannot be made: No such file or directory"));
    snprintf(deep, sizeof deep, "%s/file", dir);
    write_whole(deep, (const unsigned char *)"x", 1);
    assert_int_equal(prefix_store_open(&s, &o, &e), -1);
    o.dir = deep;
    assert_int_equal(prefix_store_open(&s, &o, &e), -1);
    assert_non_null(strstr(e.msg, "Not a directory"));
}

/* Processes that write, read and remove the same files at once: each gets right contents or none,
 * and none sees damage. */
static void processes_share_a_directory(void **state)
{
    (void)state;
    enum { PROCESSES = 3, ROUNDS = 60 };
    pid_t child[PROCESSES];
    for (int p = 0; p < PROCESSES; p++) {
        if ((child[p] = fork())) continue;
        struct prefix_store_options o = options("a");
        struct prefix_store *s;
        struct err e;
        o.most_bytes = 20 * 4096; /* less than all of them */
        int bad = prefix_store_open(&s, &o, &e), n_found = 0;
        for (int r = 0; r < ROUNDS && !bad; r++) {
            struct prefix_item item[CHAIN];
            make_chain(s, (r * 7 + p) % 5 * 100, item, CHAIN);
            for (int i = 0; i < CHAIN; i++) {
                unsigned char want[PAGE], got[PAGE];
                fill(&item[i], want, PAGE);
                if (!prefix_store_read(s, &item[i], got)) put(s, &item[i]);
                else n_found++, bad |= memcmp(got, want, PAGE) != 0;
            }
        }
        bad |= prefix_store_stats(s).n_damaged > 0 || n_said || !n_found;
        prefix_store_close(s);
        _exit(bad ? 1 : 0);
    }
    for (int p = 0; p < PROCESSES; p++) {
        int status;
        assert_int_equal(waitpid(child[p], &status, 0), child[p]);
        assert_int_equal(status, 0);
    }
    assert_true(bytes_there() <= (20 + 2 * PROCESSES) * 4096);
}

int main(void)
{
#define IN_DIR(test) cmocka_unit_test_setup_teardown(test, make_dir, remove_dir)
    const struct CMUnitTest tests[] = {
        IN_DIR(sizes_are_part_of_the_name),
        IN_DIR(what_is_put_comes_back),
        IN_DIR(damage_is_noticed),
        IN_DIR(what_is_written_again_is_mended),
        IN_DIR(foreign_files_are_not_taken),
        IN_DIR(names_of_other_things),
        IN_DIR(the_oldest_go_first),
        IN_DIR(a_long_prompt_keeps_its_beginning),
        IN_DIR(only_own_files_are_removed),
        IN_DIR(a_circle_ends),
        IN_DIR(a_full_disk_is_said_once),
        IN_DIR(a_directory_that_is_gone),
        IN_DIR(a_directory_that_cannot_be_written),
        IN_DIR(directories_are_made),
        IN_DIR(processes_share_a_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
