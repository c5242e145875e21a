/* signals.c: SIGINT and SIGTERM end a run in order. */
#include "cli/run.h"

#include <stddef.h>

volatile sig_atomic_t run_stop_requested;

static void on_signal(int sig)
{
    run_stop_requested = 1;
    signal(sig, SIG_DFL);
}

void run_catch_signals(void)
{
    static const int signals[] = {SIGINT, SIGTERM};
    struct sigaction a = {.sa_handler = on_signal}, old;
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (!sigaction(signals[i], NULL, &old) && old.sa_handler != SIG_IGN) sigaction(signals[i], &a, NULL); /* nohup stays nohup */
}
