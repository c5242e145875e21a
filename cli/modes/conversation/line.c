#include "cli/modes/conversation/line.h"

#include "cli/text/out.h"
#include "cli/run.h"

#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utf8proc.h>
#include <wchar.h>

/* ESCAPE_MS: how long the bytes of one key take to come. */
enum { MAX_LINE = 64 << 20, HISTORY = 1000, ESCAPE_MS = 50 };

struct line_reader {
    EditLine *editor; /* NULL: no terminal */
    History *history;
    const char *prompt;
    char *line; /* [n], NUL-terminated */
    size_t n, cap;
    struct out paste;           /* what a terminal has pasted, until it is in the line */
    unsigned char buffer[4096]; /* of a pipe: [n_buffer], the first `at` are used */
    size_t n_buffer, at;
    unsigned char ahead[8]; /* of a terminal: keys behind an escape, [n_ahead], at_ahead are used */
    int n_ahead, at_ahead;
    int at_end;
    int has_begun; /* a line was read: no byte order mark comes any more */
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

/* Readable when the terminal has another size since; -1: there is no terminal. */
static int resize_fd = -1;

static void on_resize(int signal)
{
    const uint64_t one = 1;
    const int error = errno;
    (void)signal;
    if (write(resize_fd, &one, sizeof one) < 0) errno = EBADF; /* full: it is readable */
    errno = error;
}

/* Draws the line anew below what the terminal has made of it: how it breaks and moves the rows that
 * are there is its own affair. */
static void redraw(struct line_reader *r)
{
    uint64_t times;
    if (read(resize_fd, &times, sizeof times) < 0) return;
    el_resize(r->editor);
    fputs("\r\n", stdout);
    el_set(r->editor, EL_REFRESH);
    fflush(stdout);
}

/* Waits for a key, or for a signal, which read_some sees. */
static void wait_for_key(struct line_reader *r)
{
    struct pollfd p[] = {{.fd = 0, .events = POLLIN},
                         {.fd = run_signal_fd(), .events = POLLIN},
                         {.fd = resize_fd, .events = POLLIN}};
    for (;;) {
        int ready = poll(p, 3, -1);
        if (ready < 0 && errno == EINTR) continue; /* the size, or a stop: their descriptors say */
        if (ready <= 0 || p[0].revents || p[1].revents) return;
        redraw(r);
    }
}

/* Keys that no keyboard has, in the editor's table: what was pasted goes into the line, a newline
 * does. */
enum { KEY_PASTE = 0x1e, KEY_NEWLINE = 0x1f, MAX_PASTE = 16 << 20 };
#define PASTE_BEGINS "[200~"
#define PASTE_ENDS "\x1b[201~"

/* Reads what is pasted, up to its end. Ends of lines become newlines; of other control characters
 * only tabs stay. */
static void read_paste(struct line_reader *r)
{
    const size_t end = strlen(PASTE_ENDS);
    size_t matched = 0;
    unsigned char c;
    int after_cr = 0;
    out_clear(&r->paste);
    while (matched < end && read_some(&c, 1) == 1) {
        matched = c == (unsigned char)PASTE_ENDS[matched] ? matched + 1
                  : c == 0x1b                             ? 1
                                                          : 0;
        const char put = c == '\r' ? '\n' : (char)c;
        const int dropped = (c == '\n' && after_cr) || r->paste.n > MAX_PASTE ||
                            ((c < 0x20 || c == 0x7f) && put != '\n' && c != '\t');
        after_cr = c == '\r';
        if (!dropped) out_bytes(&r->paste, &put, 1);
    }
    /* all of the end but its escape, which was dropped */
    if (matched == end && r->paste.n >= end - 1) r->paste.n -= end - 1;
    out_bytes(&r->paste, "", 1);
}

static unsigned char insert_paste(EditLine *editor, int key)
{
    struct line_reader *r;
    (void)key;
    el_get(editor, EL_CLIENTDATA, &r);
    int bad = out_failed(&r->paste) || el_insertstr(editor, r->paste.p);
    return bad && r->paste.n > 1 ? CC_ERROR : CC_REFRESH;
}

static unsigned char insert_newline(EditLine *editor, int key)
{
    (void)key;
    return el_insertstr(editor, "\n") ? CC_ERROR : CC_REFRESH;
}

/* After an escape: 1 where a paste begins; else *key is the first key that was read, and the others
 * wait in r->ahead. */
static int reads_paste(struct line_reader *r)
{
    const char *const want = PASTE_BEGINS;
    r->n_ahead = r->at_ahead = 0;
    for (size_t i = 0; want[i]; i++) {
        struct pollfd p = {.fd = 0, .events = POLLIN};
        if (poll(&p, 1, ESCAPE_MS) != 1 || read_some(&r->ahead[r->n_ahead], 1) != 1) return 0;
        if (r->ahead[r->n_ahead++] != (unsigned char)want[i]) return 0;
    }
    r->n_ahead = 0;
    return 1;
}

/* A byte of a key: one that was read ahead, or the next. */
static ssize_t read_byte(struct line_reader *r, unsigned char *c)
{
    if (r->at_ahead == r->n_ahead) return read_some(c, 1);
    *c = r->ahead[r->at_ahead++];
    return 1;
}

/* What libedit reads keys with: UTF-8, whatever the locale. */
static int read_key(EditLine *editor, wchar_t *key)
{
    struct line_reader *r;
    unsigned char c[4];
    el_get(editor, EL_CLIENTDATA, &r);
    const int ahead = r->at_ahead < r->n_ahead;
    if (!ahead) wait_for_key(r);
    ssize_t got = read_byte(r, c);
    if (got != 1) return (int)got;
    if (c[0] == 0x1b && !ahead && reads_paste(r)) {
        read_paste(r);
        *key = KEY_PASTE;
        return 1;
    }
    if (c[0] == 0x1b && !ahead && r->n_ahead == 1 && strchr("\r\n", r->ahead[0])) {
        r->n_ahead = 0; /* Alt-Enter */
        *key = KEY_NEWLINE;
        return 1;
    }
    int more = c[0] >= 0xf0 ? 3 : c[0] >= 0xe0 ? 2 : c[0] >= 0xc0 ? 1 : 0, n = 1;
    while (n <= more && read_byte(r, c + n) == 1) n++;
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

/* A terminal that knows how says where a paste begins and ends. */
static void mark_pastes(int on)
{
    const char *terminal = getenv("TERM");
    if (!terminal || !strcmp(terminal, "dumb")) return;
    fputs(on ? "\x1b[?2004h" : "\x1b[?2004l", stdout);
    fflush(stdout);
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
    /* the wide form keeps no copies of its texts, which libedit would not give back */
    el_wset(r->editor, EL_ADDFN, L"insert-paste", L"insert what was pasted", insert_paste);
    el_wset(r->editor, EL_ADDFN, L"insert-newline", L"insert a newline", insert_newline);
    el_set(r->editor, EL_BIND, "^^", "insert-paste", NULL);
    el_set(r->editor, EL_BIND, "^_", "insert-newline", NULL);
    mark_pastes(1);
    resize_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct sigaction resized = {.sa_handler = on_resize, .sa_flags = SA_RESTART};
    if (resize_fd >= 0) sigaction(SIGWINCH, &resized, NULL);
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
    if (r->editor) mark_pastes(0);
    if (resize_fd >= 0) {
        signal(SIGWINCH, SIG_DFL);
        close(resize_fd);
        resize_fd = -1;
    }
    if (r->editor) el_end(r->editor);
    if (r->history) history_end(r->history);
    free(r->line);
    out_free(&r->paste);
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
    uint64_t times;
    el_resize(r->editor);
    if (resize_fd >= 0 && read(resize_fd, &times, sizeof times) < 0 && errno != EAGAIN)
        return err_sys(e, "cannot watch the terminal's size");
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
            if (!r->has_begun && r->n >= 3 && !memcmp(r->line, "\xef\xbb\xbf", 3))
                memmove(r->line, r->line + 3, (r->n -= 3) + 1);
            r->has_begun = 1;
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
