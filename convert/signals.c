#include "convert/signals.h"

#include <unistd.h>

volatile sig_atomic_t signals_stop;

static void on_stop(int s) { signals_stop = s; }

static void on_bus(int s)
{
    static const char line[] = "opt4gptq-convert: the file became shorter while it was read, or its disk failed\n";
    (void)s;
    if (write(STDERR_FILENO, line, sizeof line - 1) < 0) _exit(1);
    _exit(1);
}

void signals_of_files(void)
{
    struct sigaction bus = {.sa_handler = on_bus};
    sigaction(SIGBUS, &bus, NULL);
    signal(SIGXFSZ, SIG_IGN);
}

void signals_of_people(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction a = {.sa_handler = on_stop}, old;
    for (int i = 0; i < 3; i++)
        if (!sigaction(signals[i], NULL, &old) && old.sa_handler != SIG_IGN) sigaction(signals[i], &a, NULL); /* nohup stays nohup */
}
