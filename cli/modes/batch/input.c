#include "cli/modes/batch/input.h"

#include "cli/modes/batch/durable.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utf8proc.h>
#include <zlib.h>

/* read at a time; looked at to see whether it is text */
enum { CHUNK = 256 << 10, LOOK = 64 << 10 };

struct input {
    const char *path;
    int fd;
    gzFile gz;
    unsigned char *chunk; /* [CHUNK]: at..end not yet taken */
    size_t at, end;
    char *line; /* [cap] */
    size_t cap;
    uint64_t number, bytes;
    uint32_t crc;
    char separator; /* of cells; 0: lines are no rows */
    enum { CELL_BEGINS, CELL_PLAIN, CELL_QUOTED, CELL_CLOSED } cell;
    uint64_t n_ends, first_line; /* line ends read; the line in which the row begins */
};

/* Copies FD to a file without a name. */
static int spool(int *fd, const char *path, const char *near, struct err *e)
{
    char *name = NULL, buffer[65536];
    if (asprintf(&name, "%s.input-XXXXXX", near ? near : "/tmp/opt4gptq-run") < 0)
        return err_memory(e);
    int out = mkostemp(name, O_CLOEXEC), rc = 0;
    if (out < 0) {
        rc = err_sys(e, "%s: cannot keep what %s gives", name, path);
        free(name);
        return rc;
    }
    unlink(name);
    for (int64_t at = 0; !rc;) {
        ssize_t got = read(*fd, buffer, sizeof buffer);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) rc = err_sys(e, "%s", path);
        if (got <= 0) break;
        rc = dur_write(out, buffer, (size_t)got, at, name, e);
        at += got;
    }
    free(name);
    if (*fd) close(*fd);
    *fd = out;
    return rc;
}

int input_open(struct input **result, const char *path, const char *spool_near, struct err *e)
{
    struct input *in = calloc(1, sizeof *in);
    if (!in) return err_memory(e);
    in->path = path;
    int standard = !strcmp(path, "-"), rc = 0;
    if (standard) in->fd = 0;
    else if (dur_open(&in->fd, path, O_RDONLY, e)) {
        free(in);
        return -1;
    }
    struct stat st;
    if (fstat(in->fd, &st)) rc = err_sys(e, "%s", path);
    else if (S_ISDIR(st.st_mode)) rc = err_set(e, "%s: is a directory", path);
    if (!rc && !S_ISREG(st.st_mode)) rc = spool(&in->fd, path, spool_near, e);
    if (!rc && !(in->chunk = malloc(CHUNK))) rc = err_memory(e);
    if (!rc) rc = input_rewind(in, e);
    if (rc) {
        input_close(in);
        return -1;
    }
    *result = in;
    return 0;
}

void input_close(struct input *in)
{
    if (!in) return;
    if (in->gz) gzclose_r(in->gz);
    if (in->fd) close(in->fd);
    free(in->chunk);
    free(in->line);
    free(in);
}

int input_rewind(struct input *in, struct err *e)
{
    if (in->gz) gzclose_r(in->gz);
    in->gz = NULL;
    if (lseek(in->fd, 0, SEEK_SET)) return err_sys(e, "%s", in->path);
    int copy = fcntl(in->fd, F_DUPFD_CLOEXEC, 3);
    if (copy < 0) return err_sys(e, "%s", in->path);
    in->gz = gzdopen(copy, "rb");
    if (!in->gz) {
        close(copy);
        return err_memory(e);
    }
    gzbuffer(in->gz, CHUNK);
    in->at = in->end = 0;
    in->number = in->bytes = in->n_ends = 0;
    in->crc = 0;
    return 0;
}

/* The message of zlib names the descriptor, not the file. */
static const char *without_descriptor(const char *why)
{
    const char *end = strncmp(why, "<fd:", 4) ? NULL : strstr(why, ">: ");
    return end ? end + 3 : why;
}

/* 1: there are bytes in the chunk; 0: the end. */
static int fill(struct input *in, struct err *e)
{
    if (in->at < in->end) return 1;
    int code, got = gzread(in->gz, in->chunk, CHUNK);
    const char *why = gzerror(in->gz, &code);
    if (code == Z_MEM_ERROR) return err_memory(e);
    if (got < 0 || (code != Z_OK && code != Z_STREAM_END))
        return err_set(e, "%s: damaged or cut gzip file: %s", in->path, without_descriptor(why));
    in->at = 0;
    in->end = (size_t)got;
    in->crc = (uint32_t)crc32_z(in->crc, in->chunk, in->end);
    in->bytes += in->end;
    return got > 0;
}

