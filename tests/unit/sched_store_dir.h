/* sched_store_dir.h: for tests of the scheduler with prompts on disk: a directory, and stores in
 * it. */
#ifndef TESTS_SCHED_STORE_DIR_H
#define TESTS_SCHED_STORE_DIR_H

#include "core/sched/prefix_store.h"
#include "core/run/place.h"
#include "tests/unit/sched_records.h"

#include <unistd.h>

static char store_dir[64];
static int n_store_notes;

static void hear_store(void *arg, const char *line)
{
    (void)arg;
    n_store_notes++;
    printf("# %s\n", line);
}

static int make_store_dir(void **state)
{
    (void)state;
    strcpy(store_dir, "/tmp/opt4gptq-sched-store-XXXXXX");
    n_store_notes = 0;
    return !mkdtemp(store_dir);
}

static int remove_store_dir(void **state)
{
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", store_dir);
    return system(command) ? -1 : 0;
}

/* Of the model, whose contents depend on DEPENDS; most_bytes 0: any. */
static struct prefix_store *open_store(const struct backend *ops, enum kv_type kv,
                                       const char *depends, uint64_t most_bytes)
{
    struct prefix_store *s;
    struct err e;
    const struct prefix_store_options o = {
        .dir = store_dir,
        .most_bytes = most_bytes ? most_bytes : 1 << 30,
        .depends = depends,
        .bytes = {(size_t)place_kv_bytes(&model.plan, ops, kv, 1),
                  (size_t)place_state_bytes(&model.plan)},
        .note = hear_store};
    if (prefix_store_open(&s, &o, &e)) fail_msg("%s", e.msg);
    return s;
}

#endif
