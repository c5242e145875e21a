#include "quantize/shard.h"

#include "core/base/json.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ALIGN = 64, PIECE = 8 << 20, PATH_BYTES = 4096 + 16 };

/* The header with its length in front: *text is malloc'd. */
static int make_header(const struct shard_tensor *t, size_t n, json_t *metadata, char **text,
                       size_t *bytes, struct err *e)
{
    json_t *h = json_object();
    uint64_t at = 0;
    json_object_set(h, "__metadata__", metadata);
    for (size_t i = 0; i < n; i++) {
        json_t *shape = json_array();
        for (int d = 0; d < t[i].n_dims; d++)
            json_array_append_new(shape, json_integer(t[i].shape[d]));
        json_object_set_new(h, t[i].name,
                            json_pack("{s:s, s:o, s:[I, I]}", "dtype", st_dtype_name(t[i].dtype),
                                      "shape", shape, "data_offsets", (json_int_t)at,
                                      (json_int_t)(at + t[i].bytes)));
        at += t[i].bytes;
    }
    char *json = json_dumps(h, JSON_COMPACT);
    size_t entries = json_object_size(h);
    json_decref(h);
    int rc = json_check(e);
    if (!rc && (!json || entries != n + 1)) rc = err_set(e, "tensors of the same name");
    if (!rc) {
        uint64_t len = strlen(json), padded = (8 + len + ALIGN - 1) / ALIGN * ALIGN;
        if ((*text = malloc(padded))) {
            memset(*text, ' ', padded);
            memcpy(*text + 8, json, len);
            *bytes = padded;
            padded -= 8;
            memcpy(*text, &padded, 8);
        } else rc = err_memory(e);
    }
    free(json);
    return rc;
}

static int put(int fd, const char *path, const void *data, uint64_t bytes, struct err *e)
{
    const char *p = data;
    while (bytes) {
        ssize_t n = write(fd, p, bytes > PIECE ? PIECE : bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return err_sys(e, "%s: cannot write", path);
        p += n, bytes -= (uint64_t)n;
    }
    return 0;
}

static int put_tensor(int fd, const char *path, const struct shard_tensor *t, char *piece,
                      const volatile sig_atomic_t *stop, struct err *e)
{
    if (t->data) return put(fd, path, t->data, t->bytes, e);
    for (uint64_t at = 0, n; at < t->bytes; at += n) {
        n = t->bytes - at < PIECE ? t->bytes - at : PIECE;
        if (stop && *stop) return err_set(e, "%s: stopped by a signal", path);
        if (st_read(t->file, piece, t->offset + at, n, e) || put(fd, path, piece, n, e)) return -1;
    }
    return 0;
}

/* PATH.part, with room for so many bytes. */
static int open_part(int *fd, const char *path, char part[PATH_BYTES], uint64_t bytes,
                     struct err *e)
{
    if (snprintf(part, PATH_BYTES, "%s.part", path) >= PATH_BYTES)
        return err_set(e, "%s: the name is too long", path);
    if (unlink(part) && errno != ENOENT) return err_sys(e, "%s", part);
    *fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (*fd < 0) return err_sys(e, "%s", part);
    if (!fallocate(*fd, 0, 0, (off_t)bytes) ||
        (errno != ENOSPC && errno != EFBIG && errno != EDQUOT))
        return 0;
    return err_sys(e, "%s: needs %" PRIu64 " bytes", path, bytes);
}

static int close_part(int fd, const char *path, const char *part, int rc, struct err *e)
{
    if (!rc && fsync(fd)) rc = err_sys(e, "%s: cannot sync", path);
    if (fd >= 0 && close(fd) && !rc) rc = err_sys(e, "%s: cannot write", path);
    if (!rc && rename(part, path)) rc = err_sys(e, "%s: cannot rename the finished file", path);
    if (rc && fd >= 0) unlink(part);
    return rc;
}

int shard_write(const char *path, const struct shard_tensor *t, size_t n, json_t *metadata,
                const volatile sig_atomic_t *stop, struct err *e)
{
    char part[PATH_BYTES], *header = NULL, *piece = malloc(PIECE);
    size_t n_header = 0;
    int fd = -1, rc = piece ? make_header(t, n, metadata, &header, &n_header, e) : err_memory(e);
    uint64_t bytes = n_header;
    for (size_t i = 0; i < n; i++) bytes += t[i].bytes;
    if (!rc) rc = open_part(&fd, path, part, bytes, e);
    if (!rc) rc = put(fd, path, header, n_header, e);
    for (size_t i = 0; i < n && !rc; i++) rc = put_tensor(fd, path, &t[i], piece, stop, e);
    rc = close_part(fd, path, part, rc, e);
    free(header);
    free(piece);
    return rc;
}

int shard_write_text(const char *path, const char *text, size_t n, struct err *e)
{
    char part[PATH_BYTES];
    int fd = -1, rc = open_part(&fd, path, part, n ? n : 1, e);
    if (!rc && !n && ftruncate(fd, 0)) rc = err_sys(e, "%s: cannot write", path);
    if (!rc) rc = put(fd, path, text, n, e);
    return close_part(fd, path, part, rc, e);
}

int shard_sync_dir(const char *dir, struct err *e)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return err_sys(e, "%s", dir);
    int rc = fsync(fd) && errno != EINVAL ? err_sys(e, "%s: cannot sync", dir) : 0;
    close(fd);
    return rc;
}
