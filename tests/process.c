#include "tests/process.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void die(const char *what)
{
    perror(what);
    exit(2);
}

/* A shell lets its background jobs ignore Ctrl-C, and so would what is tested. */
__attribute__((constructor)) static void take_signals(void)
{
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
}

void process_run(struct process *p, char *const argv[], const char *input)
{
    int in[2], out[2], err[2];
    memset(p, 0, sizeof *p);
    if (pipe(in) || pipe(out) || pipe(err)) die("pipe");
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) die("fork");
    if (!pid) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        dup2(err[1], 2);
        for (int fd = 3; fd < 64; fd++) close(fd);
        execv(argv[0], argv);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    close(err[1]);
    signal(SIGPIPE, SIG_IGN);
    if (input && write(in[1], input, strlen(input)) < 0)
        perror("write"); /* shorter than a pipe's buffer */
    close(in[1]);
    struct pollfd fds[2] = {{out[0], POLLIN, 0}, {err[0], POLLIN, 0}};
    char **text[2] = {&p->out, &p->err};
    size_t *n[2] = {&p->out_bytes, &p->err_bytes};
    for (int open = 2; open;) {
        if (poll(fds, 2, -1) < 0) die("poll");
        for (int i = 0; i < 2; i++) {
            if (fds[i].fd < 0 || !fds[i].revents) continue;
            char buffer[65536];
            ssize_t got = read(fds[i].fd, buffer, sizeof buffer);
            if (got <= 0) {
                close(fds[i].fd);
                fds[i].fd = -1;
                open--;
                continue;
            }
            *text[i] = realloc(*text[i], *n[i] + (size_t)got + 1);
            if (!*text[i]) die("realloc");
            memcpy(*text[i] + *n[i], buffer, (size_t)got);
            *n[i] += (size_t)got;
        }
    }
    for (int i = 0; i < 2; i++) {
        if (!*text[i]) *text[i] = calloc(1, 1);
        (*text[i])[*n[i]] = 0;
    }
    int status;
    waitpid(pid, &status, 0);
    p->code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void process_free(struct process *p)
{
    free(p->out);
    free(p->err);
    memset(p, 0, sizeof *p);
}
