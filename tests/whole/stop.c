/* stop.c: a batch that is signalled, interrupted from a terminal and killed, each time at progress
 * that was seen, and what terminals show meanwhile. No time is measured: the batch writes its trace
 * to a pipe that this program reads, so it cannot be further than a few steps ahead of what was
 * read. Works on models/demo; usage: stop BUILD_DIR. */
#include "tests/harness.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum { N_RECORDS = 40, N_ARGS = 32 };
static char run_bin[512], convert_bin[512], dir[] = "/tmp/opt4gptq-stop-XXXXXX", model[300],
                                            in[300], out[300], undisturbed[300], journal[320],
                                            fifo[300], text_file[300], *kv;

static void check_detail(int ok, const char *what, const char *detail)
{
    check_that(ok, "%s\n  %.2000s", what, detail ? detail : "");
}

static long size_of(const char *path)
{
    struct stat st;
    return stat(path, &st) ? -1 : (long)st.st_size;
}

static void clean(void)
{
    unlink(out);
    unlink(journal);
}

struct text {
    char *p; /* [n], NUL-terminated */
    size_t n;
};

/* What can be read of FD now; 0: the end. */
static int take(struct text *t, int fd)
{
    char buffer[1024];
    ssize_t n = read(fd, buffer, sizeof buffer);
    if (n <= 0) return 0;
    if (!(t->p = realloc(t->p, t->n + (size_t)n + 1))) exit(2);
    memcpy(t->p + t->n, buffer, (size_t)n);
    t->n += (size_t)n;
    t->p[t->n] = 0;
    return 1;
}

/* A program that runs. Its stderr is a pipe, or a terminal of its own. */
struct run {
    pid_t pid;
    int trace, err,
        alive; /* read ends; -1: ended. Nobody writes to ALIVE: it ends with the process */
    struct text traced, said;
    int code;
};

static void start(struct run *r, int columns, char *const argv[])
{
    int err[2], alive[2];
    char name[64] = "";
    *r = (struct run){.trace = -1};
    unlink(fifo);
    if (mkfifo(fifo, 0600) || (r->trace = open(fifo, O_RDONLY | O_NONBLOCK)) < 0 || pipe(alive))
        exit(2);
    fcntl(r->trace, F_SETPIPE_SZ, 4096);
    if (columns) {
        struct winsize w = {.ws_row = 24, .ws_col = (unsigned short)columns};
        err[0] = posix_openpt(O_RDWR | O_NOCTTY);
        if (err[0] < 0 || grantpt(err[0]) || unlockpt(err[0])) exit(2);
        snprintf(name, sizeof name, "%s", ptsname(err[0]));
        err[1] = open(name, O_RDWR | O_NOCTTY);
        if (err[1] < 0 || ioctl(err[1], TIOCSWINSZ, &w)) exit(2);
    } else if (pipe(err)) {
        exit(2);
    }
    fflush(NULL);
    if (!(r->pid = fork())) {
        if (columns) {
            setsid();
            if (open(name, O_RDWR) < 0 || ioctl(err[1], TIOCSCTTY, 0))
                _exit(126); /* so that ^C is a signal */
        }
        int null = open("/dev/null", O_RDWR);
        dup2(null, 0);
        dup2(null, 1);
        dup2(err[1], 2);
        close(err[0]);
        close(alive[0]);
        execv(argv[0], argv);
        _exit(127);
    }
    close(alive[1]);
    close(err[1]);
    r->err = err[0];
    r->alive = alive[0];
}

/* Waits until there is more to read and reads it. WITH_TRACE 0: the trace is left alone, so that
 * the batch comes to a halt. 0: the program has ended and all is read. */
static int watch(struct run *r, int with_trace)
{
    struct pollfd fds[3] = {
        {r->err, POLLIN, 0}, {with_trace ? r->trace : -1, POLLIN, 0}, {r->alive, POLLIN, 0}};
    if (poll(fds, 3, -1) < 0) exit(2);
    if (fds[0].revents && take(&r->said, r->err)) return 1;
    if (fds[0].revents) close(r->err), r->err = -1;
    if (fds[1].revents && take(&r->traced, r->trace)) return 1;
    if (fds[1].revents && r->alive < 0) close(r->trace), r->trace = -1;
    if (fds[2].revents) close(r->alive), r->alive = -1;
    return r->alive >= 0 || r->err >= 0;
}

static void finish(struct run *r)
{
    int status;
    while (watch(r, 1)) {
    }
    while (r->trace >= 0 && take(&r->traced, r->trace)) {
    }
    waitpid(r->pid, &status, 0);
    r->code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    if (r->trace >= 0) close(r->trace);
}

static void release(struct run *r)
{
    free(r->traced.p);
    free(r->said.p);
}

