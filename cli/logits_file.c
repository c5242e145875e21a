#include "cli/batch/durable.h"
#include "cli/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct logits_file {
    FILE *out;
    char *path, *temp;
    int vocab;
};

int logits_file_open(struct logits_file **out, const char *path, int n_rows, int vocab,
                     struct err *e)
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
    if (dur_create(&fd, f->temp, e) || !(f->out = fdopen(fd, "wb"))) {
        if (fd >= 0) close(fd);
        err_prefix(e, "--logits-out");
        free(f->temp); /* not ours to remove */
        f->temp = NULL;
        logits_file_close(f, 0, &(struct err){0});
        return -1;
    }
    char header[256];
    int n = snprintf(header, sizeof header,
                     "{\"logits\":{\"dtype\":\"F32\",\"shape\":[%d,%d],\"data_offsets\":[0,%llu]}}",
                     n_rows, vocab, 4ull * (unsigned long long)n_rows * (unsigned long long)vocab);
    while ((8 + n) % 64) header[n++] = ' ';
    uint64_t len = (uint64_t)n;
    fwrite(&len, 8, 1, f->out);
    fwrite(header, 1, len, f->out);
    *out = f;
    return 0;
}

int logits_file_write(struct logits_file *f, const float *rows, int n, struct err *e)
{
    size_t count = (size_t)n * (size_t)f->vocab;
    return fwrite(rows, sizeof *rows, count, f->out) == count
               ? 0
               : err_sys(e, "--logits-out %s", f->path);
}

int logits_file_close(struct logits_file *f, int keep, struct err *e)
{
    int rc = 0;
    if (!f) return 0;
    if (f->out) {
        int bad = ferror(f->out);
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