/* Bytes of TEXT [n] before the first one that is no text: NUL or not UTF-8. With CUT the last
 * character may lack its end. */
static size_t text_bytes(const unsigned char *text, size_t n, int cut)
{
    for (size_t i = 0; i < n;) {
        utf8proc_int32_t c;
        utf8proc_ssize_t got = utf8proc_iterate(text + i, (utf8proc_ssize_t)(n - i), &c);
        if (got > 0 && c) i += (size_t)got;
        else if (got < 0 && cut && n - i < 4 && text[i] >= 0xc2 &&
                 (n - i == 1 || (text[i + 1] & 0xc0) == 0x80))
            return n;
        else return i;
    }
    return n;
}

/* What begins so, or NULL. P [n] */
static const char *known_format(const unsigned char *p, size_t n)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *name;
    } formats[] = {
        {"\x1f\x8b", 2, "gzip inside gzip"},
        {"PK\3\4", 4, "a zip archive"},
        {"PK\5\6", 4, "a zip archive"},
        {"\xfd"
         "7zXZ",
         6, "an xz file"},
        {"\x28\xb5\x2f\xfd", 4, "a zstd file"},
        {"\x04\x22\x4d\x18", 4, "an lz4 file"},
        {"7z\xbc\xaf\x27\x1c", 6, "a 7z archive"},
        {"GGUF", 4, "a GGUF model"},
        {"PAR1", 4, "a Parquet file"},
        {"ARROW1\0", 7, "an Arrow file"},
        {"\x93NUMPY", 6, "a NumPy file"},
        {"SQLite format 3", 16, "an SQLite database"},
        {"\x7f"
         "ELF",
         4, "a program"},
        {"%PDF-", 5, "a PDF file"},
        {"\x89PNG", 4, "a PNG image"},
        {"\xff\xfe\0\0", 4, "UTF-32 text"},
        {"\0\0\xfe\xff", 4, "UTF-32 text"},
        {"\xff\xfe", 2, "UTF-16 text"},
        {"\xfe\xff", 2, "UTF-16 text"},
    };
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (n >= formats[i].n && !memcmp(p, formats[i].bytes, formats[i].n)) return formats[i].name;
    if (n > 10 && !memcmp(p, "BZh", 3) && !memcmp(p + 4, "1AY&SY", 6)) return "a bzip2 file";
    if (n > 262 && !memcmp(p + 257, "ustar", 5)) return "a tar archive";
    if (n > 9 && !p[5] && !p[6] && !p[7] && p[8] == '{') return "a safetensors file";
    if (n > 8 && p[0] == 0x80 && p[1] >= 2 && p[1] <= 5) return "a Python pickle";
    size_t even = 0, odd = 0; /* every other byte of plain English in UTF-16 is 0 */
    for (size_t i = 0; i + 1 < n; i += 2) even += !p[i], odd += !p[i + 1];
    return n > 3 && (odd > n / 4 ? !even : even > n / 4 && !odd) ? "UTF-16 text" : NULL;
}

int input_check_text(struct input *in, struct err *e)
{
    int rc = fill(in, e);
    if (rc <= 0) return rc;
    const unsigned char *p = in->chunk;
    size_t n = in->end < LOOK ? in->end : LOOK, n_lines = 0, n_bad = 0, first = 0, at = 0;
    if (n >= 3 && !memcmp(p, "\xef\xbb\xbf", 3)) at = 3;
    int json = 0, first_bad = 0;
    while (at < n) {
        const unsigned char *newline = memchr(p + at, '\n', n - at);
        size_t len = newline ? (size_t)(newline - p) - at : n - at,
               good = text_bytes(p + at, len, !newline && in->end >= LOOK);
        if (good < len) {
            if (!n_bad++) first = at + good;
            first_bad |= !n_lines;
        } else if (!n_lines) {
            json = p[at] == '{';
        }
        n_lines += len > 0;
        at += len + 1;
    }
    /* a text has a bad line here and there, not first; of a batch file each line stands for itself
     */
    const char *format = n_bad && !json ? known_format(p, n) : NULL;
    if (format)
        return err_set(e, "%s: looks like %s: the input must be UTF-8 text, plain or gzip",
                       in->path, format);
    if (!n_bad || json || (!first_bad && n_bad * 4 < n_lines)) return 0;
    return err_set(e, "%s: is not UTF-8 text: byte %zu is %s", in->path, first,
                   p[first] ? "no part of a character" : "zero");
}

