#include "core/base/process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The message is formatted in advance: the handler may only call write. */
static char bus_message[4400];
static const char *program;

static void on_bus(int sig, siginfo_t *info, void *context)
{
    (void)context;
    if (info->si_code != BUS_ADRERR) { /* not a page beyond the file's end: a bug of the program */
        signal(sig, SIG_DFL);
        raise(sig);
        return;
    }
    ssize_t ignored = write(2, bus_message, strlen(bus_message));
    (void)ignored;
    _exit(1);
}

void process_begin(const char *name)
{
    /* open takes the lowest free descriptor; the opposite access mode makes every use fail. */
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) < 0) _exit(1);
    program = name;
    process_maps(NULL);
    signal(SIGXFSZ, SIG_IGN);
    struct sigaction a = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO};
    sigaction(SIGBUS, &a, NULL);
}

void process_maps(const char *path)
{
    snprintf(
        bus_message, sizeof bus_message,
        "%s%s: %s cannot be read any more: it was cut while it was in use, or its disk failed\n",
        isatty(2) ? "\r\033[K" : "", program, path ? path : "a mapped file");
}