static int said(const struct run *r, const char *what)
{
    return r->said.p && strstr(r->said.p, what);
}

#define BATCH(r, columns, ...)                                                                     \
    start(r, columns,                                                                              \
          (char *[N_ARGS]){run_bin, "-m", model, "-i", in, "-o", out, "-t", "1", "-np", "4",       \
                           "--ignore-eos", "-n", "90", "--kv", kv, "--trace", fifo, __VA_ARGS__})

/* Reads on until the journal has MORE bytes than BEFORE. 0: the program ended first. */
static int until_journal(struct run *r, long before, long more)
{
    while (size_of(journal) < before + more)
        if (!watch(r, 1)) return 0;
    return 1;
}

/* The same command without trouble gives the bytes of an undisturbed run. */
static void continues(const char *what)
{
    struct process p;
    process_run(&p,
                (char *[]){run_bin, "-m", model, "-i", in, "-o", out, "-t", "1", "-np", "9",
                           "--ignore-eos", "-n", "90", "--kv", kv, NULL},
                NULL);
    check_detail(p.code == 0, what, p.err);
    process_free(&p);
    process_run(&p, (char *[]){"/usr/bin/cmp", out, undisturbed, NULL}, NULL);
    check_detail(p.code == 0, what, p.out);
    process_free(&p);
}

static long number_after(const char *p, const char *name)
{
    p = strstr(p, name);
    return p ? strtol(p + strlen(name), NULL, 10) : -1;
}

/* Behind the mark of the signal nothing that waits is begun. */
static void check_trace(const struct run *r)
{
    const char *p = r->traced.p ? strstr(r->traced.p, "\"stopping\"") : NULL;
    long running = 1000, waiting = -1;
    int n = 0, ok = p != NULL;
    for (; ok && (p = strstr(p, "\"scheduler\"")); p++, n++) {
        long now = number_after(p, "\"running\":"), left = number_after(p, "\"waiting\":");
        ok = now <= running && (waiting < 0 || left == waiting) && left > 0;
        running = now;
        waiting = left;
    }
    check_detail(ok && n > 1 && running == 0, "after a signal nothing new is admitted",
                 r->traced.p);
}

static void signals(void)
{
    struct run r;
    BATCH(&r, 0, "--grace", "86400");
    check_detail(until_journal(&r, 0, 2000), "a batch that gives answers", r.said.p);
    kill(r.pid, SIGTERM);
    finish(&r);
    check_detail(r.code == 4 && said(&r, "stopping: running requests have 86400 s") &&
                     said(&r, "the same command continues") && size_of(out) < 0,
                 "SIGTERM: running requests end, exit 4", r.said.p);
    check_trace(&r);
    release(&r);

    BATCH(&r, 0, "--grace", "0");
    check_detail(until_journal(&r, size_of(journal), 100), "it continues", r.said.p);
    kill(r.pid, SIGINT);
    finish(&r);
    check_detail(r.code == 4 && said(&r, "have 0 s") && said(&r, "answers are kept in"),
                 "--grace 0 ends with the step", r.said.p);
    release(&r);

    /* the trace is not read: the batch stands still within a step. Both signals print their texts.
     */
    BATCH(&r, 0, "--grace", "86400");
    check_detail(until_journal(&r, size_of(journal), 100), "it continues again", r.said.p);
    kill(r.pid, SIGINT);
    while (!said(&r, "stopping:") && watch(&r, 0)) {
    }
    check_detail(said(&r, "a second signal ends at once\n"), "the first signal says so at once",
                 r.said.p);
    kill(r.pid, SIGINT);
    while (!said(&r, "stopped at once:") && watch(&r, 0)) {
    }
    finish(&r);
    check_detail(r.code == 4 && said(&r, "of 40 answers are kept in") &&
                     said(&r, "the same command continues\n"),
                 "the second signal ends at once, exit 4, and says what is kept", r.said.p);
    release(&r);
    continues("stopped three times, the bytes are those of an undisturbed run");
    clean();
}

/* The same batch over another type of keys and values; its answers when nobody stops it. */
static void begin_with(char *type)
{
    struct process p;
    char path[340];
    kv = type;
    snprintf(path, sizeof path, "%s.journal", undisturbed);
    unlink(undisturbed);
    unlink(path);
    process_run(&p,
                (char *[]){run_bin, "-m", model, "-i", in, "-o", undisturbed, "-t", "1",
                           "--ignore-eos", "-n", "90", "--kv", kv, NULL},
                NULL);
    check_detail(p.code == 0, "an undisturbed run", p.err);
    process_free(&p);
}

