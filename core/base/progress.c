#include "core/base/progress.h"

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