static int append(struct input *in, size_t n, const unsigned char *p, size_t bytes, struct err *e)
{
    if (n + bytes > in->cap) {
        size_t cap = in->cap ? in->cap : 4096;
        while (cap < n + bytes) cap *= 2;
        char *grown = realloc(in->line, cap);
        if (!grown) return err_memory(e);
        in->line = grown;
        in->cap = cap;
    }
    memcpy(in->line + n, p, bytes);
    return 0;
}

void input_take_rows(struct input *in, char separator) { in->separator = separator; }

/* Bytes of FROM [n] before the row's end, where *ended is set; the row has BEFORE bytes so far. */
static size_t row_bytes(struct input *in, const unsigned char *from, size_t n, size_t before,
                        int *ended)
{
    static const unsigned char mark[3] = {0xef, 0xbb, 0xbf};
    for (size_t i = 0; i < n; i++) {
        unsigned char c = from[i];
        in->n_ends += c == '\n';
        if (c == '\n' && in->cell != CELL_QUOTED) {
            *ended = 1;
            return i;
        }
        if (!in->number && before + i < 3 && c == mark[before + i]) continue;
        switch (in->cell) {
        case CELL_BEGINS:
        case CELL_PLAIN:
            in->cell = c == (unsigned char)in->separator     ? CELL_BEGINS
                       : c == '"' && in->cell == CELL_BEGINS ? CELL_QUOTED
                                                             : CELL_PLAIN;
            break;
        case CELL_QUOTED:
            if (c == '"') in->cell = CELL_CLOSED;
            break;
        case CELL_CLOSED:
            in->cell = c == (unsigned char)in->separator ? CELL_BEGINS
                       : c == '"'                        ? CELL_QUOTED
                                                         : CELL_PLAIN;
        }
    }
    return n;
}

/* Bytes of FROM [n] before the line's end, likewise. */
static size_t line_bytes(const unsigned char *from, size_t n, int *ended)
{
    const unsigned char *newline = memchr(from, '\n', n);
    *ended = newline != NULL;
    return newline ? (size_t)(newline - from) : n;
}

static int is_empty(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != ' ' && p[i] != '\t' && p[i] != '\r') return 0;
    return 1;
}

int input_next(struct input *in, struct input_line *line, struct err *e)
{
    for (;;) {
        size_t n = 0;
        int rc = 0, ended = 0, any = 0;
        line->too_long = 0;
        in->cell = CELL_BEGINS;
        in->first_line = in->n_ends + 1;
        while (!ended && (rc = fill(in, e)) == 1) {
            const unsigned char *from = in->chunk + in->at;
            size_t left = in->end - in->at,
                   bytes = in->separator ? row_bytes(in, from, left, n, &ended)
                                         : line_bytes(from, left, &ended),
                   take = bytes;
            any = 1;
            in->at += bytes + (size_t)ended;
            if (take > INPUT_MAX_LINE - n) {
                take = INPUT_MAX_LINE - n;
                line->too_long = 1;
            }
            if (take && append(in, n, from, take, e)) return -1;
            n += take;
        }
        if (rc < 0) return -1;
        if (!any) return 0;
        if (in->separator && in->cell == CELL_QUOTED)
            return err_set(e,
                           "%s: the row that begins in line %llu opens a quote that nothing closes",
                           in->path, (unsigned long long)in->first_line);
        in->number++;
        const char *p = in->line;
        if (in->number == 1 && n >= 3 && !memcmp(p, "\xef\xbb\xbf", 3)) p += 3, n -= 3;
        if (n && p[n - 1] == '\r') n--;
        if (in->separator && !n) in->number--;
        if (in->separator ? !n : is_empty(p, n)) continue;
        *line = (struct input_line){
            .text = p, .n = n, .number = in->number, .too_long = line->too_long};
        return 1;
    }
}

uint32_t input_crc(const struct input *in) { return in->crc; }
uint64_t input_bytes(const struct input *in) { return in->bytes; }
