/* unit_journal.c: journals that were cut, damaged, forged or replaced by a link: what is
 * recognised, and what is kept. */
#include "cli/modes/batch/durable.h"
#include "cli/modes/batch/journal.h"
#include "cli/modes/batch/result.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

enum { N = 12 };
static char dir[] = "/tmp/opt4gptq-journal-XXXXXX", path[100], victim[100];
static char file[1 << 16]; /* [n_file] a journal with N answers */
static size_t n_file, frame_at[N + 1];
static const char manifest[] = "{\"started\":1}\n";

static void answer(char *text, size_t cap, int i)
{
    snprintf(text, cap, "answer %d %.*s\n", i, i * 9 % 50,
             ".....................................................");
}

static void put(const char *p, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void get(void)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    n_file = fread(file, 1, sizeof file, f);
    fclose(f);
}

static int begin(void **state)
{
    struct journal *j;
    struct err e;
    char note[256], text[100];
    (void)state;
    if (!mkdtemp(dir)) return -1;
    snprintf(path, sizeof path, "%s/out.journal", dir);
    snprintf(victim, sizeof victim, "%s/victim", dir);
    assert_int_equal(journal_open(&j, path, N, note, &e), 0);
    assert_int_equal(journal_start(j, manifest, sizeof manifest - 1, &e), 0);
    for (int i = 0; i < N; i++) {
        struct stat st;
        assert_int_equal(stat(path, &st), 0);
        frame_at[i] = (size_t)st.st_size;
        answer(text, sizeof text, i);
        assert_int_equal(journal_add(j, (uint64_t)i, i % 3 == 0, text, strlen(text), &e), 0);
    }
    journal_close(j);
    get();
    frame_at[N] = n_file;
    return 0;
}

static int end(void **state)
{
    (void)state;
    unlink(path);
    unlink(victim);
    return rmdir(dir);
}

/* Opens FILE [n]: it has every answer except those in LOST, in order, and the note begins with NOTE
 * ("": none). */
static void holds(const char *p, size_t n, uint32_t lost, const char *says)
{
    struct journal *j;
    struct err e = {0};
    char note[256];
    put(p, n);
    if (journal_open(&j, path, N, note, &e)) fail_msg("%s", e.msg);
    if (!*says ? *note : !strstr(note, says)) fail_msg("note: \"%s\", not \"%s\"", note, says);
    struct out all = {0}, walked = {0};
    char text[100];
    for (int i = 0; i < N; i++) {
        if (journal_has(j, (uint64_t)i) == (int)(lost >> i & 1)) fail_msg("answer %d: %s", i, note);
        if (lost >> i & 1) continue;
        answer(text, sizeof text, i);
        size_t before = all.n;
        assert_int_equal(journal_read(j, (uint64_t)i, &all, &e), 0);
        assert_int_equal(all.n - before, strlen(text));
        assert_memory_equal(all.p + before, text, strlen(text));
    }
    uint64_t at = 0;
    int more;
    while ((more = journal_walk(j, &at, &walked, &e)) == 1) {
    }
    assert_int_equal(more, 0);
    assert_int_equal(journal_walk(j, &at, &walked, &e), 0); /* at its very end */
    assert_int_equal(walked.n, all.n);
    if (all.n) assert_memory_equal(walked.p, all.p, all.n);
    assert_int_equal(journal_count(j), N - __builtin_popcount(lost));
    /* after the missing answers are added, the next open finds all of them and reports nothing */
    for (int i = 0; i < N; i++) {
        answer(text, sizeof text, i);
        if (lost >> i & 1)
            assert_int_equal(journal_add(j, (uint64_t)i, i % 3 == 0, text, strlen(text), &e), 0);
    }
    journal_close(j);
    assert_int_equal(journal_open(&j, path, N, note, &e), 0);
    assert_string_equal(note, "");
    assert_int_equal(journal_count(j), N);
    assert_int_equal(journal_errors(j), N / 3);
    journal_close(j);
    out_free(&all);
    out_free(&walked);
}

