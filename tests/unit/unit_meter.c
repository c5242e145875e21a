/* unit_meter.c: the progress line on pseudo-terminals of many widths, which may change during the
 * test, and the estimate of the time left. */
#include "cli/modes/meter.h"
#include "core/base/progress.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cmocka.h>

/* A terminal of a given width; only the cursor's row is examined. */
static struct {
    int master, slave, was, columns, at, longest;
    char row[1024];
} screen;

static void set_width(int columns)
{
    struct winsize w = {.ws_row = 24, .ws_col = (unsigned short)columns};
    assert_int_equal(ioctl(screen.slave, TIOCSWINSZ, &w), 0);
    screen.columns = columns;
}

/* stderr goes to a new terminal. */
static void open_screen(int columns)
{
    memset(&screen, 0, sizeof screen);
    screen.master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
    if (screen.master < 0) {
        print_message("SKIP no pseudo-terminal can be opened (is /dev/pts mounted?)\n");
        skip();
    }
    assert_true(screen.master >= 0 && !grantpt(screen.master) && !unlockpt(screen.master));
    screen.slave = open(ptsname(screen.master), O_RDWR | O_NOCTTY);
    assert_true(screen.slave >= 0);
    set_width(columns);
    screen.was = dup(2);
    dup2(screen.slave, 2);
}

/* Interprets the output. A character beyond the last column would wrap; so would the ^C that a
 * terminal echoes. */
static void draw_screen(void)
{
    char text[4096];
    ssize_t n;
    while ((n = read(screen.master, text, sizeof text)) > 0)
        for (ssize_t i = 0; i < n; i++) {
            if (text[i] == '\r') {
                screen.at = 0;
            } else if (n - i >= 3 && !memcmp(text + i, "\033[K", 3)) {
                screen.row[screen.at] = 0;
                i += 2;
            } else {
                assert_true((unsigned char)text[i] >= ' ');
                screen.row[screen.at++] = text[i];
                screen.row[screen.at] = 0;
                if (screen.at > screen.longest) screen.longest = screen.at;
                if (screen.at + 2 >= screen.columns && screen.columns > 3)
                    fail_msg("%d columns: \"%s\"", screen.columns, screen.row);
                assert_true(screen.at <= screen.columns);
            }
        }
}

static void close_screen(void)
{
    progress_clear();
    draw_screen();
    assert_string_equal(screen.row, "");
    assert_int_equal(screen.at, 0);
    dup2(screen.was, 2);
    close(screen.was);
    close(screen.slave);
    close(screen.master);
}

static const struct sched_stats busy = {.n_waiting = 240,
                                        .n_running = 256,
                                        .n_pages = 4352,
                                        .n_pages_used = 4070,
                                        .n_steps = 9,
                                        .n_prompt_tokens = 123456789,
                                        .n_generated_tokens = 98765432};

static void lines_fit_the_width(void **state)
{
    static const int widths[] = {40, 60, 80, 200, 79, 100, 41, 500, 20, 4, 1};
    (void)state;
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        struct meter m;
        open_screen(widths[i]);
        meter_open(&m, 1000000, 0, 1);
        assert_true(m.terminal);
        m.start -= 3; /* three seconds ago */
        for (uint64_t done = 0; done < 1000000; done = done * 7 + 3) {
            m.n_done = done;
            m.n_errors = done / 3;
            if (done) meter_answer(&m, 100, 100, 1, -1);
            meter_tick(&m, &busy, 1);
            draw_screen();
            char begins[64];
            snprintf(begins, sizeof begins, "%llu/1000000 done", (unsigned long long)done);
            if (widths[i] >= 40) assert_memory_equal(screen.row, begins, strlen(begins));
            if (widths[i] >= 200) assert_non_null(strstr(screen.row, "; KV pages 4070/4352"));
            if (widths[i] >= 80) assert_int_equal(!!strstr(screen.row, " left"), done > 0);
        }
        /* as much as fits is shown */
        if (widths[i] < 200 && widths[i] >= 40) assert_true(screen.longest > widths[i] - 40);
        close_screen();
    }
}

static void a_width_that_changes_is_followed(void **state)
{
    static const int widths[] = {200, 80, 40, 60, 40, 200, 41, 80};
    struct meter m;
    (void)state;
    open_screen(80);
    meter_open(&m, 1000, 0, 1);
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        set_width(widths[i]);
        screen.longest = 0;
        meter_tick(&m, &busy, 1);
        draw_screen();
        assert_true(screen.longest > 20);
    }
    close_screen();
    /* a terminal without a width counts as 80 columns */
    open_screen(0);
    screen.columns = 80;
    meter_tick(&m, &busy, 1);
    draw_screen();
    assert_true(screen.longest > 40);
    close_screen();
}

static void other_lines_fit(void **state)
{
    char part[3][300];
    (void)state;
    for (int columns = 1; columns < 210; columns += 3) {
        open_screen(columns);
        for (int i = 0; i < 3; i++) memset(part[i], 'a' + i, 299), part[i][20 + 30 * i] = 0;
        progress_draw((const char *const[]){part[0], "", NULL, part[1], part[2]}, 5);
        draw_screen();
        close_screen();
    }
}

/* 160 records of 100 tokens each, 16 at a time: they end in waves, the estimate stays steady. */
static void time_left_is_known_and_steady(void **state)
{
    struct meter m = {.n_total = 160};
    struct sched_stats s = {.n_running = 16};
    const double seconds_per_step = 0.25, whole = 160 / 16 * 100 * seconds_per_step;
    (void)state;
    assert_true(meter_left(&m, &s, 1) < 0);
    for (int step = 1; step <= 1000; step++) {
        double t = step * seconds_per_step;
        s.n_generated_tokens += 16;
        if (step % 100 == 0)
            for (int i = 0; i < 16; i++) m.n_done++, meter_answer(&m, 10, 100, 25, 1);
        double left = meter_left(&m, &s, t);
        if (step < 100) assert_true(left < 0);
        else if (fabs(left - (whole - t)) > 0.01 * whole)
            fail_msg("after %g s: %g s are left, not %g", t, left, whole - t);
    }
    /* resumed: the earlier run's answers do not count for the speed; refused records take no time
     */
    m = (struct meter){.n_total = 1000, .n_done = 900, .n_resumed = 900};
    s.n_generated_tokens = 50;
    assert_true(meter_left(&m, &s, 10) < 0);
    m.n_done += 10;
    assert_true(meter_left(&m, &s, 10) < 0);
    for (int i = 0; i < 10; i++) m.n_done++, meter_answer(&m, 10, 5, 1, 1);
    assert_true(fabs(meter_left(&m, &s, 10) - 40) < 0.01);
    /* without generated tokens the estimate is by answers */
    m = (struct meter){.n_total = 30, .n_done = 10};
    for (int i = 0; i < 10; i++) meter_answer(&m, 10, 0, 1, -1);
    s.n_generated_tokens = 0;
    assert_true(fabs(meter_left(&m, &s, 10) - 20) < 0.01);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_fit_the_width),
        cmocka_unit_test(a_width_that_changes_is_followed),
        cmocka_unit_test(other_lines_fit),
        cmocka_unit_test(time_left_is_known_and_steady),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
