/* prompt_text.c: reads the text of -p, -f or standard input; the escapes of -e; --seed -1. */
#include "cli/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { MAX_PROMPT_BYTES = 1 << 30 };

size_t run_drop_mark(char *text, size_t n)
{
    if (n < 3 || memcmp(text, "\xef\xbb\xbf", 3)) return n;
    memmove(text, text + 3, n - 3);
    return n - 3;
}

int run_read_text(const struct options *o, char **text, size_t *bytes, struct err *e)
{
    if (o->prompt) {
        *text = strdup(o->prompt);
        *bytes = strlen(o->prompt);
        return *text ? 0 : err_memory(e);
    }
    int fd = strcmp(o->file, "-") ? open(o->file, O_RDONLY | O_CLOEXEC) : 0;
    if (fd < 0) return err_sys(e, "%s", o->file);
    size_t n = 0, cap = 1 << 16;
    char *p = malloc(cap + 1);
    for (;;) {
        if (!p) {
            err_memory(e);
            break;
        }
        ssize_t got = read(fd, p + n, cap - n);
        if (got < 0 && errno == EINTR && !run_stop_requested) continue;
        if (got < 0) {
            err_sys(e, "%s", o->file);
            break;
        }
        if (got == 0) {
            n = run_drop_mark(p, n);
            p[n] = 0;
            *text = p;
            *bytes = n;
            if (fd) close(fd);
            return 0;
        }
        n += (size_t)got;
        if (n > MAX_PROMPT_BYTES) {
            err_set(e, "%s: prompt of more than 1 GiB", o->file);
            break;
        }
        if (n == cap) {
            char *grown = realloc(p, 2 * cap + 1);
            if (!grown) free(p);
            p = grown;
            cap *= 2;
        }
    }
    free(p);
    if (fd) close(fd);
    return -1;
}

static int hex_digit(char c)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) % 16 : -1;
}

int run_unescape(char *text)
{
    static const char letters[] = "nrt'\"\\", meant[] = "\n\r\t'\"\\";
    char *to = text;
    for (const char *at = text; *at;) {
        const char *known = at[0] == '\\' && at[1] ? strchr(letters, at[1]) : NULL;
        int high = at[0] == '\\' && at[1] == 'x' ? hex_digit(at[2]) : -1,
            low = high < 0 ? -1 : hex_digit(at[3]);
        if (known) *to++ = meant[known - letters], at += 2;
        else if (low < 0) *to++ = *at++;
        else if (high || low) *to++ = (char)(high << 4 | low), at += 4;
        else return -1;
    }
    *to = 0;
    return 0;
}

void run_draw_seed(struct options *o)
{
    if (!o->sampling.seed.is_random) return;
    while (getrandom(&o->sampling.seed.value, sizeof o->sampling.seed.value, 0) !=
           sizeof o->sampling.seed.value) {
    }
    o->sampling.seed.value >>= 32; /* easier to type */
}

void run_say_seed(const struct options *o, uint64_t seed)
{
    if (o->sampling.seed.is_random) fprintf(stderr, "seed: %llu\n", (unsigned long long)seed);
}
