/* signals.c: what SIGINT and SIGTERM do: the first one asks for the end, the second one is the end.
 * Everything here may run in a signal handler on any thread. */
#include "cli/run.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { EXIT_STOPPED = 4 };

volatile sig_atomic_t run_stop_requested;

static volatile sig_atomic_t only_ask, wake = -1;
static const char *volatile first_words, *volatile second_words;

static void say(const char *s)
{
    for (size_t n = s ? strlen(s) : 0; n;) {
        ssize_t w = write(2, s, n);
        if (w <= 0) return;
        s += w;
        n -= (size_t)w;
    }
}

void run_say_on_signal(const char *first, const char *second)
{
    first_words = first;
    second_words = second;
}

void run_interrupts_only_ask(int on) { only_ask = on; }

int run_signal_fd(void)
{
    if (wake < 0) wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return wake;
}

static void on_signal(int sig)
{
    int saved = errno;
    const uint64_t one = 1;
    if (only_ask && (sig == SIGINT || run_stop_requested == SIGINT)) {
        run_stop_requested = sig;
    } else if (!run_stop_requested) {
        run_stop_requested = sig;
        say(first_words);
    } else if (second_words) {
        say(second_words);
        _exit(EXIT_STOPPED);
    } else {
        signal(sig, SIG_DFL);
        raise(sig);
    }
    if (wake >= 0 && write(wake, &one, sizeof one) < 0) errno = saved; /* it can be read already */
    errno = saved;
}

void run_catch_signals(void)
{
    static const int signals[] = {SIGINT, SIGTERM};
    struct sigaction a = {.sa_handler = on_signal}, old;
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (!sigaction(signals[i], NULL, &old) && old.sa_handler != SIG_IGN)
            sigaction(signals[i], &a, NULL); /* nohup stays nohup */
}
