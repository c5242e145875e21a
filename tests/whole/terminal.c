/* terminal.c: -cnv on a terminal: lines, keys, signals, control characters, a window that becomes
 * narrower. Works on models/demo; usage: terminal BUILD_DIR. */
#include "tests/whole/talk_tools.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

struct screen {
    pid_t pid;
    int fd, code;
    char text[1 << 18]; /* all that was shown */
    size_t n, from;     /* from: where the last wait ended */
};

static void start(struct screen *s, char *const argv[])
{
    struct winsize w = {.ws_row = 24, .ws_col = 80};
    char name[64];
    s->n = s->from = 0;
    s->text[0] = 0;
    s->fd = posix_openpt(O_RDWR | O_NOCTTY);
    if (s->fd < 0 || grantpt(s->fd) || unlockpt(s->fd)) exit(2);
    snprintf(name, sizeof name, "%s", ptsname(s->fd));
    fflush(NULL);
    if (!(s->pid = fork())) {
        setsid();
        int fd = open(name, O_RDWR); /* becomes the controlling terminal: ^C is a signal */
        if (fd < 0 || ioctl(fd, TIOCSWINSZ, &w)) _exit(126);
        for (int i = 0; i < 3; i++) dup2(fd, i);
        setenv("TERM", "xterm", 1);
        execv(argv[0], argv);
        _exit(127);
    }
}

/* Reads until the text that is new holds WANT; NULL: until the end. */
static void wait_for(struct screen *s, const char *want, const char *what)
{
    for (;;) {
        const char *found = want ? strstr(s->text + s->from, want) : NULL;
        if (found) {
            s->from = (size_t)(found - s->text) + strlen(want);
            return;
        }
        struct pollfd p = {.fd = s->fd, .events = POLLIN};
        ssize_t got = poll(&p, 1, 60000) == 1
                          ? read(s->fd, s->text + s->n, sizeof s->text - 1 - s->n)
                          : 0;
        if (got <= 0) break;
        s->n += (size_t)got;
        s->text[s->n] = 0;
    }
    if (want)
        check_that(0, "%s: '%s' does not come after: %.600s", what, want,
                   s->text + (s->n > 600 ? s->n - 600 : 0));
}

/* A prompt, of which libedit takes keys: it prints the prompt before that. */
static void wait_for_prompt(struct screen *s, const char *what)
{
    struct termios t;
    wait_for(s, "\n> ", what);
    for (int i = 0; i < 60000 && !tcgetattr(s->fd, &t) && t.c_lflag & ICANON; i++) usleep(1000);
}

static void type(struct screen *s, const char *keys)
{
    if (write(s->fd, keys, strlen(keys)) < 0) s->code = -1;
}

static void finish(struct screen *s)
{
    int status;
    wait_for(s, NULL, "");
    kill(s->pid, SIGKILL); /* when it does not end by itself */
    waitpid(s->pid, &status, 0);
    s->code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    close(s->fd);
}

/* The message of several rows in a terminal that becomes narrower is drawn anew, all of it. */
static void narrower(struct screen *s)
{
    const struct winsize w = {.ws_row = 24, .ws_col = 30};
    char message[240] = "", row[40], text[900];
    for (int i = 0; i < 25; i++) snprintf(message + 8 * i, 9, "word%03d ", i);
    start(s, (char *[]){run_bin, "-m", model, "-cnv", "--temp", "0", "-n", "2", NULL});
    wait_for_prompt(s, "the first prompt");
    type(s, message);
    wait_for(s, "024", "a line of three rows");
    if (ioctl(s->fd, TIOCSWINSZ, &w)) check_that(0, "the size of a terminal");
    for (int i = 0; i < 25; i++) { /* a word may be broken by the end of a row */
        snprintf(row, sizeof row, "%03d", i);
        if ((2 + 8 * i + 4) / 30 == (2 + 8 * i + 6) / 30) wait_for(s, row, "the line drawn anew");
    }
    type(s, "x\r");
    wait_for_prompt(s, "after a line in a narrower terminal");
    snprintf(text, sizeof text, "/save %s\r", saved);
    type(s, text);
    wait_for_prompt(s, "after /save");
    type(s, "\x04");
    finish(s);
    json_t *m = load_messages();
    strcat(message, "x");
    check_that(s->code == 0 && !strcmp(content(m, 0), message), "the message is '%s'",
               content(m, 0));
    json_decref(m);
}

