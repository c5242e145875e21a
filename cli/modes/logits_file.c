#include "cli/modes/batch/durable.h"
#include "cli/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct logits_file {
    FILE *out;
    char *path, *temp;
    int vocab, has_ids;
    size_t n_rows, n_ids;
};

enum { HEADER = 256 }; /* bytes before the data: the length and the JSON, filled up with blanks */

int logits_file_open(struct logits_file **out, const char *path, int vocab, struct err *e)
{
    struct logits_file *f = calloc(1, sizeof *f);
    if (!f) return err_memory(e);
    f->vocab = vocab;
    f->path = strdup(path);
    if (!f->path || asprintf(&f->temp, "%s.part", path) < 0) {
        f->temp = NULL;
        logits_file_close(f, 0, e);
        return err_memory(e);
    }
    int fd = -1;
    if (dur_create(&fd, f->temp, path, e) || !(f->out = fdopen(fd, "wb"))) {
        if (fd >= 0) close(fd);
        err_prefix(e, "--logits-out");
        free(f->temp); /* not ours to remove */
        f->temp = NULL;
        logits_file_close(f, 0, &(struct err){0});
        return -1;
    }
    char room[HEADER] = {0}; /* the number of rows is known at the end */
    fwrite(room, 1, sizeof room, f->out);
    *out = f;
    return 0;
}

int logits_file_write(struct logits_file *f, const float *rows, int n, struct err *e)
{
    size_t count = (size_t)n * (size_t)f->vocab;
    f->n_rows += (size_t)n;
    return fwrite(rows, sizeof *rows, count, f->out) == count
               ? 0
               : err_sys(e, "--logits-out %s", f->path);
}

int logits_file_ids(struct logits_file *f, const int32_t *ids, size_t n, struct err *e)
{
    f->has_ids = 1;
    f->n_ids = n;
    return !n || fwrite(ids, sizeof *ids, n, f->out) == n ? 0
                                                          : err_sys(e, "--logits-out %s", f->path);
}

/* Fills the room at the beginning of the file. */
static int write_header(struct logits_file *f)
{
    char header[HEADER];
    unsigned long long end = 4ull * f->n_rows * (unsigned long long)f->vocab;
    uint64_t length = HEADER - 8;
    int n = snprintf(header + 8, length,
                     "{\"logits\":{\"dtype\":\"F32\",\"shape\":[%zu,%d],\"data_offsets\":[0,%llu]}",
                     f->n_rows, f->vocab, end);
    if (f->has_ids)
        n += snprintf(
            header + 8 + n, length - (size_t)n,
            ",\"generated\":{\"dtype\":\"I32\",\"shape\":[%zu],\"data_offsets\":[%llu,%llu]}",
            f->n_ids, end, end + 4ull * f->n_ids);
    header[8 + n++] = '}';
    memset(header + 8 + n, ' ', length - (size_t)n);
    memcpy(header, &length, 8);
    return fseeko(f->out, 0, SEEK_SET) || fwrite(header, 1, HEADER, f->out) != HEADER ? -1 : 0;
}

int logits_file_close(struct logits_file *f, int keep, struct err *e)
{
    int rc = 0;
    if (!f) return 0;
    if (f->out) {
        int bad = ferror(f->out) || (keep && write_header(f));
        if (fclose(f->out) || bad) rc = err_sys(e, "--logits-out %s", f->path);
    }
    if (f->temp && keep && !rc && rename(f->temp, f->path))
        rc = err_sys(e, "--logits-out %s", f->path);
    if (f->temp && (!keep || rc)) unlink(f->temp);
    free(f->path);
    free(f->temp);
    free(f);
    return keep ? rc : 0;
}
