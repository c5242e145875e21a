/* The words of the programs are what llvm-mc-19 assembles from their text. */
#include "tests/emulators/gfx906/test/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static FILE *out;
static const struct line *lines[4096];
static int n_lines;

static void write_line(const struct line *l)
{
    if (n_lines == COUNT(lines)) return;
    lines[n_lines++] = l;
    fprintf(out, "%s\n", l->text);
}

void test_words(void)
{
    char path[] = "/tmp/gfx906-words-XXXXXX", command[256], text[1024];
    if (system("command -v llvm-mc-19 >/dev/null 2>&1")) {
        skip("words of the test programs against llvm-mc-19: it is not installed");
        return;
    }
    int fd = mkstemp(path);
    out = fd < 0 ? NULL : fdopen(fd, "w");
    if (!out) {
        check(0, "cannot write %s", path);
        return;
    }
    each_line(write_line);
    fclose(out);
    snprintf(command, sizeof command, "llvm-mc-19 -arch=amdgcn -mcpu=gfx906 -show-encoding %s",
             path);
    FILE *in = popen(command, "r");
    int n = 0, bad = -1;
    while (in && fgets(text, sizeof text, in)) {
        const char *p = strstr(text, "encoding: [");
        if (!p || n == n_lines) continue;
        uint32_t word[2] = {0};
        int bytes = 0;
        p += strlen("encoding: [");
        for (char *end; bytes < 8; p = end + 1) {
            word[bytes / 4] |= (uint32_t)strtoul(p, &end, 16) << 8 * (bytes % 4);
            bytes++;
            if (*end != ',') break;
        }
        if (bad < 0 && (memcmp(word, lines[n]->word, 8) || bytes / 4 != lines[n]->n)) bad = n;
        n++;
    }
    int rc = in ? pclose(in) : -1;
    unlink(path);
    check(rc == 0 && n == n_lines && n_lines < COUNT(lines),
          "llvm-mc-19 assembles the test programs (%d of %d lines)", n, n_lines);
    check(bad < 0, "words of '%s'", bad < 0 ? "" : lines[bad]->text);
}