static void a_bit_that_flips_costs_the_answer_it_is_in(void **state)
{
    static char copy[sizeof file];
    char says[64];
    (void)state;
    for (int k = 1; k < N - 1; k++)
        for (size_t at = frame_at[k]; at < frame_at[k + 1]; at++) {
            memcpy(copy, file, n_file);
            copy[at] ^= 1 << at % 8;
            snprintf(says, sizeof says, "damaged at byte %zu: 1 answer is computed again",
                     frame_at[k]);
            holds(copy, n_file, 1u << k, says);
        }
    memcpy(copy, file, n_file);
    copy[frame_at[3] + 60] ^= 2, copy[frame_at[4] + 10] ^= 2, copy[frame_at[9] + 50] ^= 1;
    snprintf(says, sizeof says, "damaged at byte %zu: 3 answers are computed again", frame_at[3]);
    holds(copy, n_file, 1u << 3 | 1u << 4 | 1u << 9, says);
    memcpy(copy, file, n_file);
    copy[n_file - 3] ^= 1; /* the last answer, complete: not the result of a crash */
    snprintf(says, sizeof says, "damaged at byte %zu: 1 answer is computed again", frame_at[N - 1]);
    holds(copy, n_file, 1u << (N - 1), says);
    memcpy(copy, file, n_file);
    memset(copy + frame_at[2] + 5, 0, frame_at[7] - frame_at[2]); /* a hole */
    snprintf(says, sizeof says, "damaged at byte %zu", frame_at[2]);
    holds(copy, n_file, 0x1f << 2 | 1 << 7, says);
    holds(file, n_file, 0, "");
}

static void a_torn_end_is_a_crash(void **state)
{
    static char copy[sizeof file];
    (void)state;
    for (size_t n = frame_at[N - 1] + 1; n < frame_at[N]; n++)
        holds(file, n, 1u << (N - 1), "that a crash left unfinished are cut off");
    for (size_t n = frame_at[N - 1] + 1; n < frame_at[N]; n += 11) {
        memcpy(copy, file, n);
        memset(copy + n, 0, n_file - n);
        holds(copy, n_file, 1u << (N - 1), "that a crash left unfinished are cut off");
    }
    memcpy(copy, file, n_file);
    copy[frame_at[1] + 50] ^= 1;
    holds(copy, n_file - 4, 1 << 1 | 1 << (N - 1), "the others are kept; ");
}

/* Makes a frame with a valid checksum and any payload. */
static size_t forge(char *to, char type, unsigned long long slot, const char *payload, size_t n)
{
    sprintf(to, "#%c %016llx 0 %010zx ", type, slot, n);
    uint32_t crc = (uint32_t)crc32(crc32(0, (unsigned char *)to, 33),
                                   (const unsigned char *)payload, (unsigned)n);
    sprintf(to + 33, "%08x\n", crc);
    memcpy(to + JOURNAL_HEADER, payload, n);
    return JOURNAL_HEADER + n;
}

static void frames_with_a_right_checksum_are_looked_at(void **state)
{
    static char copy[sizeof file];
    static const char *const bad[] = {"", "no end of line", "two\nlines\n", "a line\nand more"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) { /* in place of answer 5 */
        memcpy(copy, file, frame_at[5]);
        size_t n = frame_at[5] + forge(copy + frame_at[5], 'r', 5, bad[i], strlen(bad[i]));
        memcpy(copy + n, file + frame_at[6], n_file - frame_at[6]);
        holds(copy, n + n_file - frame_at[6], 1 << 5, "damaged at byte");
    }
    /* an answer twice, one of another input, an unknown type: nothing counts twice, nothing is lost
     */
    memcpy(copy, file, n_file);
    size_t n = n_file + forge(copy + n_file, 'r', 3, "again\n", 6);
    n += forge(copy + n, 'r', 1ull << 60, "far\n", 4);
    n += forge(copy + n, 'x', 0, "\n\n", 2);
    holds(copy, n, 0, "");
}

static void beginnings(void **state)
{
    struct journal *j;
    struct err e;
    char note[256], copy[200];
    (void)state;
    memcpy(copy, file, 200);
    copy[50] ^= 4;
    put(copy, 200);
    assert_int_equal(journal_open(&j, path, N, note, &e), -1);
    if (!strstr(e.msg, "out.journal: its beginning is damaged")) fail_msg("%s", e.msg);
    put("machine: cpu vnni, 1 thread; memory: model 5 MiB, KV cache 9 MiB\n", 60);
    assert_int_equal(journal_open(&j, path, N, note, &e), -1);
    assert_non_null(strstr(e.msg, "is not a journal"));
    put(file, 20);
    assert_int_equal(journal_open(&j, path, N, note, &e), 0);
    size_t n_manifest;
    assert_null(journal_manifest(j, &n_manifest));
    journal_close(j);
}

