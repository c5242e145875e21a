#include "cli/conversation/line.h"

#include "cli/run.h"

#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utf8proc.h>
#include <wchar.h>

enum { MAX_LINE = 64 << 20, HISTORY = 1000 };

struct line_reader {
    EditLine *editor; /* NULL: no terminal */
    History *history;
    const char *prompt;
    char *line; /* [n], NUL-terminated */
    size_t n, cap;
    unsigned char buffer[4096]; /* of a pipe: [n_buffer], the first `at` are used */
    size_t n_buffer, at;
    int at_end;
};

/* Waits for bytes of stdin. 0: end of input; -1: a signal or a failure (errno). */
static ssize_t read_some(unsigned char *to, size_t n)
{
    struct pollfd p[] = {{.fd = 0, .events = POLLIN}, {.fd = run_signal_fd(), .events = POLLIN}};
    uint64_t signals;
    for (;;) {
        int ready = poll(p, 2, -1);
        if (ready < 0 && errno != EINTR) return -1;
        if (ready > 0 && p[1].revents && read(p[1].fd, &signals, sizeof signals) < 0) return -1;
        if (run_stop_requested) {
            errno = EINTR;
            return -1;
        }
        if (ready > 0 && p[0].revents) return read(0, to, n);
    }
}

/* What libedit reads keys with: UTF-8, whatever the locale. */
static int read_key(EditLine *editor, wchar_t *key)
{
    unsigned char c[4];
    (void)editor;
    ssize_t got = read_some(c, 1);
    if (got != 1) return (int)got;
    int more = c[0] >= 0xf0 ? 3 : c[0] >= 0xe0 ? 2 : c[0] >= 0xc0 ? 1 : 0, n = 1;
    while (n <= more && read_some(c + n, 1) == 1) n++;
    utf8proc_int32_t code;
    *key = utf8proc_iterate(c, n, &code) == n ? (wchar_t)code : 0xfffd;
    return 1;
}

static char *prompt_of(EditLine *editor)
{
    struct line_reader *r;
    el_get(editor, EL_CLIENTDATA, &r);
    return (char *)(uintptr_t)r->prompt;
}

static int open_editor(struct line_reader *r, struct err *e)
{
    HistEvent event;
    setlocale(LC_CTYPE, "C.UTF-8"); /* for libedit, which shows what wide characters it prints */
    r->editor = el_init("opt4gptq-run", stdin, stdout, stderr);
    r->history = history_init();
    if (!r->editor || !r->history) return err_memory(e);
    history(r->history, &event, H_SETSIZE, HISTORY);
    history(r->history, &event, H_SETUNIQUE, 1);
    el_set(r->editor, EL_CLIENTDATA, r);
    el_set(r->editor, EL_PROMPT, prompt_of);
    el_set(r->editor, EL_EDITOR, "emacs");
    el_set(r->editor, EL_HIST, history, r->history);
    el_set(r->editor, EL_GETCFN, read_key);
    return 0;
}

int line_open(struct line_reader **out, struct err *e)
{
    struct line_reader *r = calloc(1, sizeof *r);
    *out = NULL;
    if (!r) return err_memory(e);
    if (isatty(0) && isatty(1) && open_editor(r, e)) {
        line_close(r);
        return -1;
    }
    *out = r;
    return 0;
}

void line_close(struct line_reader *r)
{
    if (!r) return;
    if (r->editor) el_end(r->editor);
    if (r->history) history_end(r->history);
    free(r->line);
    free(r);
}

int line_is_terminal(const struct line_reader *r) { return r->editor != NULL; }

static int keep(struct line_reader *r, const void *text, size_t n, struct err *e)
{
    if (r->n + n + 1 > r->cap) {
        size_t cap = 2 * (r->n + n) + 256;
        char *grown = realloc(r->line, cap);
        if (!grown) return err_memory(e);
        r->line = grown;
        r->cap = cap;
    }
    if (n) memcpy(r->line + r->n, text, n);
    r->n += n;
    r->line[r->n] = 0;
    return r->n > MAX_LINE ? err_set(e, "a line of more than 64 MiB") : 0;
}

static int edit(struct line_reader *r, struct err *e)
{
    int n = 0;
    HistEvent event;
    el_resize(r->editor);
    const char *text = el_gets(r->editor, &n);
    if (run_stop_requested) {
        fputs("\n", stdout);
        fflush(stdout);
        return LINE_INTERRUPTED;
    }
    if (!text || n <= 0) {
        fputs("\n", stdout); /* behind ^D; a terminal that is gone ends it, too */
        fflush(stdout);
        return LINE_END;
    }
    if (strspn(text, " \t\n") < (size_t)n) history(r->history, &event, H_ENTER, text);
    if (keep(r, text, (size_t)n, e)) return -1;
    if (r->line[r->n - 1] == '\n') r->line[--r->n] = 0;
    return LINE_TEXT;
}

/* A line of a pipe; the last may lack its newline. */
static int next_line(struct line_reader *r, struct err *e)
{
    for (;;) {
        const unsigned char *from = r->buffer + r->at,
                            *end = memchr(from, '\n', r->n_buffer - r->at);
        size_t n = end ? (size_t)(end - from) : r->n_buffer - r->at;
        if (keep(r, from, n, e)) return -1;
        r->at += n + (end != NULL);
        if (end || r->at_end) {
            int any = end || r->n;
            if (r->n && r->line[r->n - 1] == '\r') r->line[--r->n] = 0;
            return any ? LINE_TEXT : LINE_END;
        }
        ssize_t got = read_some(r->buffer, sizeof r->buffer);
        if (got < 0) {
            if (run_stop_requested) return LINE_INTERRUPTED;
            return err_sys(e, "cannot read stdin");
        }
        r->at_end = !got;
        r->at = 0;
        r->n_buffer = (size_t)got;
    }
}

int line_read(struct line_reader *r, const char *prompt, const char **text, size_t *n,
              struct err *e)
{
    r->n = 0;
    r->prompt = prompt;
    int got = r->editor ? edit(r, e) : next_line(r, e);
    *text = r->line;
    *n = r->n;
    return got;
}