static void terminal(void)
{
    if (!has_terminal()) return;
    static struct screen s;
    struct process p;
    char first[400], text[900];
    /* the answers of a pipe, with editing and history */
    TALK(&p, "Who is it?\n", "-n", "12", "--temp", "0");
    snprintf(first, sizeof first, "%.*s", (int)strcspn(p.out, "\n"), p.out);
    process_free(&p);
    start(&s, (char *[]){run_bin, "-m", model, "--chat", "-n", "12", "--temp", "0", NULL});
    wait_for_prompt(&s, "the first prompt");
    type(&s, "Who is he?\x7f\x7f\x7fit?\r"); /* two letters and the mark are taken back */
    wait_for(&s, first, "an edited line");
    wait_for_prompt(&s, "the next prompt");
    type(&s, "/reset\r");
    wait_for_prompt(&s, "after /reset");
    type(&s, "\x1b[A\x1b[A\r"); /* the line before the last */
    wait_for(&s, first, "a line of the history");
    wait_for_prompt(&s, "the next prompt");
    type(&s, "/help\r");
    wait_for(&s, "/regen ", "the help");
    wait_for_prompt(&s, "the next prompt");
    type(&s, "gr\xc3\xbc\xc3\x9f\x7f\xc3\x9f"
             "e");
    wait_for(&s, "e", "letters beyond ASCII");
    type(&s, "\r");
    wait_for_prompt(&s, "the next prompt");
    snprintf(text, sizeof text, "/save %s\r", saved);
    type(&s, text);
    wait_for_prompt(&s, "after /save");
    type(&s, "\x04");
    finish(&s);
    json_t *m = load_messages();
    check_that(s.code == 0 && !strcmp(content(m, 2), "gr\xc3\xbc\xc3\x9f"
                                                     "e"),
               "Ctrl-D ends; the message is '%s'", content(m, 2));
    json_decref(m);

    /* Ctrl-C stops an answer, and the conversation goes on; twice at the prompt ends */
    start(&s, (char *[]){run_bin, "-m", model, "-cnv", "--temp", "0", "--ignore-eos", "--cpu",
                         "ref", "-v", NULL});
    wait_for_prompt(&s, "the first prompt");
    type(&s, "Who is it?\r");
    wait_for(&s, first, "an answer without end");
    type(&s, "\x03");
    wait_for(&s, ", stopped", "Ctrl-C");
    wait_for_prompt(&s, "the prompt after it");
    type(&s, "half a line\x03");
    wait_for(&s, "Ctrl-C again ends", "Ctrl-C at the prompt");
    wait_for_prompt(&s, "the prompt after it");
    snprintf(text, sizeof text, "/save %s\r", saved);
    type(&s, text);
    wait_for_prompt(&s, "after /save");
    type(&s, "\x03");
    wait_for(&s, "Ctrl-C again ends", "Ctrl-C, once more");
    wait_for_prompt(&s, "the prompt after it");
    type(&s, "\x03");
    finish(&s);
    m = load_messages();
    check_that(s.code == 0 && json_array_size(m) == 2 && strstr(content(m, 1), first),
               "Ctrl-C twice ends with exit code 0 (%d); what there was of the answer counts",
               s.code);
    json_decref(m);

    /* SIGTERM ends at once, at the prompt and within an answer */
    for (int i = 0; i < 2; i++) {
        start(&s, (char *[]){run_bin, "-m", model, "-cnv", "--temp", "0", "--ignore-eos", "--cpu",
                             "ref", NULL});
        wait_for_prompt(&s, "the first prompt");
        if (i) type(&s, "Who is it?\r");
        if (i) wait_for(&s, first, "an answer without end");
        kill(s.pid, SIGTERM);
        finish(&s);
        check_that(s.code == 4, "SIGTERM %s: exit code %d",
                   i ? "within an answer" : "at the prompt", s.code);
    }

    narrower(&s);

    /* a paste of several lines is one message, and is edited as one; so is what Alt-Enter divides
     */
    start(&s, (char *[]){run_bin, "-m", model, "-cnv", "--temp", "0", "-n", "2", NULL});
    wait_for_prompt(&s, "the first prompt");
    check_that(strstr(s.text, "\x1b[?2004h") != NULL, "pastes are asked for: %s", s.text);
    type(&s, "\x1b[200~one\r/reset\rtwo\x1bx\x1b[201~!");
    wait_for(&s, "!", "a paste");
    type(&s, "\x7f?\r");
    wait_for_prompt(&s, "after a paste");
    type(&s, "this\x1b\rthat\r");
    wait_for_prompt(&s, "after Alt-Enter");
    snprintf(text, sizeof text, "/save %s\r", saved);
    type(&s, text);
    wait_for_prompt(&s, "after /save");
    type(&s, "\x04");
    finish(&s);
    m = load_messages();
    check_that(s.code == 0 && !strcmp(content(m, 0), "one\n/reset\ntwox?") &&
                   !strcmp(content(m, 2), "this\nthat"),
               "a paste is '%s', Alt-Enter gives '%s'", content(m, 0), content(m, 2));
    json_decref(m);
    unlink(saved);

    /* reasoning is dim on a terminal */
    write_thinking();
    start(&s, (char *[]){run_bin, "-m", model, "--chat", THINK, "-p", "Why?", NULL});
    finish(&s);
    check_that(s.code == 0 && strstr(s.text, "\033[2m") && strstr(s.text, "\033[0m"),
               "reasoning is dim: %s", s.text);
    start(&s, (char *[]){run_bin, "-m", model, "--chat", "-n", "5", "-p", "Why?", NULL});
    finish(&s);
    check_that(s.code == 0 && !strchr(s.text, 27), "an answer is not: %s", s.text);

    /* a terminal gets nothing that it would obey, a pipe gets the bytes */
    char *args[] = {run_bin, "-m", model, "--temp", "0", "-n", "1", "-p", "a\033]0;b\007\302\2335m",
                    NULL};
    start(&s, args);
    finish(&s);
    check_that(s.code == 0 && strstr(s.text, "a^[]0;b^G<U+009B>5m") && !strchr(s.text, 27),
               "control characters on a terminal: %s", s.text);
    process_run(&p, args, NULL);
    check(p.code == 0 && !strncmp(p.out, args[8], strlen(args[8])), "the same through a pipe", &p);
    process_free(&p);
}

int main(int argc, char **argv)
{
    if (argc < 2) return 2;
    begin(argv[1]);
    terminal();
    shell_ok("rm -r %s", dir);
    return report("terminal");
}