/* Damage of more than what is covered at once costs nothing behind it. */
static void long_answers_are_covered_to_their_end(void **state)
{
    enum { LONG = 200000, HURT = 1 };
    char *text = malloc(LONG), note[256];
    struct out o = {0};
    struct journal *j;
    struct err e;
    uint64_t at[4];
    (void)state;
    assert_non_null(text);
    unlink(path);
    assert_int_equal(journal_open(&j, path, 4, note, &e), 0);
    assert_int_equal(journal_start(j, manifest, sizeof manifest - 1, &e), 0);
    for (int i = 0; i < 4; i++) {
        struct stat st;
        memset(text, 'a' + i, LONG - 1), text[LONG - 1] = '\n';
        assert_int_equal(stat(path, &st), 0);
        at[i] = (uint64_t)st.st_size;
        assert_int_equal(journal_add(j, (uint64_t)i, 0, text, LONG, &e), 0);
    }
    journal_close(j);
    int fd = open(path, O_WRONLY);
    assert_int_equal(pwrite(fd, "!", 1, (off_t)at[HURT] + 150000), 1);
    close(fd);
    for (int again = 0; again < 2; again++) { /* as found, and as covered */
        assert_int_equal(journal_open(&j, path, 4, note, &e), 0);
        assert_int_equal(*note != 0, !again);
        assert_int_equal(journal_count(j), 3);
        for (int i = 0; i < 4; i++) {
            assert_int_equal(journal_has(j, (uint64_t)i), i != HURT);
            if (i == HURT) continue;
            o.n = 0;
            assert_int_equal(journal_read(j, (uint64_t)i, &o, &e), 0);
            assert_true(o.n == LONG && o.p[0] == 'a' + i && o.p[LONG - 2] == 'a' + i);
        }
        journal_close(j);
    }
    out_free(&o);
    free(text);
}

/* Calls of this program's own. */
static int n_syncs;
int fdatasync(int fd)
{
    n_syncs++;
    return fsync(fd);
}

/* A sound frame behind damage is found wherever it lies in the pieces that are read at once. */
static void frames_are_found_at_the_edges_of_pieces(void **state)
{
    enum { CHUNK = 64 << 10, AROUND = JOURNAL_HEADER + 3 };
    static char text[2 * CHUNK];
    struct journal *j;
    struct err e;
    char note[256];
    (void)state;
    for (int at = CHUNK - AROUND; at < CHUNK + AROUND; at++) { /* behind the begin of the search */
        int n = at - JOURNAL_HEADER;
        put("", 0);
        assert_int_equal(journal_open(&j, path, 2, note, &e), 0);
        assert_int_equal(journal_start(j, manifest, sizeof manifest - 1, &e), 0);
        memset(text, '.', (size_t)n);
        text[n - 1] = text[n] = '\n'; /* two: looking goes on behind the first */
        struct stat st;
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(journal_add(j, 0, 0, text, (size_t)n + 1, &e), 0);
        assert_int_equal(journal_add(j, 1, 0, "b\n", 2, &e), 0);
        journal_close(j);
        FILE *f = fopen(path, "r+"); /* the header of the long answer lies */
        assert_true(f && !fseek(f, (long)st.st_size + 4, SEEK_SET) && fputc('x', f) == 'x');
        assert_int_equal(fclose(f), 0);
        assert_int_equal(journal_open(&j, path, 2, note, &e), 0);
        if (journal_has(j, 0) || !journal_has(j, 1)) fail_msg("%d bytes on: %s", at, note);
        journal_close(j);
    }
}