static void kills(void)
{
    int n = 0;
    struct run r;
    for (;;) {
        BATCH(&r, 0, NULL);
        int alive = until_journal(&r, size_of(journal), 300);
        if (alive) kill(r.pid, SIGKILL);
        finish(&r);
        if (!alive) break;
        check_detail(r.code == -SIGKILL, "a run is killed", r.said.p);
        n++;
        release(&r);
    }
    check_detail(n > 3 && r.code == 0, "killed again and again it ends all the same", r.said.p);
    printf("%s: killed %d times, each time when the journal had grown\n", kv, n);
    release(&r);
    continues("killed, the bytes are those of an undisturbed run");
    clean();
}

/* What a terminal of many columns would show: the lines that stay, one below the other. */
static void check_screen(const struct run *r, int columns, const char *progress, const char *what)
{
    char line[4096] = "";
    size_t at = 0, n_drawn = 0;
    int ok = 1;
    for (const char *p = r->said.p ? r->said.p : ""; *p; p++) {
        if (*p == '\r') {
            if (strstr(line, progress)) n_drawn++, ok &= strcspn(line, "^") + 3 <= (size_t)columns;
            at = 0;
        } else if (!strncmp(p, "\033[K", 3)) {
            line[at] = 0;
            p += 2;
        } else if (*p == '\n') {
            ok &= !strstr(line, progress);
            line[at = 0] = 0;
        } else if (at < sizeof line - 1) {
            if (!line[at]) line[at + 1] = 0;
            line[at++] = *p;
        }
    }
    check_detail(ok && !*line, what, r->said.p);
    check_detail(n_drawn > 0, "a progress line was drawn", r->said.p);
}

static void terminals(void)
{
    static const int widths[] = {40, 60, 80, 200};
    struct run r;
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        BATCH(&r, widths[i], "--grace", "0");
        check_detail(until_journal(&r, size_of(journal), 300), "a batch on a terminal", r.said.p);
        struct winsize w = {.ws_row = 24, .ws_col = (unsigned short)widths[3 - i]};
        if (i % 2) ioctl(r.err, TIOCSWINSZ, &w);
        if (write(r.err, "\003", 1) != 1) exit(2);
        finish(&r);
        check_detail(r.code == 4 && said(&r, "^C") && said(&r, "\033[Kstopping"),
                     "^C on a terminal", r.said.p);
        check_screen(&r, i % 2 && widths[3 - i] > widths[i] ? widths[3 - i] : widths[i], "/40 done",
                     "a progress line leaves nothing behind");
        release(&r);
    }
    start(&r, 60,
          (char *[]){run_bin, "-m", model, "-f", text_file, "--perplexity", "contiguous", "-c",
                     "64", "-t", "1", NULL});
    while (!said(&r, "windows") && watch(&r, 0)) {
    }
    if (write(r.err, "\003", 1) != 1) exit(2);
    finish(&r);
    check_detail(r.code == 4 || r.code == 0, "^C in an evaluation", r.said.p);
    check_screen(&r, 60, "windows; ", "an evaluation leaves nothing behind");
    release(&r);
}

int main(int argc, char **argv)
{
    struct process p;
    if (argc < 2 || !mkdtemp(dir)) return 2;
    alarm(1800); /* a batch that stands still and says nothing would be waited for without end */
    snprintf(run_bin, sizeof run_bin, "%s/opt4gptq-run", argv[1]);
    snprintf(convert_bin, sizeof convert_bin, "%s/opt4gptq-convert", argv[1]);
    snprintf(model, sizeof model, "%s/demo.safetensors", dir);
    snprintf(in, sizeof in, "%s/in.txt", dir);
    snprintf(out, sizeof out, "%s/out", dir);
    snprintf(undisturbed, sizeof undisturbed, "%s/undisturbed", dir);
    snprintf(journal, sizeof journal, "%s.journal", out);
    snprintf(fifo, sizeof fifo, "%s/trace", dir);
    snprintf(text_file, sizeof text_file, "%s/text", dir);
    process_run(&p, (char *[]){convert_bin, "models/demo", model, NULL}, NULL);
    check_detail(p.code == 0, "convert models/demo", p.err);
    process_free(&p);
    FILE *f = fopen(in, "w"), *g = fopen(text_file, "w");
    for (int i = 0; f && i < N_RECORDS; i++)
        fprintf(f, "The %d. king and the queen of the sea\n", i);
    for (int i = 0; g && i < 4000; i++) fprintf(g, "The %d. king and the queen of the sea\n", i);
    if (!f || !g || fclose(f) || fclose(g)) exit(2);
    begin_with("f16");
    signals();
    kills();
    if (has_terminal()) terminals();
    clean();
    begin_with("int4");
    kills();
    process_run(&p, (char *[]){"/bin/rm", "-r", dir, NULL}, NULL);
    process_free(&p);
    return report("stop");
}
