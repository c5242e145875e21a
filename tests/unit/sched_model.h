/* sched_model.h: the model of the scheduler's tests: tests/data/gptq/llama, converted by the
 * converter of the build. */
#ifndef TESTS_SCHED_MODEL_H
#define TESTS_SCHED_MODEL_H

#include "tests/unit/sched_records.h"

#include <sys/wait.h>
#include <unistd.h>

static int convert_model(void **state)
{
    (void)state;
    char self[3000], converter[3100], dir[] = "/tmp/opt4gptq-sched-XXXXXX", path[64];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0 || !mkdtemp(dir)) return -1;
    self[n] = 0;
    for (int i = 0; i < 3; i++) *strrchr(self, '/') = 0;
    snprintf(converter, sizeof converter, "%s/opt4gptq-convert", self);
    snprintf(path, sizeof path, "%s/model", dir);
    pid_t child = fork();
    if (!child) {
        execl(converter, converter, "-q", "tests/data/gptq/llama", path, (char *)NULL);
        _exit(127);
    }
    int status = -1;
    struct err e = {.msg = "does not convert"};
    int rc = child < 0 || waitpid(child, &status, 0) != child || status ||
             model_open(&model, path, &e);
    if (rc) fprintf(stderr, "%s: %s\n", converter, e.msg);
    unlink(path);
    rmdir(dir);
    return rc ? -1 : 0;
}

static int close_model(void **state)
{
    (void)state;
    model_close(&model);
    return 0;
}

#endif