static void answers_reach_the_medium_in_groups(void **state)
{
    static const struct {
        double now;
        int add, force, syncs;
    } steps[] = {{100, 1, 0, 0},   {101.9, 1, 0, 0}, {102, 0, 0, 1}, {102.1, 0, 0, 0},
                 {110, 0, 1, 0},   {110, 1, 0, 0},   {110, 0, 1, 1}, {111, 1, 0, 0},
                 {112.9, 0, 0, 0}, {113, 0, 0, 1}};
    enum { LARGE = JOURNAL_SYNC_BYTES + 1 };
    char *text = malloc(LARGE), note[256];
    struct journal *j;
    struct err e;
    uint64_t slot = 0;
    (void)state;
    assert_non_null(text);
    memset(text, '\n', LARGE);
    unlink(path);
    assert_int_equal(journal_open(&j, path, N, note, &e), 0);
    assert_int_equal(journal_start(j, manifest, sizeof manifest - 1, &e), 0);
    assert_int_equal(journal_sync(j, 99, 1, &e), 0);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        if (steps[i].add) assert_int_equal(journal_add(j, slot++, 0, "a\n", 2, &e), 0);
        n_syncs = 0;
        assert_int_equal(journal_sync(j, steps[i].now, steps[i].force, &e), 0);
        if (n_syncs != steps[i].syncs) fail_msg("step %zu: %d times", i, n_syncs);
    }
    assert_int_equal(journal_add(j, slot, 0, text, LARGE, &e), 0);
    assert_int_equal(journal_sync(j, 113.1, 0, &e), 0);
    assert_int_equal(n_syncs, 2); /* with the last step's */
    journal_close(j);
    free(text);
}

static void links_are_not_followed(void **state)
{
    struct journal *j;
    struct err e;
    struct stat st;
    char note[256], temp[120], link[100];
    (void)state;
    put("precious\n", 9);
    assert_int_equal(rename(path, victim), 0);
    assert_int_equal(symlink(victim, path), 0);
    assert_int_equal(journal_open(&j, path, N, note, &e), -1);
    assert_non_null(strstr(e.msg, "symbolic link"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(journal_open(&j, path, N, note, &e), -1);
    assert_non_null(strstr(e.msg, "is not a file"));
    assert_int_equal(unlink(path), 0);

    put(file, n_file);
    snprintf(temp, sizeof temp, "%s.tmp", path);
    assert_int_equal(symlink(victim, temp), 0);
    assert_int_equal(journal_open(&j, path, N, note, &e), 0);
    assert_int_equal(journal_complete(j, "{}\n", 3, &e), 0);
    journal_close(j);
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISREG(st.st_mode));
    assert_int_equal(lstat(temp, &st), -1);
    assert_int_equal(stat(victim, &st), 0);
    assert_int_equal(st.st_size, 9);

    /* the output's own temporary file has the same form */
    int fd;
    snprintf(link, sizeof link, "%s/link", dir);
    assert_int_equal(symlink(victim, link), 0);
    assert_int_equal(dur_create(&fd, link, NULL, &e), 0);
    assert_int_equal(dur_write(fd, "x", 1, 0, link, &e), 0);
    close(fd);
    assert_int_equal(lstat(link, &st), 0);
    assert_true(S_ISREG(st.st_mode) && st.st_size == 1);
    assert_int_equal(unlink(link), 0);
    assert_int_equal(stat(victim, &st), 0);
    assert_int_equal(st.st_size, 9);
}

/* Files whose last read is short, of one byte, or of none. */
static void outputs_are_summed_whole(void **state)
{
    static const size_t sizes[] = {0, 1, 2, 65535, 65536, 65537, 131073};
    struct err e;
    uint64_t bytes;
    uint32_t crc;
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *text = malloc(sizes[i] + 1);
        for (size_t k = 0; k < sizes[i]; k++) text[k] = (char)(k * 7 + k / 256);
        put(text, sizes[i]);
        assert_int_equal(result_checksum(path, &bytes, &crc, &e), 0);
        assert_int_equal(bytes, sizes[i]);
        assert_int_equal(crc, crc32(0, (const unsigned char *)text, (unsigned)sizes[i]));
        free(text);
    }
    assert_int_equal(unlink(path), 0);
    assert_int_equal(result_checksum(path, &bytes, &crc, &e), 1);
    assert_int_equal(result_checksum(dir, &bytes, &crc, &e), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bit_that_flips_costs_the_answer_it_is_in),
        cmocka_unit_test(a_torn_end_is_a_crash),
        cmocka_unit_test(frames_with_a_right_checksum_are_looked_at),
        cmocka_unit_test(beginnings),
        cmocka_unit_test(long_answers_are_covered_to_their_end),
        cmocka_unit_test(frames_are_found_at_the_edges_of_pieces),
        cmocka_unit_test(answers_reach_the_medium_in_groups),
        cmocka_unit_test(links_are_not_followed),
        cmocka_unit_test(outputs_are_summed_whole),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
