#include "core/base/progress.h"

#include "core/base/clock.h"
#include "core/base/units.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define ERASE "\r\033[K"
enum {
    MAX_LINE = 512,
    USUAL_COLUMNS = 80,
    SPARE_COLUMNS = 3 /* ^C, and a last column that stays empty */
};

/* Between two lines, and until the first one on a terminal. */
static const double TERMINAL_SECONDS = 0.5, FIRST_SECONDS = 1, LOG_SECONDS = 30, MAX_SECONDS = 1e7;

static int is_drawn;

int progress_terminal(void) { return isatty(2); }

const char *progress_erase(void) { return isatty(2) ? ERASE : ""; }

static int columns(void)
{
    struct winsize w;
    int n = ioctl(2, TIOCGWINSZ, &w) || !w.ws_col ? USUAL_COLUMNS : w.ws_col;
    return n > SPARE_COLUMNS ? n - SPARE_COLUMNS : 1;
}

/* Joins the parts that fit into ROOM bytes; a first part that does not fit is truncated. */
static int join(char line[MAX_LINE], const char *const part[], int n, int room)
{
    int used = 0;
    if (room >= MAX_LINE) room = MAX_LINE - 1;
    for (int i = 0; i < n; i++) {
        int len = part[i] ? (int)strlen(part[i]) : 0, gap = used ? 2 : 0;
        if (!len) continue;
        if (used + gap + len > room) {
            if (used) break;
            len = room;
        }
        used += snprintf(line + used, (size_t)(MAX_LINE - used), "%s%.*s", gap ? "; " : "", len,
                         part[i]);
    }
    return used;
}

void progress_draw(const char *const part[], int n)
{
    char line[MAX_LINE];
    fprintf(stderr, ERASE "%.*s", join(line, part, n, columns()), line);
    fflush(stderr);
    is_drawn = 1;
}

void progress_log(const char *const part[], int n)
{
    char line[MAX_LINE];
    fprintf(stderr, "%.*s\n", join(line, part, n, MAX_LINE - 1), line);
}

void progress_clear(void)
{
    if (is_drawn) fputs(ERASE, stderr);
    fflush(stderr);
    is_drawn = 0;
}

void progress_begin(struct progress *p)
{
    *p = (struct progress){.start = clock_now(), .terminal = progress_terminal()};
    p->shown = p->start + (p->terminal ? FIRST_SECONDS - TERMINAL_SECONDS : 0);
}

int progress_due(struct progress *p)
{
    double now = clock_now();
    if (now - p->shown < (p->terminal ? TERMINAL_SECONDS : LOG_SECONDS)) return 0;
    p->shown = now;
    return 1;
}

void progress_show(const struct progress *p, const char *const part[], int n)
{
    (p->terminal ? progress_draw : progress_log)(part, n);
}

const char *progress_duration(double seconds, char text[PROGRESS_TEXT])
{
    int t = seconds < MAX_SECONDS ? (int)seconds : 0;
    text[0] = 0;
    if (seconds < 60) snprintf(text, PROGRESS_TEXT, "%.0f s left", seconds);
    else if (seconds < 3600) snprintf(text, PROGRESS_TEXT, "%d:%02d min left", t / 60, t % 60);
    else if (t) snprintf(text, PROGRESS_TEXT, "%d:%02d h left", t / 3600, t / 60 % 60);
    return text;
}

const char *progress_left(const struct progress *p, double done, double total,
                          char text[PROGRESS_TEXT])
{
    text[0] = 0;
    return done > 0 ? progress_duration((clock_now() - p->start) * (total - done) / done, text)
                    : text;
}

void progress_bytes(struct progress *p, const char *what, uint64_t done, uint64_t total)
{
    char part[PROGRESS_TEXT], left[PROGRESS_TEXT], bytes[2 * UNITS_TEXT + 8], a[UNITS_TEXT],
        b[UNITS_TEXT];
    if (!total || !progress_due(p)) return;
    snprintf(part, sizeof part, "%s %.0f%%", what, 100 * (double)done / (double)total);
    snprintf(bytes, sizeof bytes, "%s of %s", units_bytes(done, a), units_bytes(total, b));
    progress_show(
        p, (const char *const[]){part, progress_left(p, (double)done, (double)total, left), bytes},
        3);
}
